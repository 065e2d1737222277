#!/usr/bin/env python3
"""test_kube_node.py NAME=PATH... [--long|--chart] - the whole way on a cluster where pods really
run: the official SDKs, our server, operator, gateway, task executor and committer; containerd.

--long adds what takes more than a short test may; with --chart, all of our programs are pods of the
umbrella chart, which helm installs, upgrades and removes: tests/drill/kubernetes."""
import base64
import contextlib
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time
from datetime import timedelta

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "tools"))

import chart_world  # noqa: E402
from chart_world import ChartWorld  # noqa: E402
from cluster_process import why_not  # noqa: E402
from examples_run import Examples, has  # noqa: E402
from ingress_process import Ingress  # noqa: E402
from kube_world import (ACCOUNT, BATCHES, CORE, NAMESPACE, POOLS, SNAPSHOTS,  # noqa: E402
                        KubeServer, wait_until)
from node_world import NodeWorld  # noqa: E402
from operator_process import FINALIZERS  # noqa: E402
from tap import Skip, Tap, skip_all  # noqa: E402

PROGRAMS = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
SMALL = {"cpu": "50m", "memory": "128Mi"}
KEY_ID, KEY = "a", b"a key of the gateway, for tests"
PATIENCE = timedelta(seconds=180)
WORLD = CLUSTER = SERVER = HEADER = URI = None


def config(server=None, proxy=True):
    from opensandbox.config import ConnectionConfigSync
    server = server or SERVER
    return ConnectionConfigSync(domain=f"{server.host}:{server.port}", api_key=server.api_key,
                                use_server_proxy=proxy, request_timeout=PATIENCE)


@contextlib.contextmanager
def sandbox(image=None, server=None, proxy=True, kept=False, **more):
    from opensandbox import SandboxSync
    more.setdefault("entrypoint", ["sleep", "1000000"])
    box = SandboxSync.create(image or (None if "snapshot_id" in more else WORLD.image),
                             connection_config=config(server, proxy), resource=SMALL,
                             timeout=timedelta(minutes=30), ready_timeout=PATIENCE, **more)
    try:
        yield box
    finally:
        if not kept:
            box.kill()
        box.close()


def run(box, line):
    execution = box.commands.run(line)
    assert not execution.error, (line, execution)
    return "\n".join(message.text for message in execution.logs.stdout).strip()


def use(box, name):
    """Commands and files, as clients do."""
    assert run(box, "echo hello; id -u") == "hello\n0"
    box.files.write_file(f"/root/{name}", "some text\n")
    assert run(box, f"cat /root/{name}") == "some text"
    assert box.files.read_file(f"/root/{name}") == "some text\n"


def pods(label=""):
    return CLUSTER.get(f"{CORE}/pods{label}")["items"]


def pods_of(box):
    """Without those of Jobs, which save its files."""
    return [pod for pod in pods() if box.id in pod["metadata"]["name"] and
            "job-name" not in pod["metadata"].get("labels", {})]


def state(box):
    return box.get_info().status.state


def wait_state(box, wanted):
    wait_until(lambda: state(box) == wanted, f"{wanted}: {box.get_info().status}", 180)


# --- what a sandbox can do ---

def a_sandbox_of_an_image_is_used_and_renewed():
    with sandbox(env={"GIVEN": "yes"}, metadata={"team": "red"}) as box:
        use(box, "file")
        assert run(box, "echo $GIVEN") == "yes"
        before = box.get_info().expires_at
        box.renew(timedelta(hours=2))
        assert box.get_info().expires_at > before + timedelta(hours=1)
        pod, = pods_of(box)
        assert pod["metadata"]["labels"]["team"] == "red"
        assert pod["status"]["phase"] == "Running"
    wait_until(lambda: not pods_of(box), "the end of its pod", 60)


def code_keeps_its_variables():
    from code_interpreter import CodeInterpreterSync
    with sandbox() as box:
        code = CodeInterpreterSync.create(box)
        context = code.codes.create_context("python")
        code.codes.run("import math\nx = math.factorial(5)", context=context)
        result = code.codes.run("x + 1", context=context)
        assert not result.error and result.result[0].text == "121", result


