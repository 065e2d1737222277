"""Snapshots, forks, rollbacks and persistent sandboxes, as the API has them.

Usage: test_snapshots.py SERVER BROKER EXECD SANDBOXCTL. TAP on standard output. Needs root.
"""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from broker_process import comm, descendants  # noqa: E402
from server_faults import seconds_of, stamp  # noqa: E402
from server_process import SECONDS_MAX, ServerProcess, wait_for, why_not  # noqa: E402
from server_use import Gateway  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:5]]
SERVER = None
CHAIN = 50  # many times what is merged at once


def ask(method, path, body=None):
    status, _, reply = SERVER.request(method, path, body)
    return status, reply


def refused(status, code, method, path, body=None):
    found, reply = ask(method, path, body)
    assert (found, reply.get("code")) == (status, code), (found, reply)


def run(sandbox_id, line):
    with Gateway(SERVER, sandbox_id) as gateway:
        return gateway.run(line)


def take(sandbox_id, **fields):
    """Asks for a snapshot; what was answered."""
    status, headers, body = SERVER.request("POST", f"/v1/sandboxes/{sandbox_id}/snapshots", fields)
    assert status == 202, (status, body)
    assert headers["Location"] == f"/v1/snapshots/{body['id']}", headers
    return body


def settled(snapshot_id):
    """The snapshot, once it is not being made any more."""
    found = {}

    def look():
        status, body = ask("GET", f"/v1/snapshots/{snapshot_id}")
        assert status == 200, body
        found.update(body)
        return body["status"]["state"] != "Creating"
    wait_for(look, "the end of a snapshot")
    return found


def snapshot(sandbox_id, **fields):
    """The id of a snapshot that is Ready."""
    body = settled(take(sandbox_id, **fields)["id"])
    assert body["status"]["state"] == "Ready", body
    return body["id"]


def restore(snapshot_id, **fields):
    """A sandbox of a snapshot, running."""
    status, body = ask("POST", "/v1/sandboxes", {
        "snapshotId": snapshot_id, "resourceLimits": {"memory": "512Mi"}, "timeout": 600, **fields})
    assert status == 202, (status, body)
    SERVER.wait_state(body["id"], "Running")
    return body["id"]


def delete(*sandbox_ids):
    for name in sandbox_ids:
        assert ask("DELETE", f"/v1/sandboxes/{name}")[0] == 204


def forget(*snapshot_ids):
    for name in snapshot_ids:
        assert ask("DELETE", f"/v1/snapshots/{name}")[0] == 204


def layers():
    """The files of snapshots on the server, but those that are being erased."""
    folder = SERVER.state / "server/snapshots"
    return sorted(name for name in os.listdir(folder) if name[0] != ".")


def nothing_is_left():
    assert ask("GET", "/v1/snapshots")[1]["items"] == []
    assert ask("GET", "/v1/sandboxes")[1]["items"] == []
    assert layers() == [], layers()


# --- snapshots ---


def a_snapshot_has_the_files_and_not_the_rest():
    source = SERVER.create(env={"TOKEN": "of-the-source"})
    run(source, "mkdir -p /srv/data; echo one >/srv/data/f; chown 7:8 /srv/data/f; "
                "chmod 4755 /srv/data/f; ln -s f /srv/data/l; rm -rf /etc/apt; "
                "echo tool >/usr/local/tool; echo gone >/tmp/gone")
    body = take(source, name="first")
    assert (body["sandboxId"], body["name"]) == (source, "first"), body
    assert body["status"]["state"] == "Creating", body
    assert body["status"]["reason"] == "snapshot_accepted", body
    done = settled(body["id"])
    assert done["status"]["reason"] == "snapshot_runtime_ready", done
    assert done["sizeBytes"] > 0 and done["frozenMs"] >= 0 and done["createdAt"], done
    run(source, "echo two >/srv/data/f")  # it goes on
    copy = restore(body["id"])
    shown = ask("GET", f"/v1/sandboxes/{copy}")[1]
    assert shown["snapshotId"] == body["id"] and "image" not in shown, shown
    assert shown["entrypoint"] == ["tail", "-f", "/dev/null"], shown
    assert run(copy, "cat /srv/data/f /srv/data/l /usr/local/tool; "
                     "stat -c '%u:%g %a' /srv/data/f; ls -d /etc/apt /tmp/gone 2>/dev/null; "
                     "echo \"env=$TOKEN\"").split() == [
        "one", "one", "tool", "7:8", "4755", "env="]
    assert run(source, "cat /srv/data/f") == "two"
    delete(source, copy)
    forget(body["id"])
    nothing_is_left()


