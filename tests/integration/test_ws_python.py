"""Our WebSockets against PyPI's `websockets`, as its server and as its client, and raw sockets.

Usage: test_ws_python.py HTTPD-PROGRAM. TAP on standard output.
"""
import asyncio
import json
import os
import socket
import struct
import sys
import threading
import time
import urllib.request

import websockets
import websockets.asyncio.client
import websockets.sync.client
import websockets.sync.server

from httplib import SECONDS_MAX, Connection, Server, run_tests, wait_for

PROGRAM = sys.argv[1]
SIZES = [0, 1, 125, 126, 127, 65535, 65536, 65537, 1 << 20, (1 << 20) + 1, 5 << 20]
MESSAGE_BYTES_MAX = 16 << 20

TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA
FIN = 0x80

TESTS = []


def test(function):
    TESTS.append(function)
    return function


def dial(server, path, **options):
    return websockets.sync.client.connect(f"ws://{server.address}{path}", max_size=None,
                                          compression=None, open_timeout=SECONDS_MAX,
                                          ping_interval=None, **options)


class Raw(Connection):
    """A handshaken connection that sends whatever bytes it is told to."""

    KEY = "dGhlIHNhbXBsZSBub25jZQ=="

    def __init__(self, server, path="/ws/echo", rows=None, receive_bytes=None):
        sock = socket.socket()
        sock.settimeout(SECONDS_MAX)
        if receive_bytes:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        sock.connect(server.endpoint)
        super().__init__(sock)
        rows = rows if rows is not None else self.rows()
        head = "".join(f"{name}: {value}\r\n" for name, value in rows)
        self.sock.sendall(f"GET {path} HTTP/1.1\r\nHost: h\r\n{head}\r\n".encode())
        self.head = self.take_until(b"\r\n\r\n").decode()

    @classmethod
    def rows(cls, **changes):
        rows = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": cls.KEY,
                "Sec-WebSocket-Version": "13"}
        rows.update({name.replace("_", "-"): value for name, value in changes.items()})
        return [(name, value) for name, value in rows.items() if value is not None]

    def send(self, first, payload=b"", masked=True, length=None):
        self.sock.sendall(frame(first, payload, masked, length))

    def frame(self):
        first, second = self.take(2)
        assert not second & 0x80, "a server masks nothing"
        size = second & 0x7F
        if size == 126:
            size, = struct.unpack(">H", self.take(2))
        elif size == 127:
            size, = struct.unpack(">Q", self.take(8))
        return first, self.take(size)

    def expect_close(self, code):
        first, payload = self.frame()
        assert first == FIN | CLOSE, f"not a close: {first:#x} {payload[:80]}"
        got = struct.unpack(">H", payload[:2])[0] if payload else None
        assert got == code, f"closed with {got}, not {code}"

    def expect_end(self):
        try:
            self.receive()
        except (EOFError, ConnectionResetError):
            return
        raise AssertionError(f"the server goes on: {self.inbox[:80]}")


def frame(first, payload=b"", masked=True, length=None):
    """A frame; `length` announces another length than the payload's."""
    size = len(payload) if length is None else length
    bit = 0x80 if masked else 0
    if size < 126:
        head = bytes([first, bit | size])
    elif size < 1 << 16:
        head = bytes([first, bit | 126]) + struct.pack(">H", size)
    else:
        head = bytes([first, bit | 127]) + struct.pack(">Q", size)
    if not masked:
        return head + payload
    mask = os.urandom(4)
    return head + mask + bytes(byte ^ mask[i & 3] for i, byte in enumerate(payload))


def rejects(server, code, first, payload=b"", **options):
    """The frame ends the connection with that code."""
    with Raw(server) as raw:
        raw.send(first, payload, **options)
        raw.expect_close(code)
        raw.expect_end()


# --- as a server ---


