#!/usr/bin/env python3
"""The web console in Chromium, against a real server.

Usage: test_console.py MODULES PROVIDER SERVER BROKER EXECD SANDBOXCTL EGRESS [SHOTS]. TAP on
standard output. Needs root, chromium and node. MODULES is the node_modules of package.json beside
this file, PROVIDER that of tests/node, which has the OpenID provider. With SHOTS, a directory,
pictures of all pages are stored there instead (shots.mjs). console.mjs drives the browser; a line
"@ COMMAND" of its output is for this program.
"""
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tools"), str(HERE.parent / "integration")]
import oidc_process  # noqa: E402
import tap  # noqa: E402
from server_process import ServerProcess, why_not  # noqa: E402


def serve(server, process):
    """Passes TAP on, and does what the browser's program asks for."""
    for line in process.stdout:
        if not line.startswith("@ "):
            print(line, end="", flush=True)
            continue
        command = line.split()[1]
        if command == "stop":
            server.stop()
        elif command == "start":
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


def main():
    modules, provider_modules, *programs = sys.argv[1:]
    shots = programs[5] if len(programs) > 5 else ""
    server, broker, execd, ctl, egress = (os.path.abspath(path) for path in programs[:5])
    tap.skip_all(why_not() or (None if shutil.which("chromium") else "chromium is not installed"))
    config = {"egress": {"program": egress, "upstreams": ["127.0.0.1:9"]}}
    running = ServerProcess(server, broker, execd, ctl, config)
    with contextlib.ExitStack() as stack:
        issuer = provide(stack, provider_modules, running)
        stack.enter_context(running)
        env = dict(os.environ, BASE=running.url, KEY=running.api_key, SHOTS=shots,
                   MODULES=os.path.abspath(modules), ISSUER=issuer, HOME=str(running.folder),
                   CHROMIUM=shutil.which("chromium"))
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
