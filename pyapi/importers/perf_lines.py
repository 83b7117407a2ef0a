"""The lines of ``perf script``: the first of a sample, its frames, and what else its options print.

Which fields there are is up to the options ``-F`` and the version; their order is always the same.
"""

from __future__ import annotations

import functools
import re
from itertools import pairwise
from typing import NamedTuple

from pillion.importers.assembly import TIME_MAX_NS

_HEADER_MAX = 4096
_U16_MAX, _U32_MAX = 2**16 - 1, 2**32 - 1
_KERNEL_FROM = 0xFFFF_8000_0000_0000

# comm pid/tid [cpu] flags seconds.micros: period event: — without a slash the number is the thread's. The event, or the
# comm, or the time may be missing, but no two of them.
_WHERE = r"(?P<pid>-?\d{1,10})(?:/(?P<tid>-?\d{1,10}))?\s+(?:\[(?P<cpu>\d{1,9})\]\s+)?(?:[^\s\d]\S{0,7}\s+)?"
_EVENT = r"(?:(?P<period>\d{1,18})\s+)?(?P<event>[^\s:]\S*?):(?=\s|$)"
_HEADER = re.compile(
    rf"(?:(?P<comm>\S.{{0,63}}?)\s+)?{_WHERE}(?P<seconds>\d{{1,10}})\.(?P<fraction>\d{{1,9}}):"
    rf"(?:\s+{_EVENT}|(?=\s*$|\s+[0-9a-f]{{4,16}}\s|\s+PERF_RECORD_))"
)
_TIMELESS = re.compile(rf"(?P<comm>\S.{{0,63}}?)\s+{_WHERE}{_EVENT}")
_MODIFIERS = re.compile(r":[ukhGHIDpPSeWb]{1,12}$")
_OF_UNIT = re.compile(r"[\w.-]+/([\w.-]+)/\w*")  # cpu_core/cycles/P and cpu_atom/cycles/P are both cycles
_RECORD = "PERF_RECORD_"
_LOST = re.compile(r"PERF_RECORD_LOST\S* lost (\d{1,18})")

_ADDRESS = re.compile(r"[0-9a-f]{1,16}")
_BEFORE_ADDRESS = re.compile(r"[0-9a-f]{1,16}\s+(?=[0-9a-f]{5,16}\s+\S)")
# What follows the module of a frame, or stands on a line of its own: instructions, branches, registers, source lines.
_INSTRUCTION = r"(?:ilen: \d|insn: [0-9a-f]|0x[0-9a-f]+(?:\([^)]*\))?/)"
_BEHIND_FRAME = re.compile(rf"\)\s+(?={_INSTRUCTION})")
_FIELDS = re.compile(rf"{_INSTRUCTION}.*|ABI:\d.*|.*:\d{{1,9}}(?: \(inlined\))?|\S+\[[0-9a-f]{{1,16}}\]", re.DOTALL)

_UNKNOWN = "[unknown]"
INLINED = "inlined"  # the module of a frame that is code of the next one
_USER_AREAS = ("[unknown]", "[vdso]", "[vsyscall]", "[vectors]", "[sigpage]", "[uprobes]", "[heap]", "[stack", "[anon")
_KERNEL_FILES = re.compile(r"vmlinux(?:[-.].*)?|.*\.ko(?:\.(?:gz|xz|zst|debug))*")


class Header(NamedTuple):
    """The first line of a sample, or a record that is none.

    Attributes:
        cpu: 0 where it is not said.
        ts_ns: 0 where it is not said.
        event: without its modifiers and unit; "" where it is not said.
        rest: what follows the event.
    """

    comm: str
    pid: int
    tid: int
    cpu: int
    ts_ns: int
    period: int
    event: str
    rest: str

    @property
    def is_record(self) -> bool:
        """Whether perf shows a record of its own here: that a task began, what it mapped, what was lost."""
        return self.event.startswith(_RECORD) or self.rest.startswith(_RECORD)

    @property
    def lost(self) -> int:
        """How many samples were lost, of a record that says so."""
        found = _LOST.match(self.rest)
        return int(found[1]) if found else 0


class Frame(NamedTuple):
    """A frame: kind, name, file and module as in the table ``frames``."""

    kind: str
    name: str
    file: str
    module: str


