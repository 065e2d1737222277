"""Many browsers at once: each in a sandbox, all asked for a page, with the memory of each.

usage: many.py [COUNT] (20). Prints a table; fails when one does not answer, or when a browser or a
sandbox reaches the DevTools of another.
"""
import asyncio
import pathlib
import statistics
import sys
import time
from datetime import timedelta

import httpx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shared"))
from cdp import DevTools  # noqa: E402
from opensandbox_example import connection, image, until_ready  # noqa: E402

from opensandbox import Sandbox  # noqa: E402

READY_SECONDS = 600


async def create(number):
    sandbox = await Sandbox.create(
        image("opensandbox/chrome:latest"), entrypoint=["/entrypoint"],
        timeout=timedelta(minutes=30), ready_timeout=timedelta(seconds=READY_SECONDS),
        resource={"cpu": "1", "memory": "1Gi"}, metadata={"number": str(number)},
        connection_config=connection(READY_SECONDS))
    return sandbox


async def use(number, sandbox, began):
    """(seconds until ready, memory in MiB, title)"""
    await until_ready(sandbox, seconds=READY_SECONDS)
    ready = time.monotonic() - began
    async with DevTools(await sandbox.get_endpoint(9222)) as tab:
        await tab.open(f"data:text/html,<title>browser {number}</title>")
        title = await tab.value("document.title")
    return ready, (await sandbox.get_metrics()).memory_used_in_mib, title


async def refused(one, other):
    """Whether the token of one does not open the other, and the address of the other's network
    namespace is not reached from inside of one."""
    mine, theirs = await one.get_endpoint(9222), await other.get_endpoint(9222)
    async with httpx.AsyncClient(timeout=60) as client:
        answer = await client.get(f"http://{theirs.endpoint}/json", headers=mine.headers)
    address = (await other.commands.run("hostname -I")).text.split()
    inside = [(await one.commands.run(f"curl -s --max-time 3 http://{name}:9222/json")).exit_code
              for name in address]
    return answer.status_code in (401, 403) and all(inside)


async def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    began = time.monotonic()
    made = await asyncio.gather(*map(create, range(count)), return_exceptions=True)
    boxes = [box for box in made if isinstance(box, Sandbox)]
    try:
        if len(boxes) < count:
            raise RuntimeError([box for box in made if not isinstance(box, Sandbox)][0])
        rows = await asyncio.gather(*(use(i, box, began) for i, box in enumerate(boxes)))
        for i, (_, _, title) in enumerate(rows):
            if title != f"browser {i}":
                raise RuntimeError(f"browser {i} answers {title!r}")
        alone = await asyncio.gather(*(refused(boxes[i], boxes[(i + 1) % count])
                                       for i in range(count)))
        ready, memory = [row[0] for row in rows], [row[1] for row in rows]
        print(f"browsers: {count}, all answered")
        print(f"ready: first {min(ready):.1f} s, last {max(ready):.1f} s")
        print(f"memory: {min(memory):.0f} to {max(memory):.0f} MiB each, "
              f"median {statistics.median(memory):.0f}")
        print(f"DevTools of others: {'refused' if all(alone) else 'REACHED'}")
        if not all(alone):
            sys.exit(1)
    finally:
        await asyncio.gather(*(box.destroy() for box in boxes))


if __name__ == "__main__":
    asyncio.run(main())
