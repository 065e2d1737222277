#!/usr/bin/env python3
"""One abuse of a server by its connections, until standard input ends.

usage: abuser.py ABUSE PORT COUNT [PATH KEY]

Keeps COUNT connections busy with it; one that the server closes is opened again after a second.
Prints a line when all of them were opened once, and at the end how many were open, and how many
the server had closed.
"""
import os
import resource
import selectors
import socket
import sys
import time

REOPEN_S = 1.0
TICK_S = 0.05
SLOW_S = 0.5  # between two pieces of an upload
PIPELINED = 2000
UPLOAD_BYTES = 64 << 20
READ_BYTES = 1 << 20

GET = b"GET /v1/sandboxes/nothing HTTP/1.1\r\nHost: abuse\r\n\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nHost: abuse\r\n\r\n"
HALF = (b"POST /v1/sandboxes HTTP/1.1\r\nHost: abuse\r\nContent-Type: application/json\r\n"
        b"Content-Length: 100000\r\n\r\n{")


def upload_head(path, key):
    edge = "edge"
    part = (f'--{edge}\r\nContent-Disposition: form-data; name="metadata"; filename="metadata"\r\n'
            f'Content-Type: application/json\r\n\r\n{{"path": "/tmp/slow-%d", "mode": 644}}\r\n'
            f'--{edge}\r\nContent-Disposition: form-data; name="file"; filename="file"\r\n'
            f"Content-Type: application/octet-stream\r\n\r\n")
    return (f"POST {path}/files/upload HTTP/1.1\r\nHost: abuse\r\nOPEN-SANDBOX-API-KEY: {key}\r\n"
            f"Content-Type: multipart/form-data; boundary={edge}\r\n"
            f"Content-Length: {UPLOAD_BYTES}\r\n\r\n{part}")


class Connection:
    """One connection of the abuser; nothing here waits for it."""

    def __init__(self, abuse, number):
        self.abuse, self.number = abuse, number
        self.sock, self.left, self.due = None, b"", 0.0

    def open(self):
        self.sock = socket.socket()
        self.sock.setblocking(False)
        self.sock.connect_ex(("127.0.0.1", self.abuse.port))
        self.left = memoryview(self.abuse.first(self.number))
        self.abuse.selector.register(self.sock, self.events(), self)

    def events(self):
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self.left else 0)

    def close(self):
        self.abuse.selector.unregister(self.sock)
        self.sock.close()
        self.sock, self.due = None, time.monotonic() + REOPEN_S
        self.abuse.closed += 1

    def ready(self, events):
        try:
            if events & selectors.EVENT_READ and not self.sock.recv_into(self.abuse.room):
                self.close()
                return
            if events & selectors.EVENT_WRITE and self.left:
                self.left = self.left[self.sock.send(self.left):]
                if not self.left:
                    self.left = memoryview(self.abuse.next(self))
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        self.abuse.selector.modify(self.sock, self.events(), self)


class Abuse:
    """What all connections send: first() when they are open, next() when that is sent."""

    def __init__(self, port, count):
        self.port, self.closed = port, 0
        self.room = bytearray(READ_BYTES)
        self.selector = selectors.DefaultSelector()
        self.connections = [Connection(self, i) for i in range(count)]

    def first(self, _number):
        return b""

    def next(self, _connection):
        return b""

    def tick(self):
        """Now and then."""

    def run(self):
        os.set_blocking(sys.stdin.fileno(), False)
        self.selector.register(sys.stdin, selectors.EVENT_READ)
        waiting, said = list(reversed(self.connections)), False
        while True:
            for _ in range(min(len(waiting), 200)):  # others have their turn between
                waiting.pop().open()
            if not waiting and not said:
                said = print("ready", flush=True) is None
            for key, events in self.selector.select(TICK_S):
                if key.data is None:
                    opened = sum(c.sock is not None for c in self.connections)
                    print(f"{opened} {self.closed}", flush=True)
                    return
                key.data.ready(events)
            now = time.monotonic()
            if not waiting:
                waiting = [c for c in self.connections if c.sock is None and c.due <= now]
            self.tick()


class Idle(Abuse):
    """After one request: one that never sent any is closed soon."""

    def first(self, _number):
        return HEALTH


class Half(Abuse):
    def first(self, _number):
        return HALF


class Pipelining(Abuse):
    def first(self, _number):
        return GET * PIPELINED

    def next(self, _connection):
        return GET * PIPELINED


class SlowUploads(Abuse):
    def __init__(self, port, count, path, key):
        super().__init__(port, count)
        self.head, self.due = upload_head(path, key), time.monotonic() + SLOW_S

    def first(self, number):
        return (self.head % number).encode()

    def tick(self):
        if time.monotonic() < self.due:
            return
        self.due = time.monotonic() + SLOW_S
        for connection in self.connections:
            if connection.sock and not connection.left:
                connection.left = memoryview(b"x" * 100)
                connection.abuse.selector.modify(connection.sock, connection.events(), connection)


ABUSES = {"idle_connections": Idle, "half_requests": Half, "pipelining": Pipelining,
          "slow_uploads": SlowUploads}


def main():
    abuse, port, count, *more = sys.argv[1:]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    room = max(hard, int(count) + 100) if os.geteuid() == 0 else hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (room, room))
    os.nice(5)  # less priority: a real abuser's processor time would be another machine's
    ABUSES[abuse](int(port), int(count), *more).run()


if __name__ == "__main__":
    main()
