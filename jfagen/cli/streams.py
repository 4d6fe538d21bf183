"""Standard output and standard error: colours, and pipes that the reader has closed."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import TextIO


def colored(stream: object) -> bool:
    """Return whether a stream takes colours: a terminal, and `NO_COLOR` is not set."""
    return bool(getattr(stream, "isatty", lambda: False)()) and "NO_COLOR" not in os.environ


def say(text: str, stream: TextIO | None = None) -> None:
    """Print to standard error or another stream; if nobody reads it, the exit code still tells."""
    with contextlib.suppress(BrokenPipeError):
        print(text, file=stream or sys.stderr)


def ended_by_pipe(end: SystemExit) -> bool:
    """Tell whether the command stopped because whoever read its output has seen enough."""
    cause = end.__context__
    return isinstance(cause, OSError) and cause.errno == errno.EPIPE


def flush() -> None:
    """Flush both streams; one whose pipe is closed gets nothing more, also not at exit."""
    for stream, number in ((sys.__stdout__, 1), (sys.__stderr__, 2)):
        try:
            if stream is not None:
                stream.flush()
        except BrokenPipeError:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, number)
            os.close(null)
