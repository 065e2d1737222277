#!/usr/bin/env python3
"""test_sdk_c.py [--tls] CLIENT UNPACK EGRESS SERVER BROKER EXECD SANDBOXCTL - libopensandbox, the
client in C, against the real server, broker and execd, by http or https. CLIENT is the program of
tests/sdk/c; its TAP is passed on."""
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tools")]

from registry_process import Registry, make_layout  # noqa: E402
from server_process import ServerProcess, why_not  # noqa: E402
from tap import skip_all  # noqa: E402
from tls_process import Authority, TlsServer  # noqa: E402


def run(client, server, **more):
    env = {**os.environ, "OPEN_SANDBOX_DOMAIN": server.url, "OPEN_SANDBOX_API_KEY": server.api_key,
           **more}
    return subprocess.run([client], env=env, check=False).returncode


def with_registry(client, server, folder):
    """The same, with an image to pull."""
    with Registry(folder / "registry") as registry:
        registry.push(make_layout(folder), "me/app:1")
        return run(client, server, TEST_IMAGE=f"{registry.host}/me/app:1")


def main():
    tls = sys.argv[1] == "--tls"
    client, unpack, egress, *programs = sys.argv[2 if tls else 1:]
    config = {"embedded": {"unpack_program": os.path.abspath(unpack)},
              "egress": {"program": os.path.abspath(egress)}}
    skip_all(why_not())
    with tempfile.TemporaryDirectory() as folder:
        if not tls:
            with ServerProcess(*programs, config=config) as server:
                return with_registry(client, server, pathlib.Path(folder))
        authority = Authority(pathlib.Path(folder))
        with TlsServer(authority, *programs, config=config) as server:
            # What the client trusts without being told, and what a test of it names.
            return run(client, server, SSL_CERT_FILE=str(authority.ca), TEST_CA=str(authority.ca))


sys.exit(main())
