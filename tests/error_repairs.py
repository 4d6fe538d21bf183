"""What the help of each bad schedule says, and the edit that does exactly that."""

from __future__ import annotations

CLC = "next clc asked by load"
REGION = "region scores[g] { s over (p, alpha, row_sum, row_max) }"
PIPELINE = "pv[0][i-1]  qk[0][i]  pv[1][i-1]  qk[1][i]"
KERNEL = "  algorithm attention.forward\n"
HEAD = "kernel jfa_fwd {\n"

#: Bad schedule -> words of its help, and the replacements.
REPAIRS: dict[str, tuple[str | tuple[str, str], ...]] = {}
