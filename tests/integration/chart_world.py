"""chart_world.py - the umbrella chart, installed by helm on a cluster where pods run: server,
operator and gateway are pods themselves, with the rights that the chart gives them.

`server` and `gateway` are used as ServerProcess and Ingress are. Leaving the block uninstalls it.
"""
import base64
import collections
import contextlib
import http.client
import json
import pathlib
import random
import subprocess
import tempfile
import threading

from ingress_process import Ingress
from kube_charts import HELM
from kube_world import NAMESPACE, wait_until
from node_world import SECONDS_MAX, Images, NodeWorld, add_busybox

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/kubernetes/charts/opensandbox"
SYSTEM = "opensandbox-system"
API_KEY = "key-of-the-test"
SMALL = {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"cpu": "2", "memory": "256Mi"}}


def why_not():
    return None if HELM.exists() else "no helm (tools/deps test installs it)"


class Deployed:
    """The server at its pod's address."""

    host, port, api_key = None, 8080, API_KEY

    @property
    def domain(self):
        return f"{self.host}:{self.port}"

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=SECONDS_MAX)
        try:
            connection.request(method, path, body=None if body is None else json.dumps(body),
                               headers={"OPEN-SANDBOX-API-KEY": self.api_key,
                                        "Content-Type": "application/json"})
            reply = connection.getresponse()
            text = reply.read()
            is_json = reply.getheader("Content-Type", "").startswith("application/json")
            return reply.status, reply.headers, json.loads(text) if is_json else text
        finally:
            connection.close()


class Load(threading.Thread):
    """Creates, changes and deletes sandboxes, and notes what was answered."""

    def __init__(self, service, image, number):
        super().__init__(daemon=True)
        self.service, self.image, self.rng = service, image, random.Random(number)
        self.stopped, self.broken, self.wrong = threading.Event(), 0, []
        self.count = collections.Counter()  # of answers, by method
        self.live, self.gone = {}, set()    # id: the number that was written last, None if unknown

    def run(self):
        while not self.stopped.wait(0.05):
            dice = self.rng.random()
            if len(self.live) < 2 and dice < 0.7:
                self.create()
            elif self.live and dice < 0.9:
                self.change(self.rng.choice(list(self.live)), self.rng.randrange(1000))
            elif self.live:
                self.delete(self.rng.choice(list(self.live)))

    def ask(self, method, path, body=None):
        """Status and body; 0 without an answer, or with one that says "not now"."""
        try:
            status, _, body = self.service.request(method, f"/v1/sandboxes{path}", body)
        except (OSError, http.client.HTTPException):
            status = 0
        if status == 0 or status >= 500:
            self.broken += 1
            return 0, None
        self.count[method] += 1
        return status, body

    def create(self):
        status, body = self.ask("POST", "", {
            "image": {"uri": self.image}, "entrypoint": ["sleep", "1000000"], "timeout": 1800,
            "resourceLimits": {"cpu": "50m", "memory": "64Mi"}, "metadata": {"n": "0"}})
        if status == 202:
            self.live[body["id"]] = 0
        elif status:
            self.wrong.append((status, body))

    def change(self, name, number):
        status, body = self.ask("PATCH", f"/{name}/metadata", {"n": str(number)})
        if status not in (0, 200):
            self.wrong.append((name, status, body))
        self.live[name] = number if status else None

    def delete(self, name):
        status, body = self.ask("DELETE", f"/{name}")
        if status not in (0, 204):
            self.wrong.append((name, status, body))
        if status:
            self.gone.add(name)
        del self.live[name]

    def check(self):
        assert not self.wrong, self.wrong
        for name, number in self.live.items():
            status, _, body = self.service.request("GET", f"/v1/sandboxes/{name}")
            assert status == 200, (name, status, body)
            assert number is None or body["metadata"]["n"] == str(number), (number, body)
        for name in self.gone:
            status, _, body = self.service.request("GET", f"/v1/sandboxes/{name}")
            assert status == 404 or body["status"]["state"] in ("Stopping", "Terminated"), body


class DeployedGateway(Ingress):
    """The gateway at its pod's address; nothing is started here."""

    def __init__(self, host, port):
        super().__init__("none")
        self.host, self.port = host, port

    @property
    def domain(self):
        return f"{self.host}:{self.port}"

    def connection(self):
        return http.client.HTTPConnection(self.host, self.port, timeout=SECONDS_MAX)


