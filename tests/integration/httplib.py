"""httplib.py - what the HTTP tests share: a server to attack, a client of raw bytes, TAP."""
import contextlib
import os
import pathlib
import resource
import signal
import socket
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
from tap import Skip, Tap, run_tests  # noqa: E402, F401

SECONDS_MAX = 60
PATIENCE_MS = 600 * 1000  # of httpd, where it is told of no other


class Response:
    def __init__(self, head):
        lines = head.decode("latin-1").split("\r\n")
        self.version, self.status = lines[0].split(" ")[0], int(lines[0].split(" ")[1])
        self.rows = [tuple(part.strip() for part in line.split(":", 1)) for line in lines[1:]]
        self.body = b""

    def get(self, name):
        """The value of a header that stands once, or None."""
        values = [value for row, value in self.rows if row.lower() == name.lower()]
        assert len(values) <= 1, f"{name} stands {len(values)} times"
        return values[0] if values else None


class Connection:
    """One connection. Everything received and not asked for yet waits in self.inbox."""

    def __init__(self, sock):
        self.sock = sock
        self.inbox = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def receive(self):
        data = self.sock.recv(1 << 18)
        if not data:
            raise EOFError(f"the peer closed; before that came {self.inbox[:200]!r}")
        self.inbox += data

    def take_until(self, mark):
        while mark not in self.inbox:
            self.receive()
        found, self.inbox = self.inbox.split(mark, 1)
        return found

    def take(self, count):
        while len(self.inbox) < count:
            self.receive()
        found, self.inbox = self.inbox[:count], self.inbox[count:]
        return found


class Client(Connection):
    """The client's end of a connection that speaks HTTP."""

    def __init__(self, endpoint, timeout=SECONDS_MAX, receive_bytes=None):
        super().__init__(socket.socket())
        self.sock.settimeout(timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_bytes:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.sock.connect(endpoint)

    def send(self, data):
        self.sock.sendall(data)

    def take_chunks(self):
        body = b""
        while True:
            size = int(self.take_until(b"\r\n"), 16)
            body += self.take(size)
            assert self.take(2) == b"\r\n", "a chunk does not end in CRLF"
            if size == 0:
                return body

    def take_rest(self):
        with contextlib.suppress(EOFError):
            while True:
                self.receive()
        rest, self.inbox = self.inbox, b""
        return rest

    def response(self, no_body=False):
        r = Response(self.take_until(b"\r\n\r\n"))
        length = r.get("Content-Length")
        if no_body or r.status < 200 or r.status in (204, 304):
            return r
        if r.get("Transfer-Encoding") == "chunked":
            assert length is None, "both Content-Length and Transfer-Encoding"
            r.body = self.take_chunks()
        elif length is not None:
            r.body = self.take(int(length))
        else:
            r.body = self.take_rest()
        return r

    def ask(self, data, no_body=False):
        self.send(data)
        return self.response(no_body)

    def wait_closed(self):
        """Asserts that the server ends the connection and says nothing more before."""
        with contextlib.suppress(ConnectionError):
            rest = self.take_rest()
            assert rest == b"", f"and then came {rest[:200]!r}"

    def half_close(self):
        self.sock.shutdown(socket.SHUT_WR)


def request(method, target, *headers, body=b"", version="1.1"):
    """A well-formed request; Content-Length is added when there is a body."""
    lines = [f"{method} {target} HTTP/{version}", "Host: test", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


GET_JSON = request("GET", "/json")


class Server:
    """httpd on a port of its own; stopped by pid at the end of the `with` block."""

    def __init__(self, program, *args, listen="127.0.0.1:0", descriptors_max=None):
        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors_max, descriptors_max))

        # ASan keeps what was freed for a while, which would look like growth.
        asan = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1"
        self.process = subprocess.Popen([program, listen, *args], stdout=subprocess.PIPE,
                                        env={**os.environ, "ASAN_OPTIONS": asan},
                                        preexec_fn=limit if descriptors_max else None)
        options = dict(zip(args, args[1:]))
        self.deadline_s = int(options.get("--deadlines", PATIENCE_MS)) / 1000
        self.address = self.process.stdout.readline().decode().strip()
        host, port = self.address.rsplit(":", 1)
        self.endpoint = (host, int(port)) if port.isdigit() else None  # or a unix socket
        self.sanitized = b"__asan_init" in pathlib.Path(program).read_bytes()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.drain()
        try:
            status = self.exit_status()
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self.process.stdout.close()
        assert status == 0, f"the server ended with {status}"

    def connect(self, **options):
        return Client(self.endpoint, **options)

    def ask(self, data, no_body=False):
        """One request on a connection of its own."""
        with self.connect() as c:
            return c.ask(data, no_body)

    def ask_in_time(self, data):
        """Repeats a request that got 408 because this machine was suspended for as long as the
        server's deadline. A 408 that comes earlier than half the deadline is returned."""
        for _ in range(20):
            begin = time.monotonic()
            r = self.ask(data)
            if r.status != 408 or time.monotonic() - begin < self.deadline_s / 2:
                break
        return r

    def is_well(self):
        assert self.process.poll() is None, f"the server died: {self.process.returncode}"
        status = self.ask_in_time(GET_JSON).status
        assert status == 200, f"the server answers {status}"

    def rss_bytes(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            row = next(line for line in status if line.startswith("VmRSS:"))
        return int(row.split()[1]) * 1024

    def check_growth(self, before_bytes, bytes_max):
        """Asserts how much the memory grew since rss_bytes() was `before_bytes`. Not checked under
        sanitizers, which need memory of their own."""
        grown = self.rss_bytes() - before_bytes
        assert self.sanitized or grown < bytes_max, f"the server grew by {grown} bytes"

    def descriptors(self):
        """What each open descriptor is: "socket", "pipe", "anon_inode", a path."""
        folder = f"/proc/{self.process.pid}/fd"
        kinds = []
        for fd in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):  # closed since it was listed
                kinds.append(os.readlink(f"{folder}/{fd}").split(":")[0])
        return kinds

    def drain(self):
        """SIGTERM; returns at once."""
        self.process.send_signal(signal.SIGTERM)

    def exit_status(self):
        return self.process.wait(SECONDS_MAX)


def wait_for(condition, otherwise="waited in vain"):
    until = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < until, otherwise
        time.sleep(0.01)