def the_log_of_the_entrypoint_is_shown():
    with sandbox(entrypoint=["sh", "-c", "echo from the entrypoint; sleep 1000000"]) as box:
        wait_until(lambda: "from the entrypoint" in str(SERVER.request(
            "GET", f"/v1/sandboxes/{box.id}/diagnostics/logs")[2]), "the line")
        found = SERVER.request("GET", f"/v1/sandboxes/{box.id}/diagnostics/events")[2]
        assert "Started" in str(found) or "Pulled" in str(found), found


def an_image_that_is_not_there_is_an_error_at_once():
    from opensandbox.exceptions import SandboxException
    began = time.monotonic()
    try:
        with sandbox(image=f"{CLUSTER.registry}/base/none:1"):
            raise AssertionError("it was made")
    except SandboxException as error:
        assert "ErrImagePull" in str(error) or "ImagePullBackOff" in str(error), error
    assert time.monotonic() - began < 90


# --- pools ---

def a_sandbox_of_a_pool_is_used_and_its_pod_never_again():
    CLUSTER.kubectl("apply", "-f", "-", text=WORLD.pool())
    try:
        wait_until(lambda: available("python") >= 1, "a warm pod", 180)
        began = time.monotonic()
        with sandbox(image=WORLD.image, extensions={"poolRef": "python"},
                     env={"OF_POOL": "yes"}) as box:
            took = time.monotonic() - began
            print(f"# a sandbox of a pool was usable after {took * 1000:.0f} ms")
            use(box, "file")
            first = allocated(box.id)
            wait_until(lambda: available("python") >= 1, "another warm pod", 180)
            with sandbox(image=WORLD.image, extensions={"poolRef": "python"}) as other:
                assert allocated(other.id) != first
                assert run(other, "ls /root") == ""
        wait_until(lambda: first not in [pod["metadata"]["name"] for pod in pods()],
                   "the end of the pod that was used", 120)
    finally:
        CLUSTER.request("DELETE", f"{POOLS}/python")
    wait_until(lambda: not pods("?labelSelector=sandbox.opensandbox.io/pool-name%3Dpython"),
               "the end of the pool's pods", 120)


def the_example_of_a_pool_works():
    CLUSTER.kubectl("apply", "-f", "-", text=WORLD.pool())
    try:
        examples = Examples(SERVER, sys.executable)
        text = examples.run("kubernetes-pool/main.py", SANDBOX_IMAGE=WORLD.image)
        has(text, "TEST_ENV=test 1", "TEST_ENV=test 2", "result: {'sum': 4}",
            "files of others: none", "pods: 2")
    finally:
        CLUSTER.request("DELETE", f"{POOLS}/python")
    wait_until(lambda: not pods("?labelSelector=sandbox.opensandbox.io/pool-name%3Dpython"),
               "the end of the pool's pods", 120)


def a_pod_is_restarted_for_its_next_user():
    """Restart recycling, by exec into the pod: the same pod, another container."""
    text = WORLD.pool().replace("type: Delete", "type: Restart").replace("poolMax: 8", "poolMax: 1")
    CLUSTER.kubectl("apply", "-f", "-", text=text.replace("name: python\n", "name: again\n"))
    more = {"extensions": {"poolRef": "again"}, "env": {"OF_POOL": "yes"}}
    try:
        wait_until(lambda: available("again") == 1, "a warm pod", 180)
        with sandbox(image=WORLD.image, **more) as box:
            use(box, "file")
            name = allocated(box.id)
            before = CLUSTER.get(f"{CORE}/pods/{name}")
        with sandbox(image=WORLD.image, **more) as box:
            after = CLUSTER.get(f"{CORE}/pods/{allocated(box.id)}")
            assert after["metadata"]["uid"] == before["metadata"]["uid"]
            counts = [pod["status"]["containerStatuses"][0]["restartCount"]
                      for pod in (before, after)]
            assert counts[1] > counts[0], counts
            assert run(box, "ls /root") == ""
    finally:
        CLUSTER.request("DELETE", f"{POOLS}/again")
    wait_until(lambda: not pods("?labelSelector=sandbox.opensandbox.io/pool-name%3Dagain"),
               "the end of the pool's pods", 120)


