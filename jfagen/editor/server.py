"""The language server: the protocol's requests, answered from the sessions of open texts.

A change is answered at once with what the parser and the checks find. The proof follows in a
thread of its own, and is dropped when the next change arrives.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Protocol

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from .. import __version__
from ..diagnostics import CompileError, Fix
from ..driver import shown_path
from ..syntax import format_schedule
from .changes import changes
from .client import Client
from .completion import choices_at, needs_more, typed_at
from .convert import SYMBOLS, Converter
from .hover import hover_at
from .navigation import (
    LibraryPlace,
    Unnameable,
    definition_at,
    outline,
    renamable_at,
    renamed,
    uses_at,
)
from .positions import Positions
from .protocol import AnsweringProtocol
from .session import Session, Superseded
from .status import status_line

#: Seconds after which a thread gives way: a change is read while a text is being proved.
SWITCH_INTERVAL = 0.0005
#: The same while a change is looked at, which takes less; another message may have to wait as long.
WHOLE_INTERVAL = 0.05


@contextmanager
def undivided() -> Iterator[None]:
    """Keep the interpreter for this thread: what an editor waits for is not shared with a proof."""
    sys.setswitchinterval(WHOLE_INTERVAL)
    try:
        yield
    finally:
        sys.setswitchinterval(SWITCH_INTERVAL)


class Where(Protocol):
    """The parameters of a request about a place of a text."""

    text_document: lsp.TextDocumentIdentifier
    position: lsp.Position


class ScheduleServer(LanguageServer):
    """A language server with the sessions of its open texts.

    Attributes:
        sessions: URI -> what is known of the text.
        is_asked_to_end: whether the client has said that it will end the server.
    """

    def __init__(self) -> None:
        full = lsp.TextDocumentSyncKind.Full
        super().__init__("jfagen", __version__, full, protocol_cls=AnsweringProtocol)
        self.sessions: dict[str, Session] = {}
        self.is_asked_to_end = False
        self._prover = ThreadPoolExecutor(1, "prove")

    def serve(self) -> int:
        """Serve standard input and output until the client ends it; return the exit code."""
        sys.setswitchinterval(SWITCH_INTERVAL)
        logging.getLogger("pygls.protocol.json_rpc").addFilter(_is_news)
        # The protocol has the output to itself, and closes it at the end.
        with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as output, redirect_stdout(sys.stderr):
            self.start_io(stdout=output)
        self.end()
        return 0 if self.is_asked_to_end else 1

    def end(self) -> None:
        """End what goes on behind the answers."""
        for session in self.sessions.values():
            session.end()
        self._prover.shutdown(wait=False, cancel_futures=True)

    @property
    def client(self) -> Client:
        """What the client can do."""
        return Client.of(self.client_capabilities)

    def see(self, uri: str) -> None:
        """Look at a text that was opened or changed, publish, and begin to prove it."""
        text = self.workspace.get_text_document(uri)
        shown = shown_path(Path(path)) if (path := to_fs_path(uri)) else uri
        with undivided():
            session = Session.of(text.source, shown, text.version, self.sessions.get(uri))
        self.sessions[uri] = session
        self.publish(uri, session)
        if not session.settled:
            loop = asyncio.get_running_loop()
            self._prover.submit(self._prove, uri, session, session.prove(), loop)

    def _prove(
        self, uri: str, session: Session, proof: Iterator[None], loop: asyncio.AbstractEventLoop
    ) -> None:
        """Prove a kernel, and get in line again: no text waits for all kernels of another."""
        with suppress(Superseded, StopIteration, RuntimeError):  # RuntimeError: the server ends
            next(proof)
            loop.call_soon_threadsafe(self.publish, uri, session)
            self._prover.submit(self._prove, uri, session, proof, loop)

    def publish(self, uri: str, session: Session) -> None:
        """Publish the findings on a text, unless it has changed or was closed."""
        if self.sessions.get(uri) is not session:
            return
        converter = self.converter(uri)
        self.text_document_publish_diagnostics(
            lsp.PublishDiagnosticsParams(
                uri=uri,
                version=session.version,
                diagnostics=[converter.diagnostic(found) for found in session.diagnostics],
            )
        )
        if self.client.lens_refresh:
            self.workspace_code_lens_refresh(None)

    def forget(self, uri: str) -> None:
        """Close a text: nothing is found on it any more."""
        session = self.sessions.pop(uri, None)
        if session is not None:
            session.end()
            self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))

    def converter(self, uri: str) -> Converter:
        """Return what turns places of a text into the client's."""
        session = self.sessions[uri]
        encoding = lsp.PositionEncodingKind(self.workspace.position_encoding)
        positions = Positions.of(session.text, encoding.value)
        return Converter(uri, session.version, positions, self.client)

    def at(self, where: Where) -> tuple[Session, Converter, int]:
        """Return the session, the converter and the offset that a request is about."""
        uri = where.text_document.uri
        if uri not in self.sessions:
            raise JsonRpcInvalidParams(f"{uri} is not open")
        converter = self.converter(uri)
        place = where.position
        offset = converter.positions.offset(place.line, place.character)
        return self.sessions[uri], converter, offset


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a line of the log is about a mistake of ours: a refusal is the client's to show."""
    error = record.exc_info[1] if record.exc_info else None
    return record.levelno >= logging.ERROR and not isinstance(error, JsonRpcException)


