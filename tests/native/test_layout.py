"""The layouts that Python derives from pillion.h are the compiler's."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from pillion_probes import CONSTANTS, HEADER_PATH, STRUCTS


def test_every_field_is_where_the_compiler_puts_it(compile_c: Callable[..., Path], tmp_path: Path) -> None:
    fields = [(struct, field) for struct, layout in STRUCTS.items() for field in layout.fields]
    lines = [f'printf("%zu\\n", offsetof(struct {struct}, {field}));' for struct, field in fields]
    lines += [f'printf("%zu\\n", sizeof(struct {struct}));' for struct in STRUCTS]
    lines += [f'printf("%llu\\n", (unsigned long long){name});' for name in CONSTANTS]
    source = tmp_path / "layout.c"
    source.write_text(
        f'#include <stdio.h>\n#include "{HEADER_PATH}"\nint main(void) {{ {" ".join(lines)} return 0; }}\n'
    )
    output = subprocess.run([compile_c(source)], stdout=subprocess.PIPE, check=True).stdout
    offsets = [STRUCTS[struct].fields[field][1] for struct, field in fields]
    sizes = [layout.size_bytes for layout in STRUCTS.values()]
    assert [int(line) for line in output.split()] == [*offsets, *sizes, *CONSTANTS.values()]
