"""USDT probes and the processes that have them: finds the files, attaches, lets go.

Files that a client names by their path come as descriptors and are attached at once, whoever maps them later. All
others are found among what the recorded processes have mapped: at the session's start, after an exec, at a first
region, and again and again for what is loaded later.

Attached is a file: everybody who maps it stops at its probes, though the programs look only at recorded processes. So
for another user than root it is attached in his processes alone, one by one. A fork of one is attached when the agent
learns of it, and what it hits before that is missed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from pillion_agent.errors import AgentError
from pillion_agent.probe_files import ProbeFile, ProbeFiles, is_unsafe
from pillion_agent.probe_hits import ProbeHits, Source
from pillion_agent.probe_pairs import roles
from pillion_agent.probe_request import ON_LAUNCH, ON_RECORD, ON_USER_PROBE, OWN_LAUNCHES, OWN_RECORDS, ProbePattern
from pillion_agent.probe_sites import NoRoom, ProbeSites
from pillion_agent.procfs import Mapping, read_mappings
from pillion_agent.programs import Programs
from pillion_agent.regions import Regions
from pillion_agent.session import Session, monotonic_ns
from pillion_agent.usdt import Probe, library_path

# The loader needs some milliseconds after an exec. Later looks are fewer: the mappings of a torch job take 3 ms.
_FIRST_LOOK_NS = 5_000_000
_LAST_WAIT_NS = 1_000_000_000
_LOOKS_PER_CPU = 200  # of all the time, half a percent

# How many arguments a program needs.
_NEEDS = {ON_RECORD: 2, ON_LAUNCH: 1, ON_USER_PROBE: 0}
_SHOWN = 5


class _Looks:
    """When to look at a process's mappings, and which of its files were looked at."""

    def __init__(self, now_ns: int) -> None:
        self.seen: set[tuple[int, tuple[str, str]]] = set()  # by session
        self.given: set[int] = set()  # sessions whose files that came along are attached in it
        self.due_ns = now_ns
        self.wait_ns = _FIRST_LOOK_NS


