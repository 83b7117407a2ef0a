"""What a recording shows when it ends: the top of some views, and what was measured, lost and spent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pillion.render.notes import capture_notes
from pillion.render.text import GPU_SECTIONS, section_lines

if TYPE_CHECKING:
    from pillion._capture import Capture

_SECTIONS = (
    ("range", "ranges", 8),
    ("function", "hottest functions", 5),
    ("wait", "where it waited", 5),
    *GPU_SECTIONS,
)


def render_summary(capture: Capture) -> str:
    """The top ranges, functions, waits and kernels; a section without rows is left out. It ends without a newline."""
    return "\n".join([*section_lines(capture, _SECTIONS), *capture_notes(capture)])
