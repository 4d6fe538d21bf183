"""What is profiled: one process that makes inputs and calls attention, or looks at the GPU.

`python -m jfagen.profile.workload JOB` takes a `Job` as JSON and prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from .jobs import MARK, Do, Job

#: Calls that are timed, after one that is not.
_CALLS = 20


def main(argument: str) -> int:
    """Do the job and print what was found; return 1 with the error if that is all there is."""
    try:
        job = Job.parse(argument)
        found = facts() if job.do is Do.FACTS else _call(job)
    except Exception as error:  # whatever torch, Triton or the driver raises
        lines = str(error).strip().splitlines()
        first = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
        found = {"error": first}
    sys.stdout.flush()
    print(f"\n{MARK}{json.dumps(found)}", flush=True)
    return 1 if "error" in found else 0


def facts() -> dict[str, Any]:
    """Return the GPU that torch would use, or why there is none.

    `memory_bytes_per_second` is the peak that the memory's clock and width give, if torch tells.
    """
    try:
        import torch
    except ModuleNotFoundError:
        return {"reason": "torch is not installed"}
    except Exception as error:  # whatever a broken install does when it is imported
        return {"reason": f"torch cannot be imported: {type(error).__name__}"}
    from ..bench.device import this_device, versions, why_no_gpu

    if (reason := why_no_gpu()) is not None:
        return {"reason": reason}
    device = this_device()
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    kilohertz = getattr(properties, "memory_clock_rate", None)
    bits = getattr(properties, "memory_bus_width", None)
    return {
        "name": device.name,
        "capability": list(device.capability),
        "sms": device.sms,
        "uuid": device.uuid,
        # Two transfers a clock (CUDA Runtime API, `cudaDeviceProp`).
        "memory_bytes_per_second": 2e3 * kilohertz * bits / 8 if kilohertz and bits else None,
        "versions": versions(),
    }


def _call(job: Job) -> dict[str, Any]:
    """Call attention once, or time many calls; return the case's sizes and the times in ms."""
    import torch

    from ..bench.device import EventClock
    from ..bench.inputs import make_inputs
    from ..bench.providers import Jfagen
    from ..bench.records import Case
    from ..bench.shapes import Direction, draw_lengths

    shape = job.shape
    lengths = draw_lengths(job.seed)[shape.name]
    case = Case(
        shape=shape, seed=job.seed, lengths=lengths, direction=job.direction, dtype=job.dtype
    )
    call = Jfagen().prepare(make_inputs(case, 0, "cuda")).call
    laps = EventClock().burst(call, [call] * _CALLS) if job.do is Do.TIME else ()
    if not laps:
        call()
        torch.cuda.synchronize()
    return {
        "flops": case.flops,
        "least_bytes": case.call_bytes if job.direction is Direction.FORWARD else None,
        "laps_ms": [lap.device_ms for lap in laps],
    }


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
