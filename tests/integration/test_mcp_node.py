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

from server_process import SECONDS_MAX, ServerProcess, why_not  # noqa: E402
from tap import skip_all  # noqa: E402


def main():
    transport = sys.argv[1]
    sdk, mcp, *programs = map(os.path.abspath, sys.argv[2:])
    skip_all(why_not())
    with ServerProcess(*programs) as server:
        command = [mcp, "--domain", server.domain, "--api-key", server.api_key]
        node = ["node", HERE / "mcp_node.mjs", sdk]
        if transport == "stdio":
            return subprocess.run([*node, *command], check=False).returncode
        env = {**os.environ, "OPENSANDBOX_MCP_TOKEN": "a token"}
        with subprocess.Popen([*command, "--transport", "streamable-http", "--port", "0"],
                              stderr=subprocess.PIPE, text=True, env=env) as process:
            env["MCP_URL"] = re.search(r"http://\S+", process.stderr.readline())[0]
            status = subprocess.run(node, env=env, check=False).returncode
            process.terminate()
            assert process.wait(SECONDS_MAX) == 0
        return status


sys.exit(main())
