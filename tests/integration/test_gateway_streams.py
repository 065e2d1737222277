#!/usr/bin/env python3
"""test_gateway_streams.py GATEWAYD HTTPD RSS-GROWTH-MIB-MAX - long, large, slow, broken transfers.

Through the gateway into a sandbox, which is a script on a unix socket, or httpd for WebSockets.
TAP on standard output.
"""
import contextlib
import hashlib
import os
import socket
import struct
import sys
import tempfile
import threading
import time

from gateway_process import Gateway, ask_for, gateway_to
from http_backend import OK, Backend, answer, echo
from httplib import Client, Server, run_tests, wait_for

MIB = 1 << 20
HTTPD = sys.argv[2]
RSS_GROWTH_MAX = int(sys.argv[3]) * MIB
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
SHORT_DEADLINES = ("--deadlines", "400")
PAUSE_S = 1.5  # longer than those


def take_away(conn, count):
    """Receives that many bytes, and keeps none of them."""
    got, conn.inbox = len(conn.inbox), b""
    while got < count:
        data = conn.sock.recv(MIB)
        assert data, f"the end after {got} of {count} bytes"
        got += len(data)
    assert got == count, f"{got} bytes, not {count}"


# --- large ---


def uploads_in_chunks_take_no_memory():
    count = 200
    counted = []

    def script(conn):
        head = conn.read_head()
        assert "Transfer-Encoding: chunked" in head and "Content-Length" not in head, head
        got = 0
        while True:
            size = int(conn.take_until(b"\r\n"), 16)
            got += len(conn.take(size + 2)) - 2
            if size == 0:
                break
        counted.append(got)
        conn.send(OK)

    piece = b"%x\r\n" % MIB + bytes(MIB) + b"\r\n"
    with gateway_to(script) as (_, gateway), gateway.connect(timeout=60) as c:
        before = gateway.rss_bytes()
        c.send(ask_for("POST", "/upload", "Transfer-Encoding: chunked"))
        for _ in range(count):
            c.send(piece)
        assert c.ask(b"0\r\n\r\n").body == b"ok"
        assert counted == [count * MIB], counted
        gateway.check_growth(before, RSS_GROWTH_MAX)


def downloads_of_a_gib_take_no_memory():
    def script(conn):
        conn.read_head()
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (1024 * MIB))
        for _ in range(1024):
            conn.send(bytes(MIB))
        conn.take_rest()

    with gateway_to(script) as (_, gateway), gateway.connect(timeout=60) as c:
        before = gateway.rss_bytes()
        c.send(ask_for("GET", "/"))
        c.take_until(b"\r\n\r\n")
        take_away(c, 1024 * MIB)
        gateway.check_growth(before, RSS_GROWTH_MAX)


def bodies_pass_as_they_are():
    big = os.urandom(3 * MIB)
    with gateway_to(lambda conn: [echo(conn) for _ in range(4)]) as (backend, gateway), \
            gateway.connect() as c:
        assert c.ask(ask_for("PUT", "/", body=big)).body == big
        c.send(ask_for("GET", "/", "Expect: 100-continue", "Content-Length: 3"))
        assert c.response().status == 100
        assert c.ask(b"abc").body == b"abc"
        assert c.ask(ask_for("DELETE", "/", body=b"why")).body == b"why"
        assert c.ask(ask_for("POST", "/", "Content-Length: 0")).body == b""
        assert "Content-Length: 0" in backend.requests[3] and "Expect" not in backend.requests[1]


# --- slow ---


def a_slow_reader_stops_the_sandbox():
    sent = [0]

    def script(conn):
        conn.read_head()
        conn.sock.settimeout(None)
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (128 * MIB))
        for _ in range(128):
            conn.send(bytes(MIB))
            sent[0] += MIB
        conn.take_rest()

    # Longer than the server's patience with others, too.
    with gateway_to(script, *SHORT_DEADLINES) as (_, gateway), \
            gateway.connect(receive_bytes=65536) as c:
        before = gateway.rss_bytes()
        c.send(ask_for("GET", "/"))
        c.take_until(b"\r\n\r\n")
        time.sleep(PAUSE_S)
        assert sent[0] < 64 * MIB, f"{sent[0]} bytes went nowhere"
        gateway.check_growth(before, RSS_GROWTH_MAX)
        take_away(c, 128 * MIB)


