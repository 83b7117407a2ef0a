"""Profiles that other tools have made: in ../shared/data from the project's root, or where PILLION_DATA says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("PILLION_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")

ALL = (
    "kineto/alexnet_a100.json.gz",
    "kineto/simple_add_a100.json.gz",
    "kineto/triton_example.json.gz",
    "kineto/amd_mi250_rocm62.json.gz",
    "kineto/cpu_only.pt.trace.json.gz",
    "kineto/resnet50_2021.pt.trace.json.gz",
    "nsys/h100_2gpu.sqlite",
    "nvprof/pyprof_lm_v100.sqlite",
    "perf/forks.txt",
    "perf/simple_with_pid.txt",
)


def real_profile(name: str) -> Path:
    """The path of one; the test skips where it is not."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"needs {path}; PILLION_DATA can name another folder")
    return path
