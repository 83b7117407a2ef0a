"""Stacks and samples of a Perfetto trace.

Names beside the numbers are those of the fields of Callstack, Frame, Mapping and PerfSample.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from pillion._tables import Tables, column
from pillion.export._perfetto_packets import FUNCTION_NAMES, MAPPING_PATHS, SOURCE_PATHS
from pillion.export._protobuf import integer, integers, message, messages
from pillion.export._rows import chunks, only

if TYPE_CHECKING:
    from pillion.export._perfetto_packets import Packets

_KINDS = {"native": 1, "kernel": 2, "python": 3}  # Frame.Kind: NATIVE, KERNEL, INTERPRETED
_KERNEL_MODE, _USER_MODE = 1, 2  # Profiling.CpuMode
_CALLSTACKS, _FRAMES, _MAPPINGS = 7, 6, 19  # of interned_data


def write_stacks(tables: Tables, packets: Packets) -> None:
    """Intern the stacks that anything refers to; the iid of a stack is its row."""
    stacks = tables["stacks"]["frames"]
    used = np.zeros(len(stacks), bool)
    for rows in (column("events", tables["events"], "stack"), tables["waits"]["stack"], tables["samples"]["stack"]):
        used[rows] = True
    used[0] = False  # the empty stack
    listed = {stack: stacks[stack].tolist() for stack in np.flatnonzero(used).tolist()}
    packets.entries(_frames(tables, packets, sorted({frame for frames in listed.values() for frame in frames})))
    packets.entries(
        message(_CALLSTACKS, integer(1, stack), *(integer(2, frame + 1) for frame in reversed(frames)))  # frame_ids
        for stack, frames in listed.items()
    )


def _frames(tables: Tables, packets: Packets, used: list[int]) -> Iterator[bytes]:
    """Mappings and frames; the iid of a frame is its row and one more."""
    frames = tables["frames"]
    names, files, modules, kinds = (frames[key][used].tolist() for key in ("name", "file", "module", "kind"))
    functions = packets.intern(FUNCTION_NAMES, names)
    sources = packets.intern(SOURCE_PATHS, [file for file in files if file])
    # A frame without a mapping is one that Perfetto cannot place; the kind stands in for a module that is not known.
    modules = [module or f"[{kind}]" for module, kind in zip(modules, kinds)]
    paths = packets.intern(MAPPING_PATHS, modules)
    for iid in sorted({paths[module] for module in modules}):
        yield message(_MAPPINGS, integer(1, iid), integer(7, iid))  # iid path_string_ids
    for frame, name, file, line, module, kind in zip(used, names, files, frames["line"][used].tolist(), modules, kinds):
        where = integer(5, sources[file]) + integer(6, max(line, 0)) if file else b""  # source_path_iid line_number
        # iid function_name_id mapping_id kind
        ids = (integer(1, frame + 1), integer(2, functions[name]), integer(3, paths[module]))
        yield message(_FRAMES, *ids, where, integer(7, _KINDS.get(kind, 0)))


def write_samples(tables: Tables, packets: Packets) -> None:
    """Moments on a CPU; the timebase counts the nanoseconds that each stands for."""
    samples, stacks = tables["samples"], tables["stacks"]["frames"]
    is_kernel = tables["frames"]["kind"] == "kernel"
    in_kernel = np.zeros(len(stacks), bool)
    filled = np.flatnonzero(np.diff(stacks.offsets))
    in_kernel[filled] = is_kernel[stacks.values[stacks.offsets[filled]]]
    for part in chunks(np.zeros(len(samples["ts_ns"]), np.int64)):
        stack = samples["stack"][part]
        sample = messages(
            66,  # perf_sample {cpu pid tid callstack_iid cpu_mode timebase_count}
            integers(1, samples["cpu"][part]),
            integers(2, samples["pid"][part]),
            integers(3, samples["tid"][part]),
            only(stack > 0, integers(4, stack)),
            integers(5, np.where(in_kernel[stack], _KERNEL_MODE, _USER_MODE)),
            integers(6, samples["weight_ns"][part]),
        )
        packets.rows(samples["ts_ns"][part], *sample)
