#!/usr/bin/env python3
"""test_docker_gvisor.py SERVER BROKER EXECD SANDBOXCTL RUNSC - the docker runtime with gVisor
below the engine: cases of test_docker.py that do not depend on the OCI runtime, and its own."""
import contextlib
import http.client
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))

import test_docker  # noqa: E402
from docker_process import RUNSC_OPTIONS, DockerEngine, DockerServer, why_not  # noqa: E402
from server_process import wait_for  # noqa: E402
from server_use import Gateway  # noqa: E402
from tap import Tap, skip_all  # noqa: E402
from test_docker import post, run, sandbox  # noqa: E402

*PROGRAMS, RUNSC = sys.argv[1:]
SECURE = {"type": "gvisor", "docker_runtime": "runsc"}
ENGINE = SERVER = None


def it_is_another_kernel():
    with sandbox() as name:
        assert "gvisor" in run(name, "cat /proc/version").lower()
        assert ENGINE.inspect(name)["HostConfig"]["Runtime"] == "runsc"


def kata_differs_by_a_name():
    """The engine has gVisor under the usual name of Kata's runtime, too."""
    with DockerServer(*PROGRAMS, engine=ENGINE, config={
            "secure_runtime": {"type": "kata", "docker_runtime": "kata-runtime"}}) as server:
        name = test_docker.create(server)
        assert ENGINE.inspect(name)["HostConfig"]["Runtime"] == "kata-runtime"
        assert "gvisor" in run(name, "cat /proc/version", server).lower()
        test_docker.delete(name, server)


def a_runtime_that_is_not_registered_is_an_error_at_start():
    server = DockerServer(*PROGRAMS, engine=ENGINE, config={
        "secure_runtime": {"type": "gvisor", "docker_runtime": "no-such"}})
    try:
        server.spawn()
        assert server.process.wait(60) != 0, "it started"
        assert "no runtime 'no-such'" in server.log(), server.log()[-2000:]
    finally:
        server.remove()


def a_network_policy_is_refused():
    """Its packets come from a kernel of its own, past the rules of a sidecar."""
    status, body = post(networkPolicy={"defaultAction": "deny", "egress": []})
    assert status == 400 and "secure_runtime" in body["message"], (status, body)


def memory_is_saved_on_the_embedded_runtime_only():
    with sandbox() as name:
        status, _, body = SERVER.request("POST", f"/v1/sandboxes/{name}/snapshots",
                                         {"memory": True})
        assert (status, body["code"]) == (501, "SNAPSHOT::NOT_IMPLEMENTED"), (status, body)


def a_snapshot_that_would_be_empty_is_refused():
    """Without --overlay2=none gVisor writes past the engine."""
    with DockerServer(*PROGRAMS, engine=ENGINE, config={
            "secure_runtime": {"type": "gvisor", "docker_runtime": "runsc-as-it-is"}}) as server:
        name = test_docker.create(server)
        status, _, body = server.request("POST", f"/v1/sandboxes/{name}/snapshots", {})
        assert status == 202, (status, body)

        def snapshot():
            return server.request("GET", f"/v1/snapshots/{body['id']}")[2]["status"]
        wait_for(lambda: snapshot()["state"] != "Creating", "the end of the snapshot")
        assert snapshot()["state"] == "Failed" and "overlay2=none" in snapshot()["message"]
        test_docker.delete(name, server)


def a_paused_one_is_removed_at_once():
    """The engine would wait 10 s for a signal that a paused kernel does not see."""
    name = test_docker.create()
    SERVER.request("POST", f"/v1/sandboxes/{name}/pause")
    SERVER.wait_state(name, "Paused")
    seen = len(ENGINE.log())
    test_docker.delete(name)
    assert "failed to exit within 10 seconds" not in ENGINE.log()[seen:]


def a_stream_ends_with_its_sandbox():
    """A kernel that is gone closes no connection: the server does."""
    name = test_docker.create()
    with Gateway(SERVER, name) as gateway:
        reply = gateway.start("echo on; sleep 1000000")
        assert reply.read1()
        ENGINE.request("POST", f"/containers/sandbox-{name}/kill")
        wait_for(lambda: test_docker.state(name) == "Failed", "the end of the sandbox")
        with contextlib.suppress(http.client.HTTPException):  # but no timeout
            while reply.read1():
                pass
    test_docker.delete(name)


def limits_are_kept():
    """By the control groups of the engine; the sandbox sees them."""
    with sandbox(resourceLimits={"cpu": "1", "memory": "96Mi"}) as name:
        assert run(name, "grep MemTotal /proc/meminfo").split()[1] == str(96 << 10)


TESTS = [it_is_another_kernel, kata_differs_by_a_name,
         a_runtime_that_is_not_registered_is_an_error_at_start, a_network_policy_is_refused,
         memory_is_saved_on_the_embedded_runtime_only, a_snapshot_that_would_be_empty_is_refused,
         a_paused_one_is_removed_at_once, a_stream_ends_with_its_sandbox, limits_are_kept,
         *test_docker.ON_GVISOR]


def main():
    global ENGINE, SERVER
    skip_all(why_not())
    tap = Tap()
    program = (os.path.abspath(RUNSC), *RUNSC_OPTIONS)
    with DockerEngine(runtimes={"runsc": program, "kata-runtime": program,
                                "runsc-as-it-is": program[:-1]}) as ENGINE:
        ENGINE.import_busybox(test_docker.IMAGE)
        config = {"secure_runtime": SECURE, "egress": {"image": "opensandbox/egress:test"},
                  "storage": {"allowed_host_paths": [str(ENGINE.folder / "shared")]}}
        with DockerServer(*PROGRAMS, config=config, engine=ENGINE) as SERVER:
            test_docker.ENGINE, test_docker.SERVER = ENGINE, SERVER
            for test in TESTS:
                tap.check(test.__name__, test)
            if tap.failed:
                print("# " + SERVER.log()[-6000:].replace("\n", "\n# "))
    return tap.end()


sys.exit(main())
