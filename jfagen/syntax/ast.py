"""The surface nodes: what stands in a schedule, before any name is resolved.

One frozen class per rule of `schedule.lark`. Every node carries its span; spans do not take part in
comparison, so two texts that differ in blanks and comments only give equal trees. A field that is
None was not written. What may be missing, what must agree and what is built is for the checker.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from ..diagnostics import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Anything with a place in the source."""

    span: Span = field(compare=False, repr=False)


# ---- Leaves ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Name(Node):
    """A name that somebody chose, or a word of the language that was chosen from a few."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Node):
    """A whole number."""

    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf(Node):
    """`in {64, 128}`: every value becomes a kernel of its own."""

    values: tuple[Name | Number, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case(Node):
    """`6 if head_dim 64`: the number when that field of the problem has that value."""

    number: Number
    field: Name
    value: Name | Number


@dataclass(frozen=True, slots=True, kw_only=True)
class Cases(Node):
    """`3 (6 if head_dim 64)`: a number that depends on the instance."""

    default: Number
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneRange(Node):
    """`tune 2..4 default 3`: both ends included."""

    first: Number
    last: Number
    default: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneSet(Node):
    """`tune {1, 2, 4} default 2`."""

    values: tuple[Number, ...]
    default: Number


Count: TypeAlias = Number | Cases | TuneRange | TuneSet


# ---- Problem and tile --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask(Node):
    """`mask causal`, `mask window 1024`."""

    kind: Name
    size: Number | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem(Node):
    """`problem { head_dim 128  dtype bf16  q broadcast  kv jagged  mask none }`."""

    head_dim: Number | OneOf | None
    dtype: Name | OneOf | None
    q: Name | OneOf | None
    kv: Name | None
    mask: Mask | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups(Node):
    """`x 2 as g`: how many groups, and the name of their index."""

    count: Number
    symbol: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class TileSize(Node):
    """`m 128 x 2 as g`: rows of one group along a dimension."""

    symbol: Name
    size: Count
    groups: Groups | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile(Node):
    """`tile { m 128 x 2 as g  n 128 }`."""

    sizes: tuple[TileSize, ...]


# ---- Roles and buffers -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Role(Node):
    """`role softmax[g] { warps 4  registers 184 }`; `default` is the word, where said."""

    name: Name
    group: Name | None
    warps: Count | None
    registers: Count | None
    default: Name | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Index(Node):
    """`[g]`, `[i-1]`, `[0]`: a symbol and an offset; without a symbol the offset is the number."""

    symbol: Name | None
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Op(Node):
    """`qk[0][i]`: an op with its indices in order."""

    name: Name
    indices: tuple[Index, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lives(Node):
    """`lives qk[i] -> pv[i]`: the first op that writes the buffer and the last that reads it."""

    first: Op
    last: Op


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferName(Node):
    """`row_sum[g]`: a buffer, or one per group."""

    name: Name
    group: Name | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Share(Node):
    """`d/2`: one of several equal parts of a dimension."""

    symbol: Name
    parts: Number


Dim: TypeAlias = Name | Number | Share


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer(Node):
    """`smem kv : bf16[n, d]  depth 3  holds k, v`; `element` is a type, or `dtype`."""

    memory: Name
    names: tuple[BufferName, ...]
    element: Name
    dims: tuple[Dim, ...]
    depth: Count | None
    slices: Count | None
    holds: tuple[Name, ...]
    lives: Lives | None


# ---- Placement ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferRef(Node):
    """`p`, `q[0]`: a buffer that is declared elsewhere."""

    name: Name
    index: Index | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Over(Node):
    """`a over b`: the same columns at different times."""

    layers: tuple[RegionTree, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside(Node):
    """`(a, b)`: side by side."""

    parts: tuple[RegionTree, ...]


RegionTree: TypeAlias = BufferRef | Over | Beside


@dataclass(frozen=True, slots=True, kw_only=True)
class Region(Node):
    """`region scores[g] { s over (p, alpha) }`."""

    name: Name
    group: Name | None
    tree: RegionTree


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart(Node):
    """`apart { dp, dq }`: never the same columns."""

    buffers: tuple[BufferRef, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Together(Node):
    """`together { s, p }`: the same columns, their arrangement left to the packer."""

    buffers: tuple[BufferRef, ...]


# ---- Programs ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Peel(Node):
    """`peel`: the loop of this role splits at the first and last step without a mask."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(Node):
    """`turn { softmax[i] }`: replicas of the role run this one after the other."""

    word: Name
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged(Node):
    """`reduce_dq[j] in slices of 32 through stage  hold 2`."""

    op: Op
    width: Count
    through: Name
    hold: Count | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle(Node):
    """`wait dv[g][j]`: the role waits here for a matmul that it has issued."""

    op: Op


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing(Node):
    """`load_q[j] with load_lse[j]`: loads that land on one barrier, that of the first."""

    ops: tuple[Op, ...]


Step: TypeAlias = Op | Landing | Staged | Peel | Turn | Settle


@dataclass(frozen=True, slots=True, kw_only=True)
class Block(Node):
    """`softmax[g] { peel  softmax[g][i] }`: a piece of a role's program."""

    role: Name
    replica: Index | None
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop(Node):
    """`loop i over kv { ... }`; `staggered` is the word."""

    symbol: Name
    over: Name
    staggered: Name | None
    blocks: tuple[Block, ...]


# ---- Pair --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange(Node):
    """`exchange ds by m through outbox relay pass_ds`."""

    value: Name
    dimension: Name
    buffer: Name
    relay: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class Split(Node):
    """`dv, dk split d loads q_d, do_d`: how matmuls divide their second operand over two CTAs."""

    ops: tuple[Name, ...]
    dimension: Name
    loads: tuple[Name, ...]
    exchange: Exchange | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair(Node):
    """`pair { leader 0  st, dpt split m }`."""

    word: Name
    leader: Number | None
    splits: tuple[Split, ...]


# ---- Tiles -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Order(Node):
    """`order longest_first by kv_length`, `order valid with block innermost`, `order given`."""

    kind: Name
    by: Name | None
    innermost: Name | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Next(Node):
    """`next static deal zigzag`, `next clc asked by load`; `asked_by` is a role."""

    source: Name
    deal: Name | None
    asked_by: Name | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles(Node):
    """`tiles { persistent  order given  next static deal round_robin }`."""

    residency: Name | None
    order: Order | None
    next: Next | None


# ---- The whole ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule(Node):
    """`kernel NAME { ... }`: items by kind, in file order; `program` is the blocks and loops."""

    name: Name
    algorithm: Name | None
    target: Name | None
    problem: Problem | None
    tile: Tile | None
    roles: tuple[Role, ...]
    buffers: tuple[Buffer, ...]
    regions: tuple[Region, ...]
    apart: tuple[Apart, ...]
    together: tuple[Together, ...]
    program: tuple[Block | Loop, ...]
    pair: Pair | None
    tiles: Tiles | None
