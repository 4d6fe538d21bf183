"""What the facts mean: a line for each, fine or not, and how to mend what is not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from ..toolchain.tools import INSTALL_ORDER
from .facts import Facts, Gpu, Install, Program, Requirement

#: What the kernels are compiled and measured with.
TESTED_FBTRITON = "3.7.4"
_LEAST_PYTHON = (3, 11)
_AGAIN = "`pip uninstall -y triton fbtriton`, then `pip install fbtriton==3.7.4`"
_CUDA_TORCH = "install a CUDA build of torch, then `pip install --force-reinstall fbtriton==3.7.4`"


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One fact, judged; `help` says how to mend it."""

    subject: str
    level: Level
    message: str
    help: str = ""


def judge(facts: Facts) -> list[Line]:
    """Return a line for every fact, in the order in which an install is made."""
    return [
        *_python(facts),
        *_torch(facts),
        *_toolchain(facts.install),
        *(_program(one) for one in facts.programs),
        *_requirements(facts),
        *_gpus(facts),
        *_kernels(facts),
    ]


def _line(subject: str, level: Level, message: str, help: str = "") -> Line:
    return Line(subject=subject, level=level, message=message, help=help)


def _python(facts: Facts) -> Iterator[Line]:
    version = ".".join(map(str, facts.python))
    if facts.python[:2] < _LEAST_PYTHON:
        least = ".".join(map(str, _LEAST_PYTHON))
        help = f"make a virtual environment with Python {least}"
        yield _line("python", Level.WRONG, f"{version}, at least {least} is needed", help)
    else:
        yield _line("python", Level.OK, f"{version}, jfagen {facts.jfagen}")


def _torch(facts: Facts) -> Iterator[Line]:
    torch = facts.torch
    if torch.version is None:
        message = torch.error or "torch is not installed"
        yield _line("torch", Level.WRONG, message, INSTALL_ORDER)
        return
    built = f"for CUDA {torch.cuda}" if torch.cuda else "without CUDA"
    message = f"{torch.version}, built {built}"
    if torch.error:
        help = "the driver may be too old for this torch: `nvidia-smi` names its CUDA"
        yield _line("torch", Level.WRONG, f"{message}: {torch.error}", help)
    elif facts.readings and torch.cuda is None:
        message += f", and there is a GPU ({facts.readings[0].name})"
        yield _line("torch", Level.WRONG, message, _CUDA_TORCH)
    else:
        yield _line("torch", Level.OK, message)


def _toolchain(install: Install) -> Iterator[Line]:
    subject = "toolchain"
    if install.fbtriton is None and install.triton is None:
        yield _line(subject, Level.WRONG, "there is no `triton` module", INSTALL_ORDER)
        return
    if install.fbtriton is None:
        message = f"stock triton {install.triton}, without fbtriton"
        yield _line(subject, Level.WRONG, f"{message}: no TLX for Blackwell", _AGAIN)
    elif install.gone or install.overwritten:
        yield _line(subject, Level.WRONG, _damage(install), _AGAIN)
    elif install.triton is not None:
        message = (
            f"fbtriton {install.fbtriton} over stock triton {install.triton}: "
            f"they share {install.shared} files, and fbtriton's are in place"
        )
        help = "an update of torch or triton would overwrite them; install fbtriton last"
        yield _line(subject, Level.WARNING, message, help)
    elif install.fbtriton != TESTED_FBTRITON:
        message = f"fbtriton {install.fbtriton}, tested is {TESTED_FBTRITON}"
        yield _line(subject, Level.WARNING, message, f"`pip install fbtriton=={TESTED_FBTRITON}`")
    else:
        yield _line(subject, Level.OK, f"fbtriton {install.fbtriton}, no stock triton mixed in")
    if install.tlx_error:
        yield _line("tlx", Level.WRONG, f"cannot be imported: {install.tlx_error}", _AGAIN)
    else:
        yield _line("tlx", Level.OK, "`triton.language.extra.tlx` can be imported")


