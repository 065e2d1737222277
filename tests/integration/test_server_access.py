"""What requests may reach: volumes, images, signed routes, the data plane, open and closed.

Usage: test_server_access.py SERVER BROKER EXECD SANDBOXCTL. TAP on standard output. Needs root.
"""
import base64
import concurrent.futures
import contextlib
import fcntl
import glob
import hashlib
import hmac
import json
import os
import pathlib
import shutil
import sqlite3
import sys
import tempfile
import threading
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import postgres_process  # noqa: E402
import tap  # noqa: E402
from server_process import SECONDS_MAX, ServerProcess, wait_for, why_not  # noqa: E402
from server_use import Gateway  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:5]]
TOKEN, ROUTE = "OpenSandbox-Secure-Access", "OpenSandbox-Ingress-To"
EXECD_TOKEN = "X-EXECD-ACCESS-TOKEN"


class Configured(ServerProcess):
    """With a piece of configuration as text."""

    def __init__(self, text, **more):
        self.text = text
        super().__init__(*PROGRAMS, **more)

    def write_config(self):
        super().write_config()
        with open(self.config_path, "a", encoding="utf-8") as file:
            file.write(self.text)


@contextlib.contextmanager
def folder(mode=0o755):
    with tempfile.TemporaryDirectory(prefix="osb-access-") as name:
        os.chmod(name, mode)
        yield pathlib.Path(name)


def host_volume(path, **fields):
    return {"name": "data", "mountPath": "/data", "host": {"path": str(path)}, **fields}


def claim(name, mount="/data", read_only=False, sub_path="", **fields):
    return {"name": "data", "mountPath": mount, "readOnly": read_only, "subPath": sub_path,
            "pvc": {"claimName": name, **fields}}


def volume_names(server):
    """What there is below volumes/, without what is being erased."""
    return sorted(name for name in os.listdir(server.state / "server/volumes")
                  if not name.startswith("."))


def run_once(server, line, *volumes):
    """Runs a line in a sandbox of its own. What it printed."""
    name = server.create(volumes=list(volumes))
    out = run(server, name, line)
    delete(server, name)
    return out


def run(server, name, line):
    with Gateway(server, name) as box:
        return box.run(line)


def refused(server, **fields):
    """Status and code of a create that must not be."""
    request = {"image": {"uri": "host"}, "entrypoint": ["sleep", "1"], "timeout": 60,
               "resourceLimits": {}, **fields}
    status, _, body = server.request("POST", "/v1/sandboxes", request)
    assert 400 <= status <= 500, (status, body)
    _, _, listing = server.request("GET", "/v1/sandboxes")
    assert request["image"]["uri"] and listing["pagination"]["totalItems"] == 0, listing
    return status, body["code"]


def delete(server, name):
    status, _, body = server.request("DELETE", f"/v1/sandboxes/{name}")
    assert status == 204, (status, body)


# --- volumes ---


def mounts_allowed_paths_of_the_host():
    with folder(0o777) as allowed, folder() as other:
        (allowed / "file").write_text("from outside")
        (allowed / "link").symlink_to(other)
        os.makedirs(allowed / "deep/er", mode=0o777)
        config = {"storage": {"allowed_host_paths": [str(allowed)]}}
        with ServerProcess(*PROGRAMS, config=config) as server:
            name = server.create(volumes=[host_volume(allowed)])
            assert run(server, name, "cat /data/file; echo inside > /data/out") == "from outside"
            assert (allowed / "out").read_text() == "inside\n"
            delete(server, name)
            name = server.create(volumes=[host_volume(allowed, readOnly=True)])
            assert run(server, name, "touch /data/no || echo refused") == "refused"
            delete(server, name)
            name = server.create(volumes=[host_volume(allowed / "deep", subPath="er")])
            assert run(server, name, "ls /data | wc -l") == "0"
            delete(server, name)
            for path in (other, allowed / "link", "/", "/etc", str(allowed) + "x",
                         f"{allowed}/../{other.name}", f"{allowed}//deep"):
                status, code = refused(server, volumes=[host_volume(path)])
                assert (status, code.split("::")[0]) == (400, "VOLUME"), (path, code)
            assert sorted(os.listdir(allowed)) == ["deep", "file", "link", "out"]


