"""image_faults.py - kills the processes that make layers, fills their disk, and holds the server to
what it had answered: no damaged layer is used, nothing that is referred to is lost, no space leaks.

    random_kills(programs, seed, kills)   SIGKILL of server, broker and helpers in the act
    full_disks(programs, seed, steps)     every operation on a disk that fills while it works

`programs`: server, broker, execd, sandboxctl, unpack. The seed determines what is asked for and
what is killed when; what was under way then depends on the kernel's scheduler.
"""
import contextlib
import gzip
import hashlib
import http.client
import io
import json
import os
import pathlib
import random
import signal
import subprocess
import tarfile
import tempfile
import threading
import time
import urllib.parse

from broker_process import children, comm, descendants, is_alive
from registry_process import Registry, run
from server_process import SECONDS_MAX, ServerProcess, wait_for
from server_use import Gateway

IMAGES = 3           # with a layer in common, and one of their own
LAYER_BYTES = 1 << 20
SANDBOXES_MAX, SNAPSHOTS_MAX = 6, 6
TOOLS = "cat dd echo ls mkdir sh sha256sum sleep sync tail".split()
FINAL = ("Ready", "Failed")


# --- images ---


def tar_of(files, links=()):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, (data, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode
            archive.addfile(entry, io.BytesIO(data))
        for name, target in links:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)
    return out.getvalue()


def put_blob(layout, data):
    digest = hashlib.sha256(data).hexdigest()
    (layout / "blobs/sha256" / digest).write_bytes(data)
    return {"digest": f"sha256:{digest}", "size": len(data)}


def sums(files):
    return "".join(f"{hashlib.sha256(data).hexdigest()}  /{name}\n"
                   for name, (data, _) in files.items()).encode()


