"""The VS Code extension: its colours agree with the parser, and its files with each other."""

from __future__ import annotations

import contextlib
import json
import re
import shutil

import pytest
from browser import Browser
from builders import SHIPPED, STRANGERS, compiled_text, schedule_text

import jfagen
from jfagen.diagnostics import SourceFile
from jfagen.editor.vscode import NAME, vscode_files, vscode_folder, write_vscode
from jfagen.syntax import format_schedule
from jfagen.syntax.grammar import ITEM_KEYWORDS, NAMED_TERMINALS, grammar, literals
from jfagen.syntax.tokens import Kind, pieces

FOLDER = vscode_folder()
#: Every form of the language that parses, also those that no shipped schedule has.
EVERYTHING = """\
kernel everything {
  algorithm attention.backward  target sm_100a
  problem { head_dim in {64, 128} dtype in {bf16, fp16} q in {dense, jagged} kv broadcast mask window 128 }
  tile { x 3  m tune 64..128 default 64 x 2 as g  n tune {64, 128} default 128 }
  role first { warps 4 (8 if head_dim 64, 2 if dtype f32) registers tune {24, 32} default 24 default }
  role second[g] { warps 1 }
  smem stage, ring[g] : bf16[m, d/2] depth tune 2..4 default 3 slices 2 (4 if head_dim 64)
    holds k, v, w lives load_q[i-1] -> mma[0][i]
  tmem s : dtype[n, 3]
  region r[g] { (s, (stage over ring)) over t over (a, b[0]) }
  apart { s, ring[g] }  together { s[0], ring[1] }
  first { load_q[g] with load_k[i+1] with load_v  loop_x }
  loop i over kv staggered {
    second[0] { peel turn { a[g] b } wait c[i] d in slices of tune {2, 3} default 3 through stage hold 2 }
    first { e in slices of 3 through stage f }
  }
  pair {
    leader 0  st, dpt split m  dv, dk split d loads q_d, do_d
    dq split d exchange ds by m through outbox relay pass_ds
  }
  tiles { persistent order valid by q_length with block innermost next clc asked by first }
}
"""  # noqa: E501
TEXTS = {name: schedule_text(name) for name in [*SHIPPED, *STRANGERS]} | {"everything": EVERYTHING}

#: Terminal -> the scope of its text; two where it means two things.
SCOPES = {
    terminal: tuple(scope.split())
    for scope, terminals in {
        "keyword.other.item": "ALGORITHM TARGET PROBLEM TILE APART TOGETHER PAIR TILES",
        "storage.type.kernel": "KERNEL",
        "storage.type.role": "ROLE",
        "storage.type.region": "REGION",
        "storage.modifier.memory": "SMEM TMEM REG",
        "keyword.control.loop": "LOOP",
        "keyword.control.step": "PEEL TURN WAIT",
        "keyword.operator.wordlike": "IN IF TUNE X AS OVER WITH OF THROUGH BY SPLIT RELAY",
        "keyword.other.setting": (
            "HEAD_DIM Q KV MASK WARPS REGISTERS DEPTH HOLDS LIVES STAGGERED HOLD LEADER LOADS "
            "EXCHANGE ORDER NEXT DEAL ASKED"
        ),
        "keyword.other.setting keyword.operator.wordlike": "SLICES DEFAULT",
        "keyword.other.setting support.type.element": "DTYPE",
        "support.type.element": "BF16 FP16 F32",
        "support.function.algorithm": "ALGORITHM_NAME",
        "constant.language.target": "SM_100A SM_90A",
        "constant.language.layout": "BROADCAST JAGGED DENSE",
        "constant.language.mask": "NONE CAUSAL WINDOW",
        "constant.language.residency": "PERSISTENT ONE_PER_CTA",
        "constant.language.order": ("GIVEN LONGEST_FIRST VALID KV_LENGTH Q_LENGTH BLOCK INNERMOST"),
        "constant.language.next": "STATIC CLC ZIGZAG ROUND_ROBIN",
        "constant.numeric.integer": "NUMBER",
        "entity.name.function.kernel": "KERNEL_NAME",
        "entity.name.type.role": "ROLE_NAME",
        "entity.name.namespace.region": "REGION_NAME",
        "entity.name.function.op": "OP_NAME",
        "entity.name.variable.buffer variable.other.buffer": "BUFFER_NAME",
        "variable.other.value": "VALUE_NAME",
        "variable.other.symbol": "SYMBOL_NAME",
        "variable.parameter.group": "GROUP_NAME",
        "punctuation.section.block.begin": "LBRACE",
        "punctuation.section.block.end": "RBRACE",
        "punctuation.section.brackets.begin": "LSQB",
        "punctuation.section.brackets.end": "RSQB",
        "punctuation.section.parens.begin": "LPAR",
        "punctuation.section.parens.end": "RPAR",
        "punctuation.separator.comma": "COMMA",
        "punctuation.separator.type": "COLON",
        "keyword.operator.range": "__ANON_0",
        "keyword.operator.arrow": "__ANON_1",
        "keyword.operator.arithmetic": "SLASH PLUS MINUS",
    }.items()
    for terminal in terminals.split()
}

