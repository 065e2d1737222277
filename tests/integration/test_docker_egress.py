#!/usr/bin/env python3
"""test_docker_egress.py SERVER BROKER EXECD SANDBOXCTL EGRESS [podman] - network policies and the
credential proxy of the docker runtime, on a real engine, in the small internet of egress_world.py:
sandboxes join the network of a sidecar, which is watched, adopted and removed with them."""
import contextlib
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))

import egress_world  # noqa: E402
from docker_process import DockerEngine, DockerServer, PodmanEngine, why_not  # noqa: E402
from egress_world import HOST, RESOLVER, Internet  # noqa: E402
from server_process import wait_for  # noqa: E402
from server_use import Gateway  # noqa: E402
from tap import Skip, Tap, skip_all  # noqa: E402
from tls_world import TlsWorld  # noqa: E402

PROGRAMS, EGRESS = sys.argv[1:5], str(pathlib.Path(sys.argv[5]).resolve())
KIND = PodmanEngine if "podman" in sys.argv[6:] else DockerEngine
IMAGE, SIDECAR = "small:1", "opensandbox/egress:test"
ALLOWED, OTHER = "203.0.113.10", "203.0.113.20"
TOKEN = "OPENSANDBOX-EGRESS-AUTH"
SECURE, ELSEWHERE = egress_world.TLS_ADDRESSES
ENGINE = SERVER = NET = TLS = None


def policy(*targets, default="deny"):
    action = "allow" if default == "deny" else "deny"
    return {"defaultAction": default,
            "egress": [{"action": action, "target": target} for target in targets]}


def post(server=None, **fields):
    request = {"image": {"uri": IMAGE}, "entrypoint": ["sleep", "1000000"], "timeout": 600,
               "resourceLimits": {"cpu": "1", "memory": "128Mi"}, **fields}
    status, _, body = (server or SERVER).request("POST", "/v1/sandboxes", request)
    return status, body


def create(server=None, **fields):
    status, body = post(server, **fields)
    assert status == 202, (status, body)
    (server or SERVER).wait_state(body["id"], "Running")
    return body["id"]


def get(name):
    return SERVER.request("GET", f"/v1/sandboxes/{name}")[2]


def state(name):
    return get(name).get("status", {}).get("state")


def delete(name, server=None):
    status, _, body = (server or SERVER).request("DELETE", f"/v1/sandboxes/{name}")
    assert status == 204, (status, body)


@contextlib.contextmanager
def sandbox(server=None, **fields):
    name = create(server, **fields)
    try:
        yield name
    finally:
        delete(name, server)


def run(name, line, server=None):
    with Gateway(server or SERVER, name) as gateway:
        return gateway.run(line)


def fetch(name, url, server=None):
    """The body, or "no". A static busybox has no resolver but that of its nslookup."""
    host, _, path = url.removeprefix("http://").partition("/")
    line = f"printf 'GET /{path} HTTP/1.0\\r\\nHost: {host}\\r\\n\\r\\n' | nc -w 3 $address 80"
    answer = run(name, f"address={host}; case $address in *[a-z]*) address=$(nslookup {host} | "
                 "sed -n '/^Name/,$s/^Address: //p' | head -n 1);; esac; "
                 f"[ -z $address ] || {line} 2>/dev/null; true", server)
    return answer.partition("\n\n")[2].strip() or "no"


def control(name, method, path="/policy", body=None, headers=None):
    """A request to the sidecar, by way of the endpoint that the server tells for its port."""
    status, _, where = SERVER.request(
        "GET", f"/v1/sandboxes/{name}/endpoints/18080?use_server_proxy=true")
    assert status == 200, (status, where)
    target = "/" + where["endpoint"].partition("/")[2] + path
    status, _, answer = SERVER.request(method, target, body,
                                       headers=headers or where.get("headers", {}), key=None)
    return status, answer


