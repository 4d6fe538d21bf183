"""An editor for tests: a language server in a process of its own, spoken to in plain JSON."""

from __future__ import annotations

import itertools
import json
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time

#: Seconds within which an answer must come, however busy the machine is.
PATIENCE = 60
#: What VS Code says of itself, as far as the server asks.
RICH = {
    "general": {"positionEncodings": ["utf-16"]},
    "workspace": {
        "codeLens": {"refreshSupport": True},
        "workspaceEdit": {"documentChanges": True},
    },
    "textDocument": {
        "completion": {"completionItem": {"snippetSupport": True, "insertReplaceSupport": True}},
        "rename": {"prepareSupport": True},
        "publishDiagnostics": {"relatedInformation": True},
    },
}
_UNIT = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


class Refused(Exception):
    """The server answered a request with an error."""

    def __init__(self, error):
        super().__init__(error["message"])
        self.code = error["code"]


class Editor:
    """A client with one server; texts are opened, changed and asked about by URI."""

    def __init__(self, capabilities=RICH):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jfagen", "lsp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
        )
        self.received = queue.Queue()
        self.shown = []  # what `window/showMessage` said
        self.refreshes = 0
        self.versions = {}
        self.published = {}  # URI -> what was published and not asked for yet
        self._number = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.initialized = self.ask("initialize", {"capabilities": capabilities, "processId": None})
        self.tell("initialized", {})

    # ---- Messages ------------------------------------------------------------------------------

    def _read(self):
        stream = self.process.stdout
        while header := stream.readline():
            if match := re.match(rb"Content-Length: (\d+)", header):
                while stream.readline().strip():
                    pass
                message = json.loads(stream.read(int(match[1])))
                self.received.put((time.perf_counter(), message))
        self.received.put((time.perf_counter(), None))

    def send(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self.process.stdin.flush()

    def tell(self, method, params):
        self.send({"method": method, "params": params})

    def ask(self, method, params=None):
        """Return the answer to a request, or raise `Refused`."""
        self._number += 1
        self.send({"id": self._number, "method": method, "params": params})
        while True:
            _, message = self.next()
            if message.get("id") == self._number and "method" not in message:
                if "error" in message:
                    raise Refused(message["error"])
                return message["result"]

    def next(self, timeout=PATIENCE):
        """Return the next message, which is noted, and when it came."""
        when, message = self.received.get(timeout=timeout)
        assert message is not None, "the server has ended"
        method, params = message.get("method"), message.get("params")
        if method == "textDocument/publishDiagnostics":
            self.published.setdefault(params["uri"], []).append((when, params))
        elif method == "window/showMessage":
            self.shown.append(params["message"])
        elif method == "workspace/codeLens/refresh":
            self.refreshes += 1
            self.send({"id": message["id"], "result": None})
        return when, message

    # ---- Texts ---------------------------------------------------------------------------------

    def open(self, uri, text):
        """Open a text; return what is found in it at once."""
        self.versions[uri] = 1
        item = {"uri": uri, "languageId": "jfagen", "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": item})
        return self.findings(uri)

    def change(self, uri, text):
        """Change a text as a whole; return what is found in it at once."""
        self.send_change(uri, text)
        return self.findings(uri)

    def send_change(self, uri, text):
        self.versions[uri] += 1
        named = {"uri": uri, "version": self.versions[uri]}
        changes = [{"text": text}]
        self.tell("textDocument/didChange", {"textDocument": named, "contentChanges": changes})

    def findings(self, uri):
        """Return the findings of the next publication for the text's version."""
        return self.publication(uri)[1]["diagnostics"]

    def publication(self, uri):
        """Return when the next publication for the text's version came, and what it says."""
        while True:
            found = self.published.get(uri, [])
            while found:
                when, params = found.pop(0)
                if params.get("version") == self.versions.get(uri):
                    return when, params
            self.next()

    def status(self, uri):
        """Return the words above the kernel."""
        (lens,) = self.ask("textDocument/codeLens", {"textDocument": {"uri": uri}})
        return lens["command"]["title"]

    def proved(self, uri):
        """Wait until the proof of a text is through; return its findings and the words above it."""
        found = []
        while True:
            status = self.status(uri)
            of = re.search(r"(\d+) of (\d+) kernels", status)
            if "proving" not in status and (of is None or of[1] == of[2]):
                while self.published.get(uri):
                    found = self.findings(uri)
                return found, status
            found = self.findings(uri)

    def at(self, method, uri, place, **more):
        """Ask about a place of a text."""
        line, character = place
        position = {"line": line, "character": character}
        return self.ask(
            f"textDocument/{method}",
            {"textDocument": {"uri": uri}, "position": position, **more},
        )

    def close(self, uri):
        del self.versions[uri]
        self.tell("textDocument/didClose", {"textDocument": {"uri": uri}})

    # ---- The end -------------------------------------------------------------------------------

    def end(self):
        """Ask for the end and end; return the exit code and what was written to the log."""
        self.ask("shutdown")
        self.tell("exit", None)
        return self.gone()

    def gone(self):
        """Wait for the end of the process; return its exit code and its log."""
        try:
            code = self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.stdin.close()
            self._reader.join()
            self.process.stdout.close()
        self.log.seek(0)
        written = self.log.read()
        self.log.close()
        return code, written


def place_of(text, offset, encoding="utf-16"):
    """Return the line and column of an offset, counted the slow way."""
    codec, size = _UNIT[encoding]
    lines = re.split(r"\r\n|\r|\n", text[:offset])
    return len(lines) - 1, len(lines[-1].encode(codec, "surrogatepass")) // size


def offset_of(text, position, encoding="utf-16"):
    """Return the offset of a place of the protocol."""
    codec, size = _UNIT[encoding]
    start = 0
    for _ in range(position["line"]):
        start = re.compile(r"\r\n|\r|\n").search(text, start).end()
    rest = text[start:].encode(codec, "surrogatepass")[: position["character"] * size]
    return start + len(rest.decode(codec, "surrogatepass"))


def covered(text, area):
    """Return what a range of the protocol covers."""
    return text[offset_of(text, area["start"]) : offset_of(text, area["end"])]


def applied(text, edits):
    """Return a text after edits, none of which may touch another."""
    spans = [
        (offset_of(text, e["range"]["start"]), offset_of(text, e["range"]["end"]), e["newText"])
        for e in edits
    ]
    spans.sort()
    for (_, end, _), (start, _, _) in itertools.pairwise(spans):
        assert end <= start, "edits overlap"
    for start, end, new in reversed(spans):
        text = text[:start] + new + text[end:]
    return text


def workspace_edits(answer, uri, version):
    """Return the edits of one text from an edit of the workspace that names its version."""
    (change,) = answer["documentChanges"]
    assert change["textDocument"] == {"uri": uri, "version": version}
    return change["edits"]
