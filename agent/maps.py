"""eBPF maps as dictionaries of cffi structs."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

from pillion._native import ffi

_BPF_ANY, _BPF_EXIST = 0, 2


def _pointer(data: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(int(ffi.cast("uintptr_t", data)))


class Map:
    """A hash or array map.

    Args:
        fd: the map's descriptor.
        key: C type of the key, ``"uint32_t"``.
        value: C type of the value, ``"struct pln_target"``.
    """

    def __init__(self, fd: int, key: str, value: str) -> None:
        from bcc import lib

        self._lib = lib
        self.fd = fd
        self._key = key
        self._key_type = f"{key} *"
        self._value_type = f"{value} *"

    def get(self, key: int) -> Any:
        """A copy of the value, None where there is none."""
        found = ffi.new(self._value_type)
        where = ffi.new(self._key_type, key)
        return None if self._lib.bpf_lookup_elem(self.fd, _pointer(where), _pointer(found)) else found

    def put(self, key: int, value: Any) -> bool:
        """False when the map is full."""
        return self._update(key, value, _BPF_ANY)

    def replace(self, key: int, value: Any) -> bool:
        """False when there is no such key: an eBPF program may have deleted it since it was read."""
        return self._update(key, value, _BPF_EXIST)

    def _update(self, key: int, value: Any, flags: int) -> bool:
        where = ffi.new(self._key_type, key)
        return not self._lib.bpf_update_elem(self.fd, _pointer(where), _pointer(value), flags)

    def delete(self, key: int) -> None:
        where = ffi.new(self._key_type, key)
        self._lib.bpf_delete_elem(self.fd, _pointer(where))

    def keys(self) -> Iterator[int]:
        """All keys; entries that come or go meanwhile may be missed, or seen twice when the kernel starts over."""
        at, following = ffi.new(self._key_type), ffi.new(self._key_type)
        if self._lib.bpf_get_first_key(self.fd, _pointer(at), ffi.sizeof(self._key)):
            return
        while True:
            yield int(at[0])
            if self._lib.bpf_get_next_key(self.fd, _pointer(at), _pointer(following)):
                return
            at[0] = following[0]


def sum_per_cpu(fd: int, index: int, cpus: int) -> int:
    """Total of one u64 of a per-CPU array over all possible CPUs."""
    from bcc import lib

    values = ffi.new("uint64_t[]", cpus)
    where = ffi.new("uint32_t *", index)
    if lib.bpf_lookup_elem(fd, _pointer(where), _pointer(values)):
        return 0
    return sum(values)