def available(pool):
    return CLUSTER.get(f"{POOLS}/{pool}").get("status", {}).get("available", 0)


def allocated(name):
    notes = CLUSTER.get(f"{BATCHES}/{name}")["metadata"]["annotations"]
    name, = json.loads(notes["sandbox.opensandbox.io/alloc-status"])["pods"]
    return name


# --- pause and snapshots ---

def a_paused_sandbox_goes_on_with_its_files():
    with sandbox() as box:
        pause_and_resume(box, "1")
        pause_and_resume(box, "2")  # on top of what was saved
        assert run(box, "cat /root/marker") == "1\n2"


def pause_and_resume(box, mark):
    from opensandbox import SandboxSync
    run(box, f"echo {mark} >>/root/marker; rm -f /etc/group; touch /etc/made-{mark}; sync")
    box.pause()
    wait_state(box, "Paused")
    wait_until(lambda: not pods_of(box), "the end of its pod", 60)
    for name in [n for n in WORLD.local_images() if n.startswith(CLUSTER.registry)]:
        WORLD.forget_image(name)
    resumed = SandboxSync.resume(box.id, connection_config=config(), resume_timeout=PATIENCE)
    resumed.close()
    wait_state(box, "Running")
    assert run(box, f"ls /etc/made-{mark}; ls /etc/group || echo gone") == f"/etc/made-{mark}\ngone"
    image = pods_of(box)[0]["spec"]["containers"][0]["image"]
    assert image.startswith(f"{CLUSTER.registry}/snapshots/"), image


def a_pooled_sandbox_is_paused_and_resumed():
    CLUSTER.kubectl("apply", "-f", "-", text=WORLD.pool())
    try:
        wait_until(lambda: available("python") >= 1, "a warm pod", 180)
        with sandbox(image=WORLD.image, extensions={"poolRef": "python"}) as box:
            pause_and_resume(box, "1")
    finally:
        CLUSTER.request("DELETE", f"{POOLS}/python")


def a_snapshot_is_restored_after_its_sandbox_is_gone():
    with sandbox() as box:
        run(box, "echo kept >/root/marker")
        made = box.create_snapshot("one")
        path = f"/v1/snapshots/{made.id}"
        wait_until(lambda: SERVER.request("GET", path)[2]["status"]["state"] == "Ready",
                   "the snapshot", 180)
        assert run(box, "cat /root/marker") == "kept"  # it runs on
    found, = CLUSTER.get(SNAPSHOTS)["items"]
    digest = found["status"]["containers"][0]["imageDigest"]
    assert digest.startswith("sha256:"), found["status"]
    for name in [n for n in WORLD.local_images() if n.startswith(CLUSTER.registry)]:
        WORLD.forget_image(name)
    with sandbox(snapshot_id=made.id) as box:
        assert run(box, "cat /root/marker") == "kept"
        assert pods_of(box)[0]["status"]["containerStatuses"][0]["imageID"].endswith(digest)
    assert SERVER.request("DELETE", path)[0] == 204
    wait_until(lambda: not CLUSTER.get(SNAPSHOTS)["items"], "the end of the snapshot", 60)


# --- the gateway ---

def the_gateway_leads_to_pods_by_header():
    with sandbox(proxy=False, secure_access=True) as box:
        use(box, "file")
        serve(box)
        target = f"{box.id}-8000"
        token = box.get_endpoint(8000).headers["OpenSandbox-Secure-Access"]
        assert HEADER.to(target)[0] == 401
        wait_until(lambda: HEADER.to(target, "/page", OpenSandbox_Secure_Access=token)[0] == 200,
                   "the page")
        signed = box.get_signed_endpoint(8000, int(time.time()) + 600)
        wanted = signed.headers["OpenSandbox-Ingress-To"]
        assert wanted == signature(box.id, 8000, wanted.split("-")[-2]), wanted
        assert HEADER.to(wanted, "/page")[2] == b"a page\n"
        assert HEADER.to(wanted[:-9] + "00000000a", "/page")[0] == 401


