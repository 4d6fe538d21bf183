"""Runs a kernel file: its host part with torch, its device functions on the machine."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache, partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

from .dtypes import INT32, INT64, Array
from .global_memory import GlobalMemory
from .language import LIBRARY
from .machine import Cluster, Cta, Machine
from .namespaces import (
    DEVICE_BUILTINS,
    Namespace,
    language_namespace,
    tlx_namespace,
    triton_namespace,
)
from .order_log import OrderLog
from .report import MachineFault
from .scalars import Float32, as_dtype, make_scalar
from .scheduler import Policy, Role, Scheduler
from .tma import Descriptor, make_descriptor
from .transform import KERNEL, TICK, Parameters, Program, compile_function
from .values import Value

_TLX = "triton.language.extra.tlx"


class Keep(StrEnum):
    """What a run keeps for its outcome: choices and last calls, or everything that it ordered."""

    NOTHING = "nothing"
    CHOICES = "choices"
    ORDER = "order"


@dataclass(slots=True, eq=False)
class Run:
    """The state of one simulated call of the host function."""

    program: Program
    sms: int
    seed: int
    policy: Policy
    step_bound: int
    matmul: Callable[[Array, Array], Array]
    keep: Keep = Keep.NOTHING
    host: dict[str, Value] = field(default_factory=dict)
    machines: list[Machine] = field(default_factory=list)
    memory: GlobalMemory = field(default_factory=GlobalMemory)

    def load_host(self) -> None:
        """Execute the host part of the file."""
        filename = self.program.source.filename
        self.host.update(__name__="__jfagen_machine__", __file__=filename)
        self.host[KERNEL] = partial(HostKernel, self)
        exec(self.program.host, self.host)


@dataclass(slots=True, eq=False)
class HostKernel:
    """A device function as the host sees it: `kernel[grid](...)` launches it."""

    run: Run
    name: str

    @property
    def fn(self) -> HostKernel:
        """Return the function below a decorator, which is this one."""
        return self

    def __getitem__(self, grid: Value) -> Callable[..., None]:
        return partial(self._launch, grid)

    def _launch(self, grid: Value, *args: Value, **options: Value) -> None:
        parameters = self.run.program.parameters[self.name]
        bound = dict(zip(parameters.names, args, strict=False))
        bound.update({name: v for name, v in options.items() if name in parameters.names})
        sizes = grid(bound) if callable(grid) else grid
        launch(self.run, self.name, sizes, bound, options)


def launch(
    run: Run,
    name: str,
    grid: Value,
    arguments: dict[str, Value],
    options: dict[str, Value],
) -> None:
    """Run one kernel launch to its end.

    Raises:
        MachineStop: a deadlock, a race or a fault.
    """
    number = len(run.machines)
    scheduler = Scheduler(
        seed=run.seed * 1009 + number,
        policy=run.policy,
        step_bound=run.step_bound,
        launch=number,
        keep_choices=run.keep is Keep.CHOICES,
    )
    warps = int(options.get("num_warps", 4))
    machine = Machine(scheduler=scheduler, source=run.program.source, warps=warps)
    parameters = run.program.parameters[name]
    machine.globals = run.memory
    machine.matmul = run.matmul
    if run.keep is Keep.CHOICES:
        machine.keep_timeline()
    machine.log = OrderLog() if run.keep is Keep.ORDER else None
    run.machines.append(machine)
    sizes = [int(size) for size in grid] + [1, 1, 1]
    machine.grid = (sizes[0], sizes[1], sizes[2])
    machine.cluster_size = _cluster_size(options, machine.grid)
    names = device_names(run, machine)
    given = {key: _argument(machine, key, value, parameters) for key, value in arguments.items()}
    body = partial(names[name], **given)
    scheduler.run(partial(_refill, machine, run.sms, body))
    _check_end(machine)


def _cluster_size(options: dict[str, Value], grid: tuple[int, int, int]) -> int:
    """Return the CTAs of a cluster, which lie side by side along the first axis of the grid.

    Raises:
        MachineFault: another shape of cluster, or a grid that it does not divide.
    """
    asked = [int(size) for size in options.get("ctas_per_cga") or (1, 1, 1)]
    if int(options.get("num_ctas", 1)) != 1 or any(size != 1 for size in asked[1:]):
        raise MachineFault("cluster", f"clusters {asked} are not known, only those along axis 0")
    if grid[0] % asked[0]:
        raise MachineFault("cluster", f"{grid[0]} CTAs make no clusters of {asked[0]}")
    return asked[0]


def _refill(machine: Machine, sms: int, body: Callable[[], None]) -> bool:
    """Start the first CTAs, or the next one when nothing runs."""
    total = machine.grid[0] * machine.grid[1] * machine.grid[2]
    running = {id(role.cta) for role in machine.scheduler.roles}
    started = False
    size = machine.cluster_size
    # A cluster starts as a whole, even where fewer CTAs were asked for.
    while (not running or len(running) + size <= sms) and machine.next_cta < total:
        cluster = Cluster(machine.next_cta, size, compacts=machine.log is None)
        machine.next_cta += size
        for cta in cluster.ctas:
            machine.ctas.append(cta)
            _start(machine, cta, body)
            running.add(id(cta))
        started = True
    return started


def _start(machine: Machine, cta: Cta, body: Callable[[], None]) -> None:
    role = Role(
        name="kernel", base_name="kernel", replica=0, warps=machine.warps, cta=cta, number=0, line=0
    )
    cta.roles.append(role)
    machine.scheduler.start(role, lambda: machine.guard(body))


def _check_end(machine: Machine) -> None:
    for cta in machine.ctas:
        for barriers in cta.barriers:
            for slot in barriers.slots:
                if slot.bytes_due:
                    machine.note(f"`{slot.name}[{slot.index}]` still has bytes due at the end")


def _argument(machine: Machine, name: str, value: Value, parameters: Parameters) -> Value:
    """Return a launch argument as device code sees it."""
    kind = type(value).__name__
    if hasattr(value, "untyped_storage"):
        return machine.globals.pointer(value)
    if kind == "TensorDescriptor":
        pointer = machine.globals.pointer(value.base)
        return make_descriptor(
            machine, pointer, value.shape, value.strides, value.block_shape, value.padding
        )
    if name in parameters.constants or isinstance(value, bool | str | Descriptor | None):
        return device_value(value)
    if isinstance(value, int):
        return make_scalar(value, INT32 if -(1 << 31) <= value < 1 << 31 else INT64)
    if isinstance(value, float):
        return Float32(make_scalar(value, Float32.dtype))
    return device_value(value)


def device_value(value: Value) -> Value:
    """Return a compile-time value of the host as device code sees it."""
    kind = type(value).__name__
    if kind == "constexpr":
        return device_value(value.value)
    if kind == "dtype" and type(value).__module__.startswith("triton"):
        return as_dtype(value)
    return value


def device_names(run: Run, machine: Machine) -> dict[str, Value]:
    """Return the globals of the device functions of a file."""
    scope = _Scope(language_namespace(machine), tlx_namespace(machine), triton_namespace())
    names: dict[str, Value] = dict(DEVICE_BUILTINS)
    names[TICK] = partial(_tick, machine)
    for name, value in run.host.items():
        if not name.startswith("__"):
            names[name] = scope.device(value)
    names["__builtins__"] = run.host["__builtins__"]
    exec(run.program.device, names)
    return names


def _tick(machine: Machine) -> None:
    scheduler = machine.scheduler
    scheduler.steps += 1
    if scheduler.steps > scheduler.step_bound:
        raise MachineFault("livelock", f"no end after {scheduler.step_bound} steps")


@dataclass(slots=True, eq=False)
class _Scope:
    """Maps what the host imported to what device code sees."""

    language: Namespace
    tlx: Namespace
    triton: Namespace

    def device(self, value: Value) -> Value:
        """Return one global of the host for device code."""
        if isinstance(value, ModuleType):
            own = {"triton": self.triton, "triton.language": self.language, _TLX: self.tlx}
            return own.get(value.__name__, value)
        if type(value).__name__ == "JITFunction":
            return self._library_function(value.fn)
        if isinstance(value, FunctionType) and value.__module__.startswith("triton"):
            return self._builtin(value)
        return device_value(value)

    def _builtin(self, value: FunctionType) -> Value:
        if value.__name__ in LIBRARY:
            return LIBRARY[value.__name__]
        for namespace in (self.tlx, self.language):
            if value.__name__ in vars(namespace):
                return vars(namespace)[value.__name__]
        return _Unknown(value.__name__)

    def _library_function(self, function: FunctionType) -> Value:
        code = _library_code(function)
        names: dict[str, Value] = dict(DEVICE_BUILTINS)
        for name in _names_in(code):
            found = function.__globals__.get(name)
            if name != function.__name__ and found is not None:
                names[name] = self.device(found)
        exec(code, names)
        return names[function.__name__]


@dataclass(frozen=True, slots=True)
class _Unknown:
    """A function of Triton's library that the machine lacks."""

    name: str

    def __call__(self, *_: Value, **__: Value) -> Value:
        raise MachineFault("unknown-op", f"`{self.name}` is not known")


@lru_cache(maxsize=128)
def _library_code(function: FunctionType) -> CodeType:
    lines, first = inspect.getsourcelines(function)
    filename = str(Path(inspect.getsourcefile(function) or ""))
    return compile_function(textwrap.dedent("".join(lines)), filename, first)


def _names_in(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names_in(constant)
    return names
