/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * The one definition of every layout that crosses a process border:
 *
 *   region   a memfd that a job process shares with whoever drains it
 *   ring     one per thread inside the region, single producer, single consumer
 *   record   64 bytes, one cache line, what a ring, a spool and a table hold
 *   spool    an append-only file of blocks: what a collector writes for a client
 *
 * C includes it, the eBPF programs include it, and pillion_probes derives its numpy dtypes from the text of the
 * structs below, so a struct here has only plain fixed-width members and one-dimensional arrays of them.
 * Times are CLOCK_MONOTONIC in nanoseconds. Integers are little endian.
 */
#ifndef PILLION_H
#define PILLION_H

#if defined(__BPF__) || defined(__bpf__)
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef int int32_t;
typedef long long int64_t;
#else
#include <stddef.h>
#include <stdint.h>
#endif

/* ---- constants (pillion_probes reads the #defines with a literal value) ---- */

#define PLN_MAGIC 0x314e4f494c4c4950  /* "PILLION1": a region, first eight bytes */
#define PLN_BLOCK_MAGIC 0x4b4c4250    /* "PBLK": a block of a spool */
#define PLN_VERSION 1

#define PLN_RECORD_SIZE 64
#define PLN_KINDS 8          /* loss counters per ring: one for each record kind below 8 */
#define PLN_OPEN_MAX 120     /* open ranges a thread can publish; deeper ones are recorded but not published */
#define PLN_RING_HEADER 4096 /* records of a ring start here, page aligned */
#define PLN_NAME_MAX 1048576 /* a longer string is cut here when it is interned */

/* pln_record.kind */
#define PLN_RANGE 1
#define PLN_MARK 2
#define PLN_THREAD 3
#define PLN_ACTIVITY 4
#define PLN_NOTICE 5
#define PLN_SAMPLE 16
#define PLN_WAIT 17
#define PLN_CALL 18

/* pln_record.flags */
#define PLN_UNFINISHED 1 /* the range was still open when the session ended; end_ns is that moment */
#define PLN_ASYNC 2      /* the range ended on another thread */
#define PLN_TRUNCATED 4  /* the stack was deeper than what the sampler keeps */
#define PLN_PREEMPTED 8  /* a wait of a thread that was runnable all the while */

/* pln_range.source: who emitted it */
#define PLN_SOURCE_RECORD_FUNCTION 0
#define PLN_SOURCE_C 1
/* torch's RecordFunction: operators, autograd's nodes, its own record_function. args: the input shapes as JSON. */
#define PLN_SOURCE_TORCH 2
/* Of the next two: args is "domain", "domain US category" or "domain US category US kind", US being U+001F; kind says
 * that value, an NVTX payload or an ITT counter, is "signed" or "double" and no unsigned number. */
#define PLN_SOURCE_NVTX 3 /* scope: the category's number, whether it has a name or not */
#define PLN_SOURCE_ITT 4  /* category: "frame", "region", "event", "counter", or none for a task */
/* A call into CUDA. value: epoch << 32 | correlation id; scope: PLN_CUDA_*; args: its error. */
#define PLN_SOURCE_CUDA 5
#define PLN_SOURCE_USDT 6 /* a probe that the user named, "provider:probe". args: the arguments as text */

/* pln_range.scope of a call into CUDA */
#define PLN_CUDA_RUNTIME 0
#define PLN_CUDA_DRIVER 1

/* pln_range.scope of a PLN_NOTICE: what its value means */
#define PLN_NOTICE_TEXT 0  /* nothing: what a source has to say to the user, e.g. why it collects nothing */
#define PLN_NOTICE_CLOCK 1 /* ns: by how much the times of the source's activities may be wrong */

/* What a region loses besides records that find a ring full; probes/losses.py has the names. */
#define PLN_LOSS_THREADS 32 /* records of threads that found no ring */
#define PLN_LOSS_STRINGS 33 /* names that found no room */
#define PLN_LOSS_CORRUPT 34 /* rings whose counters made no sense and were skipped */
#define PLN_LOSS_STALLED 35 /* times the job stopped recording because the reader came too late */
#define PLN_LOSS_DEVICE 36  /* activities that the device's driver dropped, or that came in no form we know */

/* pln_ring.state */
#define PLN_RING_FREE 0
#define PLN_RING_LIVE 1

/* pln_block.kind */
#define PLN_BLOCK_RECORDS 1 /* 64-byte records of one region, as its rings held them */
#define PLN_BLOCK_STRINGS 2 /* a stretch of a region's string log; pln_block.offset says where it starts */
#define PLN_BLOCK_SAMPLES 3 /* 64-byte pln_sample records from the kernel */
#define PLN_BLOCK_JSON 4    /* one JSON array of objects with a "type": what is few and has text */

/* Every record starts with this. A reader that meets an unknown kind skips 64 bytes. */
struct pln_record {
    uint16_t kind;
    uint16_t flags;
    uint32_t tid;
    uint64_t start_ns;
    uint64_t end_ns;
    uint8_t body[40];
};

