"""The probes of libpillion.so as other tracers see them: every name and field, as often as it was fired."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pillion_probes import CONSTANTS, HEADER_PATH

Target = Callable[..., Any]

ROOT = HEADER_PATH.parent.parent
NAMED = ("range", "mark", "thread", "notice", "activity")
# What own_probes.c fires: each record has the times 1000 + i and 2000 + i, each activity the value i.
COUNTS = {"range": 101, "mark": 103, "thread": 107, "notice": 109, "activity": 113}
BATCHES, BATCH, LAUNCHES = 7, 17, 127
NAMES = {f"a {name}": count for name, count in COUNTS.items()} | {"a batch": BATCHES * BATCH, "a launch": LAUNCHES}
VALUES = {"a activity": sum(range(113)), "a batch": BATCHES * sum(range(BATCH))}


@pytest.fixture(scope="module")
def own_probes(compile_c: Callable[..., Path]) -> Path:
    """The program of own_probes.c, with the library's own sources in it."""
    includes = [f"-I{ROOT / folder}" for folder in ("cffi_build/include", "cffi_build/src/job", "probes")]
    sources = map(str, sorted((ROOT / "cffi_build" / "src").glob("*/*.c")))
    return compile_c("own_probes.c", "-std=c11", "-fvisibility=hidden", *includes, *sources)


def test_bpftrace_reads_every_probe(require_bpf: None, own_probes: Path, tmp_path: Path) -> None:
    if not shutil.which("bpftrace"):
        pytest.skip("needs bpftrace")
    activity = "((struct pln_activity *)arg0)"
    lines = dict.fromkeys((*NAMED, "launch"), "@names[str(arg1, arg2)] = count();")
    lines["activity"] += f" @values[str(arg1, arg2)] = sum({activity}->value);"
    lines["launch"] += " @seqs = sum(arg0);"
    lines["activities"] = f"@batches[arg1] = count(); @kinds = sum({activity}->kind);"
    script = tmp_path / "probes.bt"
    text = "".join(f"usdt:{own_probes}:pillion:{probe} {{ {line} }}\n" for probe, line in lines.items())
    script.write_text(f'#include "{HEADER_PATH}"\n{text}')
    # It starts the program, and lets it run once everything is attached.
    command = ["bpftrace", "-f", "json", "-o", str(tmp_path / "maps"), "-c", str(own_probes), str(script)]
    ran = subprocess.run(command, capture_output=True, check=True, text=True, timeout=120)
    truth = json.loads(next(line for line in ran.stdout.splitlines() if line.startswith('{"range"')))
    found: dict[str, Any] = {}
    for line in filter(None, (tmp_path / "maps").read_text().splitlines()):
        message = json.loads(line)
        if message["type"] == "map":
            found |= message["data"]
    assert found["@names"] == NAMES
    assert found["@values"] == VALUES
    assert found["@batches"] == {str(BATCH): BATCHES}
    assert found["@kinds"] == BATCHES * CONSTANTS["PLN_ACTIVITY"]
    assert found["@seqs"] == sum(range(LAUNCHES + 1))
    assert truth == COUNTS | {"activity": 113 + BATCHES * BATCH, "activities": BATCHES, "launch": LAUNCHES}


def test_bcc_reads_every_probe(require_bpf: None, own_probes: Path, target: Target) -> None:
    victim = target(own_probes, wait=True)
    command = [sys.executable, str(Path(__file__).with_name("bcc_tracer.py")), str(victim.pid)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tracer:
        assert tracer.stdout
        assert tracer.stdout.readline() == "attached\n"
        victim.answer()
        output, _ = tracer.communicate("\n", timeout=120)
    hits = json.loads(output)
    assert Counter(hit["name"] for hit in hits if hit["probe"] != "activities") == NAMES
    for probe in NAMED:
        mine = [hit for hit in hits if hit["probe"] == probe and hit["name"] != "a batch"]
        assert {hit["kind"] for hit in mine} == {CONSTANTS[f"PLN_{probe.upper()}"]}
        assert [hit["start_ns"] for hit in mine] == [1000 + i for i in range(COUNTS[probe])]
        assert [hit["end_ns"] for hit in mine] == [2000 + i for i in range(COUNTS[probe])]
        if probe == "activity":
            assert [hit["value"] for hit in mine] == list(range(113))
    assert [hit["number"] for hit in hits if hit["probe"] == "activities"] == [BATCH] * BATCHES
    assert [hit["number"] for hit in hits if hit["probe"] == "launch"] == list(range(1, LAUNCHES + 1))