def the_gateway_leads_to_pods_by_path():
    with server_of("uri", URI) as server, \
            sandbox(server=server, proxy=False, secure_access=True) as box:
        use(box, "file")
        serve(box)
        where = box.get_endpoint(8000)
        assert where.endpoint == f"{URI.domain}/{box.id}/8000", where
        path = f"/{box.id}/8000/page"
        wait_until(lambda: URI.get(path, where.headers)[0] == 200, "the page")
        assert URI.get(path)[0] == 401
        signed = box.get_signed_endpoint(8000, int(time.time()) + 600).endpoint
        assert signed.startswith(URI.domain), signed
        assert URI.get(signed[len(URI.domain):] + "/page")[2] == b"a page\n"


def serve(box):
    """A web server in the sandbox."""
    box.files.write_file("/root/page", "a page\n")
    execution = box.commands.run(
        "cd /root && (python3 -m http.server 8000 >/dev/null 2>&1 &) ; echo begun")
    assert not execution.error, execution


def signature(name, port, expires):
    text = f"v1\nshort\n{name}\n{port}\n{expires}\n".encode()
    digest = hashlib.sha256(len(KEY).to_bytes(4, "big") + KEY +
                            len(text).to_bytes(4, "big") + text).hexdigest()
    return f"{name}-{port}-{expires}-{digest[:8]}{KEY_ID}"


# --- what takes longer ---

def the_javascript_client_works_by_the_server_and_by_the_gateway():
    use_javascript(SERVER, proxy=True)
    use_javascript(SERVER, proxy=False)


def the_javascript_client_works_by_path():
    with server_of("uri", URI) as server:
        use_javascript(server, proxy=False)


def use_javascript(server, proxy):
    sdk = ROOT / "build/deps/node/node_modules/@alibaba-group/opensandbox/dist/index.js"
    if not sdk.exists():
        raise Skip("its SDK is not installed")
    done = subprocess.run(
        ["node", HERE / "kube_client.mjs", WORLD.image, "yes" if proxy else "no"],
        capture_output=True, text=True, check=False, timeout=600, env={
            "PATH": os.environ["PATH"], "HOME": "/nonexistent", "OPENSANDBOX_JS_SDK": str(sdk),
            "OPEN_SANDBOX_DOMAIN": f"{server.host}:{server.port}",
            "OPEN_SANDBOX_API_KEY": server.api_key})
    assert done.returncode == 0, (proxy, done.stdout[-4000:], done.stderr[-1000:])


def a_policy_is_kept_by_the_sidecar():
    from opensandbox.models.sandboxes import NetworkPolicy, NetworkRule
    policy = NetworkPolicy(default_action="deny",
                           egress=[NetworkRule(action="allow", target="allowed.test")])
    registry = ("python3 -c 'import urllib.request as u; "
                f"u.urlopen(\"http://{CLUSTER.registry}/v2/\", timeout=3)' && echo out")
    with sandbox() as box:
        assert run(box, registry).endswith("out")
    with sandbox(network_policy=policy) as box:
        pod, = pods_of(box)
        assert [c["name"] for c in pod["spec"]["containers"]] == ["sandbox", "egress"]
        said = box.get_egress_policy()
        assert said.default_action == "deny", said
        done = box.commands.run(registry)
        assert "out" not in str(done.logs.stdout), done


def a_sandbox_starts_after_its_sidecar():
    """With egress.start_first, and lists of the operator, which hold without a policy, too."""
    from opensandbox.models.sandboxes import NetworkPolicy
    address = CLUSTER.registry.rpartition(":")[0]
    fetch = f"""python3 -c 'import urllib.request as u
try: u.urlopen("http://{CLUSTER.registry}/v2/", timeout=3); print("out")
except OSError: print("in")'"""
    first = ["sh", "-c", f"{fetch} > /tmp/first; sleep 1000000"]

    def sidecars(box):
        pod, = pods_of(box)
        return [c["name"] for c in pod["spec"]["initContainers"] if c.get("restartPolicy")]

    with server_of("header", HEADER, {"start_first": True, "always_deny": [address]}) as other:
        for policy in (NetworkPolicy(default_action="deny", egress=[]), None):
            with sandbox(server=other, network_policy=policy, entrypoint=first) as box:
                assert sidecars(box) == ["egress"], pods_of(box)
                wait_until(lambda box=box: run(box, "cat /tmp/first"), "what it tried first")
                assert run(box, "cat /tmp/first") == "in"
                assert run(box, fetch) == "in"
                assert box.get_egress_policy().default_action == ("deny" if policy else "allow")