def a_slow_sandbox_stops_the_client():
    def script(conn):
        conn.read_head()
        time.sleep(PAUSE_S)
        take_away(conn, 64 * MIB)
        conn.send(OK)

    with gateway_to(script, *SHORT_DEADLINES) as (_, gateway), gateway.connect(timeout=60) as c:
        before = gateway.rss_bytes()
        c.send(ask_for("POST", "/", f"Content-Length: {64 * MIB}"))
        for _ in range(64):
            c.send(bytes(MIB))
        assert c.response().body == b"ok"
        gateway.check_growth(before, RSS_GROWTH_MAX)


def events_arrive_one_by_one():
    turn = threading.Semaphore(0)

    def script(conn):
        conn.read_head()
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                  b"Transfer-Encoding: chunked\r\n\r\n")
        for i in range(5):
            turn.acquire()
            conn.send(b"9\r\ndata: %d\n\n\r\n" % i)
        conn.send(b"0\r\n\r\n")
        conn.take_rest()

    with gateway_to(script) as (_, gateway), gateway.connect() as c:
        c.send(ask_for("GET", "/events"))
        assert b"text/event-stream" in c.take_until(b"\r\n\r\n")
        for i in range(5):
            assert c.inbox == b""
            turn.release()
            assert c.take(14) == b"9\r\ndata: %d\n\n\r\n" % i
        assert c.take(5) == b"0\r\n\r\n"


def pauses_of_the_sandbox_are_its_own_affair():
    def script(conn):
        conn.read_head()
        time.sleep(PAUSE_S)  # before its head, and after
        conn.send(CHUNKED + b"1\r\na\r\n")
        time.sleep(PAUSE_S)
        conn.send(b"1\r\nb\r\n0\r\n\r\n")
        conn.take_rest()

    with gateway_to(script, *SHORT_DEADLINES) as (_, gateway):
        assert gateway.ask(ask_for("GET", "/")).body == b"ab"


def pauses_of_an_upload_are_the_clients_affair():
    with gateway_to(echo, *SHORT_DEADLINES) as (_, gateway), gateway.connect() as c:
        c.send(ask_for("POST", "/", "Transfer-Encoding: chunked"))
        for piece in (b"1\r\na\r\n", b"1\r\nb\r\n"):
            time.sleep(PAUSE_S)
            c.send(piece)
        assert c.ask(b"0\r\n\r\n").body == b"ab"
        time.sleep(PAUSE_S)  # but between requests the server's patience is as before
        c.wait_closed()


# --- broken ---


