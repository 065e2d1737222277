"""broker_process.py - a broker with a directory of its own, and what must not be left of it."""
import contextlib
import glob
import hashlib
import os
import pathlib
import signal
import socket
import struct
import subprocess
import tempfile
import time

SECONDS_MAX = 240  # longer than anything that works takes, also in a VM on a busy host
WIRE_VERSION = 12
CONFIG, SPAWN, OPEN, SIGNAL, PAUSE, RESUME, STAT, LIST, REMOVE = range(1, 10)
REPLY_MIN = 8 + 256


def why_not():
    """Why this machine cannot run sandboxes, or None."""
    if os.geteuid() != 0:
        return "sandboxes need root"
    return None


def wait_for(condition, what, seconds=SECONDS_MAX):
    """Looks once more after the time is over: a machine that stands still proves nothing."""
    end = time.monotonic() + seconds
    late = False
    while not condition():
        assert not late, f"waited {seconds} s for {what}"
        late = time.monotonic() > end
        time.sleep(0.01)


def is_alive(pid):
    with contextlib.suppress(OSError):
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return text.rpartition(")")[2].split()[0] not in "ZX"
    return False


def children(pid):
    """Of all its threads: a program in Go forks from any."""
    found = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        with contextlib.suppress(OSError):
            text = pathlib.Path(path).read_text(encoding="ascii")
            found += [int(word) for word in text.split()]
    return found


def descendants(pid):
    """Its children, theirs, and so on."""
    found, queue = [], [pid]
    while queue:
        more = children(queue.pop())
        found += more
        queue += more
    return found


