"""What CUPTI's numbers stand for, in the words of Kineto, whoever recorded them."""

from __future__ import annotations

# CUpti_ActivityKind of work, and what the table ``activities`` calls it.
ACTIVITY_KINDS = {
    1: "memcpy",
    2: "memset",
    3: "kernel",
    10: "kernel",
    17: "overhead",
    22: "memcpy",
    25: "unified_memory",
    36: "event",
    38: "sync",
    49: "memory",
    51: "graph",
}
DRIVER_API = 4
API_KINDS = (DRIVER_API, 5, 48)
DEVICE, CONTEXT, NAME, EXTERNAL_CORRELATION = 8, 9, 11, 39
EVENT, MEMORY, UNIFIED_MEMORY = 36, 49, 25

MEMCPY_NAMES = {
    1: "Memcpy HtoD",
    2: "Memcpy DtoH",
    3: "Memcpy HtoA",
    4: "Memcpy AtoH",
    5: "Memcpy AtoA",
    6: "Memcpy AtoD",
    7: "Memcpy DtoA",
    8: "Memcpy DtoD",
    9: "Memcpy HtoH",
    10: "Memcpy PtoP",
    11: "Memcpy unified HtoD",
    12: "Memcpy unified DtoH",
    13: "Memcpy unified DtoD",
}
SYNC_NAMES = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
OVERHEAD_NAMES = {
    0: "Unknown",
    1: "Driver Compiler",
    1 << 16: "Buffer Flush",
    2 << 16: "Instrumentation",
    3 << 16: "Resource",
    4 << 16: "Runtime Triggered Module Loading",
    5 << 16: "Lazy Function Loading",
    6 << 16: "Command Buffer Full",
    7 << 16: "Activity Buffer Request",
    8 << 16: "UVM Activity Init",
}
UNIFIED_MEMORY_NAMES = {
    1: "Unified memory HtoD",
    2: "Unified memory DtoH",
    3: "Page faults of the CPU",
    4: "Page faults of the GPU",
    5: "Thrashing",
    6: "Throttling",
    7: "Remote map",
    8: "Unified memory DtoD",
}
UNIFIED_MEMORY_BYTES = (1, 2, 8)  # of these the value is a number of bytes

# Of each kind the names by its detail, and what others are called; a number follows where there are names.
DETAIL_NAMES: dict[int, tuple[dict[int, str], str]] = {
    1: (MEMCPY_NAMES, "Memcpy kind"),
    2: ({}, "Memset"),
    3: ({}, "kernel"),
    10: ({}, "kernel"),
    17: (OVERHEAD_NAMES, "Overhead"),
    22: ({}, "Memcpy PtoP"),
    25: (UNIFIED_MEMORY_NAMES, "Unified memory counter"),
    36: ({}, "CUDA event"),
    38: (SYNC_NAMES, "Sync"),
    49: ({}, "[memory]"),
    51: ({}, "CUDA graph"),
}
