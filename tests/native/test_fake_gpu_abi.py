"""The binary interface of tests/fake_gpu: its symbols, and its records beside those of NVIDIA's public CUPTI packages.

The packages (nvidia-cuda-cupti-cu11, -cu12, nvidia-cuda-cupti) are found where this Python has them installed, and in
the directories that CUDA_PACKAGES names (separated by colons, each unpacked from one wheel).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TIMEOUT_S = 60
SONAMES = {"11.8": "libcupti.so.11.8", "12.6": "libcupti.so.12", "13.5": "libcupti.so.13"}
# What libtorch_cuda links with, and a clock.
FUNCTIONS = (
    *("cuptiActivityDisable", "cuptiActivityEnable", "cuptiActivityFlushAll", "cuptiActivityGetNextRecord"),
    *("cuptiActivityGetNumDroppedRecords", "cuptiActivityPushExternalCorrelationId"),
    *("cuptiActivityPopExternalCorrelationId", "cuptiActivityRegisterCallbacks"),
    *("cuptiActivityRegisterTimestampCallback", "cuptiActivitySetAttribute", "cuptiEnableCallback"),
    *("cuptiEnableDomain", "cuptiFinalize", "cuptiGetResultString", "cuptiGetVersion", "cuptiSubscribe"),
    *("cuptiUnsubscribe", "cuptiGetTimestamp"),
)
SINCE_12_5 = ("cuptiActivityEnableDriverApi", "cuptiActivityEnableRuntimeApi")
KINDS = (1, 2, 3, 4, 5, 8, 9, 10, 11, 17, 22, 25, 36, 37, 38, 39, 48, 49, 51)


def exported(library: Path) -> set[str]:
    done = subprocess.run(["nm", "-D", "--defined-only", library], check=True, stdout=subprocess.PIPE, text=True)
    return {line.split()[-1] for line in done.stdout.splitlines() if " T " in line}


@pytest.mark.parametrize("cuda", SONAMES)
def test_symbols_carry_the_version_node_of_their_library(fake_gpu: Callable[..., Any], cuda: str) -> None:
    gpu = fake_gpu(cuda)
    assert gpu.libcupti.name == SONAMES[cuda]
    symbols = exported(gpu.libcupti)
    younger = () if cuda == "11.8" else SINCE_12_5
    assert {f"{name}@@{SONAMES[cuda]}" for name in (*FUNCTIONS, *younger)} <= symbols
    assert all(f"@@{SONAMES[cuda]}" in name for name in symbols)
    assert cuda != "11.8" or not any(name.startswith(SINCE_12_5) for name in symbols)
    assert f"cudaLaunchKernel@@{gpu.libcudart.name}" in exported(gpu.libcudart)
    assert "cuLaunchKernel" in exported(gpu.libcuda)


def test_libcupti_can_lack_functions(fake_gpu: Callable[..., Any]) -> None:
    whole, half = fake_gpu(), fake_gpu(missing=("cuptiFinalize", "cuptiActivityRegisterTimestampCallback"))
    lacking = exported(whole.libcupti) - exported(half.libcupti)
    node = SONAMES["12.6"]
    assert lacking == {f"cuptiFinalize@@{node}", f"cuptiActivityRegisterTimestampCallback@@{node}"}


# ---- beside the public packages ----


@dataclass(frozen=True)
class Package:
    include: Path
    library: Path

    @property
    def version(self) -> str:
        """As in fake_gpu/build.py. 12.1 says that it is 12.0, whose records are the same."""
        text = (self.include / "cupti_version.h").read_text() + (self.include / "cupti.h").read_text()
        number = int(re.findall(r"define CUPTI_API_VERSION (\d+)", text)[0])
        if number > 100000:
            return f"13.{number // 100 % 100}"
        minor = {18: "0", 20: "2", 21: "3", 22: "4", 23: "5", 24: "6", 26: "8", 28: "9"}[number]
        return "11.8" if self.library.name.endswith("11.8") else f"12.{minor}"


def find_packages() -> list[Package]:
    roots = [*sys.path, *filter(None, os.environ.get("CUDA_PACKAGES", "").split(":"))]
    headers = {header for root in roots for header in Path(root).glob("nvidia/*/include/cupti_activity.h")}
    libraries = [(header.parent, *sorted(header.parent.parent.glob("lib/libcupti.so.*"))) for header in sorted(headers)]
    return [Package(found[0], found[1]) for found in libraries if len(found) > 1]


@pytest.fixture(scope="session")
def packages() -> list[Package]:
    if not (found := find_packages()):
        pytest.skip("needs NVIDIA's public CUPTI packages (nvidia-cuda-cupti-cu12, …)")
    return found


# Answers of a libcupti in a process that finds no driver.
PROBE = """
import ctypes, json, sys
from ctypes import byref, c_size_t, c_uint32, c_uint64, c_void_p, c_char_p
lib = ctypes.CDLL(sys.argv[1])
kinds = json.loads(sys.argv[2])

