"""kube_world.py - what a server with the kubernetes runtime needs around it on a cluster without
nodes: an account with the rights of deploy/kubernetes, and someone who plays operator and kubelet.

    with ClusterProcess(api_only=True) as cluster, Operator(cluster, execd) as operator, \
            KubeServer(*programs, cluster=cluster) as server:
        ...

A sandbox that "runs" is a real execd at a loopback address of its own, which is its pod's address.
"""
import base64
import contextlib
import itertools
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

from cluster_process import CHARTS
from server_process import ServerProcess, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = CHARTS / "opensandbox-server/files"
NAMESPACE = "boxes"
GROUP = "sandbox.opensandbox.io"
ACCOUNT = "opensandbox-server"
EXECD_PORT = 44772
BATCHES = f"/apis/{GROUP}/v1alpha1/namespaces/{NAMESPACE}/batchsandboxes"
SNAPSHOTS = f"/apis/{GROUP}/v1alpha1/namespaces/{NAMESPACE}/sandboxsnapshots"
POOLS = f"/apis/{GROUP}/v1alpha1/namespaces/{NAMESPACE}/pools"
CORE = f"/api/v1/namespaces/{NAMESPACE}"
AGENTS = f"/apis/agents.x-k8s.io/%s/namespaces/{NAMESPACE}/sandboxes"


def set_up(cluster, agent=False):
    """The namespace, and the account of servers with exactly the rights that deploy/ gives it."""
    rules = (RULES / "server-rules.yaml").read_text()
    if agent:
        rules += (RULES / "server-agent-rules.yaml").read_text()
    cluster.kubectl("apply", "-f", "-", text=f"""
apiVersion: v1
kind: Namespace
metadata: {{name: {NAMESPACE}}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {{name: {ACCOUNT}, namespace: {NAMESPACE}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: {ACCOUNT}, namespace: {NAMESPACE}}}
rules:
{rules}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: {ACCOUNT}, namespace: {NAMESPACE}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: {ACCOUNT}}}
subjects: [{{kind: ServiceAccount, name: {ACCOUNT}, namespace: {NAMESPACE}}}]
""")


def kubeconfig(cluster):
    """A kubeconfig of that account, as text; JSON is YAML."""
    status, answer = cluster.request(
        "POST", f"{CORE}/serviceaccounts/{ACCOUNT}/token",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
         "spec": {"expirationSeconds": 7200}})
    assert status == 201, (status, answer)
    authority = base64.b64encode((cluster.folder / "pki/ca.crt").read_bytes()).decode()
    return json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u",
                                               "namespace": NAMESPACE}}],
        "clusters": [{"name": "k", "cluster": {"server": cluster.server,
                                               "certificate-authority-data": authority}}],
        "users": [{"name": "u", "user": {"token": answer["status"]["token"]}}]})


class KubeServer(ServerProcess):
    """A server with the kubernetes runtime."""

    def __init__(self, server, broker, execd, ctl, config=None, env=None, cluster=None):
        merged = {"runtime": {"type": "kubernetes", "execd_image": "execd:1"},
                  "kubernetes": {"namespace": NAMESPACE, "sandbox_create_timeout_seconds": 120},
                  "egress": {"image": "egress:1"}}
        for section, keys in (config or {}).items():
            merged.setdefault(section, {}).update(keys)
        super().__init__(server, broker, execd, ctl, config=merged, env=env)
        path = self.folder / "kubeconfig"
        path.write_text(kubeconfig(cluster), encoding="ascii")
        path.chmod(0o644)  # the server gives up root
        self.folder.chmod(0o755)
        self.config["kubernetes"]["kubeconfig_path"] = str(path)
        self.cluster = cluster

    def forget(self):
        """Loses all that the server has stored itself."""
        for path in (self.state / "server").glob("opensandbox.db*"):
            path.unlink()

    def remove(self):
        if self.process and self.process.poll() is None:
            self.kill9()
        self.reserved.close()
        self.broker.temporary.cleanup()


