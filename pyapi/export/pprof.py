"""A profile for pprof: stacks with samples, time on and time off the CPU, labelled with thread and range.

Of a capture without samples and waits the nested ranges are the stacks, with calls, wall time of their own and time of
devices. The format: https://github.com/google/pprof/blob/main/proto/profile.proto, gzipped. Numbers in the code are
those of its fields, with their names beside them.
"""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from pillion._tables import Array, Tables, length
from pillion.export._call_tree import call_tree, has_stacks
from pillion.export._file import binary_output
from pillion.export._places import DeviceNames, streams, threads
from pillion.export._protobuf import integer, message, messages, packed, text, varints
from pillion.export._rows import chunks, content, joined, pick, sizes, words
from pillion.model.tree import sums

if TYPE_CHECKING:
    import pyarrow as pa

    from pillion._capture import Capture


def write_pprof(capture: Capture, path: str | os.PathLike[str]) -> None:
    """Write the profile, gzipped whatever its name is.

    Raises:
        OSError: the file cannot be written.
    """
    meta = capture.meta
    with binary_output(path, always_gzip=True) as file:
        profile = _Profile(file)
        if has_stacks(capture.columns):
            _write_stacks(profile, capture.columns, int(meta.get("period_ns") or 0))
        else:
            _write_ranges(profile, capture.columns, DeviceNames(meta))
        file.write(integer(9, meta["start_ns"] + meta["realtime_offset_ns"]))  # time_nanos
        file.write(integer(10, max((meta.get("end_ns") or 0) - meta["start_ns"], 0)))  # duration_nanos
        profile.write_strings()


def _write_stacks(profile: _Profile, tables: Tables, period_ns: int) -> None:
    samples, waits = tables["samples"], tables["waits"]
    both = {key: np.concatenate([samples[key], waits[key]]) for key in ("pid", "tid", "stack", "range_name")}
    none, ones = np.zeros(length(waits), np.int64), np.ones(length(samples), np.int64)
    off_ns = np.maximum(waits["end_ns"] - waits["start_ns"], 0)
    values = [
        np.concatenate([ones, none]),
        np.concatenate([samples["weight_ns"], none]),
        np.concatenate([0 * ones, off_ns]),
    ]
    profile.write_types([("samples", "count"), ("cpu", "nanoseconds"), ("off_cpu", "nanoseconds")])
    if period_ns:
        profile.write_period(("cpu", "nanoseconds"), period_ns)
    place, names = threads(tables, both["pid"], both["tid"])
    labels = {"thread": (place, names), "range": (both["range_name"], tables["strings"]["text"])}
    # An empty stack is one frame: readers leave out samples without a location.
    unknown = length(tables["frames"])
    used = np.unique(both["stack"])
    listed = [tables["stacks"]["frames"][stack].tolist() or [unknown] for stack in used.tolist()]
    profile.write_samples(np.searchsorted(used, both["stack"]), listed, labels, values)
    frames = {key: tables["frames"][key].tolist() for key in ("name", "file", "line", "module", "kind")}
    for frame in sorted({frame for frames_of in listed for frame in frames_of}):
        if frame == unknown:
            profile.write_frame(frame, "[unknown]")
        else:
            profile.write_frame(frame, *(frames[key][frame] for key in frames))


def _write_ranges(profile: _Profile, tables: Tables, names: DeviceNames) -> None:
    events, activities = tables["events"], tables["activities"]
    tree = call_tree(tables)
    known = np.flatnonzero(tree.node >= 0)
    profile.write_types([("calls", "count"), ("wall", "nanoseconds"), ("device", "nanoseconds")])
    on_host = threads(tables, events["pid"], events["tid"])
    on_device = streams(activities["device"], activities["stream"], names)
    place = np.concatenate([on_host.row, on_device.row + len(on_host.names)])
    listed: list[list[int]] = []
    for name, parent in zip(tree.name.tolist(), tree.parent.tolist()):
        listed.append([name, *(listed[parent] if parent >= 0 else ())])
    labels = {"thread": (place[known], on_host.names + on_device.names)}
    values = [column[known] for column in (tree.calls, tree.wall_ns, tree.device_ns)]
    profile.write_samples(tree.node[known], listed, labels, values)
    for name in np.unique(tree.name).tolist():
        profile.write_frame(name, tables["strings"]["text"][name])


