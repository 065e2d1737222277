"""kube_agent.py - checks of the provider agent-sandbox of the kubernetes runtime, for
test_kubernetes.py: with the custom resources of kubernetes-sigs/agent-sandbox, or with a reduced
copy where those are not at hand. The test plays its controller and the kubelet."""
import http.client
import os
import pathlib
import threading

from kube_world import AGENTS, CORE, ROOT, KubeServer, Pod, set_up, wait_gone, wait_until
from server_use import Gateway

HERE = pathlib.Path(__file__).resolve().parent
REAL = ROOT.parent / "shared/cluster/agent-sandbox-crds"
CLUSTER = SERVER = PATH = PROGRAMS = None


class Controller:
    """A pod for each Sandbox, and the condition Ready."""

    def __init__(self):
        self.pods, self.ready, self.stopping, self.errors = {}, set(), threading.Event(), []
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.stopping.set()
        self.thread.join(60)
        for pod in self.pods.values():
            pod.end()
        assert kind or not self.errors, self.errors

    def run(self):
        while not self.stopping.wait(0.05):
            try:
                for o in CLUSTER.get(PATH)["items"]:
                    self.step(o)
            except (ConnectionError, TimeoutError, http.client.HTTPException):
                pass
            except Exception as error:  # pylint: disable=broad-except
                self.errors.append(repr(error))
                return

    def step(self, o):
        name = o["metadata"]["name"]
        if name in self.ready or o["metadata"].get("deletionTimestamp"):
            return
        if name not in self.pods:
            self.pods[name] = Pod(os.path.abspath(PROGRAMS[2]))  # it runs elsewhere
        pod = self.pods[name]
        pod.wait()
        template = o["spec"]["podTemplate"]
        spec = {"containers": [{"name": "sandbox", "image": "x"}], "nodeName": "n"}
        status, answer = CLUSTER.request("POST", f"{CORE}/pods", {
            "apiVersion": "v1", "kind": "Pod", "spec": spec,
            "metadata": {"name": name, "labels": template["metadata"]["labels"]}})
        assert status in (201, 409), (status, answer)
        CLUSTER.patch(f"{CORE}/pods/{name}/status", {"status": {
            "phase": "Running", "podIP": pod.address, "podIPs": [{"ip": pod.address}]}})
        status, answer = CLUSTER.request("PATCH", f"{PATH}/{name}/status", {"status": {
            "conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
                            "lastTransitionTime": "2026-01-01T00:00:00Z"}]}},
                                         "application/merge-patch+json")
        assert status in (200, 404), (status, answer)
        self.ready.add(name)  # a connection that broke before lets the next look try again


def create(**fields):
    status, _, body = SERVER.request("POST", "/v1/sandboxes", {
        "image": {"uri": "python:3.12"}, "entrypoint": ["sleep", "1000000"], "timeout": 600,
        "resourceLimits": {"cpu": "500m", "memory": "128Mi"}, **fields})
    return status, body


def sandboxes_run_are_renewed_and_end():
    status, body = create(metadata={"team": "red"})
    assert status == 202 and body["status"]["state"] == "Running", (status, body)
    name, objects = body["id"], CLUSTER.get(PATH)["items"]
    object_name = objects[0]["metadata"]["name"]
    assert object_name[0].isalpha() and object_name.endswith(name), object_name
    spec = objects[0]["spec"]
    assert spec["shutdownPolicy"] == "Delete" and spec["shutdownTime"], spec
    assert spec["podTemplate"]["metadata"]["labels"]["team"] == "red", spec
    with Gateway(SERVER, name) as gateway:
        assert gateway.run("echo hello") == "hello"
    assert SERVER.request("POST", f"/v1/sandboxes/{name}/renew-expiration",
                          {"expiresAt": "2099-01-01T00:00:00Z"})[0] == 200
    assert CLUSTER.get(f"{PATH}/{object_name}")["spec"]["shutdownTime"].startswith("2099-01-01")
    status, _, body = SERVER.request("PATCH", f"/v1/sandboxes/{name}/metadata", {"team": "blue"})
    assert status == 200, (status, body)
    assert CLUSTER.get(f"{PATH}/{object_name}")["metadata"]["labels"]["team"] == "blue"
    assert SERVER.request("DELETE", f"/v1/sandboxes/{name}")[0] == 204
    wait_gone(CLUSTER, f"{PATH}/{object_name}", name)


def what_it_cannot_do_is_refused():
    status, body = create(image={"uri": "a", "auth": {"username": "u", "password": "p"}})
    assert status == 400 and body["code"] == "SANDBOX::INVALID_PARAMETER", (status, body)
    status, body = create()
    assert status == 202, (status, body)
    status, _, answer = SERVER.request("POST", f"/v1/sandboxes/{body['id']}/pause")
    assert status == 400 and answer["code"] == "KUBERNETES::INVALID_STATE", (status, answer)
    SERVER.request("DELETE", f"/v1/sandboxes/{body['id']}")
    wait_until(lambda: not CLUSTER.get(PATH)["items"], "the end")


def check(tap, cluster, programs):
    global CLUSTER, SERVER, PATH, PROGRAMS
    CLUSTER, PROGRAMS = cluster, programs
    for path in sorted(REAL.glob("*_sandboxes.yaml")) or [HERE / "agent_sandbox_crd.yaml"]:
        cluster.apply_crds(path)
    names = [v["version"] for v in cluster.get("/apis/agents.x-k8s.io")["versions"]]
    PATH = AGENTS % ("v1beta1" if "v1beta1" in names else "v1alpha1")
    set_up(cluster, agent=True)
    config = {"kubernetes": {"workload_provider": "agent-sandbox"}}
    with Controller(), KubeServer(*programs, cluster=cluster, config=config) as SERVER:
        for one in (sandboxes_run_are_renewed_and_end, what_it_cannot_do_is_refused):
            tap.check("agent-sandbox: " + one.__name__.replace("_", " "), one)
