"""execd_client.py - starts execd as an ordinary process, and talks to it as an SDK would."""
import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
from typing import NamedTuple

from execd_process import SECONDS_MAX, wait_for

TERMINAL = ("execution_complete", "error")
PING_MS_MIN = 2900


class Reply(NamedTuple):
    """A whole reply."""

    status: int
    headers: dict  # names in lower case
    body: bytes

    def json(self):
        return json.loads(self.body)


class Stream:
    """A reply in chunks, taken one at a time."""

    def __init__(self, client, path, body, headers=()):
        self.client, self.file = client, client.makefile("rb")
        self.ready = []  # events of the last chunk that were not returned yet
        self.status, self.headers = send(client, self.file, "POST" if body is not None else "GET",
                                         path, body, headers)

    def chunk(self):
        """The next chunk; b"" is the end."""
        size = int(self.file.readline(), 16)
        data = self.file.read(size)
        assert len(data) == size and self.file.read(2) == b"\r\n", "a broken chunk"
        return data

    def event(self):
        """The next event, or None at the end. A chunk holds whole events and nothing else."""
        if not self.ready:
            data = self.chunk()
            if not data:
                return None
            assert data.endswith(b"\n\n"), data
            self.ready = data[:-2].split(b"\n\n")[::-1]
        data = self.ready.pop()
        assert len(data) < 4 << 20, f"an event of {len(data)} bytes"
        text = data.decode()
        assert len(text.splitlines()) == 1, f"more than a line: {text!r}"
        return json.loads(text)

    def events(self):
        while (event := self.event()) is not None:
            yield event

    def output(self):
        """The next event of output."""
        return next(event for event in self.events() if event["type"] in ("stdout", "stderr"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.client.close()


def send(client, file, method, path, body, headers):
    """Sends a request and reads the head of its reply: (status, headers)."""
    lines = [f"{method} {path} HTTP/1.1", "Host: sandbox", *headers]
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    if body is not None:
        lines.append(f"Content-Length: {len(data)}")
    client.sendall("\r\n".join([*lines, "", ""]).encode() + data)
    status = int(file.readline().split()[1])
    rows = {}
    while (line := file.readline().strip()):
        name, value = line.decode().split(":", 1)
        rows[name.lower()] = value.strip()
    return status, rows


class Ran(NamedTuple):
    """The events of a command's stream."""

    id: str
    events: list

    def of(self, kind):
        return [event["text"] for event in self.events if event["type"] == kind]

    def text(self, kind):
        """The output again, with a LF for each end of a line."""
        pieces = []
        for event in self.events:
            if event["type"] != kind:
                continue
            if pieces and not event.get("continues"):
                pieces.append("\n")
            pieces.append("" if event["text"] == "\n" else event["text"])
        return "".join(pieces)

    def kinds(self):
        """Types of the events. The number of pings depends on time, so all but the first are left
        out."""
        kinds = [event["type"] for event in self.events]
        return kinds[:2] + [kind for kind in kinds[2:] if kind != "ping"]

    @property
    def last(self):
        return self.events[-1]

    @property
    def exit_code(self):
        return int(self.last["error"]["evalue"]) if self.last["type"] == "error" else 0


def check_order(events):
    """init, then anything, then exactly one terminal event."""
    assert events and events[0]["type"] == "init" and events[0]["text"], events[:1]
    assert [e["type"] for e in events].count("init") == 1, events
    ends = [e for e in events if e["type"] in TERMINAL]
    assert len(ends) == 1 and events[-1] is ends[0], events[-3:]
    assert all(isinstance(e["timestamp"], int) for e in events)
    assert all(e["text"] for e in events if e["type"] in ("stdout", "stderr"))


def check_ping_period(next_event):
    """Pings are due every 3 s. On a busy machine one may be late, and the next then seems too
    early: it is enough that any two consecutive ones have the right distance."""
    times = []
    while len(times) < 20:
        event = next_event()
        if event["type"] == "ping":
            times.append(event["timestamp"])
            if len(times) > 1 and times[-1] - times[-2] >= PING_MS_MIN:
                return
    raise AssertionError(f"pings at {times}")


class Client:
    """Requests over an AF_UNIX socket, a connection for each."""

    def __init__(self, socket_path, headers=()):
        self.socket_path, self.headers = str(socket_path), headers

    def connect(self):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(SECONDS_MAX)
        client.connect(self.socket_path)
        return client

    def answers(self):
        with contextlib.suppress(OSError):
            self.connect().close()
            return True
        return False

    def ask(self, method, path, body=None, headers=None):
        with self.connect() as client, client.makefile("rb") as file:
            headers = self.headers if headers is None else headers
            status, rows = send(client, file, method, path, body, headers)
            return Reply(status, rows, file.read(int(rows["content-length"])))

    def get(self, path):
        return self.ask("GET", path)

    def stream(self, command, **more):
        return Stream(self.connect(), "/command", {"command": command, **more}, self.headers)

    def run(self, command, **more):
        with self.stream(command, **more) as stream:
            assert stream.status == 200, f"{stream.status}: {stream.file.read1()}"
            events = list(stream.events())
        check_order(events)
        return Ran(events[0]["text"], events)

    def status(self, command_id):
        return self.get(f"/command/status/{command_id}").json()

    def logs(self, command_id, cursor=None):
        """(bytes, next cursor)"""
        query = "" if cursor is None else f"?cursor={cursor}"
        reply = self.get(f"/command/{command_id}/logs{query}")
        assert reply.status == 200, reply
        return reply.body, int(reply.headers["execd-commands-tail-cursor"])

    def wait_ended(self, command_id):
        wait_for(lambda: not self.status(command_id)["running"], f"the end of {command_id}")
        return self.status(command_id)


class Execd(Client):
    """with Execd(program) as execd: an ordinary process, with a folder of its own."""

    def __init__(self, program, *options, env=None, headers=(), setup=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="execd-"))
        self.folder.chmod(0o777)  # also for an execd that runs as another user
        if setup:
            # a user without access to /root can run the copy
            program = shutil.copy(program, self.folder)
        super().__init__(self.folder / "execd.sock", headers)
        self.process = subprocess.Popen(
            [program, "--listen", f"unix:{self.socket_path}", *options, "--", "tail", "-f",
             "/dev/null"],
            stderr=subprocess.PIPE, preexec_fn=setup,
            env={"PATH": os.environ["PATH"], "HOME": "/root", "ASAN_OPTIONS": "detect_leaks=0",
                 **(env or {})})

    def __enter__(self):
        wait_for(lambda: self.process.poll() is not None or self.answers(), "execd")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.communicate(timeout=SECONDS_MAX)
        self.process.kill()
        shutil.rmtree(self.folder)
