/* SPDX-License-Identifier: Apache-2.0
 *
 * CUPTI's binary interface, as far as we use it, in words of our own. Every function returns a CUptiResult.
 */
#ifndef PLN_CUPTI_API_H
#define PLN_CUPTI_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CUPTI_SUCCESS = 0, CUPTI_MAX_LIMIT_REACHED = 12, CUPTI_MULTIPLE_SUBSCRIBERS = 39 };
enum { CUPTI_DRIVER = 1, CUPTI_RUNTIME = 2, CUPTI_RESOURCE = 3 };
enum { CUPTI_ENTER = 0, CUPTI_EXIT = 1 };
enum { CUPTI_CONTEXT_DESTROY_STARTING = 2 }; /* callback of the domain RESOURCE */
enum { CUPTI_SYSTEM_THREAD_IDS = 1 };
enum { CUPTI_FLUSH_COMPLETED = 0, CUPTI_FLUSH_FORCED = 1 };

/* CUpti_CallbackData. */
struct cupti_call {
    int32_t site;
    const char *function;
    const void *parameters;
    const int32_t *result; /* at the exit */
    const char *symbol;
    void *context;
    uint32_t context_uid;
    uint64_t *correlation_data;
    uint32_t correlation;
};
_Static_assert(offsetof(struct cupti_call, function) == 8 && offsetof(struct cupti_call, result) == 24 &&
                   offsetof(struct cupti_call, context_uid) == 48 && offsetof(struct cupti_call, correlation) == 64,
               "as in CUPTI");

typedef void cupti_callback(void *user, uint32_t domain, uint32_t id, const void *data);
typedef void cupti_request(uint8_t **buffer, size_t *size, size_t *max_records);
typedef void cupti_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);
typedef uint64_t cupti_clock(void);

struct cupti_api {
    uint32_t version;
    int (*get_version)(uint32_t *version);
    int (*subscribe)(void **subscriber, cupti_callback *callback, void *user);
    int (*unsubscribe)(void *subscriber);
    int (*enable_domain)(uint32_t enable, void *subscriber, uint32_t domain);
    int (*register_callbacks)(cupti_request *request, cupti_complete *complete);
    int (*enable)(uint32_t kind);
    int (*disable)(uint32_t kind);
    int (*flush_all)(uint32_t flag);
    int (*next_record)(uint8_t *buffer, size_t valid, void **record);
    /* NULL where it lacks them. */
    int (*enable_callback)(uint32_t enable, void *subscriber, uint32_t domain, uint32_t id);
    int (*register_clock)(cupti_clock *clock);
    int (*timestamp)(uint64_t *now);
    int (*dropped)(void *context, uint32_t stream, size_t *count);
    int (*finalize)(void);
    int (*set_thread_ids)(int type);
    int (*callback_name)(uint32_t domain, uint32_t id, const char **name);
};

extern struct cupti_api cupti_api;

/* Finds libcupti and its functions, once; later calls do nothing. What is missing is said to the user. */
bool cupti_api_load(void);

/* cupti_library.c. A handle of the libcupti that fits the process, or NULL. */
void *cupti_library_open(void);

#endif
