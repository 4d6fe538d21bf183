"""Findings, places and choices in the types of the language server protocol."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lsprotocol import types as lsp

from ..diagnostics import Diagnostic, Edit, Fix, Severity, Span
from ..syntax.names import Kind
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
        positions: its places.
    """

    uri: str
    positions: Positions

    def range(self, span: Span) -> lsp.Range:
        """Return the place of a span."""
        start, end = (self.positions.place(offset) for offset in (span.start, span.end))
        return lsp.Range(lsp.Position(*start), lsp.Position(*end))

    def location(self, span: Span) -> lsp.Location:
        """Return a span with its file."""
        return lsp.Location(uri=self.uri, range=self.range(span))

    def diagnostic(self, found: Diagnostic) -> lsp.Diagnostic:
        """Return a finding; notes with a place of their own are related information."""
        lines = [found.message]
        lines += [found.label.message] if found.label.message else []
        lines += [f"note: {note.message}" for note in found.notes if note.label is None]
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
                if note.label is not None
            ],
        )

    def edits(self, edits: Iterable[Edit]) -> lsp.WorkspaceEdit:
        """Return edits of the text."""
        changes = [lsp.TextEdit(range=self.range(one.span), new_text=one.text) for one in edits]
        return lsp.WorkspaceEdit(changes={self.uri: changes})

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
        self, choice: Choice, number: int, replaced: Span, *, snippets: bool
    ) -> lsp.CompletionItem:
        """Return a choice that is written in place of `replaced`; `number` keeps the order."""
        as_snippet = bool(choice.snippet) and snippets and "$" in choice.snippet
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
            text_edit=lsp.TextEdit(
                range=self.range(replaced), new_text=choice.snippet if as_snippet else plain
            ),
        )