def comm(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    return ""


class Sandbox:
    """One line of `sandboxctl list`: its words as attributes."""

    def __init__(self, line):
        self.id, *words = line.split()
        fields = dict(word.split("=", 1) for word in words)
        self.slot, self.pid, self.state = int(fields["slot"]), int(fields["pid"]), fields["state"]


class Broker:
    """A broker in a temporary directory; leaving the block ends it and sweeps up."""

    def __init__(self, program, execd, ctl, workers=2, folder=None, env=None,
                 options=()):
        self.program, self.execd, self.ctl_program = program, execd, ctl
        self.workers_wanted, self.env, self.options = workers, env, options
        self.temporary = tempfile.TemporaryDirectory(prefix="osb-") if folder is None else None
        self.folder = pathlib.Path(folder or self.temporary.name)
        self.folder.chmod(0o711)
        self.state = self.folder / "st"
        self.log_path = self.folder / "broker.log"
        digest = hashlib.sha256(str(self.state.resolve()).encode()).hexdigest()
        self.group, self.bridge = f"opensandbox-{digest[:8]}", f"osb{digest[:6]}"
        self.process = None

    def command(self, *more):
        return [self.program, "--state", str(self.state), "--execd", self.execd, *more]

    def start(self, **more):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.command("--workers", str(self.workers_wanted), *self.options),
                stdout=log, stderr=log,
                env=dict(os.environ, **(self.env or {})), start_new_session=True, **more)
        wait_for(lambda: self.process.poll() is not None or self.answers(), "the broker")
        assert self.process.poll() is None, self.log()
        return self

    __enter__ = start

    def __exit__(self, *_):
        if self.process.poll() is not None:
            self.start()
        for sandbox in self.list():
            if self.ctl("remove", sandbox.id).returncode != 0:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(sandbox.pid, signal.SIGKILL)
                wait_for(lambda pid=sandbox.pid: not is_alive(pid), "its end")
        self.stop()
        self.sweep()
        assert not glob.glob(f"/sys/class/net/{self.bridge}*") and not self.groups()
        if self.temporary:
            self.temporary.cleanup()

    def stop(self, signo=signal.SIGTERM):
        """Ends the first process; with SIGKILL, its workers follow by themselves."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signo)
            self.process.wait(SECONDS_MAX)
        wait_for(lambda: not self.strays(), "the end of the workers")

    def log(self):
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def workers(self):
        if not self.process:
            return []
        return [pid for pid in children(self.process.pid) if comm(pid).startswith("opensandbox-br")]

    def kill_worker(self):
        """One of them; who sweeps is a child, too, and may be gone by then."""
        def killed():
            with contextlib.suppress(IndexError, ProcessLookupError):
                os.kill(self.workers()[0], signal.SIGKILL)
                return True
            return False
        wait_for(killed, "a worker to kill")

    def processes(self):
        """The broker's own, with the children they have parked."""
        found, queue = [], [self.process.pid] if self.process else []
        while queue:
            pid = queue.pop()
            if comm(pid).startswith("opensandbox-br") or comm(pid) in ("remover", "eraser"):
                found.append(pid)
                queue += children(pid)
        return found

    def sweep(self):
        done = subprocess.run(self.command("--sweep"), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return int(done.stdout.split()[0])

    # --- talking to it ---

    def ctl_command(self, *words):
        return [self.ctl_program, "--broker", str(self.state / "broker.sock"), *map(str, words)]

    def ctl(self, *words, timeout=150):  # longer than any client waits for its broker
        return subprocess.run(self.ctl_command(*words), capture_output=True, text=True, check=False,
                              timeout=timeout)

    def ok(self, *words):
        done = self.ctl(*words)
        assert done.returncode == 0, f"{words[:2]}: {done.stderr}\n{self.log()[-2000:]}"
        return done.stdout

    def shell(self, name, line, *options):
        """Runs a line to its end. What it printed."""
        return self.ok("run", *options, name, "--", "sh", "-c", line)

    def list(self):
        return [Sandbox(line) for line in self.ok("list").splitlines()]

    def sandbox(self, name):
        return next((s for s in self.list() if s.id == name), None)

    def stat(self, name):
        words = self.ok("stat", name).splitlines()[1].split()
        return {key: int(value) for key, value in (word.split("=") for word in words)}

    def pings(self, name):
        """Each try has 5 s, which may be too few for a busy machine."""
        return any(self.ctl("ping", name).stdout == "pong\n" for _ in range(6))

    def slot_dir(self, name):
        return self.state / "slots" / os.readlink(self.state / "ids" / name)

    def connect(self, configure=True):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.settimeout(SECONDS_MAX)
        sock.connect(str(self.state / "broker.sock"))
        if configure:
            reply = ask(sock, struct.pack("=I4xIIII", CONFIG, WIRE_VERSION, 0, 0, 0))
            if reply is None:
                raise ConnectionError("the broker went away")
            assert reply[0] == 0, reply
        return sock

    def answers(self):
        with contextlib.suppress(OSError):
            self.connect().close()
            return True
        return False

    # --- what is left ---

    def groups(self):
        tops = glob.glob(f"/sys/fs/cgroup/**/{self.group}", recursive=True)
        return [path for top in tops for path in glob.glob(top + "/*/")]

    def leftovers(self):
        """Everything a sandbox or a broker may leave behind, as lines to be shown."""
        found = [f"group {path}" for path in self.groups()]
        for path in self.groups():
            for file in glob.glob(path + "/**/cgroup.procs", recursive=True):
                with contextlib.suppress(OSError):
                    pids = pathlib.Path(file).read_text(encoding="ascii").split()
                    found += [f"process {pid} {comm(pid)} in {path}" for pid in pids]
        found += [f"link {path}" for path in glob.glob(f"/sys/class/net/{self.bridge}-*")]
        for name in ("slots", "ids"):
            if (self.state / name).is_dir():
                found += [f"{name}/{entry}" for entry in os.listdir(self.state / name)]
        return found + self.mounts() + self.strays()

    def strays(self):
        """Processes of this directory's brokers that outlived the first one."""
        ours, found = set(self.processes()), []
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = pathlib.Path(path).read_bytes().split(b"\0")
                pid = int(path.split("/")[2])
                if words[0] == self.program.encode() and str(self.state).encode() in words and \
                        pid not in ours and is_alive(pid):
                    found.append(f"process {pid} of a broker that is no more")
        return found

    def mounts(self):
        ours, found = set(self.processes()), []
        for path in glob.glob("/proc/[0-9]*/mountinfo"):
            pid = int(path.split("/")[2])
            with contextlib.suppress(OSError):
                text = pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
                if pid not in ours and f"{self.state}/" in text:
                    found.append(f"mount below {self.state} in process {pid} {comm(pid)}")
        return found

    def must_be_clean(self):
        """The kernel takes a moment to end a network namespace, and we to end a process."""
        wait_for(lambda: not self.leftovers() or time.sleep(0.1), "nothing left: "
                 + "; ".join(self.leftovers()[:8]))


def ask(sock, message, fds=()):
    """One exchange: result and message of the reply; None when the connection ends."""
    try:
        socket.send_fds(sock, [message], list(fds))
        reply, files, _, _ = socket.recv_fds(sock, 65536, 8)
    except ConnectionError:
        return None
    for fd in files:
        os.close(fd)
    if len(reply) < REPLY_MIN:
        return None
    return struct.unpack_from("=i", reply)[0], reply[12:264].split(b"\0")[0].decode()
