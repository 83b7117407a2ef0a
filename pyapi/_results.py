"""The answers of a profile that has ended; both faces of ``profile`` have them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pillion._capture import Capture
    from pillion.model import EventList, FunctionEventAvg


class Results:
    """Tables, averages and exports of ``function_events`` and of ``capture``, which a subclass has."""

    if TYPE_CHECKING:

        @property
        def capture(self) -> Capture: ...

        @property
        def function_events(self) -> EventList: ...

    def _finished_events(self) -> EventList:
        """The events; a subclass raises here where there are none yet."""
        return self.function_events

    def events(self) -> EventList:
        """Every range and operator as a FunctionEvent."""
        return self._finished_events()

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Events added up by name, and by what else is asked for."""
        events = self._finished_events()
        return events.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """The events as text: see ``EventList.table``."""
        return self._finished_events().table(
            sort_by,
            row_limit,
            max_src_column_width,
            max_name_column_width,
            max_shapes_column_width,
            header,
            top_level_events_only,
        )

    def total_average(self) -> FunctionEventAvg:
        """All events added up."""
        return self._finished_events().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """The self CPU times of all events added up, in µs."""
        return self._finished_events().self_cpu_time_total

    def export_stacks(self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Writes collapsed stacks with the metric in whole µs, for flame graphs.

        Raises:
            AssertionError: the profile was made without ``with_stack``.
            ValueError: there is no such metric.
            OSError: the file cannot be written.
        """
        if not getattr(self, "with_stack", False):
            raise AssertionError("export_stacks() requires with_stack=True")
        self._finished_events().export_stacks(path, metric)