def breaks(framing, body, then, version="1.1"):
    passed = threading.Event()

    def script(conn):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += conn.sock.recv(1)
        # A byte that is left unread in a unix socket makes its end a reset.
        conn.sock.recv(1, socket.MSG_PEEK if then == "reset" else 0)
        conn.send(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n" + body)
        passed.wait()

    with gateway_to(script) as (_, gateway), gateway.connect() as c:
        c.send(ask_for("POST", "/", version=version, body=b"x"))
        got = b""
        clean = True
        try:
            while data := c.sock.recv(MIB):
                got += data
                if b"part" in got:
                    passed.set()
        except ConnectionResetError:
            clean = False
        finally:
            passed.set()
        assert b"part" in got or not clean, got
        assert not got.endswith(b"0\r\n\r\n"), f"a clean end: {got}"
        if version == "1.0" and b"Content-Length" not in got:
            assert not clean, f"to an HTTP/1.0 client this looks complete: {got}"
        gateway.is_well()


def a_broken_answer_is_a_broken_transfer():
    length, chunks = b"Content-Length: 100\r\n", b"Transfer-Encoding: chunked\r\n"
    for version in ("1.1", "1.0"):
        for then in ("close", "reset"):
            breaks(length, b"part", then, version)
            breaks(chunks, b"4\r\npart\r\n", then, version)
            breaks(chunks, b"9\r\npart", then, version)
        breaks(chunks, b"4\r\npart\r\nzz\r\n", "close", version)


def an_early_answer_passes():
    passed = threading.Event()

    def script(conn):
        conn.read_head()
        conn.send(b"HTTP/1.1 413 No\r\nContent-Length: 4\r\nConnection: close\r\n\r\nmuch")
        passed.wait()

    with gateway_to(script) as (_, gateway), gateway.connect() as c:
        c.send(ask_for("POST", "/", "Content-Length: 100000000"))
        with contextlib.suppress(ConnectionError):  # the answer may have come, and the end
            c.send(b"x" * 100000)
        r = c.response()
        passed.set()
        assert (r.status, r.body) == (413, b"much")
        gateway.is_well()


def a_client_that_leaves_frees_the_sandbox(begin_answer):
    def script(conn):
        conn.read_head()
        conn.send(begin_answer)
        conn.take_rest()  # ends when the gateway hangs up; nothing is ever sent again

    with gateway_to(script) as (backend, gateway):
        with gateway.connect() as c:
            c.send(ask_for("GET", "/"))
            wait_for(lambda: len(backend.requests) == 1)
            if begin_answer:
                c.take_until(b"\r\n\r\n")
        wait_for(lambda: backend.ended == 1, "the sandbox still works for nobody")
        gateway.is_well()


def a_client_that_leaves_before_an_answer_frees_the_sandbox():
    a_client_that_leaves_frees_the_sandbox(b"")


def a_client_that_leaves_within_an_answer_frees_the_sandbox():
    a_client_that_leaves_frees_the_sandbox(CHUNKED)


def a_client_that_leaves_within_its_body_frees_the_sandbox():
    def script(conn):
        conn.read_head()
        conn.take_rest()

    with gateway_to(script) as (backend, gateway):
        with gateway.connect() as c:
            c.send(ask_for("POST", "/", "Content-Length: 1000") + b"part")
            wait_for(lambda: len(backend.requests) == 1)
        wait_for(lambda: backend.ended == 1)
        gateway.is_well()


def a_client_that_only_closes_its_side_gets_its_answer():
    def script(conn):
        conn.read_head()
        time.sleep(0.2)
        conn.send(OK)

    with gateway_to(script) as (_, gateway):
        for _ in range(10):  # a second is all the gateway grants, and may be over too soon
            with gateway.connect() as c, contextlib.suppress(EOFError):
                c.send(ask_for("GET", "/"))
                c.half_close()
                assert c.response().body == b"ok"
                return
    raise AssertionError("it never got an answer")


def a_sandbox_hears_that_a_client_closed_its_side():
    """In the middle of its answer, which it may then end as it likes."""
    def script(conn):
        conn.read_head()
        conn.send(CHUNKED + b"3\r\none\r\n")
        conn.take_rest()  # what the client sent: until it closed its side
        conn.send(b"3\r\ntwo\r\n0\r\n\r\n")

    with gateway_to(script) as (backend, gateway):
        for _ in range(10):  # a second is all the gateway grants, and may be over too soon
            with gateway.connect() as c, contextlib.suppress(EOFError, ConnectionError):
                c.send(ask_for("GET", "/"))
                c.take_until(b"one\r\n")
                c.half_close()
                assert c.take_until(b"0\r\n\r\n") == b"3\r\ntwo\r\n"
                gateway.is_well()
                break
        else:
            raise AssertionError("it never heard of it")
        assert backend.requests, "it was asked"


def a_sandbox_hears_that_a_client_closed_its_side_after_its_body():
    """The end of the body and that of the connection arrive together."""
    def script(conn):
        conn.read_head()
        conn.send(CHUNKED + b"3\r\none\r\n")
        assert conn.take_rest() == b"x" * 10
        conn.send(b"3\r\ntwo\r\n0\r\n\r\n")

    with gateway_to(script) as (_, gateway):
        for _ in range(10):  # a second is all the gateway grants, and may be over too soon
            with gateway.connect() as c, contextlib.suppress(EOFError, ConnectionError):
                c.send(ask_for("POST", "/", "Content-Length: 10"))
                c.take_until(b"one\r\n")
                c.send(b"x" * 10)
                c.half_close()
                assert c.take_until(b"0\r\n\r\n") == b"3\r\ntwo\r\n"
                gateway.is_well()
                return
    raise AssertionError("it never heard of it")


# --- without a body ---


def heads_alone_have_no_body():
    text = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
    with gateway_to(answer(text)) as (backend, gateway), gateway.connect() as c:
        for _ in range(3):
            r = c.ask(ask_for("HEAD", "/"), no_body=True)
            assert r.get("Content-Length") == "1000"
        assert backend.begun == 1
    for status in (204, 304):
        text = b"HTTP/1.1 %d X\r\nETag: \"b\"\r\n\r\n" % status
        with gateway_to(answer(text)) as (_, gateway), gateway.connect() as c:
            for _ in range(3):
                r = c.ask(ask_for("GET", "/"))
                assert (r.status, r.get("ETag"), r.get("Content-Length")) == (status, '"b"', None)


def http_1_0_clients_are_served():
    old = ask_for("GET", "/", version="1.0")
    with gateway_to(answer(OK)) as (backend, gateway):
        r = gateway.ask(old)
        assert (r.version, r.body, r.get("Connection")) == ("HTTP/1.1", b"ok", "close"), r.rows
        gateway.ask(old.replace(b"Host: test\r\n", b""))
        assert "\r\nHost: localhost\r\n" in backend.requests[1] + "\r\n", backend.requests[1]
        assert "X-Forwarded-Host" not in backend.requests[1]
        with gateway.connect() as c:
            keep = ask_for("GET", "/", "Connection: keep-alive", version="1.0")
            for _ in range(2):
                assert c.ask(keep).get("Connection") == "keep-alive"
    with gateway_to(answer(CHUNKED + b"2\r\nab\r\n0\r\n\r\n")) as (_, gateway):
        r = gateway.ask(old)
        assert (r.body, r.get("Transfer-Encoding")) == (b"ab", None), r.rows


# --- WebSockets ---

UPGRADE = ("Connection: keep-alive, Upgrade", "Upgrade: WebSocket", "Sec-WebSocket-Version: 13",
           "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Origin: https://page.example",
           "Sec-WebSocket-Protocol: one, two", "Sec-WebSocket-Extensions: permessage-deflate")
SWITCH = (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
          b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: two\r\n"
          b"Set-Cookie: a=b\r\n")


def masked(opcode, payload):
    size = len(payload)
    head = bytes([0x80 | opcode]) + (
        bytes([0x80 | size]) if size < 126 else
        struct.pack(">BH", 0xfe, size) if size < 65536 else struct.pack(">BQ", 0xff, size))
    return head + bytes(4) + payload  # a mask of zeros changes nothing


def take_frame(c):
    first, size = c.take(2)
    if size >= 126:
        size = int.from_bytes(c.take(2 if size == 126 else 8), "big")
    return first & 0x0f, c.take(size)


@contextlib.contextmanager
def sandbox_of_websockets():
    """httpd in the place of execd, and a gateway before it."""
    with tempfile.TemporaryDirectory() as folder, \
            Server(HTTPD, listen=f"unix:{folder}/x") as httpd, Gateway(httpd.address) as gateway:
        yield gateway


def handshakes_pass_both_ways():
    def script(conn):
        conn.read_head()
        conn.send(SWITCH + b"X-Request-ID: theirs\r\n\r\n\x81\x02hi")
        conn.take_rest()

    with gateway_to(script) as (backend, gateway), gateway.connect() as c:
        c.send(ask_for("GET", "/ws?a=%2F", "X-Request-ID: mine", *UPGRADE, port=9000)
               + masked(1, b"early"))
        assert c.take_until(b"\r\n\r\n") + b"\r\n" == SWITCH + b"X-Request-ID: mine\r\n"
        assert take_frame(c) == (1, b"hi")
        head = backend.requests[0].split("\r\n")
        assert head[0] == "GET /proxy/9000/ws?a=%2F HTTP/1.1", head
        for row in (*UPGRADE[1:], "Connection: Upgrade", "X-Forwarded-For: 127.0.0.1",
                    "X-Forwarded-Proto: http", "X-Forwarded-Host: test", "Host: test"):
            assert head.count(row) == 1, (row, head)
        assert not [row for row in head if "Secure-Access" in row]


def messages_of_all_sizes_pass():
    with sandbox_of_websockets() as gateway, gateway.connect(timeout=60) as c:
        c.send(ask_for("GET", "/ws/echo", *UPGRADE))
        assert c.take_until(b"\r\n\r\n").startswith(b"HTTP/1.1 101 ")
        for size in (0, 1, 125, 126, 65535, 65536, 1 << 20, 16 << 20):
            data = os.urandom(size)
            sender = threading.Thread(target=c.send, args=(masked(2, data),))
            sender.start()
            opcode, got = take_frame(c)
            sender.join()
            assert opcode == 2, opcode
            assert hashlib.sha256(got).digest() == hashlib.sha256(data).digest(), size


def closes_pass_both_ways():
    with sandbox_of_websockets() as gateway:
        with gateway.connect() as c:
            c.send(ask_for("GET", "/ws/echo", *UPGRADE))
            c.take_until(b"\r\n\r\n")
            c.send(masked(8, struct.pack(">H", 4001) + b"enough"))
            assert take_frame(c) == (8, struct.pack(">H", 4001))  # its answer
            c.wait_closed()
        with gateway.connect() as c:
            c.send(ask_for("GET", "/ws/close?4002", *UPGRADE))
            c.take_until(b"\r\n\r\n")
            assert take_frame(c) == (8, struct.pack(">H", 4002) + b"bye")
            c.send(masked(8, struct.pack(">H", 4002)))
            c.wait_closed()


def a_refused_upgrade_is_an_ordinary_answer():
    text = b"HTTP/1.1 403 No\r\nContent-Length: 4\r\n\r\nnope"
    with gateway_to(answer(text)) as (backend, gateway), gateway.connect() as c:
        for _ in range(2):
            r = c.ask(ask_for("GET", "/ws", *UPGRADE))
            assert (r.status, r.body) == (403, b"nope")
        assert backend.begun == 1


def an_upgrade_needs_a_credential():
    with gateway_to(answer(OK)) as (backend, gateway):
        data = ask_for("GET", "/ws", *UPGRADE).replace(b"Secure-Access: ", b"Secure-Access: x")
        assert gateway.ask(data).status == 401
        assert backend.begun == 0


def an_idle_websocket_stays_and_its_end_is_passed_on():
    def script(conn):
        conn.read_head()
        conn.send(SWITCH + b"\r\n")
        while True:
            opcode, data = take_frame_masked(conn)
            conn.send(bytes([0x80 | opcode, len(data)]) + data)

    def take_frame_masked(conn):
        first, size = conn.take(2)
        return first & 0x0f, conn.take(4 + (size & 0x7f))[4:]

    with gateway_to(script, *SHORT_DEADLINES) as (backend, gateway):
        with gateway.connect() as c:
            c.send(ask_for("GET", "/ws", *UPGRADE))
            c.take_until(b"\r\n\r\n")
            for _ in range(2):
                time.sleep(PAUSE_S)
                c.send(masked(1, b"still here"))
                assert take_frame(c) == (1, b"still here")
        wait_for(lambda: backend.ended == 1)
        gateway.is_well()


def the_end_of_the_gateway_ends_websockets():
    def script(conn):
        conn.read_head()
        conn.send(SWITCH + b"\r\n")
        conn.take_rest()

    with gateway_to(script) as (backend, gateway), contextlib.ExitStack() as clients:
        for _ in range(3):
            c = clients.enter_context(gateway.connect())
            c.send(ask_for("GET", "/ws", *UPGRADE))
            c.take_until(b"\r\n\r\n")
        wait_for(lambda: gateway.stats()["tunnels"] == 3)
        c.sock.close()
        wait_for(lambda: gateway.stats()["tunnels"] == 2)
        gateway.drain()
        assert gateway.exit_status() == 0  # under the sanitizers: and nothing was left behind
        wait_for(lambda: backend.ended == 3)


# --- many ---


def many_sandboxes_keep_to_themselves():
    """Each sandbox answers with its own name, over any kept connection."""
    def named(name):
        return answer(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(name), name))

    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        names = [f"sandbox-{i}" for i in range(100)]
        backends = [stack.enter_context(Backend(named(name.encode()), f"{folder}/{name}"))
                    for name in names]
        options = [option for backend, name in zip(backends, names)
                   for option in ("--sandbox", f"{name}={backend.address}")]
        gateway = stack.enter_context(Gateway("unix:/nowhere", "--open", "1", *options))
        c = stack.enter_context(Client(gateway.endpoint))
        for _ in range(2):
            for name, backend in zip(names, backends):
                begun = backend.begun
                for _ in range(3):
                    r = c.ask(b"GET /sandboxes/%s/proxy/80/ HTTP/1.1\r\nHost: x\r\n\r\n"
                              % name.encode())
                    assert r.body == name.encode(), (name, r.body)
                assert backend.begun <= begun + 1, "connections are not kept"
        sockets = gateway.descriptors().count("socket")
        assert sockets < 120, f"{sockets} sockets"


