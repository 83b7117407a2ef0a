"""NVTX's side of the injection interface in Python: tables that the library fills, and calls through them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pillion._native as native

LIBRARY = Path(native.__file__).with_name("libpillion.so")
CORE, CORE2 = 1, 5
SLOTS = 16


class Attributes(ctypes.Structure):
    """nvtxEventAttributes_t."""

    _fields_ = (
        ("version", ctypes.c_uint16),
        ("size", ctypes.c_uint16),
        ("category", ctypes.c_uint32),
        ("color_type", ctypes.c_int32),
        ("color", ctypes.c_uint32),
        ("payload_type", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("payload", ctypes.c_uint64),
        ("message_type", ctypes.c_int32),
        ("padding", ctypes.c_uint32),
        ("message", ctypes.c_void_p),
    )


def attributes(message: Any = None, message_type: int = 1, **fields: int) -> Attributes:
    """Of an event; ``message`` is bytes, a registered handle or a wide text."""
    value = Attributes(version=3, size=48, message_type=message_type if message is not None else 0, **fields)
    value.message = message if isinstance(message, int) else ctypes.cast(message, ctypes.c_void_p)
    value.kept = message  # its memory
    return value


class _Callbacks(ctypes.Structure):
    _fields_ = (("size", ctypes.c_size_t), ("get_functions", ctypes.c_void_p))


_Slot = ctypes.c_void_p
_GetFunctions = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_uint)
)
_GetExportTable = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)


class Nvtx:
    """One object that embeds NVTX.

    Args:
        slots: how many functions its version has; the library must not touch what lies behind.
        table_bytes: what its table of callbacks says of its own size.
    """

    def __init__(self, slots: int = SLOTS, table_bytes: int = ctypes.sizeof(_Callbacks)) -> None:
        self.slots = {module: (_Slot * SLOTS)() for module in (CORE, CORE2)}
        self._tables = {
            module: (ctypes.c_void_p * SLOTS)(*(ctypes.addressof(values) + 8 * i for i in range(SLOTS)))
            for module, values in self.slots.items()
        }

        def get_functions(module: int, table: Any, count: Any) -> int:
            table[0], count[0] = ctypes.addressof(self._tables[module]), slots
            return 1

        self._get_functions = _GetFunctions(get_functions)
        self._callbacks = _Callbacks(table_bytes, ctypes.cast(self._get_functions, ctypes.c_void_p))
        get_table = _GetExportTable(lambda table: ctypes.addressof(self._callbacks) if table == 1 else None)
        self.accepted = bool(ctypes.CDLL(str(LIBRARY)).InitializeInjectionNvtx2(get_table))

    def _function(self, module: int, callback: int, result: Any, *arguments: Any) -> Callable[..., Any]:
        return ctypes.CFUNCTYPE(result, *arguments)(self.slots[module][callback])

    def push(self, text: bytes | None) -> int:
        return int(self._function(CORE, 9, ctypes.c_int, ctypes.c_char_p)(text))

    def push_wide(self, text: str | None) -> int:
        return int(self._function(CORE, 10, ctypes.c_int, ctypes.c_wchar_p)(text))

    def push_ex(self, event: Attributes) -> int:
        return int(self._function(CORE, 8, ctypes.c_int, ctypes.c_void_p)(ctypes.addressof(event)))

    def pop(self) -> int:
        return int(self._function(CORE, 11, ctypes.c_int)())

    def start(self, text: bytes | None) -> int:
        return int(self._function(CORE, 5, ctypes.c_uint64, ctypes.c_char_p)(text))

    def start_wide(self, text: str) -> int:
        return int(self._function(CORE, 6, ctypes.c_uint64, ctypes.c_wchar_p)(text))

    def start_ex(self, event: Attributes) -> int:
        return int(self._function(CORE, 4, ctypes.c_uint64, ctypes.c_void_p)(ctypes.addressof(event)))

    def end(self, number: int) -> None:
        self._function(CORE, 7, None, ctypes.c_uint64)(number)

    def mark(self, text: bytes | None) -> None:
        self._function(CORE, 2, None, ctypes.c_char_p)(text)

    def mark_wide(self, text: str) -> None:
        self._function(CORE, 3, None, ctypes.c_wchar_p)(text)

    def mark_ex(self, event: Attributes) -> None:
        self._function(CORE, 1, None, ctypes.c_void_p)(ctypes.addressof(event))

    def name_category(self, category: int, name: bytes) -> None:
        self._function(CORE, 12, None, ctypes.c_uint32, ctypes.c_char_p)(category, name)

    def name_category_wide(self, category: int, name: str) -> None:
        self._function(CORE, 13, None, ctypes.c_uint32, ctypes.c_wchar_p)(category, name)

    def name_thread(self, tid: int, name: bytes) -> None:
        self._function(CORE, 14, None, ctypes.c_uint32, ctypes.c_char_p)(tid, name)

    def name_thread_wide(self, tid: int, name: str) -> None:
        self._function(CORE, 15, None, ctypes.c_uint32, ctypes.c_wchar_p)(tid, name)

    def domain(self, name: bytes | None) -> int:
        return int(self._function(CORE2, 12, ctypes.c_void_p, ctypes.c_char_p)(name))

    def domain_wide(self, name: str) -> int:
        return int(self._function(CORE2, 13, ctypes.c_void_p, ctypes.c_wchar_p)(name))

    def string(self, domain: int | None, text: bytes | None) -> int:
        return int(self._function(CORE2, 10, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(domain, text))

    def string_wide(self, domain: int | None, text: str) -> int:
        return int(self._function(CORE2, 11, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_wchar_p)(domain, text))

    def domain_push(self, domain: int | None, event: Attributes) -> int:
        push = self._function(CORE2, 4, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        return int(push(domain, ctypes.addressof(event)))

    def domain_pop(self, domain: int | None) -> int:
        return int(self._function(CORE2, 5, ctypes.c_int, ctypes.c_void_p)(domain))

    def domain_start(self, domain: int | None, event: Attributes) -> int:
        start = self._function(CORE2, 2, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p)
        return int(start(domain, ctypes.addressof(event)))

    def domain_end(self, domain: int | None, number: int) -> None:
        self._function(CORE2, 3, None, ctypes.c_void_p, ctypes.c_uint64)(domain, number)

    def domain_mark(self, domain: int | None, event: Attributes) -> None:
        mark = self._function(CORE2, 1, None, ctypes.c_void_p, ctypes.c_void_p)
        mark(domain, ctypes.addressof(event))

    def domain_name_category(self, domain: int | None, category: int, name: bytes) -> None:
        name_it = self._function(CORE2, 8, None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_char_p)
        name_it(domain, category, name)

    def domain_name_category_wide(self, domain: int | None, category: int, name: str) -> None:
        name_it = self._function(CORE2, 9, None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_wchar_p)
        name_it(domain, category, name)
