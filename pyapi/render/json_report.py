"""A report for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pillion.render.notes import losses
from pillion.render.views import VIEWS, view_rows

if TYPE_CHECKING:
    from pillion._capture import Capture


def render_json(capture: Capture, by: str, sort: str | None = None, limit: int | None = None) -> str:
    """``{"meta": {…}, "losses": {kind: count}, "rows": [{…}]}``; times in ns, null where nobody measured.

    Raises:
        UsageError: the view has no column ``sort``.
    """
    rows = view_rows(VIEWS[by], capture.columns, sort, limit)
    measured = [{key: None if value == -1 else value for key, value in row.items()} for row in rows]
    return json.dumps({"meta": capture.meta, "losses": losses(capture), "rows": measured}, indent=1)
