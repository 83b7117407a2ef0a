"""record_function as a decorator and as a context manager."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import inspect
import pickle
from collections.abc import AsyncGenerator, Generator
from typing import Any

import pytest

from pillion import profile, record_function


def test_a_decorated_function_keeps_its_name_and_its_result() -> None:
    @record_function("add")
    def add(a: int, b: int = 2) -> int:
        """Adds."""
        return a + b

    assert (add(1), add.__name__, add.__doc__) == (3, "add", "Adds.")


def test_every_call_is_a_range_of_its_own_even_when_it_recurses() -> None:
    @record_function("down", "args")
    def down(steps: int) -> int:
        with record_function("step"):  # torch, and so we, show a range that is the only child of its namesake as one
            return steps and down(steps - 1)

    with profile(agent="never") as prof:
        down(6)
    assert [event.name for event in prof.function_events] == ["down", "step"] * 7


def test_an_async_function_stays_one_and_its_range_spans_what_it_awaits() -> None:
    @record_function("outer")
    async def outer() -> str:
        with record_function("inner"):
            await asyncio.sleep(0)
        return "done"

    assert inspect.iscoroutinefunction(outer)
    with profile(agent="never") as prof:
        assert asyncio.run(outer()) == "done"
    assert [event.name for event in prof.function_events] == ["outer", "inner"]


def test_a_generator_stays_one_and_passes_on_what_is_sent_thrown_and_returned() -> None:
    @record_function("echo")
    def echo() -> Generator[str, str, str]:
        try:
            sent = yield "first"
            yield sent
        except KeyError:
            yield "caught"
        return "returned"

    assert inspect.isgeneratorfunction(echo)
    with profile(agent="never") as prof:
        steps = echo()
        assert (next(steps), steps.send("sent"), steps.throw(KeyError())) == ("first", "sent", "caught")
        with pytest.raises(StopIteration, match="returned"):
            next(steps)
    assert [event.name for event in prof.function_events] == ["echo"]


def test_an_async_generator_stays_one_and_passes_on_what_is_sent_thrown_and_closed() -> None:
    closed: list[bool] = []

    @record_function("echo")
    async def echo() -> AsyncGenerator[str, str]:
        try:
            sent = yield "first"
            yield sent
        except KeyError:
            yield "caught"
        finally:
            closed.append(True)

    async def use() -> None:
        steps = echo()
        assert [await steps.asend(None), await steps.asend("sent")] == ["first", "sent"]  # type: ignore[arg-type]
        assert await steps.athrow(KeyError()) == "caught"
        await steps.aclose()
        assert [step async for step in echo()] == ["first", None]

    assert inspect.isasyncgenfunction(echo)
    with profile(agent="never") as prof:
        asyncio.run(use())
    assert closed == [True, True]
    assert [event.name for event in prof.function_events] == ["echo", "echo"]


def test_an_exception_passes_and_the_range_ends() -> None:
    with profile(agent="never") as prof:
        with contextlib.suppress(ZeroDivisionError), record_function("fails"):
            _ = 1 / 0
        with record_function("after"):
            pass
    assert [(event.name, event.cpu_parent) for event in prof.function_events] == [("fails", None), ("after", None)]


def test_a_name_that_is_no_string_is_a_runtime_error() -> None:
    with pytest.raises(RuntimeError, match="must be a str"):
        record_function(7)  # type: ignore[arg-type]


def test_leaving_without_entering_is_an_assertion_error() -> None:
    with pytest.raises(AssertionError):
        record_function("x").__exit__(None, None, None)


def test_it_has_no_room_for_attributes() -> None:
    with pytest.raises(AttributeError):
        record_function("x").colour = "red"  # type: ignore[attr-defined]


class Numbered(record_function):
    """A range whose __init__ takes something else."""

    def __init__(self, number: int) -> None:
        super().__init__(f"number {number}", args="some")


def test_a_subclass_may_have_an_init_of_its_own() -> None:
    with profile(agent="never") as prof:
        with Numbered(7):
            pass

        @Numbered(number=11)
        def work() -> None: ...

        work()
        work()
    assert [event.name for event in prof.events()] == ["number 7", "number 11", "number 11"]


def test_a_subclass_that_sets_no_name_is_a_range_without_one() -> None:
    class Nameless(record_function):
        def __init__(self) -> None: ...

    assert (Nameless().name, Nameless().args) == ("", None)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda entered: pickle.loads(pickle.dumps(entered))])
@pytest.mark.parametrize("make", [lambda: record_function("kept", "args"), lambda: Numbered(3)])
def test_a_copy_is_a_range_that_nobody_entered(copied: Any, make: Any) -> None:
    with make() as entered:
        made = copied(entered)
        assert (type(made), made.name, made.args) == (type(entered), entered.name, entered.args)
        with pytest.raises(AssertionError):
            made.__exit__(None, None, None)
