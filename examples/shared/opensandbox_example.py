"""opensandbox_example.py - what the examples share: where the server is, and how results are shown.

    from opensandbox_example import connection, image, show

Each example adds this directory to its search path, and prefers the SDK of this repository.
"""
import os
import pathlib
import sys
import time
from datetime import timedelta

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
for part in ("sdks/python/src", "sdks/python/code-interpreter/src"):
    if (ROOT / part).is_dir():
        sys.path.insert(0, str(ROOT / part))

from opensandbox.config import ConnectionConfig  # noqa: E402

READY_SECONDS = 120


def connection(seconds=120):
    """The server of SANDBOX_DOMAIN (localhost:8080), with the key of SANDBOX_API_KEY."""
    return ConnectionConfig(domain=os.environ.get("SANDBOX_DOMAIN", "localhost:8080"),
                            api_key=os.environ.get("SANDBOX_API_KEY"),
                            request_timeout=timedelta(seconds=seconds))


def image(usual):
    return os.environ.get("SANDBOX_IMAGE", usual)


def show(execution):
    """Prints a run as `[stdout] ...`, `[stderr] ...`, `[error] name: value`; returns it."""
    for line in execution.logs.stdout:
        print(f"[stdout] {line.text.rstrip()}")
    for line in execution.logs.stderr:
        print(f"[stderr] {line.text.rstrip()}")
    for result in execution.result:
        if result.text:
            print(f"[result] {result.text}")
    if execution.error:
        print(f"[error] {execution.error.name}: {execution.error.value}")
    sys.stdout.flush()
    return execution


async def run(sandbox, command, **options):
    """Its standard output; an exception when it fails."""
    done = await sandbox.commands.run(command, **options)
    if done.error or done.exit_code:
        raise RuntimeError(f"{command!r} failed with {done.exit_code}:\n{done}")
    return done.text


async def until_ready(sandbox, command="/usr/local/bin/image-ready", seconds=READY_SECONDS):
    """Waits until the readiness check of an image succeeds; how long that took. One command waits
    inside, and its end is the event: many sandboxes that start are not asked again and again."""
    began = time.monotonic()
    done = await sandbox.commands.run(
        f"timeout {seconds} sh -c 'until said=$({command} 2>&1); do echo \"$said\" >&2; "
        "sleep 0.25; done'")
    if done.error or done.exit_code:
        raise TimeoutError(f"{command} still fails after {seconds} s:\n{str(done)[-2000:]}")
    return time.monotonic() - began
