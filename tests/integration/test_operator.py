#!/usr/bin/env python3
"""test_operator.py OPERATOR TASK_EXECUTOR [KILLS] - the operator on a real API server.

etcd, kube-apiserver and kube-controller-manager run; there is no node, and the test plays the
kubelet. KILLS: how often the operator is killed under traffic (10). TAP on standard output.
"""
import contextlib
import http.client
import itertools
import json
import os
import pathlib
import random
import ssl
import subprocess
import sys
import tempfile
import threading
import time

import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "tools"))
from cluster_process import CRDS, ROOT, ClusterProcess, why_not  # noqa: E402
from operator_process import (  # noqa: E402
    FINALIZERS, Kubelet, Namespace, Operator, account, allocated_of, install_crds, note, wait_for)
from tap import Tap, skip_all  # noqa: E402

OPERATOR, EXECUTOR = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
KILLS = int(sys.argv[3]) if len(sys.argv) > 3 else 10


class World:
    def __init__(self, cluster, operator, space, kubelet):
        self.cluster, self.operator, self.space, self.kubelet = cluster, operator, space, kubelet


def own_pods(w):
    made = w.space.own("own", 2)
    w.space.wait_phase("own")
    status = wait_for("both ready", lambda: (s := w.space.status("batchsandboxes", "own"))
                      .get("ready") == 2 and s)
    assert status["replicas"] == 2 and status["observedGeneration"] == 1, status
    assert status["conditions"][0]["type"] == "Ready", status
    pods = sorted(w.space.pods_of(made["metadata"]["uid"]), key=lambda p: p["metadata"]["name"])
    assert [p["metadata"]["name"] for p in pods] == ["own-0", "own-1"], pods
    addresses = [w.kubelet.given["own-0"], w.kubelet.given["own-1"]]
    wait_for("addresses", lambda: json.loads(
        note(w.space.get("batchsandboxes", "own"), "endpoints")) == addresses)
    w.space.patch("batchsandboxes", "own", {"spec": {"replicas": 1}})
    w.space.wait_gone("pods", "own-1")
    w.space.delete("pods", "own-0")
    wait_for("another own-0", lambda: (p := w.space.get("pods", "own-0"))
             and p["metadata"]["uid"] != pods[0]["metadata"]["uid"])
    w.space.delete("batchsandboxes", "own")
    w.space.wait_gone("pods", "own-0")  # by the garbage collector


def expiry(w):
    end = time.time() + 3
    for name, make in (("ttl-own", lambda **m: w.space.own("ttl-own", **m)),
                       ("ttl-pool", lambda **m: w.space.pooled("ttl-pool", "nowhere", **m))):
        make(expireTime=time.strftime("%Y-%m-%dT%H:%M:%S.000000+00:00", time.gmtime(end)))
    assert w.space.get("batchsandboxes", "ttl-own") and w.space.get("batchsandboxes", "ttl-pool")
    for name in ("ttl-own", "ttl-pool"):
        w.space.wait_gone("batchsandboxes", name)
        assert time.time() >= int(end), "deleted before its time"


def failures_show(w):
    w.kubelet.given["bad-0"] = None
    w.space.create("batchsandboxes", "bad", {"replicas": 1, "template": {
        "spec": {"containers": [{"name": "main", "image": "x"}], "nodeSelector": {"no": "where"}}}})
    w.space.wait_phase("bad")
    w.space.call("PATCH", "pods", "bad-0", {"status": {"phase": "Failed", "reason": "Evicted",
                                                       "message": "the node was low on memory"}},
                 "status", "application/merge-patch+json")
    w.space.wait_phase("bad", "Failed")
    status = w.space.status("batchsandboxes", "bad")
    assert status["conditions"][0]["reason"] == "Evicted", status
    assert note(w.space.get("batchsandboxes", "bad"), "endpoints") == '[""]'
    w.space.delete("batchsandboxes", "bad")


