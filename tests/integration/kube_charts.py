"""kube_charts.py - checks of deploy/kubernetes, for test_kubernetes.py: charts and kustomize base
are rendered, and a real API server judges every object of them."""
import json
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile

from cluster_process import CHARTS
from kube_world import ROOT
from tap import Skip

DEPLOY = ROOT / "deploy/kubernetes"
PATHS = {path.name: path for path in (CHARTS.parent, *sorted(CHARTS.iterdir()))}
HELM = ROOT / "build/deps/helm/bin/helm"
NAMESPACES = ("opensandbox-system", "opensandbox", "default")
GATEWAY = ("--set=server.gateway.enabled=true", "--set=server.gateway.host=gw.test",
           "--set=server.gateway.secureAccess.activeKey=a",
           "--set=server.gateway.secureAccess.keys[0].key_id=a",
           "--set=server.gateway.secureAccess.keys[0].key=c2VjcmV0",
           "--set=autoscaling.enabled=true", "--set=rbac.agentSandbox=true")
CONTROLLER = ("--set=controller.replicaCount=2", "--set=controller.metrics.enabled=true",
              "--set=controller.snapshot.registry=registry.test",
              "--set=controller.snapshot.snapshotPushSecret=push",
              "--set=controller.snapshot.resumePullSecret=pull")
CLUSTER = None


def helm(*words):
    program = str(HELM) if HELM.exists() else shutil.which("helm")
    if not program:
        raise Skip("there is no helm")
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=False,
                          timeout=60)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def judge(manifests):
    """What the API server makes of it, without keeping it."""
    done = CLUSTER.kubectl("apply", "--server-side", "--dry-run=server", "-o", "json", "-f", "-",
                           text=manifests)
    answer = json.loads(done)
    return answer["items"] if answer["kind"] == "List" else [answer]


def template(chart, *values):
    return judge(helm("template", "r", PATHS[chart], "-n", "opensandbox-system",
                      "--kube-version=v1.35.4", *values))


def find(objects, kind, name):
    found = [o for o in objects if o["kind"] == kind and o["metadata"]["name"] == name]
    assert len(found) == 1, (kind, name, [(o["kind"], o["metadata"]["name"]) for o in objects])
    return found[0]


def controller_chart():
    objects = template("opensandbox-controller")
    deployment = find(objects, "Deployment", "opensandbox-controller-manager")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["name"] == "manager" and "--leader-elect=true" in container["args"]
    crd = find(objects, "CustomResourceDefinition", "pools.sandbox.opensandbox.io")
    assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    rules = find(objects, "ClusterRole", "opensandbox-manager-role")["rules"]
    assert not any("secrets" in rule.get("resources", ()) for rule in rules), rules
    objects = template("opensandbox-controller", *CONTROLLER)
    find(objects, "PodDisruptionBudget", "opensandbox-controller-manager")
    objects = template("opensandbox-controller", "--set=crds.install=false")
    assert not any(o["kind"] == "CustomResourceDefinition" for o in objects)


def server_chart():
    objects = template("opensandbox-server")
    config = find(objects, "ConfigMap", "opensandbox-server-config")["data"]["config.toml"]
    assert 'type = "kubernetes"' in config and "[ingress]" not in config
    rules = find(objects, "Role", "opensandbox-server-role")["rules"]
    assert {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]} in rules, rules
    find(objects, "Service", "opensandbox-server")
    find(objects, "NetworkPolicy", "opensandbox-server-sandboxes")
    objects = template("opensandbox-server", *GATEWAY)
    find(objects, "HorizontalPodAutoscaler", "opensandbox-server")
    gateway = find(objects, "Deployment", "opensandbox-server-gateway")
    assert "--mode=header" in gateway["spec"]["template"]["spec"]["containers"][0]["args"]


def umbrella_chart():
    objects = template("opensandbox", "--set=opensandbox-server.server.replicaCount=1")
    find(objects, "Deployment", "opensandbox-controller-manager")
    assert find(objects, "Deployment", "opensandbox-server")["spec"]["replicas"] == 1


def no_links():
    """A copy without symbolic links (an archive, a clone with core.symlinks off) works, too."""
    links = [str(path) for path in DEPLOY.rglob("*") if path.is_symlink()]
    assert not links, links


def packaged_charts():
    """An archive of a chart holds files, no links, and says the same as the directory."""
    with tempfile.TemporaryDirectory(prefix="osb-charts-") as folder:
        for name, chart in PATHS.items():
            helm("package", chart, "-d", folder)
            archive, = pathlib.Path(folder).glob(f"{name}-[0-9]*.tgz")
            with tarfile.open(archive) as tar:
                links = [member.name for member in tar if not member.isreg()]
            assert not links, links
            # Not a random key, which no two renderings share.
            keys = [f"--set={above}server.auth.apiKey=k" for above in ("", "opensandbox-server.")]
            shown = [helm("template", "r", source, "-n", "opensandbox-system",
                          "--kube-version=v1.35.4", *keys) for source in (chart, archive)]
            assert shown[0] == shown[1] and shown[0].count("\nkind: ") > 5, name


def kustomize_base():
    text = CLUSTER.kubectl("kustomize", DEPLOY)
    objects = judge(text)
    binding = find(objects, "ClusterRoleBinding", "opensandbox-manager-rolebinding")
    subject = binding["subjects"][0]
    assert (subject["name"], subject["namespace"]) == ("opensandbox-controller-manager",
                                                       "opensandbox-system"), subject
    rules = (CHARTS / "opensandbox-controller/files/manager-rules.yaml").read_text()
    assert rules.strip() in (DEPLOY / "operator/rbac.yaml").read_text()


def examples():
    metrics = (ROOT / "src/server/http/metrics.c").read_text()
    for path in sorted((DEPLOY / "examples").glob("*.yaml")):
        for made in judge(pathlib.Path(path).read_text()):
            for name in re.findall(r"'opensandbox_(\w+)'", str(made["spec"].get("metrics"))):
                assert f'{{"{name}",' in metrics, f"the server has no metric {name}"


def check(tap, cluster):
    global CLUSTER
    CLUSTER = cluster
    for name in NAMESPACES:
        cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    for one in (controller_chart, server_chart, umbrella_chart, no_links, packaged_charts,
                kustomize_base, examples):
        tap.check("deploy: " + one.__name__.replace("_", " "), one)
