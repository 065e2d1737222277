#!/usr/bin/env python3
"""sdk_lines.py LINES COMMAND TURNS PORT...: how long the official SDK reads a command's output.

Runs by the Python that has the SDK. Each turn asks every port, and prints a JSON array with a pair
for each: seconds, and seconds of CPU of this client.
"""
import json
import sys
import time

from opensandbox.config.connection_sync import ConnectionConfigSync
from opensandbox.models.sandboxes import SandboxEndpoint
from opensandbox.sync.adapters.command_adapter import CommandsAdapterSync


def seconds(port, command, lines):
    adapter = CommandsAdapterSync(ConnectionConfigSync(protocol="http"),
                                  SandboxEndpoint(endpoint=f"127.0.0.1:{port}"))
    began = time.perf_counter(), time.process_time()
    ran = adapter.run(command)
    took = time.perf_counter() - began[0], time.process_time() - began[1]
    if len(ran.logs.stdout) != lines:
        sys.exit(f"{len(ran.logs.stdout)} lines of {lines}")
    return took


def main():
    lines, command, turns, ports = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    for _ in range(turns):
        print(json.dumps([seconds(port, command, lines) for port in ports]), flush=True)


if __name__ == "__main__":
    main()
