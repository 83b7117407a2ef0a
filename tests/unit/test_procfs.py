"""/proc as the agent reads it, of this process and of its children."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pillion_agent.procfs import (
    Mapping,
    find_regions,
    mapped_file,
    read_environment,
    read_mappings,
    read_process,
    thread_ids,
)

TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def boot_offset_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()


def test_this_process_is_described() -> None:
    info = read_process(os.getpid(), boot_offset_ns())
    assert (info.pid, info.ppid, info.uid) == (os.getpid(), os.getppid(), os.getuid())
    assert "pytest" in info.cmdline
    assert info.start_ns < time.monotonic_ns()
    assert not info.exiting


@pytest.mark.parametrize("name", ["plain", ") R 1 (", "new\nline", "\udcff\udcfe"])
def test_a_process_is_described_whatever_it_calls_itself(name: str) -> None:
    script = 'printf %s "$0" > /proc/self/comm; echo ready; read line'
    child = subprocess.Popen(["sh", "-c", script, os.fsencode(name)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout
        assert child.stdout.readline() == b"ready\n"
        before_ns = time.monotonic_ns()
        info = read_process(child.pid, boot_offset_ns())
        assert info.comm == os.fsencode(name).decode(errors="replace")
        assert info.ppid == os.getpid()
        assert info.start_ns <= before_ns
    finally:
        child.communicate()


def test_a_zombie_is_exiting_and_then_there_is_no_process() -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert read_process(child.pid, boot_offset_ns()).exiting
    child.wait()
    with pytest.raises(OSError):  # noqa: PT011 - ENOENT or ESRCH
        read_process(child.pid, boot_offset_ns())


def test_threads_are_listed() -> None:
    told = threading.Event()
    thread = threading.Thread(target=told.wait)
    thread.start()
    assert {os.getpid(), thread.native_id} <= set(thread_ids(os.getpid()))
    told.set()
    thread.join()


@pytest.mark.parametrize("name", ["plain", "with space", "line\ftab\x0bend\x85\u2028", "carriage\rreturn", "\udcff"])
def test_a_mapping_is_one_whatever_its_file_is_called(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(bytes(4096))
    code = (
        "import mmap, os, signal, sys\n"
        "with open(os.fsencode(sys.argv[1]), 'rb') as f: m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)\n"
        "print(flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen([sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout
        child.stdout.readline()
        mappings = read_mappings(child.pid)
        (found,) = (mapping for mapping in mappings if mapping.path == str(path))
        assert (found.end - found.start, found.offset, found.permissions) == (4096, 0, "r--s")
        assert mappings == sorted(mappings, key=lambda mapping: mapping.start)
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()


def test_regions_are_found_by_the_name_of_their_memfd() -> None:
    region, other = os.memfd_create("pillion"), os.memfd_create("another")
    try:
        found = find_regions(os.getpid())
        assert f"/proc/{os.getpid()}/fd/{region}" in found
        assert f"/proc/{os.getpid()}/fd/{other}" not in found
    finally:
        os.close(region)
        os.close(other)


def test_the_environment_is_that_of_the_start_also_where_it_is_empty() -> None:
    for environment in ({"A": "b=c", "LONG": "x" * 70_000}, {}):
        with subprocess.Popen(["/bin/cat"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            assert child.stdin
            assert child.stdout
            child.stdin.write(b"!")
            child.stdin.flush()
            assert child.stdout.read(1) == b"!"
            assert read_environment(child.pid) == environment


def test_a_process_that_has_ended_has_no_environment() -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(OSError):  # noqa: PT011 - EACCES, ENOENT or ESRCH
        read_environment(child.pid)
    child.wait()


@contextmanager
def running(program: Path) -> Iterator[tuple[subprocess.Popen[bytes], Mapping]]:
    """A process of a program of its own, and where that is mapped."""
    shutil.copy("/bin/cat", program)
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin
        assert child.stdout
        child.stdin.write(b"!")
        child.stdin.flush()
        assert child.stdout.read(1) == b"!"
        yield child, next(found for found in read_mappings(child.pid) if found.path == str(program))


def test_a_mapped_file_is_found_without_its_name(require_root: None, tmp_path: Path) -> None:
    program = tmp_path / "cat"
    with running(program) as (child, mapping):
        inode = program.stat().st_ino
        program.unlink()
        assert mapped_file(child.pid, mapping).stat().st_ino == inode
        # Its range has changed since it was read: by the name, and in the process's root.
        assert mapped_file(child.pid, replace(mapping, end=1)) == Path(f"/proc/{child.pid}/root{program}")
    assert mapped_file(child.pid, mapping) == Path(f"/proc/{child.pid}/root{program}"), "it has ended"


def test_a_mapped_file_is_found_when_its_process_has_ended(tmp_path: Path) -> None:
    program = tmp_path / "cat"
    with running(program) as (child, mapping):
        pass
    assert mapped_file(child.pid, mapping) == program
    elsewhere = replace(mapping, file=("00:99", mapping.file[1]))
    assert mapped_file(child.pid, elsewhere) == Path(f"/proc/{child.pid}/root{program}"), "of another device"
    program.unlink()
    shutil.copy("/bin/ls", tmp_path / "ls")
    (tmp_path / "ls").rename(program)
    if program.stat().st_ino != int(mapping.file[1]):
        assert mapped_file(child.pid, mapping) != program, "it is another file by now"
