"""egress_world.py - a small internet in network namespaces, for tests of egress.

    sandbox eth0 -- [bridge] this process's namespace, "the host" -- internet

enter() puts this process, and all that it starts, into a namespace of its own. Internet() runs this
file in another one, behind it: a resolver, web servers, echo and sinks at many addresses. Nothing
leaves them; the kernel removes all of it with the processes.
"""
import contextlib
import ctypes
import hashlib
import json
import os
import selectors
import socket
import struct
import subprocess
import sys
import threading

CLONE_NEWNET = 0x40000000
HOST, NET = "198.51.100.1", "198.51.100.2"
HOST6, NET6 = "2001:db8:1::1", "2001:db8:1::2"
RESOLVER = NET
# Its first answer is public, those after it private, and none may be kept.
FLIPS, FLIPPED = "flip.allowed.test", [("A", "10.9.9.9")]
# Each name below them is 203.0.113.11.
WILD = (".wild.test", ".wild.allowed.test")
# name -> records
ZONE = {
    "www.allowed.test": [("A", "203.0.113.10"), ("AAAA", "2001:db8:3::10")],
    "api.allowed.test": [("A", "203.0.113.11")],
    "allowed.test": [("A", "203.0.113.12")],
    "other.test": [("A", "203.0.113.20"), ("AAAA", "2001:db8:3::20")],
    "denied.test": [("A", "203.0.113.30")],
    "alias.allowed.test": [("CNAME", "denied.test"), ("A", "203.0.113.30")],
    "cdn.allowed.test": [("CNAME", "edge.cdn.test"), ("A", "203.0.113.40")],
    "metadata.allowed.test": [("A", "169.254.169.254")],
    "loop.allowed.test": [("A", "127.0.0.1")],
    "mapped.allowed.test": [("AAAA", "::ffff:10.9.9.9")],
    "private.allowed.test": [("A", "10.9.9.9")],
    FLIPS: [("A", "203.0.113.11")],
    "text.allowed.test": [("TXT", "x" * 200)],
    "big.allowed.test": [("A", f"203.0.113.{100 + i}") for i in range(60)],
    "ports.test": [("A", "203.0.113.50")],
    "secure.test": [("A", "203.0.113.60")],
    "elsewhere.test": [("A", "203.0.113.61")],
    "model.test": [("A", "203.0.113.62")],
    # of the guide
    "pypi.org": [("A", "203.0.113.10")],
    "files.pythonhosted.org": [("A", "203.0.113.11")],
    "api.openai.com": [("A", "203.0.113.60")],
    "example.com": [("A", "203.0.113.61")],
}
# Where tests put servers of their own at port 443.
TLS_ADDRESSES = ("203.0.113.60", "203.0.113.61")
MODEL_ADDRESS = "203.0.113.62"
ADDRESSES = sorted({value for records in ZONE.values() for kind, value in records
                    if kind in ("A", "AAAA") and not value.startswith("127.")
                    and "ffff" not in value} | {"203.0.113.99", "2001:db8:3::99"})
TYPES = {"A": 1, "CNAME": 5, "TXT": 16, "AAAA": 28}
TCP_PORTS = (80, 443, 853, 8443)
UDP_PORTS = (443, 853, 5353)
PULL_PORT, ZEROES = 9000, bytes(1 << 20)


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def why_not():
    if os.geteuid() != 0:
        return "network namespaces and sandboxes need root"
    if subprocess.run(["unshare", "--net", "true"], check=False).returncode:
        return "network namespaces cannot be made here"
    return None


