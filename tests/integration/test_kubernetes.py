#!/usr/bin/env python3
"""test_kubernetes.py SERVER BROKER EXECD SANDBOXCTL - the kubernetes runtime on a real API server.

The test plays the operator: it patches status, and runs a real execd as the pod of each sandbox.
The server has an account with the rights of server-rules.yaml in the chart and no others."""
import contextlib
import http.client
import json
import pathlib
import sys
import threading
from datetime import datetime, timedelta, timezone

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))

import kube_agent  # noqa: E402
import kube_charts  # noqa: E402
from cluster_process import ClusterProcess, why_not  # noqa: E402
from kube_world import (BATCHES, CORE, GROUP, POOLS, SNAPSHOTS, KubeServer, Operator,  # noqa: E402
                        set_up, wait_gone, wait_until)
from server_use import Gateway  # noqa: E402
from tap import Skip, Tap, skip_all  # noqa: E402

PROGRAMS = sys.argv[1:5]
IDLE = ["sleep", "1000000"]
CLUSTER = OPERATOR = SERVER = None


def post(server=None, **fields):
    request = {"image": {"uri": "python:3.12"}, "entrypoint": IDLE, "timeout": 600,
               "resourceLimits": {"cpu": "500m", "memory": "128Mi"}, **fields}
    request = {key: value for key, value in request.items() if value is not None}
    status, _, body = (server or SERVER).request("POST", "/v1/sandboxes", request)
    return status, body


def create(server=None, **fields):
    status, body = post(server, **fields)
    assert status == 202 and body["status"]["state"] == "Running", (status, body)
    return body["id"]


def get(name, server=None):
    return (server or SERVER).request("GET", f"/v1/sandboxes/{name}")[2]


def state(name, server=None):
    return get(name, server).get("status", {}).get("state")


def wait_state(name, wanted, server=None):
    wait_until(lambda: state(name, server) == wanted, f"{wanted} of {name}")


def call(method, path, body=None, want=None):
    status, _, answer = SERVER.request(method, f"/v1{path}", body)
    assert want is None or status == want, (method, path, status, answer)
    return answer if want else (status, answer)


def delete(name, server=None):
    status, _, body = (server or SERVER).request("DELETE", f"/v1/sandboxes/{name}")
    assert status == 204, (status, body)


@contextlib.contextmanager
def sandbox(**fields):
    name = create(**fields)
    try:
        yield name
    finally:
        delete(name)


def batch(name):
    return CLUSTER.get(f"{BATCHES}/{name}")


# --- what a sandbox is ---

def commands_and_files_work():
    with sandbox() as name, Gateway(SERVER, name) as gateway:
        assert gateway.run("echo hello") == "hello"
        gateway.upload("/tmp/osb-kube-file", b"content\n")
        assert gateway.run("cat /tmp/osb-kube-file && rm /tmp/osb-kube-file") == "content"


def object_is_as_agreed():
    with sandbox(metadata={"team": "red"}, env={"A": "1"},
                 extensions={"opensandbox.extensions.x": "y",
                             "access.renew.extend.seconds": "300"}) as name:
        o = batch(name)
        spec, pod = o["spec"], o["spec"]["template"]["spec"]
        assert o["metadata"]["labels"] == {"opensandbox.io/id": name, "team": "red"}, o["metadata"]
        notes = o["metadata"]["annotations"]
        assert notes["opensandbox.io/extensions.x"] == "y", notes
        assert notes["opensandbox.io/access-renew-extend-seconds"] == "300", notes
        assert spec["replicas"] == 1 and spec["expireTime"], spec
        assert pod["initContainers"][0]["name"] == "execd-installer"
        main = pod["containers"][0]
        assert main["command"] == ["/opt/opensandbox/bootstrap.sh", *IDLE]
        assert main["resources"]["limits"] == {"cpu": "500m", "memory": "128Mi"}
        assert {"name": "A", "value": "1"} in main["env"]


