"""The same from a pool of the server: the sandbox was made before it was asked for."""
import asyncio
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shared"))
from main import run_cells  # noqa: E402
from opensandbox_example import connection, image  # noqa: E402

from code_interpreter import CodeInterpreter  # noqa: E402
from opensandbox import Sandbox, SandboxManager  # noqa: E402
from opensandbox.models import CapacitySpec  # noqa: E402

POOL = "pool-sample"
SECONDS_MAX = 120


async def fill(manager):
    """Waits until the pool has a sandbox ready."""
    end = time.monotonic() + SECONDS_MAX
    while not (await manager.get_pool(POOL)).status.available:
        if time.monotonic() > end:
            raise TimeoutError(f"the pool has no sandbox after {SECONDS_MAX} s")
        await asyncio.sleep(0.1)


async def main():
    async with await SandboxManager.create(connection()) as manager:
        template = {"image": {"uri": image("opensandbox/code-interpreter:latest")},
                    "entrypoint": ["/opt/code-interpreter/code-interpreter.sh"],
                    "resourceLimits": {"cpu": "1", "memory": "1Gi"}}
        await manager.create_pool(POOL, template, CapacitySpec(
            buffer_min=1, buffer_max=1, pool_min=1, pool_max=2))
        try:
            await fill(manager)
            sandbox = await Sandbox.create(
                template["image"]["uri"], entrypoint=template["entrypoint"],
                extensions={"poolRef": POOL}, env={"TEST_ENV": "test"},
                connection_config=connection())
            async with sandbox:
                try:
                    interpreter = await CodeInterpreter.create(sandbox)
                    seen = await interpreter.codes.run(
                        "import os\nprint('TEST_ENV=' + os.environ['TEST_ENV'])",
                        language="python")
                    print(seen.text.strip())
                    await run_cells(sandbox, ["python"])
                finally:
                    await sandbox.kill()
        finally:
            await manager.delete_pool(POOL)


if __name__ == "__main__":
    asyncio.run(main())
