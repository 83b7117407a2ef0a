"""Traces the provider pillion in a process with bcc's own USDT class. Usage: bcc_tracer PID.

Says "attached"; after a line on stdin it prints the hits as JSON.
A process of its own: bcc detaches through tracefs, which need not be mounted, and the end of the process does as well.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import Any

from pillion_agent.programs import PROBES

# Ours are fewer than what bcc puts before the text needs.
TYPES = """
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t; typedef int int32_t;
typedef unsigned long long uint64_t; typedef long long int64_t;
"""
HEAD = """
#include <uapi/linux/ptrace.h>
#include "pillion.h"
struct hit { u32 probe; u32 kind; u64 number; u64 start_ns; u64 end_ns; u64 value; char name[32]; };
BPF_RINGBUF_OUTPUT(hits, 256);
static int tell(u32 probe, u64 number, u64 record, u64 name, u64 length) {
    struct hit hit = {.probe = probe, .number = number};
    struct pln_activity activity = {};
    if (record)
        bpf_probe_read_user(&activity, sizeof activity, (void *)record);
    hit.kind = activity.kind;
    hit.start_ns = activity.start_ns;
    hit.end_ns = activity.end_ns;
    hit.value = activity.value;
    if (name)
        bpf_probe_read_user(&hit.name, length < sizeof hit.name ? length : sizeof hit.name, (void *)name);
    hits.ringbuf_output(&hit, sizeof hit, 0);
    return 0;
}
"""
# The types of a probe's arguments, and what they are to tell().
RECORD = ("u64 a = 0, b = 0, c = 0", "0, a, b, c")
ARGUMENTS = {
    **dict.fromkeys(("range", "mark", "thread", "notice", "activity"), RECORD),
    "activities": ("u64 a = 0, b = 0", "b, a, 0, 0"),
    "launch": ("u32 a = 0; u64 b = 0, c = 0", "a, 0, b, c"),
}


def source() -> str:
    text = HEAD
    for number, (probe, (arguments, passed)) in enumerate(ARGUMENTS.items()):
        text += f"int on_{probe}(struct pt_regs *ctx) {{\n{arguments};\n"
        for place, name in enumerate("abc"[: arguments.count("= 0")], 1):
            text += f"bpf_usdt_readarg({place}, ctx, &{name});\n"
        text += f"return tell({number}, {passed});\n}}\n"
    return text


def main() -> None:
    os.environ["BCC_KERNEL_SOURCE"] = str(PROBES / "kernel_headers")
    from bcc import BPF, USDT

    usdt = USDT(pid=int(sys.argv[1]))
    for probe in ARGUMENTS:
        usdt.enable_probe(probe, f"on_{probe}")
    with tempfile.NamedTemporaryFile("w", suffix=".h") as types:
        types.write(TYPES)
        types.flush()
        flags = ["-D__BPF__", "-D__TARGET_ARCH_x86_64", "-Wno-macro-redefined", f"-I{PROBES}", f"-include{types.name}"]
        bpf = BPF(text=source().encode(), usdt_contexts=[usdt], cflags=flags)
    hits: list[Any] = []
    bpf[b"hits"].open_ring_buffer(lambda ctx, data, size: hits.append(bpf[b"hits"].event(data)))
    print("attached", flush=True)
    sys.stdin.readline()  # the process has fired them all
    bpf.ring_buffer_consume()
    names = list(ARGUMENTS)
    fields = ("kind", "number", "start_ns", "end_ns", "value")
    found = [
        {"probe": names[hit.probe], "name": hit.name.decode()} | {field: getattr(hit, field) for field in fields}
        for hit in hits
    ]
    print(json.dumps(found), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
