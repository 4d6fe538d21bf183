"""Compile one emitted file in a process of its own: `worker.py FILE KERNEL CAPABILITY`.

Writes `kernel.ptx` and `kernel.cubin` into the working directory and prints one line, the word
`jfagen-report` and a JSON object: either the metadata, or the error and the line it points at.
A failed assertion in the compiler ends the process; whoever started it sees that.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def _load(path: str) -> types.ModuleType:
    """Run the emitted file under its relative name, so that no path reaches the PTX."""
    module = types.ModuleType("emitted")
    module.__file__ = path
    sys.modules["emitted"] = module
    exec(compile(Path(path).read_text(encoding="utf-8"), path, "exec"), module.__dict__)
    return module


def _compile(module: types.ModuleType, name: str, capability: int) -> dict[str, Any]:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = getattr(module, name)
    while not isinstance(function, triton.JITFunction) and hasattr(function, "fn"):
        function = function.fn
    signature = module.SIGNATURE
    attributes = {
        (index,): [["tt.divisibility", 16]]
        for index, kind in enumerate(signature.values())
        if kind.startswith("*")
    }
    source = ASTSource(function, signature, getattr(module, "CONSTEXPRS", {}), attributes)
    log = io.StringIO()
    with contextlib.redirect_stdout(log):
        kernel = triton.compile(
            source, target=GPUTarget("cuda", capability, 32), options=dict(module.OPTIONS)
        )
    Path("kernel.ptx").write_text(kernel.asm["ptx"], encoding="utf-8")
    Path("kernel.cubin").write_bytes(kernel.asm["cubin"])
    metadata = kernel.metadata
    return {
        "smem_bytes": metadata.shared,
        "tmem_columns": getattr(metadata, "tmem_size", None) or 0,
        "cluster": list(getattr(metadata, "cluster_dims", (1, 1, 1))),
        "ptxas_log": log.getvalue(),
    }


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _line_of(error: BaseException, module: types.ModuleType | None) -> int | None:
    """Return the emitted line that the innermost compile error points at."""
    functions = [] if module is None else list(vars(module).values())
    line = None
    for cause in _chain(error):
        node, text = getattr(cause, "node", None), getattr(cause, "src", None)
        for function in functions:
            if text is not None and getattr(function, "src", None) == text:
                line = function.def_file_line_number + getattr(node, "lineno", 1) - 1
    return line


def _message(error: BaseException) -> str:
    cause = list(_chain(error))[-1]
    return f"{type(cause).__name__}: {cause}"


def main(arguments: list[str]) -> int:
    """Compile the named file and print the report; return 1 when there is no cubin."""
    path, name, capability = arguments
    module = None
    try:
        module = _load(path)
        report = _compile(module, name, int(capability))
    except Exception as error:
        report = {"error": _message(error), "line": _line_of(error, module)}
    sys.stdout.flush()
    print("\njfagen-report " + json.dumps(report), flush=True)
    return 1 if "error" in report else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