@test
def echoes_text_and_binary_of_every_size():
    with dial(SERVER, "/ws/echo") as ws:
        for size in SIZES:
            for message in (os.urandom(size), "é" * (size // 2) + "x" * (size % 2)):
                ws.send(message)
                assert ws.recv(SECONDS_MAX) == message, f"{size} bytes"


@test
def joins_fragments():
    with dial(SERVER, "/ws/echo") as ws:
        ws.send(["one ", "two ", "", "three"])
        assert ws.recv(SECONDS_MAX) == "one two three"
        pieces = [os.urandom(1000) for _ in range(500)]
        ws.send(pieces)
        assert ws.recv(SECONDS_MAX) == b"".join(pieces)


@test
def joins_a_character_cut_by_fragments():
    with Raw(SERVER) as raw:
        text = "日本".encode()
        raw.send(TEXT, text[:1])
        raw.send(0, text[1:4])
        raw.send(FIN, text[4:])
        assert raw.frame() == (FIN | TEXT, text)


@test
def takes_frames_byte_by_byte():
    with Raw(SERVER) as raw:
        for byte in frame(FIN | TEXT, b"slowly") + frame(FIN | PING, b"p"):
            raw.sock.sendall(bytes([byte]))
            time.sleep(0.002)
        assert raw.frame() == (FIN | TEXT, b"slowly")
        assert raw.frame() == (FIN | PONG, b"p")


@test
def takes_frames_sent_together_with_the_handshake():
    with socket.create_connection(SERVER.endpoint, SECONDS_MAX) as sock:
        head = "".join(f"{name}: {value}\r\n" for name, value in Raw.rows())
        sock.sendall(f"GET /ws/echo HTTP/1.1\r\nHost: h\r\n{head}\r\n".encode() +
                     frame(FIN | TEXT, b"early") + frame(FIN | CLOSE, struct.pack(">H", 1000)))
        got = b""
        while data := sock.recv(65536):
            got += data
        assert got.endswith(b"\r\n\r\n\x81\x05early\x88\x02\x03\xe8"), got


@test
def answers_pings_between_fragments():
    with Raw(SERVER) as raw:
        raw.send(TEXT, b"a")
        raw.send(FIN | PING, b"now")
        raw.send(FIN | PONG, b"unasked")
        raw.send(FIN, b"b")
        assert raw.frame() == (FIN | PONG, b"now")
        assert raw.frame() == (FIN | TEXT, b"ab")


@test
def answers_pings_with_their_payload():
    with dial(SERVER, "/ws/echo") as ws:
        for payload in (b"", b"x", os.urandom(125)):
            assert ws.ping(payload).wait(SECONDS_MAX)


@test
def handshake_has_exactly_its_headers():
    with Raw(SERVER) as raw:
        assert raw.head.split("\r\n") == [
            "HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade",
            "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="], raw.head


@test
def offered_extensions_are_declined():
    with Raw(SERVER, rows=Raw.rows(Sec_WebSocket_Extensions="permessage-deflate")) as raw:
        assert "Extensions" not in raw.head
    with websockets.sync.client.connect(f"ws://{SERVER.address}/ws/echo") as ws:
        ws.send("still fine")
        assert ws.recv(SECONDS_MAX) == "still fine"


@test
def refuses_bad_handshakes_with_a_reason():
    cases = [
        (426, dict(Sec_WebSocket_Version="12")),
        (426, dict(Sec_WebSocket_Version=None)),
        (426, dict(Upgrade="h2c")),
        (426, dict(Connection="keep-alive")),
        (400, dict(Sec_WebSocket_Key=None)),
        (400, dict(Sec_WebSocket_Key="short")),
    ]
    for status, changes in cases:
        with Raw(SERVER, rows=Raw.rows(**changes)) as raw:
            assert raw.head.startswith(f"HTTP/1.1 {status} "), (changes, raw.head)
            assert "application/json" in raw.head
            if "Sec_WebSocket_Version" in changes:
                assert "Sec-WebSocket-Version: 13" in raw.head


@test
def close_codes_come_back():
    for code in (1000, 1001, 1003, 1011, 3000, 4000, 4999):
        with Raw(SERVER) as raw:
            raw.send(FIN | CLOSE, struct.pack(">H", code) + b"because")
            raw.expect_close(code)
            raw.expect_end()
    with Raw(SERVER) as raw:
        raw.send(FIN | CLOSE)
        raw.expect_close(None)
        raw.expect_end()


@test
def closes_with_the_code_asked_for():
    for code in (1000, 1001, 1011, 3333, 4999):
        with dial(SERVER, f"/ws/close?{code}") as ws:
            try:
                ws.recv(SECONDS_MAX)
                raise AssertionError("a message")
            except websockets.ConnectionClosed as end:
                assert (end.rcvd.code, end.rcvd.reason) == (code, "bye")


@test
def a_close_that_is_not_answered_ends_in_time():
    begin = time.monotonic()
    with Raw(SERVER, "/ws/close?1000") as raw:
        raw.expect_close(1000)
        raw.expect_end()
        assert time.monotonic() - begin > 1


@test
def messages_after_a_close_are_not_answered():
    with Raw(SERVER) as raw:
        raw.sock.sendall(frame(FIN | CLOSE, struct.pack(">H", 1000)) + frame(FIN | TEXT, b"late"))
        raw.expect_close(1000)
        raw.expect_end()


@test
def broken_frames_end_with_1002():
    cases = [
        dict(first=FIN | TEXT, payload=b"x", masked=False),
        dict(first=FIN | 0x40 | TEXT, payload=b"x"),
        dict(first=FIN | 0x20 | TEXT),
        dict(first=FIN | 0x10 | BINARY),
        dict(first=FIN | 0x3),
        dict(first=FIN | 0x7),
        dict(first=FIN | 0xB),
        dict(first=FIN | 0xF),
        dict(first=FIN, payload=b"continues nothing"),
        dict(first=PING, payload=b"in fragments"),
        dict(first=CLOSE),
        dict(first=FIN | PING, payload=bytes(126)),
        dict(first=FIN | CLOSE, payload=b"\x03"),
        dict(first=FIN | CLOSE, payload=bytes(126)),
        dict(first=FIN | BINARY, length=1 << 63),
    ]
    for case in cases:
        rejects(SERVER, 1002, **case)
    with Raw(SERVER) as raw:
        raw.sock.sendall(frame(TEXT, b"begins") + frame(FIN | TEXT, b"begins again"))
        raw.expect_close(1002)


@test
def close_codes_that_must_not_travel_end_with_1002():
    for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535):
        rejects(SERVER, 1002, FIN | CLOSE, struct.pack(">H", code))


@test
def text_that_is_no_utf8_ends_with_1007():
    for text in (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"cut \xe2\x82",
                 b"ok" * 40000 + b"\x80"):
        rejects(SERVER, 1007, FIN | TEXT, text)
    rejects(SERVER, 1007, FIN | CLOSE, struct.pack(">H", 1000) + b"\xff")
    with Raw(SERVER) as raw:  # at the first wrong byte, not at the end of the message
        raw.send(TEXT, b"\xf4\x90")
        raw.expect_close(1007)


@test
def too_large_a_message_ends_with_1009():
    rejects(SERVER, 1009, FIN | BINARY, length=MESSAGE_BYTES_MAX + 1)
    with Raw(SERVER) as raw:
        raw.send(BINARY, bytes(1000))
        raw.send(0, length=MESSAGE_BYTES_MAX - 999)
        raw.expect_close(1009)
        raw.expect_end()


@test
def serves_two_hundred_at_once():
    async def one(number):
        url = f"ws://{SERVER.address}/ws/echo"
        async with websockets.asyncio.client.connect(url, open_timeout=SECONDS_MAX,
                                                     ping_interval=None) as ws:
            for size in (10, 5000, 70000):
                message = bytes([number % 256]) * size
                await ws.send(message)
                assert await ws.recv() == message

    async def main():
        await asyncio.wait_for(asyncio.gather(*(one(i) for i in range(200))), 2 * SECONDS_MAX)

    asyncio.run(main())


@test
def counts_messages_in_pieces():
    for path in ("/ws/sink", "/ws/sink?100"):
        with dial(SERVER, path) as ws:
            for size in (0, 1, 99, 100, 101, 200000):
                ws.send(bytes(size))
                assert ws.recv(SECONDS_MAX) == str(size), (path, size)
            ws.send([bytes(1000)] * 30)
            assert ws.recv(SECONDS_MAX) == "30000"


@test
def a_flood_is_complete_and_needs_no_memory():
    with dial(SERVER, "/ws/flood?64") as ws:
        before, count = SERVER.rss_bytes(), 0
        time.sleep(0.5)  # it must wait for us
        SERVER.check_growth(before, 4 << 20)
        for message in ws:
            count += len(message)
        assert count == 64 << 20
        assert ws.close_code == 1000


@test
def echoes_wait_for_a_client_that_does_not_read():
    with Raw(SERVER) as raw:
        before = SERVER.rss_bytes()
        message = frame(FIN | BINARY, bytes(60000))
        raw.sock.settimeout(0.5)
        sent = 0
        try:
            while sent < 1 << 30:
                sent += raw.sock.send(message[sent % len(message):])
        except TimeoutError:
            pass
        assert sent < 64 << 20, "nothing stopped us"
        SERVER.check_growth(before, 8 << 20)
        raw.sock.settimeout(SECONDS_MAX)
        whole = sent // len(message)
        for _ in range(whole):
            assert raw.frame() == (FIN | BINARY, bytes(60000))


@test
def a_flood_of_pings_grows_nothing_and_the_last_is_answered():
    with Raw(SERVER, receive_bytes=65536) as raw:
        before = SERVER.rss_bytes()
        payload = b"p" * 121
        pings = b"".join(frame(FIN | PING, payload + struct.pack(">I", i)) for i in range(150000))
        sender = threading.Thread(target=raw.sock.sendall, args=(pings,))
        sender.start()
        sender.join(SECONDS_MAX)
        assert not sender.is_alive(), "the server does not read pings while it cannot answer"
        SERVER.check_growth(before, 2 << 20)
        last = -1
        while last < 149999:
            first, got = raw.frame()
            assert first == FIN | PONG
            number, = struct.unpack(">I", got[-4:])
            assert number > last
            last = number


@test
def cuts_a_client_that_answers_no_pings():
    with Server(PROGRAM, "--ping", "200", "--pong", "4000") as server:
        begin = time.monotonic()
        with Raw(server) as raw:
            assert raw.frame() == (FIN | PING, b"")
            raw.send(FIN | PONG)
            assert raw.frame() == (FIN | PING, b"")
            raw.expect_end()
            assert time.monotonic() - begin > 3
        with dial(server, "/ws/echo") as ws:
            time.sleep(5)  # more than the deadline
            ws.send("alive")
            assert ws.recv(SECONDS_MAX) == "alive"


@test
def cuts_a_client_that_reads_nothing():
    with Server(PROGRAM, "--stall", "500") as server, Raw(server, "/ws/flood?1000") as raw:
        wait_for(lambda: server.descriptors().count("socket") == 1, "the connection stays")
        assert raw.head


@test
def the_end_of_the_server_is_a_close_with_1001():
    with Server(PROGRAM) as server:
        ws = dial(server, "/ws/echo")
        server.drain()
        try:
            ws.recv(SECONDS_MAX)
            raise AssertionError("a message")
        except websockets.ConnectionClosedOK as end:
            assert end.rcvd.code == 1001


# --- as a client ---


def report_of_dialling(address, path="/"):
    url = f"http://{SERVER.address}/ws/dial?{address}{path}"
    with urllib.request.urlopen(url, timeout=SECONDS_MAX) as reply:
        return json.load(reply)


class Foreign:
    """A server of `websockets` in a thread."""

    def __init__(self, handler, **options):
        self.server = websockets.sync.server.serve(handler, "127.0.0.1", 0, **options)
        self.address = "127.0.0.1:%d" % self.server.socket.getsockname()[1]

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()


def echo(ws):
    for message in ws:
        ws.send(message)


@test
def our_client_speaks_with_a_foreign_server():
    with Foreign(echo) as foreign:
        report = report_of_dialling(foreign.address)
    assert (report["same"], report["code"], report["error"]) == (5, 1000, ""), report


@test
def our_client_agrees_on_a_subprotocol():
    with Foreign(echo, subprotocols=["echo"]) as foreign:
        report = report_of_dialling(foreign.address)
    assert (report["same"], report["protocol"], report["error"]) == (5, "echo", ""), report


@test
def our_client_reports_how_it_was_closed():
    with Foreign(lambda ws: ws.close(4321, "not today")) as foreign:
        report = report_of_dialling(foreign.address)
    assert (report["code"], report["reason"], report["error"]) == (4321, "not today", ""), report


def answering_once(text):
    """The address of a server that answers one connection with these bytes and no more."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        sock, _ = listener.accept()
        with listener, sock:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += sock.recv(65536)
            sock.sendall(text)
            sock.settimeout(SECONDS_MAX)
            while sock.recv(65536):
                pass

    threading.Thread(target=serve, daemon=True).start()
    return "127.0.0.1:%d" % listener.getsockname()[1]


@test
def our_client_refuses_wrong_answers():
    switch = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    cases = [
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "403"),
        (switch + b"\r\n", "Accept"),
        (switch + b"Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n", "Accept"),
        (b"HTTP/1.1 101 X\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", "another protocol"),
        (b"nonsense\r\n\r\n", ""),
    ]
    for answer, word in cases:
        report = report_of_dialling(answering_once(answer))
        assert report["code"] == 1006 and report["error"] and word in report["error"], report


@test
def our_client_reports_a_port_without_a_listener():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen: nobody else can meanwhile
        report = report_of_dialling("127.0.0.1:%d" % taken.getsockname()[1])
    assert report["code"] == 1006 and "refused" in report["error"], report


# --- through the proxy ---


@test
def through_the_proxy_all_is_the_same():
    with Server(PROGRAM, "--backend", SERVER.address) as proxy:
        with dial(proxy, "/proxy/ws/echo") as ws:
            for size in SIZES:
                message = os.urandom(size)
                ws.send(message)
                assert ws.recv(SECONDS_MAX) == message, f"{size} bytes"
            assert ws.ping(b"far away").wait(SECONDS_MAX)
            ws.close(4000, "done")
            assert ws.close_code == 4000
        with dial(proxy, "/proxy/ws/flood?64") as ws:
            assert sum(len(message) for message in ws) == 64 << 20
            assert ws.close_code == 1000
        with Raw(proxy, "/proxy/ws/echo") as raw:
            raw.send(FIN | TEXT, b"\xff")
            raw.expect_close(1007)
            raw.expect_end()
        with Raw(proxy, "/proxy/ws/echo", rows=Raw.rows(Sec_WebSocket_Version="8")) as raw:
            assert raw.head.startswith("HTTP/1.1 426 "), raw.head


@test
def through_the_proxy_half_a_close_passes():
    with Server(PROGRAM, "--backend", SERVER.address) as proxy:
        with Raw(proxy, "/proxy/ws/echo") as raw:
            raw.send(FIN | TEXT, b"last words")
            raw.send(FIN | CLOSE, struct.pack(">H", 1000))
            raw.sock.shutdown(socket.SHUT_WR)
            assert raw.frame() == (FIN | TEXT, b"last words")
            raw.expect_close(1000)
            raw.expect_end()


if __name__ == "__main__":
    with Server(PROGRAM) as SERVER:
        STATUS = run_tests(TESTS)
    sys.exit(STATUS)
