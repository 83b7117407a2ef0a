"""Events as torch's profiler gives them, over the columns of a capture."""

from pillion.model.average import FunctionEventAvg
from pillion.model.event import DeviceType, FunctionEvent, Interval, Kernel
from pillion.model.event_list import EventList, event_list

__all__ = ["DeviceType", "EventList", "FunctionEvent", "FunctionEventAvg", "Interval", "Kernel", "event_list"]
