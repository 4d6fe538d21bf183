"""The page's pictures as files: SVG, and PNG at twice the size."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ..driver import Compiled
from .drawing import Drawing
from .page import drawings, environment
from .palette import COLOURS, DARK, LIGHT, shapes_style

_SCALE = 2.0
_FONTS = "mpl-data/fonts/ttf"
_FAMILY = "DejaVu Sans Mono"


@dataclass(frozen=True, slots=True)
class Picture:
    """A file to be written.

    Attributes:
        name: of the file.
        content: its bytes.
    """

    name: str
    content: bytes


def pictures(compiled: Compiled) -> tuple[Picture, ...]:
    """Return every picture of a schedule as SVG, which follows the viewer's theme, and as PNG."""
    found: list[Picture] = []
    for drawing in drawings(compiled).values():
        themed = shapes_style(LIGHT) + (
            "@media (prefers-color-scheme: dark) {\n" + shapes_style(DARK) + "}\n"
        )
        found.append(Picture(f"{drawing.name}.svg", svg(drawing, themed).encode()))
        found.append(Picture(f"{drawing.name}.png", _png(svg(drawing, shapes_style(LIGHT)))))
    return tuple(found)


def svg(drawing: Drawing, style: str) -> str:
    """Return one picture as a file of its own."""
    template = environment().get_template("drawing.svg.jinja")
    return template.render(drawing=drawing, style=style)


def _png(text: str) -> bytes:
    """Return a picture in the font that matplotlib ships, the same on every machine."""
    from resvg_py import svg_to_bytes

    spec = find_spec("matplotlib")
    assert spec is not None and spec.origin is not None, "matplotlib is a dependency"
    return bytes(
        svg_to_bytes(
            svg_string=text,
            zoom=_SCALE,
            background=COLOURS["ground"][LIGHT],
            skip_system_fonts=True,
            font_dirs=[str(Path(spec.origin).parent / _FONTS)],
            font_family=_FAMILY,
            monospace_family=_FAMILY,
        )
    )
