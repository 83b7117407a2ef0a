/* Annotates through NVTX as a program that embeds it: annotated MODE COUNT. Prints how many records it tried to make. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nvtx_client.h"

#define THREADS 1000

static unsigned long each;

static void annotate(void) {
    void *domain = nvtx_domain("of the thread");
    for (unsigned long i = 0; i < each; i++) {
        nvtx_push("outer");
        nvtx_domain_push(domain, nvtx_string(domain, "inner"));
        nvtx_pop(); /* in the wrong order, which domains allow */
        nvtx_domain_pop(domain);
        nvtx_end(nvtx_start("started"));
        nvtx_mark("marked");
    }
}

#define RECORDS_EACH 4

/* ---- threads ---- */

static void *work(void *unused) {
    annotate();
    return unused;
}

static unsigned long threads(void) {
    static pthread_t all[THREADS];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 65536);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&all[i], &attributes, work, NULL) != 0)
            exit(3);
    for (int i = 0; i < THREADS; i++)
        pthread_join(all[i], NULL);
    return THREADS * each * RECORDS_EACH;
}

/* ---- signals ---- */

static volatile unsigned long handled;
static volatile int done;
static unsigned long signals_wanted;

static void on_signal(int number) {
    (void)number;
    handled++;
    annotate();
}

static void *send_signals(void *target) {
    while (!done)
        pthread_kill(*(pthread_t *)target, SIGUSR1);
    return NULL;
}

static unsigned long signals(void) {
    pthread_t self = pthread_self(), sender;
    unsigned long made = 0;
    signals_wanted = each;
    each = 1;
    annotate(); /* what a process does once is done */
    made++;
    signal(SIGUSR1, on_signal);
    if (pthread_create(&sender, NULL, send_signals, &self) != 0)
        exit(3);
    for (; handled < signals_wanted; made++)
        annotate();
    done = 1;
    pthread_join(sender, NULL);
    return (made + handled) * RECORDS_EACH;
}

/* ---- a fork within ranges: the child ends its parent's, and makes its own ---- */

static unsigned long forks(void) {
    nvtx_push("pushed before");
    uint64_t started = nvtx_start("started before");
    pid_t child = fork();
    annotate();
    nvtx_pop();
    nvtx_end(started);
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    return each * RECORDS_EACH + 2;
}

/* ---- a library with an NVTX of its own that is unloaded within its ranges ---- */

static unsigned long unload(const char *path) {
    for (unsigned long i = 0; i < each; i++) {
        void *library = dlopen(path, RTLD_NOW);
        void (*push_some)(void) = NULL;
        if (library != NULL)
            *(void **)&push_some = dlsym(library, "push_some");
        if (push_some == NULL)
            exit(4);
        push_some(); /* 1 to the default domain, 1 to its own, 1 started */
        dlclose(library);
        if (dlopen(path, RTLD_NOW | RTLD_NOLOAD) != NULL)
            exit(5);
        nvtx_pop();
        nvtx_domain_pop(nvtx_domain("of the library"));
    }
    return each * 3;
}

int main(int count, char **words) {
    const char *mode = count > 2 ? words[1] : "";
    unsigned long tried;
    each = strtoul(count > 2 ? words[2] : "0", NULL, 10);
    nvtx_initialize();
    if (strcmp(mode, "threads") == 0)
        tried = threads();
    else if (strcmp(mode, "signals") == 0)
        tried = signals();
    else if (strcmp(mode, "forks") == 0)
        tried = forks();
    else if (strcmp(mode, "unload") == 0)
        tried = unload(words[3]);
    else if (strcmp(mode, "plain") == 0) {
        annotate();
        tried = each * RECORDS_EACH;
    } else
        return 2;
    printf("%lu\n", tried);
    if (strcmp(mode, "plain") == 0) {
        nvtx_push("left open");
        fflush(stdout);
        _exit(0);
    }
    return 0;
}