def makes_host_paths_that_are_missing():
    with folder(0o755) as allowed:
        (allowed / "file").write_text("no directory")
        (allowed / "dangling").symlink_to("/nowhere")
        config = {"storage": {"allowed_host_paths": [str(allowed)]}}
        with ServerProcess(*PROGRAMS, config=config) as server:
            name = server.create(volumes=[host_volume(allowed / "a/b", subPath="c/d")])
            run(server, name, "echo inside > /data/out")
            assert (allowed / "a/b/c/d/out").read_text() == "inside\n"
            assert (allowed / "a/b/c").stat().st_uid == 0
            delete(server, name)
            status, code = refused(server, volumes=[host_volume(allowed / "file/below")])
            assert (status, code) == (500, "VOLUME::HOST_PATH_CREATE_FAILED")
            assert refused(server, volumes=[host_volume(allowed / "dangling/x")])[0] == 400
            assert refused(server, volumes=[host_volume(allowed / "new"),
                                            {**host_volume("/etc"), "name": "other"}])[0] == 400
            assert sorted(os.listdir(allowed)) == ["a", "dangling", "file"]


def makes_allowed_directories_that_are_missing():
    with folder() as top:
        (top / "file").write_text("no directory")
        config = {"storage": {"allowed_host_paths": [f"{top}/new/one", f"{top}/file"]}}
        with ServerProcess(*PROGRAMS, config=config) as server:
            name = server.create(volumes=[host_volume(top / "new/one/below")])
            run(server, name, "echo inside > /data/out")
            assert (top / "new/one/below/out").read_text() == "inside\n"
            delete(server, name)
            assert refused(server, volumes=[host_volume(top / "file")]) == \
                (400, "VOLUME::HOST_PATH_NOT_ALLOWED")
            assert f"{top}/file" in server.log()


def ends_with_a_broker_that_cannot_begin():
    server = ServerProcess(*PROGRAMS, config={"storage": {"allowed_host_paths": ["/"]}})
    try:
        server.start(wait=False)
        assert server.process.wait(SECONDS_MAX) == 1
        log = server.log()
        assert "holds the sandboxes themselves" in log and "has ended; its log" in log, log
    finally:
        server.remove()


def makes_and_keeps_named_volumes():
    with ServerProcess(*PROGRAMS) as server:
        assert refused(server, volumes=[claim("none", createIfNotExists=False)]) == \
            (400, "VOLUME::PVC_NOT_FOUND")
        name = server.create(volumes=[claim("kept"), {**claim("gone", "/gone",
                             deleteOnSandboxTermination=True), "name": "gone"}])
        assert run(server, name, "stat -c %u:%g /data /gone") == "0:0\n0:0"
        run(server, name, "echo 1 > /data/file; mkdir /gone/a; echo 2 > /gone/a/b")
        assert volume_names(server) == ["gone", "kept"]
        delete(server, name)
        assert volume_names(server) == ["kept"]
        name = server.create(volumes=[claim("kept", deleteOnSandboxTermination=True)])
        assert run(server, name, "cat /data/file") == "1"
        delete(server, name)
        assert volume_names(server) == ["kept"], "it was there before"
        name = server.create(volumes=[claim("kept", read_only=True)])
        assert run(server, name, "cat /data/file; touch /data/x || echo refused") == "1\nrefused"
        delete(server, name)


def takes_the_longest_name_of_a_volume():
    with ServerProcess(*PROGRAMS) as server:
        longest = "n" * 253
        name = server.create(volumes=[claim(longest, deleteOnSandboxTermination=True)])
        assert volume_names(server) == [longest]
        delete(server, name)
        assert volume_names(server) == []
        assert refused(server, volumes=[claim(longest + "n")]) == (400, "VOLUME::INVALID_PVC_NAME")


def one_of_many_owns_a_new_volume():
    with ServerProcess(*PROGRAMS) as server:
        many = threading.Barrier(16)

        def create(i):
            many.wait()
            return server.create(volumes=[claim(f"v{i // 16}", deleteOnSandboxTermination=True)])

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            names = list(pool.map(create, range(96)))
        notes = [path.rsplit("/", 1)[1]
                 for path in glob.glob(f"{server.state}/server/sandboxes/*/e-*")]
        assert sorted(notes) == [f"e-v{i}" for i in range(6)], sorted(notes)
        assert len(names) == 96


