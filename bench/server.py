"""server.py - what benchmarks of the API share: a server of our own, and a cheap client.

The client is a socket and a few searches in bytes: what a benchmark times is the server.
"""
import contextlib
import json
import os
import pathlib
import select
import socket
import subprocess
import sys
import time

import lib

CONFIG = """
[server]
timeout_keep_alive = 600
state = "{state}"
[log]
level = "WARNING"
"""
KEY_HEADER = "OPEN-SANDBOX-API-KEY"
EXECD_PORT = 44772
ANSWER_S = 120  # without a byte for so long, a request has failed
IDLE = {"image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"], "timeout": 3600,
        "resourceLimits": {"cpu": "1", "memory": "256Mi"}}


class Client:
    """One connection that is kept, over TCP or, given a path, over AF_UNIX."""

    def __init__(self, address, key=""):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        self.sock.settimeout(ANSWER_S)
        self.sock.connect(address)
        if family == socket.AF_INET:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.headers = "Host: bench\r\n" + (f"{KEY_HEADER}: {key}\r\n" if key else "")
        self.got = b""

    def message(self, method, path, body=b"", headers=""):
        head = f"{method} {path} HTTP/1.1\r\n{self.headers}{headers}Content-Length: {len(body)}"
        return f"{head}\r\n\r\n".encode() + body

    def send(self, message):
        self.got = b""
        self.sock.sendall(message)

    def send_json(self, method, path, value=None):
        body = b"" if value is None else json.dumps(value).encode()
        self.send(self.message(method, path, body, "Content-Type: application/json\r\n"))

    def more(self):
        piece = self.sock.recv(65536)
        if not piece:
            raise ConnectionError("the server hung up")
        self.got += piece

    def until(self, mark):
        while mark not in self.got:
            self.more()

    def finish(self):
        """The rest of one answer: its status and its body, which for a stream is as it was sent."""
        self.until(b"\r\n\r\n")
        head, _, body = self.got.partition(b"\r\n\r\n")
        low = head.lower()
        if b"\r\ntransfer-encoding: chunked" in low:
            while not body.endswith(b"0\r\n\r\n"):
                self.more()
                body = self.got[len(head) + 4:]
        elif b"\r\ncontent-length:" in low:
            length = int(low.split(b"\r\ncontent-length:")[1].split(b"\r\n")[0])
            while len(body) < length:
                self.more()
                body = self.got[len(head) + 4:]
        return int(head.split(b" ", 2)[1]), body

    def call(self, method, path, value=None):
        self.send_json(method, path, value)
        status, body = self.finish()
        if status >= 400:
            raise RuntimeError(f"{method} {path}: {status} {body[:300]!r}")
        return body

    def call_json(self, method, path, value=None):
        return json.loads(self.call(method, path, value) or b"null")

    def close(self):
        self.sock.close()


class Server:
    """opensandbox-server with a state directory that is gone afterwards."""

    def __init__(self, bench, scratch, more=""):
        self.bench = bench
        scratch.chmod(0o711)  # the server is another user
        self.state = scratch / "osb"  # short: socket paths begin with it
        self.port = bench.free_port()
        config = scratch / "config.toml"
        config.write_text(CONFIG.format(state=self.state) + more)
        self.errors = open(scratch / "server.log", "w+", encoding="utf-8")
        self.process = bench.start(
            [lib.program("opensandbox-server"), "--config", str(config), "--port", str(self.port)],
            stderr=self.errors)
        try:
            bench.wait_port(self.port, seconds_max=30)
        except TimeoutError:
            self.errors.seek(0)
            sys.exit(f"the server does not start:\n{self.errors.read()}")
        self.key = (self.state / "server/api_key").read_text().strip()
        self.client = self.connect()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Ends the server and removes every sandbox, which would otherwise keep running."""
        with contextlib.suppress(OSError, RuntimeError, ValueError):  # a server that is gone
            client = self.connect()
            while items := client.call_json("GET", "/v1/sandboxes?pageSize=200")["items"]:
                for item in items:
                    client.call("DELETE", f"/v1/sandboxes/{item['id']}")
        self.bench.stop(self.process)
        subprocess.run([lib.program("opensandbox-broker"), "--state", str(self.state), "--execd",
                        lib.program("execd"), "--sweep"], check=True, stdout=self.errors,
                       stderr=self.errors)
        self.errors.close()

    def connect(self):
        return Client(("127.0.0.1", self.port), self.key)

    def create(self, spec=None):
        """A sandbox that runs."""
        made = self.client.call_json("POST", "/v1/sandboxes", spec or IDLE)
        self.wait_running([made["id"]])
        return made["id"]

    def wait_running(self, ids, seconds_max=60):
        deadline = time.monotonic() + seconds_max
        for sandbox in ids:
            while True:
                status = self.client.call_json("GET", f"/v1/sandboxes/{sandbox}")["status"]
                if status["state"] == "Running":
                    break
                if status["state"] != "Pending" or time.monotonic() > deadline:
                    raise RuntimeError(f"sandbox {sandbox} is {status}")
                time.sleep(0.002)

    def delete(self, sandbox):
        self.client.call("DELETE", f"/v1/sandboxes/{sandbox}")

    def each_at_once(self, messages, connections):
        """Sends all messages over so many connections, each as soon as one is free; the answers."""
        clients = [self.connect() for _ in range(min(connections, len(messages)))]
        poll, by_fd, answers = select.poll(), {}, []
        waiting = list(reversed(messages))
        for client in clients:
            by_fd[client.sock.fileno()] = client
            poll.register(client.sock, select.POLLIN)
            client.send(waiting.pop())
        while len(answers) < len(messages):
            for fd, _ in poll.poll():
                answers.append(by_fd[fd].finish())
                if waiting:
                    by_fd[fd].send(waiting.pop())
        for client in clients:
            client.close()
        return answers

    def create_many(self, count, connections):
        """So many at once; their ids, when all of them run."""
        message = self.client.message("POST", "/v1/sandboxes", json.dumps(IDLE).encode(),
                                      "Content-Type: application/json\r\n")
        answers = self.each_at_once([message] * count, connections)
        ids = [json.loads(body)["id"] for status, body in answers if status == 202]
        if len(ids) != count:
            raise RuntimeError(f"{count - len(ids)} creations were refused: {answers[-1]}")
        self.wait_running(ids)
        return ids

    def delete_many(self, ids, connections=16):
        self.each_at_once([self.client.message("DELETE", f"/v1/sandboxes/{id}") for id in ids],
                          connections)

    def execd(self, sandbox):
        """The path of execd behind the gateway, and its socket."""
        return (f"/v1/sandboxes/{sandbox}/proxy/{EXECD_PORT}",
                str(self.state / "server/sandboxes" / sandbox / "sock"))

    def pids(self, sandbox):
        """All processes of a sandbox, as the host numbers them."""
        text = self.client.call("GET", f"/v1/sandboxes/{sandbox}/diagnostics/inspect").decode()
        found = [int(text.split("pid:")[1].split()[0])]
        for pid in found:  # grows while we look
            for task in os.listdir(f"/proc/{pid}/task"):
                found += map(int, pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text()
                             .split())
        return found
