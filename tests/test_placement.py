"""Placement: what shares a place, what it costs, and what cannot be."""

from __future__ import annotations

from itertools import combinations

import pytest
from builders import SHIPPED, STRANGERS, compiled, compiled_text, edited

from jfagen.diagnostics import CompileError, render_all
from jfagen.proof.realize import executes, realize
from jfagen.types import Storage

REGION = "  region scores[g] { s over (p, alpha, row_sum, row_max) }"


def test_without_its_region_line_the_packer_finds_the_same_map():
    found = compiled("fwd", (REGION, ""))
    assert found.placement.layout.extents == compiled("fwd").placement.layout.extents
    assert found.placement.first == compiled("fwd").placement.first


def test_scores_and_p_apart_need_640_columns_and_are_refused_with_both_places():
    text = edited("fwd", (REGION, "  apart { s, p }"))
    with pytest.raises(CompileError) as caught:
        compiled_text(text)
    shown = render_all(caught.value.diagnostics)
    assert "needs 640 columns, the target has 512" in shown
    assert "`s` is to stay apart" in shown and "`p` is to stay apart" in shown


def test_one_group_takes_256_columns():
    one = compiled("fwd", *ONE_GROUP)
    assert one.placement.allocated == 256
    assert compiled("fwd", (REGION, ""), *ONE_GROUP).placement.allocated == 256
    assert one.placement.smem_bytes == 163_840
    assert one.resources.threads == 12 * 32
    assert one.resources.registers["correction"] == 256


ONE_GROUP = (
    ("m 128 x 2 as g", "m 128 x 1 as g"),
    ("pv[0][i-1]  qk[0][i]  pv[1][i-1]  qk[1][i]", "pv[0][i-1]  qk[0][i]"),
)


@pytest.mark.parametrize("name", [*SHIPPED, *STRANGERS])
def test_everything_fits_and_live_buffers_never_share(name):
    one = compiled(name)
    program, layout = one.program, one.placement.layout
    assert one.placement.columns <= program.target.tmem_columns
    realized = realize(one.plan, one.sync, (3,))
    assert realized.closure is not None
    spans = lifetimes(one, realized)
    for (first, lives), (second, others) in combinations(spans.items(), 2):
        if not layout.extents[first].overlaps(layout.extents[second]):
            continue
        for writes, reads in lives:
            for other_writes, other_reads in others:
                apart = all_before(realized, reads, other_writes) or all_before(
                    realized, other_reads, writes
                )
                assert apart, (first, second)


def lifetimes(one, realized):
    """First writes and last accesses of every use of group 0, as nodes of the realized order."""
    found = {}
    for (site, tile, step), _ in realized.unrolled.end.items():
        for touch in one.plan.touches[site]:
            if touch.group > 0:
                continue
            buffer = one.program.buffer(touch.buffer)
            if buffer.storage is not Storage.TMEM or buffer.depth > 1:
                continue
            use = (tile, step) if one.program.uses_per_tile_step(buffer) else (tile, -1)
            nodes = executes(one.plan, realized, site, tile, step)
            found.setdefault(touch.buffer, {}).setdefault(use, []).append(nodes)
    return {
        name: [([n[0] for n in nodes], [n[1] for n in nodes]) for nodes in uses.values()]
        for name, uses in found.items()
    }


def all_before(realized, firsts, seconds):
    return all(
        first == second or realized.closure.ordered(first, second)
        for first in firsts
        for second in seconds
    )
