"""Who is measured: ours and others' attention, each behind the same three questions.

`available` says what is missing on this machine, `unfit` why a case is nothing for it, and
`prepare` makes what is timed. Importing this imports none of the libraries.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ..kernels import BACKWARDS, FORWARDS, generated_kernels, kernel_name
from .interleave import Call, first_line
from .records import Case
from .shapes import Direction

if TYPE_CHECKING:
    from .inputs import Inputs

Tensor = Any
_SHARED = "in broadcast mode q is shared by all sequences"
_REPEATED = "no broadcast mode: q is repeated for every sequence, outside of the timing"
_NO_BATCH_SUM = "in broadcast mode the sum of dq over the batch is left out"


@dataclass(frozen=True, kw_only=True)
class Operands:
    """A provider's view of an input set.

    Attributes:
        leaves: q, k and v in the provider's layout.
        attend: out of those, in the provider's layout; what a forward times.
        pack: the provider's layout to rows of all sequences, [T, H, D].
        unpack: the other way round.
    """

    leaves: tuple[Tensor, Tensor, Tensor]
    attend: Callable[[Tensor, Tensor, Tensor], Tensor]
    pack: Callable[[Tensor], Tensor]
    unpack: Callable[[Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What is timed, and how its result is compared: out, or the gradients, as `compare` says."""

    call: Call
    results: Callable[[Any], tuple[Tensor, ...]]


class Provider(ABC):
    """One implementation of attention."""

    name: ClassVar[str]
    #: What a reader of its figures should know, and what more of those of its backward.
    notes: ClassVar[tuple[str, ...]] = ()
    backward_notes: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def available(self) -> str | None:
        """Return what is missing here, None if nothing."""

    def unfit(self, case: Case, capability: tuple[int, int] | None) -> str | None:
        """Return why it cannot compute the case on a GPU of that capability, None if it can."""
        return None

    def notes_of(self, direction: Direction) -> tuple[str, ...]:
        """Return what to know of its figures in that direction."""
        backward = direction is Direction.BACKWARD
        return (*self.notes, *self.backward_notes) if backward else self.notes

    @abstractmethod
    def operands(self, inputs: Inputs) -> Operands:
        """Return its view of an input set, copies and tile lists made."""

    def prepare(self, inputs: Inputs) -> Prepared:
        """Return the call to time: one forward, or one backward whose forward is done here."""
        view = self.operands(inputs)
        if inputs.grad_out is None:
            leaves = view.leaves
            return Prepared(
                call=lambda: view.attend(*leaves), results=lambda out: (view.pack(out),)
            )
        autograd = importlib.import_module("torch.autograd")
        leaves = tuple(leaf.detach().requires_grad_() for leaf in view.leaves)
        out, grad_out = view.attend(*leaves), view.unpack(inputs.grad_out)
        return Prepared(
            call=lambda: autograd.grad(out, leaves, grad_out, retain_graph=True),
            results=lambda grads: tuple(view.pack(grad) for grad in grads),
        )


def _same(tensor: Tensor) -> Tensor:
    return tensor


def _missing(module: str, name: str) -> str | None:
    """Return why a name cannot be imported, None if it can."""
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        return f"`{error.name}` is not installed"
    except Exception as error:  # whatever a broken install does when it is imported
        return first_line(error)
    return None if hasattr(found, name) else f"`{module}` has no `{name}`"


class Jfagen(Provider):
    """`jfagen.attention`, with everything that a call of it does on device and host."""

    name = "jfagen"
    notes = (_SHARED, "the tile list is made inside of the timing")
    backward_notes = (
        "in broadcast mode the sum of dq over the batch is inside of the timing",
        "so are delta, zeros for dq's float32 sums, and their rounding",
    )

    def available(self) -> str | None:
        """Return what is missing here, None if nothing."""
        return _missing("torch", "Tensor") or _missing("jfagen", "attention")

    def unfit(self, case: Case, capability: tuple[int, int] | None) -> str | None:
        """Refuse a GPU for which no kernel was generated; a backward needs its forward too."""
        if capability is None:
            return None
        major, minor = capability
        built = {kernel.name for kernel in generated_kernels() if kernel.fits(capability)}
        schedules = [FORWARDS.get(capability, "fwd")]
        if case.direction is Direction.BACKWARD:
            schedules.append(BACKWARDS.get(capability, "bwd"))
        for schedule in schedules:
            name = kernel_name(
                schedule,
                jagged=case.shape.queries is None,
                head_dim=case.shape.head_dim,
                dtype=str(case.dtype),
            )
            if name not in built:
                return f"no generated kernel `{name}` for sm_{major}{minor}"
        return None

    def operands(self, inputs: Inputs) -> Operands:
        """Return the tensors as they are."""
        return self._operands(inputs, None)

    def _operands(self, inputs: Inputs, plan: object) -> Operands:
        attention = importlib.import_module("jfagen").attention
        offsets = inputs.kv_offsets, inputs.q_offsets
        row = inputs.q.shape[1:]
        shape = inputs.q.shape if inputs.q_offsets is not None else (-1, *inputs.q.shape)
        return Operands(
            leaves=(inputs.q, inputs.k, inputs.v),
            attend=lambda q, k, v: attention(q, k, v, *offsets, plan=plan),
            pack=lambda tensor: tensor.reshape(-1, *row),
            unpack=lambda tensor: tensor.view(shape),
        )


