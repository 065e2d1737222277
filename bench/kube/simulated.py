"""simulated.py - nodes that kwok plays, and many requests at once, for benchmarks of a cluster."""
import http.client
import json
import threading
import time

THREADS = 8
GROUP = "/apis/sandbox.opensandbox.io/v1alpha1"
POD = {"containers": [{"name": "main", "image": "none"}], "automountServiceAccountToken": False,
       "terminationGracePeriodSeconds": 0,
       "tolerations": [{"operator": "Exists"}]}


class Api:
    """One kept connection to the API server."""

    def __init__(self, cluster):
        self.cluster, self.connection = cluster, None

    def __call__(self, method, path, body=None):
        for last in (False, True):
            if not self.connection:
                self.connection = http.client.HTTPSConnection(
                    self.cluster.address, 6443, timeout=120, context=self.cluster.context)
            try:
                self.connection.request(method, path, None if body is None else json.dumps(body),
                                        {"Content-Type": "application/json"})
                reply = self.connection.getresponse()
                return reply.status, reply.read()
            except (OSError, http.client.HTTPException):
                self.connection = None
                if last:
                    raise


def at_once(cluster, requests):
    """Sends (method, path, body) by several connections; all must be done well."""
    todo, lock, failed = iter(requests), threading.Lock(), []

    def work():
        api = Api(cluster)
        while not failed:
            with lock:
                request = next(todo, None)
            if request is None:
                return
            status, text = api(*request)
            if status >= 300 and (request[0] != "DELETE" or status != 404):
                failed.append((request[:2], status, text[:300]))
    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed[0]


def make_nodes(cluster, count):
    """Nodes of kwok with room for many pods, ready."""
    room = {"cpu": "1k", "memory": "1Ti", "pods": "1k"}
    at_once(cluster, (("POST", "/api/v1/nodes", {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": f"kwok-{n}", "annotations": {"kwok.x-k8s.io/node": "fake"},
                     "labels": {"kubernetes.io/hostname": f"kwok-{n}"}},
        "status": {"allocatable": room, "capacity": room}}) for n in range(count)))
    wait(lambda: sum(any(c["type"] == "Ready" and c["status"] == "True"
                         for c in node["status"].get("conditions", []))
                     for node in cluster.get("/api/v1/nodes")["items"]) >= count, "ready nodes")


def sandbox(space, name, **spec):
    """The request that makes a BatchSandbox."""
    return "POST", f"{GROUP}/namespaces/{space}/batchsandboxes", {
        "apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "BatchSandbox",
        "metadata": {"name": name}, "spec": {"replicas": 1, **spec}}


class Phases(threading.Thread):
    """A watch that counts sandboxes in phase Succeed: a list of many is slow."""

    def __init__(self, cluster, space):
        super().__init__(daemon=True)
        self.cluster, self.path = cluster, f"{GROUP}/namespaces/{space}/batchsandboxes"
        self.up, self.changed = set(), threading.Condition()
        self.start()

    def run(self):
        while True:
            connection = http.client.HTTPSConnection(self.cluster.address, 6443, timeout=3600,
                                                     context=self.cluster.context)
            try:
                connection.request("GET", f"{self.path}?watch=1")
                reply = connection.getresponse()
                for line in reply:
                    self.see(json.loads(line))
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.1)

    def see(self, event):
        thing = event["object"]
        name, good = thing["metadata"].get("name"), thing.get("status", {}).get("phase")
        with self.changed:
            if event["type"] != "DELETED" and good == "Succeed":
                self.up.add(name)
            else:
                self.up.discard(name)
            self.changed.notify_all()

    def wait(self, count, seconds=1200):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.up) == count, seconds), \
                f"{len(self.up)} of {count} are in phase Succeed"


def wait(condition, what, seconds=1200):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not come"
        time.sleep(0.1)
