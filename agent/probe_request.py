"""What a client asks of USDT probes, checked: which probes of which files, and what becomes of a hit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pillion_agent.errors import AgentError
from pillion_agent.programs import PROBE_PROGRAMS
from pillion_agent.usdt import Probe

MAX_PATTERNS = 64
_TEXT_MAX = 4096

ON_RECORD, ON_LAUNCH, ON_USER_PROBE = PROBE_PROGRAMS


@dataclass(frozen=True)
class ProbePattern:
    """Probes of one file, or of every file of a name.

    Attributes:
        program: that hits run.
        file: place among the descriptors that came with the request, −1 for none.
        library: the last part of the path that a process has mapped, "" for any; of a file that came along its name.
        provider, probe: names, in which * stands for anything.
    """

    program: str
    file: int
    library: str
    provider: str
    probe: str

    def __str__(self) -> str:
        return f"{self.library or '*'}:{self.provider}:{self.probe}"

    def names(self, path: str) -> bool:
        """Whether it may mean a mapped file."""
        if self.file >= 0:
            return False
        return not self.library or _matches(self.library, path.rpartition("/")[2])

    def covers(self, probe: Probe) -> bool:
        return _matches(self.provider, probe.provider) and _matches(self.probe, probe.name)


# Every copy of our own library, whatever a repaired wheel calls it.
OWN_RECORDS = tuple(
    ProbePattern(ON_RECORD, -1, "libpillion*.so*", "pillion", kind)
    for kind in ("range", "mark", "thread", "notice", "activity")
)
OWN_LAUNCHES = (ProbePattern(ON_LAUNCH, -1, "libpillion*.so*", "pillion", "launch"),)


def parse_patterns(items: Any, files: int) -> tuple[ProbePattern, ...]:
    """From a request's "probes".

    Args:
        files: descriptors that came along.

    Raises:
        AgentError: code 2.
    """
    if not isinstance(items, list) or len(items) > MAX_PATTERNS:
        raise _refuse(f"probes must be a list of at most {MAX_PATTERNS}")
    patterns = []
    for item in items:
        item = item if isinstance(item, dict) else {}
        texts = [item.get(key, "") for key in ("library", "provider", "probe")]
        file = item.get("file", -1)
        if not all(isinstance(text, str) and len(text) <= _TEXT_MAX for text in texts) or not all(texts[1:]):
            raise _refuse("a probe has texts for library, provider and probe")
        if not isinstance(file, int) or not -1 <= file < files:
            raise _refuse("a probe's file is the place of a descriptor that comes along")
        patterns.append(ProbePattern(ON_USER_PROBE, file, *texts))
    if {pattern.file for pattern in patterns} - {-1} != set(range(files)):
        raise _refuse("a descriptor came along that no probe names")
    return tuple(patterns)


def _matches(pattern: str, name: str) -> bool:
    """Each piece between two stars at its first place: no name takes long, whoever chose it."""
    first, *pieces = pattern.split("*")
    if not pieces:
        return name == first
    *inner, last = pieces
    at, end = len(first), len(name) - len(last)
    if not name.startswith(first) or not name.endswith(last):
        return False
    for piece in inner:
        found = name.find(piece, at, max(end, 0))
        if found < 0:
            return False
        at = found + len(piece)
    return at <= end


def _refuse(what: str) -> AgentError:
    return AgentError("bad request", what, "see ARCHITECTURE.md", code=2)