def stride(kind):
    buffer = (c_uint32 * 4096)(kind)
    for bytes_in in range(8, 512, 8):
        buffer[bytes_in // 4] = 4
        record = c_void_p(ctypes.addressof(buffer))
        error = lib.cuptiActivityGetNextRecord(buffer, c_size_t(16384), byref(record))
        if error == 0:
            return record.value - ctypes.addressof(buffer)
        buffer[bytes_in // 4] = 0
    return -error

def next_in(kind, valid):
    buffer, record = (c_uint32 * 1024)(kind), c_void_p()
    return lib.cuptiActivityGetNextRecord(buffer, c_size_t(valid), byref(record))

text, number, last, dropped = c_char_p(b"as it was"), c_uint32(), c_uint64(), c_size_t()
call = ctypes.CFUNCTYPE(c_uint64)(lambda: 5)
answers = {
    "version": [lib.cuptiGetVersion(byref(number)), number.value],
    "strides": [stride(kind) for kind in kinds],
    "next": [next_in(4, 39), next_in(4, 0), next_in(0, 4096)],
    "string": [lib.cuptiGetResultString(39, byref(text)), text.value.decode()],
    "no string": [lib.cuptiGetResultString(12345, byref(text)), text.value.decode()],
    "name": [lib.cuptiGetCallbackName(2, 211, byref(text)), text.value.decode()],
    "callbacks": [lib.cuptiActivityRegisterCallbacks(call, call), lib.cuptiActivityRegisterCallbacks(None, call)],
    "clock": [lib.cuptiActivityRegisterTimestampCallback(call), lib.cuptiActivityRegisterTimestampCallback(None)],
    "subscribe": [lib.cuptiSubscribe(byref(c_void_p()), call, None), lib.cuptiUnsubscribe(None)],
    "enable": [lib.cuptiActivityEnable(kind) for kind in (0, 3, 10, 77)],
    "flush": [lib.cuptiActivityFlushAll(0), lib.cuptiActivityFlushAll(1), lib.cuptiActivityFlushPeriod(5)],
    "push": [lib.cuptiActivityPushExternalCorrelationId(kind, c_uint64(7)) for kind in (0, 3, 9)],
    "pop": [lib.cuptiActivityPopExternalCorrelationId(kind, byref(last)) for kind in (0, 3)],
    "dropped": lib.cuptiActivityGetNumDroppedRecords(None, 0, byref(dropped)),
    "tid": lib.cuptiSetThreadIdType(1),
    "now": lib.cuptiGetTimestamp(byref(last)),
    "finalize": lib.cuptiFinalize(),
}
print(json.dumps(answers))
"""


def answers_of(library: Path, **environment: str) -> dict[str, Any] | None:
    """None where the library crashes, as 13.2's does without a driver."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(library), json.dumps(KINDS)],
        env={**os.environ, "FAKE_CUPTI": "no_driver", **environment},
        stdout=subprocess.PIPE,
        timeout=TIMEOUT_S,
    )
    answers: dict[str, Any] | None = json.loads(done.stdout) if done.returncode == 0 else None
    return answers


def stand_in(fake_gpu: Callable[..., Any], version: str) -> Any:
    return fake_gpu({"11": "11.8", "12": "12.6", "13": "13.5"}[version.split(".")[0]])


def test_without_a_driver_it_answers_as_nvidias_does(fake_gpu: Callable[..., Any], packages: list[Package]) -> None:
    compared = 0
    for package in packages:
        theirs = answers_of(package.library)
        if theirs is not None and theirs["enable"] != [0, 0, 0, 0]:  # this machine has a driver
            ours = answers_of(stand_in(fake_gpu, package.version).libcupti, FAKE_CUPTI_VERSION=package.version)
            assert ours == theirs, package.version
            compared += 1
    if compared == 0:
        pytest.skip("needs a machine without CUDA's driver, and a libcupti that bears that")


# ---- layouts: our field for each of NVIDIA's ----

COMMON_WORK = {"start": "start", "end": "end", "deviceId": "device", "contextId": "context", "streamId": "stream",
               "correlationId": "correlation", "graphNodeId": "graph_node", "graphId": "graph"}  # fmt: skip
COPY = {"copyKind": "copy_kind", "srcKind": "from_kind", "dstKind": "to_kind", "flags": "flags", "bytes": "bytes"}
LAYOUTS: dict[tuple[str, str], dict[str, str]] = {
    ("Kernel", "kernel_record"): COMMON_WORK | {
        "registersPerThread": "registers", "completed": "completed", "gridX": "grid", "blockX": "block",
        "staticSharedMemory": "static_shared", "dynamicSharedMemory": "dynamic_shared", "name": "name",
        "localMemoryPerThread": "local_per_thread", "localMemoryTotal": "local_total", "gridId": "grid_id",
        "queued": "queued", "submitted": "submitted", "channelID": "channel", "clusterX": "cluster",
        "maxPotentialClusterSize": "clusters_possible", "isDeviceLaunched": "from_device", "priority": "priority",
        "executionModel": "execution_model", "sourceGraphId": "source_graph", "sourceGraphNodeId": "source_node",
    },
    ("Memcpy", "copy_record"): COMMON_WORK | COPY | {
        "runtimeCorrelationId": "runtime_correlation", "channelID": "channel", "copyCount": "copies",
        "sourceGraphId": "source_graph", "sourceGraphNodeId": "source_node",
    },
    ("MemcpyPtoP", "peer_copy_record"): COMMON_WORK | COPY | {
        "srcDeviceId": "from_device", "srcContextId": "from_context", "dstDeviceId": "to_device",
        "dstContextId": "to_context", "channelID": "channel",
    },
    ("Memset", "memset_record"): COMMON_WORK | {
        "value": "value", "bytes": "bytes", "flags": "flags", "memoryKind": "memory_kind", "channelID": "channel",
        "sourceGraphId": "source_graph", "sourceGraphNodeId": "source_node",
    },
    ("API", "call_record"): {
        "cbid": "cbid", "start": "start", "end": "end", "processId": "pid", "threadId": "tid",
        "correlationId": "correlation", "returnValue": "result",
    },
    ("Synchronization", "sync_record"): {
        "type": "type", "start": "start", "end": "end", "correlationId": "correlation", "contextId": "context",
        "streamId": "stream", "cudaEventId": "event", "cudaEventSyncId": "event_record", "returnValue": "result",
    },
    ("Overhead", "overhead_record"): {
        "overheadKind": "overhead", "objectKind": "object", "objectId": "object_id", "start": "start", "end": "end",
        "correlationId": "correlation", "overheadData": "data",
    },
    ("ExternalCorrelation", "external_record"): {
        "externalKind": "external_kind", "externalId": "external_id", "correlationId": "correlation",
    },
    ("Device", "device_record"): {
        "globalMemorySize": "memory_bytes", "numMultiprocessors": "multiprocessors", "id": "device", "uuid": "uuid",
        "computeCapabilityMajor": "compute_major", "computeCapabilityMinor": "compute_minor", "name": "name",
        "isCudaVisible": "visible", "isMigEnabled": "mig", "numaId": "numa_node", "numTpcs": "tpcs",
    },
    ("Context", "context_record"): {
        "contextId": "context", "deviceId": "device", "computeApiKind": "api", "nullStreamId": "null_stream",
        "parentContextId": "parent", "isGreenContext": "green", "cigMode": "cig_mode", "processId": "pid",
    },
    ("Name", "name_record"): {"objectKind": "object", "objectId": "object_id", "name": "name"},
    ("Memory", "memory_record"): {
        "memoryOperationType": "operation", "memoryKind": "memory_kind", "correlationId": "correlation",
        "address": "address", "bytes": "bytes", "timestamp": "timestamp", "processId": "pid", "deviceId": "device",
        "contextId": "context", "streamId": "stream", "name": "name", "isAsync": "async", "source": "source",
    },
    ("CudaEvent", "event_record"): {
        "correlationId": "correlation", "contextId": "context", "streamId": "stream", "eventId": "event",
        "deviceId": "device", "deviceTimestamp": "device_timestamp", "cudaEventSyncId": "event_record",
    },
    ("UnifiedMemoryCounter", "unified_memory_record"): {
        "counterKind": "counter", "value": "value", "start": "start", "end": "end", "address": "address",
        "srcId": "from", "dstId": "to", "streamId": "stream", "processId": "pid", "flags": "flags",
    },
    ("GraphTrace", "graph_record"): {
        "correlationId": "correlation", "start": "start", "end": "end", "deviceId": "device", "graphId": "graph",
        "contextId": "context", "streamId": "stream", "endDeviceId": "end_device", "endContextId": "end_context",
    },
    ("Stream", "stream_record"): {
        "contextId": "context", "streamId": "stream", "priority": "priority", "flag": "flags",
        "correlationId": "correlation",
    },
}  # fmt: skip
KIND_OF = {"Kernel": 10, "Memcpy": 1, "MemcpyPtoP": 22, "Memset": 2, "API": 5, "Synchronization": 38, "Overhead": 17,
           "ExternalCorrelation": 39, "Device": 8, "Context": 9, "Name": 11, "Memory": 49, "CudaEvent": 36,
           "UnifiedMemoryCounter": 25, "GraphTrace": 51, "Stream": 37}  # fmt: skip

# What CUPTI's headers take from CUDA's, as far as sizes go.
CUDA_STUB = """
#pragma once
#include <stddef.h>
typedef struct a *CUcontext, *CUstream_, *CUgraph, *CUgraphNode, *CUgraphExec, *CUmodule, *CUfunction, *CUevent;
typedef struct b *CUstream;
typedef int CUdevice, CUresult, CUgraphNodeType, CUstreamAttrID, CUlaunchAttributeID, CUdevice_attribute;
typedef unsigned long long CUdeviceptr;
typedef struct { char bytes[16]; } CUuuid;
typedef struct { char bytes[64]; } CUstreamAttrValue, CUlaunchAttributeValue;
typedef struct { void *address; } CUaccessPolicyWindow;
"""


STRUCT = re.compile(
    r"typedef struct [\w ]*\{((?:(?!typedef struct).)*?)\n\}\s*CUpti_Activity([A-Za-z]+)(\d*);", re.DOTALL
)


def newest_structs(header: str) -> dict[str, tuple[str, set[str]]]:
    """For each name without its version the name of its newest struct, and that one's fields."""
    newest: dict[str, tuple[int, str]] = {}
    for body, name, version in STRUCT.findall(header):
        newest[name] = max(newest.get(name, (0, "")), (int(version or 1), body))
    return {
        name: (
            f"CUpti_Activity{name}{version if version > 1 else ''}",
            set(re.findall(r"(\w+)(?:\[\w+\])?;", body)),
        )
        for name, (version, body) in newest.items()
    }


def test_records_are_laid_out_as_in_nvidias_headers(
    fake_gpu: Callable[..., Any], packages: list[Package], tmp_path: Path
) -> None:
    stubs = tmp_path / "stubs"
    stubs.mkdir()
    for name in ("cuda.h", "builtin_types.h", "cuda_runtime_api.h"):
        (stubs / name).write_text(CUDA_STUB)
    for package in packages:
        gpu = stand_in(fake_gpu, package.version)
        lines, sizes = [], []
        structs = newest_structs((package.include / "cupti_activity.h").read_text())
        for (name, ours), fields in LAYOUTS.items():
            theirs, declared = structs[name]
            lines += [
                f'_Static_assert(offsetof({theirs}, {field}) == offsetof(struct {ours}, {mine}), "{theirs}.{field}");'
                for field, mine in fields.items()
                if field in declared
            ]
            sizes.append(f'    printf("%zu ", sizeof({theirs}));')
        source = tmp_path / "layout.c"
        includes = ("stddef.h", "stdio.h", "cupti_callbacks.h", "cupti_activity.h", "records.h")
        text = "".join(f"#include <{name}>\n" for name in includes) + "\n".join(lines)
        source.write_text(f"{text}\nint main(void) {{\n" + "\n".join(sizes) + "\n}\n")
        program = tmp_path / "layout"
        flags = [f"-I{path}" for path in (stubs, gpu.sources, package.include)]
        subprocess.run(["gcc", "-std=gnu2x", "-w", *flags, "-o", program, source], check=True)
        printed = subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True).stdout
        expected = dict(zip(LAYOUTS, map(int, printed.split())))
        assert len(lines) > 80
        ours_now = strides(gpu.libcupti, package.version, gpu)
        assert {name: ours_now[KIND_OF[name]] for name, _ in LAYOUTS} == {
            name: size for (name, _), size in expected.items()
        }, package.version


def strides(library: Path, version: str, gpu: Any) -> dict[int, int]:
    """With a driver: from 13.2 on it says nothing without one."""
    answers = answers_of(library, FAKE_CUPTI_VERSION=version, FAKE_CUPTI="", **gpu.environment())
    assert answers is not None
    return dict(zip(KINDS, answers["strides"]))