def a_sandbox_ends_at_its_time():
    from opensandbox import SandboxSync
    box = SandboxSync.create(WORLD.image, connection_config=config(), resource=SMALL,
                             timeout=timedelta(seconds=60), ready_timeout=PATIENCE,
                             entrypoint=["sleep", "1000000"])
    wait_until(lambda: not CLUSTER.get(BATCHES)["items"], "its end", 120)
    wait_until(lambda: not pods_of(box), "the end of its pod", 60)
    box.close()


def a_pod_that_is_lost_is_seen():
    with sandbox() as box:
        pod, = pods_of(box)
        CLUSTER.request("DELETE", f"{CORE}/pods/{pod['metadata']['name']}",
                        {"gracePeriodSeconds": 0})
        wait_until(lambda: [p for p in pods_of(box)
                            if p["metadata"]["uid"] != pod["metadata"]["uid"] and
                            p["status"]["phase"] == "Running"], "another pod", 120)
        wait_state(box, "Running")
        wait_until(lambda: box.is_healthy(), "execd of the new pod", 60)
        assert run(box, "echo back") == "back"


def an_upgrade_loses_nothing_that_was_answered():
    """helm upgrade replaces the pods of server, operator and gateway under load."""
    with WORLD.service() as service:
        load = [chart_world.Load(service, WORLD.image, number) for number in range(2)]
        for one in load:
            one.start()
        try:
            wait_until(lambda: all(one.live for one in load), "the first sandboxes", 180)
            before = WORLD.server_pod()
            WORLD.upgrade()
            assert WORLD.server_pod() != before, "the server was not replaced"
            answered = [sum(one.count.values()) for one in load]
            wait_until(lambda: all(sum(one.count.values()) > was + 5
                                   for one, was in zip(load, answered)),
                       "answers of the new server", 180)
        finally:
            for one in load:
                one.stopped.set()
            for one in load:
                one.join(180)
        assert not any(one.is_alive() for one in load), "the load hangs"
        print(f"# {sum(sum(one.count.values()) for one in load)} answered, "
              f"{sum(one.broken for one in load)} not", flush=True)
        for one in load:
            one.check()
            for name in one.live:
                SERVER.request("DELETE", f"/v1/sandboxes/{name}")


