"""What a client of the language server can do; what it does not say it can, it cannot."""

from __future__ import annotations

from dataclasses import dataclass

from lsprotocol import types as lsp


@dataclass(frozen=True, slots=True)
class Client:
    """What answers depend on.

    Attributes:
        snippets: whether what is written may hold places to fill in.
        insert_replace: whether a choice may say both what it overwrites and what it is put before.
        related: whether a finding's notes are shown at their own places.
        versioned: whether edits say which version of the text they are for.
        lens_refresh: whether lenses can be asked for anew.
    """

    snippets: bool = False
    insert_replace: bool = False
    related: bool = False
    versioned: bool = False
    lens_refresh: bool = False

    @classmethod
    def of(cls, said: lsp.ClientCapabilities) -> Client:
        """Return what a client says of itself."""
        text = said.text_document or lsp.TextDocumentClientCapabilities()
        workspace = said.workspace or lsp.WorkspaceClientCapabilities()
        item = text.completion.completion_item if text.completion else None
        findings, edit = text.publish_diagnostics, workspace.workspace_edit
        lens = workspace.code_lens
        return cls(
            snippets=bool(item and item.snippet_support),
            insert_replace=bool(item and item.insert_replace_support),
            related=bool(findings and findings.related_information),
            versioned=bool(edit and edit.document_changes),
            lens_refresh=bool(lens and lens.refresh_support),
        )
