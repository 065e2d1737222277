"""held_bodies.py - many large request bodies that execd must hold in memory at the same time."""
import contextlib
import json
import select
import socket

SECONDS_MAX = 240
PIECE_BYTES = 256 << 10


def replace_body(path, size):
    """A body of POST /files/replace of exactly `size` bytes, for a text the file does not have."""
    empty = json.dumps({path: {"old": "", "new": ""}})
    return json.dumps({path: {"old": "x" * (size - len(empty)), "new": ""}}).encode()


class Upload:
    """One request to POST /files/replace whose body stays without its last byte until end()."""

    def __init__(self, socket_path, body, headers=()):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(SECONDS_MAX)
        self.socket.connect(str(socket_path))
        self.last, self.sent = body[-1:], True
        head = "\r\n".join(["POST /files/replace HTTP/1.1", "Host: sandbox", "Connection: close",
                            f"Content-Length: {len(body)}", *headers, "", ""])
        self.put(head.encode())
        for at in range(0, len(body) - 1, PIECE_BYTES):
            if not self.sent or select.select([self.socket], [], [], 0)[0]:
                break  # it was answered or cut
            self.put(body[at:min(at + PIECE_BYTES, len(body) - 1)])

    def put(self, data):
        try:
            self.socket.sendall(data)
        except ConnectionError:
            self.sent = False

    def end(self):
        """(status, {header: value}, body); status 0 when there was no answer."""
        answer = b""
        if self.sent and not select.select([self.socket], [], [], 0)[0]:
            self.put(self.last)
        with contextlib.suppress(ConnectionError), self.socket:
            while (data := self.socket.recv(1 << 16)):
                answer += data
        head, _, body = answer.partition(b"\r\n\r\n")
        first, *rows = head.decode("latin-1").split("\r\n")
        return (int(first.split()[1]) if first else 0,
                {k.lower(): v.strip() for k, v in (row.split(":", 1) for row in rows)}, body)


def hold(socket_path, count, body, headers=()):
    """Holds `count` bodies at a time, then ends all: their answers."""
    uploads = [Upload(socket_path, body, headers) for _ in range(count)]
    return [upload.end() for upload in uploads]
