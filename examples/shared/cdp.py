"""cdp.py - Chrome's DevTools protocol through an endpoint of a sandbox, without further packages.

    async with DevTools(endpoint) as tab:
        await tab.open("https://example.com")
        png = await tab.screenshot()
"""
import asyncio
import base64
import json
import struct
from urllib.parse import urlsplit

import httpx
import opensandbox_example  # noqa: F401  # finds the SDK
from opensandbox._core import websocket

SECONDS_MAX = 180
MESSAGE_BYTES_MAX = 64 << 20


class DevTools:
    """A tab of its own in the browser behind `endpoint`, an endpoint of port 9222."""

    def __init__(self, endpoint):
        self.base, self.headers = endpoint.endpoint.rstrip("/"), dict(endpoint.headers or {})
        self.number, self.events = 0, []

    async def ask(self, path, method="GET"):
        async with httpx.AsyncClient(timeout=SECONDS_MAX, headers=self.headers) as client:
            answer = await client.request(method, f"http://{self.base}{path}")
            answer.raise_for_status()
            return answer.json()

    async def __aenter__(self):
        self.tab = await self.ask("/json/new?about:blank", "PUT")
        path = urlsplit(self.tab["webSocketDebuggerUrl"]).path
        host, slash, prefix = self.base.partition("/")
        name, _, port = host.partition(":")
        self.reader, self.writer = await asyncio.open_connection(name, int(port or 80))
        rows = [f"GET {slash}{prefix}{path} HTTP/1.1", f"Host: {host}", "Connection: Upgrade",
                "Upgrade: websocket", "Sec-WebSocket-Version: 13",
                f"Sec-WebSocket-Key: {websocket.new_key()}",
                *(f"{name}: {value}" for name, value in self.headers.items())]
        self.writer.write("\r\n".join([*rows, "", ""]).encode())
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), SECONDS_MAX)
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise ConnectionError(head.decode(errors="replace"))
        await self.call("Page.enable")
        return self

    async def __aexit__(self, *_):
        self.writer.close()

    async def read(self):
        """The next message."""
        data = b""
        while True:
            first, size = await self.reader.readexactly(2)
            if size == 126:
                size = struct.unpack(">H", await self.reader.readexactly(2))[0]
            elif size == 127:
                size = struct.unpack(">Q", await self.reader.readexactly(8))[0]
            if len(data) + size > MESSAGE_BYTES_MAX:
                raise ConnectionError("the message is too large")
            data += await self.reader.readexactly(size)
            if first & 0x0F == websocket.CLOSE:
                raise ConnectionError("the browser closed the connection")
            if first & 0x80:
                return json.loads(data)

    async def call(self, method, **parameters):
        self.number += 1
        message = json.dumps({"id": self.number, "method": method, "params": parameters})
        self.writer.write(websocket.frame(websocket.TEXT, message.encode()))
        async with asyncio.timeout(SECONDS_MAX):
            while True:
                answer = await self.read()
                if answer.get("id") == self.number:
                    if "error" in answer:
                        raise RuntimeError(f"{method}: {answer['error']['message']}")
                    return answer["result"]
                self.events.append(answer.get("method"))

    async def open(self, url):
        """Opens the page and waits until it is loaded."""
        self.events.clear()
        await self.call("Page.navigate", url=url)
        async with asyncio.timeout(SECONDS_MAX):
            while "Page.loadEventFired" not in self.events:
                self.events.append((await self.read()).get("method"))

    async def value(self, expression):
        got = await self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                              awaitPromise=True)
        return got["result"].get("value")

    async def screenshot(self):
        return base64.b64decode((await self.call("Page.captureScreenshot", format="png"))["data"])