def several_may_be_made_of_one():
    source = SERVER.create()
    asked = [take(source, name=f"n{i}")["id"] for i in range(5)]
    states = [settled(name)["status"] for name in asked]
    assert {state["state"] for state in states} == {"Ready"}, states
    delete(source)
    forget(*asked)
    nothing_is_left()


def the_list_is_filtered_and_paged():
    boxes = [SERVER.create() for _ in range(2)]
    made = [snapshot(boxes[i % 2]) for i in range(5)]

    def ids(query):
        status, body = ask("GET", "/v1/snapshots" + query)
        assert status == 200, body
        return [item["id"] for item in body["items"]], body["pagination"]
    assert ids("")[0] == made[::-1]
    assert ids(f"?sandboxId={boxes[1]}")[0] == [made[3], made[1]]
    assert ids("?state=Ready&state=Failed")[0] == made[::-1]
    assert ids("?state=ready")[0] == [] and ids("?state=Creating")[0] == []
    found, pages = ids("?page=2&pageSize=2")
    assert found == [made[2], made[1]], found
    assert (pages["totalItems"], pages["totalPages"], pages["hasNextPage"]) == (5, 3, True), pages
    delete(*boxes)
    forget(*made)
    nothing_is_left()


def refuses_what_it_cannot_do():
    source = SERVER.create()
    refused(404, "DOCKER::SANDBOX_NOT_FOUND", "POST", "/v1/sandboxes/none/snapshots", {})
    refused(400, "SANDBOX::INVALID_PARAMETER", "POST", f"/v1/sandboxes/{source}/snapshots",
            {"name": ""})
    for method in ("GET", "DELETE"):
        refused(404, "SNAPSHOT::NOT_FOUND", method, "/v1/snapshots/none")
    refused(404, "SNAPSHOT::NOT_FOUND", "POST", "/v1/sandboxes",
            {"snapshotId": "none", "resourceLimits": {}})
    assert ask("POST", f"/v1/sandboxes/{source}/pause")[0] == 202
    refused(409, "SNAPSHOT::INVALID_SOURCE_STATE", "POST", f"/v1/sandboxes/{source}/snapshots", {})
    delete(source)
    nothing_is_left()


def one_that_is_made_can_be_neither_used_nor_deleted():
    source = SERVER.create(resourceLimits={"memory": "1Gi"})
    run(source, "mkdir /srv/many; cd /srv/many; seq 40000 | xargs touch")
    body = take(source)
    refused(409, "SNAPSHOT::NOT_READY", "POST", "/v1/sandboxes",
            {"snapshotId": body["id"], "resourceLimits": {}})
    refused(409, "SNAPSHOT::INVALID_STATE", "DELETE", f"/v1/snapshots/{body['id']}")
    assert settled(body["id"])["status"]["state"] == "Ready"
    delete(source)
    forget(body["id"])
    nothing_is_left()


# --- chains ---


def parents_may_go_first():
    first = SERVER.create()
    run(first, "echo 1 >/srv/1")
    one = snapshot(first)
    second = restore(one)
    delete(first)
    run(second, "echo 2 >/srv/2")
    two = snapshot(second)
    forget(one)  # `second` and `two` need its layer
    assert len(layers()) == 3, layers()
    third = restore(two)
    assert run(third, "cat /srv/1 /srv/2").split() == ["1", "2"]
    delete(second)
    forget(two)
    assert len(layers()) == 2, layers()  # the layers that `third` runs on
    assert run(third, "cat /srv/1 /srv/2").split() == ["1", "2"]
    delete(third)
    nothing_is_left()


