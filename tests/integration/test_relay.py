"""The tunnel behind an upgrade, with raw bytes: exact, patient, half-closing, and idle for free.

Usage: test_relay.py HTTPD-PROGRAM. TAP on standard output. The backend of the proxy is a socket of
ours that switches protocols and then does what the test wants.
"""
import contextlib
import hashlib
import socket
import sys
import threading
import time

from httplib import Server, run_tests, wait_for

PROGRAM = sys.argv[1]
SECONDS_MAX = 300
PIECE = 256 * 1024
BYTES_EACH_WAY = 256 << 20
SPARE_PIPE_ENDS = 4  # one for each direction of a single tunnel, kept for the next tunnel
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: raw\r\nConnection: Upgrade\r\n\r\n"
ASK = b"GET /proxy/raw HTTP/1.1\r\nHost: h\r\nUpgrade: raw\r\nConnection: Upgrade\r\n\r\n"


def take_head(sock):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = sock.recv(1)
        assert byte, f"the end instead of a head: {head}"
        head += byte
    return head


class Tunnels:
    """A proxy, and as many tunnels through it as wanted: pairs of client's and backend's socket."""

    def __init__(self, stack):
        self.stack = stack
        self.listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=128))
        port = self.listener.getsockname()[1]
        self.proxy = stack.enter_context(Server(PROGRAM, "--backend", f"127.0.0.1:{port}"))
        self.pipes = self.proxy.descriptors().count("pipe")  # standard output and the like

    def open(self, with_ask=b"", with_switch=b""):
        client = socket.create_connection(self.proxy.endpoint, SECONDS_MAX)
        self.stack.enter_context(client)
        client.sendall(ASK + with_ask)
        backend = self.stack.enter_context(self.listener.accept()[0])
        backend.settimeout(SECONDS_MAX)
        assert b"Upgrade: raw" in take_head(backend)
        backend.sendall(SWITCH + with_switch)
        assert take_head(client).startswith(b"HTTP/1.1 101 ")
        return client, backend


@contextlib.contextmanager
def tunnels():
    with contextlib.ExitStack() as stack:
        yield Tunnels(stack)