#: (schedule, the start of a line, a word of it and which one, its scope)
CASES = [
    ("fwd", "# Forward on B200", "Forward", 0, "comment.line.number-sign"),
    ("fwd", "kernel jfa_fwd", "jfa_fwd", 0, "entity.name.function.kernel"),
    ("fwd", "  algorithm", "attention.forward", 0, "support.function.algorithm"),
    ("fwd", "  problem", "dtype", 0, "keyword.other.setting"),
    ("fwd", "  problem", "broadcast", 0, "constant.language.layout"),
    ("fwd", "    m 128 x 2", "g", 0, "variable.parameter.group"),
    ("fwd", "    m 128 x 2", "two", 0, "comment.line.number-sign"),
    ("fwd", "  role correction", "default", 0, "keyword.other.setting"),
    ("fwd", "  role load ", "load", 0, "entity.name.type.role"),
    ("fwd", "  smem kv", "kv", 0, "entity.name.variable.buffer"),
    ("fwd", "  smem kv", "v", 0, "variable.other.value"),
    ("fwd", "  smem out", "out", 0, "entity.name.variable.buffer"),
    ("fwd", "  tmem p[g]", "slices", 0, "keyword.other.setting"),
    ("fwd", "  region", "scores", 0, "entity.name.namespace.region"),
    ("fwd", "  region", "over", 0, "keyword.operator.wordlike"),
    ("fwd", "  region", "alpha", 0, "variable.other.buffer"),
    ("fwd", "  load {", "load", 0, "entity.name.type.role"),
    ("fwd", "  load {", "load_q", 0, "entity.name.function.op"),
    ("fwd", "    softmax[g] {", "softmax", 0, "entity.name.type.role"),
    ("fwd", "    softmax[g] {", "softmax", 1, "entity.name.function.op"),
    ("fwd", "    softmax[g] {", "peel", 0, "keyword.control.step"),
    ("fwd", "  tiles", "load", 0, "entity.name.type.role"),
    ("fwd", "  tiles", "kv_length", 0, "constant.language.order"),
    ("bwd", "    head_dim in", "64", 0, "constant.numeric.integer"),
    ("bwd", "  smem k ", "dtype", 0, "support.type.element"),
    ("bwd", "    reduce  {", "slices", 0, "keyword.operator.wordlike"),
    ("bwd", "    reduce  {", "stage", 0, "variable.other.buffer"),
    ("bwd", "    load    {", "+", 0, "keyword.operator.arithmetic"),
    ("hopper/bwd", "  loop j", "q", 0, "variable.other.value"),
    ("hopper/bwd", "  tiles", "round_robin", 0, "constant.language.next"),
    ("hopper/fwd", "  tiles", "zigzag", 0, "constant.language.next"),
    ("everything", "  first {", "loop_x", 0, "entity.name.function.op"),
    ("everything", "    holds", "->", 0, "keyword.operator.arrow"),
    ("everything", "  tile {", "default", 0, "keyword.operator.wordlike"),
    ("everything", "  tile {", "x", 0, "variable.other.symbol"),
    ("everything", "  tile {", "x", 1, "keyword.operator.wordlike"),
    ("everything", "  tile {", "..", 0, "keyword.operator.range"),
]


