"""A report for a terminal, at most 100 columns wide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pillion.render.notes import capture_notes
from pillion.render.views import VIEWS, View, view_rows

if TYPE_CHECKING:
    from pillion._capture import Capture

WIDTH = 100
_GAP = "  "


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
    return "\n".join([*lines, "", *capture_notes(capture)])


def table_lines(view: View, rows: Sequence[dict[str, object]]) -> list[str]:
    """The rows under their headers; numbers first, so that they line up whatever the names are."""
    if not rows:
        return ["(nothing recorded)"]
    cells = [[column.cell(_measured(row[column.key])) for column in view.columns] for row in rows]
    headers = [column.header for column in view.columns]
    widths = [max(map(len, column)) for column in zip(headers, *cells)]
    room = WIDTH - sum(widths) - len(_GAP) * len(widths)

    def line(numbers: Sequence[str], label: str) -> str:
        return _GAP.join([*(number.rjust(width) for number, width in zip(numbers, widths)), cut(label, room)])

    return [line(headers, view.label_header), *(line(numbers, view.label(row)) for numbers, row in zip(cells, rows))]


def _measured(value: Any) -> Any:
    """A −1 of the tables is a number that nobody measured."""
    return None if value == -1 else value


def cut(text: str, width: int) -> str:
    """The text on one line, its middle left out where it is longer than ``width``: both ends of a name tell."""
    text = "".join(character if character.isprintable() else "?" for character in text)
    if len(text) <= width:
        return text
    head = (width - 1) * 2 // 3
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"
