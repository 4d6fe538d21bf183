"""One open text: what a glance tells of it, and what its proof told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..diagnostics import CompileError, Diagnostic, Label, SourceFile
from ..driver import Compiled, each_instance
from .document import Document, look

#: Seconds without a further change before a text is proved.
PATIENCE = 0.1


class Superseded(Exception):
    """The text has changed: what was computed for it is of no use."""


@dataclass(slots=True)
class Session:
    """A text as an editor has it.

    Attributes:
        document: what is known at once.
        known: the text as it last could be read, for names while it cannot.
        version: of the editor's.
        text: as the editor counts places in it: with its byte order mark.
        kernels: those that are proved so far, the first one first.
        found: what the proof refuses; empty as long as it is not through.
        settled: whether the proof is through.
    """

    document: Document
    known: Document
    version: int | None
    text: str
    kernels: list[Compiled] = field(default_factory=list)
    found: tuple[Diagnostic, ...] = ()
    settled: bool = False
    _superseded: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(cls, text: str, shown: str, version: int | None, before: Session | None) -> Session:
        """Return the session of a text; ends the proof of the text before it."""
        if before is not None:
            before.end()
        # A blank for the byte order mark keeps every offset; elsewhere it is a bad character.
        read = " " + text[1:] if text.startswith("\ufeff") else text
        document = seen(SourceFile(path=shown, text=read))
        readable = document.reading.tree is not None
        known = document if readable or before is None else before.known
        return cls(document, known, version, text, settled=bool(document.diagnostics))

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Everything that is found so far."""
        return self.document.diagnostics or self.found

    @property
    def compiled(self) -> Compiled | None:
        """The first kernel, if it is proved."""
        return self.kernels[0] if self.kernels else None

    def end(self) -> None:
        """End the proof: its text is not the editor's any more."""
        self._superseded.set()

    def prove(self) -> Iterator[None]:
        """Prove the text kernel by kernel; yields whenever there is something new.

        Raises:
            Superseded: the text has changed meanwhile.
        """
        if self._superseded.wait(PATIENCE):
            raise Superseded
        try:
            for compiled in each_instance(self.document.source, self._watch):
                self.kernels.append(compiled)
                yield
        except CompileError as error:
            self.found = error.diagnostics
        except Superseded:
            raise
        except Exception as error:  # a mistake of ours must not cost the editor its server
            self.found = (_ours(self.document.source, error),)
        self.settled = True
        yield

    def _watch(self, name: str) -> None:
        if self._superseded.is_set():
            raise Superseded(name)


def seen(source: SourceFile) -> Document:
    """Return what is known of a text at once; a mistake of ours is a finding like any other."""
    try:
        return look(source)
    except Exception as error:  # see above
        blank = look(SourceFile(path=source.path, text=""))
        return Document(
            source=source,
            reading=blank.reading,
            pieces=(),
            names=(),
            program=None,
            diagnostics=(_ours(source, error),),
        )


def _ours(source: SourceFile, error: Exception) -> Diagnostic:
    return Diagnostic(
        id="internal",
        message=f"jfagen fails on this text: {type(error).__name__}: {error}",
        label=Label(span=source.span(0, 0)),
        helps=("this is a mistake of jfagen, not of the schedule",),
    )
