"""The eBPF programs: compiled once by bcc when the agent starts, attached while sessions need them.

An attachment is a file descriptor. Closing it detaches, and the kernel closes it when the agent dies, however it dies.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pillion_probes
from pillion_agent.btf import BTF
from pillion_agent.errors import AgentError
from pillion_agent.uprobe import BPF_TRACE_UPROBE_MULTI, Place, attach_each, attach_together

if TYPE_CHECKING:
    from pillion_agent.session import Session

PROBES = Path(pillion_probes.__file__).parent
SOURCES = (
    "common.bpf.c",
    "sample.bpf.c",
    "sched.bpf.c",
    "lifecycle.bpf.c",
    "usdt.bpf.c",
    "launch.bpf.c",
    "user_probe.bpf.c",
)

PROBE_PROGRAMS = ("on_record", "on_launch", "on_user_probe")

# 8 MB holds 5,000 waits with full stacks between two drains of 50 ms: 100,000 per second.
EVENT_PAGES = 2048

# Tracepoint to program.
_RAW_TRACEPOINTS = {
    "sched_switch": "on_switch",
    "sched_wakeup": "on_wakeup",
    "sched_wakeup_new": "on_wakeup",
    "sched_process_fork": "on_fork",
    "sched_process_exec": "on_exec",
    "sched_process_exit": "on_exit",
}


def kernel_release() -> tuple[int, int]:
    """Major and minor version of the running kernel."""
    major, minor = platform.release().split(".")[:2]
    return int(major), int("".join(c for c in minor if c.isdigit()) or 0)


def _task_defines(btf: BTF) -> dict[str, str]:
    """Offsets in task_struct, as compiler defines."""
    machine = platform.machine()
    if machine != "x86_64":
        raise AgentError("cannot sample here", f"no register layout for {machine}", "run on x86-64", code=3)
    task = partial(btf.member_offset, "task_struct")
    defines = {
        "TASK_PID": str(task("pid")),
        "TASK_TGID": str(task("tgid")),
        "TASK_COMM": str(task("comm")),
        "TASK_TLS": str(task("thread") + btf.member_offset("thread_struct", "fsbase")),
        "TASK_RUNTIME": str(task("se") + btf.member_offset("sched_entity", "sum_exec_runtime")),
    }
    defines["BPRM_P"] = str(btf.member_offset("linux_binprm", "p"))
    defines["BPRM_EXEC"] = str(btf.member_offset("linux_binprm", "exec"))
    defines["TASK_SIGNAL"] = str(task("signal"))
    defines["SIGNAL_LIVE"] = str(btf.member_offset("signal_struct", "live"))
    argument = "((u32)((struct bpf_raw_tracepoint_args*)(ctx))->args[{}])"
    if kernel_release() >= (6, 16):  # the tracepoint hands it over since then
        defines["GROUP_DEAD(ctx)"] = argument.format(1)
    else:
        defines["GROUP_DEAD(ctx)"] = "(!live_threads((void*)bpf_get_current_task()))"
    if kernel_release() >= (5, 18):  # the tracepoint hands the state over since then
        defines["TASK_STATE(ctx,prev)"] = argument.format(3)
    else:
        member = "__state" if kernel_release() >= (5, 14) else "state"
        defines["TASK_STATE(ctx,prev)"] = f"task_field(prev,{task(member)})"
    return defines


def _compile(defines: dict[str, str], debug: int = 0) -> Any:
    # bcc would look for the headers of the running kernel; ours replace them (probes/kernel_headers).
    os.environ["BCC_KERNEL_SOURCE"] = str(PROBES / "kernel_headers")
    from bcc import BPF

    text = "".join(f'#line 1 "{name}"\n{(PROBES / name).read_text()}' for name in SOURCES)
    flags = [f"-D{name}={value}" for name, value in defines.items()]
    return BPF(
        text=text.encode(),
        cflags=[*flags, f"-I{PROBES}", "-D__BPF__", f"-D__TARGET_ARCH_{platform.machine()}", "-Wno-macro-redefined"],
        debug=debug,
    )


class Programs:
    """Compiled programs and their maps.

    Raises:
        AgentError: bcc is missing, the kernel has no BTF, or the kernel refuses a program.
    """

    def __init__(self) -> None:
        ring = pillion_probes.STRUCTS["pln_ring"]
        try:
            defines = _task_defines(BTF())
        except (OSError, ValueError, LookupError) as error:
            raise AgentError(
                "cannot load eBPF programs",
                f"no BTF: {error}",
                "use a kernel built with CONFIG_DEBUG_INFO_BTF=y",
                code=3,
            ) from error
        defines["EVENT_PAGES"] = str(EVENT_PAGES)
        defines["RING_DEPTH"] = str(ring.fields["depth"][1])
        try:
            self.bpf = _compile(defines)
        except ImportError as error:
            raise AgentError(
                "cannot load eBPF programs", f"no bcc: {error}", "apt install python3-bpfcc", code=3
            ) from error
        except Exception as error:  # bcc raises bare Exceptions
            raise AgentError("cannot compile eBPF programs", str(error), "run `pillion doctor`", code=3) from error
        from bcc import BPF

        kinds = {"on_clock": BPF.PERF_EVENT} | dict.fromkeys(_RAW_TRACEPOINTS.values(), BPF.RAW_TRACEPOINT)
        self._functions = {name: self._load(name, kind) for name, kind in kinds.items()}
        self._together = kernel_release() >= (6, 6)
        self._refused: dict[str, AgentError] = {}
        for name in PROBE_PROGRAMS:
            try:
                self._functions[name] = self._load(name, BPF.KPROBE, BPF_TRACE_UPROBE_MULTI if self._together else -1)
            except AgentError as error:  # before Linux 5.15; everything else works without them
                self._refused[name] = error

    def _load(self, name: str, kind: int, attach_type: int = -1) -> int:
        """Hands a program to the kernel's verifier; returns its descriptor."""
        try:
            return int(self.bpf.load_func(name.encode(), kind, attach_type=attach_type).fd)
        except Exception as error:
            raise AgentError(
                "the kernel refused an eBPF program", str(error), "run `pillion doctor`", code=3
            ) from error

    def attach_scheduler(self) -> list[int]:
        """Attaches switches, wakeups, forks, execs and exits; returns the descriptors to close."""
        from bcc import lib

        attached: list[int] = []
        for tracepoint, name in _RAW_TRACEPOINTS.items():
            fd = lib.bpf_attach_raw_tracepoint(self._functions[name], tracepoint.encode())
            if fd < 0:
                _close(attached)
                raise AgentError("cannot attach", f"raw tracepoint {tracepoint}", "run the agent as root", code=3)
            attached.append(fd)
        return attached

    def attach_clock(self, period_ns: int) -> list[int]:
        """Opens a software clock event on every online CPU; returns the descriptors to close."""
        from bcc import PerfSWConfig, PerfType, lib
        from bcc.utils import get_online_cpus

        attached: list[int] = []
        for cpu in get_online_cpus():
            fd = lib.bpf_attach_perf_event(
                self._functions["on_clock"], PerfType.SOFTWARE, PerfSWConfig.CPU_CLOCK, period_ns, 0, -1, cpu, -1
            )
            if fd < 0:
                _close(attached)
                reason = os.strerror(ctypes.get_errno())
                raise AgentError(
                    "cannot sample", f"perf_event_open on CPU {cpu}: {reason}", "run `pillion doctor`", code=3
                )
            attached.append(fd)
        return attached

    def attach_probes(self, name: str, file_fd: int, places: Sequence[Place], pid: int = 0) -> list[int]:
        """Attaches a program for USDT probes at these places of a file, in one process or (0) all that map it.

        Returns:
            The descriptors to close.

        Raises:
            AgentError: the kernel refused the program.
            OSError: it refuses a place.
        """
        if name in self._refused:
            raise self._refused[name]
        attach = attach_together if self._together else attach_each
        return attach(self._functions[name], file_fd, places, pid)

    def map_fd(self, name: str) -> int:
        return int(self.bpf[name.encode()].map_fd)


class Attachments:
    """What is attached at the moment, which is what the running sessions need and nothing more."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._attached: dict[tuple[str, int], list[int]] = {}

    def apply(self, sessions: Sequence[Session]) -> None:
        """Attaches what is missing and detaches what nobody needs.

        Raises:
            AgentError: something cannot be attached; what was attached before stays.
        """
        wanted: dict[tuple[str, int], Callable[[], list[int]]] = {}
        for session in sessions:
            request = session.request
            wanted["scheduler", 0] = self._programs.attach_scheduler
            if request.rate_hz:
                wanted["clock", request.period_ns] = partial(self._programs.attach_clock, request.period_ns)
        for key in self._attached.keys() - wanted.keys():
            for fd in self._attached.pop(key):
                os.close(fd)
        for key in wanted.keys() - self._attached.keys():
            self._attached[key] = wanted[key]()


def _close(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())
