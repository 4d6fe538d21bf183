"""A comparison as text, as Markdown for a pull request, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby

from .changes import Change, Comparison, Delta, Part, SectionDiff

#: Goes up when a key changes its meaning or goes away.
SCHEMA = 1
#: The longest comment that GitHub takes, in characters, less what other words need.
MOST_MARKDOWN = 60_000
_NAME, _FIGURE = 26, 12
#: Barriers are made for the transitive reduction of the order alone (`passes/needed.py`).
_NONE_REDUNDANT = "no barrier is redundant, by construction"


def as_json(found: Comparison) -> str:
    """Return everything that was found; lines are numbered from 1, 0 where there is none."""
    content = {"schema": SCHEMA, "same": found.same, **asdict(found)}
    for section, diff in zip(content["sections"], found.sections, strict=True):
        section["changed"] = diff.changed
    return json.dumps(content, indent=2)


def as_text(found: Comparison) -> str:
    """Return what changed for a terminal; one line if nothing did."""
    if found.same:
        return f"{_both(found)}: nothing changed"
    lines = [f"{found.before} -> {found.after}", *_kernel_lines(found)]
    width = max((len(change.name) for change in found.changes), default=0)
    for part, changes in _by_part(found):
        lines += ["", str(part)]
        lines += [f"  {change.name.ljust(width)}  {change.words}" for change in changes]
    lines += ["", *_figure_lines(found.figures, "figures, as planned")] if found.figures else []
    if found.measured:
        lines += ["", *_figure_lines(found.measured, "figures, measured from the cubins")]
    lines += ["", f"proof    {proof_words(found)}", "", f"kernel   {kernel_words(found)}"]
    for section in found.sections:
        lines += ["", _heading(section), *_section_lines(section, "  ")]
    return "\n".join(lines)


def as_markdown(found: Comparison) -> str:
    """Return what changed as a comment of a pull request; long diffs are folded, or left out."""
    if found.same:
        return f"{_both(found)}: nothing changed\n"
    lines = [f"### `{found.before}` -> `{found.after}`", ""]
    if told := _kernel_lines(found):
        lines += [*(f"- {line}" for line in told), ""]
    if found.changes:
        lines += ["| | | change |", "| --- | --- | --- |"]
        for part, changes in _by_part(found):
            for number, change in enumerate(changes):
                shown = "" if number else part
                lines.append(f"| {shown} | `{change.name}` | {change.words.replace('|', '/')} |")
        lines.append("")
    for title, deltas in (
        ("as planned", found.figures),
        ("measured from the cubins", found.measured),
    ):
        if deltas:
            lines += [f"| figure, {title} | before | after | |", "| --- | --: | --: | --: |"]
            lines += [f"| {' | '.join(_cells(delta))} |" for delta in deltas]
            lines.append("")
    lines += [f"**Proof**: {proof_words(found)}.", "", f"**Kernel**: {kernel_words(found)}.", ""]
    for section in found.sections:
        body = ["```diff", *_section_lines(section, ""), "```"]
        block = [
            "<details><summary>",
            f"{_heading(section)}</summary>",
            "",
            *body,
            "</details>",
            "",
        ]
        if sum(map(len, [*lines, *block])) > MOST_MARKDOWN:
            lines += [f"{_heading(section)}: too long for a comment", ""]
            continue
        lines += block
    return "\n".join(lines)


def _both(found: Comparison) -> str:
    names = dict.fromkeys((found.before, found.after))
    return " and ".join(names)


def _kernel_lines(found: Comparison) -> list[str]:
    """Return which kernel is compared, and how it is with the others; nothing if it is plain."""
    lines = [f"compared: {found.compared}"] if found.compared else []
    if count := len(found.also_changed):
        # Lines of the others are not compared: what the schedule says of them is.
        lines.append(f"of {count} other kernel{'s' * (count > 1)} the schedule changes too")
    for what, which in (("new", found.new_kernels), ("gone", found.gone_kernels)):
        if which:
            lines.append(f"{what} kernel{'s' * (len(which) > 1)}: {'; '.join(which)}")
    return lines


def _by_part(found: Comparison) -> Iterator[tuple[Part, list[Change]]]:
    for part, changes in groupby(found.changes, key=lambda change: change.part):
        yield part, list(changes)


def proof_words(found: Comparison) -> str:
    """Return how the rules hold before and after."""
    different = [f"`{r}` {old} -> {new}" for r, (old, new) in found.rules.items() if old != new]
    if different:
        return "; ".join(different)
    weaker = [f"`{rule}` {word}" for rule, (word, _) in found.rules.items() if word != "proved"]
    counted = ", ".join([f"{len(found.rules) - len(weaker)} proved", *weaker])
    return f"the same {len(found.rules)} rules hold for both: {counted}; {_NONE_REDUNDANT}"


def kernel_words(found: Comparison) -> str:
    """Return in how many lines the kernels differ."""
    if not found.sections:
        return f"no line changed{', names apart' if found.renamed else ''}"
    counts = [f"{s.name} {s.changed}" for s in found.sections if s.changed]
    total = sum(section.changed for section in found.sections)
    moved = sum(len(block.lines) for section in found.sections for block in section.moved)
    words = f"{total} line{'s' * (total != 1)} outside comments changed"
    words += ", names apart" if found.renamed else ""
    words += f" ({', '.join(counts)})" if counts else ""
    if found.kernels[1] > 1:
        words += f" in {'one' if found.compared else 'the first'} of {found.kernels[1]} kernels"
    return words + (f", {moved} moved" if moved else "")


def _heading(section: SectionDiff) -> str:
    return f"role {section.name}" if section.role else section.name


def _figure_lines(deltas: tuple[Delta, ...], title: str) -> list[str]:
    width = max(_NAME, len(title), *(len(delta.name) + 2 for delta in deltas))
    lines = [f"{title.ljust(width)}{'before'.rjust(_FIGURE)}{'after'.rjust(_FIGURE)}"]
    for delta in deltas:
        name, *cells = _cells(delta)
        lines.append(
            f"  {name.ljust(width - 2)}{''.join(c.rjust(_FIGURE) for c in cells)}".rstrip()
        )
    return lines


def _cells(delta: Delta) -> list[str]:
    before, after = ("-" if x is None else f"{x:,}" for x in (delta.before, delta.after))
    difference = "" if delta.difference is None else f"{delta.difference:+,}"
    return [delta.name, before, after, difference]


def _section_lines(section: SectionDiff, margin: str) -> list[str]:
    lines: list[str] = []
    for hunk in section.hunks:
        lines.append(f"{margin}@@ {hunk.at_before or '-'} -> {hunk.at_after or '-'}")
        lines += [f"{margin}-{line}" for line in hunk.before]
        lines += [f"{margin}+{line}" for line in hunk.after]
    for block in section.moved:
        lines.append(f"{margin}@@ {block.at_before} -> {block.at_after}: moved")
        lines += [f"{margin} {line}" for line in block.lines]
    return lines