SERVER = ScheduleServer()


@SERVER.feature(lsp.SHUTDOWN)
def shutdown(server: ScheduleServer, params: None) -> None:
    """The client is about to end the server."""
    server.is_asked_to_end = True
    server.end()


@SERVER.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
def did_open(server: ScheduleServer, params: lsp.DidOpenTextDocumentParams) -> None:
    """A text is opened."""
    server.see(params.text_document.uri)


@SERVER.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
def did_change(server: ScheduleServer, params: lsp.DidChangeTextDocumentParams) -> None:
    """A text changes."""
    server.see(params.text_document.uri)


@SERVER.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
def did_close(server: ScheduleServer, params: lsp.DidCloseTextDocumentParams) -> None:
    """A text is closed."""
    server.forget(params.text_document.uri)


@SERVER.feature(lsp.TEXT_DOCUMENT_HOVER)
def hover(server: ScheduleServer, params: lsp.HoverParams) -> lsp.Hover | None:
    """Say what a name or word is."""
    session, converter, offset = server.at(params)
    found = hover_at(session.document, offset, session.compiled)
    if found is None:
        return None
    span, words = found
    content = lsp.MarkupContent(kind=lsp.MarkupKind.Markdown, value=words)
    return lsp.Hover(contents=content, range=converter.range(span))


@SERVER.feature(
    lsp.TEXT_DOCUMENT_COMPLETION,
    lsp.CompletionOptions(trigger_characters=list(" {[,.")),
)
def completion(server: ScheduleServer, params: lsp.CompletionParams) -> list[lsp.CompletionItem]:
    """Offer what can be written: unasked only where something must be."""
    session, converter, offset = server.at(params)
    unasked = lsp.CompletionTriggerKind.TriggerCharacter
    is_unasked = params.context is not None and params.context.trigger_kind is unasked
    # Enter behind `{` or a blank is the end of a line, and not the first of many choices.
    if is_unasked and not needs_more(session.document, offset):
        return []
    typed = typed_at(session.document, offset)
    return [
        converter.completion(choice, number, typed, offset)
        for number, choice in enumerate(choices_at(session.document, offset, session.known))
    ]


@SERVER.feature(lsp.TEXT_DOCUMENT_DEFINITION)
def definition(server: ScheduleServer, params: lsp.DefinitionParams) -> lsp.Location | None:
    """Find where a name is introduced."""
    session, converter, offset = server.at(params)
    found = definition_at(session.document, offset)
    if isinstance(found, LibraryPlace):
        place = lsp.Position(found.line, 0)
        uri = from_fs_path(str(found.file))
        return lsp.Location(uri=uri, range=lsp.Range(place, place)) if uri else None
    return converter.location(found) if found is not None else None