def unlimited_ones_are_marked():
    with sandbox(timeout=None) as name:
        o = batch(name)
        assert o["metadata"]["labels"]["opensandbox.io/manual-cleanup"] == "true"
        assert "expireTime" not in o["spec"]
        status, body = call("POST", f"/sandboxes/{name}/renew-expiration",
                            {"expiresAt": "2099-01-01T00:00:00Z"})
        assert status == 409, (status, body)


def lists_are_filtered_and_paged():
    with sandbox(metadata={"page": "a"}), sandbox(metadata={"page": "a"}) as last, \
            sandbox(metadata={"page": "b"}):
        answer = call("GET", "/sandboxes?metadata=page%3Da&pageSize=1", want=200)
        assert [i["id"] for i in answer["items"]] == [last], answer
        assert answer["pagination"]["totalItems"] == 2, answer
        answer = call("GET", "/sandboxes?state=paused", want=200)
        assert answer["items"] == [], answer


def endpoints_are_direct_or_by_the_server():
    with sandbox() as name:
        address = json.loads(batch(name)["metadata"]["annotations"][f"{GROUP}/endpoints"])[0]
        answer = call("GET", f"/sandboxes/{name}/endpoints/8080", want=200)
        assert answer == {"endpoint": f"{address}:8080"}, answer
        answer = call("GET", f"/sandboxes/{name}/endpoints/8080?use_server_proxy=true", want=200)
        assert answer["endpoint"].endswith(f"/sandboxes/{name}/proxy/8080"), answer
        status, body = call("GET", f"/sandboxes/{name}/endpoints/0")
        assert status == 400 and body["code"] == "DOCKER::INVALID_PORT", body


def renewal_and_metadata_reach_the_object():
    with sandbox(metadata={"a": "1", "b": "2"}) as name:
        later = (datetime.now(timezone.utc) + timedelta(hours=3)).replace(microsecond=0)
        call("POST", f"/sandboxes/{name}/renew-expiration", {"expiresAt": later.isoformat()},
             want=200)
        stored = datetime.fromisoformat(batch(name)["spec"]["expireTime"].replace("Z", "+00:00"))
        assert stored == later, (stored, later)
        call("PATCH", f"/sandboxes/{name}/metadata", {"a": None, "c": "3"}, want=200)
        labels = batch(name)["metadata"]["labels"]
        assert labels == {"opensandbox.io/id": name, "b": "2", "c": "3"}, labels
        assert get(name)["metadata"] == {"b": "2", "c": "3"}


def deletion_removes_the_object():
    name = create()
    delete(name)
    wait_gone(CLUSTER, f"{BATCHES}/{name}", name)
    status, body = call("GET", f"/sandboxes/{name}")
    assert status == 404 and body["code"] == "KUBERNETES::SANDBOX_NOT_FOUND", body
    assert call("DELETE", f"/sandboxes/{name}")[0] == 404


# --- failures ---

def failed_pods_end_the_create():
    status, body = post(metadata={"plan": "fail", "case": "failed"})
    assert status == 500 and body["code"] == "KUBERNETES::POD_FAILED", (status, body)
    assert "ErrImagePull" in body["message"], body
    wait_until(lambda: not CLUSTER.get(f"{BATCHES}?labelSelector=case%3Dfailed")["items"],
               "the end of what failed")


def late_pods_end_the_create():
    config = {"kubernetes": {"sandbox_create_timeout_seconds": 1}}
    with KubeServer(*PROGRAMS, cluster=CLUSTER, config=config) as server:
        status, body = post(server, metadata={"plan": "never", "case": "late"})
        assert status == 504 and body["code"] == "KUBERNETES::POD_READY_TIMEOUT", (status, body)
    assert not CLUSTER.get(f"{BATCHES}?labelSelector=case%3Dlate")["items"]


