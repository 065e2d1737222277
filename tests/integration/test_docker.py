#!/usr/bin/env python3
"""test_docker.py SERVER BROKER EXECD SANDBOXCTL - the docker runtime on a real engine: sandboxes
are made, used, paused, ended, adopted and removed, while the server or the engine is killed,
stopped or restarted, and while others change containers behind the server's back."""
import contextlib
import http.client
import http.server
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))

import docker_faults  # noqa: E402
import registry_process  # noqa: E402
from docker_process import DockerEngine, DockerServer, why_not  # noqa: E402
from server_process import wait_for  # noqa: E402
from server_use import Gateway  # noqa: E402
from tap import Tap, skip_all  # noqa: E402

PROGRAMS = sys.argv[1:]
IMAGE = "small:1"
SLEEP = ["sleep", "1000000"]
ENGINE = SERVER = None


def post(server=None, **fields):
    request = {"image": {"uri": IMAGE}, "entrypoint": SLEEP, "timeout": 600,
               "resourceLimits": {"cpu": "1", "memory": "128Mi"}, **fields}
    status, _, body = (server or SERVER).request("POST", "/v1/sandboxes", request)
    return status, body


def create(server=None, **fields):
    status, body = post(server, **fields)
    assert status == 202, (status, body)
    (server or SERVER).wait_state(body["id"], "Running")
    return body["id"]


def get(name, server=None):
    return (server or SERVER).request("GET", f"/v1/sandboxes/{name}")[2]


def state(name, server=None):
    return get(name, server).get("status", {}).get("state")


def delete(name, server=None):
    status, _, body = (server or SERVER).request("DELETE", f"/v1/sandboxes/{name}")
    assert status == 204, (status, body)


@contextlib.contextmanager
def sandbox(**fields):
    name = create(**fields)
    try:
        yield name
    finally:
        delete(name)


def run(name, line, server=None):
    with Gateway(server or SERVER, name) as gateway:
        return gateway.run(line)


def has_container(name):
    return ENGINE.request("GET", f"/containers/sandbox-{name}/json")[0] == 200


# --- the server ---

def the_example_of_init_config_works_unchanged():
    """With another place for the state and another port: servers of others are left alone."""
    with DockerServer(*PROGRAMS, engine=ENGINE) as other, \
            tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/config.toml"
        env = {"PATH": os.environ["PATH"], "HOME": folder, "DOCKER_HOST": ENGINE.host}

        def ask(*words):
            done = subprocess.run([PROGRAMS[0], *words], env=env, capture_output=True, text=True,
                                  check=False, timeout=120)
            assert done.returncode == 0, (words, done)
        ask("init-config", path, "--example", "docker")
        text = pathlib.Path(path).read_text(encoding="utf-8")
        # What an installation has beside its programs.
        text = text.replace("[runtime]\n", f"[runtime]\nexecd_program = \"{other.broker.execd}\"\n")
        pathlib.Path(path).write_text(text, encoding="utf-8")
        ask("--config", path, "--check")
        other.kill9()
        other.write_config = lambda: other.config_path.write_text(text, encoding="utf-8")
        other.env.update(env)
        other.options = ["--host", other.host, "--port", str(other.port), "--state",
                         str(other.state)]
        other.start()
        name = create(other)
        assert run(name, "echo hello", other) == "hello"
        delete(name, other)


# --- what a sandbox is ---

def commands_and_files_work():
    with sandbox(env={"GREETING": "hello"}) as name:
        assert run(name, 'echo "$GREETING $(id -u)"') == "hello 0"
        with Gateway(SERVER, name) as gateway:
            gateway.upload("/tmp/a file", b"content\n")
            assert gateway.download("/tmp/a file") == b"content\n"
        assert run(name, "cat '/tmp/a file'") == "content"
    assert not has_container(name)


def a_port_of_the_sandbox_is_reached_through_the_server():
    with sandbox() as name:
        run(name, "mkdir -p /tmp/www && echo page > /tmp/www/index.html && "
                  "httpd -p 8123 -h /tmp/www")
        with Gateway(SERVER, name, 8123) as gateway:
            assert gateway.ask("GET", "/index.html") == b"page\n"


