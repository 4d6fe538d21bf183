"""`jfagen lsp` over its protocol: a server in a process of its own, asked as editors ask."""

from __future__ import annotations

import re

import pytest
from builders import ROOT, SHIPPED, edited, schedule_text
from lsp_client import (
    Editor,
    Refused,
    applied,
    covered,
    offset_of,
    place_of,
    workspace_edits,
)
from test_editor import own_names, seen

from jfagen.diagnostics import SourceFile
from jfagen.syntax import format_schedule

ERRORS = ROOT / "tests" / "errors"
INVALID_PARAMS = -32602
#: Findings that the checks make, with notes at other places.
RELATED = ["buffer_twice", "default_twice", "op_in_two_roles", "region_of_two_memories"]
#: Findings that only the proof makes.
PROVED = {
    "mma_order_overwrites_p": "order-cycle",
    "kv_depth_4": "smem-overflow",
    "acc_too_deep": "tmem-overflow",
    "kv_ring_of_one": "shallow-ring",
    "s_and_p_apart": "tmem-overflow",
}
MISSPELT = [
    *("misspelt_algorithm", "misspelt_asker", "misspelt_buffer_in_region", "misspelt_op"),
    *("misspelt_role", "misspelt_value"),
]
RULES = re.compile(r"\d+ rules \w+, .*SMEM [\d,]+ of [\d,]+ bytes.* \d+ barriers")


@pytest.fixture(scope="module")
def editor():
    """One server for all tests; after them it has said nothing that was not asked for."""
    editor = Editor()
    yield editor
    assert editor.shown == []
    assert editor.end() == (0, "")


@pytest.fixture
def uri(request):
    """A text of the test's own, in no file."""
    return "untitled:" + re.sub(r"\W+", "-", request.node.name)


def error_text(name):
    return SourceFile.from_path(ERRORS / f"{name}.sched").text


def document(uri):
    return {"textDocument": {"uri": uri}}


def place(text, words):
    """Return the place inside `words` where they say `|`."""
    assert text.count(words.replace("|", "")) == 1, words
    return place_of(text, text.index(words.replace("|", "")) + words.index("|"))


# ---- Findings ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_schedule_has_no_finding_and_then_its_proof_above_it(editor, name):
    uri = (ROOT / "schedules" / f"{name}.sched").as_uri()
    refreshes = editor.refreshes
    assert editor.open(uri, schedule_text(name)) == []
    found, status = editor.proved(uri)
    assert found == [] and RULES.search(status), status
    assert editor.refreshes > refreshes
    (lens,) = editor.ask("textDocument/codeLens", document(uri))
    assert covered(schedule_text(name), lens["range"]).startswith("jfa_")
    editor.close(uri)


def test_a_wrong_word_is_found_at_its_place(editor, uri):
    text = edited("fwd", ("warps 4  default", "warps 3  default"))
    (found,) = editor.open(uri, text)
    assert covered(text, found["range"]) == "3"
    assert (found["code"], found["severity"], found["source"]) == ("bad-warps", 1, "jfagen")
    assert found["message"].startswith("the role `correction` has 3 warps\nhelp: write 4")
    assert editor.status(uri) == "refused: 1 finding"


@pytest.mark.parametrize("name", RELATED)
def test_notes_at_other_places_are_related(editor, uri, name):
    text = error_text(name)
    (found,) = editor.open(uri, text)
    assert found["relatedInformation"]
    for related in found["relatedInformation"]:
        assert related["location"]["uri"] == uri
        assert related["location"]["range"] != found["range"]
        assert covered(text, related["location"]["range"]).strip()


@pytest.mark.parametrize(("name", "code"), PROVED.items())
def test_what_only_the_proof_finds_comes_after_the_first_answer(editor, uri, name, code):
    assert editor.open(uri, error_text(name)) == []
    found, status = editor.proved(uri)
    assert [one["code"] for one in found] == [code]
    assert status == "refused: 1 finding"


def test_what_is_mended_is_found_no_more(editor, uri):
    assert editor.open(uri, error_text("kv_depth_4")) == []
    assert editor.proved(uri)[0]
    assert editor.change(uri, edited("fwd", ("depth 3", "depth zwei"))) != []
    assert editor.change(uri, schedule_text("fwd")) == []
    assert editor.proved(uri)[0] == []
    assert editor.refreshes > 0


def test_a_text_that_is_closed_has_no_findings(editor, uri):
    assert editor.open(uri, "kernel") != []
    editor.close(uri)
    assert editor.findings(uri) == []
    assert editor.ask("textDocument/codeLens", document(uri)) == []


def test_a_text_that_is_proved_when_it_is_closed_gets_no_findings_later(editor, uri):
    assert editor.open(uri, error_text("kv_depth_4")) == []
    editor.close(uri)
    assert editor.findings(uri) == []
    assert editor.open(uri + "-2", schedule_text("fwd")) == []
    editor.proved(uri + "-2")  # the one thread of proofs has come past the first text
    assert not editor.published.get(uri)


