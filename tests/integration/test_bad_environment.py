"""What the machine lacks: said in one line with the cause and the fix, or done without."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from capture_questions import losses, range_names
from own_agent import OTHER_USER, OwnAgent, run_pillion

Target = Callable[..., Any]

NO_BTF = "cannot load eBPF programs: no BTF: "
BTF_FIX = "use a kernel built with CONFIG_DEBUG_INFO_BTF=y"
BIG_ENDIAN = struct.pack(">HBBIIIII", 0xEB9F, 1, 0, 24, 0, 0, 0, 1) + b"\0"
TRUNCATED = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, 12, 12, 13) + b"\1\0\0\0\5\0\0\4\1\0\0\0\0task_struct\0"


def in_other_mounts(script: str) -> list[str]:
    """A prefix that runs a command where only it sees what the script mounts."""
    return ["unshare", "--mount", "sh", "-ec", f'{script}\nexec "$@"', "sh"]


def refusal(agent: OwnAgent) -> tuple[int, str]:
    """Exit code and line of an agent that does not start; it says the same to whoever started it."""
    code, said = agent.wait()
    assert said.count("\n") == 1
    assert agent.answer["code"] == code
    line = "pillion-agent: {error}: {cause}; {fix}\n".format(**agent.answer)
    assert said == line
    return code, said.removeprefix("pillion-agent: ").rstrip("\n")


@pytest.mark.usefixtures("require_users")
@pytest.mark.parametrize("arguments", [["record", "-p", "1"], ["run", "--", "true"], ["agent", "start"]])
def test_without_root_and_without_an_agent_it_says_how_to_get_one(user_folder: Path, arguments: list[str]) -> None:
    result = run_pillion(user_folder, *arguments, user=OTHER_USER, cwd=user_folder)
    assert result.returncode == 3
    assert result.stderr.startswith("pillion: no agent runs: ")
    assert result.stderr.endswith("; `sudo pillion agent start`\n")
    assert result.stderr.count("\n") == 1
    assert not list(user_folder.iterdir())


@pytest.mark.usefixtures("require_users")
def test_an_agent_without_root_says_so(user_folder: Path) -> None:
    prefix = ["setpriv", f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups"]
    agent = OwnAgent(user_folder, prefix)
    assert refusal(agent) == (3, "cannot start: eBPF needs root; use sudo")
    assert not list(user_folder.iterdir())


@pytest.mark.usefixtures("require_bpf")
@pytest.mark.parametrize(
    ("module", "cause"),
    [
        ("raise ModuleNotFoundError(\"No module named 'bcc'\")", "No module named 'bcc'"),
        ("", "cannot import name 'BPF' from 'bcc'"),  # PyPI's package of that name
    ],
)
def test_an_agent_without_bcc_names_the_package(tmp_path: Path, module: str, cause: str) -> None:
    (tmp_path / "bcc").mkdir()
    (tmp_path / "bcc" / "__init__.py").write_text(module)
    code, line = refusal(OwnAgent(tmp_path / "sockets", PYTHONPATH=str(tmp_path)))
    assert code == 3
    assert line.startswith(f"cannot load eBPF programs: no bcc: {cause}")
    assert line.endswith("; apt install python3-bpfcc")
    assert not (tmp_path / "sockets").exists()


@pytest.mark.usefixtures("require_bpf")
def test_an_agent_on_a_kernel_without_btf_says_what_kernel_it_needs(tmp_path: Path) -> None:
    agent = OwnAgent(tmp_path / "sockets", in_other_mounts("mount -t tmpfs none /sys/kernel/btf"))
    code, line = refusal(agent)
    assert code == 3
    assert line == f"{NO_BTF}[Errno 2] No such file or directory: '/sys/kernel/btf/vmlinux'; {BTF_FIX}"
    assert not (tmp_path / "sockets").exists()


@pytest.mark.usefixtures("require_bpf")
@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"", "/sys/kernel/btf/vmlinux is not little-endian BTF"),
        (bytes(range(64)), "/sys/kernel/btf/vmlinux is not little-endian BTF"),
        (BIG_ENDIAN, "/sys/kernel/btf/vmlinux is not little-endian BTF"),
        (BIG_ENDIAN[1::-1] + BIG_ENDIAN[2:], "the kernel has no struct task_struct"),
        (TRUNCATED, "damaged BTF: "),
    ],
    ids=["empty", "random", "big-endian", "nothing-inside", "truncated"],
)
def test_an_agent_with_unusable_btf_says_so(tmp_path: Path, content: bytes, cause: str) -> None:
    (tmp_path / "btf").write_bytes(content)
    script = f"mount --bind '{tmp_path}/btf' /sys/kernel/btf/vmlinux"
    code, line = refusal(OwnAgent(tmp_path / "sockets", in_other_mounts(script)))
    assert code == 3
    assert line.startswith(f"{NO_BTF}{cause}")
    assert line.endswith(f"; {BTF_FIX}")


@pytest.mark.usefixtures("require_bpf")
@pytest.mark.parametrize("name", ["file/sockets", "x" * 100])
def test_a_socket_folder_that_cannot_be_one_is_named_with_the_fix(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    result = run_pillion(tmp_path / name, "agent", "start")
    assert result.returncode == 3
    assert result.stderr.startswith("pillion: ")
    assert str(tmp_path / name) in result.stderr
    assert result.stderr.endswith("set PILLION_SOCKET to a folder of root\n")
    assert result.stderr.count("\n") == 1


@pytest.mark.usefixtures("require_bpf")
def test_of_two_agents_that_start_at_once_one_stays(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pillion_agent", "--socket-dir", str(tmp_path / "s"), "--ready-fd", "1"]
    pair = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    listening = [process for process in pair if process.stdout and '"ok": true' in process.stdout.readline()]
    assert len(listening) == 1
    (refused,) = (process for process in pair if process not in listening)
    _, said = refused.communicate(timeout=60)
    assert refused.returncode == 1
    assert said == (
        f"pillion-agent: cannot start: an agent listens on {tmp_path / 's' / 'agent.sock'}; "
        "stop it with `pillion agent stop`\n"
    )
    assert run_pillion(tmp_path / "s", "agent", "stop").returncode == 0
    listening[0].communicate(timeout=60)
    assert not list((tmp_path / "s").glob("*.sock"))


@pytest.mark.usefixtures("require_bpf")
def test_everything_works_without_tracefs_and_without_headers(target: Target, record_with: Any) -> None:
    folders = ("/sys/kernel/tracing", "/sys/kernel/debug", "/lib/modules", "/usr/src", "/usr/include")
    script = "".join(f"[ ! -d {folder} ] || mount -t tmpfs none {folder}\n" for folder in folders)
    with OwnAgent(None, in_other_mounts(script)) as agent:
        root = Path(f"/proc/{agent.pid}/root")
        assert [folder for folder in folders if any((root / folder[1:]).glob("*"))] == []
        victim = target("count_ranges", 10_007, wait=True)
        session = record_with(agent, victim.pid, transport="usdt", rate_hz=997)
        victim.go()
        session.wait_for_end()
        victim.answer()
        capture = session.finish()
    assert range_names(capture).count("counted") + sum(losses(capture).values()) == 10_007
    assert len(capture.columns["samples"]["tid"]) > 0
