"""execd's way to the ports of its sandbox: /proxy/{port}/...

Usage: test_execd_proxy.py EXECD-PROGRAM. TAP on standard output.
"""
import base64
import contextlib
import hashlib
import pathlib
import socket
import struct
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from execd_listen import Execd  # noqa: E402
from execd_process import SECONDS_MAX  # noqa: E402

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
BIG_BYTES = 50 << 20
WS_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Peer:
    """One end of a conversation in raw bytes."""

    def __init__(self, sock):
        sock.settimeout(SECONDS_MAX)
        self.sock, self.inbox = sock, b""

    def take_until(self, mark):
        while mark not in self.inbox:
            piece = self.sock.recv(65536)
            assert piece, f"the peer closed behind {self.inbox[-200:]!r}"
            self.inbox += piece
        found, self.inbox = self.inbox.split(mark, 1)
        return found

    def take(self, count):
        pieces, missing = [self.inbox[:count]], count - len(self.inbox)
        self.inbox = self.inbox[count:]
        while missing > 0:
            piece = self.sock.recv(min(missing, 1 << 20))
            assert piece, "the peer closed"
            pieces.append(piece)
            missing -= len(piece)
        return b"".join(pieces)

    def send(self, data):
        self.sock.sendall(data)


@contextlib.contextmanager
def backend(serve, address="127.0.0.1", family=socket.AF_INET):
    """A server on a free port; `serve` gets its first conversation. Yields the port."""
    failures = []
    with socket.create_server((address, 0), family=family) as listener:
        def run():
            try:
                sock, _ = listener.accept()
                with sock:
                    serve(Peer(sock))
            except Exception as failure:  # for the test's own thread to tell
                failures.append(failure)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            thread.join(SECONDS_MAX)
    assert not failures, failures


@contextlib.contextmanager
def client(x):
    with socket.create_connection(("127.0.0.1", x.port)) as sock:
        yield Peer(sock)


def forwards_the_request_as_it_is(x):
    seen = []

    def serve(peer):
        seen.append(peer.take_until(b"\r\n\r\n").decode("latin-1").split("\r\n"))
        peer.send(b"HTTP/1.1 203 Very Own\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\n"
                  b"Content-Length: 2\r\n\r\nok")

    with backend(serve) as port, client(x) as peer:
        peer.send(f"BREW /proxy/{port}/a%2Fb//c/../%20?x=%2F&x=+ HTTP/1.1\r\n"
                  "Host: app.example:80\r\nX-EXECD-ACCESS-TOKEN: secret\r\nX-Dup: 1\r\nx-dup: 2\r\n"
                  "X-Forwarded-For: 10.0.0.1, 10.0.0.2\r\nX-Forwarded-Proto: https\r\n"
                  "X-Forwarded-Host: outer\r\nConnection: close, X-Hop\r\nX-Hop: gone\r\n\r\n"
                  .encode())
        head = peer.take_until(b"\r\n\r\n").decode().split("\r\n")
        assert peer.take(2) == b"ok"
    assert head[0] == "HTTP/1.1 203 Very Own" and "Set-Cookie: a=1" in head, head
    assert "set-cookie: b=2" in head, head
    line, *rows = seen[0]
    assert line == "BREW /a%2Fb//c/../%20?x=%2F&x=+ HTTP/1.1", line
    for row in ("Host: app.example:80", "X-Dup: 1", "x-dup: 2",
                "X-Forwarded-For: 10.0.0.1, 127.0.0.1", "X-Forwarded-Proto: http"):
        assert rows.count(row) == 1, (row, rows)
    text = "\n".join(rows).lower()
    assert "secret" not in text and "x-hop" not in text and "outer" not in text, rows
    assert text.count("x-forwarded-") == 2, rows


def says_where_requests_come_from(x):
    seen = []

    def serve(peer):
        for _ in range(4):
            seen.append(peer.take_until(b"\r\n\r\n").decode())
            peer.send(b"HTTP/1.1 204 Fine\r\n\r\n")

    with backend(serve) as port:
        client = x.connect()
        client.connect()
        own = client.sock.getsockname()[1]
        for path, headers in ((f"/proxy/{port}", {}), (f"/proxy/{port}?q", {}),
                              (f"/proxy/{port}/", {"X-Real-IP": "192.0.2.7"}),
                              (f"/proxy/{port}/", {"X-Real-IP": "192.0.2.7",
                                                   "X-Forwarded-For": " 2001:db8::1 ,10.1.1.1"})):
            assert x.ask("GET", path, headers=headers, client=client).status == 204
    assert seen[0].startswith("GET / HTTP/1.1\r\n") and seen[1].startswith("GET /?q HTTP/1.1\r\n")
    for head, way in zip(seen, (f"127.0.0.1:{own}", f"127.0.0.1:{own}", "192.0.2.7",
                                "2001:db8::1")):
        assert f"X-Forwarded-For: {way}, 127.0.0.1\r\n" in head + "\r\n", head
        assert "X-Forwarded-Proto: http\r\n" in head + "\r\n", head
    assert "X-Real-IP: 192.0.2.7" in seen[2], seen[2]


def writes_an_ipv4_client_as_ipv4(x):
    seen = []

    def serve(peer):
        seen.append(peer.take_until(b"\r\n\r\n").decode())
        peer.send(b"HTTP/1.1 204 Fine\r\n\r\n")

    try:
        socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True).close()
    except (OSError, ValueError) as error:
        raise tap.Skip(f"no IPv6 here: {error}") from error
    with Execd(PROGRAM, listen="[::]:0") as both, backend(serve) as port:
        assert both.ask("GET", f"/proxy/{port}/").status == 204
    assert "::ffff" not in seen[0] and ", 127.0.0.1" in seen[0], seen


