"""Whether what a process does with CUDA and torch is recorded: as they are loaded, our collectors are, or never."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pillion_agent.procfs import Mapping, read_environment

_NOT_COLLECTED = (
    "nothing of CUDA is recorded: it loaded libcuda, and not with our collector; "
    "`pillion run` starts a job so that its CUDA is recorded"
)
_NO_START_UP = (
    "torch's operators are not recorded: it loaded torch, and not through our start-up, which PYTHONPATH leads to "
    "(Python's -I and -E ignore it)"
)


class TorchUse:
    """What is known of one process.

    Args:
        is_fork: it has torch from another process, of which all is said.

    Attributes:
        is_collected: our library is in the process.
    """

    def __init__(self, is_fork: bool = False) -> None:
        self.is_collected = False
        self._is_fork = is_fork
        self._has_torch = False
        self._is_wanted = False

    def look(self, pid: int, mappings: Iterable[Mapping]) -> None:
        """Whether torch is among the mappings; who starts it, the environment says."""
        names = {mapping.path.rpartition("/")[2] for mapping in mappings}
        self.is_collected |= "libpillion.so" in names
        if self._has_torch or "libtorch_cpu.so" not in names:
            return
        self._has_torch = True
        with suppress(OSError):  # it has ended, and nobody knows
            environment = read_environment(pid)
            self._is_wanted = "PILLION_LIBRARY" in environment and "PILLION_NO_OPS" not in environment

    @property
    def unavailable(self) -> str | None:
        """Why its operators are not recorded; None where they are, or were not to be."""
        return _NO_START_UP if self._is_wanted and not self.is_collected and not self._is_fork else None


class CudaUse:
    """What is known of one process.

    Args:
        before: of the process that this one is a fork of. CUDA that the other one has does not work in a fork.

    Attributes:
        is_collected: our collector is in the process, and running.
    """

    def __init__(self, before: CudaUse | None = None) -> None:
        self.is_collected = False
        self._before = before
        self._has_driver = False
        self._is_ours_to_tell = False

    def look(self, pid: int, mappings: Iterable[Mapping]) -> None:
        """Whether libcuda is among the mappings; who is called by it, the environment says."""
        if self._has_driver or not any(_is_driver(mapping.path) for mapping in mappings):
            return
        self._has_driver = True
        try:
            environment = read_environment(pid)
        except OSError:
            return  # it has ended, and nobody knows
        is_unwanted = "PILLION_NO_CUDA" in environment
        is_ours = Path(environment.get("CUDA_INJECTION64_PATH", "")).name == "libpillion.so"
        self._is_ours_to_tell = not is_unwanted and not is_ours

    @property
    def unavailable(self) -> str | None:
        """Why nothing of its CUDA is recorded; None where it is, has none, or was not to be recorded."""
        if not self._is_ours_to_tell or self.is_collected or (self._before and self._before._has_driver):
            return None
        return _NOT_COLLECTED


def _is_driver(path: str) -> bool:
    name = path.rpartition("/")[2]
    # The soname is a link to the file of the driver's version, libcuda.so.550.54.14.
    return name.startswith("libcuda.so.")
