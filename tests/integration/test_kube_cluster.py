#!/usr/bin/env python3
"""test_kube_cluster.py KUBEDO - the Kubernetes client, and our resource definitions, on a real API
server with etcd and a controller manager."""
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import cluster_process  # noqa: E402
import tap  # noqa: E402
from server_process import wait_for  # noqa: E402

PATIENCE_S = 120
GROUP = "/apis/sandbox.opensandbox.io/v1alpha1/namespaces/default"


def config_map(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


class Lines:
    """A program that prints lines; `wait(text)` until one has that text."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.seen = []

    def wait(self, text):
        while not any(text in line for line in self.seen):
            line = self.process.stdout.readline()
            assert line, (text, self.seen)
            self.seen.append(line.strip())
        return next(line for line in self.seen if text in line)

    def end(self):
        self.process.terminate()
        rest = self.process.stdout.read()
        assert self.process.wait(PATIENCE_S) == 0
        return rest

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


class Tests:
    def __init__(self, program, cluster):
        self.program, self.cluster = program, cluster

    def ask(self, verb, kind, name="", subresource="", query="", patch="", body=None, how="call",
            ns="default"):
        done = subprocess.run(
            [self.program, self.cluster.kubeconfig, how, verb, kind, ns, name, subresource, query,
             patch, *([json.dumps(body)] if body is not None else [])],
            capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def expect(self, status, *words, **more):
        answer = self.ask(*words, **more)
        assert answer["status"] == status, answer
        return answer.get("object", answer)

    # --- requests ---

    def objects_are_created_read_and_deleted(self):
        for how in ("call", "block"):
            self.expect(201, "create", "configmaps", body=config_map("one", a="b"), how=how)
            again = self.expect(409, "create", "configmaps", body=config_map("one"), how=how)
            assert again["reason"] == "AlreadyExists" and again["code"] == 17
            assert self.expect(200, "get", "configmaps", "one", how=how)["data"] == {"a": "b"}
            self.expect(200, "delete", "configmaps", "one", how=how)
            gone = self.expect(404, "get", "configmaps", "one", how=how)
            assert gone["reason"] == "NotFound" and gone["code"] == 2

    def an_old_version_is_a_conflict(self):
        made = self.expect(201, "create", "configmaps", body=config_map("old", a="1"))
        self.expect(200, "patch", "configmaps", "old", patch="merge", body={"data": {"a": "2"}})
        made["data"] = {"a": "3"}
        refused = self.expect(409, "update", "configmaps", "old", body=made)
        assert refused["reason"] == "Conflict" and refused["code"] == 116
        version = made["metadata"]["resourceVersion"]
        self.expect(409, "patch", "configmaps", "old", patch="merge",
                    body={"metadata": {"resourceVersion": version}, "data": {"a": "3"}})
        assert self.expect(200, "get", "configmaps", "old")["data"] == {"a": "2"}

    def patches_do_what_their_type_says(self):
        self.expect(201, "create", "configmaps", body=config_map("patched", a="1", b="2"))
        got = self.expect(200, "patch", "configmaps", "patched", patch="merge",
                          body={"data": {"a": None, "c": "3"}})
        assert got["data"] == {"b": "2", "c": "3"}
        got = self.expect(200, "patch", "configmaps", "patched", patch="json",
                          body=[{"op": "test", "path": "/data/b", "value": "2"},
                                {"op": "remove", "path": "/data/b"}])
        assert got["data"] == {"c": "3"}
        self.expect(422, "patch", "configmaps", "patched", patch="json",
                    body=[{"op": "test", "path": "/data/c", "value": "no"}])
        got = self.expect(200, "patch", "configmaps", "patched", patch="strategic",
                          body={"data": {"$patch": "replace", "d": "4"}})
        assert got["data"] == {"d": "4"}
        got = self.expect(200, "patch", "configmaps", "patched", patch="apply",
                          query="fieldManager=test&force=true",
                          body=config_map("patched", d="5"))
        assert got["data"] == {"d": "5"}

    def a_stranger_is_refused(self):
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody"}}
        path = "/api/v1/namespaces/default/serviceaccounts"
        assert self.cluster.request("POST", path, account)[0] == 201
        status, made = self.cluster.request(
            "POST", f"{path}/nobody/token", {"apiVersion": "authentication.k8s.io/v1",
                                             "kind": "TokenRequest", "spec": {}})
        assert status == 201, made
        config = json.loads(pathlib.Path(self.cluster.kubeconfig).read_text())
        config["users"][0]["user"] = {"token": made["status"]["token"]}
        file = self.cluster.folder / "nobody.kubeconfig"
        file.write_text(json.dumps(config))
        done = subprocess.run([self.program, file, "call", "list", "pods", "default", "", "", "",
                               ""], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        answer = json.loads(done.stdout)
        assert answer["status"] == 403 and answer["code"] == 13, answer

    # --- informers ---

    def a_watch_follows_the_server(self):
        for number in range(7):
            self.cluster.request("POST", "/api/v1/namespaces/default/configmaps",
                                 {**config_map(f"w{number}"), "metadata": {
                                     "name": f"w{number}", "labels": {"part": "watch"}}})
        with Lines(self.program, self.cluster.kubeconfig, "watch", "configmaps", "default",
                   "part=watch", "3", "60", "0") as watch:
            watch.wait("synced")
            assert len([line for line in watch.seen if line.startswith("add")]) == 7, watch.seen
            self.cluster.patch("/api/v1/namespaces/default/configmaps/w3", {"data": {"x": "y"}})
            watch.wait("update default/w3")
            self.cluster.request("DELETE", "/api/v1/namespaces/default/configmaps/w4")
            watch.wait("delete default/w4")
            self.cluster.patch("/api/v1/namespaces/default/configmaps/w5",
                               {"metadata": {"labels": {"part": "other"}}})
            watch.wait("delete default/w5")
            assert "objects=5 lists=1" in watch.end()

    # --- leases and events ---

    def one_of_two_leads_and_the_other_follows(self):
        words = ("lead", "default", "test-lease")
        with Lines(self.program, self.cluster.kubeconfig, *words, "one", "6", "4", "1") as one:
            one.wait("started")
            with Lines(self.program, self.cluster.kubeconfig, *words, "two", "6", "4", "1") as two:
                two.wait("leader one")
                assert "lost: released" in one.end()
                two.wait("started")
                lease = self.cluster.get("/apis/coordination.k8s.io/v1/namespaces/default/leases/"
                                         "test-lease")
                assert lease["spec"]["holderIdentity"] == "two"
                assert lease["spec"]["leaseTransitions"] >= 1
                two.process.kill()
                two.process.wait()
            with Lines(self.program, self.cluster.kubeconfig, *words, "three", "6", "4",
                       "1") as three:
                three.wait("started")  # the lease of the dead one ran out
                three.end()

    def a_leader_that_cannot_renew_has_lost(self):
        words = ("lead", "default", "taken-lease", "one", "6", "4", "1")
        path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/taken-lease"
        with Lines(self.program, self.cluster.kubeconfig, *words) as one:
            one.wait("started")
            self.cluster.patch(path, {"spec": {"holderIdentity": "thief"}})
            one.wait("lost: another process took the lease")

    def the_same_event_is_counted(self):
        subprocess.run([self.program, self.cluster.kubeconfig, "event", "pods", "default", "x",
                        "uid-x", "Tested", "it works", "5"], check=True, timeout=PATIENCE_S)
        found = [event for event in
                 self.cluster.get("/api/v1/namespaces/default/events")["items"]
                 if event["reason"] == "Tested"]
        assert len(found) == 1 and found[0]["count"] == 5, found
        assert found[0]["involvedObject"]["kind"] == "Pod" and found[0]["type"] == "Warning"
        assert found[0]["source"]["component"] == "kubedo"

    # --- our own resources ---

    def our_definitions_are_served(self):
        self.cluster.install_crds()
        shown = {item["name"]: item for item in
                 self.cluster.get("/apis/sandbox.opensandbox.io/v1alpha1")["resources"]}
        assert set(shown) == {"batchsandboxes", "batchsandboxes/status", "pools", "pools/status",
                              "sandboxsnapshots", "sandboxsnapshots/status"}
        assert shown["batchsandboxes"]["shortNames"] == ["bsbx"]
        assert shown["sandboxsnapshots"]["shortNames"] == ["sbxsnap"]

    def defaults_and_unknown_fields_are_as_they_should(self):
        body = {"apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "BatchSandbox",
                "metadata": {"name": "b"},
                "spec": {"template": {"spec": {"anything": [1]}}, "shardPatches": [{"x": 1}],
                         "unknown": 1, "expireTime": "2030-01-01T00:00:00.123456+00:00"}}
        made = self.expect(201, "create", "batchsandboxes", body=body)
        assert made["spec"] == {"replicas": 1, "taskResourcePolicyWhenCompleted": "Retain",
                                "template": body["spec"]["template"], "shardPatches": [{"x": 1}],
                                "expireTime": body["spec"]["expireTime"]}, made["spec"]
        body["metadata"]["name"], body["spec"]["replicas"] = "c", -1
        self.expect(422, "create", "batchsandboxes", body=body)

    def a_status_is_checked_and_has_a_place_of_its_own(self):
        counts = ("replicas", "allocated", "ready", "taskRunning", "taskSucceed", "taskFailed",
                  "taskPending", "taskUnknown")
        good = {"phase": "Succeed", **dict.fromkeys(counts, 0), "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"}]}
        for bad in ({"phase": "Succeed"}, {**good, "phase": "Happy"},
                    {**good, "conditions": [{"type": "Odd", "status": "True"}]}):
            self.expect(422, "patch", "batchsandboxes", "b", "status", patch="merge",
                        body={"status": bad})
        before = self.expect(200, "get", "batchsandboxes", "b")["metadata"]["generation"]
        after = self.expect(200, "patch", "batchsandboxes", "b", "status", patch="merge",
                            body={"status": good, "spec": {"replicas": 7}})
        assert after["metadata"]["generation"] == before and after["spec"]["replicas"] == 1

    def pools_and_snapshots_are_checked(self):
        pool = {"apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "Pool",
                "metadata": {"name": "p"},
                "spec": {"capacitySpec": dict.fromkeys(("bufferMin", "bufferMax", "poolMin",
                                                        "poolMax"), 1),
                         "scaleStrategy": {"maxUnavailable": "50%"},
                         "updateStrategy": {"maxUnavailable": 3}, "recycleStrategy": {}}}
        made = self.expect(201, "create", "pools", body=pool)
        assert made["spec"]["recycleStrategy"] == {"type": "Delete"}
        pool["metadata"]["name"], pool["spec"]["recycleStrategy"] = "q", {"type": "Burn"}
        self.expect(422, "create", "pools", body=pool)
        snapshot = {"apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "SandboxSnapshot",
                    "metadata": {"name": "s"}, "spec": {}}
        self.expect(422, "create", "sandboxsnapshots", body=snapshot)
        snapshot["spec"] = {"sandboxName": "b"}
        self.expect(201, "create", "sandboxsnapshots", body=snapshot)
        shown = self.cluster.kubectl("get", "bsbx,pools,sbxsnap")
        for column in ("DESIRED", "EXPIRE", "AVAILABLE", "SANDBOX"):
            assert column in shown, shown

    def owners_take_their_objects_along(self):
        owner = self.expect(200, "get", "batchsandboxes", "b")["metadata"]
        child = config_map("child")
        child["metadata"]["ownerReferences"] = [
            {"apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "BatchSandbox", "name": "b",
             "uid": owner["uid"], "controller": True, "blockOwnerDeletion": True}]
        self.expect(201, "create", "configmaps", body=child)
        self.expect(200, "delete", "batchsandboxes", "b")
        wait_for(lambda: self.ask("get", "configmaps", "child")["status"] == 404,
                 "garbage collection", PATIENCE_S)


def main():
    tap.skip_all(cluster_process.why_not(api_only=True))
    report = tap.Tap()
    with cluster_process.ClusterProcess(api_only=True) as cluster:
        tests = Tests(sys.argv[1], cluster)
        for name in [name for name in vars(Tests) if not name.startswith("_")]:
            if name not in ("ask", "expect"):
                report.check(name.replace("_", " "), getattr(tests, name))
    sys.exit(report.end())


if __name__ == "__main__":
    main()