class ProbeTargets:
    """Of all sessions."""

    def __init__(self, programs: Programs, regions: Regions) -> None:
        self._sites = ProbeSites(programs)
        self._files = ProbeFiles()
        self._regions = regions
        self._patterns: dict[int, tuple[ProbePattern, ...]] = {}
        self._met: set[tuple[int, ProbePattern]] = set()  # patterns that have found a probe
        self._looks: dict[int, _Looks] = {}
        self._given: dict[int, list[tuple[int, str, list[ProbePattern]]]] = {}  # descriptor, name, of which probes

    # ---- sessions ----

    def begin(self, session: Session, files: Sequence[int]) -> None:
        """Attaches what needs no process: files that came along, and our own copy of the library.

        Raises:
            AgentError: a file has no such probes, or cannot be read; leave() ends what was attached.
        """
        request = session.request
        patterns = request.probes
        patterns += OWN_RECORDS if request.transport == "usdt" else ()
        patterns += OWN_LAUNCHES if request.launch_stacks else ()
        if not patterns:
            return
        self._patterns[session.bit] = patterns
        session.hits = ProbeHits(session.spool, lambda pid: self._regions.number(pid, session))
        given = self._given[session.bit] = []
        own = [pattern for pattern in patterns if pattern.program != ON_USER_PROBE]
        if own:
            fd = os.open(library_path(), os.O_RDONLY | os.O_CLOEXEC)
            given.append((fd, str(library_path()), own))
        for index, fd in enumerate(files):
            named = [pattern for pattern in patterns if pattern.file == index]
            given.append((os.dup(fd), named[0].library, named))
        for fd, name, named in given:
            self._check(fd, name, named)
        if not session.uid:
            self._attach_given(session, 0)

    def _check(self, fd: int, name: str, patterns: list[ProbePattern]) -> None:
        try:
            with self._files.opened(Path(f"/proc/self/fd/{fd}"), name) as file:
                for pattern in patterns:
                    found = [probe for probe in file.probes if pattern.covers(probe)]
                    if not found:
                        raise _no_such_probe(pattern, file)
                    if not any(_fits(probe, pattern.program) for probe in found):
                        cause = f"{name}: no place of it can be used"
                        raise AgentError(f"cannot attach to {pattern.provider}:{pattern.probe}", cause, "name another")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise AgentError(f"cannot read the probes of {name}", str(reason), "see `readelf -n`", code=2) from error

    def _attach_given(self, session: Session, pid: int) -> None:
        """Attaches the files that came along, in one process or (0) everywhere."""
        for fd, name, patterns in self._given[session.bit]:
            with self._files.opened(Path(f"/proc/self/fd/{fd}"), name) as file:
                self._attach(session, pid, file, patterns)

    def look_all(self, session: Session) -> None:
        """Looks at all processes of a session that has just begun.

        Raises:
            AgentError: a library that was named has no such probes.
        """
        if session.bit not in self._patterns:
            return
        lacking: list[AgentError] = []
        for pid in list(session.alive):
            lacking += self._look(pid, [session])
        unmet = [p for p in session.request.probes if p.file < 0 and (session.bit, p) not in self._met]
        if lacking and unmet:
            raise lacking[0]

    def leave(self, session: Session) -> None:
        """Ends a session's part; detaches what nobody else wants. May be called twice."""
        if not self._patterns.pop(session.bit, None):
            return
        for fd, _, _ in self._given.pop(session.bit, ()):
            os.close(fd)
        self._sites.leave(session.mask)
        self._met = {(bit, pattern) for bit, pattern in self._met if bit != session.bit}
        for looks in self._looks.values():
            looks.seen = {(bit, file) for bit, file in looks.seen if bit != session.bit}
            looks.given.discard(session.bit)
        if not self._patterns:
            self._looks.clear()

    def report(self, session: Session) -> None:
        """Last words before the spool is whole: ranges that are open, and probes that were never there."""
        if not session.hits:
            return
        session.hits.close(session.end_ns)
        session.hits.flush()
        for pattern in session.request.probes:
            if pattern.file < 0 and (session.bit, pattern) not in self._met:
                session.lose(f"no probe {pattern}", 0, 0, 1)
        session.lose("no_string_room", 0, 0, session.hits.lost_strings)

    # ---- processes ----

    def look(self, pid: int, sessions: Iterable[Session], new_program: bool = False) -> None:
        """Looks at what a process has mapped, now and some milliseconds later."""
        sessions = [session for session in sessions if session.bit in self._patterns]
        if not sessions:
            return
        if new_program:
            self._looks.pop(pid, None)
        self._look(pid, sessions)

    def fork(self, parent: int, child: int, sessions: Iterable[Session]) -> None:
        """The child has mapped what its parent has; what is attached in the parent alone is not in the child."""
        alone = [session for session in sessions if session.uid and session.bit in self._patterns]
        if parent in self._looks:
            bits = {session.bit for session in alone}
            looks = self._looks[child] = _Looks(monotonic_ns() + _LAST_WAIT_NS)
            looks.seen = {(bit, file) for bit, file in self._looks[parent].seen if bit not in bits}
        for session in alone:
            session.lose("probes_attached_late", child, 0, 1)
        if alone:
            self._look(child, alone)

    def look_again(self, sessions: Iterable[Session], now_ns: int) -> None:
        """Looks at the processes whose time it is."""
        for session in sessions:
            if session.bit in self._patterns:
                for pid in list(session.alive):
                    looks = self._looks.get(pid)
                    if not looks or looks.due_ns <= now_ns:
                        self._look(pid, [session])

    def forget(self, pid: int) -> None:
        if self._looks.pop(pid, None):
            self._sites.leave_process(pid)

    def _look(self, pid: int, sessions: list[Session]) -> list[AgentError]:
        began_ns = monotonic_ns()
        looks = self._looks.setdefault(pid, _Looks(began_ns))
        lacking: list[AgentError] = []
        for session in sessions:
            if session.uid and session.bit not in looks.given:
                looks.given.add(session.bit)
                self._give(session, pid)
        try:
            mappings = [m for m in read_mappings(pid) if "x" in m.permissions and m.file[1] != "0"]
        except OSError:
            return lacking  # it has ended
        for mapping in mappings:
            for session in sessions:
                key = session.bit, mapping.file
                if key not in looks.seen:
                    looks.seen.add(key)
                    lacking += self._look_at(session, pid, mapping)
        now_ns = monotonic_ns()
        fair_ns = (now_ns - began_ns) * _LOOKS_PER_CPU * len(self._looks)
        looks.due_ns = now_ns + looks.wait_ns
        looks.wait_ns = min(4 * looks.wait_ns, max(_LAST_WAIT_NS, fair_ns))
        return lacking

    def _look_at(self, session: Session, pid: int, mapping: Mapping) -> list[AgentError]:
        patterns = [pattern for pattern in self._patterns[session.bit] if pattern.names(mapping.path)]
        if not patterns:
            return []
        path = Path(f"/proc/{pid}/map_files/{mapping.start:x}-{mapping.end:x}")
        try:
            with self._files.opened(path, mapping.path) as file:
                self._attach(session, pid, file, patterns)
                return [
                    _no_such_probe(pattern, file)
                    for pattern in patterns
                    if pattern.program == ON_USER_PROBE and pattern.library and (session.bit, pattern) not in self._met
                ]
        except FileNotFoundError:
            return []  # no longer mapped
        except (OSError, ValueError, AgentError):
            if any(pattern.library for pattern in patterns):
                session.lose("probe_file_refused", pid, 0, 1)
        return []

    def _give(self, session: Session, pid: int) -> None:
        try:
            self._attach_given(session, pid)
        except (OSError, ValueError, AgentError):
            session.lose("probe_file_refused", pid, 0, 1)

    # ---- attaching ----

    def _attach(self, session: Session, pid: int, file: ProbeFile, patterns: Sequence[ProbePattern]) -> None:
        """Attaches what is meant of a file; what cannot be is a loss.

        Raises:
            AgentError: the kernel refuses.
        """
        for program in (ON_RECORD, ON_LAUNCH, ON_USER_PROBE):
            mine = [pattern for pattern in patterns if pattern.program == program]
            meant = [probe for probe in file.probes if any(pattern.covers(probe) for pattern in mine)]
            fitting = [probe for probe in meant if _fits(probe, program)]
            if len(fitting) < len(meant):
                session.lose("probe_refused", pid, 0, len(meant) - len(fitting))
            if not fitting:
                continue
            try:
                cookies = self._sites.attach(session.mask, file, program, fitting, pid if session.uid else 0)
            except NoRoom:
                raise AgentError("cannot attach", "16,384 probes are attached already", "name fewer") from None
            except ProcessLookupError:
                return  # the process has ended
            except OSError as error:
                cause = f"{file.name}: {error.strerror}"
                raise AgentError("cannot attach a uprobe", cause, "run `pillion doctor`", code=3) from error
            if program == ON_USER_PROBE and session.hits:
                session.hits.define(_sources(cookies))
            self._met |= {(session.bit, pattern) for pattern in mine if any(map(pattern.covers, fitting))}


