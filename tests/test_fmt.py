"""The canonical form: what it keeps, what it looks like, and the command that writes it."""

from __future__ import annotations

import os
import random
from itertools import pairwise
from pathlib import Path
from textwrap import dedent

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from jfagen.cli.fmt import fmt_command
from jfagen.diagnostics import CompileError, SourceFile
from jfagen.syntax import format_schedule, parse
from jfagen.syntax.tokens import Kind, pieces

SCHEDULES = sorted((Path(__file__).parents[1] / "schedules").rglob("*.sched"))

EVERYTHING = """\
kernel everything {
  algorithm attention.backward
  target    sm_90a
  problem { head_dim in {64, 128}  dtype in {bf16, fp16}  q broadcast  kv dense  mask window 512 }
  tile { m 64 x 2 as g  n 128 (64 if head_dim 64) }
  role compute { warps 8  registers 128 (96 if head_dim 64, 88 if dtype fp16) }
  role reduce  { warps 4  registers tune 96..136 default 136  default }
  smem stage : f32[m, 32]  depth tune 1..3 default 2
  smem q_ring, do_ring : dtype[m, d]  holds q, q_d  lives load_q[j] -> dk[j]
  reg acc[g] : f32[64, d]
  tmem p[g]  : bf16[m, n]  slices tune {1, 2, 4} default 2
  region r[g] { (a over b, c[0]) over (x over (y, z), w[g]) }
  apart { a, b[0] }
  together { s, p }
  loop j over q {
    reduce      { reduce_dq[j] in slices of 32 through stage  hold 2 }
    consumer[g] { qk[j+1]  turn { softmax[j]  peel }  pv[j-1] }
    consumer[1] {}
  }
  pair {
    leader 0  st, dpt split m
    dv, dk split d loads q_d, do_d
    dq split d exchange ds by m through outbox relay pass_ds
  }
  tiles { one_per_cta  order valid with block innermost  next clc deal zigzag asked by load }
}
"""
TEXTS = [EVERYTHING, *(path.read_text() for path in SCHEDULES)]


def formatted(text: str) -> str:
    return format_schedule(SourceFile(path="a.sched", text=text))


def parsed(text: str):
    return parse(SourceFile(path="a.sched", text=text))


def in_kernel(body: str) -> str:
    """Return the canonical form of items, without the kernel around them."""
    lines = formatted(f"kernel x {{\n{body}\n}}\n").splitlines()
    return dedent("\n".join(lines[1:-1])) + "\n"


def stands_alone(text: str) -> list[tuple[str, bool]]:
    """Return every comment and whether it has a line of its own."""
    comments = (piece for piece in pieces(text) if piece.kind is Kind.COMMENT)
    starts = [(piece, text.rfind("\n", 0, piece.start) + 1) for piece in comments]
    return [(piece.text, not text[start : piece.start].strip()) for piece, start in starts]


def respaced(text: str, chance: random.Random) -> str:
    """Return the same pieces with other blanks, line ends and comments between them."""
    gaps = [" ", " ", "   ", "\t", "\n", "\n", "\n\n\n", "\r\n", " # note\n", "\n  # own {\n"]
    parts: list[str] = []
    for piece in pieces(text):
        if piece.kind is Kind.COMMENT:
            parts += [piece.text, "\n"]
        else:
            parts += [piece.text, chance.choice(gaps)]
    return "".join(parts)


# ---- Properties ----------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(text=st.sampled_from(TEXTS), chance=st.randoms(use_true_random=False))
def test_formatting_keeps_everything_and_is_stable(text, chance):
    wild = respaced(text, chance)
    once = formatted(wild)
    assert parsed(once) == parsed(text)
    assert formatted(once) == once
    assert [piece.text for piece in pieces(once)] == [piece.text for piece in pieces(wild)]
    assert stands_alone(once) == stands_alone(wild)


@settings(max_examples=40, deadline=None)
@given(text=st.sampled_from(TEXTS), chance=st.randoms(use_true_random=False))
def test_formatted_text_is_clean(text, chance):
    lines = formatted(respaced(text, chance).replace("\r", "")).split("\n")
    assert lines[-1] == "" and lines[-2] != ""
    assert not any(line.endswith((" ", "\r")) or "\t" in line for line in lines)
    assert ("", "") not in set(pairwise(lines))