/* kind PLN_RANGE: written once, when the range ends. PLN_MARK: the same with end_ns = start_ns.
 * PLN_THREAD: name is the thread's name, written when a thread takes a ring. PLN_NOTICE: name is what is said. */
struct pln_range {
    uint16_t kind;
    uint16_t flags;
    uint32_t tid; /* of the thread that began it */
    uint64_t start_ns;
    uint64_t end_ns;
    uint32_t name;    /* string id */
    uint32_t args;    /* string id, 0 for none */
    uint32_t seq;     /* 1, 2, 3 … per ring at begin: (region, tid, seq) names the range */
    uint32_t parent;  /* seq of the enclosing range of the same thread, 0 for none */
    uint16_t depth;   /* 0 for an outermost range */
    uint16_t source;  /* PLN_SOURCE_* */
    uint32_t end_tid; /* differs from tid when PLN_ASYNC */
    uint64_t value;   /* for a mark its payload; from torch autograd's sequence number, −1 for none; otherwise 0 */
    uint32_t scope;   /* from torch its RecordScope: 0 operator, 1 backward node, 7 user's range; otherwise 0 */
    uint32_t reserved;
};

/* kind PLN_ACTIVITY: something that a device did, or what its driver says about it. Its launch is the call into CUDA of
 * the same region whose value is epoch << 32 | correlation; where a runtime call and the driver call in it share the
 * number, the outer one. One launch of a graph has many activities. */
struct pln_activity {
    uint16_t kind;
    uint16_t flags;
    uint32_t tid; /* of the thread that wrote the record, which is none of the job's */
    uint64_t start_ns;
    uint64_t end_ns;
    uint32_t name;        /* string id: a kernel's mangled name, a device's, a stream's; 0 for none */
    uint32_t attributes;  /* string id: whatever else is known, as a JSON object; 0 for none */
    uint32_t correlation; /* 0 for none */
    uint32_t epoch;       /* counts the times that collection began: correlation ids repeat */
    uint32_t context;
    uint32_t stream;
    uint16_t device;   /* UINT16_MAX: none, or unknown */
    uint16_t activity; /* CUpti_ActivityKind */
    uint32_t detail; /* its copyKind, type, overheadKind, counterKind, memoryOperationType, externalKind, objectKind */
    uint64_t value; /* bytes; of a counter its value, of an external correlation its id, of a sync its event */
};

/* kind PLN_SAMPLE: the thread was on a CPU at start_ns (= end_ns) and stands for weight_ns of CPU time.
 * kind PLN_WAIT: the thread was off the CPU from start_ns to end_ns; weight_ns is the part of it that the thread was
 * runnable and waited for a CPU.
 * kind PLN_CALL: at start_ns (= end_ns) the thread made the call range_seq, a launch, with this stack. */
struct pln_sample {
    uint16_t kind;
    uint16_t flags;
    uint32_t tid;
    uint64_t start_ns;
    uint64_t end_ns;
    uint32_t pid;
    uint32_t stack; /* id of a "stack" object in the JSON blocks, 0 for none */
    uint32_t range_seq; /* innermost open range of the thread, 0 for none */
    uint32_t range_name; /* string id in the region of the process, 0 for none */
    uint32_t waker_pid; /* 0: unknown, or woken by an interrupt */
    uint32_t waker_tid;
    uint16_t cpu;
    uint16_t state; /* task state when it left the CPU: 0 runnable, 1 interruptible, 2 uninterruptible, … */
    uint32_t reserved;
    uint64_t weight_ns;
};

/* ---- the region ---- */

/* An open range as its thread publishes it; eBPF reads the innermost one when it samples the thread. */
struct pln_open {
    uint64_t start_ns;
    uint32_t name;
    uint32_t seq; /* 0: closed out of order or by another thread; its own thread pops it later */
};

/* A ring: this header at the start of a PLN_RING_HEADER-sized area, the records behind it.
 * The producer alone writes the second cache line, all that a record needs, the consumer alone the third.
 * Emitted by the thread = head + sum of lost; delivered = tail once drained. */
struct pln_ring {
    uint32_t state; /* PLN_RING_* */
    uint32_t pad0;
    uint64_t claimed_ns;
    char comm[16];
    uint8_t pad1[32];

    uint64_t head; /* records ever written; release store, pairs with the consumer's acquire load */
    uint32_t seq; /* ranges ever begun */
    uint32_t depth; /* open ranges; entries below min(depth, PLN_OPEN_MAX) of open[] are valid */
    uint32_t busy; /* the producer is between two stores: a signal handler that finds it set counts a loss */
    uint32_t session; /* the one in which the thread last told its name */
    uint64_t limit; /* records below it have a slot: the capacity above the tail that the producer saw last */
    uint64_t last_ns; /* of the last record */
    uint32_t tid;
    uint8_t pad2[20];

    uint64_t tail; /* records consumed; release store, pairs with the producer's acquire load */
    uint8_t pad3[56];

