/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks nest in their thread; overlapped tasks, regions and frames begin and end anywhere and are found by their id.
 * Functions with a clock domain and a timestamp take the moment of the call: the job's other clocks are not ours.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "itt.h"
#include "range_stack.h"
#include "range_table.h"
#include "thread_names.h"

#define TIMESTAMP_NONE UINT64_MAX

typedef const struct itt_domain *domain_ptr;

/* ---- tasks ---- */

static void push(domain_ptr domain, uint32_t name) {
    struct pln_domain *ours = pln_itt_domain(domain);
    struct pln_annotation annotation = pln_itt_annotation(ours, ITT_TASK, name);
    pln_stack_push(ours, &annotation);
}

static void task_begin(domain_ptr domain, struct itt_id task, struct itt_id parent, struct pln_text *name) {
    (void)task;
    (void)parent;
    if (pln_annotation_wanted())
        push(domain, pln_text_id(name));
    else
        pln_stack_skip(pln_itt_domain(domain));
}

static void task_begin_ex(domain_ptr domain, void *clock, uint64_t timestamp, struct itt_id task, struct itt_id parent,
                          struct pln_text *name) {
    (void)clock;
    (void)timestamp;
    task_begin(domain, task, parent, name);
}

/* Named as the linker does, or by its place in its file. */
static uint32_t function_name(void *function) {
    char text[256];
    Dl_info info;
    if (dladdr(function, &info) == 0 || info.dli_fname == NULL)
        snprintf(text, sizeof text, "%p", function);
    else if (info.dli_sname != NULL && info.dli_saddr == function)
        snprintf(text, sizeof text, "%s", info.dli_sname);
    else
        snprintf(text, sizeof text, "%s+0x%lx", info.dli_fname,
                 (unsigned long)((char *)function - (char *)info.dli_fbase));
    return pln_intern_cached(text);
}

static void task_begin_fn(domain_ptr domain, struct itt_id task, struct itt_id parent, void *function) {
    (void)task;
    (void)parent;
    if (pln_annotation_wanted())
        push(domain, function_name(function));
    else
        pln_stack_skip(pln_itt_domain(domain));
}

static void task_begin_fn_ex(domain_ptr domain, void *clock, uint64_t timestamp, struct itt_id task,
                             struct itt_id parent, void *function) {
    (void)clock;
    (void)timestamp;
    task_begin_fn(domain, task, parent, function);
}

static void task_end(domain_ptr domain) {
    pln_stack_pop(pln_itt_domain(domain));
}

static void task_end_ex(domain_ptr domain, void *clock, uint64_t timestamp) {
    (void)clock;
    (void)timestamp;
    task_end(domain);
}

/* ---- overlapped tasks and regions ---- */

/* A category of its own: a task and a region of one domain may have the same id. */
static struct pln_range_key key_of(domain_ptr domain, enum pln_itt_category category, struct itt_id id) {
    uint64_t owner = (uint64_t)(uintptr_t)pln_itt_domain(domain) + 1 + category; /* there is room: they lie 16 apart */
    return (struct pln_range_key){{owner, id.d1, id.d2, id.d3}};
}

static void begin(domain_ptr domain, enum pln_itt_category category, struct itt_id id, uint32_t name) {
    struct pln_range_key key = key_of(domain, category, id);
    struct pln_annotation annotation = pln_itt_annotation(pln_itt_domain(domain), category, name);
    pln_table_begin_key(&key, &annotation);
}

static void end(domain_ptr domain, enum pln_itt_category category, struct itt_id id) {
    struct pln_range_key key = key_of(domain, category, id);
    pln_table_end_key(&key);
}

static void overlapped_begin(domain_ptr domain, struct itt_id task, struct itt_id parent, struct pln_text *name) {
    (void)parent;
    if (pln_annotation_wanted())
        begin(domain, ITT_TASK, task, pln_text_id(name));
}

static void overlapped_begin_ex(domain_ptr domain, void *clock, uint64_t timestamp, struct itt_id task,
                                struct itt_id parent, struct pln_text *name) {
    (void)clock;
    (void)timestamp;
    overlapped_begin(domain, task, parent, name);
}

static void overlapped_end(domain_ptr domain, struct itt_id task) {
    end(domain, ITT_TASK, task);
}

static void overlapped_end_ex(domain_ptr domain, void *clock, uint64_t timestamp, struct itt_id task) {
    (void)clock;
    (void)timestamp;
    overlapped_end(domain, task);
}

