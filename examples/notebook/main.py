"""A Jupyter notebook in a sandbox, used in a browser through the gateway.

The notebook is opened below a path and at a host of its own; its cell is run in the browser, the
picture that it draws arrives, and the notebook is saved and read in the sandbox.
NOTEBOOK_SCREENSHOT (notebook.png) is the file for the picture.
"""
import asyncio
import json
import os
import pathlib
import sys
import time
from datetime import timedelta

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shared"))
from opensandbox_example import connection, image, run, until_ready  # noqa: E402
from page import CONTROL, SHIFT, browser_page, host_address  # noqa: E402

from opensandbox import Sandbox  # noqa: E402

PORT = 8888
SAVED_SECONDS = 60
RUN_ATTEMPTS, RUN_SECONDS = 20, 5
HOME = "/workspace"
CONFIG = pathlib.Path(__file__).resolve().parent / "jupyter_server_config.py"
CELL = """import numpy as np
import matplotlib.pyplot as plt
x = np.linspace(0, 4 * np.pi, 400)
plt.figure(figsize=(7, 2.5))
plt.plot(x, np.sin(x) * np.exp(-x / 8))
print("drawn %s:", 137 * 42)"""
OUTPUTS = "[...document.querySelectorAll('.jp-OutputArea-output%s')]"
PRINTED = OUTPUTS % "" + ".some(e => e.textContent.includes('drawn %s: 5754'))"
BEGUN = "document.querySelector('.jp-CodeCell .jp-InputPrompt').textContent.trim() !== '[ ]:'"
DRAWN = OUTPUTS % " img" + ".some(e => e.naturalWidth > 300)"


def notebook(how):
    cell = {"cell_type": "code", "id": "cell-1", "execution_count": None, "metadata": {},
            "outputs": [], "source": CELL % how}
    return json.dumps({"cells": [cell], "nbformat": 4, "nbformat_minor": 5, "metadata": {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}})


async def start(sandbox, path):
    """Jupyter's server below a path. It asks for no password: it listens on loopback, and only
    holders of the sandbox's token reach it."""
    await sandbox.files.write_file("/opt/jupyter/jupyter_server_config.py",
                                   CONFIG.read_text(encoding="utf-8"))
    await run(sandbox, f"(cd {HOME} && JUPYTER_CONFIG_DIR=/opt/jupyter setsid jupyter notebook "
              f"--no-browser --allow-root --ip 127.0.0.1 --port {PORT} "
              f"--ServerApp.base_url='{path}/' "
              "--IdentityProvider.token='' --ServerApp.password='' "
              "--ServerApp.allow_remote_access=True "  # names other than localhost
              f"--ServerApp.root_dir={HOME} >/tmp/jupyter.log 2>&1 </dev/null &)")
    await until_ready(sandbox, f"curl -fsS -o /dev/null http://127.0.0.1:{PORT}{path}/api")


async def saved(sandbox, name):
    """The outputs of the notebook as the sandbox has it, once it is saved."""
    end = time.monotonic() + SAVED_SECONDS
    while True:
        cell = json.loads(await sandbox.files.read_file(f"{HOME}/{name}"))["cells"][0]
        if cell["outputs"]:
            return cell["outputs"]
        if time.monotonic() > end:
            raise TimeoutError(f"{name} is not saved with its outputs after {SAVED_SECONDS} s")
        await asyncio.sleep(0.2)


async def run_cell(page):
    """Clicks into the first cell and runs it; again where the page, still being laid out, lost the
    click or the key. A cell that runs has `[*]:` before it, and its number afterwards."""
    for attempts_left in reversed(range(RUN_ATTEMPTS)):
        await page.click_at(".jp-CodeCell .cm-content")
        await page.key("Enter", SHIFT)
        try:
            await page.until(BEGUN, "run of the cell", RUN_SECONDS)
            break
        except TimeoutError:
            if not attempts_left:
                raise


async def use(how, url, sandbox, endpoint, picture=None):
    name = f"{how}.ipynb"
    await sandbox.files.write_file(f"{HOME}/{name}", notebook(how))
    async with browser_page(1280, 800) as page:
        if endpoint:
            await page.admit(endpoint)
        began = time.monotonic()
        await page.load(url % name, "!!document.querySelector('.jp-CodeCell .cm-content')",
                        "cell of the notebook")
        await page.until("document.body.textContent.includes('Kernel status: Idle') || "
                         "!!document.querySelector('[data-status=idle]')", "kernel")
        print(f"by {how}: notebook with its kernel after {time.monotonic() - began:.1f} s")
        await run_cell(page)
        await page.until(f"{PRINTED % how} && {DRAWN}", "output of the cell")
        await page.key("s", CONTROL)
        kinds = sorted(output["output_type"] for output in await saved(sandbox, name))
        print(f"by {how}, run in the browser, saved in the sandbox: {kinds}")
        if picture:
            picture.write_bytes(await page.screenshot())
            print(f"screenshot: {picture}, {picture.stat().st_size} bytes")


async def main():
    picture = pathlib.Path(os.environ.get("NOTEBOOK_SCREENSHOT", "notebook.png"))
    sandbox = await Sandbox.create(
        image("opensandbox/code-interpreter:latest"),
        entrypoint=["/opt/code-interpreter/code-interpreter.sh"], timeout=timedelta(minutes=15),
        ready_timeout=timedelta(minutes=2), resource={"cpu": "2", "memory": "2Gi"},
        metadata={"examples.opensandbox.io": "notebook"}, connection_config=connection())
    try:
        endpoint = await sandbox.get_endpoint(PORT)
        path = "/" + endpoint.endpoint.partition("/")[2]
        await start(sandbox, path)
        print(f"Jupyter: http://{endpoint.endpoint}/tree")
        await use("path", f"http://{endpoint.endpoint}/notebooks/%s", sandbox, endpoint)
        base, token = await host_address(sandbox, PORT)
        await use("host", f"{base}{path}/notebooks/%s?opensandbox_access={token}", sandbox, None,
                  picture)
    except BaseException:
        print((await sandbox.commands.run("tail -n 30 /tmp/jupyter.log")).text, file=sys.stderr)
        raise
    finally:
        await sandbox.destroy()


if __name__ == "__main__":
    asyncio.run(main())
