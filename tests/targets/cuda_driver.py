"""For a process that uses the GPU through libcuda and records itself, without a thread of its own in between."""

import ctypes
import os
import struct
import threading

import numpy as np

from pillion._native import ffi, lib
from pillion_probes import CONSTANTS, STRUCTS

BLOCK = np.dtype(STRUCTS["pln_block"].dtype_spec())
RANGE = np.dtype(STRUCTS["pln_range"].dtype_spec())
ACTIVITY = np.dtype(STRUCTS["pln_activity"].dtype_spec())
KERNEL = 10


SLEEPING = ("35", "230")  # nanosleep and clock_nanosleep: so the stand-in waits for its device


class Driver:
    """A context and a kernel, which takes 101 ns: a device keeps up with any number of threads that launch it.

    Attributes:
        duration_ns: of the kernel.
    """

    def __init__(self) -> None:
        self.duration_ns = ctypes.c_uint64(101)
        self._arguments = (ctypes.c_void_p * 1)(ctypes.addressof(self.duration_ns))
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._function = ctypes.c_void_p()
        context, module = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        self.call("cuModuleLoadData", ctypes.byref(module), b"")
        self.call("cuModuleGetFunction", ctypes.byref(self._function), module, b"spin_for")
        self.context = context

    def call(self, name: str, *args: object) -> int:
        return int(getattr(self._cuda, name)(*args))

    def launch(self, count: int) -> None:
        launch = self._cuda.cuLaunchKernel
        for _ in range(count):
            launch(self._function, 1, 1, 1, 32, 1, 1, 0, None, self._arguments, None)


def start_waiting(driver: Driver) -> threading.Thread:
    """A thread that is in a call which waits for the device, 700 ms."""

    def wait() -> None:
        driver.call("cuCtxSetCurrent", driver.context)
        driver.duration_ns.value = 700_000_000
        driver.launch(1)
        driver.duration_ns.value = 101
        launched.set()
        driver.call("cuCtxSynchronize")

    launched = threading.Event()
    thread = threading.Thread(target=wait)
    thread.start()
    launched.wait()
    is_waiting = False
    while not is_waiting:
        with open(f"/proc/self/task/{thread.native_id}/syscall") as file:
            is_waiting = file.read().split()[0] in SLEEPING
    return thread


class Cupti:
    """What libcupti tells of itself."""

    def __init__(self, name: str = "libcupti.so.12") -> None:
        self._cupti = ctypes.CDLL(name)

    def enabled(self) -> tuple[int, int, int]:
        """Kinds (as bits), callbacks, subscribers."""
        self._cupti.fake_cupti_enabled_kinds.restype = ctypes.c_uint64
        self._cupti.fake_cupti_enabled_callbacks.restype = ctypes.c_size_t
        kinds = self._cupti.fake_cupti_enabled_kinds()
        return kinds, self._cupti.fake_cupti_enabled_callbacks(), self._cupti.fake_cupti_subscribed() & 0xFF

    def number(self, name: str, *args: int) -> int:
        function = getattr(self._cupti, f"fake_cupti_{name}")
        function.restype = ctypes.c_size_t
        return int(function(*args))


class Recording:
    """Of the process, by itself."""

    def __enter__(self) -> "Recording":
        self._spool = os.memfd_create("spool")
        assert lib.pln_self_start(self._spool) == 0
        return self

    def __exit__(self, *_: object) -> None:
        sink, losses = ffi.new("struct pln_sink *"), ffi.new("struct pln_loss[]", 64)
        count = lib.pln_self_stop(sink, losses, 64)
        self.losses = {loss.kind: loss.count for loss in losses[0:count]}
        records, self._log = b"", b""
        data = os.pread(self._spool, os.fstat(self._spool).st_size, 0)
        at = 0
        while at < len(data):
            block = np.frombuffer(data, BLOCK, 1, at)[0]
            payload = data[at + BLOCK.itemsize :][: int(block["length"])]
            at += BLOCK.itemsize + len(payload)
            if block["kind"] == CONSTANTS["PLN_BLOCK_RECORDS"]:
                records += payload
            elif block["kind"] == CONSTANTS["PLN_BLOCK_STRINGS"]:
                self._log += payload
        everything = np.frombuffer(records, RANGE)
        is_call = (everything["kind"] == CONSTANTS["PLN_RANGE"]) & (
            everything["source"] == CONSTANTS["PLN_SOURCE_CUDA"]
        )
        self.calls = everything[is_call]
        unfinished = (everything["kind"] == CONSTANTS["PLN_RANGE"]) & (
            everything["flags"] & CONSTANTS["PLN_UNFINISHED"] != 0
        )
        self.unfinished = int(unfinished.sum())  # ranges: their calls are not told
        self.activities = everything[everything["kind"] == CONSTANTS["PLN_ACTIVITY"]].view(ACTIVITY)
        self.kernels = self.activities[self.activities["activity"] == KERNEL]
        self.notices = [self.text(name) for name in everything["name"][everything["kind"] == CONSTANTS["PLN_NOTICE"]]]
        os.close(self._spool)

    def text(self, string_id: int) -> str:
        (length,) = struct.unpack_from("<I", self._log, int(string_id) * 8)
        return self._log[int(string_id) * 8 + 8 :][:length].decode()

    def calls_named(self, name: str) -> int:
        return sum(self.text(string_id) == name for string_id in self.calls["name"])

    def linked(self) -> int:
        """Kernels whose call is there."""
        return int(self._is_linked().sum())

    def unlinked(self) -> tuple[int, int]:
        """Kernels whose call is not there: of calls that CUPTI knew, and of calls in which it came to the process."""
        known = self.kernels["correlation"] != 0
        return int((known & ~self._is_linked()).sum()), int((~known).sum())

    def _is_linked(self) -> np.ndarray:
        value = self.kernels["epoch"].astype(np.uint64) << np.uint64(32) | self.kernels["correlation"]
        return np.isin(value, self.calls["value"])
