"""C++ names in their source form, through the C++ runtime's own demangler.

On the client's side: a name of 250 characters can be made to take the demangler 6 s and 570 MB, and names are a job's.
"""

from __future__ import annotations

import ctypes
import functools
import time
from typing import Any

BUDGET_S = 2.0  # for all functions of a capture; 10,000 honest ones take 0.1 s
_LONGEST = 4096  # libtorch's longest function has 1,700 characters


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
    if runtime is None or b"\0" in encoded or len(encoded) > _LONGEST:
        return name
    demangle, free = runtime
    text = demangle(encoded, None, None, None)
    if not text:
        return name
    readable = ctypes.string_at(text).decode("utf-8", "surrogateescape")
    free(text)
    return readable


class FunctionDemangler:
    """For the functions of one capture; once its budget is spent it leaves names as they are."""

    def __init__(self) -> None:
        self._until_s = time.monotonic() + BUDGET_S

    def __call__(self, name: str) -> str:
        base, dot, clone = name.partition(".")  # the compiler's suffix of a part it split off: "._omp_fn.0", ".cold"
        if not base.startswith("_Z") or time.monotonic() >= self._until_s:
            return name
        readable = demangled(base)
        return f"{readable} [{clone}]" if dot and readable != base else readable + dot + clone
