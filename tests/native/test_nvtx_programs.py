"""Programs that embed NVTX: threads, signals, forks, unloaded libraries, and ends without clean-up."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nvtx_tables import LIBRARY

from pillion._native import lib
from pillion_probes import CONSTANTS

HERE = Path(__file__).parent
RANGE, MARK = CONSTANTS["PLN_RANGE"], CONSTANTS["PLN_MARK"]


def run(jobs: Any, program: Path, *words: str, **env: str) -> Any:
    return jobs.start(program, *words, NVTX_INJECTION64_PATH=str(LIBRARY), **env)


def delivered_and_lost(collector: Any) -> tuple[int, int]:
    kinds = (len(collector.spool.records()), len(collector.spool.records("PLN_MARK")))
    losses = collector.losses()
    return sum(kinds), losses.get(RANGE, 0) + losses.get(MARK, 0) + losses.get(lib.PLN_LOSS_THREADS, 0)


@pytest.mark.parametrize("ring", ["64", "131072"], ids=["full rings", "roomy rings"])
def test_a_thousand_threads_lose_nothing_uncounted(
    jobs: Any, collect: Callable[..., Any], compile_c: Callable[..., Path], ring: str
) -> None:
    program = compile_c(HERE / "annotated.c")
    job = run(jobs, program, "threads", "17", PILLION_RING_RECORDS=ring)
    _, region_fd = jobs.region()
    collector = collect(region_fd)
    collector.begin()
    while job.poll() is None:
        collector.drain()
    tried = int(job.communicate()[0])
    collector.end()
    delivered, lost = delivered_and_lost(collector)
    assert (job.returncode, tried) == (0, 1000 * 17 * 4)
    assert delivered + lost == tried
    if ring != "64":
        assert Counter(name for name, _ in collector.spool.said()) == dict.fromkeys(
            ("outer", "inner", "started"), 17_000
        )


def test_a_signal_handler_may_annotate_in_the_middle_of_an_annotation(
    jobs: Any, collect: Callable[..., Any], compile_c: Callable[..., Path]
) -> None:
    job = run(jobs, compile_c(HERE / "annotated.c"), "signals", "2003")
    _, region_fd = jobs.region()
    collector = collect(region_fd)
    collector.begin()
    while job.poll() is None:
        collector.drain()
    tried = int(job.communicate()[0])
    collector.end()
    delivered, lost = delivered_and_lost(collector)
    assert delivered + lost == tried
    (ring,) = collector.rings()
    assert ring["depth"] == 0
    assert {name for name, _ in collector.spool.said()} <= {"outer", "inner", "started"}


def test_a_fork_child_annotates_for_itself(
    jobs: Any, collect: Callable[..., Any], compile_c: Callable[..., Path]
) -> None:
    job = run(jobs, compile_c(HERE / "annotated.c"), "forks", "101")
    regions = [jobs.region(), jobs.region()]
    assert job.wait() == 0
    found = {}
    for pid, region_fd in regions:
        collector = collect(region_fd)
        collector.begin()
        collector.end()
        assert not collector.losses()
        found[pid == job.pid] = Counter(name for name, _ in collector.spool.said())
    each = dict.fromkeys(("outer", "inner", "started"), 101)
    assert found[True] == {**each, "pushed before": 1, "started before": 1}
    assert found[False] == each


def test_a_library_may_be_unloaded_within_its_ranges(
    jobs: Any, collect: Callable[..., Any], compile_c: Callable[..., Path]
) -> None:
    library = compile_c(HERE / "annotated_library.c", "-shared", "-fPIC")
    job = run(jobs, compile_c(HERE / "annotated.c"), "unload", "37", str(library))
    _, region_fd = jobs.region()
    output, _ = job.communicate(timeout=60)
    assert (job.returncode, int(output)) == (0, 111)
    collector = collect(region_fd)
    collector.begin()
    collector.end()
    assert Counter(collector.spool.said()) == {
        ("pushed by the library", ""): 37,
        ("pushed in its domain", "of the library"): 37,
        ("started by the library", ""): 37,
    }


def test_two_processes_that_end_without_clean_up_keep_their_ranges(
    jobs: Any, collect: Callable[..., Any], compile_c: Callable[..., Path]
) -> None:
    program = compile_c(HERE / "annotated.c")
    both = [run(jobs, program, "plain", str(count)) for count in (101, 103)]
    regions = dict(jobs.region() for _ in both)
    for job, count in zip(both, (101, 103)):
        assert job.wait() == 0
        collector = collect(regions[job.pid])
        collector.begin()
        collector.end()
        names = Counter(name for name, _ in collector.spool.said())
        assert names == {"outer": count, "inner": count, "started": count, "left open": 1}


@pytest.mark.parametrize("limit", ["-f 64", "-v 30000"], ids=["no room for a region", "little address space"])
def test_a_job_without_room_goes_on(jobs: Any, compile_c: Callable[..., Path], limit: str) -> None:
    program = compile_c(HERE / "annotated.c")
    job = run(jobs, Path("/bin/sh"), "-c", f"ulimit {limit} && exec {program} plain 101")
    output, _ = job.communicate(timeout=60)
    assert (job.returncode, output) == (0, b"404\n")


def nvtx_headers() -> Path | None:
    """Where NVIDIA's own headers are: of a CUDA installation, or of their wheel, also one that CUDA_PACKAGES names."""
    cuda = [Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"]
    roots = [*sys.path, *filter(None, os.environ.get("CUDA_PACKAGES", "").split(":"))]
    wheels = [Path(root) / name / "include" for root in roots for name in ("nvidia/nvtx", "nvidia/cu13")]
    return next((path for path in cuda + wheels if (path / "nvtx3" / "nvToolsExt.h").exists()), None)


def test_a_program_built_with_nvidias_headers_is_recorded(
    jobs: Any, collect: Callable[..., Any], compile_c: Callable[..., Path]
) -> None:
    include = nvtx_headers()
    if include is None:
        pytest.skip("needs NVIDIA's NVTX headers, of CUDA or the package nvidia-nvtx-cu12")
    job = run(jobs, compile_c(HERE / "annotated_by_headers.c", f"-I{include}", "-ldl"))
    _, region_fd = jobs.region()
    assert job.wait() == 0
    collector = collect(region_fd)
    collector.begin()
    collector.end()
    in_domain = ("registered", "of headers\x1fthird\x1fdouble")
    ranges = [("pushed wide", ""), in_domain, ("pushed", ""), ("started", "")]
    assert collector.spool.said() == ranges * 11
    assert collector.spool.said("PLN_MARK") == [("marked", ""), in_domain] * 11
    assert not collector.losses()
