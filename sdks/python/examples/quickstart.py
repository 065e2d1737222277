"""A sandbox, a command, a file."""
import asyncio

from opensandbox import Sandbox


async def main() -> None:
    async with await Sandbox.create("python:3.12") as sandbox:
        done = await sandbox.commands.run("python3 -c 'print(6 * 7)'")
        print(done.text)
        await sandbox.files.write_file("/tmp/hello.txt", "Hello World", mode=644)
        print(await sandbox.files.read_file("/tmp/hello.txt"))
        await sandbox.kill()


asyncio.run(main())