def pooled(w):
    w.space.pool("warm")
    w.space.pooled("one", "warm")
    w.space.wait_phase("one")
    (pod,) = w.space.allocated("one")
    sandbox = w.space.get("batchsandboxes", "one")
    assert json.loads(note(sandbox, "endpoints")) == [w.kubelet.given[pod]], sandbox
    assert "pool.sandbox.opensandbox.io/pool-allocation" in sandbox["metadata"]["finalizers"]
    wait_for("one allocated", lambda: w.space.status("pools", "warm").get("allocated") == 1)
    w.space.delete("batchsandboxes", "one")
    w.space.wait_gone("batchsandboxes", "one")
    w.space.wait_gone("pods", pod)
    w.space.wait_available("warm", 2)


def recycling(w):
    w.space.pool("noop", recycleStrategy={"type": "Noop"}, low=1, high=1, most=1)
    uids = set()
    for n in range(3):
        w.space.pooled(f"again-{n}", "noop")
        w.space.wait_phase(f"again-{n}")
        (pod,) = w.space.allocated(f"again-{n}")
        uids.add(w.space.get("pods", pod)["metadata"]["uid"])
        w.space.delete("batchsandboxes", f"again-{n}")
    assert len(uids) == 1, uids


def waiters(w):
    w.space.pool("small", low=0, high=0, most=3)
    for n in range(5):
        w.space.pooled(f"w{n}", "small")
    done = wait_for("three of five", lambda: len(d := [
        s for s in w.space.list("batchsandboxes") if s["metadata"]["name"].startswith("w")
        and s.get("status", {}).get("phase") == "Succeed"]) == 3 and d)
    waiting = [f"w{n}" for n in range(5)
               if f"w{n}" not in [s["metadata"]["name"] for s in done]]
    w.space.wait_phase(waiting[0], "Pending")
    reason = w.space.status("batchsandboxes", waiting[0])["conditions"][0]["reason"]
    assert reason == "WaitingForPool", reason
    for sandbox in done[:2]:
        w.space.delete("batchsandboxes", sandbox["metadata"]["name"])
    for name in waiting:
        w.space.wait_phase(name)
    for n in range(5):
        w.space.delete("batchsandboxes", f"w{n}")


def lost_pods(w):
    w.space.pooled("lost", "warm")
    w.space.wait_phase("lost")
    (pod,) = w.space.allocated("lost")
    w.space.delete("pods", pod)
    wait_for("another pod", lambda: w.space.allocated("lost") not in ([], [pod]))
    (new,) = w.space.allocated("lost")
    wait_for("its address", lambda: json.loads(note(w.space.get("batchsandboxes", "lost"),
                                                    "endpoints")) == [w.kubelet.given.get(new)])
    w.space.delete("batchsandboxes", "lost")


def eviction(w):
    """An allocated pod is never evicted, not even by an operator that has just started."""
    w.space.pooled("kept", "warm")
    w.space.wait_phase("kept")
    (pod,) = w.space.allocated("kept")
    w.operator.kill()
    for one in w.space.list("pods"):
        if one["metadata"].get("labels", {}).get("sandbox.opensandbox.io/pool-name") == "warm":
            w.space.patch("pods", one["metadata"]["name"],
                          {"metadata": {"labels": {"pool.opensandbox.io/evict": ""}}})
            if one["metadata"]["name"] != pod:
                idle = one["metadata"]["name"]
    w.operator.start()
    w.space.wait_gone("pods", idle)
    w.space.wait_available("warm", 2)
    assert w.space.get("pods", pod) and w.space.allocated("kept") == [pod]
    w.space.delete("batchsandboxes", "kept")
    w.space.wait_gone("pods", pod)


def malformed(w):
    w.space.create("batchsandboxes", "odd", {"replicas": 1, "poolRef": "warm"}, annotations={
        "sandbox.opensandbox.io/alloc-status": "{nonsense"})
    w.operator.restart()
    w.space.pooled("sound", "warm")
    w.space.wait_phase("sound")
    for name in ("odd", "sound"):
        w.space.delete("batchsandboxes", name)
        w.space.wait_gone("batchsandboxes", name)


