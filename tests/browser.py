"""A headless Chromium for tests, driven over its debugging pipe: no driver, no port, and nothing
that waits for ever.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome-headless-shell",
)
PATIENCE = 120.0  # seconds: a bound for machines that are busy, nothing that a test of a healthy browser comes near


def find_browser() -> str | None:
    """The first Chromium on PATH."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class BrowserGoneError(Exception):
    """The browser has ended, or says nothing."""


class Browser:
    """One page of a browser. What the page logs as an error, or throws, is in `errors`."""

    def __init__(self, program: str, profile: Path) -> None:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        flags = (
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--hide-scrollbars",
        )
        command = [
            program,
            *flags,
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
            "--window-size=1500,950",
            "about:blank",
        ]
        # The protocol is spoken on descriptors 3 and 4; a shell puts them there, whatever numbers
        # they have here.
        script = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", script, "browser", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(to_browser, from_browser),
            start_new_session=True,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._number = 0
        self._rest = b""
        self._session: dict[str, str] = {}
        self.errors: list[str] = []
        self.requests: list[str] = []

    def start(self) -> None:
        """Open a page.

        Raises:
            BrowserGoneError: the browser does not come up.
        """
        try:
            target = self._call("Target.createTarget", url="about:blank")["targetId"]
            self._session = {
                "sessionId": self._call("Target.attachToTarget", targetId=target, flatten=True)[
                    "sessionId"
                ]
            }
            for domain in ("Page", "Runtime", "Log", "Network"):
                self._call(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the browser with all its processes."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=PATIENCE)
        for descriptor in (self._read, self._write):
            os.close(descriptor)

    def open(self, url: str) -> None:
        """Go to a page, and wait until all of it is there."""
        self._call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def evaluate(self, expression: str) -> Any:
        """What an expression gives; a promise is waited for."""
        done = self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until an expression holds: the page's own clock asks again and again."""
        asked = (
            f"new Promise((done, failed) => {{ const end = Date.now() + {PATIENCE / 2 * 1000};"
            f" const ask = () => {{ if ({expression}) done(true); else if (Date.now() > end) failed('never: ' + {json.dumps(expression)});"
            " else setTimeout(ask, 20); }; ask(); })"
        )
        self.evaluate(asked)

    def click(self, selector: str) -> None:
        """Press the mouse on the middle of an element, as a reader would: what lies on top of it
        gets the click.
        """
        found = f"document.querySelector({json.dumps(selector)})"
        box = self.evaluate(
            f"(() => {{ const it = {found}; it.scrollIntoView({{block: 'center'}}); const b = it.getBoundingClientRect();"
            " return {x: b.x + Math.min(b.width, 200) / 2, y: b.y + b.height / 2}; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **box)

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self._call("Input.insertText", text=text)

    def scheme(self, name: str) -> None:
        """Prefer `dark` or `light`, as the system's settings do."""
        self._call(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}]
        )

    def screenshot(self, width: int, height: int) -> bytes:
        """Return a PNG of the page's top, as a window of this size shows it."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        return base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"])

    def _call(self, method: str, **params: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params, **self._session}
        try:
            os.write(self._write, json.dumps(message).encode() + b"\0")
        except BrokenPipeError as exc:
            raise BrowserGoneError(f"it ended ({method})") from exc
        end = time.monotonic() + PATIENCE
        while True:
            answer = self._receive(end, method)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._note(answer)

    def _receive(self, end: float, method: str) -> Any:
        while b"\0" not in self._rest:
            left = end - time.monotonic()
            ready, _, _ = select.select([self._read], [], [], max(0.0, left))
            part = os.read(self._read, 1 << 20) if ready else b""
            if not part:
                raise BrowserGoneError(f"it {'ended' if ready else 'does not answer'} ({method})")
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(str(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "assert", "warning"):
                self.errors.append(str(params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.errors.append(str(params["entry"]))
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
