"""CUPTI serves one at a time: what becomes of it when torch's profiler, or whoever else, wants it too."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch.profiler import ProfilerActivity

from pillion.torch_engine.engine import ProfilerStats, TorchEngine, TorchOptions

PACKAGE = Path(str(sys.modules["pillion._native"].__file__)).parent
LIBRARY = PACKAGE / "libpillion.so"
PROLOGUE = f"""
import ctypes, sys
sys.path.insert(0, {str(Path(__file__).parent.parent / "targets")!r})
from cuda_driver import Cupti, Driver, Recording, start_waiting

CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)

class Other:
    '''Another profiler: it subscribes, and counts calls.'''

    def __init__(self):
        self.calls, self.handle = 0, ctypes.c_void_p()
        self.callback = CALLBACK(self.count)
        self.cupti = ctypes.CDLL("libcupti.so.12")

    def count(self, *_):
        self.calls += 1

    def subscribe(self):
        result = self.cupti.cuptiSubscribe(ctypes.byref(self.handle), self.callback, None)
        if result == 0:
            self.cupti.cuptiEnableCallback(1, self.handle, 1, 307)  # cuLaunchKernel
        return result

    def unsubscribe(self):
        return self.cupti.cuptiUnsubscribe(self.handle)
"""


@pytest.fixture
def with_gpu(alone: Callable[..., Any], fake_gpu: Callable[..., Any]) -> Callable[..., Any]:
    """``with_gpu(code, **env)`` runs code in a process of its own."""

    def run(code: str, **env: str) -> Any:
        env = {"CUDA_INJECTION64_PATH": str(LIBRARY), **env}
        return alone(PROLOGUE + code, **fake_gpu().environment(**env))

    return run


def test_while_another_has_cupti_with_our_leave_it_is_alone_with_it_and_afterwards_we_go_on(with_gpu: Any) -> None:
    first, aside, back, found = with_gpu("""
driver, cupti, other = Driver(), Cupti(), Other()
with Recording() as recording:
    driver.launch(101)
    lib.pln_cupti_step_aside(lib.PLN_CUPTI_ASIDE)
    first = (cupti.enabled(), other.subscribe())
    driver.launch(103)
    aside = (other.calls, cupti.enabled())
    other.unsubscribe()
    lib.pln_cupti_step_aside(lib.PLN_CUPTI_BACK)
    back = all(cupti.enabled())
    driver.launch(107)
print((first, aside, back, (recording.kernels["epoch"].tolist(), recording.linked(), recording.losses,
                            recording.notices)))
""")
    assert first == ((0, 0, 0), 0)
    assert aside == (2 * 103, (0, 1, 1))
    assert back
    epochs, linked, losses, notices = found
    assert epochs == [1] * 101 + [2] * 107
    assert (linked, losses) == (101 + 107, {})
    assert len(notices) == 1
    assert "nothing of CUDA is recorded while torch's profiler runs" in notices[0]


def test_who_keeps_cupti_although_it_is_ours_again_is_left_alone_until_it_lets_go(with_gpu: Any) -> None:
    enabled, kernels, notices = with_gpu("""
import time
driver, cupti, other = Driver(), Cupti(), Other()
with Recording() as recording:
    lib.pln_cupti_step_aside(lib.PLN_CUPTI_ASIDE)
    other.subscribe()
    lib.pln_cupti_step_aside(lib.PLN_CUPTI_BACK)
    driver.launch(11)
    enabled = cupti.enabled()
    other.unsubscribe()
    deadline = time.monotonic() + 60
    while not all(cupti.enabled()) and time.monotonic() < deadline:
        pass
    driver.launch(13)
print((enabled, len(recording.kernels), recording.notices))
""")
    assert (enabled, kernels) == ((0, 1, 1), 13)
    assert [text.split(":")[0] for text in notices] == [
        "nothing of CUDA is recorded while torch's profiler runs in this process",
        "nothing of CUDA is recorded until torch's profiler lets go of CUPTI, which serves one at a time",
    ]


@pytest.mark.parametrize(("how", "said"), [("ASIDE", 1), ("QUIETLY", 0)])
def test_a_recording_that_begins_meanwhile_has_nothing_of_cuda_and_says_so_unless_it_has_it_from_elsewhere(
    with_gpu: Any, how: str, said: int
) -> None:
    assert with_gpu(f"""