if __name__ == "__main__":
    sys.exit(run_tests([
        uploads_in_chunks_take_no_memory,
        downloads_of_a_gib_take_no_memory,
        bodies_pass_as_they_are,
        a_slow_reader_stops_the_sandbox,
        a_slow_sandbox_stops_the_client,
        events_arrive_one_by_one,
        pauses_of_the_sandbox_are_its_own_affair,
        pauses_of_an_upload_are_the_clients_affair,
        a_broken_answer_is_a_broken_transfer,
        an_early_answer_passes,
        a_client_that_leaves_before_an_answer_frees_the_sandbox,
        a_client_that_leaves_within_an_answer_frees_the_sandbox,
        a_client_that_leaves_within_its_body_frees_the_sandbox,
        a_client_that_only_closes_its_side_gets_its_answer,
        a_sandbox_hears_that_a_client_closed_its_side,
        a_sandbox_hears_that_a_client_closed_its_side_after_its_body,
        heads_alone_have_no_body,
        http_1_0_clients_are_served,
        handshakes_pass_both_ways,
        messages_of_all_sizes_pass,
        closes_pass_both_ways,
        a_refused_upgrade_is_an_ordinary_answer,
        an_upgrade_needs_a_credential,
        an_idle_websocket_stays_and_its_end_is_passed_on,
        the_end_of_the_gateway_ends_websockets,
        many_sandboxes_keep_to_themselves,
    ]))
