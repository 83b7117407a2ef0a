"""What torch's own tools make of a profile of ours: memory timelines, execution traces; and reading cut short."""

from __future__ import annotations

import gzip
import json
import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch")

import torch.autograd.profiler as theirs  # noqa: E402
import torch.profiler as their_modern  # noqa: E402

import pillion  # noqa: E402
from pillion import Unavailable  # noqa: E402
from pillion import profiler as ours  # noqa: E402

CPU = [their_modern.ProfilerActivity.CPU]
# torch itself makes an error of this warning a crash
pytestmark = pytest.mark.filterwarnings("ignore:Warning. Profiler clears events:UserWarning")
FOR_MEMORY = {"record_shapes": True, "profile_memory": True, "with_stack": True}


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINETO_LOG_LEVEL", "6")
    monkeypatch.delenv("ENABLE_PYTORCH_EXECUTION_TRACE", raising=False)


def train(model: Any) -> None:
    for _ in range(3):
        model(torch.ones(5, 8)).sum().backward()


def new_model() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


def infer(model: Any) -> None:
    """Allocates and frees in this thread alone, so always in the same order."""
    with torch.no_grad():
        for _ in range(3):
            model(torch.ones(5, 8)).sum()


def profiled(module: Any, work: Callable[[Any], None] = train, **options: Any) -> Any:
    more = {"agent": "never"} if module is pillion else {}
    model = new_model()
    with module.profile(activities=CPU, **options, **more) as prof:
        work(model)
    return prof


# ---- memory ----


def timeline(prof: Any, path: Path) -> Any:
    with pytest.warns(FutureWarning, match="`export_memory_timeline` is deprecated"):
        prof.export_memory_timeline(str(path))
    return json.loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())


@pytest.mark.parametrize("name", ["timeline.json", "timeline.json.gz"])
def test_a_memory_timeline_is_torchs(tmp_path: Path, name: str) -> None:
    """What torch makes of the same recording: of two recordings its points in one microsecond fall differently."""
    prof = profiled(pillion, infer, **FOR_MEMORY)
    mine = timeline(prof, tmp_path / name)
    tools = torch.profiler._memory_profiler
    expected = tools.MemoryProfileTimeline(tools.MemoryProfile(prof.kineto_results))
    expected.export_memory_timeline(str(tmp_path / "theirs.json"), "cpu")
    assert mine == json.loads((tmp_path / "theirs.json").read_text())
    assert len(mine[0]) > 3


def test_a_memory_profile_is_torchs() -> None:
    infer(new_model())

    def steps(module: Any) -> list[tuple[str, int]]:
        timeline = profiled(module, infer, **FOR_MEMORY)._memory_profile().timeline
        return [(action.name, size) for _, action, _, size in timeline]

    assert steps(pillion) == steps(their_modern)
    with pytest.raises(ValueError, match="record_shapes=True, with_stack=True required"):
        profiled(pillion, profile_memory=True)._memory_profile()


def test_a_raw_memory_timeline_is_torchs(tmp_path: Path) -> None:
    infer(new_model())
    expected = timeline(profiled(their_modern, infer, **FOR_MEMORY), tmp_path / "theirs.raw.json.gz")
    prof = profiled(pillion, infer, **FOR_MEMORY)
    mine = timeline(prof, tmp_path / "mine.raw.json.gz")
    assert [event[1:] for event in mine] == [event[1:] for event in expected]
    assert type(prof.mem_tl).__name__ == "MemoryProfileTimeline"


