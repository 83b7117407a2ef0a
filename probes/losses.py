"""What the losses of a region are called, whoever drained it: number in pillion.h to the kind that a capture shows."""

from __future__ import annotations

from pillion_probes.layout import CONSTANTS

REGION_LOSSES = {
    CONSTANTS["PLN_RANGE"]: "ring_full",
    CONSTANTS["PLN_MARK"]: "ring_full_marks",
    CONSTANTS["PLN_THREAD"]: "ring_full_threads",
    CONSTANTS["PLN_ACTIVITY"]: "ring_full_activities",
    CONSTANTS["PLN_NOTICE"]: "ring_full_notices",
    CONSTANTS["PLN_LOSS_THREADS"]: "no_ring",
    CONSTANTS["PLN_LOSS_STRINGS"]: "no_string_room",
    CONSTANTS["PLN_LOSS_CORRUPT"]: "corrupt_ring",
    CONSTANTS["PLN_LOSS_STALLED"]: "reader_stalled",
    CONSTANTS["PLN_LOSS_DEVICE"]: "device_records",
}
