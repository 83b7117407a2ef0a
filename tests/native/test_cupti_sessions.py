"""CUPTI in a process that records itself, again and again: what is on meanwhile, and that nothing is on otherwise."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pillion_probes import CONSTANTS

LIBRARY = Path(str(sys.modules["pillion._native"].__file__)).with_name("libpillion.so")
PROLOGUE = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent.parent / "targets")!r})
from cuda_driver import Cupti, Driver, Recording, start_waiting
"""


@pytest.fixture
def with_gpu(alone: Callable[..., Any], fake_gpu: Callable[..., Any]) -> Callable[..., Any]:
    """``with_gpu(code, gpu=None, injected=True, **env)`` runs code in a process of its own."""

    def run(code: str, gpu: Any = None, injected: bool = True, **env: str) -> Any:
        if injected:
            env["CUDA_INJECTION64_PATH"] = str(LIBRARY)
        return alone(PROLOGUE + code, **(gpu or fake_gpu()).environment(**env))

    return run


@pytest.mark.parametrize("injected", [True, False])
def test_each_recording_has_its_own_calls_and_kernels_and_between_them_nothing_is_enabled(
    with_gpu: Callable[..., Any], injected: bool
) -> None:
    found = with_gpu(
        """
driver, cupti = Driver(), Cupti()
enabled, told = [cupti.enabled()], []
for launches in (1009, 503):
    driver.launch(7)
    with Recording() as recording:
        assert all(cupti.enabled())
        driver.launch(launches)
    enabled.append(cupti.enabled())
    told.append((len(recording.kernels), recording.linked(), recording.calls_named("cuLaunchKernel"),
                 set(recording.kernels["epoch"].tolist()), recording.losses, recording.notices))
driver.launch(7)
rest = (cupti.number("outstanding_buffers"), cupti.number("abandoned_records"), cupti.number("attached") & 0xFF)
print((enabled, told, rest))
""",
        injected=injected,
    )
    enabled, told, rest = found
    assert enabled == [(0, 0, 0)] * 3
    assert told == [(1009, 1009, 1009, {1}, {}, []), (503, 503, 503, {2}, {}, [])]
    assert rest == (0, 0, 0), "no buffer is CUPTI's, no record was thrown away, and CUPTI has let go of the driver"


@pytest.mark.parametrize("injected", [True, False])
@pytest.mark.parametrize("library", ["libcuda.so.1", "libcudart.so.12"])
def test_cuda_that_comes_while_a_process_records_itself_is_recorded_from_its_first_call_on(
    with_gpu: Callable[..., Any], injected: bool, library: str
) -> None:
    told = with_gpu(
        f"""
import ctypes
if {library!r} != "libcuda.so.1":
    ctypes.CDLL({library!r})  # our thread looks after it before libcuda comes
told = []
for launches in (1009, 503):
    with Recording() as recording:
        driver = Driver()
        driver.launch(launches)
    told.append((len(recording.kernels), recording.linked(), recording.losses))
print(told)
""",
        injected=injected,
    )
    assert told == [(1009, 1009, {}), (503, 503, {})]


def test_the_environment_is_as_it_was_when_a_process_has_recorded_itself(with_gpu: Callable[..., Any]) -> None:
    said = """
import ctypes
getenv = ctypes.CDLL(None).getenv
getenv.restype = ctypes.c_char_p
with Recording():
    during = getenv(b"CUDA_INJECTION64_PATH")
print((during, getenv(b"CUDA_INJECTION64_PATH")))
"""
    assert with_gpu(said, injected=False) == (bytes(LIBRARY), None)
    assert with_gpu(said, injected=False, CUDA_INJECTION64_PATH="/other.so") == (b"/other.so", b"/other.so")
    assert with_gpu(said, injected=False, PILLION_NO_CUDA="1") == (None, None)


def test_cuda_that_comes_later_is_found_beside_another_tool_that_libcuda_calls(with_gpu: Callable[..., Any]) -> None:
    linked, unlinked = with_gpu(
        """
import time
with Recording() as recording:
    driver, cupti = Driver(), Cupti()
    deadline = time.monotonic() + 60
    while not all(cupti.enabled()) and time.monotonic() < deadline:
        driver.launch(1)
    driver.launch(1009)
print((recording.linked(), recording.unlinked()))
""",
        injected=False,
        CUDA_INJECTION64_PATH="/another/tool.so",
    )
    assert linked >= 1009
    assert unlinked in ((0, 0), (0, 1)), "at most the launch in the middle of which CUPTI came"


