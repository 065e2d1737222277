#!/usr/bin/env python3
"""test_sdk_c.py [--tls] CLIENT SERVER BROKER EXECD SANDBOXCTL - libopensandbox, the client in C,
against the real server, broker and execd, by http or https. CLIENT is the program of tests/sdk/c;
its TAP is passed on."""
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tools")]

from server_process import ServerProcess, why_not  # noqa: E402
from tap import skip_all  # noqa: E402
from tls_process import Authority, TlsServer  # noqa: E402


def run(client, server, **more):
    env = {**os.environ, "OPEN_SANDBOX_DOMAIN": server.url, "OPEN_SANDBOX_API_KEY": server.api_key,
           **more}
    return subprocess.run([client], env=env, check=False).returncode


def main():
    tls = sys.argv[1] == "--tls"
    client, *programs = sys.argv[2 if tls else 1:]
    skip_all(why_not())
    if not tls:
        with ServerProcess(*programs) as server:
            return run(client, server)
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(pathlib.Path(folder))
        with TlsServer(authority, *programs) as server:
            # What the client trusts without being told, and what a test of it names.
            return run(client, server, SSL_CERT_FILE=str(authority.ca), TEST_CA=str(authority.ca))


sys.exit(main())
