"""StringTable: C++ names in their source form."""

from __future__ import annotations

import ctypes
import functools
from collections import defaultdict
from typing import Any


@functools.cache
def _runtime() -> tuple[Any, Any] | None:
    """``__cxa_demangle`` and ``free``; None where there is no C++ runtime."""
    try:
        # By its text: written as an attribute in a class, Python would mangle the name of the demangler.
        demangle = ctypes.CDLL("libstdc++.so.6")["__cxa_demangle"]
    except (OSError, AttributeError):
        return None
    demangle.restype = ctypes.c_void_p
    demangle.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]
    return demangle, free


def demangled(name: str) -> str:
    """A mangled C++ name or type in its source form; any other text as it is."""
    runtime = _runtime()
    encoded = name.encode("utf-8", "surrogateescape")
    if runtime is None or b"\0" in encoded:
        return name
    demangle, free = runtime
    text = demangle(encoded, None, None, None)
    if not text:
        return name
    readable = ctypes.string_at(text).decode("utf-8", "surrogateescape")
    free(text)
    return readable


class StringTable(defaultdict[str, str]):
    """Demangles texts and remembers them. A single character is itself: mangled, it would name a type."""

    def __missing__(self, key: str) -> str:
        self[key] = value = demangled(key) if len(key) > 1 else key
        return value
