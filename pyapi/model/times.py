"""What events and averages derive from their totals: times per call, times as text, and torch's older names."""

from __future__ import annotations

import warnings
from typing import Any

from pillion.model.units import format_time


def renamed(old: str, new: str, advice: str | None = None) -> property:
    """A property of an older name, which reads the newer one and warns of it.

    Args:
        advice: what the warning says after the older name: torch's words, as programs filter warnings by them.
    """

    def read(self: Any) -> Any:
        warnings.warn(f"`{old}` is deprecated{advice or f'. Use `{new}` instead.'}", FutureWarning, stacklevel=2)
        return getattr(self, new)

    return property(read, doc=f"The older name of ``{new}``.")


class FormattedTimes:
    """Times as text, and averages over ``count``. A subclass has the totals, in microseconds."""

    count: int
    cpu_time_total: float
    self_cpu_time_total: float
    device_time_total: float
    self_device_time_total: float

    # Shares as text, "12.34%", of the last table that showed it.
    self_cpu_percent: Any = -1
    total_cpu_percent: Any = -1
    total_device_percent: Any = -1

    cuda_time = renamed("cuda_time", "device_time", advice=", please use `device_time` instead.")

    @property
    def cpu_time(self) -> float:
        """Average CPU time of a call, us."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """Average device time of a call, us."""
        return self.device_time_total / self.count if self.count else 0.0

    @property
    def cpu_time_str(self) -> str:
        return format_time(self.cpu_time)

    @property
    def device_time_str(self) -> str:
        return format_time(self.device_time)

    @property
    def cpu_time_total_str(self) -> str:
        return format_time(self.cpu_time_total)

    @property
    def device_time_total_str(self) -> str:
        return format_time(self.device_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        return format_time(self.self_cpu_time_total)

    @property
    def self_device_time_total_str(self) -> str:
        return format_time(self.self_device_time_total)
