#!/usr/bin/env python3
"""cells.py ROUNDS CELLS: milliseconds of cells of ipykernel, through jupyter_client.

A first cell is timed from the start of its kernel. Prints {"first": [...], "warm": [...]}.
"""
import json
import sys
import time

from jupyter_client.manager import KernelManager

SECONDS_MAX = 60


def run_cell(client):
    """A cell from its request to its result, and until the kernel is idle again."""
    reply = client.execute_interactive("1+1", timeout=SECONDS_MAX, output_hook=lambda _: None)
    if reply["content"]["status"] != "ok":
        sys.exit(f"a cell failed: {reply['content']}")


def one_kernel(cells):
    manager = KernelManager(kernel_name="python3")
    began = time.perf_counter()
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=SECONDS_MAX)
    run_cell(client)
    first = (time.perf_counter() - began) * 1e3
    warm = []
    for _ in range(cells):
        began = time.perf_counter()
        run_cell(client)
        warm.append((time.perf_counter() - began) * 1e3)
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    return first, warm


def main():
    rounds, cells = int(sys.argv[1]), int(sys.argv[2])
    runs = [one_kernel(cells) for _ in range(rounds)]
    print(json.dumps({"first": [first for first, _ in runs],
                      "warm": [ms for _, warm in runs for ms in warm]}))


if __name__ == "__main__":
    main()