def test_threads_in_the_middle_of_calls_bear_that_sessions_come_and_go(with_gpu: Callable[..., Any]) -> None:
    sessions, enabled, unlinked, losses = with_gpu("""
import threading
driver, cupti = Driver(), Cupti()
stop = threading.Event()

def work():
    driver.call("cuCtxSetCurrent", driver.context)
    while not stop.is_set():
        driver.launch(11)

threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
sessions, unlinked, losses = [], [], []
for epoch in range(1, 12):
    with Recording() as recording:
        driver.launch(101)
    sessions.append((set(recording.kernels["epoch"].tolist()), len(recording.kernels) >= 101 - 3))
    unlinked.append((*recording.unlinked(), recording.unfinished))
    losses.append(recording.losses)
stop.set()
for thread in threads:
    thread.join()
driver.launch(1)
print((sessions, cupti.enabled(), unlinked, losses))
""")
    assert sessions == [({epoch}, True) for epoch in range(1, 12)]
    assert enabled == (0, 0, 0)
    for known, unknown, unfinished in unlinked:
        assert unknown <= 3, "at most those in which CUPTI came"
        assert known <= unfinished <= 3, "at most those in which it left"
    ends = CONSTANTS["PLN_LOSS_DEVICE"]
    assert all(set(lost) <= {ends} and lost.get(ends, 0) <= 3 for lost in losses)


def test_a_call_in_progress_when_a_session_begins_is_recorded_from_then_on(with_gpu: Callable[..., Any]) -> None:
    before, during, after = with_gpu(
        """
import time
driver, cupti = Driver(), Cupti()
with Recording():
    driver.launch(1)
assert cupti.number("attached") & 0xFF, "CUPTI hears of calls that begin now"
thread = start_waiting(driver)
before_ns = time.monotonic_ns()
with Recording() as recording:
    begun_ns = time.monotonic_ns()
    thread.join()
    driver.launch(3)
    ended_ns = time.monotonic_ns()
(call,) = recording.calls[[recording.text(name) == "cuCtxSynchronize" for name in recording.calls["name"]]]
start_ns, end_ns = int(call["start_ns"]), int(call["end_ns"])
print((before_ns <= start_ns <= begun_ns, begun_ns < end_ns <= ended_ns, recording.linked()))
""",
        FAKE_CUPTI_VERSION="12.5",  # which is not ended with a session
    )
    assert before, "it begins with the session"
    assert during
    assert after == 3


def test_a_call_that_waits_for_the_device_when_a_session_ends_takes_cupti_with_it(with_gpu: Callable[..., Any]) -> None:
    waiting, after, again = with_gpu("""
driver, cupti = Driver(), Cupti()
with Recording() as recording:
    thread = start_waiting(driver)
waiting = cupti.enabled()[2]
thread.join()
after = cupti.enabled()
with Recording() as again:
    driver.launch(101)
print((waiting, after, (len(again.kernels), again.linked(), set(again.kernels["epoch"].tolist()))))
""")
    assert waiting == 1, "the call was in the middle"
    assert after == (0, 0, 0)
    assert again == (101, 101, {2})


def test_work_that_devices_do_when_a_session_ends_is_waited_for_but_not_long(with_gpu: Callable[..., Any]) -> None:
    found = with_gpu("""
driver = Driver()
told = []
for duration_ns in (30_000_000, 10_000_000_000):
    driver.duration_ns.value = duration_ns
    with Recording() as recording:
        driver.launch(1)
    told.append(((recording.kernels["end_ns"] - recording.kernels["start_ns"]).tolist(), recording.losses))
print(told)
""")
    assert found == [([30_000_000], {}), ([], {CONSTANTS["PLN_LOSS_DEVICE"]: 1})]


def test_what_is_delivered_and_what_is_counted_as_lost_is_all_that_was_launched(with_gpu: Callable[..., Any]) -> None:
    kernels, delivered, lost, emitted, dropped = with_gpu(
        """
driver, cupti = Driver(), Cupti()
with Recording() as recording:
    driver.launch(100003)
emitted = sum(cupti.number("emitted", kind) for kind in range(65))
print((len(recording.kernels), len(recording.activities), recording.losses[36], emitted, cupti.number("dropped")))
""",
        PILLION_CUPTI_BUFFERS="1",
    )
    assert kernels < 100003, "one buffer is too few"
    assert delivered + lost == emitted + dropped
    assert kernels + lost >= 100003


def test_calls_that_fail_say_with_which_error(with_gpu: Callable[..., Any]) -> None:
    assert with_gpu("""
driver = Driver()
with Recording() as recording:
    driver.call("cuLaunchKernel", None, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    driver.launch(3)
failed = recording.calls[recording.calls["args"] != 0]
print([(recording.text(call["name"]), recording.text(call["args"])) for call in failed])
""") == [("cuLaunchKernel", "error 1")]


