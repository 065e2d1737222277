"""Images: sandboxes of images that the server pulls, imports and keeps.

Usage: test_images.py SERVER BROKER EXECD SANDBOXCTL UNPACK. TAP on standard output. Needs root.
"""
import asyncio
import contextlib
import gzip
import hashlib
import http.server
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import threading
import urllib.parse

from opensandbox import Sandbox
from opensandbox.config import ConnectionConfig
from opensandbox.models.sandboxes import SandboxImageAuth, SandboxImageSpec

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from registry_process import HTPASSWD, Registry, run, serving  # noqa: E402
from server_process import SECONDS_MAX, ServerProcess, wait_for, why_not  # noqa: E402
from server_use import Gateway  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:5]]
PULLS = {"pull_policy": "IfNotPresent"}
GUIDES = pathlib.Path(__file__).resolve().parents[2] / "docs/guides"
TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/images"
UNPACK = os.path.abspath(sys.argv[5])
TOOLS = "cat echo env id ls mkdir pwd sh sleep stat tail touch wc".split()
PASSWD = "root:x:0:0:root:/root:/bin/sh\nme:x:1000:1001:Me:/home/me:/bin/sh\n"


def make_root(folder):
    """Directories of two layers: tools, and an account with a working directory."""
    tools, home = folder / "tools", folder / "home"
    (tools / "bin").mkdir(parents=True)
    (tools / "bin/busybox").write_bytes(pathlib.Path("/bin/busybox").read_bytes())
    (tools / "bin/busybox").chmod(0o755)
    for name in TOOLS:
        (tools / "bin" / name).symlink_to("busybox")
    for name in ("etc", "work", "home/me", "tmp", "proc", "sys", "dev", "root"):
        (home / name).mkdir(parents=True)
    (home / "etc/passwd").write_text(PASSWD)
    (home / "etc/group").write_text("root:x:0:\nstaff:x:1001:\nother:x:1002:me\n")
    (home / "work/file").write_text("of the image\n")
    (home / "root").chmod(0o700)
    for name in ("work", "home/me"):
        os.chown(home / name, 1000, 1001)
    return tools, home


def make_images(folder):
    """An OCI layout with `app` and, for each number, `many-N` of that many layers. Its path."""
    layout = folder / "layout"
    tools, home = make_root(folder)
    run("umoci", "init", "--layout", layout)
    run("umoci", "new", "--image", f"{layout}:app")
    run("umoci", "insert", "--image", f"{layout}:app", tools, "/")
    run("umoci", "insert", "--image", f"{layout}:app", home, "/")
    for i in range(3):
        small = folder / "small"
        small.write_text(f"layer {i}\n")
        run("umoci", "insert", "--image", f"{layout}:app", small, f"/layers/{i}")
    run("umoci", "config", "--image", f"{layout}:app", "--config.env", "GREETING=hello",
        "--config.env", "PATH=/bin", "--config.user", "me", "--config.workingdir", "/work",
        "--config.cmd", "/bin/sh", "--config.exposedports", "8080/tcp")
    return layout


class World:
    def __init__(self, server, folder):
        self.server, self.folder = server, folder

    def registry(self, **options):
        return Registry(self.folder / "registry", **options)

    def ask(self, image, auth=None, **fields):
        """The answer to a create."""
        source = {"uri": image, **({"auth": auth} if auth else {}), **fields.pop("source", {})}
        request = {"image": source, "entrypoint": ["tail", "-f", "/dev/null"],
                   "resourceLimits": {"cpu": "1", "memory": "512Mi"}, "timeout": 600, **fields}
        return self.server.request("POST", "/v1/sandboxes", request)

    def create(self, image, **fields):
        status, _, body = self.ask(image, **fields)
        assert status == 202, (status, body)
        self.server.wait_state(body["id"], "Running")
        return body["id"]

    def refused(self, image, code, *words, **fields):
        status, _, body = self.ask(image, **fields)
        if status == 202:  # it took its time, and says so in its state
            wait_for(lambda: self.get(body["id"])["status"]["state"] == "Failed", "the failure")
            message = self.get(body["id"])["status"]["message"]
        else:
            assert status >= 400 and (not code or (status, body["code"]) == (500, code)), \
                (status, body)
            message = body["message"]
        for word in words:
            assert word in message, message
        return message

    def api(self, method, path, body=None, headers=None):
        return self.server.request(method, f"/v1/images/{path}".rstrip("/"), body, headers)

    def get(self, sandbox_id):
        return self.server.request("GET", f"/v1/sandboxes/{sandbox_id}")[2]

    def output(self, sandbox_id, line, **fields):
        with Gateway(self.server, sandbox_id) as gateway:
            return gateway.run(line, **fields)


PULL_FAILED = "DOCKER::SANDBOX_IMAGE_PULL_FAILED"


def entry_output(w, sandbox_id):
    """What its entrypoint printed: lines without their times."""
    path = f"/v1/sandboxes/{sandbox_id}/diagnostics/logs?tail=50"
    text = w.server.request("GET", path)[2]
    text = text.decode() if isinstance(text, bytes) else text
    return [line.split(" ", 1)[-1] for line in text.splitlines()]


# --- create ---


def creates_by_name(w):
    with w.registry() as registry:
        registry.push(LAYOUT, "me/app:1")
        one = w.create(f"{registry.host}/me/app:1")
        assert w.output(one, "cat /work/file /layers/0 /layers/2") == \
            "of the image\nlayer 0\nlayer 2"
        assert w.get(one)["image"]["uri"] == f"{registry.host}/me/app:1"
    # From here on without a registry: the image is here.
    two = w.create(f"{registry.host}/me/app:1")
    assert w.output(two, "cat /work/file") == "of the image"
    w.output(two, "echo changed > /layers/0", uid=0)
    assert w.output(one, "cat /layers/0") == "layer 0"