def manifest():
    return json.loads((FOLDER / "package.json").read_text())


def colours():
    return json.loads((FOLDER / "syntaxes" / "sched.tmLanguage.json").read_text())


@pytest.fixture(scope="module")
def scopes_of(tmp_path_factory):
    """Text -> the scopes of every character that has one, through a TextMate engine."""
    with contextlib.chdir(tmp_path_factory.mktemp("engine")):  # it makes a folder when imported
        from textmate_grammar.parsers.base import LanguageParser
    engine = LanguageParser(colours())

    def scopes(text):
        starts = [0]
        for line in text.split("\n"):
            starts.append(starts[-1] + len(line) + 1)
        found = {}
        for (row, column), content, names in engine.parse_string(text).flatten():
            at = starts[row] + column
            found |= dict.fromkeys(range(at, at + len(content)), names)
        return found

    return scopes


def tokens(text):
    """Return the tokens of a text as the parser reads them: its context gives their types."""
    return list(grammar().parse_interactive(text).iter_parse())


def mismatches(text, scopes):
    """Return the tokens whose characters do not all have a scope of their kind."""
    found = []
    for token in tokens(text):
        seen = {
            scopes[at][-1].removesuffix(".sched") for at in range(token.start_pos, token.end_pos)
        }
        if len(seen) != 1 or not seen <= set(SCOPES[token.type]):
            found.append((token.type, str(token), token.start_pos, seen))
    return found


def test_every_terminal_has_a_scope_and_every_keyword_a_pattern():
    assert set(SCOPES) == {*literals(), *NAMED_TERMINALS}
    patterns = " ".join(
        re.findall(r'"(?:match|begin|end)": "((?:[^"\\]|\\.)*)"', json.dumps(colours()))
    )
    plain = re.sub(r"\\\\[bsn]|\[\^?(?:\\\\.|[^\]])*\]", " ", patterns)
    keywords = {text for text in literals().values() if text[0].isalpha()}
    assert set(re.findall(r"[a-z]\w*", plain)) == keywords


def test_every_rule_of_the_colours_is_used_and_every_used_one_exists():
    used = set(re.findall(r'"include": "#([\w-]+)"', json.dumps(colours())))
    assert used == set(colours()["repository"])


@pytest.mark.parametrize("name", TEXTS)
def test_the_colours_agree_with_the_parser(name, scopes_of):
    scopes = scopes_of(TEXTS[name])
    assert mismatches(TEXTS[name], scopes) == []
    assert not [names for names in scopes.values() if "invalid" in "".join(names)]
    for piece in pieces(TEXTS[name]):
        if piece.kind is Kind.COMMENT:
            assert "comment.line.number-sign.sched" in scopes[piece.start]
            assert "comment.line.number-sign.sched" in scopes[piece.end - 1]


@pytest.mark.parametrize("between", [" ", "\n", " # role a { load }\n", "\n\n# over in as by }\n"])
def test_the_colours_do_not_depend_on_the_layout(between, scopes_of):
    for name in ("fwd", "hopper/bwd", "everything"):
        text = between.join(tokens(TEXTS[name]))
        assert mismatches(text, scopes_of(text)) == []