def test_a_page_of_the_memory_timeline_is_drawn_by_torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It draws with matplotlib, which need not be here."""
    drawn = []
    monkeypatch.setattr(
        torch.profiler._memory_profiler.MemoryProfileTimeline,
        "export_memory_timeline_html",
        lambda self, path, device: drawn.append((path, device)),
    )
    prof = profiled(pillion, infer, **FOR_MEMORY)
    path = str(tmp_path / "timeline.html")
    with pytest.warns(FutureWarning):
        prof.export_memory_timeline(path)
    with pytest.warns(FutureWarning):
        prof.export_memory_timeline(path, "cuda:1")
    assert drawn == [(path, "cuda:0" if torch.cuda.is_available() else "cpu"), (path, "cuda:1")]


@pytest.mark.filterwarnings("ignore:`export_memory_timeline` is deprecated:FutureWarning")
def test_a_memory_timeline_says_what_it_lacks(tmp_path: Path) -> None:
    path = str(tmp_path / "timeline.json")
    with pytest.raises(ValueError, match="record_shapes=True, with_stack=True required") as mine:
        profiled(pillion, profile_memory=True).export_memory_timeline(path)
    with pytest.raises(ValueError, match="required") as expected:
        profiled(their_modern, profile_memory=True).export_memory_timeline(path)
    assert str(mine.value) == str(expected.value)
    with pytest.raises(Unavailable, match="torch recorded nothing"):
        pillion.profile(**FOR_MEMORY, agent="never").export_memory_timeline(path)


# ---- execution traces ----


def nodes(path: Path) -> Counter[str]:
    return Counter(node["name"] for node in json.loads(path.read_text())["nodes"])


def observed(module: Any, path: Path, **options: Any) -> Any:
    observer = their_modern.ExecutionTraceObserver().register_callback(str(path))
    return profiled(module, execution_trace_observer=observer, **options), observer


def test_an_execution_trace_is_torchs(tmp_path: Path) -> None:
    _, observer = observed(their_modern, tmp_path / "theirs.json")
    assert not observer.is_registered
    _, observer = observed(pillion, tmp_path / "mine.json")
    assert not observer.is_registered
    assert nodes(tmp_path / "mine.json") == nodes(tmp_path / "theirs.json")
    assert nodes(tmp_path / "mine.json")["aten::addmm"] == 6


def test_an_execution_trace_needs_no_detail_of_torch(tmp_path: Path) -> None:
    observer = their_modern.ExecutionTraceObserver().register_callback(str(tmp_path / "trace.json"))
    model = new_model()
    with pillion.profile(agent="never", execution_trace_observer=observer):
        train(model)
    assert nodes(tmp_path / "trace.json")["aten::addmm"] == 6


class Observer:
    """Says what was done with it, and what was profiled then."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, bool]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda: self.calls.append((name, theirs._is_profiler_enabled))


def test_an_observer_is_called_as_torch_calls_it() -> None:
    seen = {}
    for module in (their_modern, pillion):
        observer = Observer()
        more = {"agent": "never"} if module is pillion else {}
        schedule = their_modern.schedule(wait=1, warmup=1, active=2)
        with module.profile(activities=CPU, schedule=schedule, execution_trace_observer=observer, **more) as prof:
            for _ in range(9):
                prof.step()
        seen[module] = observer.calls
    assert seen[pillion] == seen[their_modern]
    assert [name for name, _ in seen[pillion]] == ["start", "stop"] * 2 + ["start", "stop", "cleanup"]


def test_the_environment_asks_for_an_execution_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE", "1")
    prof = profiled(pillion)
    path = Path(prof.execution_trace_observer.get_output_file_path())
    try:
        assert nodes(path)["aten::addmm"] == 6
    finally:
        path.unlink()


# ---- reading cut short ----


@pytest.mark.parametrize("module", [ours, pillion], ids=["older face", "newer face"])
def test_reading_ends_at_the_timeout_and_what_is_left_is_counted(module: Any, caplog: pytest.LogCaptureFixture) -> None:
    options = {"agent": "never", "post_processing_timeout_s": 0.0}
    if module is pillion:
        options["activities"] = CPU
    with module.profile(**options) as prof, module.record_function("own"):
        train(new_model())
    with caplog.at_level(logging.WARNING, "pillion"):
        events = prof.function_events
    assert [event.name for event in events] == ["own"]
    losses = prof.capture.columns["losses"]
    unread = dict(zip(losses["kind"].tolist(), losses["count"].tolist()))["post_processing_timeout"]
    assert unread == len(prof.kineto_results.events())
    assert f"{unread} of torch's events" in caplog.text


