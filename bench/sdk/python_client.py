#!/usr/bin/env python3
"""python_client.py DOMAIN KEY - what bench/sdk measures of a Python SDK, whichever is installed.

Reads one job per line from standard input, `first N`, `commands N` or `lines N`, and answers each
with one line of JSON: a list of milliseconds, commands per second, or lines per second.
"""
import asyncio
import json
import sys
import time
from datetime import timedelta

from opensandbox import Sandbox
from opensandbox.config import ConnectionConfig
from opensandbox.models.execd import ExecutionHandlers

LINE = "x" * 100


class Client:
    def __init__(self, domain, key):
        self.domain, self.key = domain, key

    async def create(self):
        config = ConnectionConfig(domain=self.domain, api_key=self.key)
        return await Sandbox.create("host", timeout=timedelta(minutes=10), connection_config=config)

    async def first(self, count):
        """Milliseconds from the call of create to the first line of output."""
        out = []
        for _ in range(count):
            came = []

            async def heard(_, came=came):
                came.append(time.perf_counter())

            began = time.perf_counter()
            sandbox = await self.create()
            await sandbox.commands.run("echo hi", handlers=ExecutionHandlers(on_stdout=heard))
            out.append((came[0] - began) * 1e3)
            await sandbox.kill()
            await sandbox.close()
        return out

    async def commands(self, count):
        """Commands per second, one after the other."""
        sandbox = await self.create()
        await sandbox.commands.run("true")
        began = time.perf_counter()
        for _ in range(count):
            await sandbox.commands.run("true")
        taken = time.perf_counter() - began
        await sandbox.kill()
        await sandbox.close()
        return count / taken

    async def lines(self, count):
        """Lines of 100 bytes per second."""
        sandbox = await self.create()
        began = time.perf_counter()
        done = await sandbox.commands.run(f"yes {LINE} | head -n {count}")
        taken = time.perf_counter() - began
        assert len(done.logs.stdout) == count, len(done.logs.stdout)
        await sandbox.kill()
        await sandbox.close()
        return count / taken


async def main():
    client = Client(*sys.argv[1:3])
    for line in sys.stdin:
        job, count = line.split()
        result = await getattr(client, job)(int(count))
        print(json.dumps(result), flush=True)


asyncio.run(main())