def refuses_what_is_no_port(x):
    for path in ("/proxy/", "/proxy//x"):
        answer = x.ask("GET", path)
        assert (answer.status, answer.body) == (400, b"port is required\n"), (path, answer.body)
    for port in ("0", "65536", "-1", "http", "80x", "%38%30", "127.0.0.1:80"):
        assert x.ask("GET", f"/proxy/{port}/").status == 400, port
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        answer = x.ask("GET", f"/proxy/{unused.getsockname()[1]}/")
    assert (answer.status, answer.body) == (502, b"Bad Gateway\n"), (answer.status, answer.body)
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8", answer.headers


def refuses_reserved_ports_however_they_are_nested(x):
    """Egress control and execd itself: the gateway refuses both, so execd must not lead there."""
    for prefix in ("", f"/proxy/{x.port}", "/proxy/44772", f"/proxy/44772/proxy/{x.port}"):
        for port in ("18080", "018080", "44772", "044772", str(x.port), f"0{x.port}", "%31%38080",
                     "1808%30"):
            for rest in ("", "/", "/policy", "/ping"):
                path = f"{prefix}/proxy/{port}{rest}"
                answer = x.ask("GET", path)
                assert answer.status in (400, 403), (path, answer.status, answer.body)
    for path, status, word in (("/proxy/18080/policy", 403, b"egress"),
                               ("/proxy/44772/ping", 400, b"execd itself"),
                               (f"/proxy/{x.port}/proxy/18080/", 400, b"execd itself"),
                               ("/proxy/%31%38080/", 400, b"1 to 65535")):
        answer = x.ask("GET", path)
        assert answer.status == status and word in answer.body, (path, answer.status, answer.body)


def streams_events_as_they_come(x):
    go_on = threading.Event()

    def serve(peer):
        peer.take_until(b"\r\n\r\n")
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                  b"Transfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n")
        assert go_on.wait(SECONDS_MAX)
        peer.send(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n")

    with backend(serve) as port, client(x) as peer:
        peer.send(f"GET /proxy/{port}/events HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        peer.take_until(b"data: 1\n\n")
        go_on.set()  # the first event was here before the second was sent
        peer.take_until(b"data: 2\n\n")
        peer.take_until(b"0\r\n\r\n")


def streams_bodies_both_ways(x):
    def serve(peer):
        peer.take_until(b"\r\n\r\n")
        body = peer.take(BIG_BYTES)
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    data = bytes(range(256)) * (BIG_BYTES // 256)
    with backend(serve) as port:
        answer = x.ask("POST", f"/proxy/{port}/echo", data)
    assert answer.status == 200 and answer.body == data


def reaches_a_server_that_listens_on_ipv6_only(x):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        raise tap.Skip(f"no IPv6 here: {error}") from error

    def serve(peer):
        size = 0
        for row in peer.take_until(b"\r\n\r\n").lower().split(b"\r\n"):
            if row.startswith(b"content-length:"):
                size = int(row.split(b":")[1])
        body = peer.take(size)
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    for size in (0, 1000, 5 << 20):
        data = bytes(range(250)) * (size // 250)
        with backend(serve, "::1", socket.AF_INET6) as port:
            answer = x.ask("POST" if size else "GET", f"/proxy/{port}/echo", data or None)
        assert answer.status == 200 and answer.body == data, (size, answer.status, answer.body[:99])


def relays_web_sockets(x):
    def serve(peer):
        head = peer.take_until(b"\r\n\r\n")
        key = next(row.split(b":")[1].strip() for row in head.split(b"\r\n")
                   if row.lower().startswith(b"sec-websocket-key:"))
        accept = base64.b64encode(hashlib.sha1(key + WS_GUID).digest())
        peer.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade"
                  b"\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n")
        for _ in range(3):
            first, size = struct.unpack("!BB", peer.take(2))
            mask = peer.take(4)
            text = bytes(byte ^ mask[at % 4] for at, byte in enumerate(peer.take(size & 127)))
            peer.send(struct.pack("!BB", first, len(text)) + text)

    with backend(serve) as port, client(x) as peer:
        peer.send(f"GET /proxy/{port}/ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"
                  "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode())
        head = peer.take_until(b"\r\n\r\n")
        assert b" 101 " in head and b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head, head
        for text in (b"one", b"", b"three"):
            peer.send(struct.pack("!BBI", 0x81, 0x80 | len(text), 0) + text)
            assert peer.take(2 + len(text)) == struct.pack("!BB", 0x81, len(text)) + text


def shows_a_backend_that_breaks_off(x):
    for head in (b"Content-Length: 100\r\n\r\nhalf",
                 b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"):
        def serve(peer, head=head):
            peer.take_until(b"\r\n\r\n")
            peer.send(b"HTTP/1.1 200 OK\r\n" + head)

        with backend(serve) as port, client(x) as peer:
            peer.send(f"GET /proxy/{port}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            peer.take_until(b"half")
            rest = b""
            with contextlib.suppress(ConnectionError):
                while piece := peer.sock.recv(4096):
                    rest += piece
            assert b"0\r\n\r\n" not in rest, "a broken transfer must not look like a clean end"
    assert x.ask("GET", "/ping").status == 200


TESTS = [
    forwards_the_request_as_it_is, says_where_requests_come_from,
    writes_an_ipv4_client_as_ipv4, refuses_what_is_no_port,
    refuses_reserved_ports_however_they_are_nested,
    streams_events_as_they_come, streams_bodies_both_ways,
    reaches_a_server_that_listens_on_ipv6_only,
    relays_web_sockets,
    shows_a_backend_that_breaks_off,
]


if __name__ == "__main__":
    sys.exit(tap.run_tests(TESTS, lambda: Execd(PROGRAM)))
