"""The events of a list as columns: every number of a FunctionEvent for all events at once, made when first asked for.

Unless it says otherwise, a column has one value for each event of the list, in its order.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from pillion._tables import Array, column, length
from pillion.model.event import BACKWARD_SCOPE, DeviceType
from pillion.model.nesting import depths
from pillion.model.rows import EventRows
from pillion.model.stacks import ShapeValues, StackTexts, backward_stacks
from pillion.model.tree import Attribution, attribute, float_sums, inclusive, is_async, is_nothing, sums, visible_rows

_CHUNK = 65_536  # rows whose intermediate results stay in the processor's cache
_ANNOTATIONS = ("user_annotation", "gpu_user_annotation")
# Work that a device did for the event that caused it; annotations only lie on its time line.
WORK = ("kernel", "memcpy", "memset", "graph")


class EventColumns(EventRows):
    """The columns of an EventList."""

    def _listed(self, of_events: Array, of_devices: Array | int = 0) -> Array:
        """One value for each event from values of the events table's rows and of the listed activities."""
        if not len(self.listed) and is_nothing(of_events):
            return np.broadcast_to(of_events[:1], len(self.rows))
        if not len(self.listed):
            return of_events if self._is_whole else of_events[self.rows]
        devices = np.broadcast_to(np.asarray(of_devices), len(self.listed))
        values: Array = np.concatenate([of_events, devices])[self.rows]
        return values

    @cached_property
    def _is_whole(self) -> bool:
        """Whether the list is the events table, row by row."""
        return len(self.rows) == self.count and bool(np.all(self.rows[1:] > self.rows[:-1]))

    def _optional(self, name: str, of_devices: Array | int = 0) -> Array:
        return self._listed(column("events", self.events, name), of_devices)

    def _of_memory_records(self, name: str) -> Array | int:
        known = self.of_listed(name)
        return 0 if known is None else known

    @property
    def is_sampled(self) -> bool:
        """Whether samples or waits say anything about these events."""
        return length(self.tables["samples"]) + length(self.tables["waits"]) > 0

    @cached_property
    def use_device(self) -> str | None:
        """The device whose times there are."""
        if self.detail.thread is not None:
            return self.detail.use_device
        return "cuda" if len(self.listed) else None

    @cached_property
    def on_cpu(self) -> Array:
        """Mask of what did not run on a device."""
        return self.device_type == DeviceType.CPU if len(self.listed) else np.ones(len(self), bool)

    @cached_property
    def device_type(self) -> Array:
        """Numbers of ``DeviceType``."""
        of_devices = self.of_listed("device_type")
        return self._listed(np.zeros(self.count, np.int8), int(DeviceType.CUDA) if of_devices is None else of_devices)

    @cached_property
    def shown(self) -> Array:
        """The name, as an index of ``names``."""
        return self.name if not len(self.listed) and self._is_whole else self.name[self.rows]

    @cached_property
    def recorded(self) -> Array:
        """The name as it was recorded, as an index of ``names``; −1 for allocations outside all operators."""
        is_memory = self.activities["kind"].isin("memory")
        return self._listed(self.events["name"], np.where(is_memory, -1, self.activities["name"]))

    @cached_property
    def start_ns(self) -> Array:
        return self._listed(self.events["start_ns"], self.activities["start_ns"])

    @cached_property
    def duration_ns(self) -> Array:
        """Wall time."""
        duration: Array = self._listed(self.events["end_ns"], self.activities["end_ns"]) - self.start_ns
        return duration

    @cached_property
    def is_async(self) -> Array:
        """Ended on another thread."""
        return self._listed(is_async(self.events), False)

    @cached_property
    def is_annotation(self) -> Array:
        """Made by record_function, or its shadow on a device's time line."""
        shadow = self.of_listed("annotation")
        shadow = self.activities["kind"].isin(*_ANNOTATIONS) if shadow is None else shadow
        return self._listed(self.category.isin(*_ANNOTATIONS), shadow)

    @cached_property
    def is_legacy(self) -> Array:
        legacy = self.detail.legacy
        return self._listed(np.zeros(self.count, bool) if legacy is None else legacy, False)

    @cached_property
    def node_id(self) -> Array:
        return self._optional("node_id", -1)

    @cached_property
    def flops(self) -> Array:
        return self._optional("flops")

    @cached_property
    def overload(self) -> Array:
        """Rows of strings."""
        return self._optional("overload")

    @cached_property
    def shapes(self) -> Array:
        """Rows of strings."""
        return self._optional("shapes")

    @cached_property
    def thread_of(self) -> Array:
        of_devices = self.of_listed("thread")
        return self._listed(self.thread, self.activities["stream"] if of_devices is None else of_devices)

    @cached_property
    def shape_values(self) -> ShapeValues:
        """Row of strings to the input shapes that it spells."""
        return ShapeValues(self.names)

    @cached_property
    def stack_texts(self) -> StackTexts:
        """Row of stacks to its entries."""
        return StackTexts(self.tables)

    # ---- the tree ----

    @cached_property
    def place(self) -> Array:
        """For each row its place in the list, −1 for a hidden one."""
        place = np.full(self.count + len(self.listed), -1, np.int32)
        place[self.rows] = np.arange(len(self.rows), dtype=np.int32)
        return place

    @cached_property
    def parent_place(self) -> Array:
        """The place of the parent in the list, −1 for none."""
        if self._is_whole and not len(self.listed):
            return self.parent
        parent = self._listed(self.parent, -1)
        return np.where(parent >= 0, self.place[parent], -1)

    @cached_property
    def _children(self) -> tuple[Array, Array]:
        """Places ordered by parent, and where each parent's children begin."""
        order = np.argsort(self.parent_place, kind="stable")
        return order, np.searchsorted(self.parent_place[order], np.arange(len(order) + 1))

    def children(self, place: int) -> list[int]:
        """Places of the children of an event, in the order of the list."""
        order, begins = self._children
        children: list[int] = order[begins[place] : begins[place + 1]].tolist()
        return children

    @cached_property
    def levels(self) -> list[Array]:
        """Places with a parent, one array for each depth, the deepest first."""
        depth = depths(self.parent_place)
        order = np.argsort(depth.astype(np.uint16 if len(depth) and depth.max() < 65536 else np.int32), kind="stable")
        return np.split(order, np.searchsorted(depth[order], np.arange(1, depth.max(initial=0) + 1)))[:0:-1]

    def _less_children(self, values: Array) -> Array:
        """Values of CPU events less those of their children; 0 for what is async or ran on a device."""
        if is_nothing(values):
            return values
        own = values - sums(self.parent_place, values, len(values))
        return np.where(self.is_async | ~self.on_cpu, 0, own)

    # ---- times and memory ----

    @cached_property
    def elapsed_us(self) -> Array:
        """Wall time. As torch does it, in floats of both ends: sums then agree to the last digit."""
        elapsed_us = np.empty(len(self))
        for begin in range(0, len(self), _CHUNK):
            some = slice(begin, begin + _CHUNK)
            start_ns = self.start_ns[some] - self.origin_ns
            elapsed_us[some] = (start_ns + self.duration_ns[some]) / 1e3 - start_ns / 1e3
        return elapsed_us

    @cached_property
    def cpu_us(self) -> Array:
        """Wall time of what ran on the CPU."""
        return self.elapsed_us if not len(self.listed) else np.where(self.on_cpu, self.elapsed_us, 0)

    @cached_property
    def self_us(self) -> Array:
        """Wall time without the children's; siblings that overlap can exceed their parent."""
        own = float_sums(self.parent_place, self.cpu_us, len(self))
        np.subtract(self.cpu_us, own, out=own)
        np.maximum(own, 0, out=own)
        own[self.is_async] = 0
        return own

    @cached_property
    def self_cpu_us(self) -> float:
        """The self times of all events added up."""
        return float(float_sums(np.zeros(len(self), np.int8), self.self_us, 1)[0])

    @cached_property
    def kernels(self) -> tuple[Array, Array]:
        """Listed activities ordered by the place of the event that caused them, and where each event's begin."""
        if not len(self.listed):
            return np.zeros(0, np.int64), np.zeros(len(self) + 1, np.int64)
        causes = self.activities["event"].copy()
        if "device_type" not in self.detail.device:  # torch itself has said what belongs to whom
            causes[~self.activities["kind"].isin(*WORK)] = -1
        known = causes >= 0
        rows = causes[known]  # what merged into its parent leaves its kernels to it
        causes[known] = self.place[np.where(self.absorbed[rows], self.parent[rows], rows)]
        order = np.argsort(causes, kind="stable")
        return order, np.searchsorted(causes[order], np.arange(len(self) + 1))

    @cached_property
    def _launched_us(self) -> Array:
        """Time of the kernels of each event."""
        order, begins = self.kernels
        duration = self.activities["end_ns"] - self.activities["start_ns"]
        until = np.concatenate([[0], np.cumsum(duration[order])])
        launched: Array = (until[begins[1:]] - until[begins[:-1]]) / 1e3
        own = self.detail.read("kernel_ns") if self.detail.legacy is not None else None
        return launched if own is None else launched + self._listed(np.asarray(own)) / 1e3

    @cached_property
    def device_us(self) -> Array:
        """Time on the device: of the kernels of an event and of its descendants, or its own if it ran on a device."""
        if not self.use_device:
            return np.broadcast_to(np.zeros(1), len(self))
        own = np.where(self.is_async, 0, self._launched_us)
        total = inclusive(own, self.parent_place, self.levels, fixed=self.is_legacy)
        return np.where(self.on_cpu, total, self.elapsed_us)

    @cached_property
    def self_device_us(self) -> Array:
        if is_nothing(self.device_us):
            return self.device_us
        own = self.device_us - float_sums(self.parent_place, self.device_us, len(self))
        return np.where(self.is_async, 0, own)

    @cached_property
    def cpu_memory(self) -> Array:
        """Bytes allocated while it ran, less those freed."""
        return self._optional("cpu_memory", self._of_memory_records("cpu_memory"))

    @cached_property
    def self_cpu_memory(self) -> Array:
        return self._less_children(self.cpu_memory)

    @cached_property
    def device_memory(self) -> Array:
        """Bytes allocated on the device while it ran, less those freed."""
        return self._optional("device_memory", self._of_memory_records("device_memory"))

    @cached_property
    def self_device_memory(self) -> Array:
        return self._less_children(self.device_memory)

    # ---- stacks, samples ----

    @cached_property
    def stack(self) -> Array:
        """Rows of stacks: where each was called, or launched. A backward event has that of its forward operator."""
        stack, scope = self._optional("stack", self._launch_stacks()), self._optional("scope")
        if not stack.any() or not np.any(scope == BACKWARD_SCOPE):
            return stack
        knows_threads = self.detail.thread is not None
        nowhere = np.zeros(len(self), np.int64)  # other programs' traces number threads otherwise than fwd_thread
        return backward_stacks(
            stack,
            behind=self._nearest_backward(scope),
            sequence=self._optional("sequence_nr", -1),
            thread=self.thread_of if knows_threads else nowhere,
            forward_thread=self._optional("fwd_thread") if knows_threads else nowhere,
        )

    def _launch_stacks(self) -> Array | int:
        """Of each listed activity the row of stacks of its launch."""
        stack, launch = column("events", self.events, "stack"), column("activities", self.activities, "launch")
        return 0 if is_nothing(stack) or not len(stack) else np.where(launch >= 0, stack[launch], 0)

    def _nearest_backward(self, scope: Array) -> Array:
        """The place of the event itself or its nearest ancestor that runs backward, −1 for none."""
        nearest = np.where(scope == BACKWARD_SCOPE, np.arange(len(self)), -1)
        for places in reversed(self.levels):
            orphans = places[nearest[places] < 0]
            nearest[orphans] = nearest[self.parent_place[orphans]]
        return nearest

    @cached_property
    def _attribution(self) -> Attribution:
        return attribute(self.tables)

    @cached_property
    def sampled(self) -> dict[str, Array]:
        """What samples and waits say, by the attribute of a FunctionEvent that shows it."""
        of = self._attribution
        visible = visible_rows(self.events, self.hidden)
        by_row = {
            "samples": of.samples.total,
            "on_cpu_ns": of.on_cpu.total,
            "self_on_cpu_ns": sums(visible, of.on_cpu.own, len(visible)),
            "off_cpu_ns": of.off_cpu.total,
        }
        return {name: self._listed(values) for name, values in by_row.items()}