def nothing_is_left():
    wait_until(lambda: not CLUSTER.get(BATCHES)["items"], "the end of all sandboxes", 120)
    wait_until(lambda: not pods(), "the end of all pods", 120)
    for plural in ("secrets", "configmaps", "persistentvolumeclaims"):
        left = [o["metadata"]["name"] for o in CLUSTER.get(f"{CORE}/{plural}")["items"]
                if o["metadata"]["name"] != "kube-root-ca.crt"]
        assert not left, (plural, left)
    left = CLUSTER.get(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs")["items"]
    assert not left, [o["metadata"]["name"] for o in left]
    wait_until(lambda: not WORLD.ctr("c", "ls", "-q").split(), "the end of all containers", 120)
    assert "opensandbox" not in WORLD.ctr("leases", "ls")
    assert "opensandbox-commit" not in WORLD.ctr("snapshots", "ls")


# Those that need a gateway by path, or a server of their own: the world of the chart has neither.
BY_PATH = (the_gateway_leads_to_pods_by_path, the_javascript_client_works_by_path,
           a_sandbox_starts_after_its_sidecar)


def every_right_is_used():
    """What the operator and the server may do, they did in the checks before."""
    roles = "/apis/rbac.authorization.k8s.io/v1"
    for account, role, but in (
            ("system:controller-manager", f"{roles}/clusterroles/manager-role", FINALIZERS),
            (f"{NAMESPACE}:{ACCOUNT}", f"{roles}/namespaces/{NAMESPACE}/roles/{ACCOUNT}",
             ("pools", "persistentvolumeclaims", "secrets"))):  # test_kubernetes.py
        unused = CLUSTER.rights_unused(account, CLUSTER.get(role)["rules"], but)
        # A WebSocket is a GET, and API servers from 1.35 on want "create", too. Pods are listed
        # when diagnostics are asked for before the operator has told of a pod.
        assert set(unused) <= {("", "pods/exec", "create"), ("", "pods", "list")}, (account, unused)


SHORT = (
    a_sandbox_of_an_image_is_used_and_renewed,
    code_keeps_its_variables,
    a_sandbox_of_a_pool_is_used_and_its_pod_never_again,
    a_paused_sandbox_goes_on_with_its_files,
    a_snapshot_is_restored_after_its_sandbox_is_gone,
    the_gateway_leads_to_pods_by_header,
    the_gateway_leads_to_pods_by_path,
)
LONG = (
    the_example_of_a_pool_works,
    the_javascript_client_works_by_the_server_and_by_the_gateway,
    the_javascript_client_works_by_path,
    a_pod_is_restarted_for_its_next_user,
    the_log_of_the_entrypoint_is_shown,
    an_image_that_is_not_there_is_an_error_at_once,
    a_pooled_sandbox_is_paused_and_resumed,
    a_policy_is_kept_by_the_sidecar,
    a_sandbox_starts_after_its_sidecar,
    a_pod_that_is_lost_is_seen,
    a_sandbox_ends_at_its_time,
)


def server_of(mode, gateway, egress=None):
    programs = [PROGRAMS[name] for name in ("server", "broker", "execd", "sandboxctl")]
    return KubeServer(*programs, cluster=CLUSTER, config={
        "runtime": {"execd_image": "localhost/execd:1"},
        "egress": {"image": "localhost/egress:1", "mode": "dns+nft", **(egress or {})},
        "ingress": {"mode": "gateway"}, "ingress.gateway": {"address": gateway.domain},
        "ingress.gateway.route": {"mode": mode},
        "ingress.secure_access": {"active_key": KEY_ID},
        "[ingress.secure_access.keys]": {"key_id": KEY_ID,
                                         "key": base64.b64encode(KEY).decode()}})


def gateway_of(mode):
    return Ingress(PROGRAMS["ingress"], "--mode", mode, "--kubeconfig", CLUSTER.kubeconfig,
                   "--secure-access-keys", f"{KEY_ID}={base64.b64encode(KEY).decode()}")


def check_all(tap, checks):
    chosen = [word for word in sys.argv[1:] if "=" not in word and word[0] != "-"]
    for check in checks:
        if not chosen or check.__name__ in chosen:
            began = time.monotonic()
            tap.check(check.__name__.replace("_", " "), check)
            print(f"# {time.monotonic() - began:.1f} s", flush=True)


def by_programs(tap):
    """Server, operator and gateway run on this machine."""
    global WORLD, CLUSTER, SERVER, HEADER, URI
    began = time.monotonic()
    with NodeWorld(PROGRAMS) as WORLD:
        CLUSTER = WORLD.cluster
        with gateway_of("header") as HEADER, gateway_of("uri") as URI, \
                server_of("header", HEADER) as SERVER:
            print(f"# all was up after {time.monotonic() - began:.0f} s", flush=True)
            check_all(tap, SHORT + ((*LONG, every_right_is_used) if "--long" in sys.argv else ())
                      + (nothing_is_left,))
            print(f"# processor time of the cluster: {CLUSTER.processor_s():.0f} s", flush=True)


def by_chart(tap):
    """All of it in pods, by helm."""
    global WORLD, CLUSTER, SERVER, HEADER
    began = time.monotonic()
    with ChartWorld(PROGRAMS, KEY_ID, KEY) as WORLD:
        CLUSTER, SERVER, HEADER = WORLD.cluster, WORLD.server, WORLD.gateway
        print(f"# all was up after {time.monotonic() - began:.0f} s", flush=True)
        check_all(tap, (*(check for check in SHORT + LONG if check not in BY_PATH),
                        an_upgrade_loses_nothing_that_was_answered))
        WORLD.uninstall()
        check_all(tap, (nothing_is_left,))


def main():
    by = by_chart if "--chart" in sys.argv else by_programs
    skip_all(why_not(api_only=False) or (chart_world.why_not() if by is by_chart else None))
    tap = Tap()
    by(tap)
    sys.exit(tap.end())


if __name__ == "__main__":
    main()