def a_long_chain_is_merged():
    box, last = SERVER.create(), None
    for i in range(CHAIN):
        run(box, f"echo {i} >/srv/{i}; rm -f /srv/{i - 2}; mkdir -p /usr/local/d/{i}")
        name = snapshot(box)
        delete(box)
        if last:
            forget(last)
        box, last = restore(name), name
    assert run(box, "cat /srv/*; ls /usr/local/d | wc -l").split() == [
        str(CHAIN - 2), str(CHAIN - 1), str(CHAIN)]
    assert len(layers()) <= 1 + 4, layers()
    record = json.loads((SERVER.state / f"server/snapshots/{last}.json").read_text())
    assert len(record["layers"]) <= 5, record  # so that a long one restores as fast as a short one
    delete(box)
    forget(last)
    nothing_is_left()


# --- accidents ---


def survives_its_sandbox_and_restarts():
    source = SERVER.create()
    run(source, "echo kept >/srv/f")
    name = snapshot(source, name="keep")
    before = ask("GET", f"/v1/snapshots/{name}")[1]
    delete(source)
    SERVER.restart()
    assert ask("GET", f"/v1/snapshots/{name}")[1] == before
    box = restore(name)
    SERVER.kill9()
    SERVER.start()
    assert run(box, "cat /srv/f") == "kept"
    forget(name)
    assert run(box, "cat /srv/f") == "kept"
    delete(box)
    nothing_is_left()


def a_kill_in_the_middle_leaves_it_failed_or_ready():
    source = SERVER.create(resourceLimits={"memory": "1Gi"})
    run(source, "mkdir /srv/many; cd /srv/many; seq 40000 | xargs touch")
    asked = [take(source)["id"]]
    SERVER.kill9()
    temporary = SERVER.state / "server/snapshots/.some.json.1knd28jzauca"  # of a cut write
    temporary.touch()
    SERVER.start()
    assert not temporary.exists()
    for name in asked:
        status = settled(name)["status"]
        assert (status["state"], status["reason"]) in (
            ("Ready", "snapshot_recovery_ready"), ("Ready", "snapshot_runtime_ready"),
            ("Failed", "snapshot_recovery_missing_image")), status
        assert [file for file in layers() if file.endswith((".part", ".merged"))] == [], layers()
    assert run(source, "ls /srv/many | wc -l") == "40000"  # it runs again
    again = snapshot(source)
    delete(source)
    forget(again, *asked)
    nothing_is_left()


def a_paused_sandbox_keeps_its_memory_when_the_server_is_killed():
    box = SERVER.create()
    run(box, "nohup sh -c 'n=0; while :; do n=$((n+1)); echo $n >/tmp/n; sleep 0.02; done' "
             ">/dev/null 2>&1 & echo $! >/tmp/pid")
    wait_for(lambda: int(run(box, "cat /tmp/n 2>/dev/null || echo 0") or 0) > 5, "it to count")
    do(box, "pause")
    for end in (SERVER.kill9, SERVER.stop):
        end()
        SERVER.start()
        assert state_of(box)[0] == "Paused"
    do(box, "resume")
    seen = int(run(box, "cat /tmp/n"))
    assert seen > 5, "it went on from where it was"
    wait_for(lambda: int(run(box, "cat /tmp/n") or 0) > seen, "it to count on")
    assert run(box, "kill -0 $(cat /tmp/pid) && echo there") == "there"
    delete(box)
    nothing_is_left()


def the_sandbox_may_go_while_it_is_copied():
    source = SERVER.create(resourceLimits={"memory": "1Gi"})
    run(source, "mkdir /srv/many; cd /srv/many; seq 20000 | xargs touch")
    body = take(source)
    delete(source)
    status = settled(body["id"])["status"]
    assert status["state"] in ("Ready", "Failed"), status
    if status["state"] == "Failed":
        assert status["reason"] == "snapshot_runtime_failed" and status["message"], status
    forget(body["id"])
    nothing_is_left()


# --- forks ---


def fork(sandbox_id, **fields):
    status, body = ask("POST", f"/v1/sandboxes/{sandbox_id}/fork", fields)
    assert status == 202, (status, body)
    for item in body["items"]:
        assert item["status"]["state"] == "Running", item
    return [item["id"] for item in body["items"]]


