"""Events as torch's profiler gives them, over the columns of a capture."""

from pillion.model.average import FunctionEventAvg
from pillion.model.event import DeviceType, FunctionEvent, Interval, Kernel
from pillion.model.event_list import EventList, event_list
from pillion.model.event_metadata import EventMetadata
from pillion.model.memory import MemRecordsAcc
from pillion.model.rows import Detail
from pillion.model.strings import StringTable

__all__ = [
    "Detail",
    "DeviceType",
    "EventList",
    "EventMetadata",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "MemRecordsAcc",
    "StringTable",
    "event_list",
]
