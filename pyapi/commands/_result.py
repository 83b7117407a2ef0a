"""The end of a recording on the command line: the tables are made, the summary and the last lines are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pillion._capture import Capture
from pillion._errors import PillionError
from pillion._session import Recording
from pillion.commands._progress import ProgressLine


def save_and_show(recording: Recording, show: Callable[[str], None], progress: ProgressLine) -> PillionError | None:
    """Makes the capture and hands what it says to ``show``, without its last newline.

    Returns:
        What kept the recording from being whole, if anything did: to be raised once everything else is done.
    """
    try:
        capture = recording.save()
    except PillionError as error:
        if recording.failure and recording.failure is not error:
            progress.note(str(recording.failure))
        return error
    from pillion.render.summary import render_summary

    show(render_summary(capture))
    for line in _last_lines(recording, capture):
        show(line)
    return recording.failure


def _last_lines(recording: Recording, capture: Capture) -> Iterator[str]:
    path = capture.path
    yield f"capture  {path}, {recording.output.size_bytes() / 1e6:.1f} MB"
    yield f"look     pillion report {path} --by function; pillion export {path} -f chrome -o trace.json"
