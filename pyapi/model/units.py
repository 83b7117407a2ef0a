"""Numbers as torch's profiler prints them."""

from __future__ import annotations

_US = {"s": 1e6, "ms": 1e3, "us": 1.0}


def format_time(time_us: float, unit: str | None = None) -> str:
    """Microseconds with three decimals in s, ms or us: in ``unit``, or in the largest unit that it fills."""
    if unit not in _US:
        unit = "s" if time_us >= 1e6 else "ms" if time_us >= 1e3 else "us"
    return f"{time_us / _US[unit]:.3f}{unit}"


def format_share(time_us: float, total_us: float) -> str:
    """Percent with two decimals, NaN of nothing."""
    return "NaN" if total_us == 0 else f"{time_us * 100.0 / total_us:.2f}%"


def format_memory(size_bytes: int) -> str:
    """Bytes in B, KB, MB or GB, base 1024."""
    for factor, unit in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if abs(size_bytes) >= factor:
            return f"{size_bytes / factor:.2f} {unit}"
    return f"{size_bytes} B"
