/* A client of CUPTI for the tests of the stand-in: libcuda injects it, and it writes what it gets to files.
 *
 *     CLIENT_OUT=PATH        PATH.records: the records as they come; PATH.json at the end: what it counted
 *     CLIENT_KINDS=1,10      the kinds of records to enable
 *     CLIENT_BUFFER=BYTES    of each buffer (65536); 0: gives none
 *     CLIENT_GIVES=N         buffers to give, then none
 *     CLIENT_CALLBACKS=1     be called back for all calls, resources and synchronisations
 *     CLIENT_CLOCK=1         CLOCK_MONOTONIC instead of CUPTI's
 *     CLIENT_EXTERNAL=ID     push it as an external id of the thread that is injected
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct call_data {
    int site;
    const char *function;
    const void *params;
    void *result;
    const char *symbol;
    void *context;
    uint32_t context_id;
    uint64_t *client_word;
    uint32_t correlation;
};

int cuptiSubscribe(void **, void (*)(void *, int, uint32_t, const void *), void *);
int cuptiEnableDomain(uint32_t, void *, int);
int cuptiActivityEnable(uint32_t);
int cuptiActivityDisable(uint32_t);
int cuptiActivityRegisterCallbacks(void (*)(uint8_t **, size_t *, size_t *),
                                   void (*)(void *, uint32_t, uint8_t *, size_t, size_t));
int cuptiActivityRegisterTimestampCallback(uint64_t (*)(void));
int cuptiActivityPushExternalCorrelationId(uint32_t, uint64_t);
int cuptiActivityFlushAll(uint32_t);
int cuptiActivityGetNextRecord(uint8_t *, size_t, uint8_t **);
int cuptiActivityGetNumDroppedRecords(void *, uint32_t, size_t *);
int cuptiGetVersion(uint32_t *);
int cuptiFinalize(void);
int fake_cupti_subscribed(void);
int fake_cupti_attached(void);
uint64_t fake_cupti_enabled_kinds(void);
size_t fake_cupti_enabled_callbacks(void);
size_t fake_cupti_recorded_calls(void);
size_t fake_cupti_outstanding_buffers(void);
size_t fake_cupti_abandoned_records(void);
size_t fake_cupti_emitted(uint32_t);
size_t fake_cupti_dropped(void);
unsigned fake_cupti_finalized(void);
void fake_cupti_emit(uint32_t, const char *);

static FILE *records;
static _Atomic uint64_t given, completed, read_records, enters, exits, unpaired, contexts, streams;
static uint32_t version, last_status;
static bool clock_accepted, late_clock_accepted, second_subscribed;

static uint64_t number(const char *variable, uint64_t otherwise) {
    const char *text = getenv(variable);
    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

static uint64_t monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void give(uint8_t **buffer, size_t *bytes, size_t *most_records) {
    *most_records = 0;
    *bytes = number("CLIENT_BUFFER", 65536);
    *buffer = *bytes == 0 || given >= number("CLIENT_GIVES", UINT64_MAX) ? NULL : malloc(*bytes);
    given += *buffer != NULL;
}

/* The kernel's name goes along, as text in the place of its pointer's record: {length, text} after each record. */
static void take(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid) {
    (void)context, (void)stream, (void)bytes;
    uint8_t *record = NULL, *next = NULL;
    flockfile(records);
    while ((last_status = (uint32_t)cuptiActivityGetNextRecord(buffer, valid, &next)) == 0) {
        record = next;
        next = record;
        uint8_t *after = record;
        uint64_t length = cuptiActivityGetNextRecord(buffer, valid, &after) == 0 ? (uint64_t)(after - record)
                                                                                 : (uint64_t)(buffer + valid - record);
        uint32_t kind;
        memcpy(&kind, record, sizeof kind);
        const char *name = NULL;
        if (kind == 3 || kind == 10)
            memcpy(&name, record + 104, sizeof name);
        uint64_t name_length = name == NULL ? 0 : strlen(name);
        fwrite(&length, sizeof length, 1, records);
        fwrite(&name_length, sizeof name_length, 1, records);
        fwrite(record, 1, length, records);
        fwrite(name == NULL ? "" : name, 1, name_length, records);
        read_records++;
    }
    funlockfile(records);
    free(buffer);
    completed++;
}