def labels_name_and_limits_are_those_of_the_contract():
    with sandbox(metadata={"team": "blue"}, resourceLimits={"cpu": "500m", "memory": "64Mi"},
                 extensions={"access.renew.extend.seconds": "600"}) as name:
        facts = ENGINE.inspect(name)
        labels, host = facts["Config"]["Labels"], facts["HostConfig"]
        assert labels["opensandbox.io/id"] == name and labels["team"] == "blue", labels
        assert labels["opensandbox.io/expires-at"].endswith("+00:00"), labels
        assert labels["opensandbox.io/access-renew-extend-seconds"] == "600", labels
        assert 40000 <= int(labels["opensandbox.io/embedding-proxy-port"]) <= 60000, labels
        assert host["Memory"] == 64 << 20 and host["NanoCpus"] == 500 * 1000 * 1000, host
        assert host["PidsLimit"] == 4096 and \
            host["SecurityOpt"][0].startswith("no-new-privileges"), host
        if ENGINE.is_docker:  # Podman shows how they differ from its usual ones
            assert {"NET_ADMIN", "SYS_ADMIN", "SYS_PTRACE"} <= set(host["CapDrop"]), host
        bounding = int(run(name, "grep CapBnd /proc/self/status").split()[-1], 16)
        assert not bounding & (1 << 12 | 1 << 13 | 1 << 19 | 1 << 21), hex(bounding)
        binding = host["PortBindings"]["44772/tcp"][0]
        assert binding["HostIp"] == "127.0.0.1", host
        assert binding["HostPort"] == labels["opensandbox.io/embedding-proxy-port"], host
        assert run(name, "grep NoNewPrivs /proc/self/status").split()[-1] == "1"


def a_limit_of_disk_that_is_not_kept_is_told():
    """test_docker_tcp.py has an engine that keeps it."""
    with sandbox(resourceLimits={"cpu": "1", "memory": "64Mi", "disk": "64Mi"}) as name:
        assert not ENGINE.inspect(name)["HostConfig"].get("StorageOpt")
        text = SERVER.request("GET", f"/v1/sandboxes/{name}/diagnostics/inspect")[2]
        text = text if isinstance(text, str) else text.decode()
        driver = ENGINE.get("/info")["Driver"]
        assert f"the engine keeps no limits of disk on storage driver {driver}" in text, text


def execd_is_mounted_and_not_copied():
    with sandbox() as one, sandbox() as other:
        volumes = {bind.split(":")[0] for name in (one, other)
                   for bind in ENGINE.inspect(name)["HostConfig"]["Binds"]}
        assert len(volumes) == 1 and next(iter(volumes)).startswith("opensandbox-execd-"), volumes
        with Gateway(SERVER, one) as gateway:  # read-only: no sandbox changes the others' execd
            reply = gateway.start("echo x >> /opt/opensandbox/bin/execd && echo written")
            assert b"written" not in reply.read()


def an_image_without_a_shell_works():
    """Nothing but a program: as in images from scratch."""
    busybox = next(p for p in ("/bin/busybox", "/usr/bin/busybox") if pathlib.Path(p).exists())
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        tar.add(busybox, "busybox")
    data.seek(0)
    ENGINE.import_tar(data, "bare:1")
    with sandbox(image={"uri": "bare:1"}, entrypoint=["/busybox", "sleep", "1000000"]) as name:
        with Gateway(SERVER, name) as gateway:
            gateway.upload("/file", b"x")
            assert gateway.download("/file") == b"x"


def others_need_the_token_of_execd():
    """A neighbour on the bridge reaches the port of execd, and is refused."""
    with sandbox() as name:
        address = ENGINE.inspect(name)["NetworkSettings"]["IPAddress"]
        with sandbox() as neighbour:
            assert "401" in run(neighbour, f"wget -S -O - http://{address}:44772/files/info 2>&1; "
                                           "true")
            assert "EXECD_ACCESS_TOKEN" not in run(name, "env")


def works_in_the_network_of_the_host():
    """Of two sandboxes each has a port of its own for execd."""
    with DockerServer(*PROGRAMS, engine=ENGINE,
                      config={"docker": {"network_mode": "host"}}) as server:
        names = [create(server), create(server)]
        for name in names:
            assert ENGINE.inspect(name)["HostConfig"]["NetworkMode"] == "host"
            assert run(name, f"echo {name}", server) == name
        server.restart()
        for name in names:
            assert run(name, "echo again", server) == "again"
            delete(name, server)


