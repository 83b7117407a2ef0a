"""Which probes are the two ends of a range: told by their names, as those who write probes name them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

# How a name ends where something begins, and how where it ends. DTrace writes __ for a dash.
_ENDINGS = {
    "begin": ("end", "done"),
    "start": ("done", "stop", "end", "finish"),
    "entry": ("return", "exit"),
    "enter": ("leave", "exit", "return"),
}
_LAST_WORD = re.compile(r"(.*?)(_*)([a-z]+)")


@dataclass(frozen=True)
class Role:
    """What a hit of a probe means.

    Attributes:
        name: of the mark or the range.
        end: it ends the range of that name; otherwise it begins one.
        pair: the two ends have this in common; None for a mark.
    """

    name: str
    end: bool = False
    pair: str | None = None


def roles(provider: str, names: Iterable[str]) -> dict[str, Role]:
    """The role of each of a provider's probes that are recorded together.

    Only a beginning whose end is among them begins a range: ``gc__start`` and ``gc__done`` are the range ``gc``.
    """
    found = {name: Role(f"{provider}:{name}") for name in names}
    for name in found:
        words = _LAST_WORD.fullmatch(name)
        for ending in _ENDINGS.get(words[3], ()) if words else ():
            other = f"{words[1]}{words[2]}{ending}" if words else ""
            if other in found and words:
                whole = f"{provider}:{words[1] or name}"
                found[name], found[other] = Role(whole, False, name), Role(whole, True, name)
                break
    return found
