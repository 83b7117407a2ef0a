/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cupti_buffers.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../job/control.h"
#include "../job/process.h"
#include "cupti_api.h"
#include "cupti_calls.h"

/* A kernel's record has some 200 bytes. Buffers of 256 KB make a recorded launch cost 8 % less than those of 1 MB or 4 MB
 * do (tests/bench/cuda_launch.py: 702, 778 and 796 ns): what our thread reads is in a cache still. At 300,000 launches a
 * second, more than a driver manages, all of them last for a second in which it gets no CPU, and smaller ones did lose.
 * Only what is used costs memory. */
#define BUFFER_BYTES (256u << 10)
#define BUFFERS_MAX 256u
#define WAITING_DIVISOR 16 /* so large a part of them waits: wake our thread */

/* When all are full: what goes into these is counted and then gone. They are small, so that CUPTI comes back soon. */
#define SPARE_BYTES (16u << 10)
#define SPARES 8u

enum where { FREE, OUT, FULL }; /* ours, CUPTI's, ours to be read */

static struct {
    pthread_mutex_t mutex; /* a few instructions, some hundred times a second at most */
    uint8_t *pool;         /* the spares are behind the buffers */
    unsigned count;
    uint8_t *free[BUFFERS_MAX]; /* the last one comes first: its pages are there */
    unsigned free_count;
    uint8_t where[BUFFERS_MAX];            /* enum where */
    struct cupti_buffer full[BUFFERS_MAX]; /* a queue */
    unsigned full_first, full_count;
    bool spare_used[SPARES];
} buffers = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static unsigned wanted_count(void) {
    const char *text = secure_getenv("PILLION_CUPTI_BUFFERS");
    unsigned long count = text != NULL ? strtoul(text, NULL, 10) : 0;
    return count > 0 && count < BUFFERS_MAX ? (unsigned)count : BUFFERS_MAX;
}

static uint8_t *spares(void) {
    return buffers.pool + (size_t)buffers.count * BUFFER_BYTES;
}

static uint8_t *where(const uint8_t *buffer) {
    return &buffers.where[(size_t)(buffer - buffers.pool) / BUFFER_BYTES];
}

static void set_free(uint8_t *buffer) {
    *where(buffer) = FREE;
    buffers.free[buffers.free_count++] = buffer;
}

/* CUPTI let go of them when the last session had ended; where it was finalized the names in them are gone. */
static void discard_full(void) {
    for (struct cupti_buffer buffer; cupti_buffers_take(&buffer);)
        cupti_buffers_give_back(&buffer);
}

bool cupti_buffers_open(void) {
    if (buffers.pool != NULL) {
        discard_full();
        return true;
    }
    unsigned count = wanted_count();
    void *pool = mmap(NULL, (size_t)count * BUFFER_BYTES + SPARES * SPARE_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pool == MAP_FAILED)
        return false;
    pthread_mutex_lock(&buffers.mutex);
    buffers.pool = pool;
    buffers.count = count;
    for (unsigned i = count; i > 0; i--)
        set_free(buffers.pool + (size_t)(i - 1) * BUFFER_BYTES);
    pthread_mutex_unlock(&buffers.mutex);
    return true;
}

void cupti_buffers_trim(void) {
    pthread_mutex_lock(&buffers.mutex);
    for (unsigned i = 0; i < buffers.free_count; i++)
        (void)madvise(buffers.free[i], BUFFER_BYTES, MADV_DONTNEED);
    pthread_mutex_unlock(&buffers.mutex);
}

static uint8_t *take_spare(void) {
    for (unsigned i = 0; i < SPARES; i++) {
        if (buffers.spare_used[i])
            continue;
        buffers.spare_used[i] = true;
        return spares() + (size_t)i * SPARE_BYTES;
    }
    return NULL; /* CUPTI counts what it drops then */
}

void cupti_buffers_request(uint8_t **buffer, size_t *size, size_t *max_records) {
    *buffer = NULL;
    *size = 0;
    *max_records = 0; /* as many as fit */
    if (cupti_calls_are_foreign())
        return;
    pthread_mutex_lock(&buffers.mutex);
    bool is_free = buffers.free_count > 0;
    *buffer = is_free ? buffers.free[--buffers.free_count] : take_spare();
    if (is_free)
        *where(*buffer) = OUT;
    pthread_mutex_unlock(&buffers.mutex);
    if (*buffer != NULL)
        *size = is_free ? BUFFER_BYTES : SPARE_BYTES;
}