class JfagenPlan(Jfagen):
    """The same with a tile list that was made before, as layers of one model share it."""

    name = "jfagen-plan"
    notes = (_SHARED, "the tile list is made outside of the timing")

    def available(self) -> str | None:
        """Return what is missing here, None if nothing."""
        return super().available() or _missing("jfagen", "plan")

    def unfit(self, case: Case, capability: tuple[int, int] | None) -> str | None:
        """Refuse a backward too, whose tile list no plan holds."""
        if case.direction is Direction.BACKWARD:
            return "a plan is of the forward: a backward is what `jfagen` times"
        return super().unfit(case, capability)

    def operands(self, inputs: Inputs) -> Operands:
        """Return the tensors as they are, and make the tile list."""
        rows = None if inputs.q_offsets is None else inputs.q.shape[0]
        plan = importlib.import_module("jfagen").plan(
            inputs.kv_offsets, inputs.q_offsets, total_queries=rows
        )
        return self._operands(inputs, plan)


class FlashAttention4(Provider):
    """FA4's CuTe DSL kernels."""

    name = "fa4"
    notes = (_REPEATED,)
    backward_notes = (_NO_BATCH_SUM,)

    def available(self) -> str | None:
        """Return what is missing here, None if nothing."""
        return _missing("flash_attn.cute", "flash_attn_varlen_func")

    def operands(self, inputs: Inputs) -> Operands:
        """Return packed tensors; the result is out, or out and lse."""
        attend = importlib.import_module("flash_attn.cute").flash_attn_varlen_func
        lengths = {
            "cu_seqlens_q": inputs.packed_q_offsets,
            "cu_seqlens_k": inputs.kv_offsets,
            "max_seqlen_q": inputs.most_queries,
            "max_seqlen_k": inputs.most_keys,
        }

        def out(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            result = attend(q, k, v, **lengths)
            return result[0] if isinstance(result, tuple) else result

        leaves = (inputs.packed_q, inputs.k, inputs.v)
        return Operands(leaves=leaves, attend=out, pack=_same, unpack=_same)


class TorchVarlen(Provider):
    """`torch.nn.attention.varlen`: the FlashAttention that torch is built with."""

    name = "torch-varlen"
    notes = (_REPEATED,)
    backward_notes = (_NO_BATCH_SUM,)

    def available(self) -> str | None:
        """Return what is missing here, None if nothing."""
        return _missing("torch.nn.attention.varlen", "varlen_attn")

    def operands(self, inputs: Inputs) -> Operands:
        """Return packed tensors."""
        attend = importlib.import_module("torch.nn.attention.varlen").varlen_attn
        rest = (
            inputs.packed_q_offsets,
            inputs.kv_offsets,
            inputs.most_queries,
            inputs.most_keys,
        )
        return Operands(
            leaves=(inputs.packed_q, inputs.k, inputs.v),
            attend=lambda q, k, v: attend(q, k, v, *rest),
            pack=_same,
            unpack=_same,
        )


class CuDNN(Provider):
    """torch's scaled dot product attention through cuDNN, for sequences of one length."""

    name = "cudnn"
    notes = ("only where all lengths are equal", _REPEATED)
    backward_notes = (_NO_BATCH_SUM,)

    def available(self) -> str | None:
        """Return what is missing here, None if nothing."""
        if (reason := _missing("torch.nn.attention", "sdpa_kernel")) is not None:
            return reason
        torch = importlib.import_module("torch")
        return None if torch.backends.cudnn.is_available() else "torch has no cuDNN here"

    def unfit(self, case: Case, capability: tuple[int, int] | None) -> str | None:
        """Refuse sequences of different lengths."""
        return None if case.is_dense else "only for sequences of one length"

    def operands(self, inputs: Inputs) -> Operands:
        """Return views [B, H, S, D] of the packed tensors."""
        attention = importlib.import_module("torch.nn.attention")
        functional = importlib.import_module("torch.nn.functional")
        batch, heads = inputs.case.shape.batch, inputs.case.shape.heads

        def unpack(tensor: Tensor) -> Tensor:
            return tensor.view(batch, -1, heads, tensor.shape[-1]).transpose(1, 2)

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            with attention.sdpa_kernel(attention.SDPBackend.CUDNN_ATTENTION):
                return functional.scaled_dot_product_attention(q, k, v)

        return Operands(
            leaves=(unpack(inputs.packed_q), unpack(inputs.k), unpack(inputs.v)),
            attend=attend,
            pack=lambda tensor: tensor.transpose(1, 2).flatten(0, 1),
            unpack=unpack,
        )


#: What the others are compared with.
BASELINE = FlashAttention4.name
#: In this order they are measured and shown.
PROVIDERS: tuple[Provider, ...] = (
    Jfagen(),
    JfagenPlan(),
    FlashAttention4(),
    CuDNN(),
    TorchVarlen(),
)
