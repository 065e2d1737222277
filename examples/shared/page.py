"""page.py - a page in Chromium on this machine, headless, which uses programs in sandboxes as a
person does: it sees pictures, clicks and types.

    async with browser_page() as page:
        await page.admit(await sandbox.get_endpoint(6080))
        await page.open(f"http://{endpoint}/vnc.html")

Chromium is that of CHROMIUM, or of the search path.
"""
import asyncio
import contextlib
import json
import os
import shutil
import tempfile
import time
from types import SimpleNamespace

import httpx
from cdp import DevTools
from opensandbox_example import connection

START_SECONDS = 120
KEYS = {"Enter": ("Enter", 13, "\r"), "End": ("End", 35, "")}
CONTROL, SHIFT = 2, 8
# What the gateway takes the token of a WebSocket from: a browser lets a page set no header there.
PROTOCOLS = """(() => {
    const ours = ["opensandbox.v1", "opensandbox.token." + %s];
    window.WebSocket = new Proxy(WebSocket, {
        construct: (Plain, [url, protocols = []]) => new Plain(url, [protocols, ours].flat()),
    });
})()"""


class Page(DevTools):
    disturbed = False  # a request failed because an address of this machine came or went

    async def read(self):
        message = await super().read()
        if message.get("method") == "Network.loadingFailed" and \
                message["params"].get("errorText") == "net::ERR_NETWORK_CHANGED":
            self.disturbed = True
        return message

    async def load(self, url, expression, what, seconds=START_SECONDS):
        """Opens the page and waits until the expression is true. Where Chromium gave requests up
        because the network of this machine changed, the page is opened again."""
        end = time.monotonic() + seconds
        await self.call("Network.enable")
        while True:
            self.disturbed = False
            await self.open(url)
            while not await self.value(expression):
                if time.monotonic() > end:
                    raise TimeoutError(f"no {what} after {seconds} s")
                if self.disturbed:
                    break
                await asyncio.sleep(0.2)
            else:
                return

    async def size(self, width, height):
        await self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                        deviceScaleFactor=1, mobile=False)

    async def admit(self, endpoint):
        """Sends the headers of this endpoint with everything from now on."""
        headers = dict(endpoint.headers or {})
        await self.call("Network.enable")
        await self.call("Network.setExtraHTTPHeaders", headers=headers)
        for token in sorted(set(headers.values()))[:1]:  # rows of one token, or none
            await self.call("Page.addScriptToEvaluateOnNewDocument",
                            source=PROTOCOLS % json.dumps(token))

    async def until(self, expression, what, seconds=START_SECONDS):
        """Waits until the expression is true; its value."""
        end = time.monotonic() + seconds
        while not (value := await self.value(expression)):
            if time.monotonic() > end:
                raise TimeoutError(f"no {what} after {seconds} s")
            await asyncio.sleep(0.2)
        return value

    async def click(self, x, y, count=1):
        await self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            await self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left",
                            clickCount=count)

    async def click_at(self, selector, count=1):
        """Clicks the middle of an element."""
        place = await self.until(
            "(() => { const e = document.querySelector(%s); if (!e) return null; const r = "
            "e.getBoundingClientRect(); return r.width && [r.x + r.width / 2, r.y + r.height / 2]; "
            "})()" % json.dumps(selector), selector)
        await self.click(*place, count=count)

    async def key(self, name, modifiers=0):
        """Presses a key: a letter, a digit, or one of KEYS."""
        code, number, text = KEYS.get(name) or (
            f"Digit{name}" if name.isdigit() else f"Key{name.upper()}", ord(name.upper()), name)
        row = {"key": name, "code": code, "windowsVirtualKeyCode": number, "modifiers": modifiers}
        text = {} if modifiers or not text else {"text": text}
        await self.call("Input.dispatchKeyEvent", type="keyDown", **row, **text)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **row)

    async def type(self, text):
        for letter in text:
            await self.key(letter)

    async def insert(self, text):
        """As if pasted."""
        await self.call("Input.insertText", text=text)


def find_chromium():
    for name in (os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"):
        path = name and shutil.which(name)
        if path:
            return path
    raise RuntimeError("there is no Chromium on this machine: set CHROMIUM to its path")


async def devtools_port(process, folder):
    """The port that Chromium writes into its profile when DevTools listens."""
    path, end = os.path.join(folder, "DevToolsActivePort"), time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(OSError):
            with open(path, encoding="ascii") as lines:
                first = lines.readline().strip()
                if first:
                    return int(first)
        if process.returncode is not None:
            raise RuntimeError(f"Chromium ended with {process.returncode}")
        if time.monotonic() > end:
            raise TimeoutError(f"DevTools does not listen after {START_SECONDS} s")
        await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def browser_page(width=1280, height=800):
    with tempfile.TemporaryDirectory(prefix="opensandbox-page-",
                                     ignore_cleanup_errors=True) as folder:
        process = await asyncio.create_subprocess_exec(
            find_chromium(), "--headless", "--no-sandbox", "--disable-gpu",
            "--disable-dev-shm-usage", "--no-first-run", "--no-proxy-server",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--remote-debugging-port=0", f"--user-data-dir={folder}",
            f"--window-size={width},{height}", "about:blank",
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL)
        try:
            port = await devtools_port(process, folder)
            async with Page(SimpleNamespace(endpoint=f"127.0.0.1:{port}", headers={})) as page:
                await page.size(width, height)
                yield page
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            try:
                await asyncio.wait_for(process.wait(), 10)
            except asyncio.TimeoutError:
                process.kill()
                await process.wait()


async def host_address(sandbox, port):
    """(http://HOST, token): the address of a port with a host of its own."""
    config = connection()
    async with httpx.AsyncClient(timeout=60) as client:
        answer = await client.get(
            f"http://{config.domain}/v1/sandboxes/{sandbox.id}/endpoints/{port}",
            params={"by_host": "true"}, headers={"OPEN-SANDBOX-API-KEY": config.api_key or ""})
        answer.raise_for_status()
        found = answer.json()
    return f"http://{found['endpoint']}", next(iter((found.get("headers") or {}).values()), "")
