"""Sandboxes from a pool of a Kubernetes cluster: their pods run before they are asked for.

POOL (python) is a Pool of the cluster, as deploy/kubernetes/examples/pool.yaml makes one;
SANDBOX_DOMAIN and SANDBOX_API_KEY are of a server with the kubernetes runtime. The server's
gateway leads to the pods, which this machine need not reach.
"""
import asyncio
import os
import pathlib
import sys
import time
from datetime import timedelta

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shared"))
from opensandbox_example import connection, image, run  # noqa: E402

from code_interpreter import CodeInterpreter  # noqa: E402
from opensandbox import Sandbox, SandboxManager  # noqa: E402

POOL = os.environ.get("POOL", "python")
SECONDS_MAX = 300


async def available(manager):
    """Waits until the pool has a pod that waits for a sandbox."""
    end = time.monotonic() + SECONDS_MAX
    while not (status := (await manager.get_pool(POOL)).status) or not status.available:
        if time.monotonic() > end:
            raise TimeoutError(f"pool {POOL} has no pod ready after {SECONDS_MAX} s")
        await asyncio.sleep(0.5)


async def use(number, config):
    """One sandbox: a variable of its own, a cell, a file. The name of its pod."""
    began = time.monotonic()
    sandbox = await Sandbox.create(
        image("python:3.12"), extensions={"poolRef": POOL}, env={"TEST_ENV": f"test {number}"},
        timeout=timedelta(minutes=10), ready_timeout=timedelta(seconds=SECONDS_MAX),
        connection_config=config)
    try:
        print(f"sandbox {number}: usable after {time.monotonic() - began:.2f} s")
        print(f"TEST_ENV={await run(sandbox, 'echo $TEST_ENV')}")
        interpreter = await CodeInterpreter.create(sandbox)
        cell = await interpreter.codes.run("{'sum': 2 + 2}", language="python")
        if cell.error:
            raise RuntimeError(f"the cell failed: {cell.error.value}")
        print("result:", cell.result[0].text)
        print("files of others:", (await run(sandbox, "cat /tmp/mine 2>/dev/null; true")) or "none")
        await sandbox.files.write_file("/tmp/mine", f"of sandbox {number}")
        return await run(sandbox, "hostname")
    finally:
        await sandbox.destroy()


async def main():
    config = connection(SECONDS_MAX)
    config.use_server_proxy = True
    async with await SandboxManager.create(config) as manager:
        pods = []
        for number in (1, 2):
            await available(manager)
            pods.append(await use(number, config))
    print("pods:", len(set(pods)))


if __name__ == "__main__":
    asyncio.run(main())
