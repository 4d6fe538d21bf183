"""One launch: its CTAs, the roles in them, and what every operation asks of both."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable

import numpy as np

from .barriers import Barriers, Released, Slot
from .dtypes import Array
from .global_memory import GlobalMemory
from .happens import Clocked, Order
from .memory import Memory, Storage, View
from .named_barriers import NamedBarrier
from .order_log import Name, OrderLog, Passage, Touch
from .report import Access, Blocked, Event, Fault, MachineFault, MachineStop, Place
from .scheduler import Operation, Role, Scheduler
from .source import SourceMap
from .timeline import Timeline
from .values import Value


class Cluster:
    """CTAs that start together and reach each other's memory; one CTA alone is a cluster too."""

    def __init__(self, first: int, size: int, *, compacts: bool = True) -> None:
        self.order = Order()
        self.compacts = compacts
        self.operations: set[Operation] = set()
        self.clc_refused = False
        self.arrived = 0
        self.generation = 0
        self.arriving = Released()
        self.released = Released()
        self.ctas = [Cta(self, first + rank, rank) for rank in range(size)]

    def compact(self) -> None:
        """Shorten the happens-before sets when they have grown long."""
        if not self.compacts or not self.order.needs_compaction():
            return
        roles = [role for cta in self.ctas for role in cta.roles]
        slots = [slot for cta in self.ctas for array in cta.barriers for slot in array.slots]
        named = [barrier for cta in self.ctas for barrier in cta.named.values()]
        actors: list[Clocked] = [
            *(role for role in roles if not role.finished and not role.joining),
            *self.operations,
        ]
        sets: list[Clocked] = [
            *(role for role in roles if role.finished or role.joining),
            *(role.mma_before for role in roles),
            *(group for role in roles for group in role.store_groups if group.done),
            *(dot for role in roles for dot in role.dots if dot.done),
            *(slot.arriving for slot in slots),
            *(slot.released for slot in slots),
            *(barrier.arriving for barrier in named),
            *(self.arriving, self.released),
        ]
        self.order.compact(actors, sets)


class Cta:
    """One cooperative thread array: its memory, its barriers and its roles."""

    def __init__(self, cluster: Cluster, number: int, rank: int) -> None:
        self.cluster = cluster
        self.number = number
        self.rank = rank
        self.memory = Memory(number)
        self.barriers: list[Barriers] = []
        self.contexts: list[Value] = []
        self.named: dict[int, NamedBarrier] = {}
        self.roles: list[Role] = []
        self.role_scopes: list[list[Value]] = []
        self.entered = False
        self.tiles = [number]

    @property
    def order(self) -> Order:
        """Return the happens-before of the cluster."""
        return self.cluster.order