@pytest.mark.parametrize("path", SCHEDULES, ids=lambda path: path.name)
def test_the_shipped_schedules_are_formatted(path):
    assert formatted(path.read_text()) == path.read_text()


def test_every_construct_in_its_canonical_form():
    assert formatted(EVERYTHING) == EVERYTHING


def test_a_new_line_moves_only_its_own_paragraph():
    (text,) = (
        path.read_text()
        for path in SCHEDULES
        if path.name == "fwd.sched" and path.parent.name == "schedules"
    )
    new = "role a_much_longer_name[g] { warps 4 registers 184 } # new\n"
    before = text.splitlines()
    after = formatted(text.replace("  role mma", f"{new}  role mma", 1)).splitlines()
    changed = [line for line in before if line not in after]
    assert len(changed) == 5 and all(line.startswith("  role ") for line in changed)


# ---- Layout --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            "algorithm  attention.forward target sm_100a tile{m 128   x 2 as g n 128}",
            """\
            algorithm attention.forward
            target    sm_100a
            tile { m 128 x 2 as g  n 128 }
            """,
            id="an item stands on a line of its own",
        ),
        pytest.param(
            """\
            tile { m 128 x 2 as g # rows

              n 128 } # keys""",
            """\
            tile {
              m 128 x 2 as g  # rows

              n 128
            }  # keys
            """,
            id="a broken block stays broken",
        ),
        pytest.param(
            """\
            mma { st[j]  dk[j-1]
              dq[j-1] dpt[j]   dv[j] }""",
            """\
            mma {
              st[j]  dk[j-1]
              dq[j-1]  dpt[j]  dv[j]
            }
            """,
            id="statements stay grouped as the author grouped them",
        ),
        pytest.param(
            f"mma {{ {' '.join(f'matmul[{i}][i-1]' for i in range(6))} }}",
            """\
            mma {
              matmul[0][i-1]
              matmul[1][i-1]
              matmul[2][i-1]
              matmul[3][i-1]
              matmul[4][i-1]
              matmul[5][i-1]
            }
            """,
            id="a block that does not fit has a line for every statement",
        ),
        pytest.param(
            f"mma {{ a\n{' '.join(f'an_op_with_a_rather_long_name_{i}[j-1]' for i in range(3))} }}",
            """\
            mma {
              a
              an_op_with_a_rather_long_name_0[j-1]  an_op_with_a_rather_long_name_1[j-1]
              an_op_with_a_rather_long_name_2[j-1]
            }
            """,
            id="a line that does not fit goes on in the next",
        ),
        pytest.param(
            """\
            smem q[g] : bf16[m,d]
            # one ring
            smem kv: bf16[n,d] depth 3
            tmem row_sum[g],row_max[g]: f32[m]
            smem out[g] : bf16[m , d]

            reg a : f32[m]""",
            """\
            smem q[g]   : bf16[m, d]
            # one ring
            smem kv     : bf16[n, d]  depth 3
            tmem row_sum[g], row_max[g] : f32[m]
            smem out[g] : bf16[m, d]

            reg a : f32[m]
            """,
            id="colons of neighbours are aligned, several names stand apart",
        ),
        pytest.param(
            """\
            load { a } # first
            correction { b } # second
            load { c
            }
            store { d } # third""",
            """\
            load       { a }  # first
            correction { b }  # second
            load {
              c
            }
            store { d }  # third
            """,
            id="braces and comments of neighbours are aligned",
        ),
        pytest.param(
            "smem kv : bf16[n, d] # why\n depth\n3 holds k, # and\n v",
            """\
            smem kv : bf16[n, d]  # why
                depth 3  holds k,  # and
                v
            """,
            id="a comment inside an item stays there",
        ),
        pytest.param(
            "loop i over kv { # hot\n\n load{a}\n\n\n# own\n mma{b}\n\n}",
            """\
            loop i over kv {  # hot
              load { a }

              # own
              mma { b }
            }
            """,
            id="one empty line is kept, none at the edges of a block",
        ),
        pytest.param("store { }\npair {\n}", "store {}\npair {}\n", id="an empty block"),
    ],
)
def test_layout(body, expected):
    assert in_kernel(dedent(body)) == dedent(expected)