def bad_requests_are_refused():
    for fields, code in ((({"secureAccess": True}), "SANDBOX::INVALID_PARAMETER"),
                         ({"volumes": [{"name": "h", "mountPath": "/h", "host": {"path": "/etc"}}]},
                          "VOLUME::HOST_PATH_NOT_ALLOWED"),
                         ({"resourceLimits": {"gpu": "all"}}, "SANDBOX::INVALID_PARAMETER")):
        status, body = post(**fields)
        assert status == 400 and body["code"] == code, (fields, status, body)


# --- pause ---

def pause_and_resume_follow_the_operator():
    with sandbox() as name:
        call("POST", f"/sandboxes/{name}/pause", want=202)
        assert batch(name)["spec"]["pause"] is True
        wait_state(name, "Paused")
        status, body = call("POST", f"/sandboxes/{name}/pause")
        assert status == 409 and body["code"] == "KUBERNETES::INVALID_STATE", body
        call("POST", f"/sandboxes/{name}/resume", want=202)
        wait_state(name, "Running")
        with Gateway(SERVER, name) as gateway:
            assert gateway.run("echo again") == "again"


def failed_pauses_say_so_and_can_be_tried_again():
    with sandbox(metadata={"plan": "badpause"}) as name:
        for _ in range(2):
            before = batch(name)["metadata"]["generation"]
            call("POST", f"/sandboxes/{name}/pause", want=202)
            wait_until(lambda: "no registry" in get(name)["status"]["message"], "the failure")
            assert state(name) == "Running"
            assert batch(name)["metadata"]["generation"] > before


# --- others ---

def changes_by_others_are_seen():
    name = create()
    CLUSTER.patch(f"{BATCHES}/{name}", {"metadata": {"labels": {"by": "hand"}},
                                        "spec": {"expireTime": "2099-01-01T00:00:00Z"}})
    wait_until(lambda: get(name).get("metadata") == {"by": "hand"}, "the label")
    assert get(name)["expiresAt"] == "2099-01-01T00:00:00Z"
    CLUSTER.request("DELETE", f"{BATCHES}/{name}")
    wait_until(lambda: call("GET", f"/sandboxes/{name}")[0] == 404, "the end")


def objects_of_others_are_taken_over():
    CLUSTER.request("POST", BATCHES, {
        "apiVersion": f"{GROUP}/v1alpha1", "kind": "BatchSandbox",
        "metadata": {"name": "made-by-hand", "labels": {"opensandbox.io/id": "made-by-hand"}},
        "spec": {"replicas": 1, "template": {"spec": {"containers": [
            {"name": "sandbox", "image": "busybox", "command": ["sh"]}]}}}})
    assert call("GET", "/sandboxes/made-by-hand", want=200)["id"] == "made-by-hand"  # at once
    assert call("GET", "/sandboxes/made-by-nobody")[0] == 404
    wait_state("made-by-hand", "Running")
    assert get("made-by-hand")["image"]["uri"] == "busybox"
    with Gateway(SERVER, "made-by-hand") as gateway:
        assert gateway.run("echo hello") == "hello"
    delete("made-by-hand")
    wait_gone(CLUSTER, f"{BATCHES}/made-by-hand", "the object")


def two_servers_share_the_cluster():
    with KubeServer(*PROGRAMS, cluster=CLUSTER) as other:
        name = create(other)
        wait_state(name, "Running")
        assert get(name)["entrypoint"][-2:] == IDLE
        first = call("GET", f"/sandboxes/{name}/endpoints/80?use_server_proxy=true", want=200)
        second = other.request("GET", f"/v1/sandboxes/{name}/endpoints/80?use_server_proxy=true")[2]
        assert first["headers"] == second["headers"], (first, second)
        delete(name)
        wait_until(lambda: other.request("GET", f"/v1/sandboxes/{name}")[0] == 404, "the end")