def leftovers(name):
    """Containers and volumes that bear the sandbox's id."""
    found = [c["Names"] for c in ENGINE.containers() if any(name in n for n in c["Names"])]
    return found + [v["Name"] for v in ENGINE.get("/volumes")["Volumes"] or [] if name in v["Name"]]


# --- what it does ---

def names_and_addresses_are_judged():
    with sandbox(networkPolicy=policy("www.allowed.test")) as name:
        assert fetch(name, "http://www.allowed.test/") == ALLOWED
        before = NET.arrivals(OTHER)
        assert fetch(name, "http://other.test/") == "no"
        assert fetch(name, f"http://{OTHER}/") == "no"  # nor without a name
        assert run(name, f"nslookup other.test {RESOLVER} >/dev/null 2>&1 || echo no") == "no"
        assert NET.arrivals(OTHER) == before
    with sandbox() as name:  # without a policy, all is open, and there is no control
        assert fetch(name, f"http://{OTHER}/") == OTHER
        status, body = control(name, "GET")
        assert (status, body["code"]) == (501, "SANDBOX::API_NOT_SUPPORTED"), (status, body)


def the_containers_are_those_of_the_contract():
    with sandbox(networkPolicy=policy("www.allowed.test")) as name:
        main, side = ENGINE.inspect(name), ENGINE.get(f"/containers/sandbox-egress-{name}/json")
        labels, host = main["Config"]["Labels"], main["HostConfig"]
        assert host["NetworkMode"].startswith("container:"), host["NetworkMode"]
        assert not host["PortBindings"], host
        if ENGINE.is_docker:  # Podman shows how they differ from its usual ones
            assert {"NET_ADMIN", "NET_RAW"} <= set(host["CapDrop"]), host
        bounding = int(run(name, "grep CapBnd /proc/self/status").split()[-1], 16)
        assert not bounding & (1 << 12 | 1 << 13), hex(bounding)
        assert side["Config"]["Labels"]["opensandbox.io/egress-sidecar-for"] == name
        assert "opensandbox.io/id" not in side["Config"]["Labels"]
        assert side["HostConfig"]["CapAdd"] == ["NET_ADMIN"], side["HostConfig"]
        assert run(name, "cat /proc/sys/net/ipv6/conf/all/disable_ipv6") == "1"
        ports = side["HostConfig"]["PortBindings"]
        assert sorted(ports) == ["18080/tcp", "44772/tcp", "8080/tcp"], ports
        assert ports["44772/tcp"][0]["HostPort"] == labels["opensandbox.io/embedding-proxy-port"]
        assert ports["8080/tcp"][0]["HostPort"] == labels["opensandbox.io/http-port"]
        env = dict(line.split("=", 1) for line in side["Config"]["Env"])
        assert json.loads(env["OPENSANDBOX_EGRESS_RULES"])["defaultAction"] == "deny", env
        assert env["OPENSANDBOX_EGRESS_MODE"] == "dns+nft"
        assert env["OPENSANDBOX_EGRESS_TOKEN"] == labels["opensandbox.io/egress-auth-token"]
        assert "OPENSANDBOX_EGRESS" not in run(name, "env")
        page = SERVER.request("GET", "/v1/sandboxes?pageSize=100")[2]["items"]
        assert [item["id"] for item in page] == [name], page  # the sidecar is none
    assert not leftovers(name), leftovers(name)


def its_policy_changes_at_port_18080():
    with sandbox(networkPolicy=policy("www.allowed.test")) as name:
        status, now = control(name, "GET")
        assert status == 200 and now["policy"]["defaultAction"] == "deny", (status, now)
        rule = [{"action": "allow", "target": "other.test"}]
        assert control(name, "PATCH", body=rule)[0] == 200
        assert fetch(name, "http://other.test/") == OTHER
        assert control(name, "POST", body=policy())[0] == 200
        assert fetch(name, "http://www.allowed.test/") == "no"
        # The sandbox shares the namespace: the token is what keeps its hands off.
        assert "401" in run(name, "wget -S -O - http://127.0.0.1:18080/policy 2>&1; true")
        assert control(name, "GET", headers={TOKEN: "wrong"})[0] == 401


