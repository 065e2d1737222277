#!/usr/bin/env python3
"""test_sdk_c_hostile.py CLIENT - libopensandbox against a peer that misbehaves. CLIENT is the
program of tests/sdk/c/sdk_hostile.c, whose TAP is passed on; the id in a path says what the peer
does."""
import contextlib
import io
import json
import os
import socket
import socketserver
import struct
import subprocess
import sys
import tarfile
import threading
import time

SECONDS_MAX = 120
STDOUT = b'{"type":"stdout","text":"hello","timestamp":1}'
END = b'{"type":"execution_complete","timestamp":2}'


def head(status="200 OK", kind="application/json", *more):
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", "Connection: close", *more]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def whole(body, status="200 OK", kind="application/json", *more):
    return head(status, kind, f"Content-Length: {len(body)}", *more) + body


def archive(*entries):
    """A tar of (name, type, link or content)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, kind, text in entries:
            info = tarfile.TarInfo(name)
            info.type = kind
            if kind == tarfile.SYMTYPE:
                info.linkname = text
                tar.addfile(info)
            else:
                info.size = len(text)
                tar.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


STREAM = head("200 OK", "text/event-stream", "Transfer-Encoding: chunked")
EVIL = archive(("../evil", tarfile.REGTYPE, "x"))

# What answers a POST to the daemon, or a GET of a directory, of the sandbox with that id.
STREAMS = {
    "no-end": STREAM + chunk(STDOUT + b"\n\n") + b"0\r\n\r\n",
    "cut": STREAM + chunk(STDOUT + b"\n\n") + b"100\r\n{\"type",
    "garbage": STREAM + chunk(b"\x00\xff what\n\n") + b"0\r\n\r\n",
    "half-json": STREAM + chunk(b'{"type":\n\n') + b"0\r\n\r\n",
    "no-type": STREAM + chunk(b'{"text":"x"}\n\n') + b"0\r\n\r\n",
    "bad-chunk": STREAM + b"zz\r\n",
    "no-http": b"SSH-2.0-OpenSSH_9.9\r\n\r\n",
    "data": STREAM + chunk(b"event: x\nid: 7\ndata: " + STDOUT + b"\n\n: comment\ndata:" + END
                           + b"\n\n") + b"0\r\n\r\n",
    "crlf": STREAM + chunk(STDOUT + b"\r\n\r\n" + END) + b"0\r\n\r\n",
    "unknown-events": STREAM + chunk(b'{"type":"new","x":[1]}\n\n' + STDOUT + b"\n\n" + END
                                     + b"\n\n") + b"0\r\n\r\n",
    "refuse": whole(b'{"code":"CONTENT_TOO_LARGE","message":"too large"}', "413 Too Large"),
    "tar-up": whole(EVIL, kind="application/x-tar"),
    "tar-root": whole(archive(("/tmp/osb-evil", tarfile.REGTYPE, "x")), kind="application/x-tar"),
    "tar-link": whole(archive(("out", tarfile.SYMTYPE, ".."), ("out/evil", tarfile.REGTYPE, "x")),
                      kind="application/x-tar"),
    "tar-cut": whole(archive(("a", tarfile.REGTYPE, "x" * 5000))[:2000], kind="application/x-tar"),
    "tar-garbage": whole(b"no archive " * 100, kind="application/x-tar"),
}

# What answers a GET of the sandbox with that id.
SANDBOXES = {
    "good": whole(b'{"id":"good","status":{"state":"Of tomorrow"},"new":{"a":1}}'),
    "not-json": whole(b"<html>"),
    "wrong-type": whole(b'{"id":7,"status":{"state":"Running"}}'),
    "no-body": whole(b""),
    "deep": whole(b"[" * 100000),
    "half-body": head("200 OK", "application/json", "Content-Length: 100") + b'{"id"',
    "html": whole(b"<html>502</html>", "502 Bad Gateway", "text/html"),
    "detail": whole(b'{"detail":{"code":"SOME::CODE","message":"the message"}}', "409 Conflict",
                    "application/json", "X-Request-ID: req-7"),
    "later": whole(b'{"code":"BUSY","message":"later"}', "503 Busy", "application/json",
                   "Retry-After: 17"),
    "empty-error": whole(b"", "404 Not Found"),
    "big-head": b"HTTP/1.1 200 OK\r\nX: " + b"x" * (2 << 20),
    "failed": whole(json.dumps({"id": "failed", "status": {
        "state": "Failed", "reason": "IMAGE", "message": "no such image"}}).encode()),
}


class Peer(socketserver.BaseRequestHandler):
    def handle(self):
        with contextlib.suppress(OSError):
            self.answer()

    def send(self, data):
        self.request.sendall(data)

    def hold(self):
        """Until the client gives up."""
        self.request.settimeout(SECONDS_MAX)
        while self.request.recv(65536):
            pass

    def answer(self):
        data = b""
        while b"\r\n\r\n" not in data:
            piece = self.request.recv(65536)
            if not piece:
                return
            data += piece
        method, path = data.split(b" ", 2)[:2]
        parts = path.decode().split("?")[0].strip("/").split("/")
        if parts[0] != "v1":
            self.stream(parts[0], data)
        elif method == b"POST":
            self.send(whole(b'{"id":"failed","status":{"state":"Pending"}}', "202 Accepted"))
        elif "endpoints" in parts:
            self.send(whole(self.endpoint(parts[2])))
        else:
            self.sandbox(parts[2])

    def endpoint(self, name):
        host, port = self.server.server_address
        if name == "bad-endpoint":
            return b'{"endpoint":"not a host:70000"}'
        if name == "bad-header":
            return b'{"endpoint":"h","headers":{"a b":"c\\r\\nd"}}'
        return json.dumps({"endpoint": f"{host}:{port}/{name}"}).encode()

    def sandbox(self, name):
        if name == "never":
            self.hold()
        elif name == "reset":
            self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            self.send(SANDBOXES[name])
            if name == "half-body":
                self.hold()

    def stream(self, name, data):
        if name == "failed":
            self.send(whole(b"", "502 Bad Gateway"))
        elif name == "silent":
            self.send(STREAM)
            self.hold()
        elif name == "slow":
            text = STREAM + chunk(STDOUT + b"\n\n") + chunk(END + b"\n\n") + b"0\r\n\r\n"
            for byte in text:
                self.send(bytes([byte]))
                time.sleep(0.001)
        elif name == "endless":
            self.send(STREAM)
            while True:
                self.send(chunk(b"{" + b" " * 65535))
        else:
            self.send(STREAMS[name])
            if name in ("refuse", "no-http"):  # closing now would reset what was sent
                self.hold()


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True


def main():
    with Server(("127.0.0.1", 0), Peer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host, port = server.server_address
        env = {**os.environ, "OPEN_SANDBOX_DOMAIN": f"{host}:{port}", "OPEN_SANDBOX_API_KEY": "k"}
        return subprocess.run([*sys.argv[1:]], env=env, check=False).returncode


sys.exit(main())