def applies_the_image_configuration(w):
    with w.registry() as registry:
        registry.push(LAYOUT, "me/app:1")
        line = "id -u; id -g; pwd; echo $GREETING $HOME $PATH $MORE; sleep 1000"
        sandbox = w.create(f"{registry.host}/me/app:1", entrypoint=["sh", "-c", line],
                           env={"MORE": "of the request"})
        wait_for(lambda: len(entry_output(w, sandbox)) >= 4, "the entrypoint's output")
        assert entry_output(w, sandbox)[-4:] == \
            ["1000", "1001", "/work", "hello /home/me /bin of the request"], \
            entry_output(w, sandbox)
        # The request's variables win.
        other = w.create(f"{registry.host}/me/app:1", env={"GREETING": "bye"},
                         entrypoint=["sh", "-c", "echo $GREETING; sleep 1000"])
        wait_for(lambda: entry_output(w, other)[-1:] == ["bye"], "the entrypoint's output")


def push_as(registry, name, *config):
    """The image `app` with another configuration."""
    run("umoci", "tag", "--image", f"{LAYOUT}:app", "variant")
    run("umoci", "config", "--image", f"{LAYOUT}:variant", *config)
    registry.push(LAYOUT, name, image="variant")
    return f"{registry.host}/{name}"


def everything_runs_as_the_user_of_the_image(w):
    """Under the entrypoint that SDKs send, which never runs: commands, sessions, files."""
    with w.registry() as registry:
        registry.push(LAYOUT, "me/app:1")
        one = w.create(f"{registry.host}/me/app:1")
    with Gateway(w.server, one) as gateway:
        whom = "echo $(id -u) $(id -g) $(pwd) $HOME $GREETING"
        assert gateway.run(whom) == "1000 1001 /work /home/me hello"
        assert gateway.run("id -G") == "1001 1002", gateway.run("id -G")
        assert gateway.run("id -u", uid=0, gid=0) == "0"
        assert gateway.run("pwd", cwd="/etc") == "/etc"
        made = gateway.call("POST", "/session", {"cwd": "/home/me/made"})[1]
        session = json.loads(made)["session_id"]
        line = json.dumps({"command": "id -u; pwd; touch x; echo $?"})
        assert gateway.printed(gateway.send("POST", f"/session/{session}/run", line)) == \
            "1000\n/home/me/made\n0"
        status, body = gateway.call("POST", "/session", {"cwd": "/etc/made"})
        assert status == 500 and b"ermission denied" in body, (status, body)
        gateway.upload("/home/me/uploaded", b"text")
        gateway.upload("relative", b"text")
        assert gateway.run("stat -c '%u %g %n' /home/me/uploaded /work/relative /home/me/made") == \
            "1000 1001 /home/me/uploaded\n1000 1001 /work/relative\n1000 1001 /home/me/made"
        assert gateway.download("relative") == b"text"
        gateway.run("umask 077; echo secret > /root/secret", uid=0, gid=0)
        status, body = gateway.call("GET", "/files/download?path=/root/secret")
        assert status != 200 and b"ermission denied" in body, (status, body)
        info = json.loads(gateway.ask("GET", "/files/info?path=$HOME/uploaded"))
        assert [entry["owner"] for entry in info.values()] == ["me"], info
        # As root on request only.
        assert gateway.ask("GET", "/v1/filesystem/0/0/files/download?path=/root/secret") == \
            b"secret\n"


def users_and_directories_of_images(w):
    with w.registry() as registry:
        registry.push(LAYOUT, "me/app:1")
        rows = [
            # user, working directory, what a command sees
            ("1234", "/work", "1234 0 /work /"),
            ("1234:5678", "", "1234 5678 / /"),
            ("me:other", "/made/below", "1000 1002 /made/below /home/me"),
            ("0", "/made/below", "0 0 /made/below /root"),
        ]
        for number, (user, cwd, expected) in enumerate(rows):
            name = push_as(registry, f"me/app:u{number}", "--config.user", user,
                           "--config.workingdir", cwd)
            one = w.create(name)
            seen = w.output(one, "echo $(id -u) $(id -g) $(pwd) $HOME")
            assert seen == expected, (user, cwd, seen)
            assert cwd != "/made/below" or w.output(one, "stat -c '%u %a' .") == "0 755"
        for user, words in (("nobody-here", ("'nobody-here'", "/etc/passwd")),
                            ("me:nogroup-here", ("'nogroup-here'", "/etc/group"))):
            name = push_as(registry, "me/app:wrong", "--config.user", user)
            w.refused(name, None, *words, source={"pullPolicy": "Always"})


def names_what_is_wrong(w):
    with w.registry() as registry:
        registry.push(LAYOUT, "me/app:1")
        w.refused(f"{registry.host}/me/app:2", PULL_FAILED, registry.host, "404",
                  "manifest unknown")
        w.refused(f"{registry.host}/me/app:1", PULL_FAILED, "there is no image",
                  source={"pullPolicy": "Never"})
    w.refused(f"{registry.host}/me/app:1", PULL_FAILED, registry.host, "embedded.images",
              "/v1/images/import")
    for name in ("Upper/Case", "a b", "x@sha256:123"):
        status, _, body = w.ask(name)
        assert status == 400 and "image.uri" in body["message"], (name, status, body)
    status, _, body = w.ask("x", source={"pullPolicy": "sometimes"})
    assert status == 400 and "pullPolicy" in body["message"], (status, body)
    assert w.server.request("GET", "/v1/sandboxes?state=Running")[2]["items"] == []


