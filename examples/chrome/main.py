"""Chromium in a sandbox, driven from outside by the DevTools protocol through the endpoint of
9222.

CHROME_SCREENSHOT (chrome.png) is the file for the picture. The endpoint of 5901 is its display
by VNC.
"""
import asyncio
import json
import os
import pathlib
import sys
from datetime import timedelta

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shared"))
from cdp import DevTools  # noqa: E402
from opensandbox_example import connection, image, until_ready  # noqa: E402

from opensandbox import Sandbox  # noqa: E402

PAGE = """<title>In a sandbox</title><style>body{font:28px sans-serif;margin:60px;
background:#f4f7fb}
b{color:#1f5fa8}</style><h1>Chromium in a sandbox</h1><p>This page was opened by the <b>DevTools
protocol</b>, through the endpoint of port 9222.<p id=sum>"""
SCRIPT = "document.querySelector('#sum').textContent = '137 × 42 = ' + 137 * 42; " \
    "navigator.userAgent"


async def main():
    sandbox = await Sandbox.create(
        image("opensandbox/chrome:latest"), entrypoint=["/entrypoint"],
        timeout=timedelta(minutes=5), ready_timeout=timedelta(minutes=2),
        resource={"cpu": "2", "memory": "2Gi"},
        metadata={"examples.opensandbox.io": "chrome"}, connection_config=connection())
    try:
        seconds = await until_ready(sandbox)
        print(f"ready after {seconds:.1f} s")
        for port in (44772, 5901, 9222):
            print(f"{port}: {(await sandbox.get_endpoint(port)).endpoint}")
        async with DevTools(await sandbox.get_endpoint(9222)) as tab:
            print("pages:", len([row for row in await tab.ask("/json") if row["type"] == "page"]))
            await tab.open("data:text/html;charset=utf-8," + PAGE.replace("#", "%23"))
            print("browser:", await tab.value(SCRIPT))
            print("title:", await tab.value("document.title"))
            print("text:", json.dumps(await tab.value("document.querySelector('%s').textContent"
                                                      % "#sum"), ensure_ascii=False))
            picture = pathlib.Path(os.environ.get("CHROME_SCREENSHOT", "chrome.png"))
            picture.write_bytes(await tab.screenshot())
            print(f"screenshot: {picture}, {picture.stat().st_size} bytes")
    finally:
        await sandbox.destroy()


if __name__ == "__main__":
    asyncio.run(main())
