"""chart_world.py - the umbrella chart, installed by helm on a cluster where pods run: server,
operator and gateway are pods themselves, with the rights that the chart gives them.

`server` and `gateway` are used as ServerProcess and Ingress are. Leaving the block uninstalls it.
"""
import base64
import http.client
import json
import pathlib
import subprocess
import tempfile

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

    def values(self, gateway):
        config = (CHART.parent / "opensandbox-server/values.yaml").read_text()
        config = config.split("configToml: |\n")[1].split("# Laid under")[0]
        for old, new in (("opensandbox/execd:latest", "localhost/execd:1"),
                         ("opensandbox/egress:latest", "localhost/egress:1"),
                         ('namespace = "opensandbox"', f'namespace = "{NAMESPACE}"')):
            assert old in config, old
            config = config.replace(old, new)
        image = {"tag": "test", "pullPolicy": "Never"}
        return {
            "opensandbox-controller": {"controller": {
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
                    "gateway": {
                        "enabled": True, "host": gateway, "replicaCount": 1, "resources": SMALL,
                        "image": {"repository": "localhost/ingress", **image},
                        "dataplaneNamespace": NAMESPACE,
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