def ten_forks_have_the_files_and_lives_of_their_own():
    source = SERVER.create(env={"A": "1", "MY_SECRET": "s", "B": "2"}, metadata={"team": "x"},
                           resourceLimits={"memory": "256Mi", "cpu": "500m"})
    run(source, "echo start >/srv/f; echo kept >/usr/local/k")
    forks = fork(source, count=10, env={"B": "3", "C": "4", "A": None}, timeout=90)
    assert len(set(forks)) == 10
    assert run(source, "cat /srv/f") == "start"  # goes on
    for i, name in enumerate(forks):
        run(name, f"echo {i} >/srv/f")
    for i, name in enumerate(forks):
        assert run(name, "cat /srv/f /usr/local/k; echo \"$A,$B,$C,$MY_SECRET\""
                   ).split() == [str(i), "kept", ",3,4,s"]
        shown = ask("GET", f"/v1/sandboxes/{name}")[1]
        assert shown["image"] == {"uri": "host"} and "snapshotId" not in shown, shown
        assert shown["metadata"] == {"team": "x"}, shown
    assert run(source, "cat /srv/f") == "start"
    assert ask("GET", "/v1/snapshots")[1]["items"] == []
    delete(source)
    second = fork(forks[3], count=2, metadata={"of": "fork"}, entrypoint=["sleep", "1000"])
    delete(*forks)
    for name in second:
        assert run(name, "cat /srv/f /usr/local/k").split() == ["3", "kept"]
        shown = ask("GET", f"/v1/sandboxes/{name}")[1]
        assert (shown["metadata"], shown["entrypoint"]) == (
            {"of": "fork"}, ["sleep", "1000"]), shown
    delete(*second)
    nothing_is_left()


def forks_share_named_volumes():
    volume = {"name": "v", "pvc": {"claimName": "shared", "createIfNotExists": True},
              "mountPath": "/data"}
    source = SERVER.create(volumes=[volume])
    forks = fork(source, count=2)
    run(forks[0], "echo seen >/data/f")
    assert run(forks[1], "cat /data/f") == run(source, "cat /data/f") == "seen"
    delete(source, *forks)
    nothing_is_left()


def a_fork_is_all_or_nothing():
    source = SERVER.create()
    refused(400, "DOCKER::INVALID_ENTRYPOINT", "POST", f"/v1/sandboxes/{source}/fork",
            {"count": 3, "entrypoint": ["/no/such/program"]})
    wait_for(lambda: ask("GET", "/v1/sandboxes")[1]["pagination"]["totalItems"] == 1, "its rest")
    for bad in ({"count": 0}, {"count": 101}, {"count": "x"}, {"timeout": 1}, {"env": {"": "x"}},
                {"entrypoint": []}, {"env": {"A": 1}}):
        refused(400, "SANDBOX::INVALID_PARAMETER", "POST", f"/v1/sandboxes/{source}/fork", bad)
    refused(400, "SANDBOX::INVALID_METADATA_LABEL", "POST", f"/v1/sandboxes/{source}/fork",
            {"metadata": {"a b": "c"}})
    refused(404, "DOCKER::SANDBOX_NOT_FOUND", "POST", "/v1/sandboxes/none/fork", {})
    assert ask("POST", f"/v1/sandboxes/{source}/pause")[0] == 202
    refused(409, "DOCKER::SANDBOX_NOT_RUNNING", "POST", f"/v1/sandboxes/{source}/fork")
    delete(source)
    nothing_is_left()


def forks_after_a_restart_ask_for_secrets():
    source = SERVER.create(env={"A": "1", "MY_SECRET": "s"})
    plain = SERVER.create(env={"A": "1"})
    SERVER.restart()
    forks = fork(plain) + fork(source, env={"MY_SECRET": "t"})
    assert [run(name, "echo $A,$MY_SECRET") for name in forks] == ["1,", "1,t"]
    refused(409, "SANDBOX::REQUEST_NOT_KEPT", "POST", f"/v1/sandboxes/{source}/fork", {})
    delete(source, plain, *forks)
    nothing_is_left()


# --- rollbacks and persistent sandboxes ---


