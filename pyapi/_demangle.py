"""C++ names through the C++ runtime's own demangler.

On the client's side: a name of 250 characters can be made to take the demangler 6 s and 570 MB, and names are a job's.
"""

from __future__ import annotations

import ctypes
import time
from typing import Any

BUDGET_S = 2.0  # for all names of a capture; 10,000 honest ones take 0.1 s
_LONGEST = 4096  # libtorch's longest function has 1,700 characters


class Demangler:
    """Leaves names as they are where there is no C++ runtime, and once the budget is spent."""

    def __init__(self) -> None:
        self._until_s = time.monotonic() + BUDGET_S
        self._libc = ctypes.CDLL(None)
        self._libc.free.argtypes = [ctypes.c_void_p]
        self._demangle: Any = None
        try:
            # By its text: as an attribute of a class's code Python would mangle the name of the demangler.
            self._demangle = ctypes.CDLL("libstdc++.so.6")["__cxa_demangle"]
        except (OSError, AttributeError):
            return
        self._demangle.restype = ctypes.c_void_p
        self._demangle.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]

    def __call__(self, name: str) -> str:
        base, dot, clone = name.partition(".")  # the compiler's suffix of a part it split off: "._omp_fn.0", ".cold"
        if not (
            self._demangle and base.startswith("_Z") and len(base) <= _LONGEST and time.monotonic() < self._until_s
        ):
            return name
        text = self._demangle(base.encode("utf-8", "replace"), None, None, None)
        if not text:
            return name
        plain = ctypes.string_at(text).decode(errors="replace")
        self._libc.free(text)
        return f"{plain} [{clone}]" if dot else plain