driver, cupti, other = Driver(), Cupti(), Other()
lib.pln_cupti_step_aside(lib.PLN_CUPTI_{how})
with Recording() as recording:
    enabled = cupti.enabled()
    driver.launch(11)
lib.pln_cupti_step_aside(lib.PLN_CUPTI_BACK)
with Recording() as later:
    driver.launch(13)
print((enabled, len(recording.kernels), len(recording.notices), len(later.kernels), later.notices))
""") == ((0, 0, 0), 0, said, 13, [])


def test_what_was_ours_all_the_time_is_not_begun_anew(with_gpu: Any) -> None:
    assert with_gpu("""
driver = Driver()
with Recording() as recording:
    driver.launch(11)
    lib.pln_cupti_step_aside(lib.PLN_CUPTI_BACK)
    driver.launch(13)
print((set(recording.kernels["epoch"].tolist()), len(recording.kernels), recording.notices))
""") == ({1}, 24, [])


def test_a_call_that_waits_for_the_device_keeps_cupti_from_nobody_and_does_not_end_it_for_who_has_it(
    with_gpu: Any,
) -> None:
    subscribed, finalized, after, calls = with_gpu("""
driver, cupti, other = Driver(), Cupti(), Other()
with Recording() as recording:
    thread = start_waiting(driver)
    finalized = cupti.number("finalized")
    lib.pln_cupti_step_aside(lib.PLN_CUPTI_ASIDE)
    subscribed = other.subscribe()
    assert thread.is_alive()
    thread.join()
    driver.launch(3)
print((subscribed, cupti.number("finalized") - finalized, cupti.enabled(), other.calls))
""")
    assert subscribed == 0
    assert (finalized, after, calls) == (0, (0, 1, 1), 2 * 3)


def test_who_uses_activities_without_a_subscription_takes_ours_and_the_next_recording_has_its_own_again(
    with_gpu: Any,
) -> None:
    """As torch's profiler does where it is second, unasked: the callbacks for buffers are one pair for all."""
    taken, again = with_gpu("""
driver, other = Driver(), Other()
REQUEST = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t),
                           ctypes.POINTER(ctypes.c_size_t))
COMPLETE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
memory, taken = ctypes.create_string_buffer(1 << 20), []

def give(buffer, size, records):
    buffer[0], size[0], records[0] = ctypes.addressof(memory), len(memory), 0

request, complete = REQUEST(give), COMPLETE(lambda context, stream, buffer, size, valid: taken.append(buffer))
with Recording() as recording:
    other.cupti.cuptiActivityFlushAll(1)
    assert other.cupti.cuptiActivityRegisterCallbacks(request, complete) == 0
    driver.launch(11)
with Recording() as again:
    driver.launch(13)
print((len(taken), (len(again.kernels), again.linked(), again.losses)))
""")
    assert taken == 1, "the buffer that was ours"
    assert again == (13, 13, {})


FAKE_TORCH = """
import ctypes, enum, os, sys
__version__ = "99.0"
from . import autograd
"""
FAKE_AUTOGRAD = """
from . import profiler
"""
FAKE_PROFILER = """
from __main__ import other
told = []

def _prepare_profiler(config, activities, activity_filter=None):
    told.append(other.subscribe())

def _enable_profiler(config, activities):
    pass

def _disable_profiler():
    told.append(other.unsubscribe())
    return "result"
"""


