"""What a recording shows when it ends: the top of three views, and what was measured, lost and spent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pillion.render.notes import capture_notes
from pillion.render.text import table_lines
from pillion.render.views import VIEWS, view_rows

if TYPE_CHECKING:
    from pillion._capture import Capture

_SECTIONS = (("range", "ranges", 8), ("function", "hottest functions", 5), ("wait", "where it waited", 5))


def render_summary(capture: Capture) -> str:
    """The top ranges, functions and waits; a section without rows is left out. It ends without a newline."""
    lines: list[str] = []
    for by, title, limit in _SECTIONS:
        rows = view_rows(VIEWS[by], capture.columns, limit=limit)
        if rows:
            lines += [title, *(f"{line}" for line in table_lines(VIEWS[by], rows)), ""]
    return "\n".join([*lines, *capture_notes(capture)])