def works_in_a_network_of_the_user():
    status, body = ENGINE.request("POST", "/networks/create", {"Name": "theirs"})
    assert status == 201, body
    with DockerServer(*PROGRAMS, engine=ENGINE,
                      config={"docker": {"network_mode": "theirs"}}) as server:
        name = create(server)
        assert list(ENGINE.inspect(name)["NetworkSettings"]["Networks"]) == ["theirs"]
        assert run(name, "echo in it", server) == "in it"
        delete(name, server)
        assert ENGINE.request("DELETE", "/networks/theirs")[0] == 204
        status, body = post(server)
        assert (status, body["code"]) == (400, "SANDBOX::INVALID_PARAMETER"), (status, body)
        assert "theirs" in body["message"], body
        assert not server.containers()


# --- pulls ---

class Slow(http.server.BaseHTTPRequestHandler):
    """A registry behind it, whose large files come bit by bit until `go` is set."""

    port, go = None, threading.Event()

    def do_GET(self):
        behind = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        behind.request(self.command, self.path, headers={
            key: ", ".join(self.headers.get_all(key)) for key in self.headers})
        reply = behind.getresponse()
        body = reply.read()
        self.send_response(reply.status)
        for key, value in reply.getheaders():
            if key.lower() not in ("date", "server", "connection"):
                self.send_header(key, value)
        self.end_headers()
        for at in range(0, len(body) if self.command == "GET" else 0, 1 << 16):
            if len(body) > 1 << 20:
                self.go.wait(0.1)
            self.wfile.write(body[at:at + (1 << 16)])
        behind.close()

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


def an_image_is_pulled_with_its_progress_and_credentials():
    if not ENGINE.is_docker:  # it wants to be told which registries have no TLS
        return
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "htpasswd").write_text(registry_process.HTPASSWD)
        auth = f"htpasswd:\n  realm: test\n  path: {folder}/htpasswd"
        with registry_process.Registry(folder / "registry", auth=auth) as registry, \
                registry_process.serving(Slow) as slow, \
                DockerServer(*PROGRAMS, engine=ENGINE,
                             config={"images": {"pull_policy": "IfNotPresent"}}) as server:
            registry.push(registry_process.make_layout(folder, big_mb=8), "me/app:1",
                          "--dest-creds=me:pw")
            Slow.port = registry.port
            image = f"127.0.0.1:{slow.server_address[1]}/me/app:1"
            entrypoint = ["/bin/busybox", "sleep", "1000000"]
            for auth in (None, {"username": "me", "password": "wrong"}):
                status, body = post(server, image={"uri": image, "auth": auth},
                                    entrypoint=entrypoint)
                assert (status, body["code"]) == (500, "DOCKER::SANDBOX_IMAGE_PULL_FAILED"), body
            auth, answers = {"username": "me", "password": "pw"}, []
            thread = threading.Thread(target=lambda: answers.append(
                post(server, image={"uri": image, "auth": auth}, entrypoint=entrypoint)))
            thread.start()
            seen = set()

            def tells():
                seen.update(item["status"].get("message", "")
                            for item in server.request("GET", "/v1/sandboxes")[2]["items"])
                return [text for text in seen
                        if re.search(r"of \d layers, [1-9]\d* of \d+ MB", text)]
            wait_for(lambda: answers or tells(), "the progress of the pull")
            Slow.go.set()
            thread.join()
            (status, body), = answers
            assert status == 202 and tells(), (status, body, seen)
            server.wait_state(body["id"], "Running")
            with Gateway(server, body["id"]) as gateway:
                assert len(gateway.download("/data/big")) == 8 << 20
            told = json.dumps((get(body["id"], server), ENGINE.inspect(body["id"])))
            assert '"pw"' not in told, told
            delete(body["id"], server)
            assert ENGINE.request("DELETE", f"/images/{image}")[0] == 200


# --- what is refused ---

