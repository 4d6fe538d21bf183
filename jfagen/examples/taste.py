"""A recommendation model over histories of any length, and a task that it can learn.

Users rate items of a few genres; a rating is the user's taste for the genre plus noise. From the
history of (genre, rating) pairs, empty for some, the model tells the taste for every genre.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

#: out [B, M, H, D] of q [M, H, D], packed k and v [T, H, D] and kv_offsets [B + 1].
Attention = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
_NOISE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Sizes of the model and of a batch; histories have 0 to `longest` items."""

    users: int
    longest: int
    queries: int
    heads: int
    head_dim: int
    width: int
    genres: int = 8


class Reader(nn.Module):
    """Learned queries, the same for every user, read the user's history."""

    def __init__(self, sizes: Sizes, attention: Attention) -> None:
        """Make one layer: queries [M, H, D], keys and values of tokens, a summary of what is read.

        Args:
            sizes: of the model.
            attention: `jfagen.attention`, or what is compared with it.
        """
        super().__init__()
        row = sizes.heads * sizes.head_dim
        self.attention, self.row = attention, (sizes.heads, sizes.head_dim)
        self.queries = nn.Parameter(torch.randn(sizes.queries, *self.row))
        self.keys_values = nn.Linear(sizes.width, 2 * row)
        self.summary = nn.Linear(sizes.queries * row, sizes.width)

    def forward(self, tokens: Tensor, kv_offsets: Tensor) -> Tensor:
        """Return a summary of every history, [B, width], from packed tokens [T, width]."""
        k, v = self.keys_values(tokens).unflatten(-1, (2, *self.row)).unbind(1)
        # Autocast gives k and v its type; a parameter keeps float32, and q has to be of theirs.
        out = self.attention(self.queries.to(k.dtype), k, v, kv_offsets)
        return self.summary(out.flatten(1))


class Taste(nn.Module):
    """Two readers: the second reads tokens that know what the first has found."""

    def __init__(self, sizes: Sizes, attention: Attention) -> None:
        """Make embeddings of what a token is made of, both layers, and the head."""
        super().__init__()
        self.genre = nn.Embedding(sizes.genres, sizes.width)
        self.rating = nn.Linear(1, sizes.width)
        self.first, self.second = Reader(sizes, attention), Reader(sizes, attention)
        self.head = nn.Linear(sizes.width, sizes.genres)

    def forward(self, genres: Tensor, ratings: Tensor, users: Tensor, kv_offsets: Tensor) -> Tensor:
        """Return the taste for every genre, [B, genres]; the others are as in `Batch`."""
        tokens = self.genre(genres) + self.rating(ratings[:, None])
        found = self.first(tokens, kv_offsets)
        tokens = functional.gelu(tokens + found[users])
        return self.head(found + self.second(tokens, kv_offsets))


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Histories of all users, packed one after the other, and what is to be told.

    Attributes:
        genres: [T], genre of every item.
        ratings: [T], rating of every item.
        users: [T], the user whose history it is in.
        kv_offsets: [B + 1] int32, where the users' histories begin.
        taste: [B, genres], what ratings are drawn around; 0 where the user has rated none.
    """

    genres: Tensor
    ratings: Tensor
    users: Tensor
    kv_offsets: Tensor
    taste: Tensor

    @property
    def inputs(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return what the model takes."""
        return self.genres, self.ratings, self.users, self.kv_offsets


def make_batch(sizes: Sizes, step: int, device: torch.device) -> Batch:
    """Return the batch of a step: new lengths every time, an empty history always among them."""
    generator = torch.Generator().manual_seed(step)
    draw: Any = partial(torch.randint, generator=generator)
    lengths = draw(0, sizes.longest + 1, (sizes.users,))
    lengths[step % sizes.users] = 0
    users = torch.repeat_interleave(torch.arange(sizes.users), lengths)
    genres = draw(0, sizes.genres, (len(users),))
    taste = torch.randn(sizes.users, sizes.genres, generator=generator)
    noise = _NOISE * torch.randn(len(users), generator=generator)
    rated = torch.zeros_like(taste)
    rated[users, genres] = 1.0
    return Batch(
        genres=genres.to(device),
        ratings=(taste[users, genres] + noise).to(device),
        users=users.to(device),
        kv_offsets=functional.pad(lengths.cumsum(0), (1, 0)).to(device, torch.int32),
        taste=(taste * rated).to(device),
    )


def padded_attention(q: Tensor, k: Tensor, v: Tensor, kv_offsets: Tensor, longest: int) -> Tensor:
    """Return the same as `jfagen.attention` in plain torch, with every history padded.

    Args:
        q: [M, H, D].
        k: [T, H, D], at least one row.
        v: the same.
        kv_offsets: [B + 1].
        longest: what histories are padded to.
    """
    place = torch.arange(longest, device=k.device)
    rows = (kv_offsets[:-1, None] + place).clamp(max=k.shape[0] - 1)
    valid = (place < kv_offsets.diff()[:, None])[:, None, None]
    scores = torch.einsum("mhd,bnhd->bhmn", q, k[rows]).float() * q.shape[2] ** -0.5
    weights = scores.masked_fill(~valid, torch.finfo(scores.dtype).min).softmax(-1)
    # An empty history has no weights at all.
    return torch.einsum("bhmn,bnhd->bmhd", (weights * valid).to(v.dtype), v[rows])
