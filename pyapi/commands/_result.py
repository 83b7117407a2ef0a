"""The end of a recording on the command line: the tables are made, the summary and the last lines are shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from pillion._capture import Capture
from pillion._errors import PillionError
from pillion._session import Recording
from pillion.commands._progress import ProgressLine


def save_and_show(recording: Recording, stream: TextIO, progress: ProgressLine) -> PillionError | None:
    """Makes the capture and writes what it says to ``stream``.

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

    print(render_summary(capture), file=stream)
    for line in _last_lines(recording, capture):
        print(line, file=stream)
    stream.flush()
    return recording.failure


def _last_lines(recording: Recording, capture: Capture) -> Iterator[str]:
    path = capture.path
    yield f"capture  {path}, {recording.output.size_bytes() / 1e6:.1f} MB"
    yield f"look     pillion report {path} --by function; pillion export {path} -f chrome -o trace.json"