def a_sandbox_of_a_pool_has_the_policy_of_the_template():
    """Its token is new with each claim; that of its sidecar stays, and the server knows it."""
    status, _, body = SERVER.request("POST", "/v1/pools", {
        "name": "p", "capacitySpec": {"bufferMin": 1, "bufferMax": 1, "poolMin": 0, "poolMax": 4},
        "template": {"image": {"uri": IMAGE}, "entrypoint": ["sleep", "1000000"],
                     "networkPolicy": policy("www.allowed.test")}})
    assert status == 201, (status, body)

    def available():
        return SERVER.request("GET", "/v1/pools/p")[2]["status"]["available"]
    wait_for(lambda: available() == 1, "a sandbox of the pool")
    SERVER.restart()
    status, _, body = SERVER.request("POST", "/v1/sandboxes", {
        "extensions": {"poolRef": "p"}, "timeout": 600})
    assert status == 202, (status, body)
    name = body["id"]
    assert (fetch(name, "http://www.allowed.test/"), fetch(name, f"http://{OTHER}/")) == \
        (ALLOWED, "no")
    status, now = control(name, "GET")
    assert status == 200 and now["policy"]["defaultAction"] == "deny", (status, now)
    assert SERVER.request("DELETE", "/v1/pools/p")[0] == 204
    delete(name)
    wait_for(lambda: not SERVER.containers(), "the end of the pool's sandboxes")


def a_paused_sandbox_keeps_its_policy():
    with sandbox(networkPolicy=policy("www.allowed.test")) as name:
        SERVER.request("POST", f"/v1/sandboxes/{name}/pause")
        SERVER.wait_state(name, "Paused")
        SERVER.request("POST", f"/v1/sandboxes/{name}/resume")
        SERVER.wait_state(name, "Running")
        assert (fetch(name, "http://www.allowed.test/"), fetch(name, f"http://{OTHER}/")) == \
            (ALLOWED, "no")


def a_stopped_sandbox_keeps_its_policy():
    """The newest one: a start opens nothing that was closed since the create."""
    with sandbox(networkPolicy=policy("www.allowed.test", "other.test"), persistent=True,
                 credentialProxy={"enabled": True}) as name:
        assert fetch(name, "http://other.test/") == OTHER
        assert control(name, "POST", body=policy("www.allowed.test"))[0] == 200
        authority = run(name, "cat /opt/opensandbox/mitmproxy-ca-cert.pem")
        for again in (False, True):
            status, _, body = SERVER.request("POST", f"/v1/sandboxes/{name}/stop")
            assert status == 202, (status, body)
            assert not ENGINE.inspect(name)["State"]["Running"]
            if again:  # the sidecar goes on, unless the engine ends it
                ENGINE.request("POST", f"/containers/sandbox-egress-{name}/kill")
            SERVER.restart()
            assert get(name)["status"]["reason"] == "STOPPED", get(name)
            before = NET.arrivals(OTHER)
            status, _, body = SERVER.request("POST", f"/v1/sandboxes/{name}/start")
            assert status == 202 and state(name) == "Running", (status, body, get(name))
            assert fetch(name, "http://www.allowed.test/") == ALLOWED
            said = [fetch(name, f"http://{place}/") for place in ("other.test", OTHER)]
            assert OTHER not in said, (again, said, control(name, "GET"))  # what it answers
            assert NET.arrivals(OTHER) == before
            status, now = control(name, "GET")
            assert status == 200 and now["policy"]["defaultAction"] == "deny", (status, now)
        assert run(name, "cat /opt/opensandbox/mitmproxy-ca-cert.pem") == authority
        status, _, body = SERVER.request("POST", f"/v1/sandboxes/{name}/snapshots", {"name": "s"})
        wait_for(lambda: SERVER.request("GET", f"/v1/snapshots/{body['id']}")[2]["status"]["state"]
                 == "Ready", "the snapshot")
        status, _, answer = SERVER.request("POST", f"/v1/sandboxes/{name}/rollback",
                                           {"snapshotId": body["id"]})
        assert status == 202 and state(name) == "Running", (status, answer)
        assert fetch(name, "http://www.allowed.test/") == ALLOWED
        said = [fetch(name, f"http://{place}/") for place in ("other.test", OTHER)]
        assert OTHER not in said, (said, control(name, "GET"))
        assert control(name, "GET")[0] == 200
    assert not leftovers(name), leftovers(name)
    assert SERVER.request("DELETE", f"/v1/snapshots/{body['id']}")[0] == 204


