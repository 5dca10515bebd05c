"""A headless Chromium, spoken to over two pipes in its own DevTools protocol: no driver, no library."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SECONDS = 600.0
LEFT = ("Inspected target navigated or closed", "Execution context was destroyed")
OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # needed as root in a container; only our own pages are opened
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--window-size=1400,1000",
    "--remote-debugging-pipe",
)


class Browser:
    """One tab.

    Args:
        profile: Folder for the browser's own files.
    """

    def __init__(self, profile: Path) -> None:
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()

        def place_pipes() -> None:  # the protocol is on the descriptors 3 and 4
            first, second = os.dup(commands), os.dup(answers)
            os.dup2(first, 3)
            os.dup2(second, 4)

        self._process = subprocess.Popen(
            [str(PROGRAM), *OPTIONS, f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=place_pipes,
            start_new_session=True,
        )
        os.close(commands)
        os.close(answers)
        self._numbers = itertools.count(1)
        self._buffer = b""
        self._session = self._attach()

    def close(self) -> None:
        os.close(self._commands)
        self._process.terminate()
        self._process.wait(10)
        os.close(self._answers)

    def open(self, url: str) -> None:
        self._send("Page.navigate", url=url)

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression; none if the page is being left."""
        try:
            answer = self._send("Runtime.evaluate", expression=script, returnByValue=True)
        except RuntimeError as error:
            if any(reason in str(error) for reason in LEFT):
                return None
            raise
        return answer["result"].get("value")

    def wait_for_text(self, *texts: str) -> str:
        """The text of the page, once it has all of these."""
        end = time.monotonic() + SECONDS
        while True:
            loaded = "document.readyState === 'complete'"  # only then, buttons do something
            shown = str(self.evaluate(f"{loaded} ? document.body.innerText : ''"))
            if all(text in shown for text in texts):
                return shown
            if time.monotonic() > end:
                raise TimeoutError(f"The page does not show {texts}: {shown[:2000]}")
            time.sleep(0.3)

    def type_into(self, selector: str, text: str) -> None:
        self.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")
        self._send("Input.insertText", text=text)

    def click(self, selector: str, text: str) -> None:
        """Click the last element of the selector with just this text, as soon as there is one."""
        end = time.monotonic() + SECONDS
        script = (
            f"(() => {{ const found = [...document.querySelectorAll({json.dumps(selector)})]"
            f".filter(e => e.innerText.trim() === {json.dumps(text)} && !e.disabled);"
            " found.at(-1)?.click(); return found.length })()"
        )
        while not self.evaluate(script):
            if time.monotonic() > end:
                raise TimeoutError(f"There is no {selector} with {text!r} to click")
            time.sleep(0.3)

    def press(self, key: str, code: int) -> None:
        """Press and release a key, such as ``Enter`` with the code 13."""
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self._send(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text
            )

    def show_as(self, *, width: int, height: int = 900, dark: bool = False) -> None:
        """Show pages in a window of this size, for a person who prefers light or dark."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._send("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._send("Emulation.setEmulatedMedia", features=[scheme])

    def show_times_in(self, zone: str) -> None:
        """Be the browser of a person in a time zone, such as ``Asia/Seoul``."""
        self._send("Emulation.setTimezoneOverride", timezoneId=zone)

    def screenshot(self, file: Path) -> None:
        file.write_bytes(base64.b64decode(self._send("Page.captureScreenshot")["data"]))

    def _attach(self) -> str:
        self._session = ""
        targets = self._send("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        return str(self._send("Target.attachToTarget", targetId=page, flatten=True)["sessionId"])

    def _send(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            chunk = os.read(self._answers, 1 << 16)
            if not chunk:
                raise RuntimeError("The browser has ended")
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        received: dict[str, Any] = json.loads(message)
        return received