def endpoint(sandbox_id):
    status, body = ask("GET", f"/v1/sandboxes/{sandbox_id}/endpoints/44772")
    assert status == 200, body
    return body


def do(sandbox_id, what, body=None):
    status, reply = ask("POST", f"/v1/sandboxes/{sandbox_id}/{what}", body)
    assert status == 202, (what, status, reply)
    if what == "rollback":
        assert reply["id"] == sandbox_id and reply["status"]["state"] == "Running", reply


def a_rollback_returns_to_the_files_in_place():
    volume = {"name": "v", "mountPath": "/data", "pvc": {
        "claimName": "mine", "createIfNotExists": True, "deleteOnSandboxTermination": True}}
    for persistent in (False, True):
        box = SERVER.create(env={"A": "1"}, volumes=[volume], persistent=persistent)
        run(box, "echo good >/srv/f; echo kept >/data/f")
        name = snapshot(box)
        before, reach = ask("GET", f"/v1/sandboxes/{box}")[1], endpoint(box)
        run(box, "echo bad >/srv/f; touch /srv/new; (sleep 1000 >/dev/null 2>&1 &)")
        do(box, "rollback", {"snapshotId": name})
        after = ask("GET", f"/v1/sandboxes/{box}")[1]
        assert after["status"]["state"] == "Running", after
        assert (after["expiresAt"], after["image"], endpoint(box)) == (
            before["expiresAt"], before["image"], reach), after
        assert "sleep" not in run(box, "cat /proc/[0-9]*/comm").split()
        assert run(box, "cat /srv/f /data/f; ls /srv; echo $A").split() == [
            "good", "kept", "f", "1"]
        run(box, "echo worse >/srv/f")
        do(box, "rollback", {"snapshotId": name})  # and once more
        forget(name)
        assert run(box, "cat /srv/f") == "good"
        refused(404, "SNAPSHOT::NOT_FOUND", "POST", f"/v1/sandboxes/{box}/rollback",
                {"snapshotId": name})
        refused(400, "SANDBOX::INVALID_PARAMETER", "POST", f"/v1/sandboxes/{box}/rollback", {})
        delete(box)
        nothing_is_left()


def a_persistent_sandbox_stops_and_starts():
    box = SERVER.create(persistent=True, env={"MY_SECRET": "s"})
    reach = endpoint(box)
    run(box, "echo 1 >/srv/f; chown 5:6 /srv/f; echo tool >/usr/local/t")
    do(box, "stop")
    shown = ask("GET", f"/v1/sandboxes/{box}")[1]
    assert (shown["status"]["state"], shown["status"]["reason"]) == ("Paused", "STOPPED"), shown
    assert SERVER.broker.list() == []
    refused(409, "DOCKER::SANDBOX_NOT_RUNNING", "POST", f"/v1/sandboxes/{box}/stop")
    refused(409, "SNAPSHOT::INVALID_SOURCE_STATE", "POST", f"/v1/sandboxes/{box}/snapshots")
    do(box, "start")
    assert ask("GET", f"/v1/sandboxes/{box}")[1]["status"]["state"] == "Running"
    assert endpoint(box) == reach
    assert run(box, "cat /srv/f /usr/local/t; stat -c %u:%g /srv/f; echo $MY_SECRET").split() == [
        "1", "tool", "5:6", "s"]
    refused(409, "SANDBOX::NOT_STOPPED", "POST", f"/v1/sandboxes/{box}/start")
    do(box, "pause")
    refused(409, "SANDBOX::NOT_STOPPED", "POST", f"/v1/sandboxes/{box}/start")
    do(box, "resume")
    do(box, "stop")
    SERVER.restart()
    shown = ask("GET", f"/v1/sandboxes/{box}")[1]
    assert (shown["status"]["state"], shown["status"]["reason"]) == ("Paused", "STOPPED"), shown
    do(box, "resume")  # the same as start, for clients that know no start
    assert run(box, "cat /srv/f; echo $MY_SECRET").split() == ["1", "s"]
    delete(box)
    nothing_is_left()


