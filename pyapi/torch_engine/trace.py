"""A result of torch's engine as columns: the getters of its events are called once each, in C, and never again.

torch's own getters are what this costs: some 15 of about 0.1 µs each an event, and the list of events itself. What they
give seldom (stacks, shapes, concrete inputs) is read only where it was recorded, or when somebody asks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pillion._native import lib
from pillion._tables import Array, Labels
from pillion.model.memory import MEMORY_EVENT_NAME, OUT_OF_MEMORY_EVENT_NAME
from pillion.model.rows import UTILITY_RANGES

_MEMORY = (MEMORY_EVENT_NAME, OUT_OF_MEMORY_EVENT_NAME)
_PART = 16_384  # events read at a time: some 6 MB of torch's objects
_TIMED_PART = 1_024  # the same under a timeout: some 2 ms
# Kinds of events that are always on the CPU: asking each event's device costs seven times what any other getter does.
_ON_CPU = ("cpu_op", "user_annotation", "python_function")
_UNLISTED_FRAMES = (
    ("autograd/__init__", "_make_grads"),
    ("autograd/__init__", "backward"),
    ("torch/tensor", "backward"),
    ("_internal/common_utils", "prof_callable"),
    ("_internal/common_utils", "prof_func_call"),
    ("_internal/common_utils", "prof_meth_call"),
)


@dataclass(frozen=True)
class TorchTrace:
    """What torch recorded, in the order of its result. Times are torch's, wall-clock nanoseconds.

    Attributes:
        columns: one value an event: name, kind (Labels), start_ns, end_ns, thread, tid, number, linked, is_async,
            scope, sequence_nr, fwd_thread, device_type, device_index, annotation; as asked for: overload, shapes,
            stack, flops, bytes (of memory records), kernel_ns.
        hidden: mask of what torch's lists leave out; memory records are among them.
        memory: rows of memory records.
        texts: what name, overload and shapes index; row 0 is "".
        stacks: what stack indexes: entries innermost first; row 0 is empty.
        unread: how many events there were no time for.
    """

    columns: dict[str, Any]
    hidden: Array
    memory: Array
    texts: list[str]
    stacks: list[tuple[str, ...]]
    origin_ns: int
    unread: int = 0


class _Interned:
    """Values numbered in the order in which they come."""

    def __init__(self, first: Hashable) -> None:
        self.known: dict[Any, int] = {first: 0}

    def codes(self, values: Iterable[Hashable], count: int) -> Array:
        known = self.known
        return np.fromiter((known.setdefault(value, len(known)) for value in values), np.int32, count)


class _Reader:
    """Calls one getter of all events."""

    def __init__(self, events: Sequence[Any]) -> None:
        self._events = events
        self.type = type(events[0]) if events else object

    def __len__(self) -> int:
        return len(self._events)

    def has(self, getter: str) -> bool:
        return hasattr(self.type, getter)

    def values(self, getter: str, rows: Array | None = None) -> Iterable[Any]:
        events = self._events if rows is None else [self._events[row] for row in rows.tolist()]
        return map(getattr(self.type, getter), events) if events else ()

    def decoded(self, getter: str, made_of: Callable[[str], Any] = str) -> list[Any]:
        """What a getter of texts gives, though torch may write down what is no text.

        Args:
            made_of: the value of an event with bytes that are no UTF-8, of their text with � in it.
        """
        try:
            return list(self.values(getter))
        except UnicodeDecodeError:
            return [_decoded(getattr(self.type, getter), event, made_of) for event in self._events]

    def numbers(self, getter: str, dtype: str, rows: Array | None = None) -> Array:
        return np.fromiter(self.values(getter, rows), dtype, len(self._events) if rows is None else len(rows))


class _Wanted(NamedTuple):
    use_device: str | None
    record_shapes: bool
    with_stack: bool
    with_flops: bool
    is_privateuse1: bool


def read_trace(
    result: Any,
    *,
    use_device: str | None = None,
    record_shapes: bool = False,
    with_stack: bool = False,
    with_flops: bool = False,
    is_privateuse1: bool = False,
    timeout_s: float | None = None,
) -> TorchTrace:
    """The columns of a result of ``torch.autograd._disable_profiler()``.

    Args:
        timeout_s: the events that are read within this time; None: all.

    Raises:
        RuntimeError: an event is linked to a negative number.
    """
    wanted = _Wanted(use_device, record_shapes, with_stack, with_flops, is_privateuse1)
    texts, stacks, kinds = _Interned(""), _Interned(()), _Interned("cpu_op")
    columns: dict[str, Any] = {}
    events = result.events()
    begin, count = 0, len(events)
    for part in _consumed(events, timeout_s):
        # Columns of the whole, as what is kept of each part would hold on to the memory that torch's objects leave.
        for name, values in _read_part(_Reader(part), wanted, texts, stacks, kinds).items():
            if name not in columns:
                columns[name] = np.empty(count, values.dtype)
            columns[name][begin : begin + len(values)] = values
        begin += len(part)
    columns = {name: values[:begin] for name, values in columns.items()}
    columns["kind"] = Labels(columns["kind"], tuple(kinds.known))
    memory = np.flatnonzero(_named(columns["name"], texts, _MEMORY))
    hidden = columns.pop("hidden") | _named(columns["name"], texts, UTILITY_RANGES)
    return TorchTrace(
        columns, hidden, memory, list(texts.known), list(stacks.known), result.trace_start_ns(), len(events)
    )


def _consumed(events: list[Any], timeout_s: float | None = None) -> Iterator[list[Any]]:
    """The events in parts, each gone once it is read: torch's objects take 340 bytes each, our columns 90.

    After the timeout no more are taken; what is left stays in ``events``. There is one part at least, if an empty one.
    """
    end_s = None if timeout_s is None else time.monotonic() + timeout_s
    size = _PART if end_s is None else _TIMED_PART
    events.reverse()
    yielded = False
    while events and (end_s is None or time.monotonic() < end_s):
        part = events[: -size - 1 : -1]
        del events[-size:]
        lib.pln_heap_trim()
        yielded = True
        yield part
    if not yielded:
        yield []


def _read_part(
    reader: _Reader, wanted: _Wanted, texts: _Interned, stacks: _Interned, kinds: _Interned
) -> dict[str, Array]:
    count = len(reader)
    columns = {
        "name": texts.codes(reader.decoded("name"), count),
        "start_ns": reader.numbers("start_ns", "i8"),
        "end_ns": reader.numbers("end_ns", "i8"),
        "thread": reader.numbers("start_thread_id", "i8"),
        "tid": reader.numbers("device_resource_id", "i8"),
        "number": reader.numbers("correlation_id", "i8"),
        "linked": reader.numbers("linked_correlation_id", "i8"),
        "scope": reader.numbers("scope", "i2"),
        "sequence_nr": reader.numbers("sequence_nr", "i8"),
        "fwd_thread": reader.numbers("fwd_thread_id", "i8"),
        "annotation": reader.numbers("is_user_annotation", "?"),
    }
    if columns["linked"].min(initial=0) < 0:
        raise RuntimeError(f"torch linked an event to {columns['linked'].min()}, a negative correlation id")
    ended = reader.numbers("end_thread_id", "i8")
    columns["is_async"] = reader.numbers("is_async", "?") | (columns["thread"] != ended)
    columns["kind"] = _kind_codes(reader, columns["annotation"], kinds)
    columns["device_type"], columns["device_index"] = _devices(reader, columns["kind"], kinds, count)
    columns["hidden"] = (
        reader.numbers("is_hidden_event", "?") if reader.has("is_hidden_event") else np.zeros(count, "?")
    )
    is_memory = np.flatnonzero(_named(columns["name"], texts, _MEMORY))
    columns["bytes"] = np.zeros(count, np.int64)
    columns["bytes"][is_memory] = reader.numbers("nbytes", "i8", is_memory)
    if reader.has("overload_name"):
        columns["overload"] = texts.codes(reader.decoded("overload_name"), count)
    if wanted.record_shapes:
        columns["shapes"] = texts.codes(map(_shapes_text, reader.values("shapes")), count)
    if wanted.with_stack:
        columns["stack"] = stacks.codes(map(_listed_frames, reader.decoded("stack", _only)), count)
    if wanted.with_flops:
        columns["flops"] = reader.numbers("flops", "i8")
    if wanted.use_device == "cuda" or wanted.is_privateuse1:
        getter = "privateuse1_elapsed_us" if wanted.is_privateuse1 else "cuda_elapsed_us"
        columns["kernel_ns"] = _fallback_times(reader, getter, columns)
    return columns


def _decoded(read: Callable[[Any], Any], event: Any, made_of: Callable[[str], Any]) -> Any:
    try:
        return read(event)
    except UnicodeDecodeError as error:
        return made_of(bytes(error.object).decode(errors="replace"))


def _only(entry: str) -> list[str]:
    return [entry]  # torch gives a stack whole or not at all


def _named(name: Array, texts: _Interned, wanted: Iterable[str]) -> Array:
    return np.isin(name, [texts.known[text] for text in wanted if text in texts.known])


def _kind_codes(reader: _Reader, annotation: Array, kinds: _Interned) -> Array:
    if reader.has("activity_type"):
        return kinds.codes((str(kind) for kind in reader.values("activity_type")), len(annotation))
    return np.where(annotation, kinds.codes(["user_annotation"], 1)[0], 0).astype(np.int32)


def _devices(reader: _Reader, codes: Array, kinds: _Interned, count: int) -> tuple[Array, Array]:
    device_type, device_index = np.zeros(count, np.int8), np.zeros(count, np.int32)
    elsewhere = ~_named(codes, kinds, _ON_CPU) if reader.has("activity_type") else np.ones(count, "?")
    rows = np.flatnonzero(elsewhere)
    device_type[rows] = np.fromiter((int(kind) for kind in reader.values("device_type", rows)), np.int8, len(rows))
    device_index[rows] = reader.numbers("device_index", "i8", rows)
    return device_type, device_index


def _fallback_times(reader: _Reader, getter: str, columns: dict[str, Any]) -> Array:
    """Device time that torch measured itself with its device's events, where the device has no tracer; ns."""
    count = len(columns["name"])
    if not reader.has(getter):
        return np.zeros(count, np.int64)
    times_us = reader.numbers(getter, "f8")
    usable = (times_us > 0) & (columns["device_type"] == 0) & ~columns["is_async"]
    return np.where(usable, np.rint(times_us * 1e3), 0).astype(np.int64)