def base_files(rng):
    return {"bin/busybox": (pathlib.Path("/bin/busybox").read_bytes(), 0o755),
            **{f"data/{i}": (rng.randbytes(LAYER_BYTES // 64), 0o644) for i in range(32)}}


LINKS = [(f"bin/{name}", "busybox") for name in TOOLS]


def make_archive(rng):
    """A root as `docker import` takes it, with /sums; there is no other like it."""
    files = {**base_files(rng), "own/x": (rng.randbytes(100), 0o644)}
    return tar_of({**files, "sums": (sums(files), 0o644), "tmp/x": (b"", 0o644)}, LINKS)


def make_layout(folder, rng):
    """An OCI layout with images `app0`, `app1`, ... Each has /sums, by which its files can be
    checked inside."""
    layout = folder / "layout"
    (layout / "blobs/sha256").mkdir(parents=True)
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    base, index = base_files(rng), []
    for i in range(IMAGES):
        own = {f"own/{k}": (rng.randbytes(LAYER_BYTES // 16), 0o644) for k in range(16)}
        layers = [tar_of(base, LINKS),
                  tar_of({**own, "sums": (sums({**base, **own}), 0o644), "tmp/x": (b"", 0o644)})]
        packed = [put_blob(layout, gzip.compress(layer, 1, mtime=0)) for layer in layers]
        config = put_blob(layout, json.dumps({
            "architecture": "amd64", "os": "linux", "config": {"Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [
                "sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers]}}).encode())
        kind = "application/vnd.oci.image."
        manifest = put_blob(layout, json.dumps({
            "schemaVersion": 2, "mediaType": kind + "manifest.v1+json",
            "config": {**config, "mediaType": kind + "config.v1+json"},
            "layers": [{**p, "mediaType": kind + "layer.v1.tar+gzip"} for p in packed]}).encode())
        index.append({**manifest, "mediaType": kind + "manifest.v1+json",
                      "annotations": {"org.opencontainers.image.ref.name": f"app{i}"}})
    (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": index}))
    return layout


@contextlib.contextmanager
def registry(folder, rng):
    """Names of the images in a registry."""
    layout = make_layout(folder, rng)
    with Registry(folder / "registry") as there:
        for i in range(IMAGES):
            there.push(layout, f"me/app{i}:1", image=f"app{i}")
        yield [f"{there.host}/me/app{i}:1" for i in range(IMAGES)]


def server_of(programs):
    *programs, unpack = programs
    return ServerProcess(*programs, config={"embedded": {"unpack_program": unpack},
                                            "images": {"pull_policy": "IfNotPresent"}})


# --- what clients do ---


class Refused(Exception):
    """The server answered, with an error."""


class Calls:
    """The API, as far as it is needed here."""

    def __init__(self, server, images):
        self.server, self.images = server, images

    def ask(self, method, path, body=None, good=(200, 201, 202, 204)):
        status, _, answer = self.server.request(method, path, body)
        if status not in good:
            raise Refused(f"{method} {path}: {status} {answer}")
        return answer

    def pull(self, image):
        return self.ask("POST", "/v1/images/pull", {"image": {"uri": image}})

    def settle(self, path, good, bad):
        """Waits for one of the states."""
        end = time.monotonic() + SECONDS_MAX
        while True:
            item = self.ask("GET", path)
            if item["status"]["state"] in good:
                return item
            if item["status"]["state"] in bad:
                raise Refused(f"{path}: {item['status']}")
            assert time.monotonic() < end, f"{path} stays {item['status']}"
            time.sleep(0.02)

    def create(self, **source):
        body = self.ask("POST", "/v1/sandboxes", {
            "entrypoint": ["tail", "-f", "/dev/null"], "timeout": 3600,
            "resourceLimits": {"cpu": "1", "memory": "256Mi"}, **source})
        self.settle(f"/v1/sandboxes/{body['id']}", ("Running",), ("Failed", "Terminated"))
        return body["id"]

    def run(self, sandbox, line):
        with Gateway(self.server, sandbox) as gateway:
            return gateway.run(line)

    def mark(self, sandbox, marker, kilobytes):
        """Writes what a snapshot of it must have."""
        self.run(sandbox, f"mkdir -p /mine; cd /mine; dd if=/dev/urandom of=blob bs=1k "
                          f"count={kilobytes} 2>/dev/null; echo {marker} >marker; "
                          "sha256sum /mine/blob /mine/marker >/mine.sums")

    def verify(self, sandbox, marker=None):
        """Its image is whole, and what was written there."""
        wrong = self.run(sandbox, "sha256sum -c /sums >/tmp/report 2>&1 || cat /tmp/report; "
                                  "ls /data /own | tail -n 0")
        assert not wrong.strip(), f"files of the image are damaged in {sandbox}: {wrong[:500]}"
        if marker is not None:
            seen = self.run(sandbox, "sha256sum -c /mine.sums 2>&1; cat /mine/marker")
            assert seen.split("\n") == ["/mine/blob: OK", "/mine/marker: OK", marker], \
                f"files of the snapshot are damaged in {sandbox}, not {marker}: {seen[:500]}"

    def snapshot(self, sandbox):
        made = self.ask("POST", f"/v1/sandboxes/{sandbox}/snapshots", {})
        self.settle(f"/v1/snapshots/{made['id']}", ("Ready",), ("Failed",))
        return made["id"]

    def items(self, kind):
        return self.ask("GET", f"/v1/{kind}?pageSize=200")["items"]


class Ledger:
    """What the server said that there is: id -> marker. What is being deleted is in neither."""

    def __init__(self):
        self.lock = threading.Lock()
        self.sandboxes, self.snapshots, self.count = {}, {}, 0

    def marker(self):
        with self.lock:
            self.count += 1
            return f"m{self.count}"

    def pick(self, table, rng):
        with self.lock:
            return rng.choice(sorted(table.items())) if table else (None, None)


class Client(threading.Thread):
    """Asks for one thing after the other until told to stop, or until the server is gone."""

    def __init__(self, calls, ledger, seed, prefers):
        super().__init__(daemon=True)
        self.choices = ("create", "create", "pull", "snapshot", "snapshot", "snapshot", "restore",
                        "fork", "drop_sandbox", "drop_snapshot", "drop_image", "prune",
                        "bring") + prefers * 8
        self.calls, self.ledger, self.random = calls, ledger, random.Random(seed)
        self.over, self.findings, self.done, self.refused = threading.Event(), [], 0, []

    def run(self):
        while not self.over.is_set():
            name = self.random.choice(self.choices)
            try:
                getattr(self, name)()
                self.done += 1
            except Refused as error:
                self.refused.append(str(error))
            except AssertionError as error:
                if self.over.is_set():  # a connection that was cut looks like that, too
                    return
                self.findings.append(f"{name}: {error}")
            except (OSError, http.client.HTTPException, ValueError, IndexError):
                return  # it was killed

    def pull(self):
        self.calls.pull(self.random.choice(self.calls.images))

    def bring(self):
        """Imports an image, uses it, and has it removed."""
        name = f"mine/{self.ledger.marker()}:1"
        self.calls.ask("POST", f"/v1/images/import?name={name}", make_archive(self.random))
        if self.random.random() < 0.3:
            sandbox = self.calls.create(image={"uri": name})
            self.calls.verify(sandbox)
            self.calls.ask("DELETE", f"/v1/sandboxes/{sandbox}")
        self.calls.ask("DELETE", f"/v1/images/{urllib.parse.quote(name, safe='')}",
                       good=(200, 204, 404))

    def create(self):
        if len(self.ledger.sandboxes) >= SANDBOXES_MAX:
            return self.drop_sandbox()
        sandbox = self.calls.create(image={"uri": self.random.choice(self.calls.images)})
        marker = self.ledger.marker()
        self.calls.mark(sandbox, marker, self.random.choice((4, 64, 1024)))
        with self.ledger.lock:
            self.ledger.sandboxes[sandbox] = marker

    def snapshot(self):
        if len(self.ledger.snapshots) >= SNAPSHOTS_MAX:
            return self.drop_snapshot()
        sandbox, marker = self.ledger.pick(self.ledger.sandboxes, self.random)
        if sandbox:
            made = self.calls.snapshot(sandbox)
            with self.ledger.lock:
                self.ledger.snapshots[made] = marker

    def restore(self):
        snapshot, marker = self.ledger.pick(self.ledger.snapshots, self.random)
        if not snapshot:
            return
        sandbox = self.calls.create(snapshotId=snapshot)
        if snapshot in self.ledger.snapshots:  # else it was deleted meanwhile: no promise
            self.calls.verify(sandbox, marker)
        self.calls.ask("DELETE", f"/v1/sandboxes/{sandbox}")

    def fork(self):
        sandbox, marker = self.ledger.pick(self.ledger.sandboxes, self.random)
        if not sandbox or len(self.ledger.sandboxes) >= SANDBOXES_MAX:
            return
        made = self.calls.ask("POST", f"/v1/sandboxes/{sandbox}/fork", {"count": 2})
        for item in made["items"]:
            self.calls.settle(f"/v1/sandboxes/{item['id']}", ("Running",), ("Failed",))
            self.calls.verify(item["id"], marker)
            with self.ledger.lock:
                self.ledger.sandboxes[item["id"]] = marker

    def drop(self, table, kind):
        with self.ledger.lock:
            if not table:
                return
            gone = self.random.choice(sorted(table))
            del table[gone]
        self.calls.ask("DELETE", f"/v1/{kind}/{gone}")

    def drop_sandbox(self):
        self.drop(self.ledger.sandboxes, "sandboxes")

    def drop_snapshot(self):
        self.drop(self.ledger.snapshots, "snapshots")

    def drop_image(self):
        name = urllib.parse.quote(self.random.choice(self.calls.images), safe="")
        self.calls.ask("DELETE", f"/v1/images/{name}", good=(200, 204, 404, 409))

    def prune(self):
        self.calls.ask("POST", "/v1/images/prune", {})


# --- what must hold ---


def check_promises(calls, ledger):
    """All that was told is there, and nothing is stuck."""
    snapshots = {item["id"]: item for item in calls.items("snapshots")}
    for snapshot in ledger.snapshots:
        state = snapshots.get(snapshot, {}).get("status")
        assert state and state["state"] == "Ready", f"snapshot {snapshot} was Ready: {state}"
    for item in snapshots.values():  # one that was under way has come to an end
        if item["id"] not in ledger.snapshots:
            with contextlib.suppress(Refused):
                calls.settle(f"/v1/snapshots/{item['id']}", FINAL, ())
                calls.ask("DELETE", f"/v1/snapshots/{item['id']}", good=(204, 404))
    sandboxes = {item["id"]: item for item in calls.items("sandboxes")}
    for sandbox in ledger.sandboxes:
        state = sandboxes.get(sandbox, {}).get("status")
        assert state and state["state"] == "Running", f"sandbox {sandbox} was Running: {state}"
        calls.run(sandbox, "echo")  # not frozen
    for sandbox in set(sandboxes) - set(ledger.sandboxes):
        calls.ask("DELETE", f"/v1/sandboxes/{sandbox}", good=(204, 404))


def check_files(calls, ledger, rng):
    """Of a snapshot and of an image, as a new sandbox sees them."""
    snapshot, marker = ledger.pick(ledger.snapshots, rng)
    for source, expected in (({"image": {"uri": rng.choice(calls.images)}}, None),
                             ({"snapshotId": snapshot}, marker)):
        if source.get("snapshotId", source):
            sandbox = calls.create(**source)
            calls.verify(sandbox, expected)
            calls.ask("DELETE", f"/v1/sandboxes/{sandbox}")


def left_on_disk(server):
    """What is on disk although nothing refers to anything any more."""
    data = server.state / "server"
    found = [str(path) for name in ("snapshots", "sandboxes") for path in (data / name).glob("*")]
    for name in ("blobs", "layers", "images"):
        found += [str(path) for path in (data / "images" / name).glob("*")]
    found += [str(path) for path in (server.state / "trash").glob("*")]
    return found


def check_space(server, calls, ledger):
    """Deletes everything: nothing stays but partial downloads, which a next pull continues."""
    for kind, table in (("sandboxes", ledger.sandboxes), ("snapshots", ledger.snapshots)):
        for item in calls.items(kind):
            calls.ask("DELETE", f"/v1/{kind}/{item['id']}", good=(204, 404))
        table.clear()
    for item in calls.items("images"):
        name = urllib.parse.quote(item["id"], safe="")
        calls.ask("DELETE", f"/v1/images/{name}", good=(200, 204, 404))
    calls.ask("POST", "/v1/images/prune", {})
    with contextlib.suppress(AssertionError):
        wait_for(lambda: not left_on_disk(server), "an empty disk", 60)
    assert not left_on_disk(server), f"left on disk: {left_on_disk(server)[:5]}"
    parts = sum(path.stat().st_size for path in
                (server.state / "server/images/parts").glob("*"))
    assert parts <= IMAGES * 4 * LAYER_BYTES, f"{parts} bytes of partial downloads"


# --- killing ---


def helpers(server, name):
    """Processes of the broker whose name begins so."""
    return [pid for pid in descendants(server.pid) if comm(pid).startswith(name)]


KINDS = {  # victim -> how the name of its process begins
    "worker": "opensandbox-br", "unpack": "unpack watch", "watch": "unpack watch",
    "copy": "layer copy",
}


def strike(server, victim, rng):
    """Kills it in the act. False when there was none to kill for a while."""
    end = time.monotonic() + 3
    while time.monotonic() < end:
        pids = helpers(server, KINDS[victim])
        if victim == "worker":  # not their own children, which become sandboxes
            tops = children(server.pid)
            pids = [pid for top in tops for pid in children(top) if pid in pids]
        if victim == "unpack":  # the program, which is executed without a name
            pids = [pid for watch in pids for pid in children(watch)]
        if pids:
            time.sleep(rng.random() * 0.02)
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(pids), signal.SIGKILL)
                return True
        time.sleep(0.001)
    return False


def end_server(server, victim):
    """Kills the server, or its broker, without which it ends."""
    brokers = children(server.pid)
    for pid in [server.pid] if victim == "server" else brokers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    server.process.wait(SECONDS_MAX)
    wait_for(lambda: not any(map(is_alive, brokers)), "the end of the broker")


def one_round(server, calls, ledger, rng, killed, clients_count):
    victim = rng.choice(("server", "server", "broker", "worker", "unpack", "watch", "copy", "copy"))
    prefers = ("bring",) if victim in ("unpack", "watch") else ()
    clients = [Client(calls, ledger, rng.random(), prefers) for _ in range(clients_count)]
    for client in clients:
        client.start()
    time.sleep(rng.random() * 0.7)
    if victim in KINDS:
        if strike(server, victim, rng):
            killed[victim] = killed.get(victim, 0) + 1
        time.sleep(rng.random() * 0.1)
    for client in clients:
        client.over.set()
    if victim not in KINDS or rng.random() < 0.3:
        end_server(server, victim)
        kind = victim if victim not in KINDS else "server"
        killed[kind] = killed.get(kind, 0) + 1
        while rng.random() < 0.2:
            server.start(wait=False)
            time.sleep(rng.random() * 0.4)
            end_server(server, "server")
            killed["server that starts"] = killed.get("server that starts", 0) + 1
        for client in clients:
            client.join(SECONDS_MAX)
        server.start()
    for client in clients:
        client.join(SECONDS_MAX)
        assert not client.is_alive(), "a client waits for ever"
    findings = [text for client in clients for text in client.findings]
    assert not findings, "; ".join(findings[:3])
    return clients


def random_kills(programs, seed, kills, clients=3, every=20):
    """Returns what was killed how often, and what clients did meanwhile."""
    rng, killed, done, refused, rounds = random.Random(seed), {}, 0, 0, 0
    with tempfile.TemporaryDirectory(prefix="faults-") as folder, \
            registry(pathlib.Path(folder), rng) as images, server_of(programs) as server:
        calls, ledger = Calls(server, images), Ledger()
        try:
            while sum(killed.values()) < kills:
                did = one_round(server, calls, ledger, rng, killed, clients)
                done += sum(client.done for client in did)
                refused += sum(len(client.refused) for client in did)
                rounds += 1
                check_promises(calls, ledger)
                check_files(calls, ledger, rng)
                if rounds % every == 0:
                    check_space(server, calls, ledger)
            check_space(server, calls, ledger)
        except BaseException:
            print(f"# the server's log:\n{server.log()[-8000:]}")
            raise
    return {"killed": dict(sorted(killed.items())), "rounds": rounds, "calls": done,
            "refused": refused}


# --- full disks ---


@contextlib.contextmanager
def small_disk(server, megabytes):
    """The server's directory on a file system of its own."""
    image = server.folder / "disk"
    with open(image, "wb") as file:
        file.truncate(megabytes << 20)
    run("mkfs.ext4", "-q", "-m", "0", image)
    server.state.mkdir()
    run("mount", "-o", "loop", image, server.state)
    server.state.chmod(0o711)
    temporary, server.broker.temporary = server.broker.temporary, None
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(server.state)], check=False)
        temporary.cleanup()


class Ballast:
    """Fills the disk but for so many bytes."""

    def __init__(self, server, free):
        self.path, self.free, self.state = server.state / "ballast", free, server.state

    def __enter__(self):
        with open(self.path, "wb") as file:
            room = os.statvfs(self.state)
            size = room.f_bavail * room.f_frsize - self.free
            if size > 0:
                os.posix_fallocate(file.fileno(), 0, size)
        return self

    def __exit__(self, *_):
        self.path.unlink()


def free_bytes(server):
    room = os.statvfs(server.state)
    return room.f_bavail * room.f_frsize


class Operations:
    """What is done on a full disk: each leaves one thing that is used, and undone, later."""

    def __init__(self, calls):
        self.calls, self.source = calls, None

    def prepare(self):
        self.source = self.calls.create(image={"uri": self.calls.images[0]})
        self.calls.mark(self.source, "m", 1024)

    def pull(self):
        self.calls.pull(self.calls.images[1])
        return lambda: self.calls.create(image={"uri": self.calls.images[1]}), None

    def create(self):
        made = self.calls.create(image={"uri": self.calls.images[2]})
        return lambda: made, None

    def snapshot(self):
        made = self.calls.snapshot(self.source)
        return lambda: self.calls.create(snapshotId=made), "m"

    def fork(self):
        made = self.calls.ask("POST", f"/v1/sandboxes/{self.source}/fork", {"count": 2})
        for item in made["items"]:
            self.calls.settle(f"/v1/sandboxes/{item['id']}", ("Running",), ("Failed",))
        return lambda: made["items"][0]["id"], "m"


def undo(calls, kept):
    """Deletes all but the sandbox that the others are made of, and its image."""
    for kind in ("sandboxes", "snapshots"):
        for item in calls.items(kind):
            if item["id"] != kept:
                calls.ask("DELETE", f"/v1/{kind}/{item['id']}", good=(204, 404))
    for image in calls.images[1:]:
        calls.ask("DELETE", f"/v1/images/{urllib.parse.quote(image, safe='')}",
                  good=(200, 204, 404))


def full_disks(programs, seed, steps):
    """Each operation with less space than it needs, in steps. Returns how often it failed."""
    rng, failed, tried = random.Random(seed), {}, 0
    with tempfile.TemporaryDirectory(prefix="faults-") as folder, \
            registry(pathlib.Path(folder), rng) as images:
        server = server_of(programs)
        with small_disk(server, 96), server:
            calls = Calls(server, images)
            operations = Operations(calls)
            operations.prepare()
            for name in ("pull", "create", "snapshot", "fork"):
                operation = getattr(operations, name)
                undo(calls, operations.source)
                before = free_bytes(server)
                operation()
                needed = max(before - free_bytes(server), 1 << 20) * 5 // 4
                for step in range(steps):
                    undo(calls, operations.source)
                    tried += 1
                    with Ballast(server, int(needed * (step + rng.random()) / steps)):
                        try:
                            operation()
                        except (Refused, AssertionError) as error:
                            failed[name] = failed.get(name, 0) + 1
                            assert "damaged" not in str(error), error
                        assert calls.items("sandboxes"), "it answers"
                    wait_for(server.is_ready, "it to be ready again")
                    undo(calls, operations.source)
                    look, marker = operation()  # now there is room
                    calls.verify(look(), marker)
            ledger = Ledger()
            check_space(server, calls, ledger)
    return {"tried": tried, "failed": failed}