def enter():
    """Into a new network namespace: the host of the tests."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) < 0:
        raise OSError(ctypes.get_errno(), "unshare")
    ip("link", "set", "lo", "up")


class Internet:
    """The other side. Ask it for what arrived: arrivals("203.0.113.99")."""

    def __init__(self):
        self.process = subprocess.Popen(
            ["unshare", "--net", sys.executable, __file__], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "namespace\n"
        ip("link", "add", "up0", "type", "veth", "peer", "name", "up1", "netns",
           str(self.process.pid))
        ip("addr", "add", f"{HOST}/24", "dev", "up0")
        ip("addr", "add", f"{HOST6}/64", "dev", "up0", "nodad")
        ip("link", "set", "up0", "up")
        ip("route", "add", "default", "via", NET)
        ip("-6", "route", "add", "default", "via", NET6)
        self.ask("go")

    def ask(self, *words):
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def arrivals(self, address=None):
        """How many packets or connections arrived, in all or at an address."""
        counts = self.ask("counts")
        return sum(counts.values()) if address is None else counts.get(address, 0)

    def queries(self):
        """Names that the resolver was asked for, in order."""
        return self.ask("queries")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        ip("link", "del", "up0")
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


# --- inside ---


def encode(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def record(owner, kind, value, ttl=30):
    if kind in ("A", "AAAA"):
        data = socket.inet_pton(socket.AF_INET if kind == "A" else socket.AF_INET6, value)
    elif kind == "CNAME":
        data = encode(value)
    else:
        data = bytes([len(value)]) + value.encode()
    return encode(owner) + struct.pack("!HHIH", TYPES[kind], 1, ttl, len(data)) + data


def answer(query, queries, udp):
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode("latin-1"))
        at += query[at] + 1
    kind = struct.unpack("!H", query[at + 1:at + 3])[0]
    question = query[12:at + 5]
    name = ".".join(labels).lower()
    queries.append(name)
    owner, records = name, []
    wild = [("A", "203.0.113.11")] if name.endswith(WILD) else []
    flipped = name == FLIPS and queries.count(name) > 1
    for what, value in FLIPPED if flipped else ZONE.get(name, wild):
        if TYPES[what] == kind or what == "CNAME":
            records.append(record(owner, what, value, 0 if name == FLIPS else 30))
        if what == "CNAME":
            owner = value
    rcode = 0 if name in ZONE or wild else 3
    body = b"".join(records)
    flags, count = 0x8180 | rcode, len(records)
    if udp and 12 + len(question) + len(body) > 512:
        flags, count, body = flags | 0x0200, 0, b""
    return query[:2] + struct.pack("!HHHHH", flags, 1, count, 0, 0) + question + body


def digests(request):
    """SHA-256 of the value of each header: an echo that no one can redact."""
    rows = [line.partition(b":") for line in request.split(b"\r\n\r\n")[0].split(b"\r\n")[1:]]
    return {name.decode("latin-1").lower(): hashlib.sha256(value.strip()).hexdigest()
            for name, _, value in rows}


class Side:
    """The servers, on one selector."""

    def __init__(self):
        self.selector = selectors.DefaultSelector()
        self.counts, self.asked = {}, []

    def count(self, address):
        self.counts[address] = self.counts.get(address, 0) + 1

    def add(self, family, kind, address, port, ready):
        sock = socket.socket(family, kind)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        if kind == socket.SOCK_STREAM:
            sock.listen(64)
        sock.setblocking(False)
        self.selector.register(sock, selectors.EVENT_READ, ready)

    def on_dns(self, sock):
        data, peer = sock.recvfrom(65535)
        with contextlib.suppress(IndexError, struct.error, UnicodeError):
            sock.sendto(answer(data, self.asked, True), peer)

    def on_dns_tcp(self, sock):
        peer, _ = sock.accept()
        with peer, contextlib.suppress(OSError, IndexError, struct.error):
            peer.settimeout(5)
            size = struct.unpack("!H", peer.recv(2, socket.MSG_WAITALL))[0]
            reply = answer(peer.recv(size, socket.MSG_WAITALL), self.asked, False)
            peer.sendall(struct.pack("!H", len(reply)) + reply)

    def on_web(self, sock):
        peer, _ = sock.accept()
        self.count(sock.getsockname()[0])
        peer.setblocking(False)
        self.selector.register(peer, selectors.EVENT_READ, self.on_request)

    def on_request(self, peer):
        try:
            data = peer.recv(65536)
        except OSError:
            data = b""
        if not data:
            self.selector.unregister(peer)
            peer.close()
        elif data.startswith(b"GET /headers"):
            peer.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(data), data))
        elif data.startswith(b"GET /digests"):
            text = json.dumps(digests(data)).encode()
            peer.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
        elif data.startswith(b"GET "):
            text = peer.getsockname()[0].encode()
            peer.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
        else:
            self.count(peer.getsockname()[0])
            peer.sendall(data)  # an echo

    def on_echo(self, sock):
        data, peer = sock.recvfrom(65535)
        self.count(sock.getsockname()[0])
        sock.sendto(data, peer)

    def on_pull(self, sock):
        """As much as the other side takes, by a thread of its own."""
        peer, _ = sock.accept()

        def pour():
            with peer, contextlib.suppress(OSError):
                peer.settimeout(5)
                while True:
                    peer.sendall(ZEROES)
        threading.Thread(target=pour, daemon=True).start()

    def on_order(self, stream):
        line = stream.readline()
        if not line:
            sys.exit(0)
        word = json.loads(line)[0]
        reply = {"counts": self.counts, "queries": self.asked, "go": True}[word]
        print(json.dumps(reply), flush=True)

    def serve(self):
        print("namespace", flush=True)
        line = sys.stdin.readline()
        assert json.loads(line) == ["go"]
        ip("link", "set", "lo", "up")
        ip("addr", "add", f"{NET}/24", "dev", "up1")
        ip("addr", "add", f"{NET6}/64", "dev", "up1", "nodad")
        ip("link", "set", "up1", "up")
        for address in ADDRESSES:
            bits = "128" if ":" in address else "32"
            nodad = ["nodad"] if ":" in address else []
            ip("addr", "add", f"{address}/{bits}", "dev", "lo", *nodad)
        for address in (NET, NET6):
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            self.add(family, socket.SOCK_DGRAM, address, 53, self.on_dns)
            self.add(family, socket.SOCK_STREAM, address, 53, self.on_dns_tcp)
        for address in ADDRESSES:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            for port in TCP_PORTS:
                if port != 443 or address not in (*TLS_ADDRESSES, MODEL_ADDRESS):
                    self.add(family, socket.SOCK_STREAM, address, port, self.on_web)
            for port in UDP_PORTS:
                self.add(family, socket.SOCK_DGRAM, address, port, self.on_echo)
        self.add(socket.AF_INET, socket.SOCK_STREAM, "203.0.113.11", PULL_PORT, self.on_pull)
        self.selector.register(sys.stdin, selectors.EVENT_READ, self.on_order)
        print("true", flush=True)
        while True:
            for key, _ in self.selector.select():
                key.data(key.fileobj)


if __name__ == "__main__":
    Side().serve()
