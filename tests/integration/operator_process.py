"""operator_process.py - opensandbox-operator on a cluster without nodes; tests play the kubelet.

A pod gets an address and becomes ready when the kubelet of this module says so: nothing runs in it.
"""
import contextlib
import itertools
import json
import os
import pathlib
import socket
import subprocess
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS_MAX = 60
GROUP = "/apis/sandbox.opensandbox.io/v1alpha1"
MERGE = "application/merge-patch+json"
# Asked for by the admission plugin OwnerReferencesPermissionEnforcement, never by a request.
FINALIZERS = ("batchsandboxes/finalizers", "pools/finalizers", "sandboxsnapshots/finalizers")
TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "registry.test/image:1"}],
                     "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0}}


def wait_for(what, get, seconds=SECONDS_MAX):
    end = time.monotonic() + seconds
    value = None
    while time.monotonic() < end:
        value = get()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {what}; last {value!r}")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Namespace:
    """Objects of one namespace."""

    def __init__(self, cluster, name):
        self.cluster, self.name = cluster, name

    def path(self, plural, name="", sub=""):
        base = GROUP if plural in ("batchsandboxes", "pools", "sandboxsnapshots") else "/api/v1"
        return "/".join(filter(None, [f"{base}/namespaces/{self.name}/{plural}", name, sub]))

    def call(self, method, plural, name="", body=None, sub="", type="application/json"):
        return self.cluster.request(method, self.path(plural, name, sub), body, type)

    def create(self, plural, name, spec, **metadata):
        kind = {"batchsandboxes": "BatchSandbox", "pools": "Pool",
                "sandboxsnapshots": "SandboxSnapshot"}[plural]
        status, answer = self.call("POST", plural, body={
            "apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": kind,
            "metadata": {"name": name, **metadata}, "spec": spec})
        assert status == 201, (status, answer)
        return answer

    def get(self, plural, name):
        status, answer = self.call("GET", plural, name)
        assert status in (200, 404), (status, answer)
        return answer if status == 200 else None

    def list(self, plural):
        status, answer = self.call("GET", plural)
        assert status == 200, (status, answer)
        return answer["items"]

    def patch(self, plural, name, body):
        status, answer = self.call("PATCH", plural, name, body, type=MERGE)
        assert status == 200, (status, answer)
        return answer

    def delete(self, plural, name):
        status, answer = self.call("DELETE", plural, name)
        assert status in (200, 202, 404), (status, answer)

    # --- sandboxes ---

    def pooled(self, name, pool, replicas=1, **spec):
        return self.create("batchsandboxes", name, {"replicas": replicas, "poolRef": pool, **spec})

    def own(self, name, replicas=1, **spec):
        return self.create("batchsandboxes", name,
                           {"replicas": replicas, "template": TEMPLATE, **spec})

    def pool(self, name, low=2, high=4, most=20, **spec):
        self.create("pools", name, {
            "template": TEMPLATE, "scaleStrategy": {"maxUnavailable": "100%"},
            "capacitySpec": {"bufferMin": low, "bufferMax": high, "poolMin": 0, "poolMax": most},
            **spec})
        self.wait_available(name, low)

    def wait_available(self, pool, least):
        wait_for(f"{least} available pods of {pool}",
                 lambda: self.status("pools", pool).get("available", 0) >= least)

    def status(self, plural, name):
        return (self.get(plural, name) or {}).get("status", {})

    def wait_phase(self, name, phase="Succeed", seconds=SECONDS_MAX):
        wait_for(f"{name} in phase {phase}",
                 lambda: self.status("batchsandboxes", name).get("phase") == phase, seconds)

    def wait_gone(self, plural, name):
        wait_for(f"{plural}/{name} gone", lambda: self.get(plural, name) is None)

    def allocated(self, name):
        return allocated_of(self.get("batchsandboxes", name))

    def pods_of(self, uid):
        return [pod for pod in self.list("pods")
                if any(o["uid"] == uid for o in pod["metadata"].get("ownerReferences", []))]


def note(thing, key):
    return thing["metadata"].get("annotations", {}).get(f"sandbox.opensandbox.io/{key}")


