"""Many browsers at once: each in a sandbox, all asked for a page, with the memory of each.

usage: many.py [COUNT] (20). Prints a table; fails when one does not answer, or when a browser or a
sandbox reaches the DevTools of another.

Browsers are started a few at a time, PARALLEL: started all together on a small machine each of them
takes so long that no limit of time fits. All of them run when the pages are opened.
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
from opensandbox_example import connection, image, run, until_ready  # noqa: E402

from opensandbox import Sandbox  # noqa: E402

READY_SECONDS = 600
PARALLEL = 3


async def start(number, gate):
    """(sandbox, seconds from its creation until DevTools lists a page)"""
    async with gate:
        began = time.monotonic()
        sandbox = await Sandbox.create(
            image("opensandbox/chrome:latest"), entrypoint=["/entrypoint"],
            timeout=timedelta(minutes=30), ready_timeout=timedelta(seconds=READY_SECONDS),
            resource={"cpu": "1", "memory": "1Gi"}, metadata={"number": str(number)},
            connection_config=connection(READY_SECONDS))
        try:
            await until_ready(sandbox, seconds=READY_SECONDS)
        except BaseException:
            await sandbox.destroy()
            raise
        return sandbox, time.monotonic() - began


async def use(number, sandbox, gate):
    """What the page of this browser is called. The page stays open, so that all are at work."""
    async with gate:
        async with DevTools(await sandbox.get_endpoint(9222)) as tab:
            await tab.open(f"data:text/html,<title>browser {number}</title>")
            return await tab.value("document.title")


async def titles(sandbox):
    """Of all pages that the browser behind its endpoint has."""
    endpoint = await sandbox.get_endpoint(9222)
    async with httpx.AsyncClient(timeout=60, headers=endpoint.headers) as client:
        answer = await client.get(f"http://{endpoint.endpoint}/json")
        answer.raise_for_status()
        return {row["title"] for row in answer.json()}


async def refused(one, other, gate):
    """Whether `one`, which reaches its own DevTools, reaches those of the other neither by its
    token nor by an address of the other's network."""
    async with gate:
        mine, theirs = await one.get_endpoint(9222), await other.get_endpoint(9222)
        async with httpx.AsyncClient(timeout=60) as client:
            answer = await client.get(f"http://{theirs.endpoint}/json", headers=mine.headers)
        await run(one, "curl -fsS --max-time 30 -o /dev/null http://127.0.0.1:9222/json")
        found = (await run(other, "hostname -I")).split()
        if not found:
            raise RuntimeError("the sandbox has no address that could be tried")
        hosts = [f"[{name}]" if ":" in name else name for name in found]
        tried = " ".join(f"'http://{name}:9222/json'" for name in hosts)
        inside = await one.commands.run(f"for url in {tried}; do curl -s -o /dev/null --max-time 5 "
                                        '"$url" && exit 0; done; exit 7')
        return answer.status_code in (401, 403) and inside.exit_code == 7


async def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    gate, boxes = asyncio.Semaphore(PARALLEL), []
    made = await asyncio.gather(*(start(i, gate) for i in range(count)), return_exceptions=True)
    try:
        boxes = [row[0] for row in made if isinstance(row, tuple)]
        for row in made:
            if not isinstance(row, tuple):
                raise row
        said = await asyncio.gather(*(use(i, box, gate) for i, box in enumerate(boxes)))
        for i, title in enumerate(said):
            if title != f"browser {i}":
                raise RuntimeError(f"browser {i} answers {title!r}")
        for i, box in enumerate(boxes):
            others = await titles(box) - {f"browser {i}", "about:blank", ""}
            if others:
                raise RuntimeError(f"browser {i} has pages of others: {others}")
        memory = [(await box.get_metrics()).memory_used_in_mib for box in boxes]
        alone = await asyncio.gather(*(refused(boxes[i], boxes[(i + 1) % count], gate)
                                       for i in range(count)))
        for i, (_, seconds) in enumerate(made):
            print(f"browser {i}: ready after {seconds:.1f} s, {memory[i]:.0f} MiB")
        ready = [seconds for _, seconds in made]
        print(f"browsers: {count}, all answered")
        print(f"ready: {min(ready):.1f} to {max(ready):.1f} s each, median "
              f"{statistics.median(ready):.1f}, {PARALLEL} at a time")
        print(f"memory: {min(memory):.0f} to {max(memory):.0f} MiB each, "
              f"median {statistics.median(memory):.0f}")
        print(f"DevTools of others: {'refused' if all(alone) else 'REACHED'}")
        if not all(alone):
            sys.exit(1)
    finally:
        await asyncio.gather(*(box.destroy() for box in boxes))


if __name__ == "__main__":
    asyncio.run(main())