def pool_goes_first(w):
    w.space.pool("gone")
    w.space.pooled("left", "gone")
    w.space.wait_phase("left")
    w.space.delete("pools", "gone")
    w.space.wait_gone("pools", "gone")
    w.space.delete("batchsandboxes", "left")
    w.space.wait_gone("batchsandboxes", "left")


def rollout(w):
    w.space.pool("roll", updateStrategy={"maxUnavailable": 1})
    w.space.pooled("stays", "roll")
    w.space.wait_phase("stays")
    (pod,) = w.space.allocated("stays")
    uid = w.space.get("pods", pod)["metadata"]["uid"]
    w.space.patch("pools", "roll", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})

    def rolled():
        s = w.space.status("pools", "roll")
        return s.get("observedGeneration") == 2 and s["updated"] == s["total"] - 1 \
            and s["available"] >= 2
    wait_for("idle pods of the new template", rolled)
    assert w.space.get("pods", pod)["metadata"]["uid"] == uid
    w.space.delete("batchsandboxes", "stays")
    w.space.wait_gone("pods", pod)


def automatic(w):
    w.space.create("batchsandboxes", "any", {"replicas": 1, "poolRef": "*", "template": {
        "spec": {"containers": [{"name": "m", "image": "registry.test/image:1"}]}}})
    w.space.wait_phase("any")
    assert w.space.get("batchsandboxes", "any")["spec"]["poolRef"] in ("warm", "noop", "roll",
                                                                       "small")
    w.space.delete("batchsandboxes", "any")
    w.space.create("batchsandboxes", "none", {"replicas": 1, "poolRef": "*", "template": {
        "spec": {"containers": [{"name": "m", "image": "another"}]}}})
    w.space.wait_phase("none", "Pending")
    condition = w.space.status("batchsandboxes", "none")["conditions"][0]
    assert condition["reason"] == "NoPoolFits" and "images" in condition["message"], condition
    w.space.delete("batchsandboxes", "none")


def pause_needs_a_registry(w):
    w.space.own("doze")
    w.space.wait_phase("doze")
    w.space.patch("batchsandboxes", "doze", {"spec": {"pause": True}})
    status = wait_for("a refusal", lambda: (s := w.space.status("batchsandboxes", "doze")) and any(
        c["type"] == "PauseFailed" for c in s.get("conditions", [])) and s)
    assert status["phase"] == "Succeed" and w.space.get("pods", "doze-0"), status
    w.space.delete("batchsandboxes", "doze")
    w.space.wait_gone("sandboxsnapshots", "doze-pause")


def tasks(w):
    """A real task executor answers at the address of the pod."""
    address = f"127.{random.randrange(1, 250)}.{random.randrange(250)}.{random.randrange(2, 250)}"
    space = Namespace(w.cluster, "tasks")
    w.cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": "tasks"}})
    with tempfile.TemporaryDirectory(prefix="osb-tasks-") as folder, \
            Kubelet(space, itertools.repeat(address)):
        executor = subprocess.Popen([EXECUTOR, f"--listen-addr={address}:5758", "--data-dir",
                                     f"{folder}/t", "--log-dir", ""], stderr=subprocess.DEVNULL)
        try:
            space.pool("crew", low=1, high=1, most=1, recycleStrategy={"type": "Noop"})
            space.pooled("job", "crew", taskTemplate={"spec": {"process": {
                "command": ["sh", "-c", f"echo $A > {folder}/out; sleep 1000"],
                "env": [{"name": "A", "value": "done"}]}}})
            wait_for("a running task", lambda: space.status("batchsandboxes", "job")
                     .get("taskRunning") == 1)
            out = pathlib.Path(f"{folder}/out")  # the process runs before it has written
            wait_for("its line", lambda: out.exists() and out.read_text() == "done\n")
            space.delete("batchsandboxes", "job")
            space.wait_gone("batchsandboxes", "job")
            assert os.listdir(f"{folder}/t") == [], "the task is still there"
            space.pooled("quick", "crew", taskTemplate={"spec": {"process": {
                "command": ["sh", "-c", "exit 3"]}}}, taskResourcePolicyWhenCompleted="Release")
            wait_for("a failed task", lambda: space.status("batchsandboxes", "quick")
                     .get("taskFailed") == 1)
            wait_for("its pod given back", lambda: space.allocated("quick") == [])
            space.delete("batchsandboxes", "quick")
            space.wait_gone("batchsandboxes", "quick")
        finally:
            executor.kill()
            executor.wait()


