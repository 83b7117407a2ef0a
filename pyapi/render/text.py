"""A report for a terminal, at most 100 columns wide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pillion.render.notes import capture_notes
from pillion.render.units import WIDTH, cut
from pillion.render.views import VIEWS, View, view_rows

if TYPE_CHECKING:
    from pillion._capture import Capture

_GAP = "  "

# View, title, rows at most.
GPU_SECTIONS = (("gpu", "GPUs and their streams", 5), ("kernel", "GPU kernels and copies", 8))


def render_report(capture: Capture, by: str, sort: str | None = None, limit: int | None = 30) -> str:
    """A view of a capture as a table, and what was measured, lost and spent.

    Args:
        by: a key of ``VIEWS``.
        sort: a column of the analysis, None for the view's own.
        limit: rows at most, None for all.

    Raises:
        UsageError: the view has no column ``sort``.
    """
    view = VIEWS[by]
    rows = view_rows(view, capture.columns, sort)
    shown = rows[:limit]
    lines = [view.title, "", *table_lines(view, shown)]
    if len(shown) < len(rows):
        lines.append(f"… {len(rows) - len(shown):,} more; --limit 0 shows all")
    if by == "range":
        lines += ["", *section_lines(capture, GPU_SECTIONS)][:-1]
    return "\n".join([*lines, "", *capture_notes(capture)])


def table_lines(view: View, rows: Sequence[dict[str, object]]) -> list[str]:
    """The rows under their headers; numbers first, so that they line up whatever the names are."""
    if not rows:
        return ["(nothing recorded)"]
    columns = [column for column in view.columns if column.key in rows[0]]
    cells = [[column.cell(_measured(row[column.key])) for column in columns] for row in rows]
    headers = [column.header for column in columns]
    widths = [max(map(len, column)) for column in zip(headers, *cells)]
    room = WIDTH - sum(widths) - len(_GAP) * len(widths)

    def line(numbers: Sequence[str], label: str) -> str:
        return _GAP.join([*(number.rjust(width) for number, width in zip(numbers, widths)), cut(label, room)])

    return [line(headers, view.label_header), *(line(numbers, view.label(row)) for numbers, row in zip(cells, rows))]


def _measured(value: Any) -> Any:
    """A −1 of the tables is a number that nobody measured."""
    return None if value == -1 else value


def section_lines(capture: Capture, sections: Sequence[tuple[str, str, int]]) -> list[str]:
    """The top of several views (view, title, rows at most), each with an empty line behind it; none without rows."""
    lines: list[str] = []
    for by, title, limit in sections:
        rows = view_rows(VIEWS[by], capture.columns, limit=limit)
        if rows:
            lines += [title, *table_lines(VIEWS[by], rows), ""]
    return lines
