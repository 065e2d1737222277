"""cluster_process.py - a Kubernetes cluster of the test's own, by tools/cluster.

    with ClusterProcess(api_only=True) as cluster:
        cluster.kubectl("apply", "-f", "x.yaml")
        pods = cluster.get("/api/v1/pods")

`api_only`: etcd, API server and controller manager; pods are objects and never run. Without it
there is a node, and pods run. Leaving the block removes all of it.
"""
import http.client
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import signal
import ssl
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHARTS = ROOT / "deploy/kubernetes/charts/opensandbox/charts"
CRDS = CHARTS / "opensandbox-controller/files/crds"


def _load_tool():
    loader = importlib.machinery.SourceFileLoader("cluster_tool", str(ROOT / "tools/cluster"))
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


tool = _load_tool()
image_archive = tool.image_archive


def why_not(api_only=True):
    """Why no cluster can be started here, or None."""
    return tool.why_not(api_only)


class ClusterProcess:
    """`timeout` limits the start, in seconds."""

    def __init__(self, api_only=True, kwok=False, timeout=240, audit=False):
        self.options = [*(["--api-only"] if api_only else []), *(["--kwok"] if kwok else []),
                        *(["--audit"] if audit else []),
                        f"--timeout={timeout}"]
        self.timeout = timeout
        self.temporary = tempfile.TemporaryDirectory(prefix="osb-cluster-")
        self.folder = pathlib.Path(self.temporary.name) / "c"
        self.facts = {}
        self.context = None
        self.words, self.revived = {}, []

    def tool(self, *words, timeout):
        done = subprocess.run([str(ROOT / "tools/cluster"), *words, f"--dir={self.folder}"],
                              capture_output=True, text=True, timeout=timeout, check=False)
        assert done.returncode == 0, done.stderr[-6000:]
        return done.stdout

    def __enter__(self):
        try:
            self.tool("up", *self.options, timeout=self.timeout + 60)
            self.facts = json.loads((self.folder / "cluster.json").read_text())
            self.words = {
                name: pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
                for name, (pid, _) in self.facts["processes"].items()}
            pki = self.folder / "pki"
            self.context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
            self.context.load_cert_chain(str(pki / "admin.crt"), str(pki / "admin.key"))
            return self
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        self.tool("down", timeout=240)
        self.temporary.cleanup()

    # --- facts ---

    @property
    def kubeconfig(self):
        return self.facts["kubeconfig"]

    @property
    def kubectl_path(self):
        return self.facts["kubectl"]

    @property
    def address(self):
        """Of the API server, port 6443, and of the node."""
        return self.facts["address"]

    @property
    def server(self):
        return f"https://{self.address}:6443"

    @property
    def registry(self):
        """host:port as pods and the node name it; None without a node."""
        return self.facts.get("registry")

    def pid(self, program):
        """Of etcd, kube-apiserver, kube-controller-manager, kubelet..., for tests that kill it."""
        return self.facts["processes"][program][0]

    def revive(self, program, pause_s=0):
        """Kills one of the cluster's programs, if it has not ended by itself, and starts it again
        with the same arguments."""
        cluster = tool.Cluster(self.folder)
        while cluster.is_alive(program):
            os.kill(self.pid(program), signal.SIGKILL)
            time.sleep(0.01)
        time.sleep(pause_s)
        self.revived = [one for one in self.revived if one.poll() is None]
        self.revived.append(cluster.start(program, *self.words[program]))
        self.facts = cluster.facts

    def is_alive(self, program):
        return tool.Cluster(self.folder).is_alive(program)

    def processor_s(self):
        """What its programs have used, containers and their shims left out."""
        ticks = 0
        for pid, _ in self.facts["processes"].values():
            text = pathlib.Path(f"/proc/{pid}/stat").read_text()
            ticks += sum(map(int, text.rpartition(")")[2].split()[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def log(self, program, ending=".log"):
        return (self.folder / "log" / f"{program}{ending}").read_text(errors="replace")

    def rights_unused(self, account, rules, but=()):
        """Rights (group, resource, verb) that rules of a role grant, and of which a service account
        ("namespace:name") made no use in a cluster with `audit`. `but`: resources left out."""
        user, used = f"system:serviceaccount:{account}", set()
        for line in self.log("audit.json", "").splitlines(keepends=True):
            if not line.endswith("\n"):
                continue  # being written
            event = json.loads(line)
            about = event.get("objectRef")
            if about and event["user"]["username"] == user and \
                    event["responseStatus"]["code"] != 403:
                resource = "/".join(filter(None, [about["resource"], about.get("subresource")]))
                used.add((about.get("apiGroup", ""), resource, event["verb"]))
        return sorted({(group, resource, verb) for rule in rules for group in rule["apiGroups"]
                       for resource in rule["resources"] for verb in rule["verbs"]
                       if resource not in but} - used)

    # --- talking to it ---

    def kubectl(self, *words, text=None, timeout=120, check=True):
        """Runs kubectl as the administrator and returns what it prints; `text` is its input."""
        done = subprocess.run([self.kubectl_path, *map(str, words)], input=text, text=True,
                              capture_output=True, timeout=timeout, check=False,
                              env={**os.environ, "KUBECONFIG": self.kubeconfig})
        assert not check or done.returncode == 0, (words, done.stderr)
        return done.stdout if check else done

    def request(self, method, path, body=None, type="application/json", timeout=60):
        """Status and JSON (or text) of the API server's answer, without kubectl's start."""
        connection = http.client.HTTPSConnection(self.address, 6443, timeout=timeout,
                                                 context=self.context)
        try:
            connection.request(method, path, headers={"Content-Type": type},
                               body=None if body is None else json.dumps(body))
            reply = connection.getresponse()
            text = reply.read()
            is_json = reply.getheader("Content-Type", "").startswith("application/json")
            return reply.status, json.loads(text) if is_json else text.decode()
        finally:
            connection.close()

    def get(self, path):
        status, body = self.request("GET", path)
        assert status == 200, (path, status, body)
        return body

    def patch(self, path, body, type="application/merge-patch+json"):
        status, answer = self.request("PATCH", path, body, type)
        assert status in (200, 201), (path, status, answer)
        return answer

    def install_crds(self):
        """Ours, and waits until they are served."""
        self.apply_crds(CRDS)

    def apply_crds(self, path):
        """Not by `kubectl wait`, which fails for what has no conditions yet."""
        for line in self.kubectl("apply", "--server-side", "-o", "name", "-f", path).splitlines():
            about = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{line.split('/')[1]}"
            end = time.monotonic() + 120
            while not any(c["type"] == "Established" and c["status"] == "True" for c in
                          self.get(about).get("status", {}).get("conditions") or ()):
                assert time.monotonic() < end, f"{line} is not established"
                time.sleep(0.05)

    def load(self, *archives):
        """Imports archives of images into the node."""
        self.tool("load", *map(str, archives), timeout=300)
