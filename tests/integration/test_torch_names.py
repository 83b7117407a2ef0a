"""Every name, argument, default, warning and error of torch's profiler modules beside ours, with the real torch.

What differs on purpose is in a table here, with its reason, and in docs/differences-to-torch.md.
"""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="needs torch")

import torch.autograd.profiler as their_legacy  # noqa: E402
import torch.autograd.profiler_util as their_model  # noqa: E402
import torch.profiler as their_modern  # noqa: E402

import pillion  # noqa: E402
from pillion import profiler as ours  # noqa: E402
from pillion.model import DeviceType  # noqa: E402

# Members that torch's classes have and ours have not: how torch does it inside, which no program has to know.
INTERNAL = {
    "profile": {"_ensure_function_events", "_parse_kineto_results"},
    "record_function": {"_recreate_cm"},
    "EventList": {"_populate_cpu_children", "_remove_dup_nodes", "_set_backward_stacktraces"},
    "modern profile": {"_get_distributed_info", "_trace_ready", "_transit_action"},
}
INTERNAL_ATTRIBUTES = {
    "profile": {"_function_events", "_needs_processing", "_old_function_events"},
    "modern profile": {
        *("_custom_profiler_config", "_monitor_started_here", "_monitor_tempdir", "_monitor_trace_window"),
        *("_prev_schedule_action", "_use_cupti_monitor", "action_map", "step_rec_fn"),
    },
}
# Attributes that begin with another value: objects that compare by identity, and torch's engine where nobody asked.
OTHER_VALUES = {
    "profile": {"experimental_config", "_stats"},
    "modern profile": {"schedule", "activities", "current_action"},
    "FunctionEvent": {"time_range"},
    "record_function": {"record", "_cupti_monitor_external_id", "run_callbacks_on_exit"},
}
# What ours take beyond torch's; all of it can be left out.
MORE = {
    "profile": {"agent"},
    "modern profile": {"enabled", "rate_hz", "wait_threshold_us", "agent"},
}

CLASSES: dict[str, tuple[Any, Any]] = {
    **{name: (getattr(their_legacy, name), getattr(ours, name)) for name in their_legacy.__all__},
    **{name: (getattr(their_model, name), getattr(ours, name)) for name in their_model.__all__},
    "ProfilerAction": (their_modern.ProfilerAction, pillion.ProfilerAction),
    "modern profile": (their_modern.profile, pillion.profile),
}
CLASSES = {name: pair for name, pair in CLASSES.items() if isinstance(pair[0], type)}
FUNCTIONS = {
    "load_nvprof": (their_legacy.load_nvprof, ours.load_nvprof),
    "parse_nvprof_trace": (their_legacy.parse_nvprof_trace, ours.parse_nvprof_trace),
    "schedule": (their_modern.schedule, pillion.schedule),
    "tensorboard_trace_handler": (their_modern.tensorboard_trace_handler, pillion.tensorboard_trace_handler),
}
INSTANCES: dict[str, Callable[[Any, Any], Any]] = {
    "profile": lambda legacy, modern: legacy.profile(),
    "modern profile": lambda legacy, modern: modern.profile(),
    "record_function": lambda legacy, modern: legacy.record_function("x"),
    "emit_itt": lambda legacy, modern: legacy.emit_itt(),
    "emit_nvtx": lambda legacy, modern: legacy.emit_nvtx(record_shapes=True),
    "EnforceUnique": lambda legacy, modern: legacy.EnforceUnique(),
    "FunctionEvent": lambda legacy, modern: legacy.FunctionEvent(1, "x", 2, 3.0, 4.0),
    "FunctionEventAvg": lambda legacy, modern: (legacy if legacy is ours else their_model).FunctionEventAvg(),
    "EventList": lambda legacy, modern: legacy.EventList(use_device="cuda", profile_memory=True, with_flops=True),
}


def members(of: Any) -> set[str]:
    return {name for name in dir(of) if not (name.startswith("__") and name.endswith("__"))}


@pytest.mark.parametrize(
    ("theirs", "mine"), [(their_legacy, ours), (their_model, ours), (their_modern, pillion)], ids=lambda of: of.__name__
)
def test_every_public_name_is_there(theirs: Any, mine: Any) -> None:
    assert [name for name in theirs.__all__ if not hasattr(mine, name)] == []


