"""What is said on stderr while something is recorded."""

from __future__ import annotations

import sys
import time

from pillion._client import Progress
from pillion._standard_streams import say

# Without a terminal a line stays: a log of an hour's job is 720 lines.
LINE_INTERVAL_S = 5.0


class ProgressLine:
    """One line that changes on a terminal, a line every five seconds elsewhere."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._shown_s = self._began_s
        self._is_terminal = sys.stderr.isatty()
        self._open = False

    def show(self, progress: Progress) -> None:
        now_s = time.monotonic()
        if not self._is_terminal and now_s - self._shown_s < LINE_INTERVAL_S:
            return
        self._shown_s = now_s
        text = (
            f"pillion: {now_s - self._began_s:.1f} s  {progress.samples:,} samples  {progress.waits:,} waits  "
            f"{progress.ranges:,} ranges  {progress.lost:,} lost  {progress.processes:,} processes"
        )
        if self._is_terminal:
            say(f"\r{text}\x1b[K", end="")
            self._open = True
        else:
            say(text)

    def note(self, text: str) -> None:
        """A line of its own."""
        self.close()
        say(f"pillion: {text}")

    def close(self) -> None:
        """What follows begins a new line."""
        if self._open:
            say("")
            self._open = False
