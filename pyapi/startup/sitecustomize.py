"""Runs in every Python that ``pillion run`` starts: PYTHONPATH leads here. Without its environment it does nothing.

It needs nothing of Pillion but the library, since the job's Python may be another one than ours, and does next to
nothing until the job imports torch: then torch's operators are recorded from the first one on.
"""

import importlib.machinery
import importlib.util
import os
import sys

_LIBRARY = os.environ.get("PILLION_LIBRARY")


def _library_path():
    """The job's own copy where it has one: a process has one libpillion.so, and the job's modules fit theirs."""
    own = importlib.machinery.PathFinder.find_spec("pillion")
    if own and own.origin:
        return os.path.join(os.path.dirname(own.origin), "libpillion.so")
    return _LIBRARY


def _record_operators(torch):
    """The library tells by itself whether somebody records; a torch that does not fit is said once, on stderr."""
    import ctypes
    import errno

    library = ctypes.CDLL(_OWN)
    missing = ctypes.c_char_p()
    path = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")
    result = library.pln_torch_start(os.fsencode(path), ctypes.byref(missing))
    if result == -errno.ENOSYS:
        symbol = missing.value.decode()
        print(f"pillion: no operators of torch {torch.__version__}: it has no {symbol}", file=sys.stderr)


class _AfterTorch:
    """A finder that finds nothing itself: it has a word with torch's loader."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_record(module):
            execute(module)
            try:
                _record_operators(module)
            except Exception as error:  # never the job's problem
                print(f"pillion: no operators of torch: {error!r}", file=sys.stderr)

        spec.loader.exec_module = execute_and_record
        return spec


def _run_the_other_sitecustomize():
    """The one that would have run without us."""
    here = os.path.dirname(os.path.abspath(__file__))
    elsewhere = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec and spec.loader:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if _LIBRARY:
    _OWN = _library_path()
    for _variable in ("NVTX_INJECTION64_PATH", "INTEL_LIBITTNOTIFY64"):
        if os.environ.get(_variable) == _LIBRARY:
            os.environ[_variable] = _OWN
    sys.meta_path.insert(0, _AfterTorch())
_run_the_other_sitecustomize()
