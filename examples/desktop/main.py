"""An XFCE desktop in a sandbox, seen and used in a browser through the gateway.

The page of noVNC is opened below a path and at a host of its own; a window of a known colour is
opened inside and found in the pixels that arrive, and what is typed in the browser is read from a
file in the sandbox. DESKTOP_SCREENSHOT (desktop.png) is the file for the picture, VNC_PASSWORD the
password (a random one).
"""
import asyncio
import os
import pathlib
import secrets
import sys
import time
from datetime import timedelta
from urllib.parse import urlencode

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shared"))
from opensandbox_example import connection, image, run, until_ready  # noqa: E402
from page import browser_page, host_address  # noqa: E402

from opensandbox import Sandbox  # noqa: E402

COLOUR = (31, 95, 168)
PIXELS_MIN = 50_000  # of the window
SEEN_SECONDS = 60
TRIES = 8
CONNECTED = "document.documentElement.classList.contains('noVNC_connected')"
# [width, height, number of colours, pixels of COLOUR give or take what a lossy picture changes]
LOOK = """(() => {
    const canvas = document.querySelector("#noVNC_container canvas");
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    const colours = new Set(), wanted = [%d, %d, %d];
    let found = 0;
    for (let i = 0; i < data.length; i += 4) {
        colours.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
        found += wanted.every((value, part) => Math.abs(value - data[i + part]) < 8);
    }
    return [canvas.width, canvas.height, colours.size, found];
})()""" % COLOUR


async def open_window(sandbox, name):
    """A terminal of the known colour that keeps the last line in a file."""
    inner = f"echo {name}; : >/tmp/{name}; while read -r line; do echo \"$line\" >/tmp/{name}; done"
    await run(sandbox, "(setsid xfce4-terminal --disable-server --hide-menubar "
              f"--geometry=60x16+320+240 --color-bg=#{bytes(COLOUR).hex()} "
              f"--color-text=#ffffff --title={name} -x sh -c '{inner}' >/tmp/{name}.log 2>&1 &); "
              "for i in $(seq 120); do sleep 0.5; timeout 5 xdotool search --onlyvisible --name "
              f"'^{name}$' windowactivate --sync 2>/tmp/xdotool.log && exit 0; done; "
              f"cat /tmp/xdotool.log /tmp/{name}.log; exit 1")


async def look(page):
    """Waits until the window has arrived; what is seen."""
    end = time.monotonic() + SEEN_SECONDS
    while True:
        width, height, colours, found = await page.value(LOOK)
        if found >= PIXELS_MIN:
            return f"{width}x{height}, more than one colour: {colours > 100}, the window: True"
        if time.monotonic() > end:
            raise TimeoutError(f"{width}x{height}, {colours} colours, {found} pixels of the window")
        await asyncio.sleep(0.5)


async def typed(page, sandbox, name, text):
    """What arrives in the sandbox of what is typed into the page. Keys of the first moments after
    the connection may be lost: like a person, it types again what does not appear."""
    for _ in range(TRIES):
        await page.click_at("#noVNC_container canvas")
        await page.type(text)
        await page.key("Enter")
        done = await sandbox.commands.run(f"for i in $(seq 25); do grep -qx '{text}' /tmp/{name} "
                                          "&& exit 0; sleep 0.2; done; exit 1")
        if not done.exit_code:
            return (await run(sandbox, f"cat /tmp/{name}")).strip()
    raise TimeoutError(f"{text} did not arrive, typed {TRIES} times")


async def use(how, url, sandbox, endpoint, picture=None):
    name = f"by-{how}"
    await open_window(sandbox, name)
    async with browser_page(1280, 800) as page:
        if endpoint:
            await page.admit(endpoint)
        await page.load(url, CONNECTED, "connection of noVNC")
        print(f"by {how}: {await look(page)}")
        print(f"by {how}, typed in the browser, read in the sandbox:",
              await typed(page, sandbox, name, f"typed{how}137"))
        if picture:
            await asyncio.sleep(1)  # what was typed appears
            picture.write_bytes(await page.screenshot())
            print(f"screenshot: {picture}, {picture.stat().st_size} bytes")


async def main():
    password = os.environ.get("VNC_PASSWORD") or secrets.token_hex(4)
    picture = pathlib.Path(os.environ.get("DESKTOP_SCREENSHOT", "desktop.png"))
    began = time.monotonic()
    sandbox = await Sandbox.create(
        image("opensandbox/desktop:latest"), entrypoint=["/entrypoint"],
        env={"VNC_PASSWORD": password}, timeout=timedelta(minutes=15),
        ready_timeout=timedelta(minutes=2), resource={"cpu": "2", "memory": "2Gi"},
        metadata={"examples.opensandbox.io": "desktop"}, connection_config=connection())
    try:
        created = time.monotonic() - began
        await until_ready(sandbox)
        print(f"created in {created:.1f} s, ready {time.monotonic() - began - created:.1f} s later")
        print(f"VNC: {(await sandbox.get_endpoint(5900)).endpoint}")
        endpoint = await sandbox.get_endpoint(6080)
        address, _, path = endpoint.endpoint.partition("/")
        host, _, port = address.partition(":")
        query = urlencode({"autoconnect": "true", "host": host, "port": port or "80",
                           "path": f"{path}/websockify".lstrip("/")})
        # Behind the # a password stays in the browser.
        url = f"http://{endpoint.endpoint}/vnc.html?{query}"
        print(f"noVNC: {url}")
        await use("path", f"{url}#password={password}", sandbox, endpoint)
        base, token = await host_address(sandbox, 6080)
        await use("host", f"{base}/vnc.html?autoconnect=true&opensandbox_access={token}"
                  f"#password={password}", sandbox, None, picture)
    finally:
        await sandbox.destroy()


if __name__ == "__main__":
    asyncio.run(main())
