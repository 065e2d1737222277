"""VS Code in a sandbox, used in a browser through the gateway.

The workbench of code-server is opened below a path and at a host of its own; a file is opened in
it, changed and saved, and the change is read and run in the sandbox. VSCODE_SCREENSHOT (vscode.png)
is the file for the picture.
"""
import asyncio
import os
import pathlib
import sys
import time
from datetime import timedelta

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shared"))
from opensandbox_example import connection, image, run, until_ready  # noqa: E402
from page import CONTROL, browser_page, host_address  # noqa: E402

from opensandbox import Sandbox  # noqa: E402

PORT = 8443
SAVED_SECONDS = 60
ROW = ".explorer-folders-view .monaco-list-row[aria-label^=\"%s\"]"
LINES = ".editor-instance .view-lines"
# The lines that the editor shows; it has spaces of its own for those of the file.
SHOWN = "[...document.querySelectorAll('%s .view-line')].map(e => e.textContent).join('\\n')" \
    ".replaceAll('\\u00a0', ' ')" % LINES


async def edit(page, sandbox, name, how):
    """Adds a line to a file in the editor and saves it; the file as the sandbox has it."""
    await page.until("!!document.querySelector('.monaco-workbench')", "workbench")
    await page.click_at(ROW % name, count=1)
    await page.click_at(ROW % name, count=2)
    await page.until(f"({SHOWN}).includes('137 * 42')", "text of the file in the editor")
    await page.click_at(LINES)
    await page.key("End", CONTROL)
    await page.insert(f"print('saved by {how}')\n")
    await page.until(f"({SHOWN}).includes('saved by {how}')", "new line in the editor")
    await page.key("s", CONTROL)
    end = time.monotonic() + SAVED_SECONDS
    while f"saved by {how}" not in (text := await sandbox.files.read_file(f"/workspace/{name}")):
        if time.monotonic() > end:
            raise TimeoutError(f"{name} is not saved after {SAVED_SECONDS} s:\n{text}")
        await asyncio.sleep(0.2)
    return text


async def use(how, url, sandbox, endpoint, picture=None):
    name = f"{how}.py"
    await sandbox.files.write_file(f"/workspace/{name}", "print(137 * 42)\n")
    async with browser_page(1280, 800) as page:
        if endpoint:
            await page.admit(endpoint)
        began = time.monotonic()
        await page.load(url, f"!!document.querySelector('{ROW % name}')", "file in the explorer")
        print(f"by {how}: workbench with {name} after {time.monotonic() - began:.1f} s")
        await edit(page, sandbox, name, how)
        printed = (await run(sandbox, f"python3 /workspace/{name}")).split("\n")
        print(f"by {how}, saved in the editor, run in the sandbox: {printed}")
        if picture:
            picture.write_bytes(await page.screenshot())
            print(f"screenshot: {picture}, {picture.stat().st_size} bytes")


async def main():
    picture = pathlib.Path(os.environ.get("VSCODE_SCREENSHOT", "vscode.png"))
    began = time.monotonic()
    sandbox = await Sandbox.create(
        image("opensandbox/vscode:latest"), entrypoint=["/entrypoint"],
        timeout=timedelta(minutes=15), ready_timeout=timedelta(minutes=2),
        resource={"cpu": "2", "memory": "2Gi"}, metadata={"examples.opensandbox.io": "vscode"},
        connection_config=connection())
    try:
        created = time.monotonic() - began
        await until_ready(sandbox)
        print(f"created in {created:.1f} s, ready {time.monotonic() - began - created:.1f} s later")
        endpoint = await sandbox.get_endpoint(PORT)
        print(f"VS Code: http://{endpoint.endpoint}/")
        await use("path", f"http://{endpoint.endpoint}/?folder=/workspace", sandbox, endpoint)
        base, token = await host_address(sandbox, PORT)
        await use("host", f"{base}/?folder=/workspace&opensandbox_access={token}", sandbox, None,
                  picture)
    finally:
        await sandbox.destroy()


if __name__ == "__main__":
    asyncio.run(main())
