"""The same static execd in four roots: the host's, a Debian, one of busybox, and an empty one.

Usage: test_execd_roots.py EXECD-PROGRAM STATIC-PROBE DEBIAN-ROOT. As root. TAP on standard output.

A root is entered by chroot(2). In the empty one there is execd, a folder to work in and one static
program, and nothing else: no shell, no /proc, no /tmp, no passwd.
"""
import http.client
import io
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from execd_process import SECONDS_MAX, free_port, wait_for  # noqa: E402

PROGRAM, PROBE, DEBIAN = (pathlib.Path(arg).resolve() for arg in sys.argv[1:4])
BOUNDARY = "b0undary"


class Root:
    """with Root(kind) as root: execd runs in there, on a port."""

    def __init__(self, kind):
        self.kind = kind
        self.path = pathlib.Path("/") if kind == "host" else pathlib.Path(
            tempfile.mkdtemp(prefix=f"execd-root-{kind}-"))
        self.mounted = False
        if kind != "host":
            self.path.chmod(0o755)
        if kind == "debian":
            self.mount_debian()
        if kind == "busybox":
            self.make_busybox()
        self.work = self.path / f"work-{os.getpid()}"
        self.work.mkdir()
        for source, name in ((PROGRAM, "execd"), (PROBE, "probe")):
            shutil.copy(source, self.work / name)
        self.inside = f"/{self.work.name}"
        self.port = free_port()
        self.process = None

    def mount_debian(self):
        """The cached one stays as it is: what is written goes to a layer above it."""
        layers = pathlib.Path(tempfile.mkdtemp(prefix="execd-layer-", dir="/dev/shm"))
        for name in ("upper", "work"):
            (layers / name).mkdir()
        self.layers = layers
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={DEBIAN},"
                        f"upperdir={layers}/upper,workdir={layers}/work", self.path], check=True)
        self.mounted = True

    def make_busybox(self):
        (self.path / "bin").mkdir()
        shutil.copy(shutil.which("busybox"), self.path / "bin/busybox")
        for name in ("sh", "cat", "sleep", "ls", "kill", "env", "echo"):
            (self.path / "bin" / name).symlink_to("busybox")
        (self.path / "etc").mkdir()
        (self.path / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\n"
                                              "user:x:1234:1235::/:/bin/sh\n")
        (self.path / "etc/group").write_text("root:x:0:\nteam:x:1235:user\n")

    def __enter__(self):
        self.process = subprocess.Popen(
            [f"{self.inside}/execd", f"--port={self.port}"], preexec_fn=self.enter,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env={"PATH": "/usr/bin:/bin:" + self.inside, "HOME": self.inside})
        wait_for(lambda: self.process.poll() is not None or self.answers(), "execd")
        assert self.process.poll() is None, self.process.stderr.read()
        return self

    def enter(self):
        os.chroot(self.path)
        os.chdir("/")

    def answers(self):
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
            return True
        except OSError:
            return False

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate(timeout=SECONDS_MAX)
        shutil.rmtree(self.work)
        if self.mounted:
            wait_for(lambda: subprocess.run(["umount", self.path], check=False).returncode == 0,
                     "the end of all who are in there")
            shutil.rmtree(self.layers)
        if self.kind != "host":
            shutil.rmtree(self.path)

    @property
    def has_shell(self):
        return self.kind != "empty"

    def ask(self, method, route, body=None, headers=None, **query):
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS_MAX)
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        query = "?" + urllib.parse.urlencode(query) if query else ""
        client.request(method, route + query, body, headers or {})
        reply = client.getresponse()
        return reply.status, reply.read()

    def run(self, **body):
        """(output, the terminal event)"""
        status, text = self.ask("POST", "/command", body)
        assert status == 200, text
        events = [json.loads(line) for line in text.decode().split("\n\n") if line]
        assert events[0]["type"] == "init", events
        assert events[-1]["type"] in ("execution_complete", "error"), events
        return [e["text"] for e in events if e["type"] in ("stdout", "stderr")], events[-1]

    def probe(self, *words, **more):
        return self.run(argv=["probe", *words], **more)


# --- commands ---


def runs_programs(root):
    assert root.probe("echo", "a b", "$HOME")[0] == ["a b $HOME"]
    assert root.probe("exit", "7")[1]["error"]["evalue"] == "7"
    assert root.probe("env", "X", envs={"X": "1"})[0] == ["1"]
    assert root.probe("cwd", cwd=root.inside)[0] == [root.inside]
    end = root.probe("sleep", "100", timeout=100)[1]
    assert end["error"]["traceback"] == ["timeout after 100ms: signal: killed"], end
    end = root.run(argv=["nothing-of-that-name"])[1]
    assert "No such file" in end["error"]["evalue"], end


def runs_shell_commands_where_there_is_a_shell(root):
    if not root.has_shell:
        status, body = root.ask("POST", "/command", {"command": "echo hi"})
        assert status == 500, body
        assert "cannot start: no shell" in json.loads(body)["message"], body
        return
    assert root.run(command="echo hi; echo err >&2; exit 3")[1]["error"]["evalue"] == "3"
    lines = root.run(command="for i in 1 2 3; do echo $i; done")[0]
    assert lines == ["1", "2", "3"], lines
    out = root.run(command="kill -9 $$")[1]
    assert out["error"]["traceback"] == ["signal: killed"], out


def runs_in_the_background(root):
    status, text = root.ask("POST", "/command", {"argv": ["probe", "echo", "later"],
                                                 "background": True})
    assert status == 200
    command = json.loads(text.decode().split("\n\n")[0])["text"]
    wait_for(lambda: not json.loads(root.ask("GET", f"/command/status/{command}")[1])["running"],
             "the end")
    status, body = root.ask("GET", f"/command/{command}/logs")
    assert (status, body) == (200, b"later\n"), (status, body)


