#!/usr/bin/env python3
"""test_ingress_sdk.py INGRESS SERVER BROKER EXECD SANDBOXCTL - the official Python SDK through
opensandbox-ingress, which leads to two servers, by header and by path. It must be run by a Python
that has the SDK."""
import contextlib
import logging
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tools"), str(HERE.parent / "integration")]

import sdk_commands  # noqa: E402
import sdk_files  # noqa: E402
from ingress_process import Ingress  # noqa: E402
from sdk_client import VERSION, Client, discard  # noqa: E402
from server_process import ServerProcess, reserve_port, why_not  # noqa: E402
from tap import Tap, skip_all  # noqa: E402


def run_all(tap, client):
    sandbox = client.run(client.create())
    for test in sdk_commands.TESTS + sdk_files.TESTS:
        tap.check(test.__name__, lambda t=test: client.run(t(client, sandbox)))
    client.run(discard(sandbox))


@contextlib.contextmanager
def world(ingress, programs, mode, folder):
    """Two servers whose endpoints name the gateway, and the gateway."""
    with reserve_port() as port:
        address = "%s:%d" % port.getsockname()
        config = {"ingress": {"mode": "gateway"}, "ingress.gateway": {"address": address},
                  "ingress.gateway.route": {"mode": mode}}
        with contextlib.ExitStack() as stack:
            servers = [stack.enter_context(ServerProcess(*programs, config=config))
                       for _ in range(2)]
            path = pathlib.Path(folder) / f"{mode}.toml"
            path.write_text("".join(f'[[servers]]\nurl = "{s.url}"\napi_key = "{s.api_key}"\n'
                                    for s in servers), encoding="utf-8")
            gateway = Ingress(ingress, "--provider-type", "servers", "--servers-file", str(path),
                              "--mode", mode)
            gateway.args[gateway.args.index("--port") + 1] = address.rsplit(":", 1)[1]
            yield servers, stack.enter_context(gateway)


def main():
    ingress, *programs = map(os.path.abspath, sys.argv[1:])
    skip_all(why_not())
    logging.disable(logging.CRITICAL)  # the SDK logs every exception it raises
    print(f"# opensandbox {VERSION}, through the ingress")
    tap = Tap()
    with tempfile.TemporaryDirectory(prefix="osb-ingress-") as folder:
        for mode, kind in (("header", "async"), ("uri", "sync")):
            with world(ingress, programs, mode, folder) as (servers, gateway):
                run_all(tap, Client(kind, servers[1]))
                before = tap.failed
                tap.check(f"all of it came through the gateway by {mode}",
                          lambda g=gateway: check_used(g))
                if tap.failed > before:
                    print(f"# {gateway.lines[-20:]}")
    return tap.end()


def check_used(gateway):
    assert gateway.metric("ingress_proxy_http_requests_total") > 20


sys.exit(main())