def test_two_texts_are_each_proved(editor, uri):
    assert editor.open(uri + "1", error_text("kv_depth_4")) == []
    assert editor.open(uri + "2", schedule_text("hopper/fwd")) == []
    assert editor.proved(uri + "2")[0] == []
    assert [one["code"] for one in editor.proved(uri + "1")[0]] == ["smem-overflow"]


# ---- Words and names ---------------------------------------------------------------------------


def test_hover_says_where_a_buffer_lies_once_that_is_proved(editor, uri):
    text = schedule_text("fwd")
    editor.open(uri, text)
    editor.proved(uri)
    shown = editor.at("hover", uri, place(text, "tmem |s[g]"))
    assert covered(text, shown["range"]) == "s"
    assert shown["contents"]["kind"] == "markdown"
    assert "its first slot: columns 0..127" in shown["contents"]["value"]
    assert editor.at("hover", uri, (4, 0)) is None
    assert editor.at("hover", uri, (10_000, 10_000)) is None


def test_a_choice_takes_the_place_of_what_is_typed(editor, uri):
    text = edited("fwd", ("tiles { persistent", "til { persistent"))
    editor.open(uri, text)
    found = editor.at("completion", uri, place(text, "til| {"))
    (item,) = [one for one in found if one["label"] == "tiles"]
    edit = {"range": item["textEdit"]["replace"], "newText": item["textEdit"]["newText"]}
    assert applied(text, [edit]) == schedule_text("fwd")
    assert item["textEdit"]["insert"] == item["textEdit"]["replace"]
    assert item["detail"] == "where tiles come from"
    assert [one["sortText"] for one in found] == sorted(one["sortText"] for one in found)


def test_a_choice_inside_a_word_may_keep_what_is_behind(editor, uri):
    text = schedule_text("fwd")
    editor.open(uri, text)
    item, *_ = editor.at("completion", uri, place(text, "next cl|c asked"))
    assert covered(text, item["textEdit"]["insert"]) == "cl"
    assert covered(text, item["textEdit"]["replace"]) == "clc"


@pytest.mark.parametrize(
    ("old", "new", "first"),
    [
        ("depth 3", "depth |", "1"),
        ("holds k, v", "holds k, |", "q"),
        ("{ pv[0][i-1]", "{ pv[|", "0"),
        ("attention.forward", "attention.|", "attention.forward"),
        ("over kv {", "over |", "kv"),
        ("role mma        {", "role mma {|", None),
        ("role mma        {", "role mma { |", None),
        ("warps 1  registers 24 }\n  role load", "warps 1 |", None),
    ],
)
def test_unasked_there_are_choices_only_where_something_must_follow(editor, uri, old, new, first):
    text = edited("fwd", (old, new)).replace("|", "")
    editor.open(uri, text)
    where = place_of(text, edited("fwd", (old, new)).index("|"))
    unasked, asked = ({"triggerKind": kind} for kind in (2, 1))
    found = editor.at("completion", uri, where, context=unasked)
    assert [one["label"] for one in found[:1]] == ([first] if first else [])
    assert editor.at("completion", uri, where, context=asked)


def test_an_editor_with_snippets_gets_places_to_fill_in(editor, uri):
    text = schedule_text("fwd")
    editor.open(uri, text)
    items = {one["label"]: one for one in editor.at("completion", uri, place(text, "|role mma"))}
    assert items["role"]["insertTextFormat"] == 2
    assert items["role"]["textEdit"]["newText"].startswith("role ${1:name} {")
    assert items["problem"]["insertTextFormat"] == 1
    items = editor.at("completion", uri, place(text, "{ |rescale[g]"))
    (item,) = [one for one in items if one["label"] == "rescale"]
    assert (item["textEdit"]["newText"], item["insertTextFormat"]) == ("rescale[g][i]", 1)


def test_a_name_leads_to_where_it_is_introduced_here_or_in_the_library(editor, uri):
    text = schedule_text("bwd")
    editor.open(uri, text)
    match = re.search(r"asked by |\bload\b", text)
    found = editor.at("definition", uri, place_of(text, match.start() + 1))
    assert found["uri"] == uri and covered(text, found["range"]) == "load"
    op = re.search(r"\breduce_dq\[", text)
    found = editor.at("definition", uri, place_of(text, op.start()))
    assert found["uri"].endswith("/jfagen/algorithm/attention_backward.py")
    assert editor.at("definition", uri, (0, 0)) is None


