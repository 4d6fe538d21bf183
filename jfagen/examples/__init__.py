"""Programs to read and to run: how `jfagen.attention` stands in a model that is trained."""

from __future__ import annotations
