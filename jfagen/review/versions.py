"""Two texts of a schedule: which of their kernels differ, and which one is shown."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from ..diagnostics import CompileError, SourceFile
from ..driver import Compiled, compile_instance
from ..semantics import check
from ..semantics.instances import FIELDS, Instance, instances
from ..semantics.program import Program
from ..syntax import parse
from .facts import Facts

#: The values of a kernel, in the order of `FIELDS`.
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One kernel of a text, checked.

    Attributes:
        number: which one, from 0.
    """

    number: int
    instance: Instance
    program: Program

    @property
    def plain(self) -> Program:
        """Return the program without what does not count.

        That is the file, which kernel is first, and the order in which regions are declared.
        """
        name = self.program.name.removesuffix(self.instance.suffix)
        regions = sorted(self.program.regions, key=lambda region: region.name)
        return replace(self.program, name=name, source=_NOWHERE, regions=tuple(regions))


_NOWHERE = SourceFile(path="", text="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which kernels are held against each other, and how it is with the others.

    Attributes:
        key: the values of the kernel; None if the two have no values in common.
        before, after: numbers of the kernels.
        differ: whether these two do; if not, no two do.
        compared: which one it is, in words; empty for the first of both.
        first: which is the first one, before and after, if that changed; else empty.
        also_changed: kernels that change too.
        new_kernels, gone_kernels: those that only one text makes.
    """

    key: Key | None
    before: int
    after: int
    differ: bool
    compared: str
    first: tuple[str, ...]
    also_changed: tuple[str, ...]
    new_kernels: tuple[str, ...]
    gone_kernels: tuple[str, ...]


def neutral_name(shown: str) -> str:
    """Return under which name both texts are compiled: comments name it, and have a width."""
    name = re.sub(r"[^\w.-]", "_", _file_name(shown))
    return name if ".sched" in name else f"{name}.sched"


def under_own_name(facts: Facts, neutral: str) -> Facts:
    """Return facts whose kernel text names the schedule's own file again, in its comments."""
    own = _file_name(facts.title)
    if not re.fullmatch(r"[^\n]*\.sched", own):
        return facts
    return replace(facts, text=facts.text.replace(f" ({neutral}:", f" ({own}:"))


def _file_name(shown: str) -> str:
    """Return the name of a file without its folders and without the revision that it is of."""
    return re.sub(r"(?<=\.sched)@.*", "", shown).rsplit("/", 1)[-1]


def kernels_of(source: SourceFile, name: str) -> dict[Key, Kernel]:
    """Return the kernels of a text, checked under another name.

    Raises:
        CompileError: one of them is refused; the findings have the text's own name.
    """
    neutral = replace(source, path=name)
    number = 0
    found: dict[Key, Kernel] = {}
    try:
        tree = parse(neutral)
        for number, instance in enumerate(instances(tree)):
            program = check(tree, neutral, instance)
            key = tuple(str(getattr(program.problem, field)) for field in FIELDS)
            found[key] = Kernel(number=number, instance=instance, program=program)
    except CompileError:
        _compiled(source, number)
        raise
    return found


def compiled_under(source: SourceFile, name: str, number: int, plain: bool) -> Compiled:
    """Compile one kernel of a text under another name of the file; as `kernels_of`.

    Args:
        source: the text.
        name: of the file.
        number: of the kernel.
        plain: whether the kernel is named as if it were the first one.
    """
    try:
        return _compiled(replace(source, path=name), number, plain)
    except CompileError:
        _compiled(source, number)
        raise


def _compiled(source: SourceFile, number: int, plain: bool = False) -> Compiled:
    tree = parse(source)
    instance = instances(tree)[number]
    if plain:
        values = instance.values
        offered = {
            field: (values[field], *(one for one in several if one != values[field]))
            for field, several in instance.offered.items()
        }
        instance = Instance(values, offered)
    return compile_instance(source, tree, instance)


def choose(
    before: Mapping[Key, Kernel], after: Mapping[Key, Kernel], same: Collection[Key] = ()
) -> Chosen:
    """Return what is shown: the first kernel that differs, else the first that both have.

    Args:
        before: the kernels of the first text.
        after: those of the second.
        same: kernels that turned out to be the same, though the schedule says it otherwise.
    """
    both = [key for key in after if key in before]
    changed = [key for key in both if before[key].plain != after[key].plain and key not in same]
    firsts = (next(iter(before)), next(iter(after)))
    shown = next(iter([*changed, *both]), None)
    varying = [n for n in range(len(FIELDS)) if len({key[n] for key in (*before, *after)}) > 1]

    def words(key: Key, kernel: Kernel) -> str:
        if firsts[0] == firsts[1] and kernel.instance.differs:
            return kernel.instance.differs
        return ", ".join(f"{FIELDS[n]} {key[n]}" for n in varying)

    def compared() -> str:
        if shown is None:
            return "the first kernels, which have other values"
        if shown == firsts[0] == firsts[1]:
            return ""
        how = ""
        if shown != firsts[1]:
            how = f"; the first one is {'the same' if firsts[1] in before else 'new'}"
        return f"the kernel with {words(shown, after[shown])}{how}"

    return Chosen(
        key=shown,
        before=before[shown or firsts[0]].number,
        after=after[shown or firsts[1]].number,
        differ=bool(changed) or shown is None,
        compared=compared(),
        first=_firsts(*firsts),
        also_changed=tuple(words(key, after[key]) for key in changed[1:]),
        new_kernels=tuple(words(key, after[key]) for key in after if key not in before),
        gone_kernels=tuple(words(key, before[key]) for key in before if key not in after),
    )


def _firsts(before: Key, after: Key) -> tuple[str, ...]:
    """Return in what the first kernels of both differ; nothing if they have the same values."""
    fields = [n for n in range(len(FIELDS)) if before[n] != after[n]]
    if not fields:
        return ()
    return tuple(", ".join(f"{FIELDS[n]} {key[n]}" for n in fields) for key in (before, after))
