"""execd_process.py - runs execd as the first process of a pid namespace, as a broker would."""
import contextlib
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from typing import NamedTuple

SECONDS_MAX = 60
FD_FIRST, FD_ROOM = 3, 13
STARTING, RUNNING, EXITED, FAILED = 1, 2, 3, 4  # enum report_phase
REPORT = struct.Struct("<8sII4i2q252sIQ")
LOG_HEAD = struct.Struct("<8sIIQQ")
LOG_BYTES, LOG_DATA, LOG_MARK_BYTES = 1 << 20, 4096, 16384 * 16


class Report(NamedTuple):
    """src/api/report.h's struct exit_report."""

    phase: int
    entry_pid: int
    exit_code: int
    exit_signal: int
    error_code: int
    started_us: int
    ended_us: int
    message: str


def reserve_descriptors():
    """Occupies the descriptor numbers that a child gets, so that none of ours is there."""
    while os.open(os.devnull, os.O_RDONLY) < FD_FIRST + FD_ROOM:
        pass


def why_not():
    """Why this machine cannot run a first process, or None."""
    if not shutil.which("unshare"):
        return "there is no unshare program"
    probe = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], check=False,
                           capture_output=True, text=True)
    return probe.stderr.strip() or "no pid namespace" if probe.returncode else None


# below the kernel's range of ephemeral ports
PORTS = iter(random.sample(range(10000, 20000), 1000))


def free_port():
    for port in PORTS:
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind(("", port))
            return port
    raise AssertionError("no port is free")


def wait_for(condition, what):
    end = time.monotonic() + SECONDS_MAX
    while not (found := condition()):
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.005)
    return found


class Init:
    """with Init(program, "sh", "-c", "...", options=[...]) as init: the sandbox' first process."""

    def __init__(self, program, *argv, options=(), env=None, work=(), setup=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="execd-init-"))
        self.socket_path = self.folder / "execd.sock"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.socket_path))
        listener.listen(64)
        with listener, open(self.folder / "exit", "w+b") as exit_file, \
                open(self.folder / "log", "w+b") as log:
            fds = [listener.fileno(), exit_file.fileno(), log.fileno(), *work]
            assert min(fds) >= FD_FIRST + FD_ROOM, "reserve_descriptors() comes first"

            def lay_out():
                for number, fd in enumerate(fds, FD_FIRST):
                    os.dup2(fd, number)
                if setup:
                    setup()

            self.process = subprocess.Popen(
                ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", program, "--init",
                 "--work-fds", str(len(work)), *options, "--", *argv],
                preexec_fn=lay_out, close_fds=False, stderr=subprocess.PIPE,
                env={"PATH": os.environ["PATH"], "ASAN_OPTIONS": "detect_leaks=0", **(env or {})})

    def __enter__(self):
        """Returns once the entrypoint runs or has failed to start."""
        wait_for(lambda: (self.folder / "exit").stat().st_size == REPORT.size, "a report")
        wait_for(lambda: self.report().phase > STARTING, "the start")
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()  # and with it, the namespace
        self.process.communicate()
        shutil.rmtree(self.folder)

    def report(self):
        data = (self.folder / "exit").read_bytes()
        magic, version, phase, *numbers, message, _, _ = REPORT.unpack(data)
        assert magic == b"osbexit\0" and version == 1, f"no report: {data!r}"
        return Report(phase, *numbers, message.rstrip(b"\0").decode())

    def log_size(self):
        """(bytes the entrypoint wrote, bytes the file takes)"""
        with open(self.folder / "log", "rb") as file:
            magic, version, capacity, written, _ = LOG_HEAD.unpack(file.read(LOG_HEAD.size))
        assert (magic, version, capacity) == (b"osbelog\0", 1, LOG_BYTES)
        return written, (self.folder / "log").stat().st_size

    def log(self):
        """The ring in order, oldest byte first."""
        written, _ = self.log_size()
        data = (self.folder / "log").read_bytes()[LOG_DATA:LOG_DATA + LOG_BYTES]
        at = written % LOG_BYTES
        return data[:written] if written <= LOG_BYTES else data[at:] + data[:at]

    def wait_for_log(self, text):
        wait_for(lambda: text in self.log(), f"{text!r} in the log")

    def pid(self):
        """Of execd, as we count."""
        return wait_for(lambda: children(self.process.pid), "the first process")[0]

    def signal(self, signo):
        os.kill(self.pid(), signo)

    @contextlib.contextmanager
    def stopped(self):
        """Stops the process (SIGSTOP) for the duration of the block. Yields its pid."""
        execd = self.pid()
        os.kill(execd, signal.SIGSTOP)
        try:
            yield execd
        finally:
            os.kill(execd, signal.SIGCONT)

    def wait(self):
        """The status it ends with."""
        return self.process.wait(SECONDS_MAX)

    def connect(self):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(SECONDS_MAX)
        client.connect(str(self.socket_path))
        return client

    def get(self, path, client=None):
        """(head, body) of a reply; a client given stays open."""
        with contextlib.ExitStack() as stack:
            client = client or stack.enter_context(self.connect())
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: sandbox\r\n\r\n".encode())
            reply = b""
            while b"\r\n\r\n" not in reply:
                reply += read_some(client)
            head, body = reply.split(b"\r\n\r\n", 1)
            length = int(head.lower().split(b"content-length:")[1].split()[0])
            while len(body) < length:
                body += read_some(client)
        return head, body


def read_some(client):
    piece = client.recv(65536)
    assert piece, "the connection ended"
    return piece


def until(path):
    """A line of shell that waits for a file."""
    return f"until [ -e {path} ]; do sleep 0.01; done"


def children(pid):
    """The child processes of a process, zombies too."""
    with contextlib.suppress(OSError):
        text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
        return [int(number) for number in text.split()]
    return []


def is_zombie(pid):
    """Whether the process is a zombie: it ended and was not reaped yet."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return status_of(pid, "State").startswith("Z")
    return False


def remove_group(folder):
    """Removes a control group once all of its processes have ended."""
    def gone():
        with contextlib.suppress(OSError):
            folder.rmdir()
        return not folder.exists()
    wait_for(gone, "an empty control group")


def status_of(pid, field):
    """A line of /proc/PID/status."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split(":", 1)[1].strip() for line in lines if line.startswith(field + ":"))