def refuses_what_cannot_be():
    for fields, status, code in (
            ({"image": {"uri": "no/such:1"}}, 500, "DOCKER::SANDBOX_IMAGE_PULL_FAILED"),
            ({"entrypoint": ["/no/such/program"]}, 400, "DOCKER::INVALID_ENTRYPOINT"),
            ({"platform": {"os": "windows", "arch": "amd64"}}, 400, "SANDBOX::INVALID_PARAMETER"),
            ({"networkPolicy": {"defaultAction": "deny", "egress": []}}, 400,
             "SANDBOX::INVALID_PARAMETER"),
            ({"volumes": [{"name": "v", "host": {"path": "/etc"}, "mountPath": "/mnt"}]}, 400,
             "VOLUME::HOST_PATH_NOT_ALLOWED"),
            ({"volumes": [{"name": "v", "pvc": {"claimName": "no-such", "createIfNotExists": False},
                           "mountPath": "/mnt"}]}, 400, "VOLUME::PVC_NOT_FOUND"),
            ({"volumes": [{"name": "v", "pvc": {"claimName": "opensandbox-execd-x"},
                           "mountPath": "/mnt"}]}, 400, "VOLUME::INVALID_PVC_NAME")):
        got, body = post(**fields)
        assert (got, body.get("code")) == (status, code), (fields, got, body)
        assert body["message"], body
    assert not SERVER.containers(), SERVER.containers()


# --- its life ---

def pause_stops_its_processes():
    with sandbox() as name:
        run(name, "(while :; do date +%s%N > /tmp/tick; done) >/dev/null 2>&1 &")
        status, _, body = SERVER.request("POST", f"/v1/sandboxes/{name}/pause")
        assert status == 202, (status, body)
        SERVER.wait_state(name, "Paused")
        assert ENGINE.inspect(name)["State"]["Paused"]
        status, _, body = SERVER.request("POST", f"/v1/sandboxes/{name}/pause")
        assert (status, body["code"]) == (409, "DOCKER::SANDBOX_NOT_RUNNING"), (status, body)
        SERVER.request("POST", f"/v1/sandboxes/{name}/resume")
        SERVER.wait_state(name, "Running")
        assert run(name, "echo on") == "on"


def ends_are_told(fields, want, words):
    status, body = post(**fields)
    assert status == 202, (status, body)
    wait_for(lambda: state(body["id"]) == want, want)
    message = get(body["id"])["status"]["message"]
    assert words in message, message
    delete(body["id"])


def an_end_is_terminated_or_failed_with_its_reason():
    ends_are_told({"entrypoint": ["sh", "-c", "sleep 0.3; exit 0"]}, "Terminated", "status 0")
    ends_are_told({"entrypoint": ["sh", "-c", "sleep 0.3; exit 3"]}, "Failed", "status 3")
    ends_are_told({"entrypoint": ["true"]}, "Terminated", "status 0")


def logs_have_times():
    with sandbox(entrypoint=["sh", "-c", "echo one; echo two; exec sleep 1000000"]) as name:
        def logs(query=""):
            status, _, body = SERVER.request("GET",
                                             f"/v1/sandboxes/{name}/diagnostics/logs{query}")
            assert status == 200, (status, body)
            return body if isinstance(body, str) else body.decode()
        wait_for(lambda: "two" in logs(), "its output")
        lines = [line for line in logs("?tail=50").splitlines() if line]
        assert any(line.endswith("two") and line[:2] == "20" for line in lines), lines
        # execd writes to the same log, so the last lines may be its own.
        assert len([line for line in logs("?tail=2").splitlines() if line]) == 2


def a_sandbox_expires():
    name = create(timeout=60)
    soon = time.time() + 1
    when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(soon)) + f"{soon % 1:.3f}"[1:] + "Z"
    status, _, body = SERVER.request("POST", f"/v1/sandboxes/{name}/renew-expiration",
                                     {"expiresAt": when})
    assert status == 200, (status, body)
    wait_for(lambda: not has_container(name), "its expiry")


# --- volumes and snapshots ---

def named_volumes_outlive_a_sandbox_or_go_with_it():
    def volume(claim, **more):
        return [{"name": "v", "pvc": {"claimName": claim, "createIfNotExists": True, **more},
                 "mountPath": "/data"}]
    with sandbox(volumes=volume("keep-it")) as name:
        run(name, "echo kept > /data/file")
    with sandbox(volumes=volume("keep-it")) as name:
        assert run(name, "cat /data/file") == "kept"
        status, _, body = SERVER.request("DELETE", "/v1/volumes/keep-it")
        assert status == 409, (status, body)
    with sandbox(volumes=volume("goes", deleteOnSandboxTermination=True)):
        assert ENGINE.request("GET", "/volumes/goes")[0] == 200
    assert ENGINE.request("GET", "/volumes/goes")[0] == 404
    with sandbox(volumes=volume("goes", deleteOnSandboxTermination=True) +
                 [{"name": "w", "pvc": {"claimName": "keep-it"}, "mountPath": "/kept"}]) as name:
        ENGINE.request("DELETE", f"/containers/sandbox-{name}?force=1")
        wait_for(lambda: state(name) == "Failed", "the end of a removed container", 20)
    assert ENGINE.request("GET", "/volumes/goes")[0] == 404
    status, _, body = SERVER.request("DELETE", "/v1/volumes/keep-it")
    assert status == 204, (status, body)


