"""The command `jfagen`, and `python -m jfagen`."""

from __future__ import annotations

import gc


def main() -> None:
    """Run the command line; what is imported is no garbage, so nobody looks for it there."""
    gc.disable()
    from .cli import main as run

    gc.freeze()
    gc.enable()
    run()


if __name__ == "__main__":
    main()