def a_snapshot_brings_no_policy_along():
    with sandbox(networkPolicy=policy("www.allowed.test")) as name:
        status, _, body = SERVER.request("POST", f"/v1/sandboxes/{name}/snapshots", {"name": "s"})
        assert status in (201, 202), (status, body)
        snapshot = body["id"]
        wait_for(lambda: SERVER.request("GET", f"/v1/snapshots/{snapshot}")[2]["status"]["state"]
                 == "Ready", "the snapshot")
    with sandbox(image=None, snapshotId=snapshot) as name:
        assert not ENGINE.inspect(name)["HostConfig"]["NetworkMode"].startswith("container:")
        assert fetch(name, f"http://{OTHER}/") == OTHER
    assert SERVER.request("DELETE", f"/v1/snapshots/{snapshot}")[0] == 204


def credentials_are_added_outside_the_sandbox():
    vault = {"credentials": [{"name": "k", "source": {"value": "s3cr3t-0123456789"}}],
             "bindings": [{"name": "b", "match": {"schemes": ["http"], "ports": [80],
                                                  "hosts": ["api.allowed.test"]},
                           "auth": {"type": "apiKey", "name": "x-key", "credential": "k"}}]}
    with sandbox(networkPolicy=policy("api.allowed.test"), credentialProxy={"enabled": True},
                 env={"OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT": "false"}) as name:
        assert run(name, "head -n 1 /opt/opensandbox/mitmproxy-ca-cert.pem") == \
            "-----BEGIN CERTIFICATE-----"
        status, body = control(name, "POST", "/credential-vault", vault)
        assert status == 201 and "s3cr3t" not in json.dumps(body), (status, body)
        digests = json.loads(fetch(name, "http://api.allowed.test/digests"))
        assert digests.get("x-key") == hashlib.sha256(b"s3cr3t-0123456789").hexdigest(), digests
        assert "s3cr3t" not in run(name, "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; "
                                         "true")
        assert f"opensandbox-runtime-{name}" in leftovers(name), leftovers(name)
        assert SERVER.request("GET", "/v1/volumes")[2]["items"] == []  # it is nobody's volume
    assert not leftovers(name), leftovers(name)


def curl(name, address, *args):
    """What curl of this host prints in the network of the sandbox, whose busybox speaks no TLS."""
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(run(name, "cat /opt/opensandbox/mitmproxy-ca-cert.pem"))
        file.flush()
        pid = ENGINE.inspect(name)["State"]["Pid"]
        return subprocess.run(
            ["nsenter", f"--net=/proc/{pid}/ns/net", "curl", "-sS", "--max-time", "30", "--cacert",
             file.name, "-w", "%{http_code}", "-o", "/dev/null", "--connect-to", f"::{address}:",
             *args], capture_output=True, text=True, check=False).stdout