def snapshots_are_known_to_all_servers():
    with KubeServer(*PROGRAMS, cluster=CLUSTER) as other, sandbox() as name:
        def ask(method, path):
            return other.request(method, "/v1" + path)[::2]

        def ready(answer):
            assert answer["status"]["state"] in ("Creating", "Ready"), answer
            return answer["status"]["state"] == "Ready"
        made = call("POST", f"/sandboxes/{name}/snapshots", {"name": "for all"}, want=202)
        path = f"/snapshots/{made['id']}"
        status, seen = ask("GET", path)  # at once
        assert status == 200 and (seen["name"], seen["sandboxId"]) == ("for all", name), seen
        wait_until(lambda: ready(ask("GET", path)[1]), "the snapshot at another server")
        wait_until(lambda: ready(call("GET", path, want=200)), "the snapshot at its server")
        assert [s["id"] for s in ask("GET", "/snapshots")[1]["items"]] == [made["id"]]
        other.kill9()
        other.forget()
        other.start()
        delete(create(other, image=None, snapshotId=made["id"]), other)
        assert ask("DELETE", path)[0] == 204
        assert call("GET", path)[0] == 404
        assert not call("GET", "/snapshots", want=200)["items"]


def servers_that_lost_their_store_find_everything():
    with KubeServer(*PROGRAMS, cluster=CLUSTER) as server:
        name = create(server, metadata={"kept": "yes"})
        server.kill9()
        server.forget()
        server.start()
        wait_state(name, "Running", server)
        assert get(name, server)["metadata"] == {"kept": "yes"}
        with Gateway(server, name) as gateway:
            assert gateway.run("echo there") == "there"
        delete(name, server)


def servers_killed_while_creating_adopt_the_sandbox():
    with KubeServer(*PROGRAMS, cluster=CLUSTER) as server:
        thread = threading.Thread(target=_try, args=(server,))
        thread.start()
        found = wait_until(
            lambda: CLUSTER.get(f"{BATCHES}?labelSelector=case%3Dkilled")["items"], "the object")
        server.kill9()
        thread.join(60)
        name = found[0]["metadata"]["name"]
        CLUSTER.patch(f"{BATCHES}/{name}", {"metadata": {"labels": {"plan": None}}})
        server.start()
        wait_state(name, "Running", server)
        delete(name, server)


def _try(server):
    with contextlib.suppress(OSError, http.client.HTTPException):
        post(server, metadata={"case": "killed", "plan": "never"})


# --- what comes with it ---

def registries_get_their_secret_and_volumes_their_claim():
    with sandbox(image={"uri": "registry.test/a:1", "auth": {"username": "u", "password": "p"}},
                 volumes=[{"name": "v", "mountPath": "/v",
                           "pvc": {"claimName": "kept", "storage": "2Gi"}}]) as name:
        secret = CLUSTER.get(f"{CORE}/secrets/opensandbox-image-auth-{name}")
        assert secret["type"] == "kubernetes.io/dockerconfigjson"
        owner = secret["metadata"]["ownerReferences"][0]
        assert owner["uid"] == batch(name)["metadata"]["uid"], owner
        claim = CLUSTER.get(f"{CORE}/persistentvolumeclaims/kept")
        assert claim["spec"]["resources"]["requests"] == {"storage": "2Gi"}, claim["spec"]
        assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]


def network_policies_get_their_sidecar():
    with sandbox(networkPolicy={"defaultAction": "deny"}) as name:
        names = [c["name"] for c in batch(name)["spec"]["template"]["spec"]["containers"]]
        assert names == ["sandbox", "egress"], names
        headers = call("GET", f"/sandboxes/{name}/endpoints/18080", want=200)["headers"]
        note = batch(name)["metadata"]["annotations"]["opensandbox.io/egress-auth-token"]
        assert headers["OPENSANDBOX-EGRESS-AUTH"] == note, headers


