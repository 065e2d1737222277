"""ready_use.py IMAGE... - how long a sandbox of each image takes from the request that creates it
until its readiness check succeeds, or a command where it has none. Started by tests/drill/examples
with the environment of an example."""
import asyncio
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "examples/shared"))
from opensandbox_example import connection, until_ready  # noqa: E402

from opensandbox import Sandbox  # noqa: E402

TIMES = 5
STARTED = {"code-interpreter": "/opt/code-interpreter/code-interpreter.sh",
           **dict.fromkeys(("chrome", "desktop", "vscode"), "/entrypoint")}  # the others wait
CHECK = "/usr/local/bin/image-ready"


async def once(name):
    began = time.monotonic()
    more = {"entrypoint": [STARTED[name]]} if name in STARTED else {}
    sandbox = await Sandbox.create(f"opensandbox/{name}:latest", connection_config=connection(),
                                   resource={"cpu": "2", "memory": "2Gi"}, **more)
    try:
        await until_ready(sandbox, f"[ ! -e {CHECK} ] || {CHECK}")
        return time.monotonic() - began
    finally:
        await sandbox.destroy()


async def main():
    for name in sys.argv[1:]:
        took = [await once(name) for _ in range(TIMES)]
        print(f"{name}: ready after {min(took):.2f} to {max(took):.2f} s, "
              f"median {statistics.median(took):.2f}", flush=True)


asyncio.run(main())