static void lose(uint64_t count) {
    __atomic_fetch_add(&pln_process.region->lost_device, count, __ATOMIC_RELAXED);
}

void cupti_count_dropped(void *context, uint32_t stream) {
    size_t count = 0;
    if (cupti_api.dropped != NULL && cupti_api.dropped(context, stream, &count) == CUPTI_SUCCESS)
        lose(count);
}

void cupti_forget_dropped(void) {
    size_t count;
    if (cupti_api.dropped != NULL)
        (void)cupti_api.dropped(NULL, 0, &count);
}

static void lose_records(uint8_t *buffer, size_t valid) {
    uint64_t count = 0;
    for (void *record = NULL; cupti_api.next_record(buffer, valid, &record) == CUPTI_SUCCESS;)
        count++;
    lose(count);
}

/* True if our thread should come. One that comes after it was reclaimed is nobody's. */
static bool put(uint8_t *buffer, size_t valid) {
    if (*where(buffer) != OUT)
        return false;
    if (valid == 0) {
        set_free(buffer);
        return false;
    }
    *where(buffer) = FULL;
    buffers.full[(buffers.full_first + buffers.full_count++) % BUFFERS_MAX] = (struct cupti_buffer){buffer, valid};
    unsigned many = buffers.count / WAITING_DIVISOR;
    return buffers.full_count == (many > 0 ? many : 1);
}

/* Another user of the activity API, which has one pair of callbacks for all, may have handed it over. */
static bool is_ours(const uint8_t *buffer) {
    return buffer >= buffers.pool && buffer < spares() + SPARES * SPARE_BYTES;
}

void cupti_buffers_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
    if (buffer == NULL || cupti_calls_are_foreign() || !is_ours(buffer))
        return;
    if (valid > size)
        valid = size;
    bool is_spare = buffer >= spares();
    if (is_spare)
        lose_records(buffer, valid);
    pthread_mutex_lock(&buffers.mutex);
    bool is_due = false;
    if (is_spare)
        buffers.spare_used[(size_t)(buffer - spares()) / SPARE_BYTES] = false;
    else
        is_due = put(buffer, valid);
    pthread_mutex_unlock(&buffers.mutex);
    if (context != NULL)
        cupti_count_dropped(context, stream);
    if (is_due)
        pln_control_wake();
}

bool cupti_buffers_are_out(void) {
    bool are_out = false;
    pthread_mutex_lock(&buffers.mutex);
    for (unsigned i = 0; i < buffers.count; i++)
        are_out |= buffers.where[i] == OUT;
    for (unsigned i = 0; i < SPARES; i++)
        are_out |= buffers.spare_used[i];
    pthread_mutex_unlock(&buffers.mutex);
    return are_out;
}

void cupti_buffers_reclaim(void) {
    pthread_mutex_lock(&buffers.mutex);
    for (unsigned i = buffers.count; i > 0; i--)
        if (buffers.where[i - 1] == OUT)
            set_free(buffers.pool + (size_t)(i - 1) * BUFFER_BYTES);
    memset(buffers.spare_used, 0, sizeof buffers.spare_used);
    pthread_mutex_unlock(&buffers.mutex);
}

bool cupti_buffers_take(struct cupti_buffer *buffer) {
    pthread_mutex_lock(&buffers.mutex);
    bool is_there = buffers.full_count > 0;
    if (is_there) {
        *buffer = buffers.full[buffers.full_first];
        buffers.full_first = (buffers.full_first + 1) % BUFFERS_MAX;
        buffers.full_count--;
    }
    pthread_mutex_unlock(&buffers.mutex);
    return is_there;
}

void cupti_buffers_give_back(const struct cupti_buffer *buffer) {
    pthread_mutex_lock(&buffers.mutex);
    set_free(buffer->bytes);
    pthread_mutex_unlock(&buffers.mutex);
}

/* A thread that did not come along may have held the lock. The buffers themselves stay the parent's driver's. */
void cupti_buffers_forget(void) {
    buffers.mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