def test_what_is_torchs_own_is_torchs_own() -> None:
    for name in ("ProfilerActivity", "ExecutionTraceObserver", "supported_activities", "kineto_available"):
        assert getattr(pillion, name) is getattr(ours, name) is getattr(their_modern, name)
    for name in ("ProfilerConfig", "ProfilerState", "_ExperimentalConfig"):
        assert getattr(ours, name) is getattr(their_legacy, name)
    assert (ours.MEMORY_EVENT_NAME, ours.OUT_OF_MEMORY_EVENT_NAME) == ("[memory]", "[OutOfMemory]")


def test_the_device_of_an_event_is_a_member_of_the_enum_that_programs_find() -> None:
    with ours.profile() as prof:
        torch.ones(2)
    for types in (ours.DeviceType, pillion.DeviceType, torch.autograd.DeviceType):
        assert {event.device_type for event in prof.function_events} == {types.CPU}
        assert not any(event.device_type != types.CPU for event in prof.function_events)


def test_a_device_of_ours_is_torchs_of_the_same_number_and_no_other() -> None:
    for mine in DeviceType:
        for theirs in torch.autograd.DeviceType.__members__.values():
            is_same = int(mine) == int(theirs)
            assert (mine == theirs, mine != theirs) == (is_same, not is_same)


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_has_every_member(name: str) -> None:
    theirs, mine = CLASSES[name]
    missing = members(theirs) - members(mine)
    assert missing == INTERNAL.get(name, set())