def doubles(sandboxes):
    """Pods that two sandboxes have at once."""
    seen, twice = {}, []
    for sandbox in sandboxes:
        for pod in allocated_of(sandbox):
            if pod in seen:
                twice.append((pod, seen[pod], sandbox["metadata"]["name"]))
            seen[pod] = sandbox["metadata"]["name"]
    return twice


class Traffic(threading.Thread):
    """Creates and deletes sandboxes of a pool, and looks for pods that two of them have."""

    def __init__(self, space, number):
        super().__init__(daemon=True)
        self.space, self.number, self.stopped = space, number, threading.Event()
        self.made, self.errors = 0, []

    def run(self):
        rng = random.Random(self.number)
        live = []
        while not self.stopped.is_set():
            try:
                if len(live) < 6 and rng.random() < 0.6:
                    name = f"t{self.number}-{self.made}"
                    self.made += 1
                    self.space.pooled(name, "busy", rng.choice((1, 1, 2)))
                    live.append(name)
                elif live:
                    self.space.delete("batchsandboxes", live.pop(rng.randrange(len(live))))
                twice = doubles(self.space.list("batchsandboxes"))
                if twice:
                    self.errors.append(twice)
            except Exception as error:
                self.errors.append(error)


def kills(w):
    """kill -9 of the operator at random moments under traffic."""
    space = Namespace(w.cluster, "kills")
    w.cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": "kills"}})
    rng = random.Random()
    with Kubelet(space):
        space.pool("busy", low=4, high=8, most=16)
        traffic = [Traffic(space, n) for n in range(2)]
        for t in traffic:
            t.start()
        for _ in range(KILLS):
            time.sleep(rng.uniform(0.1, 1.4))
            w.operator.kill()
            w.operator.start()
        for t in traffic:
            t.stopped.set()
        for t in traffic:
            t.join(60)
            assert not t.errors, t.errors[:3]
        assert sum(t.made for t in traffic) > KILLS, "no traffic"
        live = [s["metadata"]["name"] for s in space.list("batchsandboxes")]
        for name in live[6:]:
            space.delete("batchsandboxes", name)
        for name in live[:6]:
            sandbox = space.get("batchsandboxes", name)
            if sandbox and not sandbox["metadata"].get("deletionTimestamp"):
                space.wait_phase(name)
        assert not doubles(space.list("batchsandboxes"))
        wait_for("no more pods than the pool may have", lambda: len(
            [p for p in space.list("pods") if "deletionTimestamp" not in p["metadata"]]) <= 16)
        for name in live:
            space.delete("batchsandboxes", name)
        wait_for("no sandbox", lambda: not space.list("batchsandboxes"))
        wait_for("an idle pool", lambda: (s := space.status("pools", "busy")).get("allocated") == 0
                 and s["total"] == s["available"] == len(space.list("pods")))
        assert w.operator.figure("opensandbox_operator_duplicate_claims_total") == 0


def leading(cluster, rights):
    path = "/apis/coordination.k8s.io/v1/namespaces/system/leases"

    def renewed():
        return [lease["spec"]["renewTime"] for lease in cluster.get(path)["items"]]
    with Operator(OPERATOR, rights, "--leader-elect", env={"POD_NAMESPACE": "system"}) as operator:
        first = wait_for("the lease", renewed)
        second = wait_for("its renewal", lambda: renewed() != first and renewed())
        wait_for("another one", lambda: renewed() != second)
        assert b"this process leads" in operator.log and b"cannot be" not in operator.log