class Pod:
    """A real execd at an address of its own."""

    numbers = itertools.count(1)

    def __init__(self, program):
        number = (os.getpid() * 200 + next(self.numbers)) % (250 * 250 * 60)
        self.address = f"127.{60 + number // 62500}.{number // 250 % 250 + 1}.{number % 250 + 1}"
        self.home = tempfile.mkdtemp(prefix="osb-pod-")
        self.process = subprocess.Popen(
            [program, "--listen", f"{self.address}:{EXECD_PORT}", "--", "sleep", "1000000"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            cwd=self.home, start_new_session=True,
            env={"PATH": os.environ["PATH"], "HOME": self.home, "TMPDIR": self.home})

    def wait(self):
        """Until it serves: what a readiness probe would do."""
        def serves():
            with contextlib.suppress(OSError), \
                    socket.create_connection((self.address, EXECD_PORT), timeout=5):
                return True
            assert self.process.poll() is None, "execd ended"
            return False
        wait_until(serves, f"execd at {self.address}")

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.home, ignore_errors=True)


def quiet_status(**more):
    return {"replicas": 1, "allocated": 1, "ready": 0, "taskRunning": 0, "taskSucceed": 0,
            "taskFailed": 0, "taskPending": 0, "taskUnknown": 0, **more}


class Operator:
    """Makes BatchSandboxes run, pause, resume and end, and snapshots succeed. `plans` maps a label
    value of "plan" to another behaviour: "fail", "never", "badpause"."""

    def __init__(self, cluster, execd):
        self.cluster, self.execd = cluster, os.path.abspath(execd)
        self.pods, self.lock, self.stopping = {}, threading.Lock(), threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.errors = []

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
                self.look()
            except OSError:
                pass  # a connection; looks again
            except Exception as error:  # pylint: disable=broad-except
                self.errors.append(repr(error))
                return

    def look(self):
        objects = self.cluster.get(BATCHES)["items"]
        names = {o["metadata"]["name"] for o in objects}
        for name in [n for n in self.pods if n not in names]:
            self.pods.pop(name).end()
        for o in objects:
            self.step(o)
        for o in self.cluster.get(SNAPSHOTS)["items"]:
            if not o.get("status", {}).get("phase"):
                self.commit(o)

    # --- one object ---

    def status(self, o, **status):
        meta = o["metadata"]
        status.setdefault("pauseObservedGeneration", meta["generation"])
        code, answer = self.cluster.request(
            "PATCH", f"{BATCHES}/{meta['name']}/status",
            {"status": quiet_status(**status)}, "application/merge-patch+json")
        assert code in (200, 404), (code, answer)

    def run_pod(self, o):
        name = o["metadata"]["name"]
        pod = self.pods[name] = Pod(self.execd)
        pod.wait()
        code, answer = self.cluster.request(
            "PATCH", f"{BATCHES}/{name}", {"metadata": {"annotations": {
                f"{GROUP}/endpoints": json.dumps([pod.address])}}}, "application/merge-patch+json")
        assert code in (200, 404), (code, answer)
        self.status(o, phase="Succeed", ready=1)

    def step(self, o):
        meta, phase = o["metadata"], o.get("status", {}).get("phase")
        plan, pause = meta.get("labels", {}).get("plan"), o["spec"].get("pause")
        seen = o.get("status", {}).get("pauseObservedGeneration", 0) >= meta["generation"]
        if meta.get("deletionTimestamp") or plan == "never":
            return
        if not phase and plan == "fail":
            self.status(o, phase="Failed", conditions=[
                {"type": "PodFailed", "status": "True", "reason": "ErrImagePull",
                 "message": "1/1 failed: ErrImagePull"}])
        elif not phase:
            self.run_pod(o)
        elif phase == "Succeed" and pause and not seen and plan == "badpause":
            self.status(o, phase="Succeed", ready=1, conditions=[
                {"type": "PauseFailed", "status": "True", "message": "no registry"}])
        elif phase == "Succeed" and pause and not seen:
            self.status(o, phase="Pausing", conditions=[])
        elif phase == "Pausing":
            self.pods.pop(meta["name"]).end()
            self.status(o, phase="Paused")
        elif phase == "Paused" and pause is False and not seen:
            self.status(o, phase="Resuming")
        elif phase == "Resuming":
            self.run_pod(o)

    def commit(self, o):
        name = o["metadata"]["name"]
        code, answer = self.cluster.request(
            "PATCH", f"{SNAPSHOTS}/{name}/status", {"status": {
                "phase": "Succeed", "containers": [
                    {"containerName": "sandbox", "imageUri": f"registry.test/{name}:1"}]}},
            "application/merge-patch+json")
        assert code in (200, 404), (code, answer)


def wait_gone(cluster, path, what):
    wait_for(lambda: cluster.request("GET", path)[0] == 404, f"the end of {what}")


def wait_until(condition, what, seconds=120):
    """Its first true value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"{what} did not come"
        time.sleep(0.02)
