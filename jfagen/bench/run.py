"""Run a request case by case; what was found so far is returned even if it is broken off."""

from __future__ import annotations

import warnings

from ..nvidia_smi import Reading
from .device import Device, versions
from .interleave import first_line
from .providers import BASELINE
from .records import Case, Measurement
from .report import Head, Report
from .request import Progress, Request
from .session import DeviceLost, Stand, measure
from .shapes import draw_lengths


def make_head(request: Request, device: Device) -> Head:
    """Return what stands above the results; asks every provider whether it is available."""
    missing = {
        one.name: reason for one in request.providers if (reason := one.available()) is not None
    }
    return Head(
        device=device.name,
        capability=device.capability,
        sms=device.sms,
        l2_bytes=device.l2_bytes,
        memory_bytes=device.memory_bytes,
        versions=versions(),
        direction=request.direction,
        dtype=request.dtype,
        seeds=request.seeds,
        rounds=request.rounds,
        baseline=BASELINE,
        missing=missing,
        notes={
            one.name: one.notes_of(request.direction)
            for one in request.providers
            if one.name not in missing
        },
        before=device.reading(),
    )


def run(request: Request, head: Head, device: Device, stand: Stand, progress: Progress) -> Report:
    """Return the results of every case, shape by shape and seed by seed."""
    present = [one for one in request.providers if one.name not in head.missing]
    rows: list[Measurement] = []
    readings: dict[tuple[str, int], Reading | None] = {}
    broken_off = ""
    for number, case in enumerate(cases_of(request), 1):
        name = f"{case.shape.name}, seed {case.seed}"

        def say(words: str, number: int = number, name: str = name) -> None:
            progress(number, name, words)

        try:
            with warnings.catch_warnings():
                # What libraries warn of while they compile is nothing that a user can change.
                warnings.simplefilter("ignore")
                rows += measure(case, present, stand, say)
        except DeviceLost as error:
            broken_off = f"{name}: the device was lost, {first_line(error)}"
            break
        except KeyboardInterrupt:
            broken_off = f"{name}: interrupted"
            break
        readings[case.shape.name, case.seed] = device.reading()
    return Report(
        head=head,
        rows=tuple(rows),
        readings=readings,
        after=device.reading(),
        broken_off=broken_off,
    )


def cases_of(request: Request) -> list[Case]:
    """Return the cases in the order in which they are measured."""
    lengths = {seed: draw_lengths(seed) for seed in request.seeds}
    return [
        Case(
            shape=shape,
            seed=seed,
            lengths=lengths[seed][shape.name],
            direction=request.direction,
            dtype=request.dtype,
        )
        for shape in request.shapes
        for seed in request.seeds
    ]
