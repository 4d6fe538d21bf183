"""Import torch and TLX in a process of its own, which a broken install may end: a JSON line."""

from __future__ import annotations

import importlib
import json
from typing import Any

#: What the line with the result begins with; others may print too.
MARK = "jfagen-probe "


def _message(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _torch() -> dict[str, Any]:
    try:
        torch = importlib.import_module("torch")
    except ModuleNotFoundError as error:
        missing = None if error.name == "torch" else _message(error)
        return {"version": None, "error": missing or ""}
    except Exception as error:
        return {"version": None, "error": _message(error)}
    found: dict[str, Any] = {"version": str(torch.__version__), "cuda": torch.version.cuda}
    try:
        count = torch.cuda.device_count() if torch.version.cuda is not None else 0
        gpus = [torch.cuda.get_device_properties(index) for index in range(count)]
    except Exception as error:
        return found | {"error": _message(error)}
    return found | {
        "gpus": [[gpu.name, gpu.major, gpu.minor, gpu.multi_processor_count] for gpu in gpus]
    }


def _tlx_error() -> str:
    try:
        importlib.import_module("triton.language.extra.tlx")
    except Exception as error:
        return _message(error)
    return ""


if __name__ == "__main__":
    print("\n" + MARK + json.dumps({"torch": _torch(), "tlx_error": _tlx_error()}), flush=True)