def a_volume_in_use_outlives_its_owner():
    with ServerProcess(*PROGRAMS) as server:
        owner = server.create(volumes=[claim("shared", deleteOnSandboxTermination=True)])
        other = server.create(volumes=[claim("shared")])
        run(server, other, "echo precious > /data/file")
        delete(server, owner)
        assert run(server, other, "cat /data/file") == "precious"
        delete(server, other)
        assert volume_names(server) == ["shared"], "a volume that belongs to no sandbox was removed"


def follows_no_link_of_a_named_volume():
    """A workload plants links in its claim; the next create must not mount what they lead to."""
    with ServerProcess(*PROGRAMS) as server:
        run_once(server, "mkdir /data/inner; echo secret | tee /data/file > /data/inner/file",
                 claim("victim"))
        run_once(server, "cd /data; mkdir real; echo own > real/file; ln -s ../victim up; "
                 "ln -s ../victim/inner deep; ln -s ../victim/file file; ln -s .. top; "
                 "ln -s / root; ln -s real own; ln -s nowhere dangling; ln -s loop loop",
                 claim("mine"))
        for path in ("up", "up/inner", "deep", "file", "top", "top/victim", "root", "own",
                     "real/../up", "dangling", "loop"):
            status, code = refused(server, volumes=[claim("mine", sub_path=path)])
            assert (status, code) == (400, "VOLUME::INVALID_SUB_PATH"), (path, status, code)
        assert run_once(server, "cat /data/file", claim("mine", sub_path="real")) == "own"
        assert run_once(server, "cat /data", claim("mine", sub_path="real/file")) == "own"
        assert refused(server, volumes=[claim("mine", sub_path="missing")]) == \
            (400, "VOLUME::INVALID_SUB_PATH")
        volumes = server.state / "server/volumes"
        (volumes / "link").symlink_to("victim")
        for path in ("", "inner"):
            status, code = refused(server, volumes=[claim("link", sub_path=path)])
            assert status >= 400 and code.startswith("VOLUME::"), (status, code)


def follows_no_link_below_an_allowed_directory():
    with folder() as allowed:
        (allowed / "victim/inner").mkdir(parents=True)
        (allowed / "mine/real").mkdir(parents=True)
        config = {"storage": {"allowed_host_paths": [str(allowed)]}}
        with ServerProcess(*PROGRAMS, config=config) as server:
            run_once(server, "ln -s ../victim /data/up; ln -s real /data/own",
                     host_volume(allowed / "mine"))
            for path in ("up", "up/inner", "up/new", "own", "own/new"):
                for volume in (host_volume(allowed / "mine" / path),
                               host_volume(allowed / "mine", subPath=path)):
                    assert refused(server, volumes=[volume]) == \
                        (400, "VOLUME::HOST_PATH_NOT_ALLOWED"), path
            assert os.listdir(allowed / "victim") == ["inner"], "it was made behind a link"
            assert os.listdir(allowed / "mine/real") == []


def mounts_what_only_root_may_enter():
    """The operator allowed the directory, and the broker opens it; the server's account cannot."""
    with folder(0o700) as allowed:
        (allowed / "closed/in").mkdir(parents=True)
        (allowed / "closed").chmod(0o700)
        (allowed / "closed/file").write_text("of root\n")
        (allowed / "closed/file").chmod(0o600)
        config = {"storage": {"allowed_host_paths": [str(allowed)]}}
        with ServerProcess(*PROGRAMS, config=config) as server:
            for path, line in ((allowed, "cat /data/closed/file"),
                               (allowed / "closed", "cat /data/file"),
                               (allowed / "closed/file", "cat /data"),
                               (allowed / "closed/in", "echo of root"),
                               (allowed / "closed/new/deep", "echo of root")):
                assert run_once(server, line, host_volume(path)) == "of root", path
            assert (allowed / "closed/new/deep").is_dir()
            run_once(server, "mkdir -p /data/sub; echo in > /data/sub/f; chmod 700 /data /data/sub",
                     claim("closed"))
            assert run_once(server, "cat /data/f", claim("closed", sub_path="sub")) == "in"


