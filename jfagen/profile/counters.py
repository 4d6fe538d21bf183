"""The figures of a profile that counters give, and the counters that give them.

The names are Nsight Compute's (Kernel Profiling Guide, "Metrics Structure" and "Metrics Decoder"),
as `ncu --query-metrics --chips gh100` and `gb100` of 2025.3.1 list them; those of `launch__` are
in the guide. Where chips differ, a figure has several, and the first with a value is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

from .parts import Part

_ACTIVE = "avg.pct_of_peak_sustained_active"
_ELAPSED = "avg.pct_of_peak_sustained_elapsed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """One figure.

    Attributes:
        key: its name in JSON.
        words: its name in tables, with the unit.
        metrics: what gives it, the best one first.
        part: what of a schedule it points to.
        factor: from the metric's base unit to the figure's.
        digits: after the point.
    """

    key: str
    words: str
    metrics: tuple[str, ...]
    part: Part
    factor: float = 1.0
    digits: int = 1


DURATION = Counter(
    key="duration_ms",
    words="duration, ms",
    metrics=("gpu__time_duration.sum",),
    part=Part.NOTHING,
    factor=1e-6,
    digits=4,
)

COUNTERS: tuple[Counter, ...] = (
    DURATION,
    # wgmma and tcgen05.mma both run in the tensor pipe of the SM's quarters.
    Counter(
        key="tensor_pipe_percent",
        words="tensor pipe busy, % of active cycles",
        metrics=(
            f"sm__pipe_tensor_cycles_active.{_ACTIVE}",
            f"sm__pipe_tensor_op_hmma_cycles_active.{_ACTIVE}",
        ),
        part=Part.MATMULS,
    ),
    Counter(
        key="issue_slots_percent",
        words="issue slots busy, % of active cycles",
        metrics=(f"sm__inst_issued.{_ACTIVE}", f"smsp__issue_active.{_ACTIVE}"),
        part=Part.WARPS,
    ),
    Counter(
        key="smem_pipe_percent",
        words="SMEM wavefronts of the LSU, % of peak",
        metrics=(f"l1tex__data_pipe_lsu_wavefronts_mem_shared.{_ELAPSED}",),
        part=Part.SMEM_PIPE,
    ),
    # Operands of wgmma come through the LSU's pipe, those of tcgen05.mma through one of their own.
    Counter(
        key="smem_wavefronts_of_matmuls",
        words="SMEM wavefronts of matmuls' operands",
        metrics=(
            "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum",
            "l1tex__data_pipe_tc_wavefronts_mem_shared.sum",
        ),
        part=Part.OPERANDS,
        digits=0,
    ),
    Counter(
        key="smem_wavefronts_loaded",
        words="SMEM wavefronts of warps' loads",
        metrics=("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",),
        part=Part.SMEM_OF_WARPS,
        digits=0,
    ),
    Counter(
        key="smem_wavefronts_stored",
        words="SMEM wavefronts of warps' stores",
        metrics=("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",),
        part=Part.SMEM_OF_WARPS,
        digits=0,
    ),
    # The banks serve everybody: matmuls, TMA and warps.
    Counter(
        key="smem_reads_percent",
        words="SMEM banks read, % of peak",
        metrics=(f"l1tex__data_bank_reads.{_ELAPSED}",),
        part=Part.OPERANDS,
    ),
    Counter(
        key="smem_writes_percent",
        words="SMEM banks written, % of peak",
        metrics=(f"l1tex__data_bank_writes.{_ELAPSED}",),
        part=Part.BUFFERS,
    ),
    Counter(
        key="l2_percent",
        words="L2 sectors, % of peak",
        metrics=(f"lts__t_sectors.{_ELAPSED}",),
        part=Part.TRAFFIC,
    ),
    Counter(
        key="l2_gbytes_per_second",
        words="L2, GB/s",
        metrics=("lts__t_bytes.sum.per_second",),
        part=Part.TRAFFIC,
        factor=1e-9,
        digits=0,
    ),
    Counter(
        key="l2_sectors_added",
        words="L2 sectors added to (32 bytes)",
        metrics=("lts__t_sectors_op_red.sum",),
        part=Part.SUMS,
        digits=0,
    ),
    Counter(
        key="dram_percent",
        words="DRAM, % of peak",
        metrics=(f"dram__throughput.{_ELAPSED}", f"gpu__dram_throughput.{_ELAPSED}"),
        part=Part.TRAFFIC,
    ),
    Counter(
        key="local_loads",
        words="local memory (spills), load instructions",
        metrics=("smsp__inst_executed_op_local_ld.sum",),
        part=Part.REGISTERS,
        digits=0,
    ),
    Counter(
        key="local_stores",
        words="local memory (spills), store instructions",
        metrics=("smsp__inst_executed_op_local_st.sum",),
        part=Part.REGISTERS,
        digits=0,
    ),
    Counter(
        key="launch_registers",
        words="registers a thread at launch",
        metrics=("launch__registers_per_thread",),
        part=Part.REGISTERS,
        digits=0,
    ),
    Counter(
        key="launch_smem_bytes",
        words="SMEM a CTA at launch, bytes",
        metrics=("launch__shared_mem_per_block",),
        part=Part.BUFFERS,
        digits=0,
    ),
)


def metric_names(unknown: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Return all metrics to ask for, without those that this `ncu` does not know.

    Args:
        unknown: names without the suffixes behind the first point.
    """
    names = [name for counter in COUNTERS for name in counter.metrics]
    return tuple(name for name in names if name.split(".")[0] not in unknown)
