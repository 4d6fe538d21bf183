"""Spell a compile's figures as text and as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator

from ..target import SM_100A, TARGETS
from .figures import Family
from .records import Arch, Compiled, Finding, LoopFigures, RoleFigures

CLOSING = "measured from the cubin; static: nothing was run on a GPU"
_WIDTH = 100
_ARTEFACTS = ("ptx", "cubin", "sass")
_ROWS: tuple[tuple[str, tuple[Family, ...]], ...] = (
    ("MMA, commit", (Family.MMA, Family.COMMIT)),
    ("EX2", (Family.EX2,)),
    ("other SFU", (Family.SFU,)),
    ("FFMA2", (Family.FFMA2,)),
    ("FADD2", (Family.FADD2,)),
    ("FMUL2", (Family.FMUL2,)),
    ("FFMA, FADD, FMUL", (Family.FFMA, Family.FADD, Family.FMUL)),
    ("FMNMX3, FMNMX", (Family.FMNMX3, Family.FMNMX)),
    ("FSEL", (Family.FSEL,)),
    ("R2P", (Family.R2P,)),
    ("F2FP", (Family.F2FP,)),
    ("LDTM, STTM", (Family.LDTM, Family.STTM)),
    ("LDS, STS", (Family.LDS, Family.STS)),
    ("LDSM, STSM", (Family.LDSM, Family.STSM)),
    ("LDL, STL (spills)", (Family.LDL, Family.STL)),
    ("LDG, STG", (Family.LDG, Family.STG)),
    ("mbarrier wait, arrive", (Family.WAIT, Family.ARRIVE)),
    ("BAR.SYNC, BAR.ARV", (Family.BAR_SYNC, Family.BAR_ARV)),
    ("TMA", (Family.TMA,)),
    ("LDGSTS", (Family.COPY,)),
    ("RED, ATOM", (Family.REDUCE,)),
    ("vote, shuffle", (Family.VOTE,)),
    ("fence", (Family.FENCE,)),
    ("integer, move", (Family.INTEGER,)),
    ("branch, other", (Family.BRANCH, Family.OTHER)),
)


def as_json(compiled: Compiled) -> str:
    """Return the record without its artefacts, as indented JSON."""
    fields = [each.name for each in dataclasses.fields(compiled) if each.name not in _ARTEFACTS]
    record = {name: _plain(getattr(compiled, name)) for name in fields}
    record["findings"] = [_finding(each) for each in compiled.findings]
    return json.dumps({"ok": not compiled.findings, **record, "measured": CLOSING}, indent=1)


def failure_as_json(finding: Finding) -> str:
    """Return the finding of a compile that gave no cubin, in the shape of `as_json`."""
    return json.dumps({"ok": False, "findings": [_finding(finding)]}, indent=1)


def finding_lines(finding: Finding) -> Iterator[str]:
    """Yield the finding as an error line, its notes and its help."""
    yield f"error[{finding.id}]: {finding.message}"
    yield from (f"  {note}" for note in finding.notes)
    if finding.help:
        yield f"help: {finding.help}"


def as_text(compiled: Compiled) -> str:
    """Return the figures as tables of at most 100 columns."""
    lines = [*_summary(compiled)]
    if compiled.roles:
        lines += ["", *_role_table(compiled.roles)]
    for columns in _panels(compiled.loops):
        lines += ["", *_aligned(columns)]
    lines += [f"ptxas warns: {warning}" for warning in compiled.warnings]
    return "\n".join([*lines, "", CLOSING])


def _finding(finding: Finding) -> dict[str, object]:
    return {
        "id": finding.id,
        "severity": "error",
        "message": finding.message,
        "notes": [{"message": note} for note in finding.notes],
        "help": [finding.help] if finding.help else [],
    }


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value


def _summary(compiled: Compiled) -> Iterator[str]:
    versions, resources, spills = compiled.versions, compiled.resources, compiled.spills
    target = TARGETS.get(compiled.arch.value, SM_100A)
    yield (
        f"{compiled.kernel} for {compiled.arch}: {compiled.instructions} instructions "
        f"({versions.distribution} {versions.triton}, ptxas {versions.ptxas}, "
        f"{compiled.seconds:.1f} s)"
    )
    budget = compiled.budget
    yield _fact(
        "shared memory",
        f"{resources.smem_bytes} of {target.smem_bytes} bytes",
        budget.smem_bytes,
    )
    if compiled.arch is not Arch.SM_90A:
        yield _fact(
            "tensor memory",
            f"{resources.tmem_columns} of {target.tmem_columns} columns",
            budget.tmem_columns,
        )
    cluster = " x ".join(str(size) for size in resources.cluster)
    yield _fact("threads", f"{resources.threads}, cluster {cluster}")
    yield _fact("registers", f"{resources.registers_per_thread} a thread at launch")
    yield _fact(
        "spills",
        f"{spills.store_bytes} bytes stored, {spills.load_bytes} loaded, "
        f"{spills.stack_bytes} of stack",
    )
    yield _fact("text", f"sha256 {compiled.sha256[:16]}")


def _fact(name: str, value: str, budget: int | None = None) -> str:
    stated = "" if budget is None else f" (budget {budget})"
    return f"  {name:<15}{value}{stated}"


def _role_table(roles: Iterable[RoleFigures]) -> list[str]:
    columns = [
        ["role"],
        ["warps"],
        ["registers asked"],
        ["setmaxnreg"],
        ["instructions"],
        ["schedule"],
    ]
    for role in roles:
        warps = "?" if role.warps is None else str(role.warps)
        cells = (
            role.name,
            f"{role.copies} x {warps}" if role.copies > 1 else warps,
            _number(role.registers_requested),
            _number(role.registers_found),
            str(role.instructions),
            role.source or "",
        )
        for column, cell in zip(columns, cells, strict=True):
            column.append(cell)
    return _aligned(columns)


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _panels(loops: tuple[LoopFigures, ...]) -> Iterator[list[list[str]]]:
    """Yield the label column with as many loops beside it as the width takes, in turn."""
    rows = [
        (label, families)
        for label, families in _ROWS
        if Family.LDL in families or any(loop.counts.get(f) for loop in loops for f in families)
    ]
    labels = ["per lap", "lines", "instructions", "shortest..longest", *(row[0] for row in rows)]
    labels.append("registers, limit")
    room = _WIDTH - max(len(label) for label in labels) - 2
    panel: list[list[str]] = []
    for loop in loops:
        column = _loop_column(loop, rows)
        used = sum(_width(each) + 2 for each in [*panel, column])
        if panel and used > room:
            yield [labels, *panel]
            panel = []
        panel.append(column)
    if panel:
        yield [labels, *panel]


def _loop_column(loop: LoopFigures, rows: list[tuple[str, tuple[Family, ...]]]) -> list[str]:
    name = loop.role or "kernel"
    copies = f" x{loop.copies}" if loop.copies > 1 else ""
    lines = "-" if loop.first_line is None else f"{loop.first_line}-{loop.last_line}"
    return [
        name + copies + ("" if loop.innermost else " outer"),
        lines,
        str(loop.instructions),
        f"{loop.shortest_path}..{loop.longest_path}",
        *("/".join(str(loop.counts.get(f, 0)) for f in families) for _, families in rows),
        f"{loop.registers_named}/{_number(loop.register_limit)}",
    ]


def _width(column: list[str]) -> int:
    return max(len(cell) for cell in column)


def _aligned(columns: list[list[str]]) -> list[str]:
    """Return the rows of the columns, the first flush left and the others flush right."""
    first, *others = columns
    widths = [_width(column) for column in others]
    return [
        "  ".join(
            [
                first[row].ljust(_width(first)),
                *(c[row].rjust(w) for c, w in zip(others, widths, strict=True)),
            ]
        ).rstrip()
        for row in range(len(first))
    ]