def parameters(function: Any) -> list[tuple[str, Any, str]]:
    return [(each.name, each.kind, str(each.default)) for each in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("name", [*CLASSES, *FUNCTIONS])
def test_signatures_are_torchs(name: str) -> None:
    theirs, mine = (CLASSES | FUNCTIONS)[name]
    if name in ("EventList", "StringTable"):
        pairs = {}  # a list's and a dict's own
    elif name == "ProfilerAction":
        pairs = {}  # an enum's
    else:
        pairs = {"": (theirs, mine)}
    for method in members(theirs) & members(mine) if isinstance(theirs, type) else ():
        if inspect.isfunction(inspect.getattr_static(theirs, method)) or inspect.ismethod(getattr(theirs, method)):
            pairs[method] = (getattr(theirs, method), getattr(mine, method))
    for method, (their_function, my_function) in pairs.items():
        extra = MORE.get(name, set()) if method == "" else set()
        expected, found = parameters(their_function), parameters(my_function)
        assert [each for each in found if each[0] not in extra] == expected, method
        assert {each[0] for each in found} == {each[0] for each in expected} | extra, method


@pytest.mark.parametrize("name", INSTANCES)
def test_a_new_object_has_every_attribute(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = INSTANCES[name](their_legacy, their_modern)
        mine = INSTANCES[name](ours, pillion)
    internal, other = INTERNAL_ATTRIBUTES.get(name, set()), OTHER_VALUES.get(name, set())
    for attribute, value in vars(theirs).items():
        if attribute in internal or (name == "record_function" and attribute in other):
            continue
        found = getattr(mine, attribute)
        if attribute not in other:
            assert found == value, attribute


def test_the_members_of_the_enum_are_torchs() -> None:
    assert [(each.name, each.value) for each in pillion.ProfilerAction] == [
        (each.name, each.value) for each in their_modern.ProfilerAction
    ]


# What a tracer's texts may be, by the name of what torch makes values of them with.
TEXTS = {
    "int": st.integers(-(2**40), 2**40).map(str),
    "float": st.floats(allow_nan=False).map(str),
    "loads": st.sampled_from(["[1, 2, 3]", "[]", '{"blocks": 2.5}', "null"]),
    "_to_str": st.sampled_from(['"ncclAllReduce"', "plain", "", '"']),
    "_to_bool": st.sampled_from(["1", "true", "0", "false", ""]),
}
KEYS = {key: TEXTS[convert.__name__] for key, (_, convert) in their_model._EVENT_METADATA_KEYS.items()}


@given(st.fixed_dictionaries({}, optional={**KEYS, "unknown": st.just("1")}))
def test_metadata_of_an_event_is_torchs(texts: dict[str, str]) -> None:
    mine, expected = (of.FunctionEvent(1, "x", 2, 3.0, 4.0, extra_meta=texts) for of in (ours, their_model))
    assert mine.event_metadata == expected.event_metadata
    if expected.event_metadata is not None:
        assert mine.event_metadata._asdict() == expected.event_metadata._asdict()


# ---- warnings and errors: the same call of both ----


def said(call: Callable[[], Any]) -> tuple[list[tuple[type[Warning], str]], type[BaseException] | None]:
    """The warnings of a call, and the type of the error that ended it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call()
            error = None
        except Exception as raised:
            error = type(raised)
    return [(each.category, str(each.message)) for each in caught], error


def event(module: Any, *args: Any, **kwargs: Any) -> Any:
    return module.FunctionEvent(*(args or (1, "x", 2, 3.0, 9.0)), **kwargs)


def on_device(module: Any) -> Any:
    return event(module, device_type=torch.autograd.DeviceType.CUDA, use_device="cuda")


def model_of(module: Any) -> Any:
    """Where the classes of events are."""
    return ours if module is ours else their_model


LEGACY: dict[str, Callable[[Any], Any]] = {
    "use_cuda": lambda module: module.profile(use_cuda=True),
    "cuda": lambda module: module.profile(use_device="cuda"),
    "xpu": lambda module: module.profile(use_device="xpu"),
    "hpu": lambda module: module.profile(use_device="hpu"),
    "mtia": lambda module: module.profile(use_device="mtia"),
    "mtia with Kineto": lambda module: module.profile(use_device="mtia", use_kineto=True),
    "no device": lambda module: module.profile(use_device="abacus"),
    "devices only": lambda module: module.profile(use_cpu=False),
    "nothing": lambda module: module.profile(use_cpu=False, use_kineto=True),
    "timeout": lambda module: module.profile(post_processing_timeout_s=-1.0),
    "disabled": lambda module: module.profile(False, use_device="abacus", post_processing_timeout_s=-1.0),
    "positional": lambda module: module.profile(True, True),
    "unknown": lambda module: module.profile(record_shape=True),
    "stacks": lambda module: finished(module).export_stacks("/nonexistent/x"),
    "metric": lambda module: finished(module, with_stack=True).export_stacks("/nonexistent/x", "self_time"),
    "sort": lambda module: finished(module).table(sort_by="nothing"),
    "again": lambda module: finished(module).__enter__(),
    "range": lambda module: module.record_function("x").__exit__(None, None, None),
    "range of nothing": lambda module: module.record_function(None).__enter__(),
    "unique": lambda module: (lambda unique: (unique.see(1), unique.see(1)))(module.EnforceUnique()),
    "kernel of a device": lambda module: on_device(module).append_kernel("k", 0, 1),
    "child of a device": lambda module: on_device(module).append_cpu_child(event(module)),
    "no child": lambda module: event(module).append_cpu_child("x"),
    "device as child": lambda module: event(module).append_cpu_child(on_device(module)),
    "no parent": lambda module: event(module).set_cpu_parent("x"),
    "device as parent": lambda module: event(module).set_cpu_parent(on_device(module)),
    "cuda_time": lambda module: event(module).cuda_time,
    "cuda_time_total": lambda module: event(module).cuda_time_total,
    "self_cuda_time_total": lambda module: event(module).self_cuda_time_total,
    "self_cuda_memory_usage": lambda module: event(module).self_cuda_memory_usage,
    "metadata_json": lambda module: event(module).metadata_json,
    "cuda_time of an average": lambda module: model_of(module).FunctionEventAvg().add(event(module)).cuda_time,
    "no event": lambda module: model_of(module).FunctionEventAvg().add(event(module)).add("x"),
    "other key": lambda module: (
        model_of(module).FunctionEventAvg().add(event(module)).add(event(module, 1, "y", 2, 3, 4))
    ),
    "device without a name": lambda module: module.EventList(
        [event(module, device_type=torch.autograd.DeviceType.CUDA)]
    ).table(),
    "backward of nothing": lambda module: module.EventList([event(module, scope=1)])._build_tree(),
    "time_unit": lambda module: module.EventList([event(module)]).table(time_unit="ms"),
}
MODERN: dict[str, Callable[[Any], Any]] = {
    "use_cuda": lambda module: module.profile(use_cuda=True),
    "no activities": lambda module: module.profile(activities=[]),
    "activity twice": lambda module: module.profile(activities=[their_modern.ProfilerActivity.CPU] * 2),
    "no activity": lambda module: module.profile(activities=["CPU", their_modern.ProfilerActivity.CPU]),
    "schedule": lambda module: module.schedule(wait=-1, warmup=0, active=1),
    "nothing active": lambda module: module.schedule(wait=1, warmup=1, active=0),
    "no warm-up": lambda module: module.schedule(wait=1, warmup=0, active=1),
    "step below 0": lambda module: module.schedule(wait=1, warmup=1, active=1)(-1),
    "own action": lambda module: module.profile(schedule=lambda step: module.ProfilerAction.DEVICE_STOPPED),
    "early timeline": lambda module: module.profile().export_memory_timeline("/nonexistent/x"),
    "bad folder": lambda module: module.tensorboard_trace_handler("/proc/nonexistent")(None),
    "warm-up, then nothing": lambda module: steps(module, ["NONE", "WARMUP", "NONE"]),
    "recorded, then nothing": lambda module: steps(module, ["RECORD", "NONE", "NONE"]),
}


def finished(module: Any, **arguments: Any) -> Any:
    with module.profile(**arguments) as prof, module.record_function("x"):
        pass
    return prof


def steps(module: Any, actions: list[str]) -> None:
    chosen = [module.ProfilerAction[action] for action in actions]
    more = {"agent": "never"} if module is pillion else {}
    cpu = [their_modern.ProfilerActivity.CPU]
    with module.profile(activities=cpu, schedule=lambda step: chosen[step], **more) as prof:
        for _ in actions[1:]:
            prof.step()


@pytest.mark.parametrize("name", LEGACY)
def test_warnings_and_errors_of_the_older_face_are_torchs(name: str) -> None:
    assert said(lambda: LEGACY[name](ours)) == said(lambda: LEGACY[name](their_legacy))


@pytest.mark.parametrize("name", MODERN)
def test_warnings_and_errors_of_the_newer_face_are_torchs(name: str) -> None:
    assert said(lambda: MODERN[name](pillion)) == said(lambda: MODERN[name](their_modern))


def test_steps_are_counted_by_torchs_tracker() -> None:
    """Optimizers of torch count there."""
    mine, theirs = ours.KinetoStepTracker, their_legacy.KinetoStepTracker
    mine.init_step_count("test")
    try:
        before = theirs.current_step()
        assert mine.increment_step("test") == theirs.current_step() == mine.current_step() == before + 1
    finally:
        assert mine.erase_step_count("test")
    assert not theirs.erase_step_count("test")


@pytest.mark.parametrize(("version", "is_kept"), [("11.8", True), ("12.4", True), ("12.6", False), (None, False)])
def test_cupti_stays_for_graphs_that_need_it(
    monkeypatch: pytest.MonkeyPatch, version: str | None, is_kept: bool
) -> None:
    import torch._inductor.config as config

    monkeypatch.setattr(torch._utils_internal, "profiler_allow_cudagraph_cupti_lazy_reinit_cuda12", lambda: True)
    monkeypatch.setattr(torch.version, "cuda", version)
    for name in ("DISABLE_CUPTI_LAZY_REINIT", "TEARDOWN_CUPTI"):
        monkeypatch.delenv(name, raising=False)
    kept: Any = {}
    for module, more in ((their_modern, {}), (pillion, {"agent": "never"})):
        cpu = [their_modern.ProfilerActivity.CPU]
        with config.patch({"triton.cudagraphs": True}), module.profile(activities=cpu, **more) as prof:
            pass
        assert prof.has_cudagraphs
        kept[module] = prof._trace_metadata.get("DISABLE_CUPTI_LAZY_REINIT") == "1", os.environ.get("TEARDOWN_CUPTI")
        monkeypatch.delenv("TEARDOWN_CUPTI", raising=False)
    assert kept[pillion] == kept[their_modern] == (is_kept, "0" if is_kept else None)


def test_a_schedule_that_goes_from_recording_to_warming_up_is_warned_of() -> None:
    """torch 2.13 warns too, and then crashes."""
    warned, error = said(lambda: steps(pillion, ["RECORD", "WARMUP", "RECORD_AND_SAVE"]))
    assert (warned, error) == ([(UserWarning, "Incorrect schedule: RECORD followed by WARMUP")], None)


@given(st.tuples(*[st.integers(0, 5)] * 6), st.integers(0, 60))
def test_a_schedule_answers_as_torchs(numbers: tuple[int, ...], step: int) -> None:
    names = ("wait", "warmup", "active", "repeat", "skip_first", "skip_first_wait")
    arguments = dict(zip(names, numbers)) | {"active": numbers[2] + 1, "warmup": numbers[1] + 1}
    assert pillion.schedule(**arguments)(step).name == their_modern.schedule(**arguments)(step).name
