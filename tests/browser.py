"""A real headless Chromium, Qt's, in a process of its own; driven over the DevTools protocol."""

from __future__ import annotations

import base64
import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import websocket

HOST = """
import sys
from PySide6.QtCore import QUrl
from PySide6.QtWebEngineCore import QWebEnginePage, QWebEngineProfile
from PySide6.QtWebEngineWidgets import QWebEngineView
from PySide6.QtWidgets import QApplication

app = QApplication(["browser"])
profile = QWebEngineProfile()
view = QWebEngineView()
view.setPage(QWebEnginePage(profile, view))
view.show()
view.load(QUrl("about:blank"))
sys.exit(app.exec())
"""
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking",
         "--force-color-profile=srgb", "--remote-allow-origins=*")  # fmt: skip
#: Keys that write nothing, and Enter: name -> code of the key.
KEYS = {"Tab": 9, "Enter": 13}
SECONDS = 60


class Browser:
    """One page; what it complains of is collected in `complaints`.

    Events arrive while a command waits for its answer.
    """

    def __init__(self, width: int, height: int) -> None:
        self.complaints: list[str] = []
        self._ids = itertools.count(1)
        self._loads = 0
        self._folder = tempfile.TemporaryDirectory()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        hidden = ("DISPLAY", "WAYLAND_DISPLAY")
        environment = {k: v for k, v in os.environ.items() if k not in hidden} | {
            "QT_QPA_PLATFORM": "offscreen",
            "QTWEBENGINE_DISABLE_SANDBOX": "1",
            "QTWEBENGINE_CHROMIUM_FLAGS": " ".join(FLAGS),
            "QTWEBENGINE_REMOTE_DEBUGGING": f"127.0.0.1:{port}",
            "XDG_RUNTIME_DIR": self._folder.name,
        }
        self._log = Path(self._folder.name, "log").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-c", HOST], env=environment, stdout=self._log, stderr=self._log
        )
        try:
            self._socket = websocket.create_connection(
                self._address(port), timeout=SECONDS, suppress_origin=True
            )
        except BaseException:
            self.close()
            raise
        for domain in ("Page", "Runtime", "Log"):
            self.command(f"{domain}.enable")
        self.command("Emulation.setFocusEmulationEnabled", enabled=True)
        self.viewport(width, height)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _address(self, port: int) -> str:
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        end = time.monotonic() + SECONDS
        while self._process.poll() is None and time.monotonic() < end:
            try:
                with direct.open(f"http://127.0.0.1:{port}/json/list", timeout=2) as answer:
                    return next(
                        page["webSocketDebuggerUrl"]
                        for page in json.load(answer)
                        if page["type"] == "page"
                    )
            except (OSError, StopIteration):
                time.sleep(0.05)
        raise RuntimeError(f"the browser does not start:\n{Path(self._log.name).read_text()}")

    def command(self, method: str, **params: object) -> dict:
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == number:
                assert "error" not in message, (method, message["error"])
                return message["result"]
            self._hear(message)

    def _hear(self, message: dict) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.consoleAPICalled":
            said = " ".join(str(one.get("value", one)) for one in params["args"])
            self.complaints.append(f"console.{params['type']}: {said}")
        elif method == "Log.entryAdded":
            self.complaints.append(f"{params['entry']['level']}: {params['entry']['text']}")
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            thrown = details.get("exception", {}).get("description", details["text"])
            self.complaints.append(f"exception: {thrown}")
        self._loads += method == "Page.loadEventFired"

    def open(self, path: Path) -> None:
        """Load a file, and wait until it is there."""
        before = self._loads
        result = self.command("Page.navigate", url=path.resolve().as_uri())
        assert "errorText" not in result, result
        while self._loads == before:
            self._hear(json.loads(self._socket.recv()))

    def js(self, expression: str) -> object:
        """Return the value of an expression."""
        result = self.command(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, (expression, result["exceptionDetails"])
        return result["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until an expression is true: following a link takes the browser a moment."""
        end = time.monotonic() + SECONDS
        while not self.js(expression):
            assert time.monotonic() < end, f"`{expression}` does not become true"
            time.sleep(0.01)

    def viewport(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.command("Emulation.setDeviceMetricsOverride", **size)

    def media(self, kind: str = "", **features: str) -> None:
        """Emulate `print`, or `prefers_color_scheme="dark"`."""
        listed = [{"name": k.replace("_", "-"), "value": v} for k, v in features.items()]
        self.command("Emulation.setEmulatedMedia", media=kind, features=listed)

    def click(self, selector: str) -> None:
        """Click with the mouse in the middle of an element."""
        place = self.point(selector)
        for kind in ("mousePressed", "mouseReleased"):
            button = {"button": "left", "clickCount": 1}
            self.command("Input.dispatchMouseEvent", type=kind, **place, **button)

    def point(self, selector: str) -> dict:
        """Move the mouse to the middle of an element, and return where that is."""
        x, y = self.js(
            f"(e => {{ e.scrollIntoView({{block: 'center'}}); const r = e.getClientRects()[0];"
            "return [r.x + r.width / 2, r.y + r.height / 2] })"
            f"(document.querySelector({json.dumps(selector)}))"
        )
        self.command("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        return {"x": x, "y": y}

    def press(self, key: str) -> None:
        """Press and release a key."""
        code = KEYS.get(key, ord(key.upper()[0]))
        common = {"key": key, "windowsVirtualKeyCode": code}
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        down = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
        self.command("Input.dispatchKeyEvent", **down, **common)
        self.command("Input.dispatchKeyEvent", type="keyUp", **common)

    def screenshot(self) -> bytes:
        """Return what is seen, as PNG."""
        return base64.b64decode(self.command("Page.captureScreenshot", format="png")["data"])

    def close(self) -> None:
        if hasattr(self, "_socket"):
            self._socket.close()
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
        self._folder.cleanup()
