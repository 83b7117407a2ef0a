/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cupti_reading.h"

#include <string.h>

#include "../job/process.h"
#include "cupti_api.h"
#include "cupti_buffers.h"
#include "cupti_clock.h"
#include "cupti_notice.h"
#include "cupti_record.h"

#define BATCH 64u  /* 4 KB: still in the nearest cache when it is handed over */
#define KINDS 256u /* CUPTI has some 60; the last one stands for all beyond */

static struct {
    uint32_t epoch;
    bool unknown_told[KINDS];
    bool untimed_told;
    bool unreadable_told;
    struct pln_activity batch[BATCH];
    unsigned batched;
} reading;

void cupti_reading_begin(uint32_t epoch) {
    memset(&reading, 0, sizeof reading);
    reading.epoch = epoch;
}

/* True the first time in a session. */
static bool first(bool *told) {
    bool before = *told;
    *told = true;
    return !before;
}

static void lose(const uint8_t *record, int why) {
    __atomic_fetch_add(&pln_process.region->lost_device, 1, __ATOMIC_RELAXED);
    uint32_t kind = 0;
    if (why != PLN_CUPTI_SHORT)
        memcpy(&kind, record, sizeof kind);
    if (why == PLN_CUPTI_UNKNOWN && first(&reading.unknown_told[kind < KINDS ? kind : KINDS - 1]))
        cupti_notice("CUPTI records of kind %u are unknown: they are counted as lost", kind);
    else if (why == PLN_CUPTI_UNTIMED && first(&reading.untimed_told))
        cupti_notice("CUPTI gave records of kind %u no time: they are counted as lost", kind);
    else if (why == PLN_CUPTI_SHORT && first(&reading.unreadable_told))
        cupti_notice("a CUPTI buffer ends within a record or cannot be read: the rest of it is counted as one loss");
}

static void hand_over_batch(void) {
    for (unsigned i = 0; i < reading.batched; i++)
        pln_hand_over((struct pln_record *)&reading.batch[i]);
    pln_probe_batch(reading.batch, reading.batched);
    reading.batched = 0;
}

static void add(const uint8_t *record, size_t room) {
    struct pln_activity *activity = &reading.batch[reading.batched];
    int result = pln_cupti_read(record, room, cupti_api.version, activity);
    if (result != PLN_CUPTI_MADE) {
        lose(record, result);
        return;
    }
    activity->epoch = reading.epoch;
    activity->start_ns = cupti_clock_map(activity->start_ns);
    activity->end_ns = cupti_clock_map(activity->end_ns);
    if (++reading.batched == BATCH)
        hand_over_batch();
}

/* CUPTI tells where records are, but not how long they are; it may not lead us back or out of the buffer. */
static void read_buffer(const struct cupti_buffer *buffer) {
    const uint8_t *end = buffer->bytes + buffer->valid, *last = NULL;
    for (void *next = NULL;;) {
        int result = cupti_api.next_record(buffer->bytes, buffer->valid, &next);
        const uint8_t *record = next;
        if (result == CUPTI_MAX_LIMIT_REACHED)
            return;
        if (result != CUPTI_SUCCESS || record < buffer->bytes || record >= end || (last != NULL && record <= last)) {
            lose(record, PLN_CUPTI_SHORT);
            return;
        }
        add(record, (size_t)(end - record));
        last = record;
    }
}

void cupti_read_buffers(void) {
    for (struct cupti_buffer buffer; cupti_buffers_take(&buffer);) {
        read_buffer(&buffer);
        cupti_buffers_give_back(&buffer);
    }
    if (reading.batched > 0)
        hand_over_batch();
}