def pieces(seed):
    """A stream of BYTES_EACH_WAY that differs from any shifted copy of itself."""
    block = bytearray(hashlib.shake_256(seed).digest(PIECE))
    for number in range(BYTES_EACH_WAY // PIECE):
        block[:8] = number.to_bytes(8, "big")
        yield bytes(block)


def send_stream(sock, seed):
    for piece in pieces(seed):
        sock.sendall(piece)
    sock.shutdown(socket.SHUT_WR)


def take_exactly(sock, count):
    data = bytearray()
    while len(data) < count:
        piece = sock.recv(count - len(data))
        assert piece, f"the end after {len(data)} of {count} bytes"
        data += piece
    return bytes(data)


def check_stream(sock, seed, problems):
    try:
        for number, piece in enumerate(pieces(seed)):
            assert take_exactly(sock, len(piece)) == piece, f"piece {number} differs"
        assert sock.recv(1) == b"", "more than was sent"
    except (AssertionError, OSError) as problem:
        problems.append(problem)


def bytes_pass_exactly_both_ways_at_once():
    with tunnels() as t:
        client, backend = t.open()
        before = t.proxy.rss_bytes()
        problems = []
        threads = [threading.Thread(target=send_stream, args=(client, b"there")),
                   threading.Thread(target=send_stream, args=(backend, b"back")),
                   threading.Thread(target=check_stream, args=(backend, b"there", problems)),
                   threading.Thread(target=check_stream, args=(client, b"back", problems))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS_MAX)
            assert not thread.is_alive(), "stuck"
        assert not problems, problems
        t.proxy.check_growth(before, 4 << 20)


def bytes_sent_along_with_the_handshake_arrive():
    with tunnels() as t:
        client, backend = t.open(with_ask=b"early question", with_switch=b"early answer")
        assert take_exactly(backend, 14) == b"early question"
        assert take_exactly(client, 12) == b"early answer"


def a_reader_that_stops_stops_the_sender():
    with tunnels() as t:
        for sender, reader in (t.open(), reversed(t.open())):
            before = t.proxy.rss_bytes()
            sender.settimeout(1)
            sent = 0
            try:
                while sent < 1 << 30:
                    sent += sender.send(bytes(PIECE))
            except TimeoutError:
                pass
            assert sent < 128 << 20, "nothing stopped the sender"
            t.proxy.check_growth(before, 1 << 20)
            sender.shutdown(socket.SHUT_WR)
            reader.settimeout(SECONDS_MAX)
            assert len(take_exactly(reader, sent)) == sent
            assert reader.recv(1) == b""


def one_way_goes_on_while_the_other_is_stuck():
    with tunnels() as t:
        client, backend = t.open()
        client.settimeout(1)
        with contextlib.suppress(TimeoutError):
            while True:
                client.send(bytes(PIECE))
        client.settimeout(SECONDS_MAX)
        for _ in range(100):
            backend.sendall(b"still here")
            assert take_exactly(client, 10) == b"still here"


def half_a_close_passes_and_the_other_half_works():
    with tunnels() as t:
        for first, second in (t.open(), reversed(t.open())):
            first.sendall(b"question")
            first.shutdown(socket.SHUT_WR)
            assert take_exactly(second, 8) == b"question"
            assert second.recv(1) == b""
            time.sleep(0.1)
            second.sendall(b"answer")
            second.close()
            assert take_exactly(first, 6) == b"answer"
            assert first.recv(1) == b""


def a_dead_backend_is_the_end_for_the_client():
    with tunnels() as t:
        client, backend = t.open()
        backend.sendall(b"then")
        assert take_exactly(client, 4) == b"then"
        linger_none = b"\x01\x00\x00\x00\x00\x00\x00\x00"
        backend.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_none)
        backend.close()  # a reset
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""
        wait_for(lambda: t.proxy.descriptors().count("socket") == 1, "a socket stays behind")


def a_dead_client_is_the_end_for_the_backend_in_the_midst_of_bytes():
    with tunnels() as t:
        client, backend = t.open()
        backend.settimeout(1)
        with contextlib.suppress(TimeoutError):
            while True:
                backend.send(bytes(PIECE))
        client.close()
        backend.settimeout(SECONDS_MAX)
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            while backend.recv(PIECE):
                pass
        wait_for(lambda: t.proxy.descriptors().count("socket") == 1, "a socket stays behind")
        wait_for(lambda: t.proxy.descriptors().count("pipe") <= t.pipes + SPARE_PIPE_ENDS,
                 "a pipe stays behind")


def idle_tunnels_hold_no_pipes():
    with tunnels() as t:
        pairs = [t.open() for _ in range(50)]
        for client, backend in pairs:
            client.sendall(b"ping")
            assert take_exactly(backend, 4) == b"ping"
            backend.sendall(b"pong")
            assert take_exactly(client, 4) == b"pong"
        assert t.proxy.descriptors().count("socket") == 2 * len(pairs) + 1
        wait_for(lambda: t.proxy.descriptors().count("pipe") <= t.pipes + SPARE_PIPE_ENDS,
                 "the pipes of idle tunnels")


TESTS = [
    bytes_pass_exactly_both_ways_at_once,
    bytes_sent_along_with_the_handshake_arrive,
    a_reader_that_stops_stops_the_sender,
    one_way_goes_on_while_the_other_is_stuck,
    half_a_close_passes_and_the_other_half_works,
    a_dead_backend_is_the_end_for_the_client,
    a_dead_client_is_the_end_for_the_backend_in_the_midst_of_bytes,
    idle_tunnels_hold_no_pipes,
]

if __name__ == "__main__":
    sys.exit(run_tests(TESTS))