def host_paths_are_mounted_if_allowed():
    shared = ENGINE.folder / "shared"
    (shared / "in").mkdir(parents=True)
    (shared / "in" / "file").write_text("from outside\n")
    (shared / "link").symlink_to("/etc")
    mount = {"name": "v", "mountPath": "/data"}
    with sandbox(volumes=[{**mount, "host": {"path": str(shared)}, "subPath": "in",
                           "readOnly": True}]) as name:
        assert run(name, "cat /data/file; echo x > /data/no 2>/dev/null || echo refused") == \
            "from outside\nrefused"
    status, body = post(volumes=[{**mount, "host": {"path": str(shared / "link")}}])
    assert (status, body["code"]) == (400, "VOLUME::HOST_PATH_NOT_ALLOWED"), body


def a_snapshot_restores_files_and_no_secrets():
    with sandbox(env={"SECRET": "hunter2"}) as name:
        run(name, "echo saved > /root/state")
        status, _, body = SERVER.request("POST", f"/v1/sandboxes/{name}/snapshots", {"name": "s"})
        assert status in (201, 202), (status, body)
        snapshot = body["id"]
        wait_for(lambda: SERVER.request("GET", f"/v1/snapshots/{snapshot}")[2]["status"]["state"]
                 == "Ready", "the snapshot")
    image = ENGINE.get(f"/images/opensandbox-snapshots:{snapshot}/json")
    assert "hunter2" not in json.dumps(image["Config"]), image["Config"]
    assert "EXECD_ACCESS_TOKEN=" in image["Config"]["Env"], image["Config"]
    status, body = post(image=None, snapshotId=snapshot, timeout=None)
    assert status == 202, (status, body)
    SERVER.wait_state(body["id"], "Running")
    assert run(body["id"], "cat /root/state") == "saved"
    assert get(body["id"]).get("expiresAt") is None, get(body["id"])
    status, _, answer = SERVER.request("DELETE", f"/v1/snapshots/{snapshot}")
    assert status == (204 if ENGINE.is_docker else 409), (status, answer)
    assert run(body["id"], "cat /root/state") == "saved"  # its files stay for the sandbox
    delete(body["id"])
    if not ENGINE.is_docker:
        assert SERVER.request("DELETE", f"/v1/snapshots/{snapshot}")[0] == 204
    assert ENGINE.request("GET", f"/images/{image['Id']}/json")[0] == 404


def snapshot(name):
    status, _, body = SERVER.request("POST", f"/v1/sandboxes/{name}/snapshots", {"name": "s"})
    assert status in (201, 202), (status, body)
    wait_for(lambda: SERVER.request("GET", f"/v1/snapshots/{body['id']}")[2]["status"]["state"]
             == "Ready", "the snapshot")
    return body["id"]


def do(name, what, body=None, want=202):
    status, _, answer = SERVER.request("POST", f"/v1/sandboxes/{name}/{what}", body)
    assert status == want, (what, status, answer)
    return answer


def rests(name):
    status = get(name)["status"]
    return (status["state"], status["reason"]) == ("Paused", "STOPPED") and \
        not ENGINE.inspect(name)["State"]["Running"]


def a_persistent_sandbox_stops_and_starts():
    script = "echo x >> /root/runs; exec sleep 1000000"
    with sandbox(persistent=True, entrypoint=["sh", "-c", script], env={"MY": "own"}) as name:
        run(name, "echo kept > /root/f; chown 5:6 /root/f")
        for i, go in enumerate(("start", "resume", "start")):
            if i == 2:
                do(name, "pause")
            do(name, "stop")
            assert rests(name), get(name)
            assert do(name, "stop", want=409)["code"] == "DOCKER::SANDBOX_NOT_RUNNING"
            (SERVER.restart, SERVER.kill9, lambda: None)[i]()
            if i == 1:
                SERVER.start()
            assert rests(name), get(name)
            do(name, go)
            assert state(name) == "Running", get(name)
            said = run(name, "cat /root/f; stat -c %u:%g /root/f; wc -l < /root/runs; echo $MY")
            assert said.split() == ["kept", "5:6", str(i + 2), "own"], said
            assert do(name, "start", want=409)["code"] == "SANDBOX::NOT_STOPPED"
        ENGINE.request("POST", f"/containers/sandbox-{name}/kill")  # it is watched again
        wait_for(lambda: state(name) == "Failed", "the end of a killed container", 20)
        do(name, "start")
        assert run(name, "cat /root/f") == "kept"
        do(name, "stop")
        ENGINE.request("POST", f"/containers/sandbox-{name}/start")  # by somebody else
        SERVER.restart()
        wait_for(lambda: state(name) == "Running", "the state", 20)
        assert run(name, "cat /root/f") == "kept"
    assert not has_container(name)