static void call_back(void *userdata, int domain, uint32_t cbid, const void *data) {
    (void)userdata;
    const struct call_data *call = data;
    if (domain == 3) {
        contexts += cbid == 1;
        streams += cbid == 3;
    } else if (domain == 1 || domain == 2) {
        if (call->site == 0) {
            enters++;
            *call->client_word = (uint64_t)cbid << 32 | call->correlation;
        } else {
            exits++;
            unpaired += *call->client_word != ((uint64_t)cbid << 32 | call->correlation) || call->result == NULL;
        }
    }
}

static void report(void) {
    size_t dropped, again;
    const char *kinds = getenv("CLIENT_KINDS");
    for (char *at = kinds == NULL ? NULL : (char *)kinds; at != NULL && *at != 0; at += *at == ',')
        cuptiActivityDisable((uint32_t)strtoul(at, &at, 10));
    cuptiActivityFlushAll(1);
    cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped);
    cuptiActivityGetNumDroppedRecords(NULL, 0, &again);
    size_t outstanding = fake_cupti_outstanding_buffers(), emitted = 0;
    for (uint32_t kind = 0; kind <= 64; kind++)
        emitted += fake_cupti_emitted(kind);
    cuptiFinalize();
    char path[4096];
    snprintf(path, sizeof path, "%s.json", getenv("CLIENT_OUT"));
    FILE *out = fopen(path, "w");
    fprintf(out, "{\"version\": %u, \"given\": %" PRIu64 ", \"completed\": %" PRIu64 ", \"records\": %" PRIu64, version,
            given, completed, read_records);
    fprintf(out, ", \"emitted\": %zu, \"finalized\": %u, \"dropped_ever\": %zu", emitted, fake_cupti_finalized(),
            fake_cupti_dropped());
    fprintf(out, ", \"dropped\": %zu, \"dropped_again\": %zu, \"outstanding\": %zu", dropped, again, outstanding);
    fprintf(out, ", \"enters\": %" PRIu64 ", \"exits\": %" PRIu64 ", \"unpaired\": %" PRIu64, enters, exits, unpaired);
    fprintf(out, ", \"contexts\": %" PRIu64 ", \"streams\": %" PRIu64, contexts, streams);
    fprintf(out, ", \"clock\": %d, \"late_clock\": %d, \"second_subscriber\": %d", clock_accepted, late_clock_accepted,
            second_subscribed);
    fprintf(out, ", \"left\": [%d, %d, %" PRIu64 ", %zu, %zu, %zu], \"last_status\": %u}\n", fake_cupti_subscribed(),
            fake_cupti_attached(), fake_cupti_enabled_kinds(), fake_cupti_enabled_callbacks(),
            fake_cupti_recorded_calls(), fake_cupti_abandoned_records(), last_status);
    fclose(out);
    fclose(records);
}

int InitializeInjection(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s.records", getenv("CLIENT_OUT"));
    records = fopen(path, "w");
    cuptiGetVersion(&version);
    void *subscriber, *second;
    cuptiSubscribe(&subscriber, call_back, NULL);
    second_subscribed = cuptiSubscribe(&second, call_back, NULL) != 39;
    for (int domain = 1; number("CLIENT_CALLBACKS", 0) && domain <= 4; domain++)
        cuptiEnableDomain(1, subscriber, domain);
    cuptiActivityRegisterCallbacks(give, take);
    if (number("CLIENT_CLOCK", 0))
        clock_accepted = cuptiActivityRegisterTimestampCallback(monotonic_ns) == 0;
    const char *kinds = getenv("CLIENT_KINDS");
    for (char *at = kinds == NULL ? NULL : (char *)kinds; at != NULL && *at != 0; at += *at == ',')
        cuptiActivityEnable((uint32_t)strtoul(at, &at, 10));
    late_clock_accepted = cuptiActivityRegisterTimestampCallback(monotonic_ns) == 0;
    if (number("CLIENT_EXTERNAL", 0))
        cuptiActivityPushExternalCorrelationId(3, number("CLIENT_EXTERNAL", 0));
    fake_cupti_emit(13, "named");
    fake_cupti_emit(13, NULL);
    atexit(report);
    return 1;
}
