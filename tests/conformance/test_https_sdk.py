#!/usr/bin/env python3
"""test_https_sdk.py SERVER BROKER EXECD SANDBOXCTL - the official Python SDK over https. It must be
run by a Python that has the SDK, which trusts the test's authority by SSL_CERT_FILE."""
import logging
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tools"), str(HERE.parent / "integration")]

import sdk_commands  # noqa: E402
import sdk_files  # noqa: E402
from sdk_client import VERSION, Client, discard  # noqa: E402
from server_process import why_not  # noqa: E402
from tap import Tap, skip_all  # noqa: E402
from tls_process import Authority, TlsServer  # noqa: E402


class HttpsClient(Client):
    def config(self, **more):
        return super().config(protocol="https", **more)


def run_all(tap, client):
    sandbox = client.run(client.create())
    for test in sdk_commands.TESTS + sdk_files.TESTS:
        tap.check(test.__name__, lambda t=test: client.run(t(client, sandbox)))
    client.run(discard(sandbox))


def main():
    programs = sys.argv[1:]
    skip_all(why_not())
    logging.disable(logging.CRITICAL)  # the SDK logs every exception it raises
    print(f"# opensandbox {VERSION}, over https")
    tap = Tap()
    with tempfile.TemporaryDirectory(prefix="osb-tls-") as name:
        authority = Authority(pathlib.Path(name))
        os.environ["SSL_CERT_FILE"] = str(authority.ca)
        with TlsServer(authority, *programs) as server:
            for kind in ("async", "sync"):
                run_all(tap, HttpsClient(kind, server))
            if tap.failed:
                print("# " + server.log()[-8000:].replace("\n", "\n# "))
    return tap.end()


sys.exit(main())