def expire(name):
    status, _, body = SERVER.request(
        "POST", f"/v1/sandboxes/{name}/renew-expiration",
        {"expiresAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 8))})
    assert status == 200, (status, body)
    wait_for(lambda: get(name)["status"]["reason"] == "STOPPED", "its expiry")


def expiry_may_stop():
    name = create(persistent=True, onExpiry="stop")
    run(name, "echo kept > /root/f")
    expire(name)
    do(name, "start")
    assert run(name, "cat /root/f") == "kept"
    delete(name)


def a_request_starts_one_that_is_stopped():
    with DockerServer(*PROGRAMS, engine=ENGINE,
                      config={"runtime": {"auto_resume_seconds": 120}}) as server:
        name = create(server, persistent=True)
        run(name, "echo kept > /root/f", server)
        assert server.request("POST", f"/v1/sandboxes/{name}/stop")[0] == 202
        assert get(name, server)["status"]["reason"] == "STOPPED"
        assert run(name, "cat /root/f", server) == "kept"
        assert state(name, server) == "Running"
        delete(name, server)


def a_rollback_returns_to_the_files_in_place():
    volume = {"name": "v", "mountPath": "/data", "pvc": {
        "claimName": "mine", "createIfNotExists": True, "deleteOnSandboxTermination": True}}
    for persistent in (False, True):
        with sandbox(persistent=persistent, volumes=[volume], env={"MY": "own"}) as name:
            run(name, "echo good > /root/f; echo kept > /data/f")
            saved = snapshot(name)
            run(name, "echo bad > /root/f; touch /root/new; (sleep 1000 >/dev/null 2>&1 &)")
            before = get(name)
            do(name, "rollback", {"snapshotId": saved})
            after = get(name)
            assert (after["status"]["state"], after["expiresAt"]) == \
                ("Running", before["expiresAt"]), after
            said = run(name, "cat /root/f /data/f; ls /root; echo $MY; "
                             "ps | grep -c '[1]000$'; true")
            assert said.split() == ["good", "kept", "f", "own", "0"], said
            if persistent:
                run(name, "echo new > /root/f")
                do(name, "stop")
                do(name, "start")
                assert run(name, "cat /root/f") == "new"
                do(name, "stop")
            do(name, "rollback", {"snapshotId": saved})
            assert run(name, "cat /root/f") == "good"
        assert ENGINE.request("GET", "/volumes/mine")[0] == 404
        assert SERVER.request("DELETE", f"/v1/snapshots/{saved}")[0] == 204


# --- faults ---

def files_that_somebody_removed_are_not_promised():
    name, other = create(persistent=True), create(persistent=True)
    for one in (name, other):
        do(one, "stop")
        ENGINE.request("DELETE", f"/containers/sandbox-{one}")
    wait_for(lambda: state(name) == state(other) == "Failed", "the loss", 20)
    assert get(other)["status"]["reason"] == "SANDBOX_LOST", get(other)
    body = do(name, "start", want=409)
    assert "was removed, and its files with it" in body["message"], body
    body = do(name, "stop", want=409)
    assert "its files with it" in body["message"], body
    delete(name)
    delete(other)
    an_expired_one_stays_lost()


def an_expired_one_stays_lost():
    name = create(persistent=True, onExpiry="stop")
    expire(name)
    ENGINE.request("DELETE", f"/containers/sandbox-{name}")
    wait_for(lambda: state(name) == "Failed", "the loss", 20)
    status = get(name)["status"]
    assert status["reason"] == "SANDBOX_LOST", status
    time.sleep(3)
    assert get(name)["status"] == status, get(name)
    SERVER.kill9()
    SERVER.start()
    time.sleep(2)
    assert get(name)["status"] == status, get(name)
    delete(name)


def is_running(name):
    return ENGINE.inspect(name)["State"]["Running"]


def a_stop_or_start_cut_by_kill9_loses_nothing():
    name = create(persistent=True)
    run(name, "echo kept > /root/f")
    seen = set()
    for delay in (0, 0.05, 0.1, 0.2, 0.3, 0.6):
        for what in ("stop", "start"):
            connection = SERVER.connection()
            connection.request("POST", f"/v1/sandboxes/{name}/{what}",
                               headers={"OPEN-SANDBOX-API-KEY": SERVER.api_key})
            time.sleep(delay)
            SERVER.kill9()
            connection.close()
            SERVER.start()
            wait_for(lambda: is_running(name) == (state(name) == "Running"), "one state", 20)
            status, runs = get(name)["status"], is_running(name)
            seen.add((what, status["state"], status["reason"]))
            if not runs:
                do(name, "start")
            assert run(name, "cat /root/f") == "kept"
    print(f"# found after kill -9: {sorted(seen)}")
    delete(name)
    assert not SERVER.containers(), SERVER.containers()


def a_container_killed_or_removed_behind_the_servers_back_is_told():
    name, other = create(), create()
    ENGINE.request("POST", f"/containers/sandbox-{name}/kill")
    wait_for(lambda: state(name) == "Failed", "the end of a killed container", 20)
    ENGINE.request("DELETE", f"/containers/sandbox-{other}?force=1")
    wait_for(lambda: state(other) == "Failed", "the end of a removed container", 20)
    delete(name)
    delete(other)


def a_container_paused_behind_the_servers_back_is_told():
    with sandbox() as name:
        ENGINE.request("POST", f"/containers/sandbox-{name}/pause")
        wait_for(lambda: state(name) == "Paused", "the state", 20)
        ENGINE.request("POST", f"/containers/sandbox-{name}/unpause")
        wait_for(lambda: state(name) == "Running", "the state", 20)


def sandboxes_outlive_the_server():
    running, paused, doomed = create(), create(), create()
    run(running, "echo still > /tmp/here")
    SERVER.request("POST", f"/v1/sandboxes/{paused}/pause")
    SERVER.wait_state(paused, "Paused")
    SERVER.kill9()
    ENGINE.request("POST", f"/containers/sandbox-{doomed}/kill")
    SERVER.start()
    assert (state(running), state(paused), state(doomed)) == ("Running", "Paused", "Failed")
    assert run(running, "cat /tmp/here") == "still"
    ENGINE.request("POST", f"/containers/sandbox-{running}/kill")  # and is watched again
    wait_for(lambda: state(running) == "Failed", "the end after the restart", 20)
    for name in (running, paused, doomed):
        delete(name)
    assert not SERVER.containers()


def a_create_cut_by_kill9_leaves_no_orphan():
    seen = set()
    for delay in (0, 0.02, 0.05, 0.1, 0.2, 0.3):
        connection = SERVER.connection()
        connection.request("POST", "/v1/sandboxes", body=json.dumps(
            {"image": {"uri": IMAGE}, "entrypoint": SLEEP, "timeout": 600,
             "resourceLimits": {"cpu": "1", "memory": "128Mi"}}),
            headers={"Content-Type": "application/json", "OPEN-SANDBOX-API-KEY": SERVER.api_key})
        time.sleep(delay)
        SERVER.kill9()
        connection.close()
        SERVER.start()
        items = SERVER.request("GET", "/v1/sandboxes")[2]["items"]
        wait_for(lambda: {c["Labels"]["opensandbox.io/id"] for c in SERVER.containers()} <=
                 {i["id"] for i in SERVER.request("GET", "/v1/sandboxes")[2]["items"]},
                 "orphans to be removed")
        for item in items:
            seen.add(item["status"]["state"])
            delete(item["id"])
        assert not SERVER.containers(), SERVER.containers()
    print(f"# found after kill -9: {sorted(seen)}")


def a_restarted_engine_loses_nothing():
    name = create()
    ENGINE.stop(signal.SIGKILL)
    status, _, body = SERVER.request("POST", f"/v1/sandboxes/{name}/pause")
    assert (status, body["code"]) == (503, "SERVICE_UNAVAILABLE"), (status, body)
    assert state(name) == "Running"  # it does run, and nobody says otherwise
    assert run(name, "echo alone") == "alone"
    status, body = post()
    assert (status, body["code"]) == (503, "SERVICE_UNAVAILABLE"), (status, body)
    assert "Docker engine" in body["message"], body
    ENGINE.start()
    wait_for(lambda: state(name) == "Failed", "the end that the engine's end was for it", 60)
    with sandbox() as other:
        assert run(other, "echo again") == "again"
    delete(name)


def an_engine_that_stands_still_is_no_end():
    with sandbox() as name:
        ENGINE.process.send_signal(signal.SIGSTOP)
        try:
            assert run(name, "echo through") == "through"  # the way in needs no engine
            assert state(name) == "Running"
        finally:
            ENGINE.process.send_signal(signal.SIGCONT)
        assert run(name, "echo after") == "after"


def a_volume_of_execd_that_was_pruned_is_made_again():
    assert not SERVER.containers()
    for volume in ENGINE.get("/volumes")["Volumes"] or []:
        if volume["Name"].startswith("opensandbox-execd-"):
            status, body = ENGINE.request("DELETE", f"/volumes/{volume['Name']}")
            assert status == 204, (status, body)
    with sandbox() as name:
        assert run(name, "echo there") == "there"


def two_servers_on_one_engine_keep_apart():
    with DockerServer(*PROGRAMS, engine=ENGINE) as second:
        mine, theirs = create(), create(second)
        assert [i["id"] for i in second.request("GET", "/v1/sandboxes")[2]["items"]] == [theirs]
        SERVER.restart()
        second.restart()
        assert (state(mine), state(theirs, second)) == ("Running", "Running")
        assert run(mine, "echo a") == "a" and run(theirs, "echo b", second) == "b"
        delete(theirs, second)
        delete(mine)


def faults_at_random_moments_leave_nothing_wrong():
    """tests/drill/docker has more rounds."""
    for seed in (1, 5, 9):
        docker_faults.round_of(SERVER, ENGINE, IMAGE, seed)


TESTS = [
    commands_and_files_work, a_port_of_the_sandbox_is_reached_through_the_server,
    labels_name_and_limits_are_those_of_the_contract, a_limit_of_disk_that_is_not_kept_is_told,
    execd_is_mounted_and_not_copied,
    an_image_without_a_shell_works, others_need_the_token_of_execd, refuses_what_cannot_be,
    pause_stops_its_processes, an_end_is_terminated_or_failed_with_its_reason, logs_have_times,
    a_sandbox_expires, named_volumes_outlive_a_sandbox_or_go_with_it,
    host_paths_are_mounted_if_allowed, a_snapshot_restores_files_and_no_secrets,
    a_persistent_sandbox_stops_and_starts, a_rollback_returns_to_the_files_in_place,
    files_that_somebody_removed_are_not_promised,
    a_container_killed_or_removed_behind_the_servers_back_is_told,
    a_container_paused_behind_the_servers_back_is_told, sandboxes_outlive_the_server,
    a_create_cut_by_kill9_leaves_no_orphan, expiry_may_stop,
    a_request_starts_one_that_is_stopped, a_stop_or_start_cut_by_kill9_loses_nothing,
    a_restarted_engine_loses_nothing,
    an_engine_that_stands_still_is_no_end, a_volume_of_execd_that_was_pruned_is_made_again,
    two_servers_on_one_engine_keep_apart, works_in_the_network_of_the_host,
    the_example_of_init_config_works_unchanged, works_in_a_network_of_the_user,
    an_image_is_pulled_with_its_progress_and_credentials,
    faults_at_random_moments_leave_nothing_wrong,
]

# Those that have nothing to do with dockerd itself: test_docker_podman.py.
ON_PODMAN = TESTS[:22]
ON_GVISOR = TESTS[:21]  # test_docker_gvisor.py


def main():
    global ENGINE, SERVER
    skip_all(why_not())
    tap = Tap()
    with DockerEngine() as ENGINE:
        ENGINE.import_busybox(IMAGE)
        config = {"storage": {"allowed_host_paths": [str(ENGINE.folder / "shared")]}}
        with DockerServer(*PROGRAMS, config=config, engine=ENGINE) as SERVER:
            for test in TESTS:
                tap.check(test.__name__, test)
            if tap.failed:
                print("# " + SERVER.log()[-6000:].replace("\n", "\n# "))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