def secrets_are_used_and_never_held():
    value = "s3cr3t-of-the-owner-42"
    with sandbox(secretEnv={"API_KEY": {"value": value, "hosts": ["secure.test"]}},
                 networkPolicy=policy("secure.test", "elsewhere.test"), persistent=True) as name:
        def ask(host, address, key):
            run(name, f"nslookup {host} >/dev/null")  # its address is open from then on
            return curl(name, address, "-H", f"X-Key: {key}", f"https://{host}/a")

        def keys():
            return [v for r in TLS.take() for k, v in r["headers"] if k.lower() == "x-key"]

        def works():
            return (ask("secure.test", SECURE, key), keys())
        key = run(name, "echo $API_KEY")
        assert key.startswith("osb_secret_"), key
        assert works() == ("200", [value])
        assert (ask("elsewhere.test", ELSEWHERE, key), keys()) == ("403", [])
        assert (ask("elsewhere.test", ELSEWHERE, "none"), keys()) == ("200", ["none"])
        assert get(name)["secretEnv"] == {"API_KEY": {"hosts": ["secure.test"]}}, get(name)
        told = [json.dumps(ENGINE.inspect(name)), SERVER.log(), run(name, "env"),
                json.dumps(ENGINE.get(f"/containers/sandbox-egress-{name}/json"))]
        assert not [text for text in told if value in text]
        before = SERVER.log().count("snapshot")
        status, _, body = SERVER.request("POST", f"/v1/sandboxes/{name}/fork", {"count": 1})
        assert status == 400 and "secretEnv" in body["message"], (status, body)
        assert SERVER.log().count("snapshot") == before  # it was not frozen for that
        for what in ("stop", "start"):
            status, _, body = SERVER.request("POST", f"/v1/sandboxes/{name}/{what}")
            assert status == 202, (status, body)
        assert run(name, "echo $API_KEY") == key and works() == ("200", [value])
        status, _, body = SERVER.request("POST", f"/v1/sandboxes/{name}/snapshots", {"name": "s"})
        wait_for(lambda: SERVER.request("GET", f"/v1/snapshots/{body['id']}")[2]["status"]["state"]
                 == "Ready", "the snapshot")
        status, _, answer = SERVER.request("POST", f"/v1/sandboxes/{name}/rollback",
                                           {"snapshotId": body["id"]})
        assert status == 202, (status, answer)
        assert run(name, "echo $API_KEY") == key and works() == ("200", [value])
    assert SERVER.request("DELETE", f"/v1/snapshots/{body['id']}")[0] == 204
    assert not leftovers(name), leftovers(name)


# --- what is refused ---

def refuses_what_cannot_be():
    secret = {"KEY": {"value": "v", "hosts": ["api.allowed.test"]}}
    for fields, words in (
            ({"networkPolicy": policy("not a name!")}, "networkPolicy"),
            ({"networkPolicy": policy(), "secretEnv": secret}, "secretEnv"),
            ({"credentialProxy": {"enabled": True}}, "networkPolicy")):
        status, body = post(**fields)
        assert status == 400 and words in body["message"], (fields, status, body)
    for config, words in (({"egress": {"image": ""}}, "egress.image"),
                          ({"docker": {"network_mode": "host"}}, "network_mode")):
        with server_with(config) as other:
            status, body = post(other, networkPolicy=policy())
            assert status == 400 and words in body["message"], (status, body)
    assert not SERVER.containers(), SERVER.containers()


def a_sidecar_that_does_not_start_fails_the_create():
    with server_with({"egress": {"image": IMAGE}}) as other:  # it has no program
        status, body = post(other, networkPolicy=policy())
        assert (status, body["code"]) == (500, "DOCKER::SANDBOX_START_FAILED"), (status, body)
        wait_for(lambda: not other.containers(), "its removal")
    with server_with({"egress": {"image": "ends:1"}}) as other:
        status, body = post(other, networkPolicy=policy())
        assert (status, body["code"]) == (500, "DOCKER::SANDBOX_START_FAILED"), (status, body)
        assert "the egress sidecar does not start" in body["message"], body
        assert not other.containers(), other.containers()
    with server_with({"egress": {"image": "no/such:1"}}) as other:
        status, body = post(other, networkPolicy=policy())
        assert (status, body["code"]) == (500, "DOCKER::SANDBOX_IMAGE_PULL_FAILED"), (status, body)
        assert "no/such" in body["message"] and not other.containers(), body