def pools_are_objects():
    capacity = {"bufferMin": 1, "bufferMax": 2, "poolMin": 1, "poolMax": 3}
    template = {"spec": {"containers": [{"name": "sandbox", "image": "busybox"}]}}
    request = {"name": "warm", "template": template, "capacitySpec": capacity}
    assert call("POST", "/pools", request, want=201)["capacitySpec"] == capacity
    assert CLUSTER.get(f"{POOLS}/warm")["spec"]["template"] == template
    status, body = call("POST", "/pools", request)
    assert status == 409 and body["code"] == "KUBERNETES::POOL_ALREADY_EXISTS", body
    CLUSTER.patch(f"{POOLS}/warm/status", {"status": {
        "observedGeneration": 1, "revision": "abc", "total": 2, "allocated": 1, "available": 1}})
    pool = call("GET", "/pools/warm", want=200)
    assert pool["status"] == {"total": 2, "allocated": 1, "available": 1, "revision": "abc"}, pool
    assert [p["name"] for p in call("GET", "/pools", want=200)["items"]] == ["warm"]
    answer = call("PUT", "/pools/warm", {"capacitySpec": {**capacity, "poolMax": 9}}, want=200)
    assert answer["capacitySpec"]["poolMax"] == 9
    with sandbox(image=None, resourceLimits=None, extensions={"poolRef": "warm"}) as name:
        spec = batch(name)["spec"]
        assert spec["poolRef"] == "warm" and "template" not in spec, spec
        assert get(name)["status"]["state"] == "Running"
    assert call("DELETE", "/pools/warm")[0] == 204
    status, body = call("GET", "/pools/warm")
    assert status == 404 and body["code"] == "KUBERNETES::POOL_NOT_FOUND", body


def snapshots_are_objects_and_restore():
    with sandbox() as name:
        made = call("POST", f"/sandboxes/{name}/snapshots", {"name": "one"}, want=202)
        wait_until(lambda: call("GET", f"/snapshots/{made['id']}", want=200)["status"]["state"]
                   == "Ready", "the snapshot")
        found = CLUSTER.get(SNAPSHOTS)["items"]
        assert [o["spec"]["sandboxName"] for o in found] == [name], found
        object_name = found[0]["metadata"]["name"]
        assert object_name == "osb-snap-" + made["id"].replace("-", ""), object_name
        with sandbox(image=None, snapshotId=made["id"]) as restored:
            image = batch(restored)["spec"]["template"]["spec"]["containers"][0]["image"]
            assert image == f"registry.test/{object_name}:1", image
            assert batch(restored)["metadata"]["labels"]["opensandbox.io/snapshot-id"] == made["id"]
        assert call("DELETE", f"/snapshots/{made['id']}")[0] == 204
        wait_gone(CLUSTER, f"{SNAPSHOTS}/{object_name}", "the snapshot")


def diagnostics_tell_of_the_cluster():
    with sandbox() as name:
        CLUSTER.request("POST", f"{CORE}/events", {
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": f"e-{name}"},
            "involvedObject": {"kind": "BatchSandbox", "name": name, "namespace": "boxes"},
            "reason": "SuccessfulCreate", "message": "made a pod", "type": "Normal",
            "lastTimestamp": "2026-01-01T00:00:00Z"})
        text = SERVER.request("GET", f"/v1/sandboxes/{name}/diagnostics/events")[2]
        assert "made a pod" in str(text), text
        text = SERVER.request("GET", f"/v1/sandboxes/{name}/diagnostics/inspect")[2]
        assert f"boxes/{name}" in str(text), text


# --- a gateway in front ---