def _shapes_text(shapes: Any) -> str:
    return str(shapes) if shapes else ""


def _listed_frames(entries: Iterable[str]) -> tuple[str, ...]:
    return tuple(
        entry for entry in entries if not any(file in entry and name in entry for file, name in _UNLISTED_FRAMES)
    )


# FunctionEvent's attribute to the getter that has it.
_GETTERS = {
    "concrete_inputs": "concrete_inputs",
    "kwinputs": "kwinputs",
    "_metadata_json": "metadata_json",
    "event_metadata": "extra_meta",
    "external_id": "external_id",
    "flow_id": "flow_id",
    "flow_type": "flow_type",
    "flow_start": "flow_start",
    "linked_correlation_id": "linked_correlation_id",
    "structured_input_shapes": "structured_input_shapes",
    "structured_input_strides": "structured_input_strides",
    "input_dtypes": "dtypes",
    "python_id": "python_id",
    "python_parent_id": "python_parent_id",
    "python_module_id": "python_module_id",
}


# What torch's getters give for a range without inputs: Pillion's ranges are told alike. Elsewhere it is None.
_OF_RANGES: dict[str, Callable[[], Any]] = {
    "concrete_inputs": list,
    "kwinputs": dict,
    "_metadata_json": str,
    "flow_id": int,
    "flow_type": int,
    "flow_start": bool,
    "linked_correlation_id": int,
    "structured_input_shapes": list,
    "structured_input_strides": list,
    "input_dtypes": list,
    "python_id": lambda: -1,
    "python_parent_id": lambda: -1,
    "python_module_id": lambda: -1,
}


def lazy_reader(result: Any, sources: Array) -> Callable[[str], Sequence[Any] | None]:
    """``Detail.read``: attributes of a result for rows that came from its events ``sources`` (−1: from none)."""
    known: dict[str, Sequence[Any] | None] = {}

    def read(name: str) -> Sequence[Any] | None:
        if name not in known:
            reader = _Reader(result.events())
            getter = _GETTERS.get(name, "")
            if not reader.has(getter):
                known[name] = None
            else:
                values, of_range = list(reader.values(getter)), _OF_RANGES.get(name, lambda: None)
                known[name] = [values[source] if source >= 0 else of_range() for source in sources.tolist()]
        return known[name]

    return read
