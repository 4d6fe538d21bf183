"""`jfagen lsp` as a process: what it says it can do, for which editors, and how it ends."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from builders import ROOT, schedule_text
from lsp_client import Editor, Refused, offset_of, place_of
from test_lsp import INVALID_PARAMS, document, error_text, place

URI = "untitled:1"


# ---- Places in other units, and other editors --------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_places_are_in_the_units_that_the_editor_prefers(encoding):
    text = "\ufeffkernel a { # é 😀\r\n  tile { } # 😀\r\n  rolle mma { } }"
    editor = Editor({"general": {"positionEncodings": [encoding, "utf-16"]}})
    assert editor.initialized["capabilities"]["positionEncoding"] == encoding
    found = editor.open(URI, text)
    for one in found:
        for end in ("start", "end"):
            line, character = one["range"][end]["line"], one["range"][end]["character"]
            assert place_of(text, offset_of(text, one["range"][end], encoding), encoding) == (
                (line, character)
            )
    assert place_of(text, text.index("rolle"), encoding) in [
        tuple(one["range"]["start"].values()) for one in found
    ]
    first = editor.at("hover", URI, place_of(text, text.index("ernel"), encoding))
    assert first["range"]["start"] == {"line": 0, "character": 3 if encoding == "utf-8" else 1}
    assert editor.end() == (0, "")


def test_a_plain_editor_gets_plain_answers():
    editor, uri, text = Editor({}), "file:///c%3A/a%20b/x.sched", error_text("buffer_twice")
    (found,) = editor.open(uri, text)
    assert not found.get("relatedInformation")
    assert re.search(r"note: .* \(line \d+\)", found["message"])
    text = schedule_text("fwd")
    editor.change(uri, text)
    items = editor.at("completion", uri, place(text, "|role mma"))
    assert {one["insertTextFormat"] for one in items} == {1}
    (role,) = [one for one in items if one["label"] == "role"]
    assert role["textEdit"]["newText"] == "role" and "range" in role["textEdit"]
    answer = editor.at("rename", uri, place(text, "role |mma"), newName="another")
    assert set(answer["changes"]) == {uri}
    assert editor.proved(uri)[0] == [] and editor.refreshes == 0
    assert editor.end() == (0, "")


# ---- The server itself -------------------------------------------------------------------------


def test_a_text_that_is_not_open_is_refused_and_the_server_lives_on():
    editor, uri = Editor(), URI
    for method in ("hover", "completion", "definition", "documentHighlight", "prepareRename"):
        with pytest.raises(Refused, match="is not open") as refused:
            editor.at(method, uri, (0, 0))
        assert refused.value.code == INVALID_PARAMS
    for method in ("documentSymbol", "codeLens"):
        assert editor.ask(f"textDocument/{method}", document(uri)) == []
    with pytest.raises(Refused):
        editor.ask("textDocument/semanticTokens/full", document(uri))
    editor.tell("$/cancelRequest", {"id": 1})
    editor.tell("workspace/didChangeConfiguration", {"settings": {}})
    assert editor.open(uri, schedule_text("fwd")) == []
    assert editor.shown == []
    assert editor.end() == (0, "")


def test_a_request_that_cannot_be_read_is_answered():
    editor = Editor()
    for method, params in (
        ("textDocument/hover", {}),
        ("textDocument/rename", {"textDocument": {"uri": 3}, "position": [], "newName": None}),
    ):
        with pytest.raises(Refused, match=f"wrong parameters of {method}") as refused:
            editor.ask(method, params)
        assert refused.value.code == INVALID_PARAMS
    assert editor.open(URI, schedule_text("fwd")) == []
    code, said = editor.end()
    assert code == 0 and "Unable to deserialize message" in said


def test_what_the_server_can_do_is_what_it_says():
    editor = Editor()
    can = editor.initialized["capabilities"]
    assert can["completionProvider"]["triggerCharacters"] == [" ", "{", "[", ",", "."]
    assert can["renameProvider"] == {"prepareProvider": True}
    assert can["codeActionProvider"]["codeActionKinds"] == ["quickfix"]
    for feature in (
        *("hover", "definition", "references", "documentHighlight", "documentSymbol"),
        *("documentFormatting", "codeLens"),
    ):
        assert can[f"{feature}Provider"] not in (None, False), feature
    assert editor.initialized["serverInfo"]["name"] == "jfagen"
    assert editor.end() == (0, "")


def test_an_end_that_was_not_asked_for_is_1():
    editor = Editor()
    editor.tell("exit", None)
    assert editor.gone() == (1, "")


def test_an_editor_that_goes_takes_the_server_with_it():
    editor = Editor()
    editor.open(URI, schedule_text("bwd"))
    editor.process.stdin.close()
    assert editor.gone() == (1, "")


def test_the_server_ends_while_it_proves():
    editor = Editor()
    editor.open(URI, schedule_text("bwd"))
    assert editor.status(URI) == "checked; proving"
    assert editor.end() == (0, "")


def test_no_text_waits_for_all_kernels_of_another():
    editor, many = Editor(), "untitled:many"
    editor.open(many, schedule_text("hopper/bwd"))
    editor.open(URI, schedule_text("fwd"))
    found, status = editor.proved(URI)
    assert found == [] and "8 rules proved" in status
    assert re.search(r"proving|[1-4] of 8 kernels", editor.status(many))
    assert "8 of 8 kernels" in editor.proved(many)[1]
    assert editor.end() == (0, "")


def test_without_its_library_the_command_says_what_to_install():
    code = (
        "import sys; sys.modules['lsprotocol'] = None; sys.argv = ['jfagen', 'lsp'];"
        "from jfagen.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: the language server needs `lsprotocol`\nhelp: `pip install pygls`\n"
    )
