"""The colours of page and pictures, for light and dark, in one table."""

from __future__ import annotations

#: Name -> colour on light ground, colour on dark ground. Text keeps a contrast of 4.5 and more.
COLOURS = {
    "ground": ("#ffffff", "#14171c"),
    "panel": ("#f5f6f8", "#1c2027"),
    "lane": ("#f1f3f6", "#1d222a"),
    "ink": ("#1b1f24", "#e4e8ee"),
    "faint": ("#59636e", "#98a3b0"),
    "rule": ("#d5dae0", "#363e49"),
    "accent": ("#0757b8", "#79b4ff"),
    "lit": ("#fff1b8", "#4a3f14"),
    "before": ("#d8dee6", "#434c58"),
    "prologue": ("#cfe3fb", "#1f4a7a"),
    "steady": ("#cdebd3", "#1f5a35"),
    "epilogue": ("#fbe2c4", "#6d4617"),
    "tail": ("#f6d3dc", "#70304a"),
    "after": ("#e2d9f3", "#4b3c77"),
    "full": ("#1a7f37", "#5fcf80"),
    "empty": ("#8a5a00", "#e0b050"),
    "post": ("#8250df", "#c8a2ff"),
    "hue0": ("#b9d7f7", "#245a94"),
    "hue1": ("#f9cf9f", "#8a5417"),
    "hue2": ("#bfe5c4", "#2b6b3c"),
    "hue3": ("#f3bcc5", "#8a3348"),
    "hue4": ("#d6c8f0", "#5b4690"),
    "hue5": ("#f2e3a0", "#75651a"),
    "hue6": ("#b5e3e1", "#1f6a6a"),
    "hue7": ("#dcd3c9", "#5d5348"),
    "hue8": ("#e3f0b0", "#566b16"),
    "hue9": ("#f4c4e8", "#7d3a70"),
    "hue10": ("#c3cbe0", "#3d4a70"),
    "hue11": ("#f0d9d0", "#7a4a38"),
}
LIGHT, DARK = 0, 1
#: Colours for buffers.
HUES = sum(name.startswith("hue") for name in COLOURS)

#: Every class of the shapes; `$name` is a colour of the table.
_SHAPES = """\
svg text { font: 11px "DejaVu Sans Mono", ui-monospace, monospace; fill: $ink; }
svg .head { font-weight: bold; }
svg .faint { fill: $faint; }
svg .lane { fill: none; stroke: $rule; }
svg .even { fill: $lane; }
svg .grid { stroke: $rule; stroke-width: 1; fill: none; }
svg .op, svg .life { stroke: $ink; stroke-width: 0.6; }
svg .going { fill-opacity: 0.75; }
svg .before { fill: $before; }
svg .prologue { fill: $prologue; }
svg .steady { fill: $steady; }
svg .epilogue { fill: $epilogue; }
svg .tail { fill: $tail; }
svg .after { fill: $after; }
svg .barrier, svg .channel { fill: none; stroke-width: 1.2; }
svg .barrier { stroke-opacity: 0.45; }
svg path.full { stroke: $full; }
svg path.empty { stroke: $empty; }
svg path.after { stroke: $post; }
svg .barrier.tip { fill-opacity: 0.7; }
svg .dot.full, svg .tip.full, svg text.full { fill: $full; stroke: none; }
svg .dot.empty, svg .tip.empty, svg text.empty { fill: $empty; stroke: none; }
svg .dot.after, svg .tip.after, svg text.after { fill: $post; stroke: none; }
""" + "".join(f"svg .hue{hue} {{ fill: $hue{hue}; }}\n" for hue in range(HUES))


def shapes_style(ground: int) -> str:
    """Return the style of the shapes in the colours of one ground, for a file of its own."""
    style = _SHAPES
    for name in sorted(COLOURS, key=len, reverse=True):
        style = style.replace(f"${name}", COLOURS[name][ground])
    return style


def page_style() -> str:
    """Return the style of the shapes in a page, whose ground the reader chooses."""
    style = _SHAPES
    for name in sorted(COLOURS, key=len, reverse=True):
        style = style.replace(f"${name}", f"var(--{name})")
    light, dark = (
        " ".join(f"--{name}: {colours[ground]};" for name, colours in COLOURS.items())
        for ground in (LIGHT, DARK)
    )
    return (
        f":root {{ color-scheme: light; {light} }}\n"
        f":root[data-theme=dark] {{ color-scheme: dark; {dark} }}\n"
        "@media screen and (prefers-color-scheme: dark) { :root:not([data-theme=light]) "
        f"{{ color-scheme: dark; {dark} }} }}\n"
        f"@media print {{ :root, :root[data-theme=dark] {{ color-scheme: light; {light} }} }}\n"
        f"{style}"
    )
