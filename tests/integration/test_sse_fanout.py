#!/usr/bin/env python3
"""test_sse_fanout.py PROGRAM [--clients=N] [--sanitized] - a thousand clients of one event stream.

Nine in ten read all the time; one in ten stops reading, half of these at once and half later. The
fast ones must get every event and a clean end, the slow ones must be dropped for their lag and see
a broken transfer, and the server must stay small. TAP on standard output.

That a slow client lags must not depend on how much the kernel happens to buffer: the server's
--send-buffer and SO_RCVBUF here leave it some 100 KiB, and the server then publishes LAG bytes and
a margin of three times that before the stream ends. That a fast client is never dropped must not
depend on how fast this machine lets us read: the server publishes nothing while more clients lag
than there are slow ones. That holds from the first drop of a slow one until the end, too, where
fewer events are left than it takes to be dropped.
"""
import argparse
import json
import resource
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import zlib

EVENT = 8 * 1024
EVERY_MS = 20
LAG = 1 << 20
STOP_AT = 40  # the event after which some clients stop reading
COUNT = STOP_AT + LAG // EVENT + 40  # the rest is what kernel and server queue per client
SECONDS_MAX = 240
SEND_BUFFER = 16 * 1024
# A connection and its request (8), and its queue of 16 KiB in a buffer of at most twice that.
# Copies of what slow clients lag would cost LAG for each of them, and not fit.
KIB_PER_CLIENT = 40
KIB_MARGIN = 1024  # of the allocator, and for answering /stats

FAST, STOPS_LATER, STOPS_AT_ONCE = range(3)
RECEIVE_BUFFER = (0, 32 * 1024, 4 * 1024)  # by kind; 0 is what the kernel likes


class Client:
    """One connection: checks the events as they come, whole ones in each HTTP chunk."""

    expected = {}  # sequence number -> the event's bytes, checked once

    def __init__(self, address, kind):
        self.kind = kind
        self.seen = 0
        self.end = None  # "clean", "broken" or what was wrong
        self.buffer = b""
        self.sock = socket.socket()
        if RECEIVE_BUFFER[kind]:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER[kind])
        self.sock.connect(address)
        self.sock.sendall(b"GET /events HTTP/1.1\r\nHost: test\r\n\r\n")
        self.sock.setblocking(False)
        self.in_head = True

    def read(self):
        """Takes what is there. False once there will be no more."""
        try:
            piece = self.sock.recv(256 * 1024)
        except BlockingIOError:
            return True
        except ConnectionResetError:
            piece = b""
        if not piece:
            self.end = self.end or "broken"
        else:
            self.buffer += piece
            self.parse()
        return self.end is None

    def parse(self):
        if self.in_head:
            head, found, rest = self.buffer.partition(b"\r\n\r\n")
            if not found:
                return
            self.in_head = False
            self.buffer = rest
            if not head.startswith(b"HTTP/1.1 200 ") or b"text/event-stream" not in head:
                self.end = f"head {head!r}"
        at = 0
        while self.end is None:
            line_end = self.buffer.find(b"\r\n", at, at + 20)
            if line_end < 0:
                break
            begin, size = line_end + 2, int(self.buffer[at:line_end], 16)
            if len(self.buffer) < begin + size + 2:
                break
            for event in self.buffer[begin:begin + size].split(b"\n\n")[:-1] or [b""]:
                self.take(event + b"\n\n" if event else event)
            at = begin + size + 2
        self.buffer = self.buffer[at:]

    def take(self, chunk):
        if not chunk:
            self.end = "clean"
        elif chunk == b":\n\n":
            pass  # a ping
        elif chunk == self.expected_event(self.seen + 1, chunk):
            self.seen += 1
        else:
            self.end = f"after event {self.seen} came {chunk[:60]!r}"

    @classmethod
    def expected_event(cls, seq, chunk):
        """The event's bytes: of the first client to see it, once they check out."""
        if seq not in cls.expected:
            name, event_id, data, *rest = chunk.decode().split("\n")
            value = json.loads(data.removeprefix("data: "))
            sound = (name == "event: tick" and event_id == f"id: {seq}" and rest == ["", ""]
                     and value["seq"] == seq and len(value["pad"]) == EVENT
                     and zlib.adler32(value["pad"].encode()) == value["adler32"])
            cls.expected[seq] = chunk if sound else None
        return cls.expected[seq]