def a_persistent_sandbox_of_a_snapshot_outlives_it():
    first = SERVER.create()
    run(first, "echo below >/srv/below")
    name = snapshot(first)
    box = restore(name, persistent=True)
    run(box, "echo above >/srv/above")
    do(box, "stop")
    delete(first)
    forget(name)
    SERVER.kill9()
    SERVER.start()
    do(box, "start")
    assert run(box, "cat /srv/below /srv/above").split() == ["below", "above"]
    two = snapshot(box)
    copy = restore(two)
    assert run(copy, "cat /srv/below /srv/above").split() == ["below", "above"]
    delete(box, copy)
    forget(two)
    nothing_is_left()


def a_kill_in_the_middle_of_a_start_loses_nothing():
    box = SERVER.create(persistent=True)
    run(box, "echo 1 >/srv/f")
    name = snapshot(box)
    do(box, "rollback", {"snapshotId": name})  # from here on the snapshot is below its own files
    for i, what in enumerate(("start", "rollback") * 4):
        do(box, "stop")
        body = {"snapshotId": name} if what == "rollback" else None
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            asked = pool.submit(ask, "POST", f"/v1/sandboxes/{box}/{what}", body)
            concurrent.futures.wait([asked], 0.004 * i)
            SERVER.kill9()
            asked.exception()  # it may have been answered, or not
        SERVER.start()
        status = ask("GET", f"/v1/sandboxes/{box}")[1]["status"]
        assert (status["state"], status["reason"]) in (
            ("Running", "CONTAINER_RUNNING"), ("Paused", "STOPPED")), status
        if status["state"] == "Paused":
            do(box, "start")
        assert run(box, "cat /srv/f") == "1"
    delete(box)
    forget(name)
    nothing_is_left()


def fill(sandbox_id):
    """Writes more than its disk holds; what was said of it."""
    return run(sandbox_id, "dd if=/dev/zero of=/srv/big bs=1M count=64 2>&1 | "
                           "grep -o 'No space left'")


def disks():
    """Images of what has a limit and outlives a sandbox."""
    return os.listdir(SERVER.state / "disks")


def a_persistent_sandbox_keeps_to_its_disk():
    for limits, config in (({"memory": "256Mi", "disk": "32Mi"}, {}),
                           ({"memory": "256Mi"}, {"default_disk": "32Mi"})):
        SERVER.config["runtime"] = config
        SERVER.restart()
        box = SERVER.create(persistent=True, resourceLimits=limits)
        run(box, "echo kept >/srv/f; chown 5:6 /srv/f; echo tool >/usr/local/t")
        assert len(disks()) == 1 and fill(box) == "No space left", disks()
        do(box, "stop")
        SERVER.kill9()
        SERVER.start()
        do(box, "start")  # full as it is
        assert run(box, "cat /srv/f /usr/local/t; stat -c %u:%g /srv/f; rm /srv/big; "
                        "echo more >/srv/more; cat /srv/more").split() == [
            "kept", "tool", "5:6", "more"]
        name = snapshot(box)
        fork_, = fork(box, timeout=600)
        copy = restore(name, persistent=True, resourceLimits=limits)
        assert len(disks()) == 3, disks()
        for other in (fork_, copy):
            assert run(other, "cat /srv/f /srv/more; stat -c %u:%g /srv/f").split() == [
                "kept", "more", "5:6"]
            assert fill(other) == "No space left"
        run(box, "rm /srv/more")
        do(box, "rollback", {"snapshotId": name})
        assert run(box, "cat /srv/f /srv/more").split() == ["kept", "more"]
        assert fill(box) == "No space left"
        delete(box, copy, fork_)
        forget(name)
        nothing_is_left()
        wait_for(lambda: not disks(), "the end of the images")
    SERVER.config["runtime"] = {}
    SERVER.restart()


def expiry_may_stop():
    box = SERVER.create(persistent=True, onExpiry="stop", timeout=600)
    run(box, "echo 1 >/srv/f")
    status, body = ask("POST", f"/v1/sandboxes/{box}/renew-expiration", {"expiresAt": stamp(2)})
    assert status == 200, body
    wait_for(lambda: ask("GET", f"/v1/sandboxes/{box}")[1]["status"]["reason"] == "STOPPED",
             "its expiry")
    SERVER.restart()
    assert ask("GET", f"/v1/sandboxes/{box}")[1]["status"]["reason"] == "STOPPED"
    do(box, "start")
    assert run(box, "cat /srv/f") == "1"
    assert seconds_of(ask("GET", f"/v1/sandboxes/{box}")[1]["expiresAt"]) > time.time() + 300
    delete(box)
    nothing_is_left()