def allocated_of(sandbox):
    def names(key):
        return json.loads(note(sandbox, key) or '{"pods":[]}')["pods"]
    released = names("alloc-released")
    return [name for name in names("alloc-status") if name not in released]


class Kubelet(threading.Thread):
    """Gives each new pod of a namespace an address and makes it ready, soon."""

    def __init__(self, space, addresses=None):
        super().__init__(daemon=True)
        self.space, self.stopped = space, threading.Event()
        self.addresses = addresses or (f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}"
                                       for n in itertools.count(1 << 16))
        self.given = {}  # name: address
        self.error = None

    def run(self):
        while not self.stopped.wait(0.05):
            try:
                for pod in self.space.list("pods"):
                    self.look(pod)
            except Exception as error:  # the API server may be down for a while
                self.error = error

    def look(self, pod):
        name = pod["metadata"]["name"]
        if pod["status"].get("podIP") or pod["metadata"].get("deletionTimestamp"):
            return
        self.given[name] = next(self.addresses)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.space.call("PATCH", "pods", name, {"status": {
            "phase": "Running", "podIP": self.given[name], "podIPs": [{"ip": self.given[name]}],
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}],
            "containerStatuses": [
                {"name": c["name"], "image": c["image"], "imageID": "x", "ready": True,
                 "restartCount": 0, "containerID": f"test://{name}-{c['name']}",
                 "state": {"running": {"startedAt": now}}} for c in pod["spec"]["containers"]],
        }}, "status", MERGE)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.join(SECONDS_MAX)


class Operator:
    def __init__(self, program, kubeconfig, *flags, env=None):
        self.program, self.kubeconfig, self.flags = program, kubeconfig, flags
        self.env = {**os.environ, **(env or {})}
        self.process, self.log = None, b""

    def start(self):
        self.probes, self.metrics = free_port(), free_port()
        self.process = subprocess.Popen(
            [self.program, "--kubeconfig", self.kubeconfig, "--metrics-secure=false",
             f"--health-probe-bind-address=127.0.0.1:{self.probes}",
             f"--metrics-bind-address=127.0.0.1:{self.metrics}", *self.flags],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=self.env)
        threading.Thread(target=self.read_log, args=(self.process,), daemon=True).start()
        return self

    def read_log(self, process):
        for line in process.stderr:
            self.log = (self.log + line)[-65536:]

    def http(self, port, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.read().decode()

    def is_ready(self):
        assert self.process.poll() is None, self.log.decode()
        try:
            return self.http(self.probes, "/readyz") == "ok"
        except OSError:
            return False

    def figure(self, name):
        for line in self.http(self.metrics, "/metrics").splitlines():
            if line.startswith(name + " "):
                return int(line.split()[1])
        raise AssertionError(f"no figure {name}")

    def kill(self):
        self.process.kill()
        self.process.wait(SECONDS_MAX)

    def restart(self):
        self.kill()
        self.start()
        wait_for("the operator", self.is_ready)

    def __enter__(self):
        self.start()
        wait_for("the operator", self.is_ready)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
            if self.process.poll() is None:
                self.kill()
                raise AssertionError("the operator does not end on SIGTERM")


def account(cluster):
    """A kubeconfig of the account that deploy/kubernetes gives the operator, with its rights."""
    rules = ROOT / "deploy/kubernetes/operator/rbac.yaml"
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": "system"}})
    cluster.kubectl("apply", "-f", rules)
    status, answer = cluster.request(
        "POST", "/api/v1/namespaces/system/serviceaccounts/controller-manager/token",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
         "spec": {"expirationSeconds": 7200}})
    assert status == 201, (status, answer)
    config = json.loads(pathlib.Path(cluster.kubeconfig).read_text(encoding="utf-8"))
    config["users"][0]["user"] = {"token": answer["status"]["token"]}
    path = cluster.folder / "operator.kubeconfig"
    path.write_text(json.dumps(config), encoding="utf-8")
    return str(path)


def install_crds(cluster, folder):
    cluster.kubectl("apply", "-f", os.fspath(folder))
    wait_for("the custom resources", lambda: all(
        cluster.request("GET", f"{GROUP}/{plural}")[0] == 200
        for plural in ("batchsandboxes", "pools", "sandboxsnapshots")))