def without_an_image_the_server_makes_one():
    if b"__asan_init" in pathlib.Path(EGRESS).read_bytes():
        raise Skip("with the sanitizer's libraries the image is larger than a request may be")
    with server_with({"egress": {"image": "", "program": EGRESS}}) as other:
        for _ in range(2):
            with sandbox(other, networkPolicy=policy("www.allowed.test")) as name:
                assert fetch(name, "http://www.allowed.test/", other) == ALLOWED
                assert fetch(name, f"http://{OTHER}/", other) == "no"
                image = ENGINE.get(f"/containers/sandbox-egress-{name}/json")["Config"]["Image"]
                assert "opensandbox-egress:" in image, image
            status, body = ENGINE.request("DELETE", f"/images/{image}")  # and again
            assert status == 200, (status, body)


# --- faults ---

def a_dead_sidecar_closes_the_network_and_is_told(how):
    name = create(networkPolicy=policy("www.allowed.test"),
                  entrypoint=["sh", "-c", f"while :; do echo | nc -w 1 {OTHER} 80; done"])
    before = NET.arrivals(OTHER)
    how(name)
    wait_for(lambda: state(name) == "Failed", "the state after the sidecar's end", 20)
    message = get(name)["status"]["message"]
    assert "egress sidecar" in message, message
    wait_for(lambda: not ENGINE.inspect(name)["State"]["Running"], "the end of the sandbox", 20)
    assert NET.arrivals(OTHER) == before
    delete(name)
    assert not leftovers(name), leftovers(name)


def a_killed_sidecar_closes_the_network():
    a_dead_sidecar_closes_the_network_and_is_told(
        lambda name: ENGINE.request("POST", f"/containers/sandbox-egress-{name}/kill"))


def a_removed_sidecar_closes_the_network():
    if not ENGINE.is_docker:  # it removes no container whose network another one has joined
        return
    a_dead_sidecar_closes_the_network_and_is_told(
        lambda name: ENGINE.request("DELETE", f"/containers/sandbox-egress-{name}?force=1"))


def both_are_adopted_after_a_restart():
    kept, doomed = (create(networkPolicy=policy("www.allowed.test")) for _ in range(2))
    SERVER.kill9()
    ENGINE.request("POST", f"/containers/sandbox-egress-{doomed}/kill")
    SERVER.start()
    wait_for(lambda: state(doomed) == "Failed", "the end that the server did not see", 20)
    assert state(kept) == "Running"
    assert (fetch(kept, "http://www.allowed.test/"), fetch(kept, f"http://{OTHER}/")) == \
        (ALLOWED, "no")
    assert control(kept, "GET")[0] == 200
    ENGINE.request("POST", f"/containers/sandbox-egress-{kept}/kill")  # and is watched again
    wait_for(lambda: state(kept) == "Failed", "the end after the restart", 20)
    for name in (kept, doomed):
        delete(name)
        assert not leftovers(name), leftovers(name)


def a_create_cut_by_kill9_leaves_no_orphan():
    request = {"image": {"uri": IMAGE}, "entrypoint": ["sleep", "1000000"], "timeout": 600,
               "resourceLimits": {"cpu": "1", "memory": "128Mi"}, "networkPolicy": policy(),
               "credentialProxy": {"enabled": True}}
    for delay in (0.05, 0.3, 0.6, 1):
        thread = threading.Thread(target=ask, args=(request,))
        thread.start()
        time.sleep(delay)
        SERVER.kill9()
        thread.join()
        SERVER.start()
        for item in SERVER.request("GET", "/v1/sandboxes")[2]["items"]:
            delete(item["id"])
        wait_for(lambda: not SERVER.containers(), "orphans to be removed")
        left = [v["Name"] for v in ENGINE.get("/volumes")["Volumes"] or []
                if v["Name"].startswith("opensandbox-runtime-")]
        assert not left, left


