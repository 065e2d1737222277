"""An MCP client makes a sandbox, runs a command, writes and reads a file, and ends the sandbox.

usage: main.py [--program opensandbox-mcp]

Needs the package mcp of PyPI.
"""
import argparse
import asyncio
import os

from mcp import Client, StdioServerParameters

TEXT = "print(137 * 42)\n"


async def call(client, tool, /, **arguments):
    """The result of a tool; an exception when it is an error."""
    result = await client.call_tool(tool, arguments)
    if result.is_error:
        raise RuntimeError(f"{tool}: {result.content[0].text}")
    return result.structured_content


def printed(ran):
    """The standard output of a command; an exception when it failed."""
    if ran.get("error"):
        raise RuntimeError(f"the command failed: {ran}")
    return "\n".join(line["text"].rstrip("\n") for line in ran["logs"]["stdout"])


async def work(client):
    tools = {tool.name for tool in (await client.list_tools()).tools}
    print(f"{client.server_info.name}: {len(tools)} tools")
    created = await call(client, "sandbox_create",
                         image=os.environ.get("SANDBOX_IMAGE", "host"),
                         resource={"cpu": "1", "memory": "256Mi"}, env={"COLOUR": "blue"})
    box = created["sandbox_id"]
    print(f"state: {created['info']['status']['state']}")
    try:
        ran = await call(client, "command_run", sandbox_id=box, command="echo colour: $COLOUR")
        print(printed(ran))
        wrote = await call(client, "file_write", sandbox_id=box, path="/tmp/product.py",
                           content=TEXT)
        print(f"file: {wrote['status']}")
        read = await call(client, "file_read", sandbox_id=box, path="/tmp/product.py")
        print(f"read: {read['content'].strip()}")
        ran = await call(client, "command_run", sandbox_id=box, command="python3 /tmp/product.py")
        print(f"product: {printed(ran)}")
        ran = await call(client, "command_run", sandbox_id=box, command="exit 3")
        print(f"exit code: {ran['exit_code']}")
    finally:
        killed = await call(client, "sandbox_kill", sandbox_id=box)
        print(f"sandbox: {killed['status']}")


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="opensandbox-mcp")
    options = parser.parse_args()
    server = StdioServerParameters(
        command=options.program,
        args=["--domain", os.environ.get("SANDBOX_DOMAIN", "localhost:8080")],
        env={"OPEN_SANDBOX_API_KEY": os.environ.get("SANDBOX_API_KEY", "")})
    async with Client(server, read_timeout_seconds=120) as client:
        await work(client)


if __name__ == "__main__":
    asyncio.run(main())