def test_a_name_that_is_a_keyword_elsewhere_is_coloured_as_a_name(scopes_of):
    """Every name becomes every word once; each text has another word for each name."""
    free = ("everything", "first", "second", "stage", "ring", "s", "r", "g", "i")
    words = sorted({text for text in literals().values() if text[0].isalpha()} - set(ITEM_KEYWORDS))
    for turn in range(len(words)):
        called = {name: words[(turn + at) % len(words)] for at, name in enumerate(free)}
        names = rf"\b({'|'.join(free)})\b"
        text = re.sub(names, lambda found, new=called: new[found[0]], EVERYTHING)
        assert mismatches(text, scopes_of(text)) == [], called


@pytest.mark.parametrize(("name", "line", "word", "which", "scope"), CASES)
def test_the_scope_of_a_word(name, line, word, which, scope, scopes_of):
    text = TEXTS[name]
    start = re.search(rf"^{re.escape(line)}", text, re.M).start()
    edge = r"\b" if word[0].isalnum() else ""
    places = [match.start() for match in re.finditer(edge + re.escape(word) + edge, text[start:])]
    at = start + places[which]
    assert "\n" not in text[start:at]
    assert scopes_of(text)[at][-1] == f"{scope}.sched"


@pytest.mark.parametrize("junk", ["%", "1234567890", "12a", "ä"])
def test_what_is_no_word_number_or_sign_is_marked(junk, scopes_of):
    text = schedule_text("fwd").replace("registers 184", f"registers {junk}")
    assert scopes_of(text)[text.index(junk)][-1].startswith("invalid.illegal.")


def test_an_item_recovers_from_what_is_open_before_it(scopes_of):
    text = schedule_text("fwd").replace("{ load_q[g] }", "{ load_q[g").replace("warps 4 ", "warps ")
    scopes = scopes_of(text)
    assert scopes[text.index("loop i")][-1] == "keyword.control.loop.sched"
    assert scopes[text.index("i over kv")][-1] == "variable.other.symbol.sched"


def test_the_manifest_agrees_with_the_files_and_the_package():
    package = manifest()
    assert (package["name"], package["version"]) == (NAME, jfagen.__version__)
    contributes = package["contributes"]
    (language,), (rules,), (snippets,) = (
        contributes[kind] for kind in ("languages", "grammars", "snippets")
    )
    assert (language["id"], language["extensions"]) == ("sched", [".sched"])
    assert rules["language"] == snippets["language"] == language["id"]
    assert rules["scopeName"] == colours()["scopeName"]
    named = [language["configuration"], rules["path"], snippets["path"], package["main"]]
    assert {(FOLDER / path).resolve().relative_to(FOLDER).as_posix() for path in named} | {
        "package.json", "README.md", ".vscodeignore",
    } == {path.as_posix() for path in vscode_files()}  # fmt: skip
    client = (FOLDER / "extension.js").read_text()
    (setting,) = contributes["configuration"]["properties"]
    assert contributes["configuration"]["properties"][setting]["default"] == ["jfagen", "lsp"]
    for text in (setting, contributes["commands"][0]["command"], *package["dependencies"]):
        assert f'"{text}' in client
    assert setting in (FOLDER / "README.md").read_text()


def test_the_client_is_javascript():
    """As a browser reads it, which is a dependency of the tests; Node.js is none."""

    def is_read(text):
        attempt = f"new Function({json.dumps(text)}); return true"
        return f"(() => {{ try {{ {attempt} }} catch {{ return false }} }})()"

    client = (FOLDER / "extension.js").read_text()
    with Browser(400, 300) as browser:
        assert browser.js(is_read(client))
        assert not browser.js(is_read(client.replace(")", "", 1)))


def expanded(body):
    """Return a snippet's text as an editor inserts it."""
    return re.sub(r"\$\{\d+:([^}]*)\}|\$\d", lambda match: match[1] or "", "\n".join(body))