@contextlib.contextmanager
def resuming(seconds):
    """A server that starts stopped sandboxes for requests. The setting takes a SIGHUP."""
    def reload(value):
        seen = SERVER.log().count("reloaded the configuration")
        SERVER.config["runtime"] = {"auto_resume_seconds": value}
        SERVER.write_config()
        os.kill(SERVER.pid, signal.SIGHUP)
        wait_for(lambda: SERVER.log().count("reloaded the configuration") > seen, "the reload")
    reload(seconds)
    try:
        yield
    finally:
        reload(0)


def state_of(box):
    status = ask("GET", f"/v1/sandboxes/{box}")[1]["status"]
    return status["state"], status["reason"]


def starts():
    return SERVER.log().count("starting a stopped sandbox for a request")


def a_request_starts_one_that_is_stopped():
    box = SERVER.create(persistent=True)
    gateways = [Gateway(SERVER, box) for _ in range(8)]
    run(box, "echo 1 >/srv/f")
    do(box, "stop")
    reply = gateways[0].start("true")
    assert reply.status == 503 and b"paused" in reply.read(), "not unless configured"
    assert state_of(box) == ("Paused", "STOPPED")
    before = starts()
    with resuming(120):
        status, _, body = SERVER.request("GET", gateways[0].prefix + "/ping", key=None, headers={
            "OpenSandbox-Secure-Access": "wrong"})
        assert status == 401 and state_of(box) == ("Paused", "STOPPED"), (status, body)
        large, seen = os.urandom(3 << 20), []

        def visit(i, gateway):
            gateway.upload(f"/srv/large{i}", large)
            seen.append(gateway.run("cat /srv/f"))
        visitors = [threading.Thread(target=visit, args=row) for row in enumerate(gateways)]
        for visitor in visitors:
            visitor.start()
        for visitor in visitors:
            visitor.join()
        assert seen == ["1"] * 8, seen
        assert starts() == before + 1, "requests join one start"
        assert state_of(box)[0] == "Running"
        assert gateways[3].download("/srv/large5") == large
        status, body = ask("POST", f"/v1/sandboxes/{box}/pause")  # by a user: stays so
        assert status == 202, body
        reply = gateways[0].start("true")
        assert reply.status == 503 and b"paused" in reply.read() and starts() == before + 1
    for gateway in gateways:
        gateway.connection.close()
    delete(box)
    nothing_is_left()


def expiry_stops_and_a_request_starts():
    with resuming(120):
        box = SERVER.create(persistent=True, onExpiry="stop", timeout=600)
        with Gateway(SERVER, box) as gateway:
            gateway.run("echo 1 >/srv/f")
            status, body = ask("POST", f"/v1/sandboxes/{box}/renew-expiration",
                               {"expiresAt": stamp(1)})
            assert status == 200, body
            wait_for(lambda: state_of(box)[1] == "STOPPED", "its expiry")
            assert gateway.run("cat /srv/f") == "1"
        assert seconds_of(ask("GET", f"/v1/sandboxes/{box}")[1]["expiresAt"]) > time.time() + 300
        delete(box)
    nothing_is_left()


def a_request_does_not_wait_for_ever():
    box = SERVER.create(persistent=True, entrypoint=["env", "sleep", "1000000"])
    with Gateway(SERVER, box) as gateway, resuming(1):
        do(box, "stop")
        workers = [pid for pid in descendants(SERVER.pid) if comm(pid).startswith("opensandbox-br")]
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        try:
            reply = gateway.start("true")
            text = reply.read()
            assert reply.status == 503 and b"longer than 1 s" in text, text
            assert reply.headers["Retry-After"] == "1"
            with Gateway(SERVER, box) as other:  # whose client leaves
                other.connection.request("GET", other.prefix + "/ping", headers=other.headers)
        finally:
            for pid in workers:
                os.kill(pid, signal.SIGCONT)
        wait_for(lambda: state_of(box)[0] == "Running", "the start, which goes on")
        gateway.run("rm /usr/bin/env")
        do(box, "stop")
        reply = gateway.start("true")
        text = reply.read()
        assert reply.status == 503 and b"could not be started" in text, (reply.status, text)
        assert state_of(box) == ("Paused", "STOPPED")
    delete(box)
    nothing_is_left()


