#!/usr/bin/env python3
"""test_mcp_node.py stdio|http SDK MCP SERVER BROKER EXECD SANDBOXCTL - opensandbox-mcp and the
official client in JavaScript, with a real server behind. SDK is the directory of the npm package
@modelcontextprotocol/sdk. Needs root."""
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tools")]

from server_process import SECONDS_MAX, ServerProcess, wait_for, why_not  # noqa: E402
from tap import skip_all  # noqa: E402


def is_running(server, box):
    _, _, text = server.request("POST", f"/v1/sandboxes/{box}/proxy/44772/command", {
        "command": "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep [7]6543'"})
    return '"text":"1"' in str(text).replace(" ", "")


def kill_a_client(server, node, env):
    """Kills a process with the client while its call runs. The sandbox in which it runs."""
    box = server.create()
    with subprocess.Popen(node, stdout=subprocess.PIPE, text=True,
                          env={**env, "MCP_VICTIM": box}) as victim:
        assert victim.stdout.readline() == "runs\n"
        assert is_running(server, box)
        victim.kill()
    return box


def expect_its_end(server, box):
    wait_for(lambda: not is_running(server, box), "the end of the command")
    server.request("DELETE", f"/v1/sandboxes/{box}")


def main():
    transport = sys.argv[1]
    sdk, mcp, *programs = map(os.path.abspath, sys.argv[2:])
    skip_all(why_not())
    with ServerProcess(*programs) as server:
        command = [mcp, "--domain", server.domain, "--api-key", server.api_key]
        node = ["node", HERE / "mcp_node.mjs", sdk]
        if transport == "stdio":
            expect_its_end(server, kill_a_client(server, [*node, *command], os.environ))
            return subprocess.run([*node, *command], check=False).returncode
        env = {**os.environ, "OPENSANDBOX_MCP_TOKEN": "a token"}
        with subprocess.Popen([*command, "--transport", "streamable-http", "--port", "0"],
                              stderr=subprocess.PIPE, text=True, env=env) as process:
            env["MCP_URL"] = re.search(r"http://\S+", process.stderr.readline())[0]
            box = kill_a_client(server, node, env)
            status = subprocess.run(node, env=env, check=False).returncode
            process.terminate()
            assert process.wait(SECONDS_MAX) == 0
        # Of a client with a session, a lost connection cancels nothing; the end of the server does.
        expect_its_end(server, box)
        return status


sys.exit(main())
