"""``record_function``: names a stretch of the program, as a context manager and as a decorator."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from copy import copy
from typing import Any, TypeVar, cast

from pillion._compiled import compile_as_torchs
from pillion._range import _Range

_Function = TypeVar("_Function", bound=Callable[..., Any])


class record_function(_Range):
    """A named range of the current thread.

    >>> with record_function("forward"):
    ...     model(batch)
    >>> @record_function("load")
    ... def load(path): ...

    Entering and leaving are in C: two clock reads and one 64-byte record while somebody records the process, one load
    of a flag otherwise. A range that is open when its thread samples or waits owns the sample.

    Args:
        name: what tables and traces call the range.
        args: free text kept with the range, or None.

    Raises:
        RuntimeError: name or args is not a string.
        AssertionError: left without having been entered.
    """

    __slots__ = ()
    __signature__ = inspect.Signature(
        [
            inspect.Parameter("name", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=str),
            inspect.Parameter("args", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation="str | None"),
        ]
    )

    def __call__(self, function: _Function) -> _Function:
        """Decorate: every call is a range of its own, from the first step of the body to its end.

        Async functions, generators and async generators stay what they are. The range of a generator is open while it
        is suspended too, as if the ``with`` stood around its body.
        """
        is_plain = type(self).__init__ is record_function.__init__
        open_range = functools.partial(type(self), self.name, self.args) if is_plain else functools.partial(copy, self)
        return cast(_Function, functools.wraps(function)(_wrapper(open_range, function)))

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy and a pickle are ranges that nobody has entered; modules that hold one are copied with it."""
        return _unentered, (type(self), self.name, self.args), getattr(self, "__dict__", None)

    def _call_end_callbacks_on_future(self, fut: Any) -> Any:
        """Leaving the block no longer ends the range: the future's completion does, in whichever thread that is.

        Args:
            fut: a future of torch, concurrent.futures or asyncio.

        Returns:
            A future that completes with the value of ``fut`` when the range has ended.

        Raises:
            RuntimeError: it was called before.
            AssertionError: the range was not entered.
        """
        self._keep_open()
        if not hasattr(fut, "then"):
            fut.add_done_callback(lambda done: self._end())
            return fut

        def end(done: Any) -> Any:
            self._end()
            return done.value()

        return fut.then(end)


compile_as_torchs(record_function)


def _unentered(kind: type[record_function], name: str, args: str | None) -> record_function:
    made = kind.__new__(kind, name, args)
    _Range.__init__(made, name, args)
    return made


def _wrapper(open_range: Callable[[], _Range], function: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.isasyncgenfunction(function):
        return _async_generator_wrapper(open_range, function)
    if inspect.iscoroutinefunction(function):

        async def call_async(*args: Any, **kwargs: Any) -> Any:
            with open_range():
                return await function(*args, **kwargs)

        return call_async
    if inspect.isgeneratorfunction(function):

        def call_generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            with open_range():
                return (yield from function(*args, **kwargs))

        return call_generator

    def call(*args: Any, **kwargs: Any) -> Any:
        with open_range():
            return function(*args, **kwargs)

    return call


def _async_generator_wrapper(
    open_range: Callable[[], _Range], function: Callable[..., AsyncGenerator[Any, Any]]
) -> Callable[..., AsyncGenerator[Any, Any]]:
    async def call_async_generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        # The language has no ``yield from`` here, so what the caller sends, throws and closes is passed on by hand.
        with open_range():
            inner = function(*args, **kwargs)
            try:
                item = await inner.asend(None)
                while True:
                    try:
                        sent = yield item
                    except GeneratorExit:
                        await inner.aclose()
                        raise
                    except BaseException as error:
                        item = await inner.athrow(error)
                    else:
                        item = await inner.asend(sent)
            except StopAsyncIteration:
                return

    return call_async_generator
