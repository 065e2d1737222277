"""The ingress gateway on a real API server: objects of both kinds, whose endpoints are scripts on
loopback; the API server ends and comes back.

Usage: test_ingress_cluster.py INGRESS. TAP on standard output. Needs root.
"""
import json
import os
import pathlib
import sys

from cluster_process import ClusterProcess, why_not
from http_backend import OK, Backend, answer
from ingress_process import Ingress, wait_for

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
from tap import run_tests, skip_all  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
BATCH = "/apis/sandbox.opensandbox.io/v1alpha1/namespaces/{}/batchsandboxes"
AGENT = "/apis/agents.x-k8s.io/v1alpha1/namespaces/{}/sandboxes"
TOKEN = "tok-1"
CLUSTER = BACKEND = None

# As much of the kind as the gateway reads; the whole one belongs to its own project.
AGENT_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "sandboxes.agents.x-k8s.io", "annotations": {
        "api-approved.kubernetes.io": "unapproved, a reduced kind for tests"}},
    "spec": {"group": "agents.x-k8s.io", "scope": "Namespaced",
             "names": {"kind": "Sandbox", "plural": "sandboxes", "singular": "sandbox"},
             "versions": [{"name": "v1alpha1", "served": True, "storage": True,
                           "subresources": {"status": {}},
                           "schema": {"openAPIV3Schema": {
                               "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]},
}


def make(path, ns, name, kind, annotations, status, spec=None):
    group = path.split("/")[2]
    item = {"apiVersion": f"{group}/v1alpha1", "kind": kind,
            "metadata": {"name": name, "namespace": ns, "annotations": annotations},
            "spec": spec or {}}
    code, body = CLUSTER.request("POST", path.format(ns), item)
    assert code == 201, (code, body)
    set_status(path, ns, name, status)


def set_status(path, ns, name, status):
    CLUSTER.patch(f"{path.format(ns)}/{name}/status", {"status": status})


def batch(name, ns="default", endpoint="127.0.0.1", token=None, ready=1, phase="Succeed"):
    annotations = {"sandbox.opensandbox.io/endpoints": json.dumps([endpoint])}
    if token:
        annotations["opensandbox.io/secure-access-token"] = token
    template = {"spec": {"containers": [{"name": "sandbox", "image": "none"}]}}
    make(BATCH, ns, name, "BatchSandbox", annotations, status_of(ready, phase),
         {"replicas": 1, "template": template})


def status_of(ready, phase="Succeed"):
    zeros = ("replicas", "allocated", "taskRunning", "taskSucceed", "taskFailed", "taskPending",
             "taskUnknown")
    return {**{name: 0 for name in zeros}, "ready": ready, "phase": phase}


def remove(path, ns, name):
    code, _ = CLUSTER.request("DELETE", f"{path.format(ns)}/{name}")
    assert code == 200, code


def port():
    return BACKEND.listener.getsockname()[1]


def gateway(*args):
    return Ingress(PROGRAM, *args, "--kubeconfig", str(CLUSTER.kubeconfig))


def follows_batch_sandboxes():
    batch("early")
    with gateway() as ingress:
        target = f"web-{port()}"
        assert ingress.to(f"early-{port()}")[0] == 200  # it was in the first list
        assert ingress.to(target)[0] == 404
        batch("web", ready=0)
        wait_for(lambda: ingress.to(target)[0] == 503, "it, not ready")
        set_status(BATCH, "default", "web", status_of(1))
        wait_for(lambda: ingress.to(target)[0] == 200, "it to be ready")
        CLUSTER.patch(BATCH.format("default") + "/web", {"metadata": {"annotations": {
            "opensandbox.io/secure-access-token": TOKEN}}})
        wait_for(lambda: ingress.to(target)[0] == 401, "its token")
        assert ingress.to(target, OpenSandbox_Secure_Access=TOKEN)[0] == 200
        batch("web", ns="kube-public")
        wait_for(lambda: ingress.to(target)[0] == 502, "two of the name")
        remove(BATCH, "kube-public", "web")
        wait_for(lambda: ingress.to(target)[0] == 401, "one of the name")
        remove(BATCH, "default", "web")
        wait_for(lambda: ingress.to(target)[0] == 404, "none")
        assert ingress.metric("ingress_sandboxes") == 1
    remove(BATCH, "default", "early")


def serves_what_it_knows_while_the_api_server_is_away():
    import signal
    batch("steady")
    with gateway("--mode", "uri") as ingress:
        path = f"/steady/{port()}/x"
        assert ingress.get(path)[0] == 200
        pid = CLUSTER.pid("kube-apiserver")
        os.kill(pid, signal.SIGSTOP)
        try:
            assert all(ingress.get(path)[0] == 200 for _ in range(20))
        finally:
            os.kill(pid, signal.SIGCONT)
        batch("later")
        wait_for(lambda: ingress.get(f"/later/{port()}/")[0] == 200, "what came afterwards")
    remove(BATCH, "default", "steady")
    remove(BATCH, "default", "later")


def finds_agent_sandboxes():
    CLUSTER.kubectl("apply", "-f", "-", text=json.dumps(AGENT_CRD))
    CLUSTER.kubectl("wait", "--for=condition=Established", "--timeout=60s",
                    "crd/sandboxes.agents.x-k8s.io")
    ready = {"serviceFQDN": "localhost", "conditions": [{"type": "Ready", "status": "True"}]}
    wait_for(lambda: CLUSTER.request("GET", AGENT.format("default"))[0] == 200, "the kind")
    make(AGENT, "default", "my-box", "Sandbox", {}, ready)
    make(AGENT, "default", "sandbox-1234", "Sandbox", {}, ready)
    with gateway("--provider-type", "agent-sandbox") as ingress:
        for name in ("my-box", "My_Box", "1234"):
            assert ingress.to(f"{name}-{port()}")[0] == 200, name
        set_status(AGENT, "default", "my-box",
                   {"conditions": [{"type": "Ready", "status": "False"}]})
        wait_for(lambda: ingress.to(f"my-box-{port()}")[0] == 503, "not ready")


def needs_rights_in_the_namespace_that_it_watches_only():
    """The account of the chart: it may read in one namespace."""
    batch("near")
    batch("far", ns="kube-public")
    CLUSTER.kubectl("create", "role", "reader", "-n", "default", "--verb=get,list,watch",
                    "--resource=batchsandboxes.sandbox.opensandbox.io")
    CLUSTER.kubectl("create", "serviceaccount", "reader", "-n", "default")
    CLUSTER.kubectl("create", "rolebinding", "reader", "-n", "default", "--role=reader",
                    "--serviceaccount=default:reader")
    with Ingress(PROGRAM, "--kubeconfig", account("reader"), "--watch-namespace",
                 "default") as ingress:
        assert ingress.to(f"near-{port()}")[0] == 200
        assert ingress.to(f"far-{port()}")[0] == 404
    with Ingress(PROGRAM, "--kubeconfig", account("reader"), wait=False) as ingress:
        wait_for(lambda: any("forbidden" in json.dumps(row).lower() for row in ingress.lines),
                 "the reason why it waits")
        assert not ingress.port
    remove(BATCH, "default", "near")
    remove(BATCH, "kube-public", "far")


def account(name):
    """A kubeconfig of a service account."""
    token = CLUSTER.kubectl("create", "token", name, "-n", "default").strip()
    config = {"apiVersion": "v1", "kind": "Config", "current-context": "c",
              "clusters": [{"name": "c", "cluster": {
                  "server": CLUSTER.server,
                  "certificate-authority": str(CLUSTER.folder / "pki/ca.crt")}}],
              "users": [{"name": "u", "user": {"token": token}}],
              "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}
    path = pathlib.Path(CLUSTER.folder) / f"{name}.kubeconfig"
    path.write_text(json.dumps(config), encoding="utf-8")
    return str(path)


def says_which_right_is_missing():
    """An account that may not list: the start fails with the API server's words."""
    CLUSTER.kubectl("create", "serviceaccount", "nobody", "-n", "default")
    with Ingress(PROGRAM, "--kubeconfig", account("nobody"), "--start-timeout", "3",
                 wait=False) as ingress:
        wait_for(lambda: ingress.process.poll() is not None, "its end")
        assert ingress.process.returncode == 1
        ingress.reader.join(60)
        assert any("forbidden" in json.dumps(row).lower() for row in ingress.lines), ingress.lines
        ingress.process.returncode = 0  # as expected


TESTS = [
    follows_batch_sandboxes,
    serves_what_it_knows_while_the_api_server_is_away,
    finds_agent_sandboxes,
    needs_rights_in_the_namespace_that_it_watches_only,
    says_which_right_is_missing,
]


def main():
    global CLUSTER, BACKEND
    skip_all(why_not(api_only=True))
    with ClusterProcess(api_only=True) as CLUSTER, Backend(answer(OK)) as BACKEND:
        CLUSTER.install_crds()
        return run_tests(TESTS)


if __name__ == "__main__":
    sys.exit(main())
