"""What recording needs, each thing really tried. ``pillion doctor`` prints it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pillion_agent.errors import AgentError


def _root() -> str:
    if os.geteuid() != 0:
        raise AgentError("not root", "eBPF needs root", "run `sudo pillion doctor`")
    return "root"


def _bcc() -> str:
    try:
        import bcc
    except ImportError as error:
        raise AgentError("bcc is missing", str(error), "apt install python3-bpfcc") from error
    if not hasattr(bcc, "BPF"):
        raise AgentError("this is another bcc", "PyPI's package of that name is unrelated", "apt install python3-bpfcc")
    return f"bcc {bcc.__version__}"


def _psutil() -> str:
    try:
        import psutil
    except ImportError as error:
        raise AgentError("psutil is missing", str(error), "apt install python3-psutil") from error
    return f"psutil {psutil.__version__}"


def _btf() -> str:
    from pillion_agent.btf import BTF, VMLINUX

    try:
        BTF().member_offset("task_struct", "pid")
    except (OSError, ValueError, LookupError) as error:
        raise AgentError("no BTF", str(error), "use a kernel built with CONFIG_DEBUG_INFO_BTF=y") from error
    return str(VMLINUX)


def _programs() -> Any:
    from pillion_agent.programs import Programs

    return Programs()


def _loads() -> str:
    _programs()
    return "compiled, and accepted by the kernel"


def _clock() -> str:
    for fd in _programs().attach_clock(10_101_010):
        os.close(fd)
    return "perf software clock on every CPU"


def _scheduler() -> str:
    for fd in _programs().attach_scheduler():
        os.close(fd)
    return "raw tracepoints of the scheduler"


def _uprobe() -> str:
    from pillion_agent.uprobe import Place
    from pillion_agent.usdt import library_path, read_probes

    (probe,) = (probe for probe in read_probes(library_path()) if probe.name == "range")
    with library_path().open("rb") as library:
        for fd in _programs().attach_probes("on_record", library.fileno(), [Place(probe.location, probe.semaphore, 1)]):
            os.close(fd)
    return "uprobe on libpillion.so"


def _tracefs() -> str:
    mounted = any(Path(path, "events").is_dir() for path in ("/sys/kernel/tracing", "/sys/kernel/debug/tracing"))
    return "mounted" if mounted else "not mounted, not needed"


_CHECKS: dict[str, Callable[[], str]] = {
    "root": _root,
    "bcc": _bcc,
    "psutil": _psutil,
    "BTF": _btf,
    "eBPF programs": _loads,
    "samples": _clock,
    "waits": _scheduler,
    "USDT": _uprobe,
    "tracefs": _tracefs,
}


def run_checks() -> list[dict[str, object]]:
    """One {"check", "ok", "detail", "fix"} each, in the order in which they depend on each other."""
    results: list[dict[str, object]] = []
    for name, check in _CHECKS.items():
        try:
            results.append({"check": name, "ok": True, "detail": check(), "fix": ""})
        except AgentError as error:
            results.append({"check": name, "ok": False, "detail": f"{error.error}: {error.cause}", "fix": error.fix})
        except Exception as error:  # a check must not hide the others
            results.append({"check": name, "ok": False, "detail": repr(error), "fix": "report it"})
    return results