    uint64_t lost[8]; /* PLN_KINDS counters, by kind: the ring was full */
    /* struct pln_open open[PLN_OPEN_MAX] follows at PLN_OPEN_OFFSET */
};

#define PLN_OPEN_OFFSET 256

/* The first page of a region. Layout of the memfd:
 *   0                header
 *   strings_offset   string log: entries {uint32_t length; uint32_t hash; bytes; zero padding to 8}, id = offset / 8
 *                    from the start of the log; the first entry is the empty string, so id 0 is "no string"
 *   rings_offset     ring i at rings_offset + i * ring_stride; the file grows with ring_count
 * The memfd is called "pillion" and sealed against shrinking: a reader never faults. */
struct pln_region {
    uint64_t magic;
    uint32_t version;
    uint32_t pid; /* as the process itself sees it */
    uint64_t started_ns;
    int64_t tls_offset; /* thread pointer + tls_offset holds the thread's struct pln_ring *, or NULL */

    uint64_t strings_offset;
    uint64_t strings_size;
    uint64_t rings_offset;
    uint64_t ring_stride;
    uint32_t ring_records; /* capacity of each ring, a power of two */
    uint32_t ring_max;

    uint32_t ring_count; /* release store: rings below it are initialised */
    uint32_t pad0;
    uint64_t strings_used; /* release store: bytes of the log that are whole */
    uint64_t lost_threads; /* records of threads that found no ring */
    uint64_t lost_strings; /* names that found no room: their records carry id 0 */
    uint64_t lost_device; /* PLN_LOSS_DEVICE */
    uint32_t holds_back; /* not 0: a source keeps records to itself for a while (CUPTI's buffers) */
    uint32_t handed_over; /* release store: since `ending` was set, everything held back has come into the rings */
    uint8_t pad1[8];

    /* written by the consumer */
    uint32_t recording; /* 0: producers return after one load */
    uint32_t consumer_pid; /* 0: nobody drains; as the consumer sees itself */
    uint64_t lease_ns; /* renewed at every drain: a producer with a full ring and an old lease stops recording */
    uint32_t consumer_kind; /* PLN_CONSUMER_* */
    uint32_t session; /* counts the sessions: a thread writes a PLN_THREAD record at its first range in each */
    uint32_t ending; /* the session is about to end: sources hand over what they hold back, and stop */
    uint32_t bell; /* counted up, with a futex wake, by whoever changes what the control thread acts on */
};

#define PLN_CONSUMER_AGENT 1 /* children inherit the recording over fork */
#define PLN_CONSUMER_SELF 2 /* a drain thread of the process itself */

/* A consumer renews its lease at least once a second; five missed renewals mean that it is gone. */
#define PLN_LEASE_NS 5000000000

/* ---- the spool ---- */

struct pln_block {
    uint32_t magic; /* PLN_BLOCK_MAGIC */
    uint16_t kind; /* PLN_BLOCK_* */
    uint16_t version;
    uint32_t pid; /* of the records or strings, as the collector sees it; 0 otherwise */
    uint32_t region; /* the collector's number for the region, 1, 2, …; 0 for blocks of no region */
    uint64_t offset; /* STRINGS: place of the first byte in the region's log */
    uint64_t length; /* payload bytes that follow; the payload is not padded */
    uint64_t written_ns;
    uint64_t reserved[3];
};

#if !defined(__BPF__) && !defined(__bpf__)
#ifdef __cplusplus
#define PLN_ASSERT(what, why) static_assert(what, why)
#else
#define PLN_ASSERT(what, why) _Static_assert(what, why)
#endif
PLN_ASSERT(sizeof(struct pln_record) == PLN_RECORD_SIZE, "a record is one cache line");
PLN_ASSERT(sizeof(struct pln_range) == PLN_RECORD_SIZE, "a range is a record");
PLN_ASSERT(sizeof(struct pln_activity) == PLN_RECORD_SIZE, "an activity is a record");
PLN_ASSERT(sizeof(struct pln_sample) == PLN_RECORD_SIZE, "a sample is a record");
PLN_ASSERT(sizeof(struct pln_block) == 64, "block headers keep records aligned");
PLN_ASSERT(sizeof(struct pln_open) == 16, "open[] is indexed from eBPF");
PLN_ASSERT(offsetof(struct pln_range, name) == 24 && offsetof(struct pln_sample, pid) == 24, "bodies start at 24");
PLN_ASSERT(offsetof(struct pln_ring, head) == 64 && offsetof(struct pln_ring, tail) == 128, "no false sharing");
PLN_ASSERT(sizeof(struct pln_ring) == PLN_OPEN_OFFSET, "open[] follows the header");
PLN_ASSERT(PLN_OPEN_OFFSET + PLN_OPEN_MAX * sizeof(struct pln_open) <= PLN_RING_HEADER, "a ring header is one page");
PLN_ASSERT(offsetof(struct pln_region, recording) == 128, "the consumer's words have their own cache line");
#endif

#endif