def test_a_fork_child_leaves_the_parents_cupti_alone(with_gpu: Callable[..., Any]) -> None:
    child, parent = with_gpu("""
import os
driver, cupti = Driver(), Cupti()
with Recording() as recording:
    driver.launch(101)
    pid = os.fork()
    if pid == 0:
        before = cupti.enabled()
        with Recording() as own:
            driver.launch(11)
        unchanged = before == cupti.enabled()
        os._exit(0 if unchanged and len(own.activities) == len(own.calls) == 0 else 1)
    child = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    driver.launch(103)
print((child, (len(recording.kernels), recording.linked(), recording.losses)))
""")
    assert child == 0
    assert parent == (204, 204, {})


def test_a_fork_child_that_is_the_first_to_use_cuda_is_recorded(with_gpu: Callable[..., Any]) -> None:
    assert with_gpu("""
import os
with Recording() as recording:
    pass
pid = os.fork()
if pid == 0:
    driver = Driver()
    with Recording() as own:
        driver.launch(101)
    os._exit(0 if (len(own.kernels), own.linked()) == (101, 101) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0)
""")


def test_a_library_that_the_job_closes_stays_as_long_as_it_is_needed(with_gpu: Callable[..., Any]) -> None:
    assert with_gpu("""
import ctypes, _ctypes
driver, cupti = Driver(), ctypes.CDLL("libcupti.so.12")
with Recording() as recording:
    driver.launch(101)
    _ctypes.dlclose(cupti._handle)
    driver.launch(103)
print((len(recording.kernels), recording.linked(), recording.losses) == (204, 204, {}))
""")


def test_work_of_a_context_that_is_destroyed_is_not_lost(with_gpu: Callable[..., Any]) -> None:
    assert with_gpu("""
import ctypes
driver = Driver()
context = ctypes.c_void_p()
with Recording() as recording:
    driver.call("cuCtxCreate_v2", ctypes.byref(context), 0, 0)
    driver.launch(101)
    driver.call("cuCtxSynchronize")
    driver.call("cuCtxDestroy_v2", context)
print((len(recording.kernels), recording.linked(), recording.losses) == (101, 101, {}))
""")


def test_who_comes_second_to_cupti_leaves_the_first_alone(with_gpu: Callable[..., Any]) -> None:
    enabled, calls, notices = with_gpu("""
import ctypes
driver, cupti = Driver(), Cupti()
handle = ctypes.c_void_p()
first = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)(lambda *_: None)
assert ctypes.CDLL("libcupti.so.12").cuptiSubscribe(ctypes.byref(handle), first, None) == 0
before = cupti.enabled()
with Recording() as recording:
    driver.launch(11)
print(((before, cupti.enabled()), len(recording.calls), recording.notices))
""")
    assert enabled == ((0, 0, 1), (0, 0, 1))
    assert calls == 0
    assert [text for text in notices if "another profiler" in text]


def test_a_driver_that_forks_when_it_is_first_used_does_not_stop_a_session_that_begins(
    with_gpu: Callable[..., Any],
) -> None:
    assert with_gpu(
        """
import ctypes
ctypes.CDLL("libcuda.so.1")
with Recording() as recording:
    driver = Driver()
    driver.launch(101)
print((len(recording.kernels), recording.linked(), recording.losses))
""",
        injected=False,
        FAKE_CUPTI="forks",
    ) == (101, 101, {})


def test_cupti_of_before_cuda_12_6_is_left_without_being_ended_since_graphs_would_not_bear_its_return(
    with_gpu: Callable[..., Any],
) -> None:
    enabled, finalized, told = with_gpu(
        """
driver, cupti = Driver(), Cupti()
enabled, told = [], []
for launches in (101, 103):
    with Recording() as recording:
        driver.launch(launches)
    enabled.append(cupti.enabled())
    told.append((len(recording.kernels), recording.linked(), recording.losses))
print((enabled, cupti.number("finalized") & 0xFFFFFFFF, told))
""",
        FAKE_CUPTI_VERSION="12.5",
    )
    assert enabled == [(0, 0, 0)] * 2
    assert finalized == 0
    assert told == [(101, 101, {}), (103, 103, {})]


def test_a_thread_that_forks_while_cupti_waits_for_it_is_let_through(with_gpu: Callable[..., Any]) -> None:
    assert with_gpu(
        """
driver = Driver()
with Recording() as recording:
    driver.launch(101)
print((len(recording.kernels), recording.linked(), recording.losses))
""",
        FAKE_CUPTI="flush_forks",
    ) == (101, 101, {})


def test_a_fork_child_of_a_process_that_has_used_cuda_does_not_try_to_record_it(with_gpu: Callable[..., Any]) -> None:
    assert (
        with_gpu("""
driver, cupti = Driver(), Cupti()
with Recording() as recording:
    driver.launch(11)
pid = os.fork()
if pid == 0:
    with Recording() as own:
        enabled = cupti.enabled()
    os._exit(0 if enabled == (0, 0, 0) and not own.notices else 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
""")
        == 0
    )
