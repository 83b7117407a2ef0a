"""torch's operators without torch's engine: the native library has their names, threads and sequence numbers."""

from __future__ import annotations

import errno
import logging
import os
import sys

from pillion._native import ffi, lib
from pillion.torch_engine.engine import torch_autograd

_log = logging.getLogger("pillion")
_recorded = False


def record_operators() -> None:
    """From now on whoever records this process gets them, if it has imported torch; meanwhile they cost nothing."""
    global _recorded
    file = getattr(sys.modules.get("torch"), "__file__", None)
    if _recorded or not file or torch_autograd() is None or "PILLION_NO_OPS" in os.environ:
        return
    _recorded = True
    missing = ffi.new("char const **")
    path = os.path.join(os.path.dirname(file), "lib", "libtorch_cpu.so")
    if lib.pln_torch_start(os.fsencode(path), missing) == -errno.ENOSYS:
        symbol = ffi.string(missing[0]).decode()
        _log.warning("no operators of torch: it has no %s; with activities=… its own engine records them", symbol)