def _fits(probe: Probe, program: str) -> bool:
    needed = probe.arguments[: _NEEDS[program]]
    return len(needed) == _NEEDS[program] and all(argument.known for argument in needed) and not is_unsafe(probe)


def _sources(cookies: dict[int, Probe]) -> dict[int, Source]:
    names: dict[str, set[str]] = {}
    for probe in cookies.values():
        names.setdefault(probe.provider, set()).add(probe.name)
    of = {provider: roles(provider, found) for provider, found in names.items()}
    return {cookie: Source(probe, of[probe.provider][probe.name]) for cookie, probe in cookies.items()}


def _no_such_probe(pattern: ProbePattern, file: ProbeFile) -> AgentError:
    """Says which there are: of the provider where it is known, else of the file."""
    if pattern.program != ON_USER_PROBE:
        cause = f"{file.name} lacks the probe {pattern.provider}:{pattern.probe}"
        return AgentError("cannot attach", cause, "reinstall pillion", code=3)
    of_provider = [probe for probe in file.probes if probe.provider == pattern.provider]
    names = sorted({f"{probe.provider}:{probe.name}" for probe in of_provider or file.probes})
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    cause = f"{file.name} has {', '.join(names[:_SHOWN]) + more if names else 'none at all'}"
    return AgentError(f"no probe {pattern.provider}:{pattern.probe}", cause, "see `readelf -n`", code=2)
