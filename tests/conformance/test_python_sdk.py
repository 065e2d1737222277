#!/usr/bin/env python3
"""test_python_sdk.py async|sync SERVER BROKER EXECD SANDBOXCTL - the official Python SDK, as PyPI
has it, against the real server, broker and execd. It must be run by a Python that has the SDK."""
import importlib
import logging
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tools"), str(HERE.parent / "integration")]

import sdk_commands  # noqa: E402
import sdk_files  # noqa: E402
import sdk_life  # noqa: E402
import sdk_sessions  # noqa: E402
import sdk_snapshots  # noqa: E402
from sdk_client import VERSION, Client, discard  # noqa: E402
from server_process import ServerProcess, why_not  # noqa: E402
from tap import Tap, skip_all  # noqa: E402

CONFIG = {"embedded.images": {"python:*": "host"}}


def run_all(tap, client):
    for test in sdk_life.TESTS + sdk_snapshots.TESTS:
        tap.check(test.__name__, lambda t=test: client.run(t(client)))
    # One sandbox for the rest: they leave each other alone.
    sandbox = client.run(client.create())
    tests = sdk_commands.TESTS + sdk_sessions.TESTS + sdk_files.TESTS
    if hasattr(client.Sandbox, "isolation"):
        tests += importlib.import_module("sdk_isolation").TESTS
    for test in tests:
        tap.check(test.__name__, lambda t=test: client.run(t(client, sandbox)))
    client.run(discard(sandbox))


def main():
    kind, *programs = sys.argv[1:]
    skip_all(why_not())
    logging.disable(logging.CRITICAL)  # the SDK logs every exception it raises
    print(f"# opensandbox {VERSION}, {kind}")
    tap = Tap()
    with ServerProcess(*programs, config=CONFIG) as server:
        run_all(tap, Client(kind, server))
        if tap.failed:
            print("# " + server.log()[-8000:].replace("\n", "\n# "))
    return tap.end()


sys.exit(main())
