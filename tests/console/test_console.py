#!/usr/bin/env python3
"""The web console in Chromium, against a real server.

Usage: test_console.py MODULES PROVIDER SERVER BROKER EXECD SANDBOXCTL EGRESS UNPACK [SHOTS]. TAP
on standard output. Needs root, chromium and node, and docker-registry, skopeo and umoci for an
image. MODULES is the node_modules of package.json beside this file, PROVIDER that of tests/node,
which has the OpenID provider. With SHOTS, a directory, pictures of all pages are stored there
instead (shots.mjs). console.mjs drives the browser; a line "@ COMMAND" of its output is for this
program.
"""
import contextlib
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tools"), str(HERE.parent / "integration")]
import oidc_process  # noqa: E402
import registry_process  # noqa: E402
import tap  # noqa: E402
from server_process import ServerProcess, why_not  # noqa: E402

TERMINATED, FAILED = 6, 7  # of src/api/state.h


def fill(server, count):
    """Rows of sandboxes that have ended, every tenth of them Failed: the server lists them."""
    now = int(time.time() * 1e6)
    path = next((server.state / "server").glob("*.db"))
    with contextlib.closing(sqlite3.connect(path)) as store:
        store.executemany(
            "INSERT INTO sandboxes (id, state, reason, message, created_us, since_us, expires_us,"
            " image, snapshot_id, os, arch, entrypoint, metadata, token, spec, renew_extend_s)"
            " VALUES (?, ?, '', '', ?, ?, 0, 'host', '', '', '', '[\"true\"]', ?, 't', '', 0)",
            [(f"00000000-0000-4000-8000-{i:012d}", TERMINATED if i % 10 else FAILED, now + i, now,
              json.dumps({"name": f"box-{i}", "of": "fill"}, separators=(",", ":")))
             for i in range(1, count + 1)])
        store.commit()


def serve(server, process):
    """Passes TAP on, and does what the browser's program asks for."""
    for line in process.stdout:
        if not line.startswith("@ "):
            print(line, end="", flush=True)
            continue
        command = line.split()[1]
        if command in ("stop", "fill"):
            server.stop()
        if command == "fill":
            fill(server, 1000)
        if command in ("start", "fill"):
            server.start()
        process.stdin.write(f"{command} done\n")
        process.stdin.flush()
    return process.wait()


def provide(stack, modules, running):
    """Starts an OpenID provider, and has the server take its users. Its issuer; "" without one."""
    if oidc_process.why_not(modules):
        return ""
    provider = stack.enter_context(oidc_process.Provider(
        modules, [oidc_process.client(f"{running.url}/auth/callback")]))
    running.config.update(oidc_process.config(provider, running))
    return provider.issuer


def publish(stack):
    """A registry with an image; the image's name."""
    folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
    registry = stack.enter_context(registry_process.Registry(folder / "registry"))
    registry.push(registry_process.make_layout(folder, big_mb=64), "team/app:1.2")
    return f"{registry.host}/team/app:1.2"


def main():
    modules, provider_modules, *programs = sys.argv[1:]
    shots = programs[6] if len(programs) > 6 else ""
    server, broker, execd, ctl, egress, unpack = (os.path.abspath(path) for path in programs[:6])
    tap.skip_all(why_not() or (None if shutil.which("chromium") else "chromium is not installed"))
    config = {"egress": {"program": egress, "upstreams": ["127.0.0.1:9"]},
              "embedded": {"unpack_program": unpack},
              "images": {"pull_policy": "IfNotPresent"}}
    running = ServerProcess(server, broker, execd, ctl, config)
    with contextlib.ExitStack() as stack:
        issuer = provide(stack, provider_modules, running)
        image = publish(stack)
        stack.enter_context(running)
        env = dict(os.environ, BASE=running.url, KEY=running.api_key, SHOTS=shots,
                   MODULES=os.path.abspath(modules), ISSUER=issuer, IMAGE=image,
                   HOME=str(running.folder), CHROMIUM=shutil.which("chromium"))
        program = HERE / ("shots.mjs" if shots else "console.mjs")
        with subprocess.Popen(["node", program], env=env, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as process:
            try:
                status = serve(running, process)
            finally:
                process.kill()
        if status:
            print("# " + running.log()[-3000:].replace("\n", "\n# "))
    return status


if __name__ == "__main__":
    sys.exit(main())