def test_reading_within_the_timeout_is_whole() -> None:
    with theirs.profile(post_processing_timeout_s=60.0) as expected:
        train(new_model())
    with ours.profile(post_processing_timeout_s=60.0) as prof:
        train(new_model())
    assert [event.name for event in prof.function_events] == [event.name for event in expected.function_events]
    assert "post_processing_timeout" not in prof.capture.columns["losses"]["kind"].tolist()


# ---- what a program asks of a profile ----


def test_torchs_tools_find_the_raw_result() -> None:
    prof = profiled(pillion, with_stack=True, record_shapes=True)
    assert prof.profiler.kineto_results.experimental_event_tree()
    assert pillion.profile(agent="never").profiler is None


@pytest.mark.parametrize("module", [their_modern, pillion], ids=lambda module: module.__name__)
def test_events_are_counted_when_somebody_looks_at_them(module: Any) -> None:
    prof = profiled(module, record_shapes=True)
    stats = prof._stats()
    assert stats.number_of_events == 0
    count = len(prof.events())
    assert stats.number_of_events == count > 0


def test_events_are_there_although_only_a_trace_was_asked_for() -> None:
    config = torch._C._profiler._ExperimentalConfig(trace_only=True)
    with ours.profile(experimental_config=config, with_stack=True) as prof:
        torch.ones(3)
    assert any(event.name == "aten::ones" for event in prof.function_events)
    assert config.trace_only  # the caller's stays as it is
    assert any(event.name == "aten::addmm" for event in profiled(pillion, experimental_config=config).events())


def test_a_trace_says_how_it_was_made_and_in_which_job(tmp_path: Path) -> None:
    dist = torch.distributed
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    try:
        found = {}
        for module in (their_modern, pillion):
            prof = profiled(module, **FOR_MEMORY, with_flops=True, with_modules=True)
            prof.export_chrome_trace(str(tmp_path / "trace.json"))
            found[module] = json.loads((tmp_path / "trace.json").read_text())
    finally:
        dist.destroy_process_group()
    for key in ("distributedInfo", "profile_memory", "with_stack", "record_shapes", "with_modules", "with_flops"):
        assert found[pillion][key] == found[their_modern][key], key
    assert found[pillion]["distributedInfo"]["world_size"] == 1


@pytest.mark.parametrize("stopped_in", ["warm-up", "recording"])
def test_a_device_whose_records_were_cut_off_ends_the_cycle(monkeypatch: pytest.MonkeyPatch, stopped_in: str) -> None:
    stopped_step = 1 if stopped_in == "warm-up" else 2
    seen = {}
    for module in (their_modern, pillion):
        ready: list[int] = []
        more: dict[str, Any] = {"agent": "never"} if module is pillion else {}
        more["on_trace_ready"] = lambda prof, to=ready: to.append(prof.step_num)
        schedule = module.schedule(wait=1, warmup=1, active=2, repeat=2)
        actions = []
        with module.profile(activities=CPU, schedule=schedule, **more) as prof:
            for step in range(9):
                with monkeypatch.context() as patch:
                    if step == stopped_step:
                        patch.setattr(torch.autograd, "_is_kineto_stopped", lambda: True)
                        patch.setattr(prof, "use_device", "cuda")  # as if: torch's engine itself records the CPU
                        with pytest.warns(UserWarning, match=f"stopped early at step {step + 1}"):
                            prof.step()
                    else:
                        prof.step()
                actions.append(prof.current_action.name)
        seen[module] = actions, ready
    assert seen[pillion] == seen[their_modern]
    assert "DEVICE_STOPPED" in seen[pillion][0]
