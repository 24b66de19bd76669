"""Drive Debian's Chromium over the DevTools protocol, by the pipe that `--remote-debugging-pipe` opens.

One browser serves a test session. A `Page` records what the tests judge: console errors, uncaught exceptions,
violations of the content security policy, and every request.
"""

import base64
import fcntl
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

PATIENCE_S = 20.0
"""A page of a loaded machine may take long; a test that waits reads until then and fails with what it saw."""
INTERRUPTED = "net::ERR_NETWORK_CHANGED"
"""Chromium ends every request when an interface of the machine gets an address, as those of a lab beside a test do."""
_FLAGS = (
    "--headless=new", "--no-first-run", "--disable-gpu", "--disable-extensions", "--disable-background-networking",
    "--disable-component-update", "--disable-default-apps", "--disable-sync", "--metrics-recording-only",
    "--no-sandbox", "--mute-audio", "--hide-scrollbars", "--enable-precise-memory-info", "--remote-debugging-pipe",
)  # fmt: skip


def chromium() -> str | None:
    """Return Chromium's path, or None where it is not installed."""
    return shutil.which("chromium")


class BrowserError(AssertionError):
    """A command that the browser refused, or a page that never became as it was waited for."""


class Browser:
    """A headless Chromium with a profile of its own."""

    def __init__(self) -> None:
        self._profile = tempfile.TemporaryDirectory(prefix="heddle-browser-", ignore_cleanup_errors=True)
        (read_end, self._out), (self._in, write_end) = os.pipe(), os.pipe()
        # Beyond 4, or one redirection would overwrite the other's source.
        theirs_in, theirs_out = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (read_end, write_end))
        program = chromium()
        assert program is not None
        # Chromium reads commands from descriptor 3 and writes replies to 4.
        words = (program, *_FLAGS, f"--user-data-dir={self._profile.name}", "about:blank")
        shell = f"exec {' '.join(words)} 3<&{theirs_in} 4>&{theirs_out}"
        self.process = subprocess.Popen(
            ["bash", "-c", shell], pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        for end in (read_end, write_end, theirs_in, theirs_out):
            os.close(end)
        self._numbers = iter(range(1, 1 << 60))
        self._replies: dict[int, SimpleQueue[dict[str, Any]]] = {}
        self._listeners: dict[str, Callable[[str, dict[str, Any]], None]] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        number = next(self._numbers)
        self._replies[number] = replies = SimpleQueue()
        message = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        try:
            reply = replies.get(timeout=PATIENCE_S * 2)
        except Empty:
            raise BrowserError(f"{method}: no reply") from None
        finally:
            del self._replies[number]
        if "error" in reply:
            raise BrowserError(f"{method}: {reply['error']['message']}")
        return reply["result"]

    def _read(self) -> None:
        left = b""
        while piece := os.read(self._in, 1 << 20):
            *messages, left = (left + piece).split(b"\0")
            for message in map(json.loads, messages):
                if "id" in message:
                    if replies := self._replies.get(message["id"]):
                        replies.put(message)
                elif listener := self._listeners.get(message.get("sessionId", "")):
                    listener(message["method"], message["params"])

    @contextmanager
    def page(self, width: int = 1280, height: int = 720, *, scheme: str = "dark", scale: float = 1) -> "Iterator[Page]":
        """Open a page in a context of its own while the context lasts."""
        context = self.send("Target.createBrowserContext")["browserContextId"]
        target = self.send("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        self._listeners[session] = page.hear
        try:
            page.start(width, height, scheme, scale)
            yield page
        finally:
            del self._listeners[session]
            self.send("Target.disposeBrowserContext", browserContextId=context)

    def close(self) -> None:
        """End the browser and remove its profile."""
        os.close(self._out)  # Chromium ends with its pipe
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(5)
        self._reader.join(5)
        os.close(self._in)
        self._profile.cleanup()


class Page:
    """A page, and what happened in it."""

    def __init__(self, browser: Browser, session: str) -> None:
        self.browser, self.session = browser, session
        self.errors: list[str] = []
        self.interruptions = 0
        self.requests: list[str] = []

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command to this page."""
        return self.browser.send(method, self.session, **params)

    def start(self, width: int, height: int, scheme: str, scale: float) -> None:
        """Set the size and colour scheme, and begin to record."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.resize(width, height, scale)
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def resize(self, width: int, height: int, scale: float = 1) -> None:
        """Set the size of the page in CSS pixels."""
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False
        )

    def hear(self, method: str, params: dict[str, Any]) -> None:
        """Record an event; called by the browser's reader."""
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(arg.get("value", arg.get("description"))) for arg in params["args"]))
        elif method == "Log.entryAdded" and INTERRUPTED in params["entry"]["text"]:
            self.interruptions += 1
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def open(self, url: str) -> None:
        """Go to an address and wait until its document is loaded; again where the machine's interfaces changed."""
        end = time.monotonic() + 3 * PATIENCE_S
        while time.monotonic() < end:
            before = self.interruptions
            reply = self.send("Page.navigate", url=url)
            if INTERRUPTED not in reply.get("errorText", ""):
                self.wait_for(f"location.href.startsWith({json.dumps(url)}) && document.readyState === 'complete'")
                if self.interruptions == before:
                    return
            time.sleep(0.5)  # the changes of one lab come together
        raise BrowserError(f"{url}: {INTERRUPTED} for {3 * PATIENCE_S:.0f} s")

    def trust_any_certificate(self) -> None:
        """Accept a certificate that no authority of this machine has signed."""
        self.send("Security.setIgnoreCertificateErrors", ignore=True)

    def type(self, selector: str, text: str) -> None:
        """Type a text into a field."""
        self.run(f"document.querySelector({json.dumps(selector)}).focus()")
        self.send("Input.insertText", text=text)

    def run(self, script: str) -> Any:
        """Return the value of an expression; a promise is awaited."""
        reply = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in reply:
            details = reply["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description") or details["text"])
        return reply["result"].get("value")

    def wait_for(self, script: str, timeout_s: float = PATIENCE_S) -> Any:
        """Poll an expression until it is true, and return it."""
        end = time.monotonic() + timeout_s
        while True:
            try:
                value = self.run(script)
            except BrowserError as error:  # the page is between two documents
                value, why = None, str(error)
            else:
                why = f"{value!r}"
            if value:
                return value
            if time.monotonic() > end:
                raise BrowserError(f"not within {timeout_s} s: {script} ({why}); errors: {self.errors}")
            time.sleep(0.03)

    def text(self, selector: str = "body") -> str:
        """Return the visible text of an element."""
        return str(self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def wait_for_text(self, text: str, selector: str = "body", timeout_s: float = PATIENCE_S) -> None:
        """Wait until an element shows a text."""
        self.wait_for(
            f"document.querySelector({json.dumps(selector)})?.innerText.includes({json.dumps(text)})", timeout_s
        )

    def press(self, key: str, *, shift: bool = False) -> None:
        """Press and release a key: a letter, Tab, Enter, Escape or an arrow key."""
        code = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32}.get(key, 0)
        text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.send("Input.dispatchKeyEvent", type="keyDown", **common, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def click(self, selector: str) -> None:
        """Click the middle of the first element that is selected."""
        box = self.wait_for(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); if (!e) return null;"
            "e.scrollIntoView({block: 'nearest'}); const r = e.getBoundingClientRect();"
            "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        self.click_at(*box)

    def click_at(self, x: float, y: float) -> None:
        """Click a point, in CSS pixels."""
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self, path: Path) -> None:
        """Write what the page shows as a PNG file."""
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))

    def metrics(self) -> dict[str, float]:
        """Return Chromium's counters of this page; TaskDuration is seconds of the main thread's processor time."""
        self.send("Performance.enable", timeDomain="threadTicks")
        return {metric["name"]: metric["value"] for metric in self.send("Performance.getMetrics")["metrics"]}
