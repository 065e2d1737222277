"""http_backend.py - a server behind a proxy under test: it follows a script."""
import contextlib
import socket
import threading

from httplib import SECONDS_MAX, Client, Connection


class Backend:
    """Listens, on a unix socket if there is a path, and runs script(conn) in a thread for each
    connection. Keeps the heads it was sent."""

    def __init__(self, script, path=None):
        self.script = script
        self.requests = []
        self.begun = self.ended = 0  # connections, and those of them whose script returned
        self.counting = threading.Lock()
        self.path = path
        if path:
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(path)
            self.listener.listen(512)
        else:
            self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # Not closed while the thread is in accept(): when that call is restarted, as after SIGSTOP,
        # the descriptor number may belong to another listener by then.
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                self.begun += 1
                threading.Thread(target=self.talk, args=(sock,), daemon=True).start()

    def talk(self, sock):
        conn = BackendConn(self, sock)
        with contextlib.suppress(OSError, EOFError), sock:
            self.script(conn)
        with self.counting:
            self.ended += 1

    @property
    def address(self):
        return f"unix:{self.path}" if self.path else "%s:%d" % self.listener.getsockname()


class BackendConn(Client):
    def __init__(self, backend, sock):
        Connection.__init__(self, sock)
        self.backend = backend
        sock.settimeout(SECONDS_MAX)

    def read_head(self):
        head = self.take_until(b"\r\n\r\n").decode("latin-1")
        self.backend.requests.append(head)
        return head


def answer(text):
    """A backend that gives one fixed answer per request, on a kept connection."""
    def script(conn):
        while True:
            conn.read_head()
            conn.send(text)
    return script


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def echo(conn):
    """One request for each connection, which the answer says: a proxy must not send another."""
    head = conn.read_head()
    if "chunked" in head:
        body = conn.take_chunks()
    else:
        length = [row for row in head.split("\r\n") if row.startswith("Content-Length: ")]
        body = conn.take(int(length[0].split()[1])) if length else b""
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    conn.send(head + body)
