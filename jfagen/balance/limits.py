"""How much one prediction takes on."""

from __future__ import annotations

#: Rows of a sequence, a tile or a step: kernels address rows with 32-bit integers.
MOST_ROWS = 2**31 - 1
#: Tiles that are dealt.
MOST_TILES = 2**22
#: Steps that a parameter of the cost may be.
MOST_COST = 10**6
#: SMs that are dealt to.
MOST_SMS = 4096