def ask(request):
    with contextlib.suppress(Exception):
        SERVER.request("POST", "/v1/sandboxes", request)


# --- lists of the operator ---

def lists_of_the_operator_hold_for_every_sandbox():
    with server_with({"egress": {"always_deny": ["other.test", OTHER]}}) as other:
        with sandbox(other) as name:
            assert fetch(name, "http://www.allowed.test/", other) == ALLOWED
            assert fetch(name, "http://other.test/", other) == "no"
            assert fetch(name, f"http://{OTHER}/", other) == "no"
        with sandbox(other, networkPolicy=policy("other.test", "www.allowed.test")) as name:
            assert fetch(name, "http://www.allowed.test/", other) == ALLOWED
            assert fetch(name, "http://other.test/", other) == "no"


def lists_that_cannot_be_kept_stop_the_server():
    for config, words in (({"egress": {"always_deny": ["x.test"], "image": ""}}, "always_deny"),
                          ({"egress": {"block_quic": True}}, "block_quic")):
        server = server_with(config)
        try:
            server.spawn()
            assert server.process.wait(60) != 0 and words in server.log(), server.log()[-2000:]
        finally:
            server.remove()


def config_of(more=None):
    config = {"egress": {"image": SIDECAR, "mode": "dns+nft", "upstreams": [RESOLVER]},
              "runtime": {"reconcile_seconds": 5}}
    for section, keys in (more or {}).items():
        config.setdefault(section, {}).update(keys)
    return config


def server_with(more):
    return DockerServer(*PROGRAMS, config=config_of(more), engine=ENGINE)


TESTS = [
    names_and_addresses_are_judged, the_containers_are_those_of_the_contract,
    its_policy_changes_at_port_18080, a_sandbox_of_a_pool_has_the_policy_of_the_template,
    a_paused_sandbox_keeps_its_policy, a_stopped_sandbox_keeps_its_policy,
    a_snapshot_brings_no_policy_along,
    credentials_are_added_outside_the_sandbox, secrets_are_used_and_never_held,
    refuses_what_cannot_be,
    a_sidecar_that_does_not_start_fails_the_create, without_an_image_the_server_makes_one,
    a_killed_sidecar_closes_the_network, a_removed_sidecar_closes_the_network,
    both_are_adopted_after_a_restart, a_create_cut_by_kill9_leaves_no_orphan,
    lists_of_the_operator_hold_for_every_sandbox, lists_that_cannot_be_kept_stop_the_server,
]


def main():
    global ENGINE, SERVER, NET, TLS
    skip_all(why_not() or egress_world.why_not())
    egress_world.enter()
    pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1")  # of this namespace
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder, Internet() as NET, KIND() as ENGINE, \
            TlsWorld(pathlib.Path(folder)) as TLS:
        TLS.start(NET)
        subprocess.run(["nsenter", f"--net=/proc/{NET.process.pid}/ns/net", "ip", "route", "add",
                        f"{ENGINE.network}.0/24", "via", HOST], check=True)
        ENGINE.import_busybox(IMAGE)
        ENGINE.import_egress(EGRESS, SIDECAR, authority=TLS.ca)
        ENGINE.import_busybox("ends:1", changes=['ENTRYPOINT ["/bin/false"]'])
        with server_with({}) as SERVER:
            for test in TESTS:
                tap.check(test.__name__, test)
            if tap.failed:
                print("# " + SERVER.log()[-6000:].replace("\n", "\n# "))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