class ChartWorld(NodeWorld):
    def __init__(self, programs, key_id, key):
        super().__init__(programs)
        self.key = {"key_id": key_id, "key": base64.b64encode(key).decode()}
        self.installed = False
        self.changed = False

    def set_up(self, stack):
        """In place of the operator of NodeWorld."""
        stack.callback(self.uninstall)
        self.helm("install", "--create-namespace", "--wait", "--timeout=3m",
                  gateway="unknown.test")
        self.gateway = DeployedGateway(self.address("opensandbox-server-gateway"), 28888)
        # Clients are told the address of the gateway, which only now is known.
        self.helm("upgrade", "--wait", "--timeout=3m", gateway=self.gateway.domain)
        self.server = Deployed()
        self.server.host = self.address("opensandbox-server")

    def address(self, deployment):
        """Of the deployment's pod, once there is one, and it is ready."""
        path = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/{deployment}"
        labels = self.cluster.get(path)["spec"]["selector"]["matchLabels"]
        selector = "%2C".join(f"{name}%3D{value}" for name, value in labels.items())

        def ready():
            found = self.cluster.get(
                f"/api/v1/namespaces/{SYSTEM}/pods?labelSelector={selector}")["items"]
            return len(found) == 1 and all(
                c["ready"] for c in found[0]["status"]["containerStatuses"]) and \
                found[0]["status"]["podIP"]
        return wait_until(ready, f"the pod of {deployment}", 120)

    def load_images(self):
        super().load_images()
        with tempfile.TemporaryDirectory(prefix="osb-images-") as folder:
            images = Images(folder, self.programs)
            for name, at in (("server", "/usr/local/sbin/opensandbox-server"),
                             ("operator", "/workspace/server"),
                             ("ingress", "/usr/local/sbin/opensandbox-ingress")):
                self.cluster.load(images.make(name, f"localhost/{name}:test", add_busybox,
                                              images.program(name, at), Entrypoint=[at]))

    def server_pod(self):
        """Its address, of which there is one once an upgrade is over."""
        self.server.host = self.address("opensandbox-server")
        return self.server.host

    def upgrade(self):
        """To values with which the pods of server, operator and gateway are other ones."""
        self.changed = True
        self.helm("upgrade", "--wait", "--timeout=3m", gateway=self.gateway.domain)
        self.gateway.host = self.address("opensandbox-server-gateway")

    @contextlib.contextmanager
    def service(self):
        """The server's address in the cluster, which leads to all of its pods."""
        spec = self.cluster.get(f"/api/v1/namespaces/{SYSTEM}/services/opensandbox-server")["spec"]
        route = (f"{spec['clusterIP']}/32", "via", self.cluster.address)
        subprocess.run(["ip", "route", "replace", *route], check=True, timeout=SECONDS_MAX)
        service = Deployed()
        service.host, service.port = spec["clusterIP"], spec["ports"][0]["port"]
        try:
            yield service
        finally:
            subprocess.run(["ip", "route", "del", *route], check=False, timeout=SECONDS_MAX)

    def values(self, gateway):
        config = (CHART / "charts/opensandbox-server/values.yaml").read_text()
        config = config.split("configToml: |\n")[1].split("# Laid under")[0]
        for old, new in (("opensandbox/execd:latest", "localhost/execd:1"),
                         ("opensandbox/egress:latest", "localhost/egress:1"),
                         ('namespace = "opensandbox"', f'namespace = "{NAMESPACE}"')):
            assert old in config, old
            config = config.replace(old, new)
        image = {"tag": "test", "pullPolicy": "Never"}
        return {
            "opensandbox-controller": {"controller": {
                "podAnnotations": {"example.com/changed": "yes"} if self.changed else {},
                "image": {"repository": "localhost/operator", **image},
                "snapshot": {
                    "imageCommitterImage": "localhost/image-committer:1",
                    "containerdSocketPath": self.cluster.facts["containerd"],
                    "registry": f"{self.cluster.registry}/snapshots", "registryInsecure": True}}},
            "opensandbox-server": {
                "sandboxNamespace": NAMESPACE,
                "configToml": "\n".join(line[2:] for line in config.splitlines()),
                "server": {
                    "image": {"repository": "localhost/server", **image}, "replicaCount": 1,
                    "resources": SMALL, "auth": {"apiKey": API_KEY},
                    "env": [{"name": "CHANGED", "value": "yes"}] if self.changed else [],
                    "gateway": {
                        "enabled": True, "host": gateway, "replicaCount": 1, "resources": SMALL,
                        "image": {"repository": "localhost/ingress", **image},
                        "dataplaneNamespace": NAMESPACE,
                        "logLevel": "warn" if self.changed else "info",
                        "secureAccess": {"activeKey": self.key["key_id"], "keys": [self.key]}}}},
        }

    def helm(self, verb, *words, gateway=None):
        given = ["-f", "-"] if gateway else []
        target = [str(CHART)] if gateway else []
        done = subprocess.run(
            [str(HELM), verb, "r", *target, "-n", SYSTEM, *words, *given,
             f"--kubeconfig={self.cluster.kubeconfig}"], text=True, capture_output=True,
            input=json.dumps(self.values(gateway)) if gateway else None, check=False,
            timeout=SECONDS_MAX * 2)
        assert done.returncode == 0, (done.stderr[-500:], self.what_pods_say())
        self.installed = verb != "uninstall"

    def what_pods_say(self):
        said = self.cluster.kubectl("get", "pods", "-n", SYSTEM, "-o", "wide")
        for pod in self.cluster.get(f"/api/v1/namespaces/{SYSTEM}/pods")["items"]:
            name = pod["metadata"]["name"]
            said += f"\n{name}:\n" + self.cluster.kubectl("logs", "-n", SYSTEM, name, "--tail=8",
                                                           check=False).stdout[-1500:]
        return said

    def uninstall(self):
        if self.installed:
            self.helm("uninstall", "--wait", "--timeout=3m")