def interrupts(root):
    client = http.client.HTTPConnection("127.0.0.1", root.port, timeout=SECONDS_MAX)
    client.request("POST", "/command", json.dumps({"argv": ["probe", "sleep", "100"]}))
    reply = client.getresponse()
    command = json.loads(reply.readline())["text"]
    time.sleep(0.05)
    assert root.ask("DELETE", "/command", id=command)[0] == 200
    assert b"signal: terminated" in reply.read()


def becomes_users(root):
    assert root.probe("echo", "me", uid=1234)[0] == ["me"]
    assert root.probe("echo", "me", uid=4321, gid=4321)[0] == ["me"]


# --- files ---


def moves_files_in_and_out(root):
    path = f"{root.inside}/new/deep/file"
    content = os.urandom(300000)
    body = b""
    for name, data in (("metadata", json.dumps({"path": path, "mode": 640}).encode()),
                       ("file", content)):
        body += (f"--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"; "
                 f"filename=\"{name}\"\r\n\r\n").encode() + data + b"\r\n"
    kind = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
    status, text = root.ask("POST", "/files/upload", body + f"--{BOUNDARY}--\r\n".encode(), kind)
    assert (status, text) == (200, b""), text
    assert (root.work / "new/deep/file").read_bytes() == content
    assert root.ask("GET", "/files/download", path=path) == (200, content)
    assert root.ask("GET", "/files/download", headers={"Range": "bytes=5-9"}, path=path) == (
        206, content[5:10])
    info = json.loads(root.ask("GET", "/files/info", path=path)[1])[path]
    assert info["size"] == len(content) and info["mode"] == 640, info
    assert info["owner"] == ("0" if root.kind == "empty" else "root"), info


def changes_files(root):
    file = root.work / "f"
    file.write_text("one two one")
    at = f"{root.inside}/f"
    assert root.ask("POST", "/files/replace", {at: {"old": "one", "new": "1"}})[0] == 200
    assert file.read_text() == "1 two 1"
    assert root.ask("POST", "/files/permissions", {at: {"mode": 600, "owner": "1234"}})[0] == 200
    assert file.stat().st_mode & 0o777 == 0o600 and file.stat().st_uid == 1234
    assert root.ask("POST", "/files/mv", [{"src": at, "dest": f"{root.inside}/g/h"}])[0] == 200
    found = json.loads(root.ask("GET", "/files/search", path=root.inside, pattern="**/g/*")[1])
    assert [row["path"] for row in found] == [f"{root.inside}/g/h"], found
    listed = json.loads(root.ask("GET", "/directories/list", path=root.inside)[1])
    assert f"{root.inside}/g" in [row["path"] for row in listed]
    assert root.ask("POST", "/directories", {f"{root.inside}/x/y": {"mode": 700}})[0] == 200
    assert root.ask("DELETE", "/files", path=f"{root.inside}/g/h")[0] == 200
    assert root.ask("DELETE", "/directories", path=f"{root.inside}/x")[0] == 200
    assert not (root.work / "x").exists() and not (root.work / "g/h").exists()


def packs_watches_and_unpacks(root):
    (root.work / "tree/sub").mkdir(parents=True)
    (root.work / "tree/sub/f").write_text("packed")
    status, body = root.ask("GET", "/directories/download", path=f"{root.inside}/tree")
    with tarfile.open(fileobj=io.BytesIO(body)) as archive:
        assert archive.extractfile("sub/f").read() == b"packed"
    assert root.ask("POST", "/directories/upload", body, path=f"{root.inside}/copy")[0] == 200
    assert (root.work / "copy/sub/f").read_text() == "packed"
    client = http.client.HTTPConnection("127.0.0.1", root.port, timeout=SECONDS_MAX)
    client.request("GET", f"/directories/watch?path={root.inside}/tree&recursive=true")
    reply = client.getresponse()
    while b"init" not in reply.readline():
        pass
    (root.work / "tree/sub/new").touch()
    while b"create" not in (line := reply.readline()):
        pass
    assert f"{root.inside}/tree/sub/new" in line.decode()
    client.close()


def measures(root):
    status, body = root.ask("GET", "/metrics")
    if root.kind == "host":
        assert status == 200 and json.loads(body)["mem_total_mib"] > 0, body
    else:
        assert status in (200, 500), body  # there need not be a /proc


def tells_whether_it_can_isolate(root):
    status, body = root.ask("GET", "/v1/isolated/capabilities")
    can = json.loads(body)
    assert status == 200 and can["available"] != ("message" in can), body
    if root.kind == "empty":  # there is no /proc to mount one over
        assert not can["available"] and can["workspace_modes"] == [], can


TESTS = [runs_programs, runs_shell_commands_where_there_is_a_shell, runs_in_the_background,
         interrupts, becomes_users, moves_files_in_and_out, changes_files,
         packs_watches_and_unpacks, measures, tells_whether_it_can_isolate]


def in_root(kind):
    if kind == "debian" and not (DEBIAN / "bin/bash").exists():
        raise tap.Skip(f"no Debian in {DEBIAN}")
    with Root(kind) as root:
        for test in TESTS:
            try:
                test(root)
            except AssertionError as error:
                raise AssertionError(f"{test.__name__} in {kind}") from error


def main():
    tap.skip_all("only root can change its root" if os.geteuid() != 0 else None)
    runner = tap.Tap()
    for kind in ("host", "debian", "busybox", "empty"):
        runner.check(f"commands and files in the root: {kind}", in_root, kind)
    return runner.end()


if __name__ == "__main__":
    sys.exit(main())
