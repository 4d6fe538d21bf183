"""Predict the load of every SM when the tiles of a persistent attention kernel are dealt.

Nothing here is measured: a tile costs what `tiles.Cost` says, and the SMs are all alike.
"""
