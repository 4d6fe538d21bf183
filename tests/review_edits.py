"""The edits whose comparison is kept as a text: name -> schedule, replacements; and `jfagen`."""

from __future__ import annotations

import re
import subprocess
import sys

from builders import ROOT, schedule_text
from test_backward_edits import MMA, UNPIPELINED, WIDE, over, staged
from test_edits import HOPPER, LEGAL
from test_hopper_backward_edits import STAGED


def jfagen(*arguments, cwd=ROOT):
    """Run the command line in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "jfagen", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
    )
    assert "Traceback" not in done.stderr
    return done


def renamed(name: str, old: str, new: str) -> tuple[tuple[str, str], ...]:
    """Return the edit that renames a role where roles are named; ops may have the same name."""
    text = schedule_text(name)
    places = rf"(^ *role |asked by |^ *){old}(?=(?:\[\w+\])? *\{{|\n|$| *\}})"
    return ((text, re.sub(places, rf"\1{new}", text, flags=re.M)),)


OTHER_ORDER = "buffers in another order"

EDITS = {
    "1 a ring of two": ("fwd", LEGAL["depth_2"]),
    "1 a ring of four, out over q": ("fwd", LEGAL["depth_4_out_over_q"]),
    "2 rescale in softmax": ("fwd", LEGAL["rescale_in_softmax"]),
    "3 rotated": ("fwd", LEGAL["rotated"]),
    "3 not pipelined": ("fwd", LEGAL["unpipelined"]),
    "4 no peel": ("fwd", LEGAL["no_peel"]),
    "5 whole": ("fwd", LEGAL["slices_1"]),
    "5 four slices": ("fwd", LEGAL["slices_4"]),
    "6 one group": ("fwd", LEGAL["one_group"]),
    "7 given, static": ("fwd", LEGAL["given_static"]),
    "7 longest first, zigzag": ("fwd", LEGAL["longest_zigzag"]),
    "8 a deeper stage": ("bwd", staged(16, 3, 2)),
    "8 a stage in place of registers": ("hopper/bwd", STAGED),
    "9 dq over dp": ("bwd", WIDE),
    "9 dq over the scores": ("bwd", (*WIDE, *over("st", "pt over dq"), (MMA, UNPIPELINED))),
    "11 to Hopper": ("fwd", HOPPER),
    "a role is renamed": ("fwd", renamed("fwd", "correction", "fixer")),
    "a buffer is renamed": ("fwd", (("smem kv     :", "smem pairs  :"),)),
    OTHER_ORDER: (
        "fwd",
        (
            ("  smem q[g]   : bf16[m, d]\n", ""),
            ("  smem out[g]", "  smem q[g]   : bf16[m, d]\n  smem out[g]"),
        ),
    ),
}  # fmt: skip
