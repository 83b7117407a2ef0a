"""StringTable: C++ names in their source form."""

from __future__ import annotations

from collections import defaultdict

from pillion._demangle import demangled


class StringTable(defaultdict[str, str]):
    """Demangles texts and remembers them. A single character is itself: mangled, it would name a type."""

    def __missing__(self, key: str) -> str:
        self[key] = value = demangled(key) if len(key) > 1 else key
        return value
