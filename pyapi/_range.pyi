"""pillion._range, as cffi_build/range_module.c makes it."""

from types import TracebackType
from typing import Self

class _Range:
    """A named range of the calling thread, as a context manager."""

    @property
    def name(self) -> str: ...
    @property
    def args(self) -> str | None: ...
    def __new__(cls, name: str, args: str | None = None) -> Self: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