class _Profile:
    """Writes a Profile, whose strings are known by their number."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._strings: dict[str, int] = {"": 0}
        self._mappings: dict[str, int] = {}

    def write_types(self, types: list[tuple[str, str]]) -> None:
        """What the values of samples are: (name, unit)."""
        for kind in types:
            self._file.write(message(1, *self._type(kind)))  # sample_type

    def write_period(self, kind: tuple[str, str], period: int) -> None:
        """How far samples are apart."""
        self._file.write(message(11, *self._type(kind)) + integer(12, period))  # period_type period

    def write_samples(
        self, stack: Array, listed: list[list[int]], labels: dict[str, tuple[Array, Any]], values: list[Array]
    ) -> None:
        """Write one sample for each stack and labels that occur together, with the sums of the values.

        Args:
            stack: of each row, a place in ``listed``.
            listed: the frames of stacks, leaf first.
            labels: by key, of each row a place in a list of texts; the empty text is no label.
            values: int64 columns.
        """
        group = stack.astype(np.int64)
        for places, texts in labels.values():
            _, group = np.unique(group * max(len(texts), 1) + places, return_inverse=True)
        _, first, group = np.unique(group, return_index=True, return_inverse=True)
        summed = [sums(group, column, len(first)) for column in values]
        locations = words([packed(1, [frame + 1 for frame in frames]) for frames in listed])  # location_id
        fields = [pick(locations, stack[first])]
        for key, (places, texts) in labels.items():
            fields.append(self._labels(key, places[first], texts))
        for part in chunks(sum(map(sizes, fields), np.zeros(len(first), np.int64))):
            numbers = messages(2, *(varints(column[part]) for column in summed))  # value
            self._file.write(content(joined(*messages(2, *(field[part] for field in fields), *numbers))))  # sample

    def write_frame(
        self,
        frame: int,
        name: str | None,
        file: str | None = "",
        line: int = 0,
        module: str | None = "",
        kind: str = "",
    ) -> None:
        """Write a function and its location, which are numbered from 1."""
        mapping = self._mapping(module or (f"[{kind}]" if kind == "kernel" else ""))
        where = message(4, integer(1, frame + 1), integer(2, max(line, 0)))  # line {function_id line}
        number = self._string(name)
        # id name system_name filename
        function = (integer(1, frame + 1), integer(2, number), integer(3, number), integer(4, self._string(file)))
        self._file.write(message(5, *function))
        self._file.write(message(4, integer(1, frame + 1), mapping, where))  # location {id mapping_id line}

    def write_strings(self) -> None:
        """Write the texts of all the numbers."""
        for one in self._strings:
            self._file.write(text(6, one))  # string_table

    def _type(self, kind: tuple[str, str]) -> tuple[bytes, bytes]:
        return integer(1, self._string(kind[0])), integer(2, self._string(kind[1]))  # type unit

    def _mapping(self, module: str) -> bytes:
        """A reference to a module, which is written when it is first asked for."""
        if not module:
            return b""
        if module not in self._mappings:
            self._mappings[module] = number = len(self._mappings) + 1
            has_functions = integer(7, 1)
            self._file.write(
                message(3, integer(1, number), integer(5, self._string(module)), has_functions)
            )  # filename
        return integer(2, self._mappings[module])

    def _labels(self, key: str, places: Array, texts: Any) -> pa.LargeBinaryArray:
        number = integer(1, self._string(key))
        used, row = np.unique(places, return_inverse=True)
        found = [texts[place] for place in used.tolist()]
        return pick(words([message(3, number, integer(2, self._string(one))) if one else b"" for one in found]), row)

    def _string(self, value: str | None) -> int:
        return self._strings.setdefault(value or "", len(self._strings))
