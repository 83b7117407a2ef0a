"""What the eBPF programs have lost, as they count it themselves."""

from __future__ import annotations

from pillion._native import lib
from pillion_agent.maps import sum_per_cpu
from pillion_agent.programs import Programs


class Counts:
    """The per-CPU array "counts"."""

    def __init__(self, programs: Programs) -> None:
        self._fd = programs.map_fd("counts")
        self._cpus = _possible_cpus()

    def now(self) -> list[int]:
        """Totals since the agent started, by PLN_COUNT_*."""
        return [sum_per_cpu(self._fd, index, self._cpus) for index in range(lib.PLN_COUNTS)]


def _possible_cpus() -> int:
    """Entries of a per-CPU map value: the kernel's possible CPUs, "0-3" or "0,2-5"."""
    with open("/sys/devices/system/cpu/possible", encoding="ascii") as file:
        return int(file.read().strip().replace(",", "-").split("-")[-1]) + 1