def one_that_ended_may_be_started():
    line = "echo x >>/srv/n; while [ ! -e /srv/end ]; do sleep 0.1; done; rm /srv/end; exit 3"
    box = SERVER.create(persistent=True, entrypoint=["sh", "-c", line])
    run(box, "touch /srv/end")
    wait_for(lambda: ask("GET", f"/v1/sandboxes/{box}")[1]["status"]["state"] == "Failed",
             "its end")
    do(box, "start")
    assert run(box, "wc -l </srv/n").strip() == "2"
    delete(box)
    nothing_is_left()


def refuses_to_keep_what_it_cannot():
    create = {"image": {"uri": "host"}, "entrypoint": ["sleep", "1"], "resourceLimits": {}}
    for more in ({"onExpiry": "stop"}, {"persistent": True, "onExpiry": "later"},
                 {"persistent": True, "resourceLimits": {"disk": "9Ti"}}, {"persistent": "maybe"}):
        refused(400, "SANDBOX::INVALID_PARAMETER", "POST", "/v1/sandboxes", {**create, **more})
    box = SERVER.create()
    for what in ("stop", "start"):
        refused(409, "SANDBOX::NOT_PERSISTENT", "POST", f"/v1/sandboxes/{box}/{what}")
        refused(404, "DOCKER::SANDBOX_NOT_FOUND", "POST", f"/v1/sandboxes/none/{what}")
    delete(box)
    nothing_is_left()


# --- the guide ---


def guide(language):
    """The blocks of a language, as one program, but the first of the shell: where the server is."""
    text = (tap.ROOT / "docs/guides/forking.md").read_text(encoding="utf-8")
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return "\n".join(blocks[1:] if language == "sh" else blocks)


def the_guide_works():
    env = {"PATH": os.environ["PATH"], "API": SERVER.url + "/v1", "KEY": SERVER.api_key}
    for program in (["sh", "-euc", guide("sh")], [sys.executable, "-c", guide("python")]):
        done = subprocess.run(program, env=env, capture_output=True, text=True, check=False,
                              timeout=SECONDS_MAX)
        assert done.returncode == 0, done
    nothing_is_left()


TESTS = [
    a_snapshot_has_the_files_and_not_the_rest,
    several_may_be_made_of_one,
    the_list_is_filtered_and_paged,
    refuses_what_it_cannot_do,
    one_that_is_made_can_be_neither_used_nor_deleted,
    parents_may_go_first,
    a_long_chain_is_merged,
    survives_its_sandbox_and_restarts,
    a_kill_in_the_middle_leaves_it_failed_or_ready,
    a_paused_sandbox_keeps_its_memory_when_the_server_is_killed,
    the_sandbox_may_go_while_it_is_copied,
    ten_forks_have_the_files_and_lives_of_their_own,
    forks_share_named_volumes,
    a_fork_is_all_or_nothing,
    forks_after_a_restart_ask_for_secrets,
    a_rollback_returns_to_the_files_in_place,
    a_persistent_sandbox_stops_and_starts,
    a_persistent_sandbox_of_a_snapshot_outlives_it,
    a_kill_in_the_middle_of_a_start_loses_nothing,
    a_persistent_sandbox_keeps_to_its_disk,
    expiry_may_stop,
    a_request_starts_one_that_is_stopped,
    expiry_stops_and_a_request_starts,
    a_request_does_not_wait_for_ever,
    one_that_ended_may_be_started,
    refuses_to_keep_what_it_cannot,
    the_guide_works,
]


if __name__ == "__main__":
    tap.skip_all(why_not())
    TESTS = [test for test in TESTS if not sys.argv[5:] or test.__name__ in sys.argv[5:]]
    with ServerProcess(*PROGRAMS) as SERVER:
        sys.exit(tap.run_tests(TESTS))