class Server:
    def __init__(self, program, clients):
        options = {"--every": EVERY_MS, "--bytes": EVENT, "--count": COUNT, "--hold": clients,
                   "--lagging": clients // 10,
                   "--lag-bytes": LAG, "--lag-ms": 1000 * SECONDS_MAX,
                   "--send-buffer": SEND_BUFFER}
        words = [str(word) for pair in options.items() for word in pair]
        self.process = subprocess.Popen([program, "127.0.0.1:0", *words], stdout=subprocess.PIPE,
                                        text=True)
        host, _, port = self.process.stdout.readline().strip().rpartition(":")
        self.address = (host, int(port))

    def stats(self):
        url = "http://%s:%d/stats" % self.address
        with urllib.request.urlopen(url, timeout=SECONDS_MAX) as reply:
            return json.load(reply)

    def memory_kib(self, key):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(key))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SECONDS_MAX)


def connect_all(server, count):
    kinds = [FAST if i % 10 else STOPS_LATER if i % 20 else STOPS_AT_ONCE for i in range(count)]
    return [Client(server.address, kind) for kind in kinds]


def read_all(clients, deadline):
    """Reads for all clients that still read, until none is left."""
    poller = select.epoll()
    reading = {c.sock.fileno(): c for c in clients if c.kind != STOPS_AT_ONCE}
    for fd in reading:
        poller.register(fd, select.EPOLLIN)
    while reading and time.monotonic() < deadline:
        for fd, _ in poller.poll(1, 256):
            client = reading[fd]
            going = client.read()
            if not going or (client.kind == STOPS_LATER and client.seen >= STOP_AT):
                poller.unregister(fd)
                del reading[fd]
    poller.close()


def read_rest(client, deadline):
    """What a slow client finds when it looks again."""
    client.sock.setblocking(True)
    client.sock.settimeout(SECONDS_MAX)
    while client.end is None and time.monotonic() < deadline:
        client.read()


def checks(clients, stats, sizes, sanitized):
    """Yields (name, passed, note)."""
    fast = [c for c in clients if c.kind == FAST]
    slow = [c for c in clients if c.kind != FAST]
    wrong = [c for c in fast if c.seen != COUNT]
    yield (f"each of {len(fast)} fast clients got all {COUNT} events in order, none missing",
           not wrong, "; ".join(f"{c.seen} events, {c.end}" for c in wrong[:3]))
    yield ("and each of their streams ended cleanly",
           all(c.end == "clean" for c in fast), str({c.end for c in fast}))
    yield (f"exactly the {len(slow)} slow clients were dropped",
           stats["dropped_slow"] == len(slow) and stats["left"] == 0, str(stats))
    yield ("by policy, for the bytes they lagged, says the callback",
           stats["dropped_reasons"] == {"lag_bytes": len(slow), "lag_ms": 0}, str(stats))
    ends = {c.end for c in slow}
    yield ("their transfers broke off, with no last chunk", ends == {"broken"}, str(ends))
    seen = [[c.seen for c in slow if c.kind == kind] for kind in (STOPS_AT_ONCE, STOPS_LATER)]
    yield ("after a gapless beginning, as long as they had read",
           max(seen[0]) < STOP_AT <= min(seen[1]) and max(seen[1]) < COUNT,
           " and ".join(f"{min(n)} to {max(n)} events" for n in seen))
    yield (f"the slowest lagged by at most {LAG} bytes",
           LAG - 2 * EVENT < stats["lag_bytes_peak"] <= LAG, str(stats["lag_bytes_peak"]))
    yield ("the hub reports its end and its numbers",
           stats["ended"] and stats["published"] == COUNT and stats["joined"] == len(clients),
           str(stats))
    bound = sizes["empty"] + LAG // 1024 + len(clients) * KIB_PER_CLIENT + KIB_MARGIN
    text = (f"{sizes['empty']} KiB empty, {sizes['joined']} with all clients, {sizes['peak']} at "
            f"most; allowed {bound}")
    name = "the server stayed within the lag limit and a constant per client"
    if sanitized:
        yield name + " # SKIP sanitizers use memory of their own", True, text
    else:
        yield name, sizes["peak"] <= bound, text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--sanitized", action="store_true", help="memory use means nothing")
    args = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    begin = time.monotonic()
    deadline = begin + SECONDS_MAX
    server = Server(args.program, args.clients)
    sizes = {"empty": server.memory_kib("VmRSS")}
    clients = connect_all(server, args.clients)
    sizes["joined"] = server.memory_kib("VmRSS")
    read_all(clients, deadline)
    stats = server.stats()
    for client in clients:
        if client.kind != FAST:
            read_rest(client, deadline)
    sizes["peak"] = server.memory_kib("VmHWM")
    results = list(checks(clients, stats, sizes, args.sanitized))
    results.append(("the server ends when told to", server.stop() == 0, ""))
    for number, (name, passed, note) in enumerate(results, 1):
        print(f"{'ok' if passed else 'not ok'} {number} - {name}")
        if note and (not passed or "KiB" in note or "events" in note):
            print(f"# {note}")
    print(f"# {time.monotonic() - begin:.1f} s")
    print(f"1..{len(results)}")
    return 0 if all(passed for _, passed, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
