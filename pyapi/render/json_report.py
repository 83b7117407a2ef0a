"""A report for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pillion._tables import length
from pillion.render.notes import losses
from pillion.render.views import VIEWS, view_rows

if TYPE_CHECKING:
    from pillion._capture import Capture


def render_json(capture: Capture, by: str, sort: str | None = None, limit: int | None = None) -> str:
    """``{"meta": {…}, "losses": {kind: count}, "rows": [{…}]}``; times in ns, null where nobody measured.

    The view of ranges has ``gpus`` and ``kernels`` as well where GPUs did anything: the rows of these views.

    Raises:
        UsageError: the view has no column ``sort``.
    """
    rows = _measured(view_rows(VIEWS[by], capture.columns, sort, limit))
    more = {}
    if by == "range" and length(capture.columns["activities"]):
        more = {
            f"{view}s": _measured(view_rows(VIEWS[view], capture.columns, None, limit)) for view in ("gpu", "kernel")
        }
    return json.dumps({"meta": capture.meta, "losses": losses(capture), "rows": rows, **more}, indent=1)


def _measured(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{key: None if value == -1 else value for key, value in row.items()} for row in rows]
