"""ITT's side of the collector's interface in Python: a client's list of functions, and calls through it.

An ``__itt_id`` is three 64-bit words by value: more than 16 bytes, so it lies in the caller's stack.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pillion._native as native

LIBRARY = Path(native.__file__).with_name("libpillion.so")


class Id(ctypes.Structure):
    _fields_ = (("d1", ctypes.c_uint64), ("d2", ctypes.c_uint64), ("d3", ctypes.c_uint64))


class Domain(ctypes.Structure):
    """__itt_domain."""

    _fields_ = (
        ("flags", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("wide", ctypes.c_void_p),
        ("extra1", ctypes.c_int),
        ("extra2", ctypes.c_void_p),
        ("next", ctypes.c_void_p),
    )


class String(ctypes.Structure):
    """__itt_string_handle."""

    _fields_ = (
        ("text", ctypes.c_char_p),
        ("wide", ctypes.c_void_p),
        ("extra1", ctypes.c_int),
        ("extra2", ctypes.c_void_p),
        ("next", ctypes.c_void_p),
    )


class _Function(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("pointer", ctypes.c_void_p),
        ("initial", ctypes.c_void_p),
        ("null", ctypes.c_void_p),
        ("group", ctypes.c_int),
    )


class _Global(ctypes.Structure):
    _fields_ = (
        ("magic", ctypes.c_ubyte * 8),
        ("version", ctypes.c_ulong * 3),
        ("counts", ctypes.c_long * 3),
        ("mutex", ctypes.c_ubyte * 40),
        ("pointers", ctypes.c_void_p * 3),
        ("functions", ctypes.c_void_p),
        ("rest", ctypes.c_void_p * 8),
    )


_pointer, _word, _text, _int = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_int
_domain, _string, _id_pointer = ctypes.POINTER(Domain), ctypes.POINTER(String), ctypes.POINTER(Id)
_clock = (_pointer, _word)

# Name: result, arguments.
PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "domain_create": (_domain, _text),
    "string_handle_create": (_string, _text),
    "task_begin": (None, _domain, Id, Id, _string),
    "task_begin_ex": (None, _domain, *_clock, Id, Id, _string),
    "task_begin_fn": (None, _domain, Id, Id, _pointer),
    "task_begin_fn_ex": (None, _domain, *_clock, Id, Id, _pointer),
    "task_end": (None, _domain),
    "task_end_ex": (None, _domain, *_clock),
    "task_begin_overlapped": (None, _domain, Id, Id, _string),
    "task_begin_overlapped_ex": (None, _domain, *_clock, Id, Id, _string),
    "task_end_overlapped": (None, _domain, Id),
    "task_end_overlapped_ex": (None, _domain, *_clock, Id),
    "region_begin": (None, _domain, Id, Id, _string),
    "region_end": (None, _domain, Id),
    "frame_begin_v3": (None, _domain, _id_pointer),
    "frame_end_v3": (None, _domain, _id_pointer),
    "frame_submit_v3": (None, _domain, _id_pointer, _word, _word),
    "get_timestamp": (_word,),
    "marker": (None, _domain, Id, _string, _int),
    "marker_ex": (None, _domain, *_clock, Id, _string, _int),
    "counter_create": (_pointer, _text, _text),
    "counter_create_typed": (_pointer, _text, _text, _int),
    "counter_create_v3": (_pointer, _domain, _text, _int),
    "counter_set_value": (None, _pointer, _pointer),
    "counter_set_value_v3": (None, _pointer, _pointer),
    "counter_set_value_ex": (None, _pointer, *_clock, _pointer),
    "counter_inc": (None, _pointer),
    "counter_inc_delta": (None, _pointer, _word),
    "counter_dec": (None, _pointer),
    "counter_dec_delta": (None, _pointer, _word),
    "counter_inc_v3": (None, _domain, _string),
    "counter_inc_delta_v3": (None, _domain, _string, _word),
    "counter_dec_v3": (None, _domain, _string),
    "counter_dec_delta_v3": (None, _domain, _string, _word),
    "metadata_add": (None, _domain, Id, _string, _int, ctypes.c_size_t, _pointer),
    "metadata_str_add": (None, _domain, Id, _string, _text, ctypes.c_size_t),
    "metadata_add_with_scope": (None, _domain, _int, _string, _int, ctypes.c_size_t, _pointer),
    "metadata_str_add_with_scope": (None, _domain, _int, _string, _text, ctypes.c_size_t),
    "event_create": (_int, _text, _int),
    "event_start": (_int, _int),
    "event_end": (_int, _int),
    "thread_set_name": (None, _text),
}
NOT_COLLECTED = ("pause", "resume", "relation_add", "sync_create", "id_create", "counter_destroy")


class Itt:
    """One client of ITT: ``itt.task_end(domain)`` calls what the library put in its place."""

    def __init__(self) -> None:
        names = (*PROTOTYPES, *NOT_COLLECTED)
        self.pointers = (ctypes.c_void_p * len(names))(*(0x1 for _ in names))  # client's own, until it is initialised
        self._functions = (_Function * (len(names) + 1))(
            *(
                _Function(b"__itt_" + name.encode(), ctypes.addressof(self.pointers) + 8 * i, 0x1, 0x2)
                for i, name in enumerate(names)
            )
        )
        self._global = _Global(functions=ctypes.addressof(self._functions))
        ctypes.CDLL(str(LIBRARY))["__itt_api_init"](ctypes.byref(self._global), 0)
        self.places = dict(zip(names, self.pointers))
        for name, prototype in PROTOTYPES.items():
            setattr(self, name, ctypes.CFUNCTYPE(*prototype)(self.places[name]))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)  # for type checkers: attributes are made above
