"""Findings, places and choices in the types of the language server protocol."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lsprotocol import types as lsp

from ..diagnostics import Diagnostic, Edit, Fix, Severity, Span
from ..syntax.names import Kind
from .client import Client
from .completion import Choice
from .positions import Positions

SOURCE = "jfagen"
_SEVERITIES = {
    Severity.ERROR: lsp.DiagnosticSeverity.Error,
    Severity.WARNING: lsp.DiagnosticSeverity.Warning,
}
_COMPLETIONS = {
    None: lsp.CompletionItemKind.Keyword,
    Kind.ALGORITHM: lsp.CompletionItemKind.Module,
    Kind.ROLE: lsp.CompletionItemKind.Class,
    Kind.BUFFER: lsp.CompletionItemKind.Variable,
    Kind.VALUE: lsp.CompletionItemKind.Value,
    Kind.OP: lsp.CompletionItemKind.Function,
    Kind.SYMBOL: lsp.CompletionItemKind.Variable,
    Kind.WALK: lsp.CompletionItemKind.Value,
}
SYMBOLS = {
    Kind.ROLE: lsp.SymbolKind.Class,
    Kind.BUFFER: lsp.SymbolKind.Variable,
    Kind.REGION: lsp.SymbolKind.Namespace,
}


@dataclass(frozen=True, slots=True)
class Converter:
    """Turns what is known of one text into the protocol's types.

    Attributes:
        uri: of the text.
        version: of the text, as the editor counts.
        positions: its places.
        client: what the editor can do.
    """

    uri: str
    version: int | None
    positions: Positions
    client: Client

    def range(self, span: Span) -> lsp.Range:
        """Return the place of a span."""
        start, end = (self.positions.place(offset) for offset in (span.start, span.end))
        return lsp.Range(lsp.Position(*start), lsp.Position(*end))

    def location(self, span: Span) -> lsp.Location:
        """Return a span with its file."""
        return lsp.Location(uri=self.uri, range=self.range(span))

    def line(self, span: Span) -> int:
        """Return the line on which a span begins, as editors show it."""
        return self.positions.place(span.start)[0] + 1

    def diagnostic(self, found: Diagnostic) -> lsp.Diagnostic:
        """Return a finding; notes with a place of their own are related, if the client shows it."""
        lines = [found.message]
        lines += [found.label.message] if found.label.message else []
        for note in found.notes:
            if note.label is None:
                lines.append(f"note: {note.message}")
            elif not self.client.related:
                lines.append(f"note: {note.message} (line {self.line(note.label.span)})")
        lines += [f"help: {advice}" for advice in found.helps]
        return lsp.Diagnostic(
            range=self.range(found.label.span),
            severity=_SEVERITIES[found.severity],
            code=found.id,
            source=SOURCE,
            message="\n".join(lines),
            related_information=[
                lsp.DiagnosticRelatedInformation(
                    location=self.location(note.label.span), message=note.message
                )
                for note in found.notes
                if note.label is not None and self.client.related
            ],
        )

    def edits(self, edits: Iterable[Edit]) -> lsp.WorkspaceEdit:
        """Return edits of the text."""
        changes = self.text_edits(edits)
        if not self.client.versioned:
            return lsp.WorkspaceEdit(changes={self.uri: changes})
        text = lsp.OptionalVersionedTextDocumentIdentifier(uri=self.uri, version=self.version)
        change = lsp.TextDocumentEdit(text_document=text, edits=changes)
        return lsp.WorkspaceEdit(document_changes=[change])

    def text_edits(self, edits: Iterable[Edit]) -> list[lsp.TextEdit]:
        """Return edits without the name of their text."""
        return [lsp.TextEdit(range=self.range(one.span), new_text=one.text) for one in edits]

    def action(self, found: Diagnostic, fix: Fix, *, only: bool) -> lsp.CodeAction:
        """Return what carries out a help; `only` says that there is no second one."""
        title = fix[:1].upper() + fix[1:].removesuffix("?")
        return lsp.CodeAction(
            title=title.replace("`", "").replace("Did you mean", "Write"),
            kind=lsp.CodeActionKind.QuickFix,
            diagnostics=[self.diagnostic(found)],
            is_preferred=only,
            edit=self.edits(fix.edits),
        )

    def completion(
        self, choice: Choice, number: int, typed: Span, cursor: int
    ) -> lsp.CompletionItem:
        """Return a choice that is written in place of what is typed; `number` keeps the order."""
        as_snippet = "$" in choice.snippet and self.client.snippets
        plain = choice.snippet if choice.snippet and "$" not in choice.snippet else choice.text
        return lsp.CompletionItem(
            label=choice.text,
            kind=_COMPLETIONS[choice.kind],
            detail=choice.detail or None,
            sort_text=f"{number:04d}",
            filter_text=choice.text,
            insert_text_format=(
                lsp.InsertTextFormat.Snippet if as_snippet else lsp.InsertTextFormat.PlainText
            ),
            text_edit=self._written(choice.snippet if as_snippet else plain, typed, cursor),
        )

    def _written(self, text: str, typed: Span, cursor: int) -> lsp.TextEdit | lsp.InsertReplaceEdit:
        """Return what writes a text over `typed`; the client may choose to keep what is behind."""
        if not self.client.insert_replace:
            return lsp.TextEdit(range=self.range(typed), new_text=text)
        before = typed.source.span(typed.start, cursor)
        return lsp.InsertReplaceEdit(
            new_text=text, insert=self.range(before), replace=self.range(typed)
        )