def manager_words():
    """The arguments that deploy/kubernetes gives the operator, but for its addresses."""
    for part in (ROOT / "deploy/kubernetes/operator/manager.yaml").read_text().split("\n---\n"):
        document = yaml.safe_load(part)
        if document["kind"] == "Deployment":
            words = document["spec"]["template"]["spec"]["containers"][0]["args"]
            assert "--metrics-bind-address=:8443" in words, words
            return [word for word in words if "bind-address" not in word]
    raise AssertionError("no Deployment")


def metrics(cluster, rights):
    """By TLS with a certificate of its own, to accounts that may get them."""
    space = "/api/v1/namespaces/system/serviceaccounts"
    tokens = {}
    for name in ("reader", "nobody"):
        cluster.request("POST", space, {"metadata": {"name": name}})
        answer = cluster.request("POST", f"{space}/{name}/token", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})[1]
        tokens[name] = answer["status"]["token"]
    cluster.kubectl("create", "clusterrolebinding", "reader", "--clusterrole=metrics-reader",
                    "--serviceaccount=system:reader")
    with Operator(OPERATOR, rights, *manager_words(), "--metrics-secure=true",
                  env={"POD_NAMESPACE": "system"}) as operator:
        def ask(token):
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            there = http.client.HTTPSConnection("127.0.0.1", operator.metrics, timeout=60,
                                                context=context)
            with contextlib.closing(there):
                there.request("GET", "/metrics",
                              headers={"Authorization": f"Bearer {token}"} if token else {})
                reply = there.getresponse()
                return reply.status, reply.read().decode()
        assert [ask(token)[0] for token in (None, "no-token", tokens["nobody"])] == [401, 401, 403]
        status, text = ask(tokens["reader"])
        assert status == 200 and "\nopensandbox_operator_sandboxes " in text, (status, text)


# Pauses and restarts, which test_kube_node.py looks at.
NEED_A_NODE = {("", "pods", "get"), ("", "pods", "patch"),
               ("sandbox.opensandbox.io", "sandboxsnapshots", "delete")}


def rights_used(cluster):
    rules = cluster.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/manager-role")["rules"]
    unused = cluster.rights_unused("system:controller-manager", rules,
                                   FINALIZERS + ("pods/exec", "jobs"))
    assert set(unused) <= NEED_A_NODE, unused


CHECKS = [
    ("a sandbox of its own pods gets them, reports them, and takes them along", own_pods),
    ("a sandbox goes when its time is over", expiry),
    ("a pod that failed shows", failures_show),
    ("a pooled sandbox gets a pod and gives it back", pooled),
    ("a pool without cleaning gives the same pod again", recycling),
    ("those that wait for a pool that is full get what is freed", waiters),
    ("an allocated pod that is lost is replaced", lost_pods),
    ("eviction spares pods in use, right after a restart, too", eviction),
    ("a malformed annotation harms only its own sandbox", malformed),
    ("a sandbox goes although its pool went first", pool_goes_first),
    ("a new template replaces idle pods only", rollout),
    ("a pool is chosen automatically, or the reason why not shows", automatic),
    ("pausing without a registry is refused and harms nothing", pause_needs_a_registry),
    ("tasks run, are reported, and end before their pod goes back", tasks),
    (f"{KILLS} kills of the operator: no pod twice, none lost", kills),
]


def main():
    skip_all(why_not(api_only=True))
    tap = Tap()
    with ClusterProcess(api_only=True, audit=True) as cluster:
        install_crds(cluster, CRDS)
        space = Namespace(cluster, "default")
        rights = account(cluster)  # no others than an installation has
        with Operator(OPERATOR, rights) as operator, Kubelet(space) as kubelet:
            for sentence, check in CHECKS:
                tap.check(sentence, check, World(cluster, operator, space, kubelet))
            if tap.failed:
                print("# " + operator.log.decode().replace("\n", "\n# "), file=sys.stderr)
        tap.check("the leader renews its lease with the rights of an installation", leading,
                  cluster, rights)
        tap.check("the arguments of an installation serve metrics to those allowed", metrics,
                  cluster, rights)
        tap.check("the operator uses each of its rights", rights_used, cluster)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