static void region_begin(domain_ptr domain, struct itt_id region, struct itt_id parent, struct pln_text *name) {
    (void)parent;
    if (pln_annotation_wanted())
        begin(domain, ITT_REGION, region, pln_text_id(name));
}

static void region_end(domain_ptr domain, struct itt_id region) {
    end(domain, ITT_REGION, region);
}

/* ---- frames: they have no name but their domain's ---- */

static uint32_t frame_name(domain_ptr domain) {
    return domain != NULL && domain->name != NULL ? pln_intern_cached(domain->name) : 0;
}

static struct itt_id frame_id(const struct itt_id *id) {
    return id != NULL ? *id : (struct itt_id){0};
}

/* ITT ignores the begin of a frame that is open. */
static void frame_begin(domain_ptr domain, const struct itt_id *id) {
    if (!pln_annotation_wanted())
        return;
    struct pln_range_key key = key_of(domain, ITT_FRAME, frame_id(id));
    if (!pln_table_has_key(&key))
        begin(domain, ITT_FRAME, frame_id(id), frame_name(domain));
}

static void frame_end(domain_ptr domain, const struct itt_id *id) {
    end(domain, ITT_FRAME, frame_id(id));
}

static void frame_submit(domain_ptr domain, const struct itt_id *id, uint64_t begin_ns, uint64_t end_ns) {
    (void)id;
    if (!pln_annotation_wanted())
        return;
    uint64_t now_ns = pln_now_ns();
    end_ns = end_ns == TIMESTAMP_NONE ? now_ns : end_ns;
    if (begin_ns == 0 || begin_ns > end_ns || end_ns > now_ns) { /* no times of get_timestamp() */
        pln_annotation_lose();
        return;
    }
    struct pln_annotation frame = pln_itt_annotation(pln_itt_domain(domain), ITT_FRAME, frame_name(domain));
    pln_submit((struct pln_range){
        .start_ns = begin_ns,
        .end_ns = end_ns,
        .name = frame.name,
        .args = frame.args,
        .source = (uint16_t)frame.source,
        .scope = frame.scope,
    });
}

static uint64_t get_timestamp(void) {
    return pln_now_ns();
}

/* ---- events: a stack for each ---- */

static int event_start(int event) {
    struct pln_text *text = pln_itt_event_text(event);
    if (text == NULL)
        return 1;
    if (!pln_annotation_wanted()) {
        pln_stack_skip(text);
        return 0;
    }
    struct pln_annotation annotation = pln_itt_annotation(pln_itt_domain_named(NULL), ITT_EVENT, pln_text_id(text));
    pln_stack_push(text, &annotation);
    return 0;
}

static int event_end(int event) {
    struct pln_text *text = pln_itt_event_text(event);
    if (text == NULL)
        return 1;
    pln_stack_pop(text);
    return 0;
}

/* ---- threads ---- */

static void thread_set_name(const char *name) {
    pln_name_thread((uint32_t)syscall(SYS_gettid), name);
}

#define ENTRY(name) {"__itt_" #name, (void (*)(void))name}
#define ENTRY_AS(text, function) {"__itt_" text, (void (*)(void))function}

const struct itt_entry pln_itt_ranges[] = {
    ENTRY(task_begin),
    ENTRY(task_begin_ex),
    ENTRY(task_begin_fn),
    ENTRY(task_begin_fn_ex),
    ENTRY(task_end),
    ENTRY(task_end_ex),
    ENTRY_AS("task_begin_overlapped", overlapped_begin),
    ENTRY_AS("task_begin_overlapped_ex", overlapped_begin_ex),
    ENTRY_AS("task_end_overlapped", overlapped_end),
    ENTRY_AS("task_end_overlapped_ex", overlapped_end_ex),
    ENTRY(region_begin),
    ENTRY(region_end),
    ENTRY_AS("frame_begin_v3", frame_begin),
    ENTRY_AS("frame_end_v3", frame_end),
    ENTRY_AS("frame_submit_v3", frame_submit),
    ENTRY(get_timestamp),
    ENTRY_AS("event_create", pln_itt_event_create),
    ENTRY(event_start),
    ENTRY(event_end),
    ENTRY(thread_set_name),
    ENTRY_AS("domain_create", pln_itt_domain_create),
    ENTRY_AS("string_handle_create", pln_itt_string_create),
    {0},
};