@pytest.fixture
def torch(tmp_path: Path) -> Path:
    """A package whose profiler subscribes to CUPTI."""
    for path, text in (
        ("__init__.py", FAKE_TORCH),
        ("autograd/__init__.py", FAKE_AUTOGRAD),
        ("autograd/profiler.py", FAKE_PROFILER),
    ):
        (tmp_path / "torch" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "torch" / path).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("activity", "subscribed", "recorded"), [("CUDA", 0, [1] * 11 + [2] * 17), ("CPU", 39, [1] * (11 + 13 + 17))]
)
def test_a_job_that_runs_torchs_profiler_itself_gets_cupti_for_as_long_as_it_asks_for_cuda(
    with_gpu: Any, torch: Path, activity: str, subscribed: int, recorded: list[int]
) -> None:
    found = with_gpu(
        f"""
import enum
driver, cupti, other = Driver(), Cupti(), Other()
Activity = enum.Enum("ProfilerActivity", "CPU CUDA")
import torch.autograd.profiler as profiler
with Recording() as recording:
    driver.launch(11)
    profiler._prepare_profiler("config", {{Activity.{activity}}}, activity_filter={{}})
    profiler._enable_profiler("config", {{Activity.{activity}}})
    driver.launch(13)
    result = profiler._disable_profiler()
    driver.launch(17)
print((profiler.told[0], result, recording.kernels["epoch"].tolist()))
""",
        PYTHONPATH=f"{PACKAGE / 'startup'}:{torch}",
        PILLION_LIBRARY=str(LIBRARY),
    )
    assert found == (subscribed, "result", recorded)


@pytest.mark.parametrize("prepares_before", [False, True])
def test_a_profile_that_has_torchs_engine_record_cuda_leaves_cupti_to_it(with_gpu: Any, prepares_before: bool) -> None:
    assert with_gpu(f"""
from pillion import _own_recording
from pillion.torch_engine.engine import TorchOptions
driver, cupti, other = Driver(), Cupti(), Other()
told = []

class Engine:
    uses_cupti, result = True, None

    def __init__(self, *_):
        self.options = None

    def prepare(self):
        told.append(other.subscribe())

    def start(self):
        told.append(cupti.enabled())

    def stop(self):
        told.append(other.unsubscribe())

_own_recording.TorchEngine, _own_recording.torch_autograd = Engine, lambda: True
recording = _own_recording.OwnRecording(_own_recording.own_request(0, 0, "never"), "never", TorchOptions())
if {prepares_before}:
    recording.prepare()
recording.start()
driver.launch(11)
assert recording.stop() is None
capture = recording.capture
with Recording() as later:
    driver.launch(13)
print((told, len(capture.columns["activities"]["kind"]), len(capture.columns["losses"]["count"]), len(later.kernels)))
""") == ([0, (0, 1, 1), 0], 0, 0, 13)


def test_a_process_that_is_told_to_leaves_cupti_alone(with_gpu: Any) -> None:
    assert with_gpu(
        """
driver, cupti, other = Driver(), Cupti(), Other()
with Recording() as recording:
    subscribed = other.subscribe()
    driver.launch(11)
print((subscribed, cupti.enabled(), other.calls, len(recording.calls), recording.notices))
""",
        PILLION_NO_CUDA="1",
    ) == (0, (0, 1, 1), 22, 0, [])


@pytest.mark.parametrize(("names", "uses"), [(["CPU"], False), (["CPU", "CUDA"], True), (["CUDA"], True)])
def test_torchs_engine_uses_cupti_where_it_is_asked_for_cuda(names: list[str], uses: bool) -> None:
    options = TorchOptions(activities=[getattr(ProfilerActivity, name) for name in names])
    assert TorchEngine(options, ProfilerStats()).uses_cupti is uses


def test_torchs_profiler_has_what_the_start_up_hook_takes_hold_of(with_gpu: Any) -> None:
    begins, ends = with_gpu(
        """
import torch.autograd.profiler as profiler
print((profiler._prepare_profiler.__name__, profiler._disable_profiler.__name__))
""",
        PYTHONPATH=str(PACKAGE / "startup"),
        PILLION_LIBRARY=str(LIBRARY),
        PILLION_NO_OPS="1",
    )
    assert (begins, ends) == ("with_cupti", "giving_back")
