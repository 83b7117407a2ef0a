"""A recorded process, as the agent knows it."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pillion._native import ffi
from pillion_agent.procfs import Mapping, ProcessInfo, one_line, read_environment, read_mappings, read_process
from pillion_agent.python import GLIBC_TSS_OFFSET, UNKNOWN, Code, Interpreter, NotPython
from pillion_agent.unrecorded import CudaUse, TorchUse

if TYPE_CHECKING:
    from pillion_agent.symbols import Frame

# When an interpreter may be mapped after an exec: the dynamic loader needs a moment. ns after the exec.
_LOOK_AGAIN_NS = (0, 5_000_000, 20_000_000, 80_000_000, 300_000_000, 1_000_000_000, 3_000_000_000)

_BARE = (
    "it was started with an environment that lacks what `pillion run` had set: torch's operators, NVTX, ITT and CUDA "
    "of it are not recorded"
)

# A scan of a process's descriptors takes 50 µs: of 500 processes, 0.2 % of a CPU in the long run. Reading the mappings
# of a torch job takes 3 ms.
_FIRST_SCAN_NS = 250_000_000
_LAST_SCAN_NS = 16_000_000_000
_READ_AGAIN_NS = 1_000_000_000


def executed(event: Any, before: ProcessInfo | None, boot_offset_ns: int) -> ProcessInfo | None:
    """What an exec has made of a process: what /proc says, else what the kernel said in the moment.

    Args:
        event: a struct pln_event of kind PLN_EVENT_EXEC.
        before: the process until then; None where it was not known, and then one that has gone is not, either.
    """
    told = ffi.cast("struct pln_exec *", event.frames)
    text = bytes(ffi.buffer(told.text, event.sample.weight_ns))
    comm = ffi.string(told.comm).decode(errors="replace")
    cmdline = one_line(b"\0".join(text.split(b"\0")[: told.arguments]))
    try:
        return read_process(event.sample.pid, boot_offset_ns, cmdline)
    except OSError:
        return replace(before, comm=comm, cmdline=cmdline or f"[{comm}]", exiting=True) if before else None


class Process:
    """One process from one exec to the next, or to its end.

    Attributes:
        info: from /proc.
        end_ns: when it ended, 0 while it lives.
        interpreter: CPython, None where there is none (yet).
        python_unavailable: why there are no Python stacks, None where they are or no Python runs.
        cuda, torch: whether its use of them is recorded.
        collectors_unavailable: why it does not load the collectors that its process had until then, or None.
    """

    def __init__(self, info: ProcessInfo, now_ns: int) -> None:
        self.info = info
        self.end_ns = 0
        self.interpreter: Interpreter | None = None
        self.python_unavailable: str | None = None
        self.cuda = CudaUse()
        self.torch = TorchUse()
        self.collectors_unavailable: str | None = None
        self._finds_collectors = False
        self.native_frames: dict[int, Frame] = {}
        self.python_frames: dict[int, Frame] = {}
        self._since_ns = now_ns
        self._looks = 0
        self._mappings: list[Mapping] = []
        self._read_again_ns = 0
        self._scan_wait_ns = _FIRST_SCAN_NS
        self._scan_ns = now_ns + self._scan_wait_ns

    def fork(self, info: ProcessInfo, now_ns: int) -> Process:
        """The child: its memory is a copy, so is what is known of it."""
        child = Process(info, now_ns)
        child.native_frames = dict(self.native_frames)
        child.python_frames = dict(self.python_frames)
        child.cuda = CudaUse(self.cuda)
        child.torch = TorchUse(is_fork=True)
        child._finds_collectors = self._finds_collectors
        child._looks = 0 if self.interpreter else self._looks
        return child

    def look_at_environment(self, before: Process | None) -> None:
        """before: what ran in the process until now."""
        try:
            environment = read_environment(self.info.pid)
        except OSError:
            return  # it has ended
        self._finds_collectors = any(value.endswith("/libpillion.so") for value in environment.values())
        if before and not self._finds_collectors:
            # Of two programs in quick succession the first may have gone when its exec is told.
            self.collectors_unavailable = _BARE if before._finds_collectors else before.collectors_unavailable

    def close(self) -> None:
        if self.interpreter:
            self.interpreter.close()

    @property
    def python_version(self) -> str | None:
        return ".".join(map(str, self.interpreter.version)) if self.interpreter else None

    def look_for_python(self, now_ns: int) -> bool:
        """Looks when it is time to; True when something was learnt."""
        if (
            self.interpreter
            or self._looks >= len(_LOOK_AGAIN_NS)
            or now_ns - self._since_ns < _LOOK_AGAIN_NS[self._looks]
        ):
            return False
        self._looks += 1
        try:
            self.interpreter = Interpreter(self.info.pid)
        except NotPython:
            return False
        except (FileNotFoundError, ProcessLookupError):
            return False  # it has ended
        except OSError as error:
            self.python_unavailable = f"cannot read its memory: {error.strerror}"
            return True
        if not self.interpreter.layout:
            self.python_unavailable = f"CPython {self.python_version} is not known to this version of pillion"
        return True

    def scan_is_due(self, now_ns: int) -> bool:
        """Whether to look for what nobody tells: a region of a job that has another idea of where the agent listens,
        libraries."""
        if now_ns < self._scan_ns:
            return False
        self._scan_wait_ns = min(2 * self._scan_wait_ns, _LAST_SCAN_NS)
        self._scan_ns = now_ns + self._scan_wait_ns
        return True

    def look_for_libraries(self) -> None:
        """Looks whether the process has loaded CUDA and torch, while it lives."""
        with suppress(OSError):
            self._read_mappings()

    def _read_mappings(self) -> None:
        mappings = [mapping for mapping in read_mappings(self.info.pid) if "x" in mapping.permissions]
        self._mappings = mappings or self._mappings
        self.cuda.look(self.info.pid, mappings)
        self.torch.look(self.info.pid, mappings)

    def python_target(self) -> tuple[int, int, int]:
        """For the eBPF target: walker, address of the TSS key, offset of the TSS block; zeros without Python."""
        if not self.interpreter or not self.interpreter.layout:
            return 0, 0, 0
        offset = self.interpreter.tss_offset() or GLIBC_TSS_OFFSET
        return self.interpreter.layout.walker, self.interpreter.tss_key, offset

    def python_code(self, address: int) -> Code:
        return self.interpreter.code(address) if self.interpreter and self.interpreter.layout else UNKNOWN

    def code_mapping(self, address: int, now_ns: int, leaf: bool) -> Mapping | None:
        """The executable file mapping at an address.

        Only an instruction pointer (the leaf) that is in no known mapping says that a library was loaded since; the
        mappings are then read again. An unknown return address is mostly no address at all: code without frame
        pointers.
        """
        found = self._find(address)
        if not found and leaf and now_ns >= self._read_again_ns:
            try:
                self._read_mappings()
            except OSError:
                return None
            found = self._find(address)
            if not found:  # code without a file, as a JIT makes it: do not ask for each of its addresses
                self._read_again_ns = now_ns + _READ_AGAIN_NS
        return found

    def _find(self, address: int) -> Mapping | None:
        at = bisect_right(self._mappings, address, key=lambda mapping: mapping.start) - 1
        if at >= 0 and address < self._mappings[at].end:
            return self._mappings[at]
        return None
