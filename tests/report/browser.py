"""A headless Chromium, driven through its debugging pipe: nothing but the browser is needed."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
HOW_TO_INSTALL = (
    "the report is looked at in a real browser, and there is none: "
    "apt-get update && apt-get install -y chromium"
)
_PATIENCE = 40.0

_SWITCHES = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)


class Browser:
    """One page at a time; ``complaints`` and ``requests`` are what it has said and asked for."""

    def __init__(self) -> None:
        assert PROGRAM, HOW_TO_INSTALL
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._profile = tempfile.mkdtemp(prefix="critinit-browser-")
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        self._process = _spawn(PROGRAM, self._profile, theirs_in, theirs_out)
        self._buffer = b""
        self._calls = 0
        self._session: str | None = None
        self._seen: set[str] = set()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        os.kill(self._process, signal.SIGTERM)
        os.waitpid(self._process, 0)
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self._profile, ignore_errors=True)

    def open(self, page: Path, *, width: int = 1100, height: int = 900, dark: bool = False) -> None:
        """Load a file in a window of that size and scheme."""
        self.complaints.clear()
        self.requests.clear()
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self._seen.clear()
        self.call("Page.navigate", url=page.resolve().as_uri())
        end = time.monotonic() + _PATIENCE
        while "Page.loadEventFired" not in self._seen:
            self._note(self._receive(end))

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def screenshot(self, whole: bool = True) -> bytes:
        """The page as PNG."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        return base64.b64decode(found["data"])

    def pdf(self) -> bytes:
        """The page as it is printed."""
        found = self.call("Page.printToPDF", preferCSSPageSize=True, printBackground=False)
        return base64.b64decode(found["data"])

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._calls += 1
        message: dict[str, Any] = {"id": self._calls, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + _PATIENCE
        while True:
            answer = self._receive(end)
            if answer.get("id") == self._calls:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        method, params = event.get("method", ""), event.get("params", {})
        self._seen.add(method)
        if method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
            self.complaints.append(json.dumps(params))
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def _receive(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"no answer from the browser in {_PATIENCE:g} s"
            more = os.read(self._in, 1 << 16)
            assert more, "the browser has ended"
            self._buffer += more
        message, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found


def _spawn(program: str, profile: str, reads: int, writes: int) -> int:
    """Start the browser; it reads commands from file descriptor 3 and answers on 4."""
    reads, writes = (_moved(fd) for fd in (reads, writes))
    nowhere = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    pipe = [(os.POSIX_SPAWN_DUP2, reads, 3), (os.POSIX_SPAWN_DUP2, writes, 4)]
    arguments = [program, *_SWITCHES, f"--user-data-dir={profile}", "about:blank"]
    try:
        return os.posix_spawn(program, arguments, os.environ, file_actions=[*nowhere, *pipe])
    finally:
        os.close(reads)
        os.close(writes)


def _moved(fd: int) -> int:
    """The same file, out of the way of descriptors 3 and 4."""
    high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(fd)
    return high