def test_comments_around_the_kernel():
    text = "\n\n# head\n\n\n# more\nkernel x{}\n\n# tail\n\n"
    assert formatted(text) == "# head\n\n# more\nkernel x {}\n\n# tail\n"


def test_line_ends_stay_as_in_the_file():
    assert formatted("kernel x {\r\n}\r\n") == "kernel x {}\r\n"


def test_a_wrong_schedule_is_refused():
    with pytest.raises(CompileError):
        formatted("kernel x { target sm_90 }")


# ---- The command ---------------------------------------------------------------------------------

UGLY, NEAT = "kernel x{target sm_90a}", "kernel x {\n  target sm_90a\n}\n"


@pytest.fixture
def fmt(tmp_path, monkeypatch):
    """Return a function that runs the command in a new folder."""
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    app.command()(fmt_command)
    return lambda *arguments, **extra: CliRunner().invoke(app, list(arguments), **extra)


def test_files_are_rewritten_in_place(fmt):
    Path("a.sched").write_text(UGLY)
    Path("b.sched").write_text(NEAT)
    os.utime("b.sched", (1, 1))
    result = fmt("a.sched", "b.sched")
    assert (result.exit_code, result.stderr) == (0, "formatted a.sched\n")
    assert Path("a.sched").read_text() == NEAT
    assert Path("b.sched").stat().st_mtime == 1
    assert sorted(path.name for path in Path().iterdir()) == ["a.sched", "b.sched"]


def test_the_mode_of_a_file_stays(fmt):
    Path("a.sched").write_text(UGLY)
    Path("a.sched").chmod(0o640)
    fmt("a.sched")
    assert Path("a.sched").stat().st_mode & 0o777 == 0o640


def test_check_names_the_files_and_writes_nothing(fmt):
    Path("a.sched").write_text(UGLY)
    Path("b.sched").write_text(NEAT)
    result = fmt("--check", "a.sched", "b.sched")
    assert result.exit_code == 1
    assert result.stderr == "a.sched would change\nrun `jfagen fmt a.sched`\n"
    Path("a b.sched").write_text(UGLY)
    assert fmt("--check", "a b.sched").stderr.endswith("\nrun `jfagen fmt 'a b.sched'`\n")
    assert Path("a.sched").read_text() == UGLY
    assert fmt("--check", "b.sched").exit_code == 0


def test_diff_shows_the_change_and_writes_nothing(fmt):
    Path("a.sched").write_text(UGLY)
    result = fmt("--diff", "a.sched")
    assert (result.exit_code, Path("a.sched").read_text()) == (1, UGLY)
    assert "-kernel x{target sm_90a}\n\\ No newline at end of file\n+kernel x {\n" in result.stdout


def test_standard_input_goes_to_standard_output(fmt):
    result = fmt("-", input=UGLY)
    assert (result.exit_code, result.stdout, result.stderr) == (0, NEAT, "")
    result = fmt("-", "--check", input=UGLY)
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "<stdin> would change\n")


def test_one_wrong_file_and_none_is_written(fmt):
    Path("a.sched").write_text(UGLY)
    Path("b.sched").write_text("kernel x { target sm_90 }")
    result = fmt("a.sched", "b.sched")
    assert result.exit_code == 1
    assert "error[unknown-word]: unknown word `sm_90`\n --> b.sched:1:19\n" in result.stderr
    assert Path("a.sched").read_text() == UGLY


def test_a_missing_file_is_a_wrong_call(fmt):
    Path("a.sched").write_text(UGLY)
    result = fmt("a.sched", "missing.sched")
    assert (result.exit_code, Path("a.sched").read_text()) == (2, UGLY)
    assert result.stderr == "error: cannot read `missing.sched`: no such file or directory\n"