def _damage(install: Install) -> str:
    parts = []
    if install.overwritten:
        parts.append(f"{len(install.overwritten)} overwritten, `{install.overwritten[0]}` first")
    if install.gone:
        parts.append(f"{len(install.gone)} gone, `{install.gone[0]}` first")
    other = f" by stock triton {install.triton}" if install.triton else ""
    return f"files of fbtriton {install.fbtriton} are damaged{other}: {', '.join(parts)}"


def _program(program: Program) -> Line:
    if program.error:
        return _line(program.name, Level.WRONG, program.error, _AGAIN)
    return _line(program.name, Level.OK, program.version)


def _requirements(facts: Facts) -> Iterator[Line]:
    if facts.requirements is None:
        message = "jfagen is not installed, so what it needs is not known"
        yield _line("packages", Level.WARNING, message, "`pip install -e .` in its folder")
        return
    for one in facts.requirements:
        yield _requirement(one)


def _requirement(one: Requirement) -> Line:
    wanted = ",".join([f">={one.floor}"] * bool(one.floor) + [f"<{one.below}"] * bool(one.below))
    help = f"`pip install '{one.name}{wanted}'`"
    if one.installed is None:
        return _line(one.name, Level.WRONG, f"not installed, {wanted or 'any'} is needed", help)
    version = _numbers(one.installed)
    if (one.floor and version < _numbers(one.floor)) or (
        one.below and version >= _numbers(one.below)
    ):
        return _line(one.name, Level.WRONG, f"{one.installed}, {wanted} is needed", help)
    return _line(one.name, Level.OK, one.installed)


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with, without zeros at the end."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in found[0].split(".")] if found else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _gpus(facts: Facts) -> Iterator[Line]:
    torch, readings = facts.torch, facts.readings
    if not torch.gpus:
        if readings and torch.version is not None and torch.cuda is not None and not torch.error:
            help = "is it hidden by CUDA_VISIBLE_DEVICES, or the driver too old for this torch?"
            message = f"the driver shows {readings[0].name}, torch sees none"
            yield _line("gpu", Level.WRONG, message, help)
        elif readings:
            driver = readings[0].driver
            yield _line("gpu", Level.WARNING, f"{readings[0].name}, driver {driver}, without torch")
        else:
            help = "build, check, compile and run need none; bench does"
            yield _line("gpu", Level.WARNING, "none", help)
    for number, gpu in enumerate(torch.gpus):
        yield _line("gpu", Level.OK, _gpu_words(gpu, facts, number))


def _gpu_words(gpu: Gpu, facts: Facts, number: int) -> str:
    words = f"{gpu.name}, sm_{gpu.capability[0]}{gpu.capability[1]}, {gpu.sms} SMs"
    named = [reading for reading in facts.readings if reading.name == gpu.name]
    if number < len(named):
        reading = named[number]
        limit = reading.power_limit_w
        words += f", driver {reading.driver}"
        words += f", power limit {limit:.0f} W" if limit is not None else ""
    return words


def _kernels(facts: Facts) -> Iterator[Line]:
    kernels = facts.kernels
    if not kernels:
        help = "`jfagen build fwd` writes one"
        yield _line("kernels", Level.WARNING, "no generated kernel lies here", help)
        return
    targets = list(dict.fromkeys(kernel.target for kernel in kernels))
    groups = "; ".join(
        f"for {target}: {', '.join(one.name for one in kernels if one.target == target)}"
        for target in targets
    )
    if not facts.torch.gpus:
        yield _line("kernels", Level.OK, groups)
    for gpu in dict.fromkeys((gpu.name, gpu.capability) for gpu in facts.torch.gpus):
        name, capability = gpu
        fitting = [kernel.name for kernel in kernels if kernel.fits(capability)]
        if fitting:
            yield _line("kernels", Level.OK, f"on {name}: {', '.join(fitting)}")
        else:
            sm = f"sm_{capability[0]}{capability[1]}"
            help = f"generate one: a schedule with `target {sm}a`, if the compiler knows that"
            message = f"none runs on {name} ({sm}); there are those {groups}"
            yield _line("kernels", Level.WARNING, message, help)
