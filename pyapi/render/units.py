"""Numbers and texts for people. None is a number that nobody measured."""

from __future__ import annotations

WIDTH = 100  # columns of a terminal


def seconds(time_ns: int | None) -> str:
    """Nanoseconds with three or four digits in the unit that fits: 950ns, 1.25ms, 12.5s."""
    if time_ns is None:
        return "-"
    for factor, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "us")):
        if abs(time_ns) >= factor:
            return f"{_digits(time_ns / factor)}{unit}"
    return f"{time_ns}ns" if time_ns else "0"


def size(size_bytes: int) -> str:
    """Bytes, base 1024."""
    for factor, unit in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if size_bytes >= factor:
            return f"{_digits(size_bytes / factor)} {unit}"
    return f"{size_bytes} B"


def count(number: int | None) -> str:
    """A whole number with thousands separated."""
    return "-" if number is None else f"{number:,}"


def percent(share: float) -> str:
    """A share of 1 in percent."""
    return f"{_digits(share * 100)}%"


def _digits(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def cut(text: str, width: int) -> str:
    """The text on one line, its middle left out where it is longer than ``width``: both ends of a name tell."""
    text = "".join(character if character.isprintable() else "?" for character in text)
    if len(text) <= width:
        return text
    head = (width - 1) * 2 // 3
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"
