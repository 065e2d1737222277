"""docker_process.py - a Docker engine of the test's own, and servers on top of it.

    with DockerEngine() as engine:
        engine.import_busybox("small:1")
        with DockerServer(*programs, engine=engine) as server:
            server.create("small:1")

The engine is Debian's dockerd with directories, a socket, a bridge, a containerd and a control
group of its own. It changes no packet filter of this machine: containers reach the machine
and each other over the bridge, and nothing else. Leaving the block removes all of it.
"""
import contextlib
import glob
import http.client
import json
import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.parse

import broker_process
from server_process import ServerProcess, wait_for

BUSYBOX = ("/bin/busybox", "/usr/bin/busybox")


def why_not():
    """Why no engine can be started here, or None."""
    if broker_process.why_not():
        return broker_process.why_not()
    missing = [name for name in ("dockerd", "containerd", "runc", "ip") if not shutil.which(name)]
    return f"{', '.join(missing)} not installed (make test installs docker.io)" if missing else None


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("docker", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


def ask_engine(host, path):
    """What an engine at unix:///path answers to GET."""
    connection = UnixConnection(host.removeprefix("unix://"), 120)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        body = reply.read()
        assert reply.status == 200, (path, body)
        return json.loads(body)
    finally:
        connection.close()


def run(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout


# gVisor below dockerd: a snapshot must see what a sandbox wrote.
RUNSC_OPTIONS = ("--platform=systrap", "--overlay2=none")


def make_busybox_root(root):
    """A small root file system: busybox, and its names."""
    busybox = next(path for path in BUSYBOX if os.path.exists(path))
    for name in ("bin", "tmp", "root", "etc", "usr/bin"):
        os.makedirs(os.path.join(root, name))
    os.chmod(os.path.join(root, "tmp"), 0o1777)
    shutil.copy(busybox, os.path.join(root, "bin/busybox"))
    for name in run(busybox, "--list").split():
        with contextlib.suppress(FileExistsError):
            os.symlink("busybox", os.path.join(root, "bin", name))
    pathlib.Path(root, "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")


class DockerEngine:
    """`options` are added to the command line of dockerd; `runtimes` are OCI runtimes to register:
    {name: (program, option...)}; `disk` is a file system of its own for its data: (kind, bytes)."""

    is_docker = True

    def __init__(self, options=(), runtimes=None, disk=None):
        self.options, self.disk = options, disk
        self.runtimes = {name: {"path": str(program), "runtimeArgs": list(args)}
                         for name, (program, *args) in (runtimes or {}).items()}
        self.name = "osbd" + secrets.token_hex(3)
        self.temporary = tempfile.TemporaryDirectory(prefix="osb-docker-")
        self.folder = pathlib.Path(self.temporary.name)
        self.folder.chmod(0o755)
        self.sock = self.folder / "sock"
        self.cgroup = self.name
        self.process = self.containerd = None
        self.network = f"10.200.{secrets.randbelow(254)}"  # none of the broker's

    # --- its life ---

    def start_containerd(self):
        """Its own, which outlives dockerd as that of a distribution does."""
        folder = self.folder / "cd"
        folder.mkdir()
        (folder / "config.toml").write_text(
            'version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n')
        with open(folder / "log", "ab") as log:
            self.containerd = subprocess.Popen(
                ["containerd", "--config", str(folder / "config.toml"), "--root",
                 str(folder / "root"), "--state", str(folder / "state"), "--address",
                 str(folder / "sock")],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        wait_for(lambda: self.containerd.poll() is not None or (folder / "sock").exists(),
                 "containerd")
        assert self.containerd.poll() is None, (folder / "log").read_text()[-4000:]

    def start(self):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                ["dockerd", "--config-file", str(self.folder / "daemon.json"),
                 "--data-root", str(self.folder / "data"), "--exec-root", str(self.folder / "exec"),
                 "--pidfile", str(self.folder / "pid"), "-H", f"unix://{self.sock}",
                 "--bridge", self.name, "--iptables=false", "--ip-masq=false",
                 "--containerd", str(self.folder / "cd" / "sock"),
                 "--cgroup-parent", f"/{self.name}", "--exec-opt",
                 "native.cgroupdriver=cgroupfs", *self.options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        wait_for(lambda: self.process.poll() is not None or self.answers(), "dockerd")
        assert self.process.poll() is None, f"dockerd did not start:\n{self.log()[-4000:]}"
        return self

    def mount_disk(self):
        kind, size = self.disk
        image = self.folder / "disk"
        with open(image, "wb") as file:
            file.truncate(size)
        run(f"mkfs.{kind}", "-q", str(image))
        (self.folder / "data").mkdir()
        run("mount", "-o", "loop", str(image), str(self.folder / "data"))

    def __enter__(self):
        try:
            if self.disk:
                self.mount_disk()
            (self.folder / "daemon.json").write_text(json.dumps(
                {"runtimes": self.runtimes} if self.runtimes else {}))
            run("ip", "link", "add", self.name, "type", "bridge")
            run("ip", "addr", "add", f"{self.network}.1/24", "dev", self.name)
            run("ip", "link", "set", self.name, "up")
            self.start_containerd()
            return self.start()
        except BaseException:
            self.__exit__()
            raise

    def stop(self, signo=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signo)
            if signo != signal.SIGKILL:
                self.process.send_signal(signal.SIGCONT)
            self.process.wait(120)

    def __exit__(self, *_):
        with contextlib.suppress(Exception):
            self.process.send_signal(signal.SIGCONT)
            if self.process.poll() is not None:
                self.start()
            for container in self.get("/containers/json?all=1"):
                self.request("DELETE", f"/containers/{container['Id']}?force=1&v=1")
        self.stop()
        if self.containerd:
            self.containerd.terminate()
            self.containerd.wait(120)
        for pid in self.strays():  # names of it are in their command lines
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not self.strays(), "the end of what dockerd started")
        subprocess.run(["ip", "link", "del", self.name], check=False, capture_output=True)
        mounts = pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
        for line in reversed(mounts):
            if line.split()[1].startswith(str(self.folder)):
                subprocess.run(["umount", "-l", line.split()[1]], check=False)
        # Unlike Path.glob, glob.glob passes over groups of others that go away meanwhile.
        for top in glob.glob(f"/sys/fs/cgroup/**/{self.cgroup}", recursive=True):
            for directory, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(directory)
        self.temporary.cleanup()

    def strays(self):
        """Processes that name this engine's directory: its containerd, shims, proxies."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if str(self.folder).encode() in entry.read_bytes() and \
                        int(entry.parent.name) != os.getpid():
                    comm = (entry.parent / "comm").read_text().strip()
                    if comm.startswith(("containerd", "docker", "runc", "podman", "conmon")):
                        found.append(int(entry.parent.name))
        return found

    def log(self):
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / "log").read_text(encoding="utf-8", errors="replace")
        return ""

    # --- talking to it ---

    @property
    def host(self):
        return f"unix://{self.sock}"

    def request(self, method, path, body=None, type="application/json", timeout=120):
        connection = UnixConnection(self.sock, timeout)
        try:
            headers = {"Content-Type": type} if body is not None else {}
            if body is not None and not isinstance(body, bytes) and not hasattr(body, "read"):
                body = json.dumps(body)
            connection.request(method, path, body=body, headers=headers,
                               encode_chunked=hasattr(body, "read"))
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def get(self, path):
        status, body = self.request("GET", path)
        assert status == 200, (path, status, body)
        return json.loads(body)

    def answers(self):
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.request("GET", "/_ping", timeout=5)[0] == 200
        return False

    def containers(self, label=None):
        query = "/containers/json?all=1"
        if label:
            query += "&filters=" + urllib.parse.quote(json.dumps({"label": [label]}))
        return self.get(query)

    def inspect(self, sandbox_id):
        return self.get(f"/containers/sandbox-{sandbox_id}/json")

    # --- images ---

    def import_tar(self, source, *names, changes=()):
        """Imports a tar archive, a file object, as an image with those names; `changes` are lines
        of a Dockerfile."""
        repo, _, tag = names[0].rpartition(":")
        query = urllib.parse.urlencode([("fromSrc", "-"), ("repo", repo), ("tag", tag),
                                        *(("changes", change) for change in changes)])
        status, body = self.request("POST", f"/images/create?{query}", source,
                                    type="application/x-tar")
        assert status == 200 and b'"error"' not in body, (status, body)
        for name in names[1:]:
            repo, _, tag = name.rpartition(":")
            query = urllib.parse.urlencode({"repo": repo, "tag": tag})
            status, body = self.request("POST", f"/images/{names[0]}/tag?{query}")
            assert status == 201, (status, body)

    def import_root(self, root, *names, changes=()):
        """Imports a directory as an image."""
        self.import_roots((root,), *names, changes=changes)

    def import_roots(self, roots, *names, changes=()):
        """Imports a directory, and the files of others beside its own, as an image. The engine
        refuses an archive that has a path twice, so directories of the others are not in it."""
        first, *others = map(pathlib.Path, roots)
        words = ["-C", str(first), "."]
        for root in others:
            files = [f"./{path.relative_to(root)}" for path in root.rglob("*") if path.is_file()]
            words += ["-C", str(root), *files]
        tar = subprocess.Popen(["tar", "--one-file-system", "-cf", "-", *words],
                               stdout=subprocess.PIPE)
        self.import_tar(tar.stdout, *names, changes=changes)
        assert tar.wait() == 0

    def import_egress(self, program, *names, authority=None):
        """What images/egress/build makes, without Debian around it: opensandbox-egress and the
        libraries that it loads; and an authority that it trusts."""
        with tempfile.TemporaryDirectory() as root:
            libraries = [word for word in run("ldd", program).split() if word.startswith("/")]
            for name in ("opt/opensandbox", "var/lib/mitmproxy", "var/egress/rules", "tmp",
                         "etc/ssl/certs"):
                os.makedirs(os.path.join(root, name))
            for source, target in (*((path, path) for path in libraries),
                                   (program, "/opt/opensandbox-egress/egress")):
                os.makedirs(os.path.dirname(root + target), exist_ok=True)
                shutil.copy(source, root + target)
            if authority:
                digest = run("openssl", "x509", "-noout", "-hash", "-in", str(authority)).strip()
                shutil.copy(authority, f"{root}/etc/ssl/certs/{digest}.0")
            self.import_root(root, *names,
                             changes=['ENTRYPOINT ["/opt/opensandbox-egress/egress"]'])

    def import_busybox(self, *names, changes=()):
        """A small image: busybox, and its names."""
        with tempfile.TemporaryDirectory() as root:
            make_busybox_root(root)
            self.import_root(root, *names, changes=changes)


class PodmanEngine(DockerEngine):
    """Podman's service of the same API. It writes packet filters, so it must have a network
    namespace of its own: egress_world.enter()."""

    is_docker = False

    def __init__(self):
        super().__init__()
        self.cgroup = "libpod_parent"  # of all: only what is empty goes

    def start_containerd(self):
        # Its usual limits are more than root of a restricted machine may set.
        (self.folder / "containers.conf").write_text(
            '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n')

    def start(self):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                ["podman", "--root", str(self.folder / "data"), "--runroot",
                 str(self.folder / "exec"), "--tmpdir", str(self.folder / "tmp"),
                 "--network-config-dir", str(self.folder / "net"), "--cgroup-manager=cgroupfs",
                 "--events-backend=file", "system", "service", "--time=0", self.host],
                env={**os.environ, "CONTAINERS_CONF": str(self.folder / "containers.conf")},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        wait_for(lambda: self.process.poll() is not None or self.answers(), "podman")
        assert self.process.poll() is None, f"podman did not start:\n{self.log()[-4000:]}"
        self.sock.chmod(0o660)  # as the unit of Podman's socket has it
        return self

    def import_tar(self, source, *names, changes=()):
        """It takes no notice of the tag."""
        query = urllib.parse.urlencode([("fromSrc", "-"), *(("changes", c) for c in changes)])
        status, body = self.request("POST", f"/images/create?{query}", source,
                                    type="application/x-tar")
        assert status == 200 and b'"error"' not in body, (status, body)
        for name in names:
            repo, _, tag = name.rpartition(":")
            query = urllib.parse.urlencode({"repo": repo, "tag": tag})
            status, answer = self.request(
                "POST", f"/images/{json.loads(body.splitlines()[0])['status']}/tag?{query}")
            assert status == 201, (status, answer)


class DockerServer(ServerProcess):
    """A server with the docker runtime; `engine` is a DockerEngine that runs."""

    def __init__(self, server, broker, execd, ctl, config=None, env=None, engine=None):
        merged = {"runtime": {"type": "docker"},
                  "docker": {"host": engine.host, "network_mode": "bridge", "api_timeout": 60}}
        for section, keys in (config or {}).items():
            if not section.startswith("embedded"):
                merged.setdefault(section, {}).update(keys)
        super().__init__(server, broker, execd, ctl, config=merged, env=env)
        self.engine = engine

    def owner(self):
        return (self.state / "server" / "owner").read_text(encoding="ascii").strip()

    def containers(self):
        """Those of this server."""
        return self.engine.containers(f"opensandbox.io/owner={self.owner()}")

    def remove(self):
        if self.process and self.process.poll() is None:
            self.kill9()
        self.reserved.close()
        with contextlib.suppress(FileNotFoundError):
            for container in self.containers():
                self.engine.request("DELETE", f"/containers/{container['Id']}?force=1&v=1")
        self.broker.temporary.cleanup()