def sample_header(line: str) -> Header | None:
    """The parts of a sample's first line; None for any other line."""
    found = _HEADER.match(line.strip()[:_HEADER_MAX])
    if not found or not (found["comm"] or found["event"]):
        return None
    ts_ns = int(found["seconds"]) * 10**9 + int(found["fraction"].ljust(9, "0"))
    return _header(line.strip(), found, min(ts_ns, TIME_MAX_NS))


def timeless_header(line: str) -> Header | None:
    """The same of a file whose samples have no times. Other texts have such lines too."""
    found = _TIMELESS.match(line.strip()[:_HEADER_MAX])
    return _header(line.strip(), found, 0) if found else None


def _header(line: str, found: re.Match[str], ts_ns: int) -> Header:
    pid = _number(found["pid"])
    return Header(
        found["comm"] or "",
        pid,
        _number(found["tid"]) if found["tid"] else pid,
        min(int(found["cpu"] or 0), _U16_MAX),
        ts_ns,
        int(found["period"] or 0),
        _event(found["event"] or ""),
        line[found.end() :].strip(),
    )


def _event(text: str) -> str:
    """The event without its modifiers and the kind of core that counts it."""
    of_unit = _OF_UNIT.fullmatch(name := _MODIFIERS.sub("", text))
    return of_unit[1] if of_unit else name


def has_samples(lines: list[str]) -> bool:
    """Whether these lines are of ``perf script``. A first line without a time is one only with a frame."""
    if any(map(sample_header, lines)):
        return True
    for first, second in pairwise([*lines, ""]):
        header = timeless_header(first)
        found = (sampled_frame(header.rest) or frame(second.strip())) if header else None
        if found and found.module.startswith(("/", "[")):
            return True
    return False


def _number(text: str) -> int:
    """A pid or tid; what is below 0 is no process."""
    return min(max(int(text), 0), _U32_MAX)


def frame(text: str) -> Frame | None:
    """``address symbol+0xoffset (module)``, of which symbol and module may be missing; None if it is not that."""
    if not text.endswith(")") and (behind := _BEHIND_FRAME.search(text)):
        text = text[: behind.start() + 1]
    address, _, rest = text.partition(" ")
    if not _ADDRESS.fullmatch(address):
        return None
    symbol, module = _split(rest.strip())
    if symbol is None:
        return None
    name, plus, offset = symbol.rpartition("+0x")
    name = name.strip() if plus and _ADDRESS.fullmatch(offset) else symbol
    return _frame(int(address, 16), name or f"0x{address}", module)


def sampled_frame(text: str) -> Frame | None:
    """The frame that stands on the first line of a sample, perhaps behind the address that the sample is about."""
    return frame(_BEFORE_ADDRESS.sub("", text, count=1))


def is_field(text: str) -> bool:
    """Whether a line below a sample is none of its frames, but something else that it has."""
    return _FIELDS.fullmatch(text) is not None


def _split(text: str) -> tuple[str | None, str]:
    """Symbol and module, "" where there is none; no symbol if the line ends within its module.

    Both may have parentheses: the module has those of the last pair that is whole.
    """
    if not text.endswith(")"):
        return (text if text.count("(") == text.count(")") else None), ""
    inner = text[:-1].removesuffix(" (deleted)")
    begin = inner.rfind("(")
    for _ in range(8):
        if begin < 0:
            break
        module = inner[begin + 1 :]
        if (not begin or inner[begin - 1] == " ") and module.count("(") == module.count(")"):
            return inner[:begin].strip(), module
        begin = inner.rfind("(", 0, begin)
    return (text if text.count("(") == text.count(")") else None), ""


def _frame(address: int, name: str, module: str) -> Frame:
    if name.startswith("py::"):  # CPython's names in perf maps: py::function:file
        name, _, file = name[4:].partition(":")
        return Frame("python", name, file, "")
    module, is_kernel = _place(module)
    return Frame("kernel" if is_kernel or address >= _KERNEL_FROM else "native", name, "", module)


@functools.lru_cache(maxsize=1024)
def _place(module: str) -> tuple[str, bool]:
    """A module without its offset, "" for an unknown one, and whether it is of the kernel."""
    path, plus, offset = module.rpartition("+0x")
    module = path if plus and _ADDRESS.fullmatch(offset) else module
    if module.startswith("["):
        return ("" if module == _UNKNOWN else module), not module.startswith(_USER_AREAS)
    return module, _KERNEL_FILES.fullmatch(module.rpartition("/")[2]) is not None
