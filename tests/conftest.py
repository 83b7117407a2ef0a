"""What tests share: what the machine must have, victims to watch, an agent to watch them with."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import importlib.util
import json
import os
import platform
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TARGETS = Path(__file__).parent / "targets"
READY_TIMEOUT_S = 60
ANSWER_TIMEOUT_S = 120


# ---- what the machine must have ----


@pytest.fixture(scope="session")
def require_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")


@pytest.fixture(scope="session")
def require_bpf(require_root: None) -> None:
    """The conditions of eBPF that the project cannot bring itself; what fails beyond them is a failure, not a skip."""
    if importlib.util.find_spec("bcc") is None:
        pytest.skip("needs bcc in this Python (python3-bpfcc)")
    if not Path("/sys/kernel/btf/vmlinux").exists():
        pytest.skip("needs a kernel with BTF (/sys/kernel/btf/vmlinux)")
    if error := _bpf_error():
        pytest.skip(f"needs bpf(): {os.strerror(error)}")


def _bpf_error() -> int:
    """The errno with which the kernel refuses to make a BPF map, 0 where it makes one."""
    number = {"x86_64": 321, "aarch64": 280}.get(platform.machine())
    if number is None:
        return errno.ENOSYS
    libc = ctypes.CDLL(None, use_errno=True)
    array_of_one = (ctypes.c_uint32 * 18)(2, 4, 4, 1)  # BPF_MAP_TYPE_ARRAY; sizes of key and value; entries
    fd = libc.syscall(number, 0, ctypes.byref(array_of_one), ctypes.sizeof(array_of_one))
    if fd < 0:
        return ctypes.get_errno()
    os.close(fd)
    return 0


@pytest.fixture(scope="session")
def require_torch() -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch")


# ---- victims ----


class Victim:
    """A running program of tests/targets.

    Attributes:
        pid: of the program.
        facts: what it said when it was ready, ``{"pid": …, "tid": …}`` and more as its docstring tells.
    """

    def __init__(self, command: list[str], env: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=os.environ | (env or {}),
            start_new_session=True,
        )
        self.pid = self._process.pid
        self.facts: dict[str, Any] = {}
        try:
            self._await_ready(command)
        except BaseException:
            self.stop()
            raise

    def _await_ready(self, command: list[str]) -> None:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], READY_TIMEOUT_S)[0]:
            raise TimeoutError(f"{command} was not ready within {READY_TIMEOUT_S} s")
        word, _, facts = self._process.stdout.readline().decode().partition(" ")
        if word != "ready":
            raise RuntimeError(f"{command} ended with {self._process.wait()} before it was ready")
        self.facts = json.loads(facts)

    def go(self) -> None:
        """Let a victim begin that was started with ``wait=True``."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    def answer(self, timeout_s: float = ANSWER_TIMEOUT_S) -> dict[str, Any]:
        """Close the victim's stdin, wait for it to end well, and return its known answer."""
        output, _ = self._process.communicate(timeout=timeout_s)
        assert self._process.returncode == 0, f"the victim ended with {self._process.returncode}"
        answer: dict[str, Any] = json.loads(output.splitlines()[-1])
        return answer

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send the victim, not its children, a signal, and wait for its end."""
        self._process.send_signal(number)
        self._process.wait(READY_TIMEOUT_S)

    def stop(self) -> None:
        """End the victim and its children, whatever they do."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait(READY_TIMEOUT_S)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def target() -> Iterator[Callable[..., Victim]]:
    """``target(name, *args, wait=False, env=None, user=None)`` starts a victim and returns once it is ready.

    name is a module of tests/targets, or the path of a program that ``compile_c`` made. With ``wait=True`` the victim
    begins at ``go()``, or at ``answer()``. user: the uid that it runs as. Victims that still run are killed when the
    test is over.
    """
    victims: list[Victim] = []

    def start(
        name: str | Path,
        *args: object,
        wait: bool = False,
        env: dict[str, str] | None = None,
        user: int | None = None,
    ) -> Victim:
        words = [str(arg) for arg in args]
        if isinstance(name, Path):
            command = [str(name), *words, *(["wait"] if wait else [])]
        else:
            command = [sys.executable, str(TARGETS / f"{name}.py"), *words, *(["--wait"] if wait else [])]
        if user is not None:
            command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command]
        victims.append(Victim(command, env))
        return victims[-1]

    yield start
    for victim in victims:
        victim.stop()


@pytest.fixture(scope="session")
def compile_c(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """``compile_c(source, *flags)`` builds a program from a C file (a name in tests/targets, or a path), once."""
    built: dict[tuple[str, ...], Path] = {}

    def build(source: str | Path, *flags: str) -> Path:
        path = TARGETS / source
        key = (str(path), *flags)
        if key not in built:
            program = tmp_path_factory.mktemp("c") / path.stem
            basic = ["-O1", "-g", "-fno-omit-frame-pointer", "-Wall", "-Wextra", "-Werror", "-pthread"]
            subprocess.run(["gcc", *basic, "-o", str(program), str(path), *flags], check=True)
            built[key] = program
        return built[key]

    return build


# ---- a GPU that is none ----


@pytest.fixture(scope="session")
def fake_gpu(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """``fake_gpu(version="12.6", missing=())`` builds the stand-ins for a version of CUDA once: tests/fake_gpu."""
    spec = importlib.util.spec_from_file_location("fake_gpu_build", Path(__file__).parent / "fake_gpu" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    built: dict[tuple[str, ...], Any] = {}

    def build(version: str = "12.6", missing: tuple[str, ...] = ()) -> Any:
        key = (version, *missing)
        if key not in built:
            built[key] = module.build(tmp_path_factory.mktemp(f"cuda-{version}"), version, missing)
        return built[key]

    return build


# ---- the agent ----


@dataclass(frozen=True)
class Agent:
    """An agent of this test run's own; the environment points every pillion of the run to it."""

    directory: Path
    pid: int


@pytest.fixture(scope="session")
def agent(require_bpf: None) -> Iterator[Agent]:
    """One agent for the whole run, in a socket directory of its own (``PILLION_SOCKET``)."""
    directory = Path(tempfile.mkdtemp(prefix="pillion-"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PILLION_SOCKET", str(directory))
        _pillion("agent", "start")
        status = json.loads(_pillion("agent", "status", "--json"))
        yield Agent(directory, status["pid"])
        _pillion("agent", "stop")
    shutil.rmtree(directory, ignore_errors=True)


def _pillion(*args: str) -> str:
    """Run a command of pillion that is expected to work; returns its stdout."""
    command = [sys.executable, "-m", "pillion", *args]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=READY_TIMEOUT_S).stdout


# ---- the last line ----


def pytest_unconfigure(config: pytest.Config) -> None:
    """After everything that pytest prints itself: how many tests were skipped, and why."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or config.option.collectonly:
        return
    reasons = Counter(_skip_reason(report) for report in reporter.stats.get("skipped", []))
    told = "; ".join(f"{count} × {reason}" for reason, count in reasons.most_common())
    reporter.write_line(f"skipped: {reasons.total()}" + (f" ({told})" if told else ""))


def _skip_reason(report: pytest.TestReport) -> str:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")