def blob_name(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Liar:
    """A registry of one image, whose answers a test changes: by path, status, headers, body."""

    def __init__(self, arch=None, layer=None, archive=b"\0" * 10240):
        self.layer = layer or gzip.compress(archive)
        machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
        config = json.dumps({"architecture": arch or machine, "os": "linux", "config": {},
                             "rootfs": {"type": "layers", "diff_ids": [blob_name(archive)]}})
        self.blobs = {blob_name(data): data for data in (config.encode(), self.layer)}
        kind = "application/vnd.oci.image"
        self.manifest = {
            "schemaVersion": 2, "mediaType": f"{kind}.manifest.v1+json",
            "config": {"mediaType": f"{kind}.config.v1+json", "size": len(config),
                       "digest": blob_name(config.encode())},
            "layers": [{"mediaType": f"{kind}.layer.v1.tar+gzip", "size": len(self.layer),
                        "digest": blob_name(self.layer)}]}
        self.kind = self.manifest["mediaType"]
        self.circle = self.cut = False
        self.gate = None  # an event: the second half of the layer waits for it

    def answer(self, path):
        name = path.rpartition("/")[2]
        if self.circle:
            return 307, {"Location": path}, b""
        if "/manifests/" in path:
            return 200, {"Content-Type": self.kind}, json.dumps(self.manifest).encode()
        if name in self.blobs:
            return 200, {}, self.blobs[name]
        return 200, {}, b"{}"  # of /v2/

    def handler(self):
        liar = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                status, headers, body = liar.answer(self.path)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                if liar.gate and body is liar.layer:
                    self.wfile.write(body[:len(body) // 2])
                    liar.gate.wait(SECONDS_MAX)
                    body = body[len(body) // 2:]
                self.wfile.write(body[:-10] if liar.cut and "/blobs/" in self.path else body)
                self.close_connection = liar.cut

            def log_message(self, *_):
                pass

        return Handler


def lies():
    """(registry, words of the message) for each way to lie."""
    other = Liar()
    other.blobs[blob_name(other.layer)] = other.layer[:-1] + b"x"
    yield other, ["digest"]
    circle = Liar()
    circle.circle = True
    yield circle, ["redirect"]
    cut = Liar()
    cut.cut = True
    yield cut, []
    larger = Liar()
    larger.manifest["layers"][0]["size"] += 1
    yield larger, ["bytes"]
    other_type = Liar()
    other_type.kind = "application/vnd.oci.image.index.v1+json"
    yield other_type, ["index"]
    page = Liar()
    page.kind, page.manifest = "text/html", "<html>"
    yield page, []
    foreign = Liar()
    foreign.kind = "application/vnd.oci.image.index.v1+json"
    foreign.manifest = {"schemaVersion": 2, "mediaType": foreign.kind, "manifests": [{
        "mediaType": "application/vnd.oci.image.manifest.v1+json", "size": 2,
        "digest": blob_name(b"{}"), "platform": {"os": "linux", "architecture": "s390x"}}]}
    yield foreign, ["s390x"]
    yield Liar(layer=gzip.compress(b"x" * 10240)), ["layer"]  # neither an archive nor its diff id


def a_lying_registry_is_named_and_leaves_nothing(w):
    for liar, words in lies():
        with serving(liar.handler()) as server:
            host = f"localhost:{server.server_port}"
            w.refused(f"{host}/me/app:1", PULL_FAILED, host, *words)
        assert w.api("GET", "")[2]["items"] == []
        assert w.api("POST", "prune", {"maxBytes": 0})[0] == 200
        place = w.server.state / "server/images"
        wait_for(lambda p=place: not [*(p / "layers").iterdir(), *(p / "images").iterdir(),
                                      *(p / "blobs").iterdir()], "the store to be empty")


def a_create_tells_how_far_its_pull_is(w):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(ROOTS[0], ".")
    slow = Liar(archive=archive.getvalue())
    slow.gate = threading.Event()
    with serving(slow.handler()) as server:
        name = f"localhost:{server.server_port}/me/app:1"
        made = [w.ask(name) for _ in range(2)]  # one pull for both
        try:
            assert {(status, body["status"]["state"]) for status, _, body in made} == {
                (202, "Pending")}, made
            first, second = (body["id"] for _, _, body in made)
            told = re.compile(r"0 of 1 layers done, [\d.]+ of [\d.]+ MB received")
            wait_for(lambda: told.search(w.get(first)["status"]["message"]), "the progress")
            assert w.server.request("DELETE", f"/v1/sandboxes/{second}")[0] == 204
        finally:
            slow.gate.set()
        w.server.wait_state(first, "Running")
        assert w.server.request("DELETE", f"/v1/sandboxes/{first}")[0] == 204
        assert w.server.request("GET", f"/v1/sandboxes/{second}")[0] == 404


def asks_by_password(w):
    (w.folder / "htpasswd").write_text(HTPASSWD)
    with w.registry(auth=f"htpasswd:\n  realm: test\n  path: {w.folder}/htpasswd") as registry:
        registry.push(LAYOUT, "me/app:1", "--dest-creds=me:pw")
        name = f"{registry.host}/me/app:1"
        w.refused(name, PULL_FAILED, registry.host, "no credentials")
        w.refused(name, PULL_FAILED, registry.host, "401",
                  auth={"username": "me", "password": "not-the-password"})
        w.create(name, auth={"username": "me", "password": "pw"})
    files = [path for path in w.server.state.rglob("*")
             if path.is_file() and path.stat().st_size < 1 << 20]
    for path in (*files, w.server.log_path):
        with contextlib.suppress(FileNotFoundError):
            assert b"not-the-password" not in path.read_bytes(), path


def survives_a_restart(w):
    with w.registry() as registry:
        registry.push(LAYOUT, "me/app:1")
        one = w.create(f"{registry.host}/me/app:1")
    w.server.restart()
    assert w.output(one, "cat /work/file") == "of the image"
    two = w.create(f"{registry.host}/me/app:1")
    w.server.kill9()
    w.server.start()
    assert w.output(two, "cat /work/file") == "of the image"
    w.create(f"{registry.host}/me/app:1")


def snapshots_stand_on_images(w):
    with w.registry() as registry:
        registry.push(LAYOUT, "me/app:1")
        one = w.create(f"{registry.host}/me/app:1")
    w.output(one, "echo more > /work/more")
    status, _, body = w.server.request("POST", f"/v1/sandboxes/{one}/snapshots", {})
    assert status == 202, (status, body)
    path = f"/v1/snapshots/{body['id']}"
    wait_for(lambda: w.server.request("GET", path)[2]["status"]["state"] == "Ready", "the snapshot")
    assert w.server.request("DELETE", f"/v1/sandboxes/{one}")[0] == 204
    w.server.restart()
    status, _, made = w.server.request("POST", "/v1/sandboxes", {
        "snapshotId": body["id"], "resourceLimits": {}, "timeout": 600})
    assert status == 202, (status, made)
    w.server.wait_state(made["id"], "Running")
    assert w.output(made["id"], "cat /work/file /work/more; echo $GREETING") == \
        "of the image\nmore\nhello"


def pools_pull_and_hand_out_as_the_user_of_the_image(w):
    """Whose user may not write where the variables of a claim are kept."""
    with w.registry() as registry:
        registry.push(LAYOUT, "me/app:1")
        status, _, body = w.server.request("POST", "/v1/pools", {
            "name": "p", "capacitySpec": {"bufferMin": 1, "bufferMax": 1, "poolMin": 0,
                                          "poolMax": 5},
            "template": {"image": {"uri": f"{registry.host}/me/app:1"}, "resourceLimits": {},
                         "entrypoint": ["tail", "-f", "/dev/null"],
                         "warmUp": "echo hot >/work/warm"}})
        assert status == 201, (status, body)
        status, _, body = w.server.request("POST", "/v1/sandboxes", {
            "extensions": {"poolRef": "p"}, "timeout": 600, "env": {"MINE": "it's"}})
        assert status == 202, (status, body)
    seen = w.output(body["id"], "cat file warm; echo $GREETING $MINE; id -u; "
                                "cat /opt/opensandbox/.env 2>/dev/null || echo closed")
    assert seen == "of the image\nhot\nhello it's\n1000\nclosed", seen
    assert w.server.request("DELETE", f"/v1/sandboxes/{body['id']}")[0] == 204
    assert w.server.request("DELETE", "/v1/pools/p")[0] == 204


def an_empty_volume_is_given_to_the_user_of_the_image(w):
    """One that holds something, or is read-only there, keeps its owner."""
    def mount(name, **fields):
        pvc = {"claimName": name, **({"storage": "32Mi"} if name == "sized" else {})}
        return {"volumes": [{"name": "v", "mountPath": "/data", "pvc": pvc, **fields}]}

    with w.registry() as registry:
        registry.push(LAYOUT, "me/app:1")
        app, root = f"{registry.host}/me/app:1", push_as(registry, "me/app:root",
                                                         "--config.user", "0")
        owner = "stat -c '%u %g' /data"
        assert w.server.request("POST", "/v1/volumes", {"name": "made"})[0] == 201
        for name in ("made", "new", "sized"):
            first = w.create(app, **mount(name))
            assert w.output(first, f"touch /data/f; {owner} /data/f") == "1000 1001\n1000 1001"
            other = w.create(root, **mount(name))
            assert w.output(other, f"touch /data/g; {owner} /data/g") == "1000 1001\n0 0"
        keeper = w.create(root, **mount("kept"))
        assert w.output(keeper, owner) == "0 0"
        reader = w.create(app, **mount("kept", readOnly=True))
        assert w.output(reader, owner) == "0 0"
        w.output(keeper, "mkdir /data/sub; touch /data/file")
        for fields in ({}, {"subPath": "sub"}, {"subPath": "file"}):
            late = w.create(app, **mount("kept", **fields))
            assert w.output(late, owner) == "0 0", fields


# --- the routes of images ---


def quote(name):
    return urllib.parse.quote(name, safe="")


def tree_of(path):
    """Every file of a directory: mode, owner, kind, time, content."""
    found = {}
    for item in sorted(path.rglob("*")):
        st = item.lstat()
        content = os.readlink(item) if item.is_symlink() else \
            item.read_bytes() if item.is_file() else b""
        # A directory that is in no layer itself has the time at which it was made.
        mtime = int(st.st_mtime) if item.name != "layers" else 0
        found[str(item.relative_to(path))] = (st.st_mode, st.st_uid, st.st_gid, mtime, content)
    return found


def unpacked(folder, archive, name):
    """The tree of an OCI archive, unpacked by umoci."""
    layout = folder / f"{name}-layout"
    run("skopeo", "copy", "--insecure-policy", f"oci-archive:{archive}", f"oci:{layout}:x")
    run("umoci", "unpack", "--image", f"{layout}:x", folder / f"{name}-bundle")
    return tree_of(folder / f"{name}-bundle/rootfs")


def shows_and_removes(w):
    with w.registry() as registry:
        registry.push(LAYOUT, "me/app:1")
        name = f"{registry.host}/me/app:1"
        status, _, image = w.api("POST", "pull", {"image": {"uri": name}})
        assert status == 200, (status, image)
        assert image["names"] == [name] and image["layers"] == 5 and not image["inUse"], image
        assert image["user"] == "me" and image["workdir"] == "/work", image
        assert image["exposedPorts"] == ["8080/tcp"] and image["cmd"] == ["/bin/sh"], image
        assert "GREETING=hello" in image["env"] and image["platform"]["os"] == "linux", image
    status, _, page = w.api("GET", "")
    assert status == 200 and page["items"] == [image], page
    assert page["pagination"]["totalItems"] == 1, page
    for known in (name, image["id"], image["id"][7:], image["id"][7:19]):
        assert w.api("GET", quote(known))[2] == image, known
    for unknown in ("me/none", image["id"][7:18], "sha256:" + "0" * 64):
        status, _, body = w.api("GET", quote(unknown))
        assert (status, body["code"]) == (404, "IMAGE::NOT_FOUND"), (unknown, body)
    assert w.api("GET", quote("A B"))[0] == 400
    sandbox = w.create(name)
    assert w.api("GET", quote(name))[2]["inUse"]
    status, _, body = w.api("DELETE", quote(name))
    assert (status, body["code"]) == (409, "IMAGE::IN_USE") and " 1 " in body["message"], body
    assert w.api("POST", "prune", {"maxBytes": 0})[2]["removed"] == []
    assert w.output(sandbox, "cat /work/file") == "of the image"
    assert w.server.request("DELETE", f"/v1/sandboxes/{sandbox}")[0] == 204
    assert w.api("DELETE", quote(name))[0] == 204
    assert w.api("DELETE", quote(name))[0] == 404
    assert list((w.server.state / "server/images/blobs").iterdir()) == []
    layers = [path.name for path in (w.server.state / "server/images/layers").iterdir()]
    assert [name for name in layers if len(name) == 64] == [], layers  # others are being erased


def pulls_with_events(w):
    with w.registry() as registry:
        registry.push(LAYOUT, "me/app:1")
        name = f"{registry.host}/me/app:1"
        accept = {"Accept": "text/event-stream"}
        status, headers, data = w.api("POST", "pull", {"image": {"uri": name}}, accept)
        assert status == 200 and headers["Content-Type"].startswith("text/event-stream"), headers
        events = [json.loads(line[5:]) for line in data.decode().splitlines()
                  if line.startswith("data:")]
        assert events[-1]["type"] == "done" and events[-1]["image"]["names"] == [name], events
        assert any(e["type"] == "progress" and e["bytesTotal"] > 0 for e in events), events
        data = w.api("POST", "pull", {"image": {"uri": name + "x"}}, accept)[2].decode()
        last = json.loads(data.strip().splitlines()[-1][5:])
        assert last["type"] == "error" and last["code"] == "IMAGE::NOT_FOUND", last
        status, _, body = w.api("POST", "pull", {"image": {"uri": name + "x"}})
        assert (status, body["code"]) == (404, "IMAGE::NOT_FOUND"), body
    for bad in ({}, {"image": {"uri": "A B"}}, {"image": {"uri": "x"}, "policy": "x"},
                {"image": {"uri": "x"}, "platform": "/"}):
        assert w.api("POST", "pull", bad)[0] == 400, bad
    assert w.api("POST", "pull", {"image": {"uri": name}, "policy": "Never"})[0] == 200
    status, _, body = w.api("POST", "prune", {"maxBytes": 0})
    assert status == 200 and body["removed"] == [name] and body["freedBytes"] > 1 << 20, body
    assert w.api("POST", "pull", {"image": {"uri": name}, "policy": "Never"})[0] == 404


def imports_archives(w):
    kinds = {"docker": "docker-archive", "oci": "oci-archive"}
    for name, transport in kinds.items():
        archive = w.folder / f"{name}.tar"
        run("skopeo", "copy", "--insecure-policy", f"oci:{LAYOUT}:app",
            f"{transport}:{archive}:example.com/{name}:1")
        status, _, image = w.api("POST", f"import?name=my/{name}", archive.read_bytes())
        assert status == 201 and f"docker.io/my/{name}:latest" in image["names"], image
        sandbox = w.create(f"my/{name}")
        assert w.output(sandbox, "cat /work/file; echo $GREETING") == "of the image\nhello"
    plain = w.folder / "plain.tar.gz"
    run("tar", "-C", ROOTS[0], "-czf", plain, ".")
    status, _, body = w.api("POST", "import", plain.read_bytes())
    assert (status, body["code"]) == (400, "IMAGE::BAD_ARCHIVE"), (status, body)  # without a name
    assert w.api("POST", "import?name=plain:1", plain.read_bytes())[0] == 201
    assert w.output(w.create("plain:1"), "ls /bin/busybox") == "/bin/busybox"
    for bad in (b"", b"not an archive", plain.read_bytes()[:1000]):
        status, _, body = w.api("POST", "import?name=bad:1", bad)
        assert (status, body["code"]) == (400, "IMAGE::BAD_ARCHIVE"), (status, body)
    assert w.api("POST", "import?name=A%20B", b"x")[0] == 400
    assert len(w.api("GET", "")[2]["items"]) == 2 + 1 - 1  # the first two are the same image


def imports_layout_directories(w):
    """A layout is a directory; its tar archive is the body, however its names begin."""
    for words in (["."], ["index.json", "oci-layout", "blobs"]):
        with subprocess.Popen(["tar", "-C", LAYOUT, "-c", *words], stdout=subprocess.PIPE) as tar:
            data = tar.stdout.read()
        status, _, body = w.api("POST", "import", data)
        assert status == 201, (status, body)
        assert w.api("GET", quote("docker.io/library/app:latest"))[0] == 200
        assert w.output(w.create("app"), "cat file") == "of the image"


def saved_image(layers):
    """An archive as `docker save` makes it, of the archives of layers."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    config = json.dumps({"os": "linux", "architecture": machine, "config": {"Env": ["PATH=/bin"]},
                         "rootfs": {"type": "layers", "diff_ids": [blob_name(x) for x in layers]}})
    parts = {f"{i}/layer.tar": layer for i, layer in enumerate(layers)}
    manifest = [{"Config": "config.json", "RepoTags": None, "Layers": list(parts)}]
    return tar_of({**parts, "config.json": config.encode(),
                   "manifest.json": json.dumps(manifest).encode()})


def tar_of(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def images_have_up_to_128_layers(w):
    """And snapshots stand on them, also several above each other."""
    root = io.BytesIO()
    with tarfile.open(fileobj=root, mode="w") as archive:
        for folder in ROOTS:
            archive.add(folder, ".")
    layers = [root.getvalue(), *(tar_of({"common": b"%d\n" % i, f"own-{i}": b"%d\n" % i})
                                 for i in range(1, 128))]
    status, _, body = w.api("POST", "import?name=many:128", saved_image(layers))
    assert (status, body["layers"]) == (201, 128), (status, body)
    status, _, body = w.api("POST", "import?name=many:129",
                            saved_image([*layers, tar_of({"more": b""})]))
    assert status == 400 and "128" in body["message"], (status, body)
    box, made = w.create("many:128"), []
    for i in range(6):
        assert w.output(box, "cat /common /own-1 /own-127; ls / | grep -c own-; ls /work",
                        uid=0) == "127\n1\n127\n127\nfile"
        w.output(box, f"echo {i} > /s{i}", uid=0)
        status, _, body = w.server.request("POST", f"/v1/sandboxes/{box}/snapshots", {})
        path = f"/v1/snapshots/{body['id']}"
        wait_for(lambda p=path: w.server.request("GET", p)[2]["status"]["state"] == "Ready",
                 "the snapshot")
        made.append(path)
        assert w.server.request("DELETE", f"/v1/sandboxes/{box}")[0] == 204
        status, _, body = w.server.request("POST", "/v1/sandboxes", {
            "snapshotId": body["id"], "resourceLimits": {}, "timeout": 600})
        assert status == 202, (status, body)
        box = body["id"]
        w.server.wait_state(box, "Running")
    assert w.output(box, "cat /s[0-5]", uid=0).split() == list("012345")
    for path in ("/v1/sandboxes/" + box, *made):
        assert w.server.request("DELETE", path)[0] == 204, path


def exports_what_it_pulled(w):
    with w.registry() as registry:
        registry.push(LAYOUT, "me/app:1")
        name = f"{registry.host}/me/app:1"
        first = w.api("POST", "pull", {"image": {"uri": name}})[2]
        status, headers, data = w.api("GET", f"{quote(name)}/export")
        assert status == 200 and headers["Content-Type"] == "application/x-tar", headers
        one, two = w.folder / "one.tar", w.folder / "two.tar"
        one.write_bytes(data)
        run("skopeo", "copy", "--insecure-policy", "--dest-tls-verify=false", f"oci-archive:{one}",
            f"docker://{registry.host}/me/copy:1")
        again = w.api("POST", "pull", {"image": {"uri": f"{registry.host}/me/copy:1"}})[2]
        assert again["id"] == first["id"] and len(again["names"]) == 2, again
        two.write_bytes(w.api("GET", f"{quote(again['names'][1])}/export")[2])
        before, after = unpacked(w.folder, one, "one"), unpacked(w.folder, two, "two")
        assert before == after and "work/file" in before, sorted(before)
        # By hand: what the sandbox sees is that tree, too.
        sandbox = w.create(name)
        seen = w.output(sandbox, "stat -c '%a %u %g %n' /work/file /bin/busybox")
        assert seen == "\n".join(f"{before[n][0] & 0o7777:o} {before[n][1]} {before[n][2]} /{n}"
                                 for n in ("work/file", "bin/busybox")), seen
    assert w.api("GET", f"{quote('me/none')}/export")[0] == 404


def make_odd_root(root):
    """One of each kind of file that a layer can have."""
    (root / "dir/below").mkdir(parents=True)
    (root / "dir/file").write_text("text")
    os.link(root / "dir/file", root / "dir/hard")
    (root / "dir/soft").symlink_to("../nowhere")
    (root / "dir/program").write_text("#!/bin/sh\n")
    (root / "dir/program").chmod(0o4755)
    (root / "dir/sticky").mkdir(mode=0o1777)
    (root / "dir/sticky").chmod(0o1777)
    os.mkfifo(root / "dir/fifo", 0o640)
    with open(root / "dir/sparse", "wb") as sparse:
        sparse.truncate(1 << 20)
    long = root / ("long" * 40) / ("name" * 40)
    long.mkdir(parents=True)
    (long / "übergröße").write_text("")
    os.setxattr(root / "dir/file", "user.colour", b"red\0green")
    os.setxattr(root / "dir/program", "security.capability",
                bytes.fromhex("0000000200040000000000000000000000000000"))
    os.chown(root / "dir/below", 1234, 4321)
    for number, path in enumerate(sorted(root.rglob("*"))):
        os.utime(path, (0, 1_000_000_000 + number), follow_symlinks=False)


def odd_tree(path):
    """Of every file all that an image keeps."""
    found = {}
    for item in sorted(path.rglob("*")):
        st = item.lstat()
        attributes = {name: os.getxattr(item, name, follow_symlinks=False)
                      for name in os.listxattr(item, follow_symlinks=False)}
        content = os.readlink(item) if item.is_symlink() else \
            item.read_bytes() if item.is_file() else b""
        found[str(item.relative_to(path))] = (st.st_mode, st.st_uid, st.st_gid, int(st.st_mtime),
                                              attributes, st.st_nlink, content)
    return found


def a_round_trip_changes_nothing(w):
    """Pull, export, skopeo copy, pull, export: modes, owners, attributes, links and times."""
    root, layout = w.folder / "odd", w.folder / "odd-layout"
    root.mkdir()
    make_odd_root(root)
    run("umoci", "init", "--layout", layout)
    run("umoci", "new", "--image", f"{layout}:app")
    run("umoci", "insert", "--image", f"{layout}:app", root, "/")
    trees = []
    with w.registry() as registry:
        registry.push(layout, "me/odd:1")
        for number, name in enumerate((f"{registry.host}/me/odd:1", f"{registry.host}/me/odd:2")):
            assert w.api("POST", "pull", {"image": {"uri": name}})[0] == 200
            archive = w.folder / f"odd{number}.tar"
            archive.write_bytes(w.api("GET", f"{quote(name)}/export")[2])
            run("skopeo", "copy", "--insecure-policy", "--dest-tls-verify=false",
                f"oci-archive:{archive}", f"docker://{registry.host}/me/odd:2")
            bundle = w.folder / f"odd-bundle{number}"
            run("skopeo", "copy", "--insecure-policy", f"oci-archive:{archive}",
                f"oci:{w.folder}/odd-copy{number}:x")
            run("umoci", "unpack", "--image", f"{w.folder}/odd-copy{number}:x", bundle)
            trees.append(odd_tree(bundle / "rootfs"))
    expected = odd_tree(root)
    assert trees[0] == trees[1] == expected, \
        {name: (row, trees[1].get(name)) for name, row in expected.items()
         if row != trees[1].get(name)}
    # What a layer of ours has on disk is that tree, too; umoci's owner is shifted there.
    layers = [path for path in (w.server.state / "server/images/layers").glob("*/fs")]
    mine = odd_tree(layers[0])
    assert mine.keys() == expected.keys()
    for name, row in expected.items():
        mode, uid, gid, mtime, attributes, links, content = mine[name]
        assert (mode, mtime, links, content) == (row[0], row[3], row[5], row[6]), name
        assert uid - mine["dir"][1] == row[1] and gid - mine["dir"][2] == row[2], name
        assert attributes.get("user.colour") == row[4].get("user.colour"), name


def survives_kill9_in_a_pull(w):
    with w.registry() as registry:
        registry.push(LAYOUT, "me/app:1")
        name = f"{registry.host}/me/app:1"
        for _ in range(3):
            connection = w.server.connection()
            connection.request("POST", "/v1/images/pull", json.dumps({"image": {"uri": name}}), {
                "Content-Type": "application/json", "Accept": "text/event-stream",
                "OPEN-SANDBOX-API-KEY": w.server.api_key})
            with contextlib.suppress(OSError):
                connection.getresponse().read(1)  # it has begun
            w.server.kill9()
            connection.close()
            w.server.start()
        assert w.output(w.create(name), "cat /work/file /layers/1") == "of the image\nlayer 1"


EXPORTS_MAX = 4
SENT_AT_ONCE_MAX = 64 << 20  # more than sockets hold, so that the rest waits for a reader


def exports_a_few_at_a_time(w):
    """Each is a file as large as the image until its client has read it, or left."""
    with tarfile.open(w.folder / "large.tar", "w") as archive:
        entry = tarfile.TarInfo("large")
        entry.size = SENT_AT_ONCE_MAX
        archive.addfile(entry, open("/dev/zero", "rb"))
    assert w.api("POST", "import?name=large:1", (w.folder / "large.tar").read_bytes())[0] == 201
    readers = []
    try:
        for _ in range(EXPORTS_MAX):
            reader = w.server.connection()
            reader.request("GET", "/v1/images/large:1/export", headers={
                "OPEN-SANDBOX-API-KEY": w.server.api_key})
            readers.append((reader, reader.getresponse()))
            assert readers[-1][1].status == 200
        status, _, body = w.api("GET", "large:1/export")
        assert status == 503 and f"{EXPORTS_MAX} exports" in body["message"], (status, body)
        reader, answer = readers.pop()
        answer.close()
        reader.close()
        wait_for(lambda: w.api("GET", "large:1/export")[0] == 200, "a place")
    finally:
        for reader, answer in readers:
            answer.close()
            reader.close()


def collects_to_a_limit(w):
    w.server.config["images"] = {**PULLS, "max_bytes": "1Mi"}
    w.server.restart()
    with w.registry() as registry:
        registry.push(LAYOUT, "me/app:1")
        sandbox = w.create(f"{registry.host}/me/app:1")  # which keeps it
    assert len(w.api("GET", "")[2]["items"]) == 1
    assert w.server.request("DELETE", f"/v1/sandboxes/{sandbox}")[0] == 204
    tiny = w.folder / "tiny.tar"
    run("tar", "-C", ROOTS[1], "-cf", tiny, "./work")
    assert w.api("POST", "import?name=tiny:1", tiny.read_bytes())[0] == 201
    wait_for(lambda: [item["names"] for item in w.api("GET", "")[2]["items"]] ==
             [["docker.io/library/tiny:1"]], "the older image to go")


def the_python_sdk_sends_credentials(w):
    (w.folder / "htpasswd").write_text(HTPASSWD)
    with w.registry(auth=f"htpasswd:\n  realm: test\n  path: {w.folder}/htpasswd") as registry:
        registry.push(LAYOUT, "me/app:1", "--dest-creds=me:pw")
        asyncio.run(use_sdk(w.server, f"{registry.host}/me/app:1"))


async def use_sdk(server, name):
    config = ConnectionConfig(domain=server.domain, api_key=server.api_key)
    spec = SandboxImageSpec(image=name, auth=SandboxImageAuth(username="me", password="pw"))
    sandbox = await Sandbox.create(spec, connection_config=config)
    async with sandbox:
        done = await sandbox.commands.run("cat /work/file")
        assert [line.text for line in done.logs.stdout] == ["of the image"], done
        await sandbox.kill()


def run_guide(w, page, block_count):
    """What the blocks of a page print, run as one script."""
    text = (GUIDES / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == block_count, len(blocks)
    with w.registry() as registry:
        registry.push(LAYOUT, "library/python:3.12-slim")
        script = "".join(blocks).replace("http://127.0.0.1:8080", w.server.url) \
            .replace("/var/lib/opensandbox", str(w.server.state)) \
            .replace("localhost:5000", registry.host)
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=w.folder, timeout=240,
                              capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert w.api("GET", "")[2]["items"] == []
    assert w.server.request("GET", "/v1/sandboxes")[2]["items"] == []
    return done.stdout.splitlines()


def the_guide_works(w):
    lines = run_guide(w, "images.md", 6)
    assert lines[0].startswith("sha256:") and "Running" in lines and int(lines[-1]) >= 0, lines


def the_walkthrough_works(w):
    lines = run_guide(w, "walkthrough.md", 7)
    assert lines[0].startswith("sha256:"), lines
    assert lines[1:-1] == ["('me', '/work', ['8080/tcp'])", "Running", "1000", "/work", "Running",
                           *map(str, range(1, 11))] and int(lines[-1]) >= 0, lines


def images_of_our_own_stand_for_their_names(w):
    """tools/images, with a tiny image: built, brought, and what its name and others resolve to."""
    tiny = w.folder / "images/tiny"
    tiny.mkdir(parents=True)
    (tiny / "build").write_text(
        "#!/bin/sh\nset -eu\nfor to; do :; done\nmkdir -p $to\n"
        f"cp -a {ROOTS[0]}/. {ROOTS[1]}/. $to\n")
    (tiny / "build").chmod(0o755)
    (tiny / "config.json").write_text(json.dumps(
        {"Env": ["OWN=yes", "PATH=/bin"], "User": "me", "WorkingDir": "/work"}))

    def bring():
        done = subprocess.run(
            [TOOL, "--from", tiny.parent, "--cache", w.folder / "cache", "--server", w.server.url,
             "--key-file", w.server.state / "server/api_key"], capture_output=True, text=True,
            timeout=240, check=False)
        assert done.returncode == 0, done.stderr
        return done.stderr

    w.server.config["embedded.images"] = {"opensandbox/*": "host"}
    w.server.restart()
    assert "imported as localhost/opensandbox/tiny:latest" in bring()
    assert "the server has it" in bring()
    for name in ("opensandbox/tiny", "opensandbox/tiny:v1.0.2",
                 "registry.example.com/opensandbox/tiny:v9", "localhost/opensandbox/tiny"):
        one = w.create(name)
        assert w.output(one, "echo $OWN; id -u; pwd; cat file") == \
            "yes\n1000\n/work\nof the image", name
        assert w.get(one)["status"]["message"] == "the sandbox is running", w.get(one)
        assert w.get(one)["image"]["uri"] == name
        assert w.server.request("DELETE", f"/v1/sandboxes/{one}")[0] == 204
    other = w.create("opensandbox/other:1")  # which has no image of ours
    assert "host's /usr" in w.get(other)["status"]["message"]
    # Another one of the name itself, and one that is asked for by policy, are what they are.
    w.server.config["embedded.images"] = {}
    w.server.restart()
    w.refused("registry.invalid/opensandbox/tiny:v1", PULL_FAILED, "registry.invalid",
              source={"pullPolicy": "Always"})
    small = w.folder / "small.tar"
    run("tar", "-C", ROOTS[0], "-cf", small, ".")
    assert w.api("POST", "import?name=opensandbox/tiny:mine", small.read_bytes())[0] == 201
    assert w.output(w.create("opensandbox/tiny:mine"), "echo $OWN; ls /work || echo none",
                    cwd="/").split()[-1] == "none"


TESTS = [
    images_of_our_own_stand_for_their_names,
    creates_by_name,
    applies_the_image_configuration,
    everything_runs_as_the_user_of_the_image,
    users_and_directories_of_images,
    names_what_is_wrong,
    a_lying_registry_is_named_and_leaves_nothing,
    a_create_tells_how_far_its_pull_is,
    asks_by_password,
    survives_a_restart,
    snapshots_stand_on_images,
    pools_pull_and_hand_out_as_the_user_of_the_image,
    an_empty_volume_is_given_to_the_user_of_the_image,
    shows_and_removes,
    pulls_with_events,
    imports_archives,
    imports_layout_directories,
    images_have_up_to_128_layers,
    exports_what_it_pulled,
    exports_a_few_at_a_time,
    a_round_trip_changes_nothing,
    survives_kill9_in_a_pull,
    collects_to_a_limit,
    the_python_sdk_sends_credentials,
    the_guide_works,
    the_walkthrough_works,
]


@contextlib.contextmanager
def world():
    config = {"embedded": {"unpack_program": UNPACK}, "images": PULLS}
    with tempfile.TemporaryDirectory() as folder, \
            ServerProcess(*PROGRAMS, config=config) as server:
        yield World(server, pathlib.Path(folder))


def main():
    global LAYOUT, ROOTS
    tap.skip_all(why_not())
    with tempfile.TemporaryDirectory() as folder:
        LAYOUT = make_images(pathlib.Path(folder))
        ROOTS = [pathlib.Path(folder) / name for name in ("tools", "home")]
        chosen = [test for test in TESTS if not sys.argv[6:] or test.__name__ in sys.argv[6:]]
        return tap.run_tests(chosen, world)


if __name__ == "__main__":
    sys.exit(main())
