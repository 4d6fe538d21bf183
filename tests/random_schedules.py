"""Random schedules as text: nearly all pass the checker and fit, about half of them can run.

`schedules()` is a hypothesis strategy over the seeds of `random_schedule`: drawn choice by choice,
hypothesis tries the same schedule again and again in small variations. Roles, orders, offsets,
depths, sharing, places and the tile source are chosen; buffers keep the names of their values, k
and v may share the ring `kv`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from hypothesis import strategies as st

WARPS = {"softmax": 4, "correction": 4, "scaler": 4}
COLUMNS = 512


@dataclass
class Draft:
    """A schedule while it is made: ops of every role before, in and after the loop."""

    groups: int
    depth: dict[str, int] = field(default_factory=dict)
    shared_ring: bool = False
    slices: int = 1
    keys: int = 64
    in_registers: tuple[str, ...] = ()
    regions: list[str] = field(default_factory=list)
    before: dict[str, list[str]] = field(default_factory=dict)
    loop: dict[str, list[str]] = field(default_factory=dict)
    after: dict[str, list[str]] = field(default_factory=dict)
    tiles: str = "one_per_cta"

    @property
    def roles(self) -> list[str]:
        """Every role that runs something, in order of appearance."""
        return list(dict.fromkeys([*self.before, *self.loop, *self.after]))


def often(draw, likely, *others):
    """Draw the first value in about two of three cases."""
    return draw.choice([likely] * 2 * len(others) + list(others))


def step(op: str, offset: int = 0) -> str:
    """Return an op for step i + offset."""
    return f"{op}[i{offset:+d}]" if offset else f"{op}[i]"


def every(draft: Draft, op: str) -> str:
    """Return an op for every group."""
    return f"{op}[g]" if draft.groups > 1 else op


def schedules() -> st.SearchStrategy[str]:
    """Return the strategy: the texts of random schedules."""
    return st.randoms(use_true_random=True).map(random_schedule)


def random_schedule(draw: random.Random) -> str:
    """Return the text of one schedule."""
    draft = Draft(groups=draw.choice([1, 1, 2]))
    draft.slices = draw.choice([1, 2, 4])
    choose_loads(draw, draft)
    choose_matmuls(draw, draft)
    choose_warps(draw, draft)
    choose_depths(draw, draft)
    choose_tiles(draw, draft)
    return text_of(draft, draw.random() < 0.5)


def choose_loads(draw: random.Random, draft: Draft) -> None:
    """Place the loads in one role or two, in any order, some of them for later steps."""
    draft.shared_ring = draw.random() < 0.5
    ahead = draw.choice([0, 0, 0, 1, 2, 3])
    apart = not draft.shared_ring and draw.random() < 0.5
    behind = ahead if draft.shared_ring else ahead + often(draw, 0, -1, -2, -3, 1, 2)
    pair = [step("load_k", ahead), step("load_v", behind)]
    if not draft.shared_ring and draw.randrange(4) == 0:
        pair.reverse()
    roles = ["load", "fetch"] if apart else ["load", "load"]
    for role, op in zip(roles, pair, strict=True):
        draft.loop.setdefault(role, []).append(op)
    q_role = often(draw, "load", "fetch" if apart else "query")
    draft.before[q_role] = [every(draft, "load_q")]


def choose_matmuls(draw: random.Random, draft: Draft) -> None:
    """Place the matmuls in one role, or split by op or by group, with pv some steps behind."""
    groups = [f"[{g}]" for g in range(draft.groups)] if draft.groups > 1 else [""]
    split = draw.choice(["", "", "op", "group" if draft.groups > 1 else "op"])
    ahead = draw.choice([0, 0, 0, 1])
    lags = [draw.choice([-1, -1, 0, -2, -3]) for _ in groups]
    if draw.random() < 0.5:
        lags = [lags[0]] * len(groups)
    scores = [step(f"qk{g}", ahead) for g in groups]
    values = [step(f"pv{g}", ahead + lag) for g, lag in zip(groups, lags, strict=True)]
    if split == "op":
        draft.loop["scores"] = draw.sample(scores, len(scores))
        draft.loop["values"] = draw.sample(values, len(values))
        return
    if split == "group":
        for name, pair in zip(["first", "second"], zip(scores, values, strict=True), strict=True):
            draft.loop[name] = in_some_order(draw, list(pair), lags)
        return
    both = [op for pair in zip(scores, values, strict=True) for op in pair]
    draft.loop["mma"] = in_some_order(draw, both, lags)


def in_some_order(draw: random.Random, ops: list[str], lags: list[int]) -> list[str]:
    """Return ops in an order that flows in most cases, else in any."""
    if draw.randrange(4) == 0:
        return draw.sample(ops, len(ops))
    first, then = ("pv", "qk") if min(lags) < 0 and draw.random() < 0.5 else ("qk", "pv")
    if draw.random() < 0.5:
        return [op for name in (first, then) for op in ops if op.startswith(name)]
    found: list[str] = []
    for index in range(0, len(ops), 2):
        found += sorted(ops[index : index + 2], reverse=first == "qk")
    return found


def choose_warps(draw: random.Random, draft: Draft) -> None:
    """Place softmax, rescale, finish and the store."""
    rescaler = draw.choice(["softmax", "correction", "correction", "scaler"])
    finisher = draw.choice(["correction", "correction", "softmax", rescaler])
    softmax, rescale = step(every(draft, "softmax")), step(every(draft, "rescale"))
    draft.loop["softmax"] = [softmax]
    draft.loop.setdefault(rescaler, []).append(rescale)
    if rescaler == "softmax" and draw.randrange(6) == 0:
        draft.loop["softmax"].reverse()
    draft.after["softmax"] = [every(draft, "publish_stats")]
    draft.after.setdefault(finisher, []).append(every(draft, "finish"))
    if finisher == "softmax" and draw.randrange(8) == 0:
        draft.after["softmax"].reverse()
    storer = often(draw, "store", finisher, "load")
    if draft.groups > 1 and storer == "softmax" and draw.random() < 0.5:
        storer = "store"
    draft.after.setdefault(storer, []).append(every(draft, "store_out"))
    if len(draft.after[storer]) > 1 and draw.randrange(8) == 0:
        draft.after[storer].reverse()
    vectors: list[str] = []
    if draft.loop["softmax"] == [softmax, rescale] and draw.random() < 0.5:
        vectors.append("alpha")
    if finisher == "softmax" and draft.after["softmax"][0].startswith("pub"):
        vectors += ["row_sum", "row_max"] if draw.random() < 0.5 else []
    draft.in_registers = tuple(vectors)


def choose_depths(draw: random.Random, draft: Draft) -> None:
    """Choose depths from 1 to 4 that fit, and what lies over what."""
    most = 4 if draft.groups == 1 else 2
    depth = {name: often(draw, 1, *range(2, most + 1)) for name in ("s", "p", "alpha")}
    for name in ("k", "v"):
        depth[name] = draw.choice([1, 2, 2, 3, 3, 4])
    depth["kv"] = draw.choice([1, 2, 2, 2, 3, 3, 3, 4, 4, 4])
    for name in ("q", "out", "acc"):
        depth[name] = often(draw, 1, 2)
    depth["row_sum"], depth["row_max"] = often(draw, 1, 2), often(draw, 1, 2)
    shared = often(draw, "", "s over p", "s over (p, alpha, row_sum, row_max)", "apart")
    vectors = ("alpha", "row_sum", "row_max")
    if shared.startswith("s over"):
        members = ["p", *(v for v in vectors if v in shared and v not in draft.in_registers)]
        inside = members[0] if len(members) == 1 else f"({', '.join(members)})"
        depth |= {name: depth["s"] for name in members}
        draft.regions.append(f"region {every(draft, 'scores')} {{ s over {inside} }}")
    elif shared:
        draft.regions.append("apart { s, p }")
    if often(draw, False, True):
        depth["out"] = depth["q"]
        draft.regions.append(f"region {every(draft, 'io')} {{ out over q }}")
    while columns(draft, depth, "p" if "s over" in shared else "") > COLUMNS:
        widest = max(("s", "p", "acc"), key=lambda name: depth[name])
        less = depth[widest] - 1
        tied = "s over" in shared and widest in ("s", "p")
        names = [n for n in ("s", "p", *vectors) if depth[n] == depth[widest]] if tied else [widest]
        depth |= dict.fromkeys(names, less)
    draft.depth = depth


def columns(draft: Draft, depth: dict[str, int], inside: str) -> int:
    """Return the columns of tensor memory without any overlap but that of the region."""
    widths = {"s": 64, "p": 32, "acc": 64, "alpha": 1, "row_sum": 1, "row_max": 1}
    return draft.groups * sum(w * depth[n] for n, w in widths.items() if n != inside)


def choose_tiles(draw: random.Random, draft: Draft) -> None:
    """Choose the tile source; any role without replicas may ask."""
    kind = draw.choice(["one_per_cta", "round_robin", "zigzag", "clc", "clc"])
    order = draw.choice(["", "  order given", "  order longest_first by kv_length"])
    askers = [r for r in draft.roles if r != "softmax" or draft.groups == 1]
    source = f"persistent{order}  next static deal {kind}"
    if kind == "clc":
        source = f"persistent{order}  next clc asked by {draw.choice(askers)}"
    draft.tiles = f"one_per_cta{order}" if kind == "one_per_cta" else source


# ---- The text ------------------------------------------------------------------------------------


def text_of(draft: Draft, peel: bool) -> str:
    """Return the schedule as text."""
    size = "m 128 x 2 as g" if draft.groups > 1 else "m 128"
    return "\n".join(
        [
            "kernel random {",
            "  algorithm attention.forward",
            "  target sm_100a",
            "  problem { head_dim 64  dtype bf16  q broadcast  kv jagged  mask none }",
            f"  tile {{ {size}  n {draft.keys} }}",
            *role_lines(draft),
            *buffer_lines(draft),
            *(f"  {region}" for region in draft.regions),
            *block_lines(draft, draft.before, "  "),
            "  loop i over kv {",
            *block_lines(draft, draft.loop, "    ", peel),
            "  }",
            *block_lines(draft, draft.after, "  "),
            f"  tiles {{ {draft.tiles} }}",
            "}",
            "",
        ]
    )


def indexed(draft: Draft, role: str) -> str:
    """Return a role as it is declared: the softmax has a replica for every group."""
    return f"{role}[g]" if role == "softmax" and draft.groups > 1 else role


def role_lines(draft: Draft) -> list[str]:
    """Return the roles; the default one has no replicas."""
    single = [r for r in draft.roles if indexed(draft, r) == r]
    default = next((r for r in single if r in WARPS), single[-1])
    found: list[str] = []
    for role in draft.roles:
        warps = 4 if role == default else WARPS.get(role, 1)
        rest = "default" if role == default else f"registers {64 if warps == 4 else 24}"
        found.append(f"  role {indexed(draft, role)} {{ warps {warps}  {rest} }}")
    return found


def buffer_lines(draft: Draft) -> list[str]:
    """Return the buffers."""
    g = "[g]" if draft.groups > 1 else ""

    def deep(name: str) -> str:
        return f"  depth {draft.depth[name]}" if draft.depth[name] > 1 else ""

    ring = f"  smem kv : bf16[n, d]{deep('kv')}  holds k, v"
    rings = [f"  smem {name} : bf16[n, d]{deep(name)}" for name in ("k", "v")]
    vectors = [
        f"  reg {name}{g} : f32[m]"
        if name in draft.in_registers
        else f"  tmem {name}{g} : f32[m]{deep(name)}"
        for name in ("alpha", "row_sum", "row_max")
    ]
    return [
        f"  smem q{g} : bf16[m, d]{deep('q')}",
        *([ring] if draft.shared_ring else rings),
        f"  smem out{g} : bf16[m, d]{deep('out')}",
        f"  tmem s{g} : f32[m, n]{deep('s')}",
        f"  tmem p{g} : bf16[m, n]{deep('p')}  slices {draft.slices}",
        *vectors,
        f"  tmem acc{g} : f32[m, d]{deep('acc')}",
    ]


def block_lines(draft: Draft, blocks: dict[str, list[str]], margin: str, peel=False) -> list[str]:
    """Return the blocks of one part of the kernel."""
    return [
        f"{margin}{indexed(draft, role)} {{ "
        + ("peel  " if peel and role == "softmax" else "")
        + "  ".join(ops)
        + " }"
        for role, ops in blocks.items()
    ]