@SERVER.feature(lsp.TEXT_DOCUMENT_REFERENCES)
def references(server: ScheduleServer, params: lsp.ReferenceParams) -> list[lsp.Location]:
    """List every use of a name."""
    session, converter, offset = server.at(params)
    all_of_them = params.context.include_declaration
    uses = uses_at(session.document, offset)
    return [converter.location(one.span) for one in uses if all_of_them or not one.declares]


@SERVER.feature(lsp.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
def highlight(
    server: ScheduleServer, params: lsp.DocumentHighlightParams
) -> list[lsp.DocumentHighlight]:
    """Mark every use of a name."""
    session, converter, offset = server.at(params)
    return [
        lsp.DocumentHighlight(range=converter.range(one.span))
        for one in uses_at(session.document, offset)
    ]


@SERVER.feature(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
def prepare_rename(server: ScheduleServer, params: lsp.PrepareRenameParams) -> lsp.Range:
    """Say whether a name can be changed."""
    session, converter, offset = server.at(params)
    try:
        return converter.range(renamable_at(session.document, offset).span)
    except Unnameable as error:
        raise JsonRpcInvalidParams(str(error)) from None


@SERVER.feature(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
def rename(server: ScheduleServer, params: lsp.RenameParams) -> lsp.WorkspaceEdit:
    """Change a name everywhere."""
    session, converter, offset = server.at(params)
    try:
        return converter.edits(renamed(session.document, offset, params.new_name))
    except Unnameable as error:
        raise JsonRpcInvalidParams(str(error)) from None


@SERVER.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
def symbols(server: ScheduleServer, params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
    """List roles, buffers and regions."""
    uri = params.text_document.uri
    if uri not in server.sessions:
        return []
    converter = server.converter(uri)
    return [
        lsp.DocumentSymbol(
            name=entry.name.text,
            detail=" ".join(entry.item.text.split()),
            kind=SYMBOLS[entry.name.kind],
            range=converter.range(entry.item),
            selection_range=converter.range(entry.name.span),
        )
        for entry in outline(server.sessions[uri].document)
    ]


@SERVER.feature(lsp.TEXT_DOCUMENT_FORMATTING)
def formatting(
    server: ScheduleServer, params: lsp.DocumentFormattingParams
) -> list[lsp.TextEdit] | None:
    """Write a text in its canonical form; a text that does not parse stays as it is."""
    uri = params.text_document.uri
    if uri not in server.sessions:
        return None
    source = server.sessions[uri].document.source
    try:
        new = format_schedule(source)
    except CompileError:
        return None
    return server.converter(uri).text_edits(changes(source, new))


@SERVER.feature(
    lsp.TEXT_DOCUMENT_CODE_ACTION,
    lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix]),
)
def code_actions(server: ScheduleServer, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    """Offer what the helps of findings say, where they say exactly what to write."""
    uri = params.text_document.uri
    only = params.context.only
    wanted = only is None or {"", lsp.CodeActionKind.QuickFix} & set(only)
    if uri not in server.sessions or not wanted:
        return []
    session, converter = server.sessions[uri], server.converter(uri)
    places = (params.range.start, params.range.end)
    first, last = (converter.positions.offset(p.line, p.character) for p in places)
    actions: list[lsp.CodeAction] = []
    for found in session.diagnostics:
        span = found.label.span
        fixes = [advice for advice in found.helps if isinstance(advice, Fix)]
        if span.start <= last and first <= span.end:
            alone = len(found.helps) == 1
            actions += [converter.action(found, fix, only=alone) for fix in fixes]
    return actions


@SERVER.feature(lsp.TEXT_DOCUMENT_CODE_LENS, lsp.CodeLensOptions())
def code_lens(server: ScheduleServer, params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
    """Say above the kernel what is proved of it and what it takes."""
    uri = params.text_document.uri
    schedule = server.sessions[uri].document.reading.schedule if uri in server.sessions else None
    if schedule is None:
        return []
    command = lsp.Command(title=status_line(server.sessions[uri]), command="")
    return [lsp.CodeLens(range=server.converter(uri).range(schedule.name.span), command=command)]
