"""The entry: run a kernel file on the CPU and say how it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import numpy as np

from .dtypes import Array
from .loader import Keep, Run
from .machine import Machine
from .report import Fault, Kind, MachineFault, MachineStop, Outcome, Race, Report
from .scheduler import STEP_BOUND, Policy, parse_policy
from .transform import compile_program
from .values import Value

_INLINE = "<kernel text>"


def simulate(
    source: str | Path,
    *,
    inputs: Mapping[str, Value],
    sms: int = 2,
    seed: int = 0,
    policy: str | Policy = "random",
    entry: str = "forward",
    step_bound: int = STEP_BOUND,
    keep: Keep = Keep.NOTHING,
) -> Outcome:
    """Run the host function of a kernel file, its kernels on the machine, and return the end.

    `source` is a path, or the text itself if it holds a line break. `inputs` are the keyword
    arguments of the host function `entry` (torch tensors, numbers); `sms` is how many CTAs run at
    once and is passed on if the function takes it. `seed` and `policy` decide the schedule.
    `keep` says what else the outcome tells.

    Raises:
        ValueError: the policy is unknown, or (`NoSuchEntry`) the file has no such function.
        ImportError: the file imports what is not installed, torch or Triton for example.
        OSError: the file cannot be read.
    """
    text, filename = _read(source)
    chosen = parse_policy(policy) if isinstance(policy, str) else policy
    started = time.perf_counter()
    try:
        program = compile_program(text, filename)
    except SyntaxError as error:
        return _stopped(Fault(rule="syntax", message=str(error)), None, started)
    run = Run(
        program=program,
        sms=sms,
        seed=seed,
        policy=chosen,
        step_bound=step_bound,
        matmul=_matmul,
        keep=keep,
    )
    try:
        with _torch_settings():
            run.load_host()
            function = _entry(run, entry, filename)
            given = {"sms": sms} if "sms" in _parameter_names(function) else {}
            result = function(**inputs, **given)
    except MachineStop as stop:
        return _stopped(stop.report, run, started)
    except MachineFault as fault:
        return _stopped(Fault(rule=fault.rule, message=fault.message), run, started)
    except (ImportError, NoSuchEntry):
        raise
    except Exception as error:
        message = f"{type(error).__name__} in the host part: {error}"
        return _stopped(Fault(rule="host", message=message), run, started)
    outputs = result if isinstance(result, tuple | list) else (result,)
    return Outcome(
        kind=Kind.RESULTS, outputs=tuple(_numpy(value) for value in outputs), **_facts(run, started)
    )


class NoSuchEntry(ValueError):
    """The file lacks the host function that was asked for."""


def _entry(run: Run, entry: str, filename: str) -> Callable[..., Value]:
    function = run.host.get(entry)
    if function is None:
        raise NoSuchEntry(f"`{filename}` has no function `{entry}`")
    found: Callable[..., Value] = function
    return found


def _read(source: str | Path) -> tuple[str, str]:
    if isinstance(source, str) and "\n" in source:
        return source, _INLINE
    path = Path(source)
    return path.read_text(encoding="utf-8"), str(path)


def _parameter_names(function: Value) -> tuple[str, ...]:
    code = function.__code__
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return names


@contextmanager
def _torch_settings() -> Iterator[None]:
    """Fill what `torch.empty` returns with NaN, so that outputs nobody wrote show.

    One thread: the matrices are so small that waking others costs more than the product.
    """
    torch = _torch()
    before, threads = torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
        torch.set_num_threads(threads)


def _matmul(left: Array, right: Array) -> Array:
    """Return a product as the tensor core gives it: operands as they are, sums in float32."""
    torch = _torch()
    one, other = (torch.from_numpy(operand).to(torch.float32) for operand in (left, right))
    result: Array = torch.mm(one, other).numpy()
    return result


@lru_cache(maxsize=1)
def _torch() -> Value:
    import torch

    return torch


def _numpy(value: Value) -> Value:
    if not hasattr(value, "untyped_storage"):
        return value
    value = value.detach()
    return np.array(value.float().numpy() if value.is_floating_point() else value.numpy())


def _facts(run: Run | None, started: float) -> dict[str, Value]:
    machines = run.machines if run is not None else []
    return {
        "trace": "-".join(machine.scheduler.trace() for machine in machines),
        "steps": sum(machine.scheduler.steps for machine in machines),
        "seconds": time.perf_counter() - started,
        "notes": _notes(machines, run.policy) if run is not None else (),
        "tiles": tuple(tuple(cta.tiles) for machine in machines for cta in machine.ctas),
        "choices": tuple(machine.scheduler.choices for machine in machines),
        "events": machines[-1].timeline.events() if machines and machines[-1].timeline else (),
        "order": tuple(machine.log for machine in machines if machine.log is not None),
    }


def _notes(machines: list[Machine], policy: Policy) -> tuple[str, ...]:
    """Return what the machines noted; a role to starve may belong to any kernel of the file."""
    found = tuple(note for machine in machines for note in machine.notes)
    if not machines or any(machine.scheduler.starved_exists for machine in machines):
        return found
    return (*found, f"no role is called `{policy.role}`: nothing was starved")


def _stopped(report: Report, run: Run | None, started: float) -> Outcome:
    if isinstance(report, Fault):
        kind = Kind.FAULT
    else:
        kind = Kind.RACE if isinstance(report, Race) else Kind.DEADLOCK
    return Outcome(kind=kind, reports=(report,), **_facts(run, started))