class Machine:
    """Everything that operations of one launch share."""

    def __init__(self, *, scheduler: Scheduler, source: SourceMap, warps: int) -> None:
        self.scheduler = scheduler
        self.source = source
        self.warps = warps
        self.globals = GlobalMemory()
        self.notes: dict[str, None] = {}
        self.grid = (1, 1, 1)
        self.cluster_size = 1
        self.next_cta = 0
        self.ctas: list[Cta] = []
        self.matmul: Callable[[Array, Array], Array] = np.matmul
        self.timeline: Timeline | None = None
        self.log: OrderLog | None = None

    def keep_timeline(self) -> None:
        """Keep the last calls of every role from now on."""
        self.timeline = timeline = Timeline()
        scheduler = self.scheduler
        if scheduler.order is not None:
            scheduler.order.on_hold = lambda actor: timeline.put_off(actor, scheduler.choices_made)

    @property
    def role(self) -> Role:
        """Return the role that runs now."""
        role = self.scheduler.current
        if role is None:
            raise AssertionError("no role runs")
        return role

    @property
    def cta(self) -> Cta:
        """Return the CTA of the role that runs now."""
        cta: Cta = self.role.cta
        return cta

    def line(self) -> int:
        """Return the line of the kernel text that runs now."""
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == self.source.filename:
                return frame.f_lineno
            frame = frame.f_back  # type: ignore[assignment]
        return 0

    def drain(self, operations: deque[Operation], left: int, name: str) -> None:
        """Let the role wait for its oldest operations until only `left` are in flight."""
        waited = list(operations)[: max(0, len(operations) - left)]
        place = self.place()

        def blocked() -> Blocked:
            return Blocked(place=place, barrier=name, slot=0, phase=0, completed=0)

        self.scheduler.wait(lambda: all(operation.done for operation in waited), blocked)
        for operation in waited:
            self.role.before |= operation.before
            operations.popleft()

    def place(self, line: int | None = None) -> Place:
        """Return who runs now, and where."""
        line = self.line() if line is None else line
        role = self.role
        return Place(
            role=role.name, cta=role.cta.number, line=line, schedule=self.source.schedule(line)
        )

    def name_here(self, kind: str) -> str:
        """Return the name that the kernel text assigns at the line that runs now."""
        line = self.line()
        return self.source.names.get(line, f"{kind} of line {line}")

    def fault(self, rule: str, message: str) -> MachineStop:
        """Return the report of a fault at the line that runs now."""
        return MachineStop(Fault(rule=rule, message=message, place=self.place()))

    def note(self, text: str) -> None:
        """Keep a remark for the outcome, once."""
        self.notes[text] = None

    def touch(self, view: View, *, write: bool, action: str) -> None:
        """Record that the role that runs now reads or writes a view from registers."""
        role, place = self.role, self.place()
        order = role.cta.order
        number = order.new_event()
        order.record(
            space=(view.memory.number, view.storage),
            region=view.region,
            write=write,
            number=number,
            before=role.before,
            access=self.access(view, action, place),
            role=role.name,
            generic=True,
        )
        if self.log is not None:
            turn = self.log.turn(role.label, place.line, action)
            name = (role.label, place.line, action, turn, view.label)
            self._log_touch(view, name, write=write, number=number, before=role.before)
        role.before |= order.bit(number)

    def _log_touch(self, view: View, name: Name, *, write: bool, number: int, before: int) -> None:
        if self.log is not None:
            self.log.touches.append(
                Touch(
                    name=name,
                    space=(view.memory.number, view.storage),
                    region=view.region,
                    write=write,
                    number=number,
                    before=before,
                )
            )

    def mark(self, order: Order) -> int:
        """Return the bit of a new event that is no access, or nothing if no order is logged."""
        return order.bit(order.new_event()) if self.log is not None else 0

    def access(self, view: View, action: str, place: Place) -> Callable[[], Access]:
        """Return what describes one access, for the case that it is reported."""

        def describe() -> Access:
            extent = f"{'x'.join(map(str, view.shape))} {view.dtype}, {_extent(view)}"
            return Access(place=place, action=action, buffer=view.label, extent=extent)

        return describe

    def touch_all(self, operation: Operation, accesses: list[tuple[View, bool, str]]) -> int:
        """Record the accesses of an asynchronous operation; returns the set after it."""
        order: Order = operation.cta.order
        number = order.new_event()
        for view, write, action in accesses:
            unfenced = order.record(
                space=(view.memory.number, view.storage),
                region=view.region,
                write=write,
                number=number,
                before=operation.before,
                access=self.access(view, action, operation.place),
                role=operation.place.role,
                generic=False,
            )
            for store in unfenced:
                self.note(_missing_fence(store, self.access(view, action, operation.place)()))
            if self.log is not None:
                name = (operation.issuer, operation.place.line, action, operation.turn, view.label)
                self._log_touch(view, name, write=write, number=number, before=operation.before)
        return operation.before | order.bit(number)

    def submit(
        self,
        run: Callable[[Operation], None],
        *,
        queue: deque[Operation] | None = None,
        what: str = "",
    ) -> Operation:
        """Put an asynchronous operation of the current role under way and let others run."""
        role = self.role
        cta = role.cta

        def complete(operation: Operation) -> None:
            if self.timeline is not None:
                self.timeline.add(
                    role.label,
                    Event(
                        number=self.scheduler.choices_made,
                        place=operation.place,
                        what=f"completes: {operation.what}",
                    ),
                )
            run(operation)
            cta.cluster.operations.discard(operation)

        place = self.place()
        operation = Operation(run=complete, before=role.before, place=place, cta=cta, queue=queue)
        operation.what = what or role.calling
        if self.log is not None:
            operation.issuer = role.label
            operation.turn = self.log.turn(role.label, place.line, what or "operation")
        cta.cluster.operations.add(operation)
        self.scheduler.submit(operation)
        return operation

    def wait_slot(self, slot: Slot, parity: int) -> None:
        """Wait until the phase of a parity is complete, then acquire what it released."""
        role = self.role
        role.cta.entered = True
        place = self.place()

        def blocked() -> Blocked:
            return Blocked(
                place=place,
                barrier=slot.name,
                slot=slot.index,
                phase=parity,
                completed=slot.completed,
                detail=slot.detail(),
            )

        self.scheduler.wait(lambda: slot.passes(parity), blocked)
        self._log_passage(slot, place)
        if slot.completed:
            role.before |= slot.released.before
        role.cta.cluster.compact()

    def _log_passage(self, slot: Slot, place: Place) -> None:
        if self.log is None:
            return
        role = self.role
        number = role.cta.order.new_event()
        self.log.passages.append(
            Passage(
                place=place,
                cta=role.cta.number,
                slot=slot,
                completed=slot.completed,
                number=number,
                before=role.before,
            )
        )
        role.before |= role.cta.order.bit(number)

    def peer(self, rank: int) -> Cta:
        """Return a CTA of the cluster, once it has allocated its buffers and barriers.

        The compiler puts a cluster rendezvous behind the allocations of a kernel that needs it.

        Raises:
            MachineFault: the cluster has no such CTA.
        """
        cluster, place = self.cta.cluster, self.place()
        self.cta.entered = True
        if not 0 <= rank < len(cluster.ctas):
            raise MachineFault("cluster", f"no CTA {rank} in a cluster of {len(cluster.ctas)}")
        peer: Cta = cluster.ctas[rank]
        if peer is not self.cta and not peer.entered:
            text = "the start of the peer"
            self.scheduler.wait(
                lambda: peer.entered,
                lambda: Blocked(place=place, barrier=text, slot=rank, phase=0, completed=0),
            )
        return peer

    def slot_of(self, slot: Slot, rank: int) -> Slot:
        """Return a CTA's own copy of a barrier."""
        return self.peer(rank).barriers[slot.array].slots[slot.index]

    def pair(self) -> tuple[Cta, Cta]:
        """Return leader and follower of the pair that the current CTA belongs to.

        Raises:
            MachineFault: the CTA is alone.
        """
        first = self.cta.rank & ~1
        return self.peer(first), self.peer(first + 1)

    def wait_operation(self, operation: Operation, what: str) -> None:
        """Wait until an asynchronous operation is done."""
        place = self.place()

        def blocked() -> Blocked:
            return Blocked(place=place, barrier=what, slot=0, phase=0, completed=0)

        self.scheduler.wait(lambda: operation.done, blocked)

    def guard(self, body: Callable[[], None]) -> None:
        """Run the body of a role; what goes wrong in it becomes a fault with its line.

        Raises:
            MachineStop: a report.
        """
        try:
            body()
        except MachineFault as error:
            raise self._stop(error.rule, error.message, error) from error
        except MachineStop:
            raise
        except Exception as error:
            raise self._stop("python", f"{type(error).__name__}: {error}", error) from error

    def _stop(self, rule: str, message: str, error: BaseException) -> MachineStop:
        line = 0
        traceback = error.__traceback__
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == self.source.filename:
                line = traceback.tb_lineno
            traceback = traceback.tb_next
        return MachineStop(Fault(rule=rule, message=message, place=self.place(line)))


def _missing_fence(store: Access, read: Access) -> str:
    """Return the note on a store by registers that TMA or MMA of another role reads.

    No fault: the compiler fences in the role that issues the read, right before it, which is where
    the public kernels that leave the fence out have it.
    """
    buffer = store.buffer.split("[")[0]
    return (
        f"no proxy fence after the store of `{buffer}` by {store.place.where()}, which"
        f" {read.action} by {read.place.where()} reads: only the fence that the compiler puts"
        " before that read orders them"
    )


def _extent(view: View) -> str:
    region = view.region
    if view.storage is Storage.SMEM:
        return f"bytes {region.start} to {region.stop}"
    return f"columns {region.start // 4} to {-(-region.stop // 4)}"
