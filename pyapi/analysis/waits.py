"""Where threads waited, for what, and who woke them."""

from __future__ import annotations

import numpy as np

from pillion._tables import Array, Columns, Tables, length, text_column
from pillion.analysis.dominant import dominant
from pillion.model.tree import sums
from pillion_probes.layout import CONSTANTS

# How every thread leaves the CPU: these kernel functions say nothing about why.
_SCHEDULER = (
    "schedule",
    "__schedule",
    "preempt_schedule",
    "__cond_resched",
    "io_schedule",
    "finish_task_switch",
    "__traceiter_sched_switch",
    "__bpf_trace_sched_switch",
    "bpf_",
)
_STATES = {0: "runnable", 1: "sleeping", 2: "uninterruptible", 4: "stopped", 8: "traced"}


def waits(tables: Tables) -> Columns:
    """One row for each (function, reason): the nearest Python function, or the outermost known one, and the function of
    the kernel, or else of native code, in which it waited.

    ``woken_by`` is the thread that ended most of that time, "" for none known; ``range`` the range in which most of it
    was spent; ``runnable_ns`` the part spent waiting for a CPU.
    """
    numbers: dict[tuple[str, str, int, str], int] = {}
    stack_number = np.zeros(length(tables["stacks"]), np.int64)
    reasons = stack_reasons(tables)
    for stack in np.unique(tables["waits"]["stack"]).tolist():
        place = (*_function_of(tables, stack), reasons[stack])
        stack_number[stack] = numbers.setdefault(place, len(numbers))
    rows = tables["waits"]
    duration = np.maximum(rows["end_ns"] - rows["start_ns"], 0)
    # A thread that was pushed off the CPU waited for nothing, wherever it was.
    preempted = (rows["flags"] & CONSTANTS["PLN_PREEMPTED"]) != 0
    group_keys, group = np.unique(stack_number[rows["stack"]] * 2 + preempted, return_inverse=True)
    count = len(group_keys)
    longest = np.zeros(count, np.int64)
    np.maximum.at(longest, group, duration)
    places = list(numbers)
    found = [places[key // 2] for key in group_keys.tolist()]
    why = ["preempted" if key % 2 else place[3] for key, place in zip(group_keys.tolist(), found)]
    waker = dominant(group, (rows["waker_pid"].astype(np.int64) << 32) | rows["waker_tid"], duration, count)
    names = _thread_names(tables)
    state = dominant(group, rows["state"].astype(np.int64), duration, count)
    return {
        "name": text_column([place[0] for place in found]),
        "file": text_column([place[1] for place in found]),
        "line": np.array([place[2] for place in found], np.int64),
        "reason": text_column(why),
        "state": text_column([_STATES.get(value & 0xFF, str(value)) for value in state.tolist()]),
        "count": np.bincount(group, minlength=count).astype(np.int64),
        "off_cpu_ns": sums(group, duration, count),
        "max_ns": longest,
        "runnable_ns": sums(group, np.minimum(rows["runnable_ns"], duration), count),
        "woken_by": text_column([names.get(thread, "") for thread in waker.tolist()]),
        "range": tables["strings"]["text"][dominant(group, rows["range_name"].astype(np.int64), duration, count)],
    }


def stack_reasons(tables: Tables) -> Array:
    """For each stack the function that says why its thread was there, "" for none known.

    It is the leaf, without the kernel functions through which every thread leaves the CPU.
    """
    names, stacks = tables["frames"]["name"], tables["stacks"]["frames"]
    telling = ~np.array([name.startswith(_SCHEDULER) for name in names.tolist()], bool)
    is_kernel = tables["frames"]["kind"] == "kernel"
    reasons = text_column([""] * len(stacks))
    # Of the frames that tell, the first of each stack: assigned last to first, so that it stays.
    sizes = np.diff(stacks.offsets)
    stack_of = np.repeat(np.arange(len(sizes)), sizes)
    useful = (telling | ~is_kernel)[stacks.values]
    reasons[stack_of[useful][::-1]] = names[stacks.values[useful][::-1]]
    return reasons


def _function_of(tables: Tables, stack: int) -> tuple[str, str, int]:
    """(name, file, line) of the nearest Python function of a stack, of the outermost function where there is none."""
    frames = tables["frames"]
    listed = tables["stacks"]["frames"][stack].tolist()
    frame = next((frame for frame in listed if frames["kind"][frame] == "python"), listed[-1] if listed else None)
    if frame is None:
        return "", "", 0
    return frames["name"][frame], frames["file"][frame], int(frames["line"][frame])


def _thread_names(tables: Tables) -> dict[int, str]:
    """(pid << 32 | tid) to "name (tid)"."""
    threads = tables["threads"]
    columns = (threads["pid"].tolist(), threads["tid"].tolist(), threads["name"].tolist())
    return {pid << 32 | tid: f"{name or 'thread'} ({tid})" for pid, tid, name in zip(*columns)}