def erases_a_volume_in_the_background():
    """While the files of a claim are being erased, which the test delays, no request waits for it.
    A server and a broker that are killed meanwhile go on with it when they start again."""
    gone = claim("gone", deleteOnSandboxTermination=True)

    def erased(server):
        return [name for name in os.listdir(server.state / "server/volumes") if name[0] == "."]

    with ServerProcess(*PROGRAMS) as server:
        name = server.create(volumes=[gone])
        run(server, name, "cd /data; mkdir d; touch $(seq 3000); cd d; touch $(seq 1000); "
            "i=0; while [ $i -lt 300 ]; do mkdir d; cd d; i=$((i+1)); done")
        held = os.open(server.state / "trash", os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            delete(server, name)
            assert volume_names(server) == [] and len(erased(server)) == 1
            again, other = server.create(volumes=[gone]), server.create(volumes=[claim("other")])
            assert run(server, again, "ls /data | wc -l") == "0", "the name is another volume's"
            delete(server, again)
            delete(server, other)
            assert volume_names(server) == ["other"] and len(erased(server)) == 2
            server.kill9()
            server.start()
            assert run_once(server, "echo in", gone) == "in"
            assert len(erased(server)) == 3, "a remover did not wait for the lock"
        finally:
            os.close(held)
        wait_for(lambda: not erased(server), "the end of the erasure")
        wait_for(lambda: not os.listdir(server.state / "trash"), "the end of its notes")
        assert volume_names(server) == ["other"]


# --- images ---


@contextlib.contextmanager
def busybox_root():
    program = shutil.which("busybox")
    if not program or b"ld-linux" in pathlib.Path(program).read_bytes()[:4096]:
        raise tap.Skip("no static busybox to make a root of")
    with folder() as root:
        for name in ("bin", "etc", "proc", "sys", "dev", "tmp"):
            (root / name).mkdir()
        shutil.copy(program, root / "bin/busybox")
        for name in ("sh", "ls", "cat", "sleep", "echo", "tail"):
            (root / "bin" / name).symlink_to("busybox")
        (root / "etc/mark").write_text("a root of its own\n")
        yield root


def images_are_local_roots():
    with busybox_root() as root:
        images = {"box:*": f"dir:{root}", "python:*": "host"}
        with ServerProcess(*PROGRAMS, config={"embedded.images": images,
                                              "images": {"pull_policy": "Never"}}) as server:
            name = server.create(image="box:1.0")
            assert run(server, name, "cat /etc/mark; echo new > /etc/mark") == "a root of its own"
            assert (root / "etc/mark").read_text() == "a root of its own\n"
            _, _, body = server.request("GET", f"/v1/sandboxes/{name}")
            assert body["image"] == {"uri": "box:1.0"}, body
            delete(server, name)
            name = server.create(image="python:3.12")
            assert run(server, name, "test -e /usr/bin/env && echo host") == "host"
            delete(server, name)
            assert refused(server, image={"uri": "nobody/knows:this"}) == \
                (500, "DOCKER::SANDBOX_IMAGE_PULL_FAILED")


# --- the data plane ---


def ask(server, path, headers=None):
    return server.request("GET", path, headers=headers, key=None)[0]


def the_data_plane_wants_a_token_or_the_key():
    with ServerProcess(*PROGRAMS) as server:
        name, other = server.create(), server.create()
        path = f"/sandboxes/{name}/proxy/44772/ping"
        token = Gateway(server, name).headers[TOKEN]
        wrong = Gateway(server, other).headers[TOKEN]
        assert len(token) == 32 and token != wrong
        assert ask(server, path) == 401 and ask(server, "/v1" + path) == 401
        assert ask(server, path, {TOKEN: wrong}) == 401
        assert ask(server, path, {TOKEN: token}) == 200
        assert ask(server, path, {"OPEN-SANDBOX-API-KEY": server.api_key}) == 200
        assert ask(server, f"/v1/sandboxes/{name}", {TOKEN: token}) == 401, "that is another door"
        server.restart()
        assert ask(server, path, {TOKEN: token}) == 200, "tokens survive a restart"
        server.request("POST", f"/v1/sandboxes/{name}/pause")
        assert ask(server, path, {TOKEN: token}) == 503


def key_id(server):
    digest = hmac.new(b"opensandbox key id", server.api_key.encode(), hashlib.sha256)
    return "key:" + digest.hexdigest()[:12]


def database(server):
    return sqlite3.connect(server.state / "server" / "opensandbox.db", isolation_level=None,
                           timeout=SECONDS_MAX)


def owners(server):
    if server.dsn:
        columns = ", ".join(f"convert_from({name}, 'UTF8')" for name in ("id", "tenant", "owner"))
        rows = postgres_process.psql(
            server.dsn, f"SELECT {columns} FROM opensandbox_sandboxes ORDER BY n").stdout
        return [tuple(row.split("|")) for row in rows.splitlines()]
    with contextlib.closing(database(server)) as db:
        return db.execute("SELECT id, tenant, owner FROM sandboxes ORDER BY n").fetchall()


def make_version_1(server):
    """Takes from the tables what their first version did not have."""
    if server.dsn:
        postgres_process.psql(server.dsn, """
            ALTER TABLE opensandbox_sandboxes DROP COLUMN holder;
            ALTER TABLE opensandbox_records DROP COLUMN holder;
            ALTER TABLE opensandbox_records ADD UNIQUE (kind, id);
            DROP TABLE opensandbox_servers, opensandbox_usage, opensandbox_marks;
            UPDATE opensandbox_meta SET version = 1;
        """)
        return
    with contextlib.closing(database(server)) as db:
        db.executescript("""
            ALTER TABLE sandboxes DROP COLUMN tenant;
            ALTER TABLE sandboxes DROP COLUMN owner;
            DROP TABLE records;
            PRAGMA user_version = 1;
        """)


def logs_and_stores_who_asked():
    log = {"file_enabled": True, "format": "json"}
    with ServerProcess(*PROGRAMS, config={"log": log}) as server:
        logs = server.folder / "logs/opensandbox"

        def line_of(file, word):
            """The one line with this word, of a log that is written after the answer was sent."""
            found = []

            def look():
                text = (logs / file).read_text()
                found[:] = [line for line in text.split("\n")[:-1] if word in line]
                return found

            wait_for(look, f"a line with {word}")
            assert len(found) == 1, found
            return json.loads(found[0])

        def asker(request_id):
            line = line_of("access.log", request_id)
            assert line["tenant"] == "default", line
            return line["by"]

        name = server.create()
        path, ours = f"/sandboxes/{name}/proxy/44772/ping", "OPEN-SANDBOX-API-KEY"
        token, key = Gateway(server, name).headers[TOKEN], server.api_key
        ask(server, "/v1/sandboxes", {ours: key, "X-Request-ID": "by-key"})
        ask(server, "/v1/sandboxes", {ours: "wrong", "X-Request-ID": "by-none"})
        ask(server, "/health", {ours: key, "X-Request-ID": "by-any"})
        ask(server, path, {TOKEN: token, "X-Request-ID": "by-token"})
        ask(server, path, {ours: key, "X-Request-ID": "by-key-inside"})
        assert asker("by-key\"") == asker("by-key-inside\"") == key_id(server)
        assert asker("by-none") == asker("by-any") == "anonymous"
        assert asker("by-token") == f"sandbox:{name}"
        assert owners(server) == [(name, "default", key_id(server))]
        delete(server, name)
        for event in ("sandbox created", "sandbox removed"):
            line = line_of("server.log", event)
            assert (line["by"], line["sandbox"]) == (key_id(server), name), line
        assert key not in "".join(file.read_text() for file in logs.iterdir())


def keeps_the_sandboxes_of_an_older_server():
    """It adds to the tables what they lack. PostgreSQL's had owners from the first version."""
    with ServerProcess(*PROGRAMS) as server:
        name = server.create(metadata={"team": "a"})
        creator = key_id(server) if server.dsn else ""
        server.stop()
        make_version_1(server)
        server.start()
        status, _, body = server.request("GET", f"/v1/sandboxes/{name}")
        assert status == 200 and body["status"]["state"] == "Running", body
        assert body["metadata"] == {"team": "a"}, body
        assert run(server, name, "echo alive") == "alive"
        assert owners(server) == [(name, "default", creator)]
        other = server.create()
        assert owners(server)[1:] == [(other, "default", key_id(server))]
        delete(server, name)


def the_data_plane_can_be_open():
    with ServerProcess(*PROGRAMS, config={"server": {"proxy_access": "open"}}) as server:
        name = server.create()
        box = Gateway(server, name)
        assert TOKEN not in box.headers, box.headers
        assert ask(server, f"/sandboxes/{name}/proxy/44772/ping") == 200
        assert ask(server, f"/v1/sandboxes/{name}") == 401
        assert box.run("echo open") == "open"


def secure_access_is_kept_on_an_open_server():
    """Also after a restart, which reads what was asked for from the store."""
    for options in ({"config": {"server": {"proxy_access": "open"}}},
                    {"env": {"OPENSANDBOX_INSECURE_SERVER": "YES"}}):
        with ServerProcess(*PROGRAMS, **options) as server:
            name, plain = server.create(secureAccess=True), server.create()
            for _ in range(2):
                headers = Gateway(server, name).headers
                assert set(headers) == {TOKEN, EXECD_TOKEN}, headers
                for port in ("44772", "8000"):
                    for path in (f"/sandboxes/{name}/proxy/{port}",
                                 f"/v1/sandboxes/{name}/proxy/{port}/ping"):
                        assert ask(server, path) == 401, path
                        assert ask(server, path, {TOKEN: "wrong"}) == 401, path
                        assert ask(server, path, {EXECD_TOKEN: "wrong"}) == 401, path
                        assert ask(server, path, {"OPEN-SANDBOX-API-KEY": "any"}) == 401, path
                path = f"/sandboxes/{name}/proxy/44772/ping"
                for header in (TOKEN, EXECD_TOKEN):
                    assert ask(server, path, {header: headers[header]}) == 200, header
                assert ask(server, f"/sandboxes/{plain}/proxy/44772/ping") == 200
                server.restart()


def either_header_of_an_endpoint_is_enough():
    """Low-level clients pass on X-EXECD-ACCESS-TOKEN alone."""
    with ServerProcess(*PROGRAMS) as server:
        name = server.create()
        for port in (44772, 8000):
            headers = Gateway(server, name, port).headers
            assert set(headers) == {TOKEN, EXECD_TOKEN} and len(set(headers.values())) == 1, headers
        path = f"/sandboxes/{name}/proxy/44772/ping"
        for header, value in headers.items():
            assert ask(server, path, {header: value}) == 200, header


def reserved_ports_are_refused_however_they_are_nested():
    with ServerProcess(*PROGRAMS) as server:
        name = server.create()
        with Gateway(server, name) as box:
            for rest, status, code in (
                    ("proxy/18080/policy", 501, "SANDBOX::API_NOT_SUPPORTED"),
                    ("proxy/018080/", 501, "SANDBOX::API_NOT_SUPPORTED"),
                    ("proxy/44772/proxy/18080/", 400, "DOCKER::INVALID_PORT"),
                    ("proxy/44772/ping", 400, "DOCKER::INVALID_PORT")):
                reply = box.send("GET", f"/{rest}")
                body = json.loads(reply.read())
                assert (reply.status, body["code"]) == (status, code), (rest, reply.status, body)
            reply = box.send("GET", "/proxy/%31%38080/")
            reply.read()
            assert reply.status == 400, reply.status


def the_token_of_execd_passes_the_gateway():
    own = "X-EXECD-ACCESS-TOKEN"
    with ServerProcess(*PROGRAMS) as server:
        name = server.create(env={"EXECD_ACCESS_TOKEN": "tok"})
        path = f"/v1/sandboxes/{name}/proxy/44772/ping"
        headers = Gateway(server, name).headers
        assert set(headers) == {TOKEN}, "the other header is for execd's own token"
        token = headers[TOKEN]
        assert ask(server, path, {TOKEN: token}) == 401, "execd asks for its own"
        assert ask(server, path, {TOKEN: token, own: "tok"}) == 200
        assert ask(server, path, {"OPEN-SANDBOX-API-KEY": server.api_key, own: "tok"}) == 200
        assert ask(server, path, {TOKEN: token, own: "wrong"}) == 401
        assert ask(server, path, {own: "tok"}) == 401, "that is for the inner door"


def without_keys_no_credential_is_required():
    with ServerProcess(*PROGRAMS, env={"OPENSANDBOX_INSECURE_SERVER": "YES"}) as server:
        assert server.api_key is None
        name = server.create()
        path = f"/v1/sandboxes/{name}/proxy/44772/ping"
        assert ask(server, path) == 200
        assert ask(server, path, {"OPEN-SANDBOX-API-KEY": "any"}) == 200
        assert Gateway(server, name).run("echo open") == "open"


def a_closed_port_is_an_error_of_the_contract():
    with ServerProcess(*PROGRAMS) as server:
        path = f"/v1/sandboxes/{server.create()}/proxy/9/"
        status, _, body = server.request("GET", path)
        assert (status, body["code"]) == (502, "GENERAL::UNKNOWN_ERROR"), (status, body)


def signed_routes_open_one_port_until_they_expire():
    key = base64.b64encode(os.urandom(32)).decode()
    text = f'[ingress.secure_access]\nactive_key = "a"\n' \
           f'keys = [{{key_id = "a", key = "{key}"}}]\n'
    with Configured(text) as server:
        name = server.create()
        path = f"/v1/sandboxes/{name}/endpoints/44772"
        expires = int(time.time()) + 600
        status, _, body = server.request("GET", f"{path}?expires={expires}")
        assert status == 200 and list(body["headers"]) == [ROUTE], body
        route = body["headers"][ROUTE]
        door = urllib.parse.urlsplit("http://" + body["endpoint"]).path + "/ping"
        assert ask(server, door, {ROUTE: route}) == 200
        assert ask(server, door.replace("44772", "8080"), {ROUTE: route}) == 401
        changed = route[:-1] + ("0" if route[-1] != "0" else "1")
        assert ask(server, door, {ROUTE: changed}) == 401
        assert ask(server, door) == 401
        for late, code in ((2**63, 200), (2**64 - 1, 200), (2**64, 400), (1000, 400), (-1, 400)):
            status, _, body = server.request("GET", f"{path}?expires={late}")
            assert status == code, (late, status, body)
            if late == 2**64 - 1:
                assert "-3w5e11264sgsf-" in body["headers"][ROUTE], body
                assert ask(server, door, body["headers"]) == 200
            elif code == 400:
                assert body["code"] == "SANDBOX::INVALID_PARAMETER", body
        for seconds in (2, 20, 200):  # more where those are over before they begin
            soon = int(time.time()) + seconds
            status, _, body = server.request("GET", f"{path}?expires={soon}")
            if status == 200:
                break
        wait_for(lambda: ask(server, door, body["headers"]) == 401, "its end")
        assert time.time() >= soon, "its time was not over"
    with ServerProcess(*PROGRAMS) as server:
        path = f"/v1/sandboxes/{server.create()}/endpoints/44772?expires={expires}"
        status, _, body = server.request("GET", path)
        assert status == 400 and "secure_access" in body["message"], (status, body)


if __name__ == "__main__":
    tap.skip_all(why_not())
    sys.exit(tap.run_tests([
        mounts_allowed_paths_of_the_host,
        makes_host_paths_that_are_missing,
        makes_allowed_directories_that_are_missing,
        ends_with_a_broker_that_cannot_begin,
        makes_and_keeps_named_volumes,
        takes_the_longest_name_of_a_volume,
        one_of_many_owns_a_new_volume,
        a_volume_in_use_outlives_its_owner,
        follows_no_link_of_a_named_volume,
        follows_no_link_below_an_allowed_directory,
        mounts_what_only_root_may_enter,
        erases_a_volume_in_the_background,
        images_are_local_roots,
        the_data_plane_wants_a_token_or_the_key,
        logs_and_stores_who_asked,
        keeps_the_sandboxes_of_an_older_server,
        the_data_plane_can_be_open,
        secure_access_is_kept_on_an_open_server,
        either_header_of_an_endpoint_is_enough,
        reserved_ports_are_refused_however_they_are_nested,
        the_token_of_execd_passes_the_gateway,
        without_keys_no_credential_is_required,
        a_closed_port_is_an_error_of_the_contract,
        signed_routes_open_one_port_until_they_expire,
    ]))
