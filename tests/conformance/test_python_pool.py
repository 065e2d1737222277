#!/usr/bin/env python3
"""test_python_pool.py SERVER BROKER EXECD SANDBOXCTL - the pool that the official Python client
keeps by itself, of plain sandboxes and of claims of a pool of the server."""
import contextlib
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tools"), str(HERE.parent / "integration")]

import tap  # noqa: E402
from server_process import ServerProcess, wait_for, why_not  # noqa: E402

from opensandbox._pool_store import InMemoryPoolStateStore  # noqa: E402
from opensandbox.config.connection_sync import ConnectionConfigSync  # noqa: E402
from opensandbox.pool_types import PoolCreationSpec  # noqa: E402
from opensandbox.sync.pool import SandboxPoolSync  # noqa: E402

SERVER = None
CAPACITY = {"bufferMin": 2, "bufferMax": 2, "poolMin": 0, "poolMax": 9}


def items():
    return [item["id"] for item in SERVER.request("GET", "/v1/sandboxes?pageSize=100")[2]["items"]]


@contextlib.contextmanager
def pool_of_the_client(extensions):
    pool = SandboxPoolSync(
        pool_name="mine", max_idle=2, state_store=InMemoryPoolStateStore(),
        connection_config=ConnectionConfigSync(domain=SERVER.domain, api_key=SERVER.api_key,
                                               protocol="http"),
        creation_spec=PoolCreationSpec(image="host", resource={"cpu": "1", "memory": "256Mi"},
                                       env={"GREETING": "it's me"}, extensions=extensions))
    pool.start()
    try:
        yield pool
    finally:
        pool.shutdown()
        for name in items():
            SERVER.request("DELETE", f"/v1/sandboxes/{name}")


def use(extensions):
    with pool_of_the_client(extensions) as pool:
        wait_for(lambda: pool.snapshot().idle_count == 2, "its idle sandboxes")
        idle = set(items())
        with pool.acquire() as sandbox:
            assert sandbox.id in idle, (sandbox.id, idle)
            lines = [line.text for line in sandbox.commands.run("echo $GREETING").logs.stdout]
            assert lines == ["it's me"], lines


def keeps_plain_sandboxes():
    use(None)


def keeps_claims_of_a_pool_of_the_server():
    status, _, body = SERVER.request("POST", "/v1/pools", {
        "name": "ours", "template": {"image": {"uri": "host"}}, "capacitySpec": CAPACITY})
    assert status == 201, body
    use({"poolRef": "ours"})
    assert SERVER.request("DELETE", "/v1/pools/ours")[0] == 204


if __name__ == "__main__":
    tap.skip_all(why_not())
    with ServerProcess(*sys.argv[1:5]) as SERVER:
        result = tap.run_tests([keeps_plain_sandboxes, keeps_claims_of_a_pool_of_the_server])
    sys.exit(result)
