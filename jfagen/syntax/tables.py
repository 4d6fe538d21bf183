"""The parser's tables: built from the grammar once, then kept beside the compiled modules.

Building takes about 60 ms, loading 8. As with `.pyc` files, a folder that cannot be written only
costs the time, and a table of another grammar, lark or Python is replaced.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from pathlib import Path

import lark
from lark import Lark
from lark.lexer import Lexer


def parser_of(grammar: str, lexer: type[Lexer], folder: Path) -> Lark:
    """Return the parser of `grammar`, its tables loaded from `folder` if they are there."""
    file = folder / "schedule.lalr"
    facts = (grammar, lark.__version__, sys.version_info[:2], lexer.__qualname__)
    key = hashlib.sha256(repr(facts).encode()).hexdigest().encode()
    return _loaded(file, key) or _built(grammar, lexer, file, key)


def _loaded(file: Path, key: bytes) -> Lark | None:
    try:
        with file.open("rb") as stream:
            return Lark.load(stream) if stream.readline().strip() == key else None
    except Exception:  # whatever is wrong with the file, the tables can be built again
        return None


def _built(grammar: str, lexer: type[Lexer], file: Path, key: bytes) -> Lark:
    parser = Lark(
        grammar, parser="lalr", lexer=lexer, propagate_positions=True, maybe_placeholders=False
    )
    if not sys.dont_write_bytecode:
        with contextlib.suppress(OSError):
            handle, name = tempfile.mkstemp(dir=file.parent, prefix=f"{file.name}.")
            with os.fdopen(handle, "wb") as stream:
                stream.write(key + b"\n")
                parser.save(stream)
            Path(name).chmod(0o644)
            Path(name).replace(file)
    return parser
