"""Where libcupti is looked for."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROLOGUE = f"""
import ctypes, sys
sys.path.insert(0, {str(Path(__file__).parent.parent / "targets")!r})
from cuda_driver import Driver, Recording

def record():
    driver = Driver()
    with Recording() as recording:
        driver.launch(101)
    maps = [line.split()[-1] for line in open("/proc/self/maps") if "libcupti" in line]
    return (maps[0] if maps else None, len(recording.kernels), recording.notices)
"""


@pytest.fixture
def with_driver_alone(
    alone: Callable[..., Any], fake_gpu: Callable[..., Any], tmp_path: Path
) -> Callable[..., tuple[str | None, int, list[str]]]:
    """``with_driver_alone(code, **env)``: the loader finds libcuda, and nothing else of CUDA."""
    driver = tmp_path / "driver"
    driver.mkdir()
    shutil.copy(fake_gpu().libcuda, driver)
    return lambda code, **env: alone(PROLOGUE + code, LD_LIBRARY_PATH=str(driver), **env)


def place(library: Path, directory: Path) -> str:
    directory.mkdir(parents=True, exist_ok=True)
    return str(shutil.copy(library, directory))


def test_it_is_found_in_the_toolkit(with_driver_alone: Any, fake_gpu: Callable[..., Any], tmp_path: Path) -> None:
    path = place(fake_gpu().libcupti, tmp_path / "cuda" / "extras" / "CUPTI" / "lib64")
    assert with_driver_alone("print(record())", CUDA_HOME=str(tmp_path / "cuda")) == (path, 101, [])


@pytest.mark.parametrize(
    ("runtime", "cupti"),
    [
        ("nvidia/cuda_runtime/lib", "nvidia/cuda_cupti/lib"),
        ("nvidia/cu13/lib", "nvidia/cu13/lib"),
        ("cuda/lib64", "cuda/extras/CUPTI/lib64"),
        ("cuda/targets/x86_64-linux/lib", "cuda/extras/CUPTI/lib64"),
    ],
)
def test_it_is_found_next_to_the_runtime_that_the_job_uses(
    with_driver_alone: Any, fake_gpu: Callable[..., Any], tmp_path: Path, runtime: str, cupti: str
) -> None:
    gpu = fake_gpu()
    path = place(gpu.libcupti, tmp_path / cupti)
    runtime_path = place(gpu.libcudart, tmp_path / runtime)
    found, kernels, notices = with_driver_alone(f"ctypes.CDLL({runtime_path!r})\nprint(record())")
    assert (found, kernels, notices) == (path, 101, [])


def test_it_is_found_among_the_packages_of_which_the_job_uses_another(
    with_driver_alone: Any, fake_gpu: Callable[..., Any], tmp_path: Path
) -> None:
    gpu = fake_gpu()
    path = place(gpu.libcupti, tmp_path / "site-packages" / "nvidia" / "cuda_cupti" / "lib")
    other = place(gpu.libcudart, tmp_path / "site-packages" / "torch" / "lib")
    Path(other).rename(renamed := Path(other).with_name("libtorch_cuda.so"))
    found, kernels, notices = with_driver_alone(f"ctypes.CDLL({str(renamed)!r})\nprint(record())")
    assert (found, kernels, notices) == (path, 101, [])


def test_one_that_the_job_has_loaded_is_taken_wherever_it_is(
    with_driver_alone: Any, fake_gpu: Callable[..., Any], tmp_path: Path
) -> None:
    path = place(fake_gpu().libcupti, tmp_path / "somewhere")
    found, kernels, notices = with_driver_alone(f"ctypes.CDLL({path!r})\nprint(record())")
    assert (found, kernels, notices) == (path, 101, [])


def test_where_there_is_none_it_is_said_and_the_job_goes_on(with_driver_alone: Any) -> None:
    found, kernels, notices = with_driver_alone("print(record())", CUDA_HOME="")
    assert (found, kernels) == (None, 0)
    assert [text for text in notices if "libcupti" in text and "was not found" in text]