SNIPPETS = json.loads((FOLDER / "snippets" / "sched.json").read_text())


@pytest.mark.parametrize("name", SNIPPETS)
def test_a_snippet_is_canonical_and_compiles(name):
    text = expanded(SNIPPETS[name]["body"])
    assert format_schedule(SourceFile(path="a.sched", text=text)) == text
    assert compiled_text(text).kernel.text


def language():
    return json.loads((FOLDER / "language-configuration.json").read_text())


@pytest.mark.parametrize("name", SHIPPED)
def test_the_rules_of_indentation_give_the_lines_of_a_schedule(name):
    rules = language()["indentationRules"]
    markers = language()["folding"]["markers"]
    indent, open_folds = 0, 0
    for line in schedule_text(name).splitlines():
        indent -= 2 * bool(re.search(rules["decreaseIndentPattern"], line))
        assert not line or len(line) - len(line.lstrip()) == indent, line
        indent += 2 * bool(re.search(rules["increaseIndentPattern"], line))
        open_folds += bool(re.search(markers["start"], line))
        open_folds -= bool(re.search(markers["end"], line))
        assert open_folds == indent / 2
    assert indent == 0


@pytest.mark.parametrize("name", SHIPPED)
def test_a_word_of_the_editor_is_a_word_of_the_language(name):
    text = schedule_text(name)
    pattern = re.compile(language()["wordPattern"])
    for piece in pieces(text):
        if piece.kind in (Kind.WORD, Kind.NUMBER):
            assert pattern.match(text, piece.start).end() == piece.end


def contents(folder):
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_the_extension_is_written_to_a_new_folder(tmp_path):
    written = write_vscode(tmp_path / "new")
    assert contents(tmp_path / "new") == {
        name.as_posix(): (FOLDER / name).read_bytes() for name in vscode_files()
    }
    assert written == [tmp_path / "new" / name for name in vscode_files()]
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_an_older_version_is_replaced_and_what_npm_installed_stays(tmp_path):
    older = tmp_path / "older"
    write_vscode(older)
    (older / "extension.js").write_text("old")
    (older / "node_modules").mkdir()
    (older / "node_modules" / "kept.js").write_text("kept")
    write_vscode(older)
    assert (older / "extension.js").read_bytes() == (FOLDER / "extension.js").read_bytes()
    assert (older / "node_modules" / "kept.js").read_text() == "kept"


@pytest.mark.parametrize("manifest", [None, "no json", "[]", '{"name": "another"}'])
def test_another_folder_is_refused(manifest, tmp_path):
    folder = tmp_path / "another"
    folder.mkdir()
    if manifest is not None:
        (folder / "package.json").write_text(manifest)
    before = contents(tmp_path)
    with pytest.raises(FileExistsError, match="does not hold the extension `jfagen-schedules`"):
        write_vscode(folder)
    assert contents(tmp_path) == before


def test_a_file_and_a_folder_below_nothing_are_refused(tmp_path):
    (tmp_path / "file").write_text("a file")
    with pytest.raises(FileExistsError):
        write_vscode(tmp_path / "file")
    with pytest.raises(FileNotFoundError, match="is no folder"):
        write_vscode(tmp_path / "missing" / "new")
    assert contents(tmp_path) == {"file": b"a file"}


@pytest.mark.parametrize("older", [False, True])
def test_nothing_is_written_unless_everything_is(older, tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    if older:
        write_vscode(folder)
        (folder / "README.md").write_text("old")
    before = contents(tmp_path)
    copy, copied = shutil.copyfile, []

    def full_disk(source, target):
        copied.append(copy(source, target))
        if len(copied) == len(vscode_files()):
            raise OSError("no space left")

    monkeypatch.setattr(shutil, "copyfile", full_disk)
    with pytest.raises(OSError, match="no space left"):
        write_vscode(folder)
    assert contents(tmp_path) == before
    assert folder.exists() == older