def gateway_endpoints_have_three_forms():
    for mode, host, want in (("header", "gw.test", "gw.test"),
                             ("uri", "gw.test:81", "gw.test:81/{id}/80"),
                             ("wildcard", "*.gw.test", "{id}-80.gw.test")):
        config = {"ingress": {"mode": "gateway"}, "ingress.gateway": {"address": host},
                  "ingress.gateway.route": {"mode": mode}}
        with KubeServer(*PROGRAMS, cluster=CLUSTER, config=config) as server:
            name = create(server, secureAccess=True)
            answer = server.request("GET", f"/v1/sandboxes/{name}/endpoints/80")[2]
            token = batch(name)["metadata"]["annotations"]["opensandbox.io/secure-access-token"]
            assert answer["endpoint"] == want.format(id=name), answer
            assert answer["headers"]["OpenSandbox-Secure-Access"] == token, answer
            assert ("OpenSandbox-Ingress-To" in answer["headers"]) == (mode == "header"), answer
            delete(name, server)


# --- the official client ---

def official_python_client_works():
    try:
        from opensandbox import SandboxSync
        from opensandbox.config import ConnectionConfigSync
    except ImportError as error:
        raise Skip(f"the SDK is not installed: {error}") from error
    config = ConnectionConfigSync(domain=f"{SERVER.host}:{SERVER.port}", api_key=SERVER.api_key,
                                  use_server_proxy=True, request_timeout=timedelta(seconds=120))
    box = SandboxSync.create("python:3.12", connection_config=config,
                             timeout=timedelta(minutes=10), ready_timeout=timedelta(seconds=120))
    try:
        execution = box.commands.run("echo from the client")
        assert execution.logs.stdout[0].text.strip() == "from the client", execution
        box.files.write_file("/tmp/osb-kube-sdk", "text")
        assert box.files.read_file("/tmp/osb-kube-sdk") == "text"
        box.commands.run("rm /tmp/osb-kube-sdk")
        box.renew(timedelta(minutes=30))
        assert batch(box.id)["spec"]["expireTime"]
        assert box.get_info().status.state == "Running"
    finally:
        box.kill()
        box.close()
    wait_gone(CLUSTER, f"{BATCHES}/{box.id}", box.id)


def nothing_is_left():
    wait_until(lambda: not CLUSTER.get(BATCHES)["items"], "the end of all sandboxes")
    wait_until(lambda: not call("GET", "/sandboxes", want=200)["items"], "an empty list")


CHECKS = (
    commands_and_files_work,
    object_is_as_agreed,
    unlimited_ones_are_marked,
    lists_are_filtered_and_paged,
    endpoints_are_direct_or_by_the_server,
    renewal_and_metadata_reach_the_object,
    deletion_removes_the_object,
    failed_pods_end_the_create,
    late_pods_end_the_create,
    bad_requests_are_refused,
    pause_and_resume_follow_the_operator,
    failed_pauses_say_so_and_can_be_tried_again,
    changes_by_others_are_seen,
    objects_of_others_are_taken_over,
    two_servers_share_the_cluster,
    snapshots_are_known_to_all_servers,
    servers_that_lost_their_store_find_everything,
    servers_killed_while_creating_adopt_the_sandbox,
    registries_get_their_secret_and_volumes_their_claim,
    network_policies_get_their_sidecar,
    pools_are_objects,
    snapshots_are_objects_and_restore,
    diagnostics_tell_of_the_cluster,
    gateway_endpoints_have_three_forms,
    official_python_client_works,
    nothing_is_left,
)


def main():
    global CLUSTER, OPERATOR, SERVER
    reason = why_not(api_only=True)
    if reason:
        skip_all(reason)
    tap = Tap()
    with ClusterProcess(api_only=True) as CLUSTER:
        CLUSTER.install_crds()
        set_up(CLUSTER)
        with Operator(CLUSTER, PROGRAMS[2]) as OPERATOR, \
                KubeServer(*PROGRAMS, cluster=CLUSTER) as SERVER:
            for check in CHECKS:
                tap.check(check.__name__.replace("_", " "), check)
        kube_agent.check(tap, CLUSTER, PROGRAMS)
        kube_charts.check(tap, CLUSTER)
    sys.exit(tap.end())


if __name__ == "__main__":
    main()
