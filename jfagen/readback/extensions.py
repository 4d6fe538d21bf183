"""The stand-in for `tlx`: allocations and actions are recorded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from .pending import Pending
from .recorder import BarrierArray, ReadbackError, Recorder, TileArray, View
from .shapes import Shaped
from .trace import NAMED, ActionKind, Barriers, Signal, Tiles

_ELEMENT_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}


class AliasSpec:
    """A place that several arrays of tiles share."""

    def __init__(self, recorder: Recorder, name: str) -> None:
        self._recorder = recorder
        self.name = name

    def set_buffer_overlap(self, tree: object) -> None:
        """Record how the arrays share the place."""
        self._recorder.overlaps[self.name] = tree


class Extensions:
    """The stand-in for `tlx`; an unknown name is an error at its line."""

    storage_kind = SimpleNamespace(smem="smem", tmem="tmem")
    reuse_group_type = SimpleNamespace(shared="shared", distinct="distinct")

    def __init__(self, recorder: Recorder) -> None:
        """Record into `recorder`."""
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        raise ReadbackError(f"`tlx.{name}` cannot be read back", self._recorder.line())

    def storage_alias_spec(self, storage: str) -> AliasSpec:
        """Return a place to share."""
        return AliasSpec(self._recorder, self._recorder.assigned_name())

    def reuse_group(self, *parts: object, group_type: str) -> object:
        """Return a node of an overlap tree."""
        return (group_type, tuple(p.name if isinstance(p, TileArray) else p for p in parts))

    def local_alloc(
        self,
        shape: tuple[int, ...],
        dtype: str,
        num: int,
        storage: str = "smem",
        reuse: AliasSpec | None = None,
    ) -> TileArray:
        """Record an array of tiles."""
        name = self._recorder.assigned_name()
        dims = tuple(int(extent) for extent in shape)
        space = reuse.name if reuse is not None else ""
        self._recorder.tiles[name] = Tiles(
            name, dims, _ELEMENT_BYTES[dtype], int(num), storage, space, self._recorder.line()
        )
        return TileArray(name, dims, int(num))

    def _barriers(self, number: int, count: int, warps: int = 0) -> BarrierArray:
        name = self._recorder.assigned_name()
        self._recorder.barriers[name] = Barriers(
            name, int(number), int(count), bool(warps), self._recorder.line(), int(warps)
        )
        return BarrierArray(name, int(number))

    def alloc_barriers(self, number: int, arrive_count: int = 1) -> BarrierArray:
        """Record an array of barriers on which single threads arrive."""
        return self._barriers(number, arrive_count)

    def alloc_warp_barrier(
        self, number: int, num_warps: int = 1, num_arrivals: int = 1
    ) -> BarrierArray:
        """Record an array of barriers on which every thread of `num_warps` warps arrives."""
        return self._barriers(number, num_arrivals, num_warps)

    def clc_create_context(self, num_consumers: int) -> int:
        """Return the tile channel: the number of roles that take from it."""
        self._recorder.consumers = int(num_consumers)
        return int(num_consumers)

    def async_task_replica_id(self) -> int:
        """Return which replica is being executed."""
        return self._recorder.replica

    def subslice(self, view: View, offset: int, size: int) -> View:
        """Return some columns of a tile in tensor memory."""
        start = view.start + offset
        return View(view.array, view.copy, start, start + size, (view.shape[0], size))

    def local_slice(self, view: View, offsets: list[int], shape: list[int]) -> View:
        """Return a part of a tile; accesses to SMEM count for the whole tile."""
        return View(view.array, view.copy, view.start, view.stop, tuple(shape))

    def local_trans(self, view: View) -> View:
        """Return the transposed view."""
        return View(view.array, view.copy, view.start, view.stop, view.shape[::-1])

    def local_load(self, view: View) -> Shaped:
        """Record a read into registers."""
        self._recorder.act(ActionKind.READ, reads=(view.region,))
        return Shaped(view.shape)

    def local_store(self, view: View, value: object) -> None:
        """Record a write from registers."""
        if isinstance(value, Shaped):
            value.look()
        self._recorder.act(ActionKind.WRITE, writes=(view.region,))

    def barrier_wait(self, barrier: Signal, phase: int) -> None:
        """Record a wait."""
        self._recorder.act(ActionKind.WAIT, signal=barrier, value=int(phase))

    def barrier_arrive(self, barrier: Signal, arrive_count: int = 1) -> None:
        """Record an arrival."""
        self._recorder.act(ActionKind.ARRIVE, signal=barrier, value=int(arrive_count))

    def barrier_expect_bytes(self, barrier: Signal, size: int) -> None:
        """Record an arrival that waits for bytes."""
        self._recorder.act(ActionKind.EXPECT, signal=barrier, value=int(size))

    def tcgen05_commit(self, barrier: Signal) -> None:
        """Record the arrival of all MMAs so far."""
        self._recorder.act(ActionKind.COMMIT, signal=barrier)

    def async_dot(
        self,
        a: View | Shaped,
        b: View,
        acc: View | Shaped | None = None,
        use_acc: object = True,
        mBarriers: tuple[Signal, ...] | list[Signal] = (),
        force_async: bool = False,
    ) -> Pending | None:
        """Record an MMA; one with its result in registers is in flight until it is joined."""
        if not isinstance(acc, View):
            return self._register_dot(a, b)
        assert isinstance(a, View)
        self._recorder.act(
            ActionKind.MMA,
            reads=(a.region, b.region),
            writes=(acc.region,),
            commits=tuple(mBarriers),
            accumulates=bool(use_acc),
        )
        return None

    def _register_dot(self, a: View | Shaped, b: View) -> Pending:
        operands = [operand for operand in (a, b) if isinstance(operand, View)]
        if isinstance(a, Pending):
            a.refuse()
        self._recorder.act(
            ActionKind.MMA, reads=tuple(operand.region for operand in operands), joined=True
        )
        self._recorder.issued += 1
        return Pending((a.shape[0], b.shape[1]), self._recorder, self._recorder.issued)

    def async_dot_wait(self, pendings: int, value: Shaped) -> Shaped:
        """Record that the role waits until at most `pendings` matmuls are in flight."""
        self._recorder.act(ActionKind.JOIN, value=int(pendings))
        if isinstance(value, Pending) and value.number > self._recorder.issued - int(pendings):
            value.refuse()
        return Shaped(value.shape)

    def named_barrier_wait(self, index: int, threads: int) -> None:
        """Record that all threads of the role wait at a named barrier."""
        signal = Signal(NAMED, int(index))
        self._recorder.act(ActionKind.MEET, signal=signal, value=int(threads))

    def named_barrier_arrive(self, index: int, threads: int) -> None:
        """Record that all threads of the role arrive at a named barrier, and go on."""
        signal = Signal(NAMED, int(index))
        self._recorder.act(ActionKind.HAND, signal=signal, value=int(threads))

    def async_descriptor_load(
        self, descriptor: str, view: View, coordinates: object, barrier: Signal
    ) -> None:
        """Record a TMA load."""
        self._recorder.act(
            ActionKind.LOAD, signal=barrier, writes=(view.region,), tensor=descriptor
        )

    def async_descriptor_store(
        self, descriptor: str, view: View, coordinates: object, store_reduce: str = ""
    ) -> None:
        """Record a TMA store, or one that adds to what is there."""
        if store_reduce not in ("", "add"):
            what = f"a store that reduces by `{store_reduce}`"
            raise ReadbackError(f"{what} cannot be read back", self._recorder.line())
        adds = bool(store_reduce)
        self._recorder.act(
            ActionKind.STORE, reads=(view.region,), tensor=descriptor, accumulates=adds
        )

    def async_descriptor_store_wait(self, pending: int) -> None:
        """Record that the role waits for its stores to have read their tiles."""
        self._recorder.act(ActionKind.DRAIN, value=int(pending))

    def fence(self, scope: str) -> None:
        """Record a fence."""
        self._recorder.act(ActionKind.FENCE, tensor=scope)

    def clc_producer(self, context: int, phase: int, multi_ctas: bool) -> None:
        """Record the request for the next tile."""
        self._recorder.act(ActionKind.ASK, value=int(phase))

    def clc_consumer(self, context: int, phase: int, multi_ctas: bool) -> int:
        """Record that the role takes the next tile, and return it; -1 after the last."""
        self._recorder.act(ActionKind.TAKE, value=int(phase))
        return self._recorder.next_tile()
