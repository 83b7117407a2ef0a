"""The views of a report: which analysis, which columns a terminal shows, what it is sorted by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pillion import analysis
from pillion._errors import UsageError
from pillion._tables import Columns, Tables
from pillion.render.units import count, percent, seconds


class Column(NamedTuple):
    """A column of a terminal's table.

    Attributes:
        key: of the analysis; a column that a capture has not got is left out.
        header: as shown.
        cell: formats a value; None is one that nobody measured.
    """

    key: str
    header: str
    cell: Callable[[Any], str]


class View(NamedTuple):
    """One way to look at a capture.

    Attributes:
        title: one line above the table.
        label: makes the text of a row's first column from the row.
        label_header: its header.
        columns: the numbers that a terminal shows.
        sort: the columns of the analysis that decide the order unless the user says another.
        rows: the analysis.
    """

    title: str
    label: Callable[[dict[str, object]], str]
    label_header: str
    columns: tuple[Column, ...]
    sort: tuple[str, ...]
    rows: Callable[[Tables], Columns]


def _name(row: dict[str, object]) -> str:
    return str(row["name"]) or "(no name)"


def _function(row: dict[str, object]) -> str:
    """``name (file:line)`` for Python, ``name [module]`` for the rest; --json has whole paths."""
    name = _name(row)
    if row.get("file"):
        return f"{name} ({str(row['file']).rpartition('/')[2]}:{row['line']})"
    where = row.get("module") or (row.get("kind") if row.get("kind") == "kernel" else "")
    return name if not where or name == f"[{where}]" else f"{name} [{where}]"


def _wait(row: dict[str, object]) -> str:
    where = _function(row) if row["name"] else "(no stack)"
    woken_by = f" ← {row['woken_by']}" if row["woken_by"] else ""
    return f"{row['reason'] or row['state']} in {where}{woken_by}"


def _kernel(row: dict[str, object]) -> str:
    """The name, and the innermost Python function from where it was launched."""
    launched_at = str(row["launched_at"]).rpartition("/")[2]
    return f"{_name(row)} ← {launched_at}" if launched_at else _name(row)


def _launch(row: dict[str, object]) -> str:
    where = _function(row) if row["name"] else "(no stack)"
    caller = str(row["caller"]).rpartition("/")[2]
    return f"{where}{f' ← {caller}' if caller else ''} in {row['range'] or '(no range)'}"


def _thread(row: dict[str, object]) -> str:
    return f"{row['name'] or 'thread'} ({row['tid']})"


def _process(row: dict[str, object]) -> str:
    return f"{row['name'] or 'process'} ({row['pid']})"


_COUNT_COLUMNS = (Column("calls", "ranges", count), Column("samples", "samples", count))
_SCHEDULER_COLUMNS = (
    Column("on_cpu_ns", "on CPU", seconds),
    Column("off_cpu_ns", "off CPU", seconds),
    Column("runnable_ns", "runnable", seconds),
    Column("switches", "switches", count),
)

VIEWS: dict[str, View] = {
    "range": View(
        "by range: wall time measured, on-CPU time sampled, off-CPU time measured",
        _name,
        "range",
        (
            Column("calls", "calls", count),
            Column("self_cpu_ns", "self wall", seconds),
            Column("cpu_total_ns", "wall", seconds),
            Column("samples", "samples", count),
            Column("on_cpu_ns", "on CPU", seconds),
            Column("off_cpu_ns", "off CPU", seconds),
            Column("device_ns", "GPU", seconds),
        ),
        ("cpu_total_ns", "on_cpu_ns"),
        analysis.ranges,
    ),
    "function": View(
        "by function: on-CPU time sampled, off-CPU time measured",
        _function,
        "function",
        (
            Column("self_samples", "self", count),
            Column("samples", "samples", count),
            Column("self_on_cpu_ns", "self CPU", seconds),
            Column("on_cpu_ns", "on CPU", seconds),
            Column("off_cpu_ns", "off CPU", seconds),
        ),
        ("self_samples", "on_cpu_ns", "off_cpu_ns"),
        analysis.functions,
    ),
    "thread": View(
        "by thread: times exact, from the scheduler",
        _thread,
        "thread",
        (Column("pid", "pid", str), *_COUNT_COLUMNS, *_SCHEDULER_COLUMNS),
        ("on_cpu_ns", "samples", "calls"),
        analysis.threads,
    ),
    "process": View(
        "by process: times exact, from the scheduler",
        _process,
        "process",
        (Column("threads", "threads", count), *_COUNT_COLUMNS, *_SCHEDULER_COLUMNS),
        ("on_cpu_ns", "samples", "calls"),
        analysis.processes,
    ),
    "wait": View(
        "by wait: what threads waited for, in which function, and who woke them",
        _wait,
        "wait",
        (
            Column("count", "waits", count),
            Column("off_cpu_ns", "off CPU", seconds),
            Column("max_ns", "longest", seconds),
            Column("runnable_ns", "runnable", seconds),
        ),
        ("off_cpu_ns",),
        analysis.waits,
    ),
    "gpu": View(
        "by GPU and stream: busy from the first to the last of what ran there",
        _name,
        "where",
        (
            Column("busy_share", "busy", percent),
            Column("busy_ns", "busy for", seconds),
            Column("idle_ns", "idle for", seconds),
            Column("gaps", "gaps", count),
            Column("longest_gap_ns", "longest gap", seconds),
            Column("activities", "activities", count),
        ),
        ("busy_ns",),
        analysis.devices,
    ),
    "kernel": View(
        "by kernel and copy: times measured by the GPU, its share of the time in which the GPU was busy",
        _kernel,
        "kernel ← launched at",
        (
            Column("calls", "calls", count),
            Column("device_ns", "total", seconds),
            Column("mean_ns", "mean", seconds),
            Column("max_ns", "longest", seconds),
            Column("busy_share", "share", percent),
            Column("device", "GPU", str),
        ),
        ("device_ns", "calls"),
        analysis.kernels,
    ),
    "launch": View(
        "by launch: from where work of GPUs was launched, in which range, and how long it took",
        _launch,
        "where",
        (
            Column("launches", "launches", count),
            Column("activities", "activities", count),
            Column("device_ns", "GPU", seconds),
        ),
        ("device_ns", "launches"),
        analysis.launches,
    ),
}


def view_rows(view: View, tables: Tables, sort: str | None = None, limit: int | None = None) -> list[dict[str, object]]:
    """The rows of a view as dicts, sorted: numbers descending, texts ascending, ties by the view's own order.

    Args:
        sort: a column of the analysis; None for the view's own.
        limit: rows at most; None for all.

    Raises:
        UsageError: there is no such column.
    """
    columns = view.rows(tables)
    if sort is not None and sort not in columns:
        raise UsageError(f"cannot sort by {sort}", "this view has no such column", f"it has {', '.join(columns)}")
    lists = [column.tolist() for column in columns.values()]
    rows: list[dict[str, object]] = [dict(zip(columns, values)) for values in zip(*lists)]
    rows.sort(key=view.label)
    for key in reversed(view.sort if sort is None else (sort, *view.sort)):
        _sort_stably(rows, key, is_text=columns[key].dtype == object)
    return rows if limit is None else rows[:limit]


def _sort_stably(rows: list[dict[str, Any]], key: str, is_text: bool) -> None:
    if is_text:
        rows.sort(key=lambda row: row[key] or "")
    else:
        rows.sort(key=lambda row: -row[key])