def test_references_and_highlights_are_all_places_of_a_name(editor, uri):
    text = schedule_text("fwd")
    editor.open(uri, text)
    where = place(text, "role |correction")
    places = [match.span() for match in re.finditer(r"\bcorrection\b(?! has)", text)]
    for method, more in (
        ("references", {"context": {"includeDeclaration": True}}),
        ("documentHighlight", {}),
    ):
        ranges = [one["range"] for one in editor.at(method, uri, where, **more)]
        assert [(offset_of(text, r["start"]), offset_of(text, r["end"])) for r in ranges] == places
    uses = editor.at("references", uri, where, context={"includeDeclaration": False})
    assert len(uses) == len(places) - 1


@pytest.mark.parametrize("name", ["fwd", "bwd", "hopper/fwd", "hopper/bwd"])
def test_every_name_of_the_schedules_own_is_renamed_everywhere(editor, uri, name):
    text = schedule_text(name)
    editor.open(uri, text)
    own, done = own_names(seen(name)), set()
    for one in seen(name).names:
        if (one.kind, one.text) in own - done:
            done.add((one.kind, one.text))
            where = place_of(text, one.span.start)
            assert covered(text, editor.at("prepareRename", uri, where)) == one.text
            answer = editor.at("rename", uri, where, newName="another")
            edits = workspace_edits(answer, uri, editor.versions[uri])
            assert editor.change(uri, applied(text, edits)) == [], one
            assert editor.change(uri, text) == []
    assert done == own


def test_what_is_not_the_schedules_own_is_refused_with_the_reason(editor, uri):
    text = schedule_text("fwd")
    editor.open(uri, text)
    with pytest.raises(Refused, match="`rescale` is a name of the algorithm's") as refused:
        editor.at("prepareRename", uri, place(text, "{ |rescale[g]"))
    assert refused.value.code == INVALID_PARAMS
    with pytest.raises(Refused, match="there is a role `mma` already"):
        editor.at("rename", uri, place(text, "role |load "), newName="mma")


# ---- Whole texts -------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_formatting_gives_the_canonical_text(editor, uri, end):
    text = schedule_text("fwd").replace("  role", "role").replace("  p[g]", " p [ g ]")
    text = "# 😀 \u2028 x   \n\n\n" + text.replace(" : ", ":").replace("}\n", "}  \n", 4)
    text = text.replace("\n", end)
    editor.open(uri, text)
    options = {"tabSize": 8, "insertSpaces": False}
    edits = editor.ask("textDocument/formatting", document(uri) | {"options": options})
    wanted = format_schedule(SourceFile(path="a.sched", text=text))
    assert wanted != text and applied(text, edits) == wanted
    editor.change(uri, wanted)
    assert editor.ask("textDocument/formatting", document(uri) | {"options": options}) == []


def test_a_text_that_does_not_parse_is_not_formatted(editor, uri):
    editor.open(uri, schedule_text("fwd").removesuffix("}\n"))
    options = {"tabSize": 2, "insertSpaces": True}
    assert editor.ask("textDocument/formatting", document(uri) | {"options": options}) is None


@pytest.mark.parametrize("name", MISSPELT)
def test_a_misspelt_name_is_mended_by_what_is_offered(editor, uri, name):
    text = error_text(name)
    (found,) = editor.open(uri, text)
    asked = document(uri) | {"range": found["range"], "context": {"diagnostics": [found]}}
    action, *_ = editor.ask("textDocument/codeAction", asked)
    assert action["kind"] == "quickfix" and action["diagnostics"] == [found]
    assert action["title"].startswith("Write ") and "`" not in action["title"]
    edits = workspace_edits(action["edit"], uri, 1)
    assert editor.change(uri, applied(text, edits)) == []
    assert editor.ask("textDocument/codeAction", asked) == []


def test_actions_are_those_of_the_place_and_the_kind_that_was_asked_for(editor, uri):
    (found,) = editor.open(uri, error_text("misspelt_op"))
    area, start = found["range"], {"line": 0, "character": 0}

    def actions(area, only):
        context = {"diagnostics": [], "only": only}
        asked = document(uri) | {"range": area, "context": context}
        return len(editor.ask("textDocument/codeAction", asked))

    assert actions(area, ["quickfix"]) == actions(area, [""]) == 1
    assert actions(area, ["source.organizeImports"]) == actions(area, ["refactor"]) == 0
    assert actions({"start": start, "end": start}, ["quickfix"]) == 0
    assert actions({"start": start, "end": area["end"]}, ["quickfix"]) == 1


def test_symbols_are_roles_buffers_and_regions(editor, uri):
    text = schedule_text("fwd")
    editor.open(uri, text)
    symbols = editor.ask("textDocument/documentSymbol", document(uri))
    names = [covered(text, one["selectionRange"]) for one in symbols]
    assert names == [one["name"] for one in symbols]
    assert names[:2] == ["correction", "softmax"] and names[-1] == "scores"
    assert symbols[0]["detail"] == "role correction { warps 4 default }"
