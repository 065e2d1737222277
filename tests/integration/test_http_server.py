#!/usr/bin/env python3
"""test_http_server.py HTTPD [UPLOAD_MIB] - the HTTP server against hostile clients.

Every case has one right answer. Whatever is refused ends the connection, and bytes behind it never
become a second request. TAP on standard output.
"""
import concurrent.futures
import contextlib
import email.utils
import os
import random
import signal
import socket
import struct
import sys
import tempfile
import time

from http_messages import ANSWERED, OK_JSON, REFUSED, SMUGGLED, chunked, post
from httplib import GET_JSON, SECONDS_MAX, Server, Tap, request, wait_for

MIB = 1 << 20
DEADLINE_S = 0.5
FILE_BYTES = bytes(range(256)) * 400  # 102,400

# --- messages ---


def is_refused(server, data, status):
    with server.connect() as c:
        with contextlib.suppress(ConnectionError):  # the answer may come before all is sent
            c.send(data + SMUGGLED)
        r = c.response()
        assert r.status == status, f"status {r.status}: {r.body!r}"
        assert r.get("Connection") == "close", r.rows
        c.wait_closed()


def is_answered(server, data, statuses, body):
    with server.connect() as c:
        c.send(data)
        c.half_close()
        for status in statuses:
            r = c.response()
            assert r.status == status, f"status {r.status}, not {status}: {r.body!r}"
        assert body is None or r.body == body, f"body {r.body!r}"
        c.wait_closed()


def is_refused_in_two_pieces(server):
    """Where the bytes are split must not change the verdict."""
    dice = random.Random(1)
    for sentence, data, status in REFUSED:
        at = dice.randrange(1, len(data))
        with server.connect() as c:
            with contextlib.suppress(ConnectionError):
                c.send(data[:at])
                time.sleep(0.002)
                c.send(data[at:] + SMUGGLED)
            r = c.response()
            assert r.status == status, f"{sentence}, split at {at}: {r.status}, not {status}"
            c.wait_closed()


def may_end_the_connection(row):
    """The request says so, or it is refused and its body may come later."""
    _, data, statuses, _ = row
    return b"Connection: close" in data or statuses[0] >= 400 and data.startswith(b"POST")


def reads_the_same_however_split(server):
    dice = random.Random(2)
    rows = [row for row in ANSWERED if not may_end_the_connection(row)]
    for _ in range(20):
        dice.shuffle(rows)
        data = b"".join(row[1] for row in rows)
        cuts = sorted(dice.randrange(len(data)) for _ in range(30))
        with server.connect() as c:
            for begin, end in zip([0, *cuts], [*cuts, len(data)]):
                c.send(data[begin:end])
                time.sleep(0.0003)
            for sentence, _, statuses, body in rows:
                for status in statuses:
                    r = c.response()
                    assert r.status == status, f"{sentence}: {r.status}, not {status}"
                assert body is None or r.body == body, f"{sentence}: {r.body!r}"


# --- connections ---


def keeps_order_of_a_hundred(server):
    with server.connect() as c:
        c.send(b"".join(request("GET", f"/params/{i}/x") for i in range(100)))
        for i in range(100):
            assert c.response().body == f"{i}|x|\n".encode()


def reads_byte_by_byte(server):
    with server.connect() as c:
        for byte in chunked(b"5;x\r\nhello\r\n0\r\nA: b\r\n\r\n") + request("GET", "/params/a/b"):
            c.send(bytes([byte]))
            time.sleep(0.0005)
        assert c.response().body == b"hello"
        assert c.response().body == b"a|b|\n"


def waits_for_the_slow_one(server):
    with server.connect() as c:
        c.send(GET_JSON + request("GET", "/nap?100") + request("GET", "/params/a/b") +
               request("GET", "/nap?1") + GET_JSON)
        bodies = [c.response().body for _ in range(5)]
    assert bodies == [OK_JSON, b"slept\n", b"a|b|\n", b"slept\n", OK_JSON], bodies


# (sentence, version, headers, Connection of the answer, stays open)
LIFETIMES = [
    ("HTTP/1.1", "1.1", [], None, True),
    ("HTTP/1.1 with Connection: close", "1.1", ["Connection: close"], "close", False),
    ("HTTP/1.1 with a list that has close", "1.1", ["Connection: foo, Close"], "close", False),
    ("HTTP/1.1 with close in a second row",
     "1.1", ["Connection: foo", "Connection: close"], "close", False),
    ("HTTP/1.0", "1.0", [], "close", False),
    ("HTTP/1.0 with keep-alive", "1.0", ["Connection: Keep-Alive"], "keep-alive", True),
    ("HTTP/1.0 with keep-alive and close",
     "1.0", ["Connection: keep-alive, close"], "close", False),
]


def lives_on(server, version, headers, connection, stays):
    with server.connect() as c:
        r = c.ask(request("GET", "/json", *headers, version=version))
        assert (r.status, r.version, r.get("Connection")) == (200, "HTTP/1.1", connection), r.rows
        if stays:
            assert c.ask(GET_JSON).status == 200
        else:
            c.wait_closed()


def answers_head(server):
    with server.connect() as c:
        r = c.ask(request("HEAD", "/json"), no_body=True)
        assert (r.status, r.get("Content-Length")) == (200, str(len(OK_JSON))), r.rows
        r = c.ask(request("HEAD", "/file"), no_body=True)
        assert (r.status, r.get("Content-Length")) == (200, str(len(FILE_BYTES))), r.rows
        r = c.ask(request("HEAD", "/flood?18446744073709551615"), no_body=True)
        assert (r.status, r.get("Transfer-Encoding")) == (200, "chunked"), r.rows
        r = c.ask(request("HEAD", "/nowhere"), no_body=True)
        assert r.status == 404 and int(r.get("Content-Length")) > 0, r.rows
        assert c.ask(GET_JSON).body == OK_JSON


def names_what_is_allowed(server):
    with server.connect() as c:
        for data, status, allow in [
                (request("OPTIONS", "/json"), 204, "GET, HEAD, OPTIONS"),
                (request("OPTIONS", "*"), 204, "OPTIONS"),
                (request("DELETE", "/json"), 405, "GET, HEAD, OPTIONS"),
                (request("GET", "/echo"), 405, "POST, PUT, OPTIONS"),
                (request("HEAD", "/echo"), 405, "POST, PUT, OPTIONS")]:
            r = c.ask(data, no_body=data.startswith(b"HEAD"))
            assert (r.status, r.get("Allow")) == (status, allow), (data, r.status, r.rows)


def answers_a_half_closed_client(server):
    with server.connect() as c:
        c.send(request("GET", "/nap?150"))
        c.half_close()
        assert c.response().body == b"slept\n"
        c.wait_closed()


def ends_http10_streams_by_closing(server):
    with server.connect() as c:
        r = c.ask(request("GET", "/flood?300000", "Connection: keep-alive", version="1.0"))
        assert r.get("Transfer-Encoding") is None and r.get("Connection") == "close", r.rows
        assert len(r.body) == 300000


def breaks_what_the_handler_broke(server):
    with server.connect() as c:
        try:
            r = c.ask(request("GET", "/broken"))
        except (EOFError, ConnectionError):
            return
        raise AssertionError(f"a broken transfer looks complete: {r.body!r}")


# --- bodies ---


def says_continue(server):
    with server.connect() as c:
        r = c.ask(post("Expect: 100-continue", "Content-Length: 5"))
        assert r.status == 100, r.status
        r = c.ask(b"hello")
        assert (r.status, r.body) == (200, b"hello")
        r = c.ask(post("Expect: 100-continue", "Transfer-Encoding: chunked", path="/upload"))
        assert r.status == 100, r.status
        assert c.ask(b"5\r\nhello\r\n0\r\n\r\n").body == b"5\n"
        r = c.ask(post("Expect: 100-continue"))
        assert (r.status, r.body) == (200, b""), "no body, so nothing to continue with"


def does_not_ask_for_what_it_refuses(server):
    for path, headers, status in [("/small", ["Content-Length: 1025"], 413),
                                  ("/limited", ["Content-Length: 1025"], 413),
                                  ("/nowhere", ["Content-Length: 5"], 404),
                                  ("/early", ["Content-Length: 5"], 200)]:
        with server.connect() as c:
            r = c.ask(post("Expect: 100-continue", *headers, path=path))
            assert (r.status, r.get("Connection")) == (status, "close"), (path, r.status, r.rows)
            c.wait_closed()


def send_unwanted(c, head, body):
    """The server waits a moment, 2 s, for the end of what it does not want. We may be slower."""
    began = time.monotonic()
    try:
        c.send(head)
        c.send(body)
    except ConnectionError:
        assert time.monotonic() - began > 1, "the server did not wait"


def refuses_large(server, path, headers, body):
    """The client sends all of it before it reads: it must be able to, and then find the answer."""
    with server.connect() as c:
        send_unwanted(c, post(*headers, path=path), body)
        r = c.response()
        assert (r.status, r.get("Connection")) == (413, "close"), (r.status, r.rows)
        c.wait_closed()


def chunks_of(count, size):
    return (b"%x\r\n" % size + b"x" * size + b"\r\n") * count + b"0\r\n\r\n"


LARGE = [
    ("a body of 1,025 bytes", "/small", ["Content-Length: 1025"], b"x" * 1025),
    ("chunks of 1,025 bytes", "/small", ["Transfer-Encoding: chunked"], chunks_of(205, 5)),
    ("a streamed body past its limit", "/limited", ["Content-Length: 2000"], b"x" * 2000),
    ("streamed chunks past their limit",
     "/limited", ["Transfer-Encoding: chunked"], chunks_of(3, 1000)),
    ("a body of 8 MiB", "/echo", [f"Content-Length: {8 * MIB}"], bytes(8 * MIB)),
    ("chunks of 8 MiB", "/echo", ["Transfer-Encoding: chunked"], chunks_of(128, 65536)),
]


def answers_early(server):
    with server.connect() as c:  # a short body is read away and the connection goes on
        r = c.ask(post("Content-Length: 100000", path="/early"))
        assert (r.status, r.body, r.get("Connection")) == (200, b"early\n", None), r.rows
        c.send(b"x" * 100000)
        assert c.ask(GET_JSON).status == 200
    with server.connect() as c:  # a long one is not worth it, and the answer says so
        send_unwanted(c, post(f"Content-Length: {8 * MIB}", path="/early"), bytes(8 * MIB))
        r = c.response()
        assert (r.status, r.body, r.get("Connection")) == (200, b"early\n", "close"), r.rows
        c.wait_closed()


def refuses_without_waiting_for_the_body(server):
    for framing in ("Content-Length: 5", "Transfer-Encoding: chunked"):
        with server.connect() as c:
            r = c.ask(post(framing, path="/nowhere"))
            assert (r.status, r.get("Connection")) == (404, "close"), (framing, r.status, r.rows)
            c.wait_closed()
    with server.connect() as c:  # nothing to wait for: the body came with the head
        r = c.ask(post("Content-Length: 5", body=b"hello", path="/nowhere"))
        assert (r.status, r.get("Connection")) == (404, None), (r.status, r.rows)
        assert c.ask(GET_JSON).status == 200


def reads_tiny_chunks(server):
    """In parts, with other connections' turns between them; what follows is read as well."""
    count = 20000
    with server.connect() as c:
        c.send(post("Transfer-Encoding: chunked", path="/upload") + chunks_of(count, 1) + GET_JSON)
        assert c.response().body == b"%d\n" % count
        assert c.response().body == OK_JSON


def survives_lost_clients(server):
    for data in (post("Content-Length: 100", body=b"half"), chunked(b"5\r\nhel"),
                 post("Content-Length: 100", body=b"half", path="/upload"), b"GET /js",
                 post("Content-Length: 200000", body=b"s" * 150000, path="/sip")):
        with server.connect() as c:  # an orderly end
            c.send(data)
            c.half_close()
            c.wait_closed()
        with server.connect() as c:  # a reset
            c.send(data)
            time.sleep(0.01)
            c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    for target in ("/flood?100000000", "/file", "/nap?50", "/nap?300"):
        for linger in (True, False):
            with server.connect(receive_bytes=4096) as c:
                c.send(request("GET", target))
                time.sleep(0.01)
                if linger:
                    c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    server.is_well()


def holds_a_fast_sender_back(server):
    """A handler that sips must not make the server store what it did not take."""
    total = 16 * MIB
    with server.connect() as c:
        before = server.rss_bytes()
        c.send(post(f"Content-Length: {total}", path="/sip"))
        sent, peak = 0, before
        while sent < total:
            c.send(bytes(256 * 1024))
            sent += 256 * 1024
            peak = max(peak, server.rss_bytes())
        r = c.response()
        assert (r.status, r.body) == (200, b"%d\n" % total), (r.status, r.body)
        assert peak - before <= 2 * MIB, f"memory grew by {peak - before} bytes"


def leaks_no_descriptor(server):
    def count():
        return len(server.descriptors())

    server.is_well()
    wait_for(lambda: count() < 16)
    for _ in range(500):
        with server.connect() as c:
            c.send(request("GET", "/file"))
            c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    server.is_well()
    wait_for(lambda: count() < 16)


def survives_readers_that_leave_during_a_file(server):
    """A client that sends a FIN first and a reset later must not cause SIGPIPE."""
    for _ in range(30):
        with server.connect(receive_bytes=4096) as c:
            c.send(request("GET", "/file") * 20)
            c.half_close()
            c.take_until(b"\r\n\r\n")
    server.is_well()


def upload_fast(server, total, chunk):
    """Sends `total` bytes from page cache; with `chunk`, as chunks of that many bytes."""
    piece = chunk or 16 * MIB
    with server.connect(timeout=60) as c, tempfile.TemporaryFile() as source:
        source.truncate(piece)
        before = server.rss_bytes()
        peak = before
        framing = "Transfer-Encoding: chunked" if chunk else f"Content-Length: {total}"
        c.send(post(framing, path="/upload"))
        for start in range(0, total, piece):
            if chunk:
                c.send(b"%x\r\n" % piece)
            c.sock.sendfile(source, 0, piece)
            if chunk:
                c.send(b"\r\n")
            if start % (256 * MIB) == 0:
                peak = max(peak, server.rss_bytes())
        if chunk:
            c.send(b"0\r\n\r\n")
        r = c.response()
        assert (r.status, r.body) == (200, b"%d\n" % total), (r.status, r.body)
        growth = max(peak, server.rss_bytes()) - before
        assert growth <= 4 * MIB, f"memory grew by {growth} bytes"


# --- files ---

# (Range, status, Content-Range or None, body or None)
RANGES = [
    ("bytes=0-9", 206, "bytes 0-9/102400", FILE_BYTES[:10]),
    ("bytes=300-", 206, "bytes 300-102399/102400", FILE_BYTES[300:]),
    ("bytes=-5", 206, "bytes 102395-102399/102400", FILE_BYTES[-5:]),
    ("bytes=-200000", 206, "bytes 0-102399/102400", FILE_BYTES),
    ("bytes=102399-200000", 206, "bytes 102399-102399/102400", FILE_BYTES[-1:]),
    ("bytes=5-6,10-20", 206, "bytes 5-6/102400", FILE_BYTES[5:7]),
    ("bytes=200000-, 7-7", 206, "bytes 7-7/102400", FILE_BYTES[7:8]),
    ("BYTES=0-0", 206, "bytes 0-0/102400", FILE_BYTES[:1]),
    ("bytes=102400-", 416, "bytes */102400", None),
    ("bytes=-0", 416, "bytes */102400", None),
    ("bytes=18446744073709551615-", 416, "bytes */102400", None),
    ("bytes=5-2", 416, "bytes */102400", None),
    ("bytes=a-b", 416, "bytes */102400", None),
    ("bytes=", 416, "bytes */102400", None),
    ("bytes=+1-2", 416, "bytes */102400", None),
    ("items=0-9", 200, None, FILE_BYTES),
]


def sends_range(server, wanted, status, content_range, body):
    with server.connect() as c:
        r = c.ask(request("GET", "/file", f"Range: {wanted}"))
        assert (r.status, r.get("Content-Range")) == (status, content_range), (r.status, r.rows)
        assert body is None or r.body == body, f"{len(r.body)} bytes"
        assert c.ask(GET_JSON).status == 200


def date(offset_s):
    return email.utils.formatdate(FILE_TIME + offset_s, usegmt=True)


FILE_TIME = 1700000000

# (headers, status)
CONDITIONS = [
    (["If-Modified-Since: " + date(0)], 304),
    (["If-Modified-Since: " + date(10)], 304),
    (["If-Modified-Since: " + date(-1)], 200),
    (["If-Modified-Since: yesterday"], 200),
    (["If-Unmodified-Since: " + date(0)], 200),
    (["If-Unmodified-Since: " + date(-1)], 412),
    (["If-Range: " + date(0), "Range: bytes=0-9"], 206),
    (["If-Range: " + date(-1), "Range: bytes=0-9"], 200),
    (["If-Range: " + date(1), "Range: bytes=0-9"], 200),
    (['If-Range: "etag"', "Range: bytes=0-9"], 200),
]


def meets_condition(server, headers, status):
    with server.connect() as c:
        r = c.ask(request("GET", "/file", *headers))
        assert r.status == status, f"status {r.status}"
        if status in (200, 206):
            assert r.get("Last-Modified") == date(0) and r.get("Accept-Ranges") == "bytes", r.rows
        assert c.ask(GET_JSON).status == 200


def ignores_ranges_of_head(server):
    r = server.ask(request("HEAD", "/file", "Range: bytes=0-9"), no_body=True)
    assert (r.status, r.get("Content-Length")) == (200, str(len(FILE_BYTES))), (r.status, r.rows)


def sends_an_empty_file(program, folder):
    path = os.path.join(folder, "empty")
    with open(path, "wb"):
        pass
    with Server(program, "--file", path) as server, server.connect() as c:
        for headers in ([], ["Range: bytes=0-9"]):
            r = c.ask(request("GET", "/file", *headers))
            assert (r.status, r.body) == (200, b""), (r.status, r.body)
    assert server.exit_status() == 0


def breaks_when_the_file_shrinks(program, folder):
    path = os.path.join(folder, "shrinking")
    size = 64 * MIB
    with open(path, "wb") as f:
        f.truncate(size)
    with Server(program, "--file", path) as server:
        with server.connect(receive_bytes=4096) as c:
            c.send(request("GET", "/file"))
            c.take_until(b"\r\n\r\n")
            os.truncate(path, MIB)
            with contextlib.suppress(ConnectionError):
                assert len(c.take_rest()) < size, "the promise was kept with bytes from nowhere"
        server.is_well()
    assert server.exit_status() == 0


# --- time ---


def ends_by_deadline(c, statuses, began):
    """The server must give up after DEADLINE_S, with one of these answers or none.

    `began` is a moment before the server's clock started, so that it cannot end too early. A busy
    machine may be late; the client's own time-out is when a deadline was missed.
    """
    with contextlib.suppress(EOFError, ConnectionError):
        r = c.response()
        assert r.status in statuses, f"status {r.status}"
        c.wait_closed()
    took = time.monotonic() - began
    assert took > DEADLINE_S * 0.9, f"after {took:.2f} s"


@contextlib.contextmanager
def in_time(server, start, statuses):
    """A connection on which `start` was said and answered with `statuses` before the server could
    be tired of us, and the moment before it."""
    for _ in range(100):
        began = time.monotonic()
        with server.connect() as c:
            try:
                c.send(start)
                answers = [c.response().status for _ in statuses]
            except (EOFError, ConnectionError):
                answers = None
            late = time.monotonic() - began > DEADLINE_S / 2
            if answers == statuses or not late:
                assert answers == statuses, answers
                yield c, began
                return
    raise AssertionError("this machine is too slow for the deadline")


def drips(server, before, start, drop):
    with in_time(server, before + start, [200] if before else []) as (c, began):
        c.sock.settimeout(0.05)
        while time.monotonic() < began + SECONDS_MAX:
            try:
                c.send(drop)
                c.receive()
            except TimeoutError:
                continue
            except (EOFError, ConnectionError):
                break
            break
        c.sock.settimeout(SECONDS_MAX)
        ends_by_deadline(c, [408], began)


# (sentence, a request before, first bytes, drop every 50 ms)
DRIPS = [
    ("a head drips", b"", b"GET /json HTTP/1.1\r\nHost: x\r\nA: ", b"a"),
    ("a second head drips", GET_JSON, b"GET /json HTTP/1.1\r\nHost: x\r\nA: ", b"a"),
    ("a collected body drips", b"", post("Content-Length: 1000"), b"a"),
    ("chunk extensions drip", b"", chunked(b"5;"), b"a"),
    ("trailers drip", b"", chunked(b"0\r\nA: ", path="/upload"), b"a"),
]


def waits_in_vain(server, start, statuses):
    with in_time(server, start, statuses[:-1]) as (c, began):
        ends_by_deadline(c, statuses[-1:], began)


# (sentence, first bytes, answers before the end; the last may be missing)
SILENCES = [
    ("nothing is said", b"", [408]),
    ("half a head is said", b"GET /json HTTP/1.1\r\nHo", [408]),
    ("half a body is sent", post("Content-Length: 10", body=b"half"), [408]),
    ("half an upload is sent", post("Content-Length: 10", body=b"half", path="/upload"), [408]),
    ("half an upload is sent, and sipped",
     post("Content-Length: 200000", body=b"s" * 100000, path="/sip"), [408]),
    ("half a refused body is sent",
     post("Content-Length: 10", body=b"half", path="/early"), [200, 0]),
    ("a kept connection idles", GET_JSON, [200, 0]),
]


def stops_for_one_that_never_reads(server):
    before = server.rss_bytes()
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(server.connect(receive_bytes=4096)) for _ in range(8)]
        for c in clients:
            with contextlib.suppress(ConnectionError):  # the server may be tired of a slow machine
                c.send(request("GET", "/flood?1000000000000"))
        time.sleep(DEADLINE_S / 2)
        growth = server.rss_bytes() - before
        assert growth <= 8 * MIB, f"memory grew by {growth} bytes"
        wait_for(lambda: server.descriptors().count("socket") == 1)  # that one listens
        for c in clients:  # what the kernel held is still to be read; then the end
            with contextlib.suppress(ConnectionError):
                received = len(c.take_rest())
                assert 0 < received < 64 * MIB, f"{received} bytes"
    server.is_well()


def stops_for_one_that_only_asks(server):
    before = server.rss_bytes()
    with server.connect(receive_bytes=4096, timeout=DEADLINE_S / 2) as c:
        sent = 0
        try:
            for _ in range(200000):
                c.send(GET_JSON * 100)
                sent += 100
        except (TimeoutError, ConnectionError):
            pass
        assert sent < 10000000, "the server swallowed it all"
        growth = server.rss_bytes() - before
        assert growth <= 8 * MIB, f"memory grew by {growth} bytes"
        time.sleep(DEADLINE_S * 2)
        c.sock.settimeout(SECONDS_MAX)
        with contextlib.suppress(ConnectionError):
            c.take_rest()
    server.is_well()


def serves_a_slow_steady_reader(server):
    """Its queue is never empty; what was sent must not pile up behind it."""
    total = 48 * MIB
    with server.connect(receive_bytes=16384) as c:
        before = server.rss_bytes()
        c.send(request("GET", f"/flood?{total}", version="1.0"))
        received, peak = 0, before
        while True:
            data = c.sock.recv(16384)
            if not data:
                break
            received += len(data)
            if received % 64 == 0:
                peak = max(peak, server.rss_bytes())
        assert received > total, f"{received} bytes"
        assert peak - before <= 4 * MIB, f"memory grew by {peak - before} bytes"


def holds_many_slow_heads_in_little_memory(program):
    with Server(program) as server, contextlib.ExitStack() as stack:
        server.is_well()
        before = server.rss_bytes()
        clients = [stack.enter_context(server.connect()) for _ in range(500)]
        for piece in (b"GET /json HTTP/1.1\r\n", b"Host: x\r\n", b"A: b\r\n"):
            for c in clients:
                c.send(piece)
        server.is_well()
        each = (server.rss_bytes() - before) / len(clients)
        assert each <= 16 * 1024, f"{each:.0f} bytes for each"
        for c in clients:
            c.send(b"\r\n")
        for c in clients:
            assert c.response().status == 200
        stack.close()
        server.drain()
        assert server.exit_status() == 0


# --- limits and the end ---


def nap(server, ms):
    return server.ask(request("GET", f"/nap?{ms}")).status


def connect_busy(server, stack, count):
    """So many clients in the middle of an upload, which the server knows of."""
    clients = [stack.enter_context(server.connect()) for _ in range(count)]
    for c in clients:
        r = c.ask(post("Expect: 100-continue", "Content-Length: 5", path="/upload"))
        assert r.status == 100, r.status
    return clients


def lets_the_next_wait(program):
    """All connections are busy: new ones wait until one of them ends, and none is dropped."""
    with Server(program, "--connections", "50") as server, contextlib.ExitStack() as stack, \
            concurrent.futures.ThreadPoolExecutor(10) as pool:
        busy = connect_busy(server, stack, 50)
        late = [pool.submit(nap, server, 1) for _ in range(10)]
        time.sleep(0.2)
        assert not any(future.done() for future in late), "a new connection did not wait"
        for c in busy:
            assert c.ask(b"hello").body == b"5\n"
        assert [future.result() for future in late] == [200] * 10


def fills_the_last_place(program):
    """The connection that reaches the limit is served while all others are busy."""
    with Server(program, "--connections", "50") as server, \
            concurrent.futures.ThreadPoolExecutor(60) as pool:
        busy = [pool.submit(nap, server, 500) for _ in range(49)]
        time.sleep(0.2)
        with server.connect() as c:
            time.sleep(0.05)
            assert c.ask(GET_JSON).status == 200
        assert [f.result() for f in busy] == [200] * 49


def evicts_the_longest_idle(program):
    with Server(program, "--connections", "50") as server, contextlib.ExitStack() as stack:
        clients = []
        for _ in range(50):
            clients.append(stack.enter_context(server.connect()))
            assert clients[-1].ask(GET_JSON).status == 200
        for _ in range(5):
            server.is_well()
        clients[0].wait_closed()
        assert clients[-1].ask(GET_JSON).status == 200, "not the longest idle was closed"


def evicts_the_silent(program):
    """Connections that send nothing do not keep others out until their deadline."""
    with Server(program, "--connections", "50") as server, contextlib.ExitStack() as stack:
        silent = [stack.enter_context(server.connect()) for _ in range(120)]
        server.is_well()
        silent[0].wait_closed()
        assert silent[-1].ask(GET_JSON).status == 200, "not the longest silent was closed"


def evicts_slow_heads(program):
    """Connections that send half a head do not keep others out until their deadline."""
    with Server(program, "--connections", "50") as server, contextlib.ExitStack() as stack:
        slow = []
        for _ in range(120):
            slow.append(stack.enter_context(server.connect()))
            slow[-1].send(b"GET /json HTTP/1.1\r\n")
        server.is_well()
        slow[0].wait_closed()
        assert slow[-1].ask(b"Host: x\r\n\r\n").status == 200, "not the slowest was closed"


def stop_process(pid):
    os.kill(pid, signal.SIGSTOP)
    assert os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])


def is_fair_to_a_client_with_one_request(program):
    """The server meets a crowd of connections with many requests each, and one with a single
    request that came last."""
    crowd_size, each = 50, 2000
    with Server(program) as server, contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(server.connect()) for _ in range(crowd_size)]
        one = stack.enter_context(server.connect())
        stop_process(server.process.pid)
        for c in crowd:
            c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MIB)
            c.send(GET_JSON * each)
        one.send(request("GET", "/served"))
        os.kill(server.process.pid, signal.SIGCONT)
        served = int(one.response().body)
        assert served <= crowd_size * each // 20, f"{served} requests were served before"
        for c in crowd[:3]:
            for _ in range(each):
                assert c.response().body == OK_JSON


def evicts_once_others_idle(program):
    """All connections were busy when a new one came; it is served as soon as one of them is
    idle."""
    with Server(program, "--connections", "50") as server, contextlib.ExitStack() as stack, \
            concurrent.futures.ThreadPoolExecutor(1) as pool:
        busy = connect_busy(server, stack, 50)
        newcomer = pool.submit(server.is_well)
        time.sleep(0.2)
        assert not newcomer.done(), "a busy connection was dropped"
        assert busy[0].ask(b"hello").body == b"5\n"
        newcomer.result()
        busy[0].wait_closed()
        assert [c.ask(b"hello").body for c in busy[1:]] == [b"5\n"] * 49


def drains(program):
    with Server(program) as server, contextlib.ExitStack() as stack:
        idle, fresh, busy, dripping, streaming = [
            stack.enter_context(server.connect()) for _ in range(5)]
        assert idle.ask(GET_JSON).status == 200
        asked = time.monotonic()
        busy.send(request("GET", "/nap?3000"))
        dripping.send(b"GET /json HTTP/1.1\r\nHo")
        streaming.send(post("Content-Length: 10", body=b"half", path="/upload"))
        time.sleep(0.1)
        server.is_well()  # it serves in the order of arrival, and so has read those
        server.drain()
        still_busy = time.monotonic() < asked + 2
        idle.wait_closed()
        fresh.wait_closed()

        def refused():
            try:
                server.connect().sock.close()
            except ConnectionRefusedError:
                return True
            return False

        wait_for(refused)
        server.drain()  # once more changes nothing
        dripping.send(b"st: x\r\n\r\n")
        streaming.send(b"123456")
        for c, body in ((dripping, OK_JSON), (streaming, b"10\n"), (busy, b"slept\n")):
            r = c.response()
            assert (r.status, r.body) == (200, body), r.rows
            assert r.get("Connection") == "close" or (c is busy and not still_busy), r.rows
            c.wait_closed()
        assert server.exit_status() == 0


def survives_running_out_of_descriptors(program):
    with Server(program, descriptors_max=64) as server:
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(server.connect()) for _ in range(100)]
            assert clients[0].ask(GET_JSON).status == 200
            assert clients[1].ask(request("GET", "/nap?50")).status == 200
            for c in clients[:50]:
                c.sock.close()
            for c in clients[50:]:
                assert c.ask(GET_JSON).status == 200
        server.is_well()
    assert server.exit_status() == 0


# --- the order of things ---


def check_messages(tap, server):
    for sentence, data, status in REFUSED:
        tap.check(f"{sentence}: {status} and the end", is_refused, server, data, status)
    for sentence, data, statuses, body in ANSWERED:
        tap.check(f"{sentence}: {statuses}", is_answered, server, data, statuses, body)
    tap.check("the verdict does not depend on the packets", is_refused_in_two_pieces, server)
    tap.check("requests may be split anywhere", reads_the_same_however_split, server)


def check_connections(tap, server):
    tap.check("100 requests in one packet are answered in order", keeps_order_of_a_hundred, server)
    tap.check("two requests are read byte by byte", reads_byte_by_byte, server)
    tap.check("requests behind a slow one wait for it", waits_for_the_slow_one, server)
    for sentence, *row in LIFETIMES:
        tap.check(f"{sentence} {'stays open' if row[-1] else 'is closed'}", lives_on, server, *row)
    tap.check("HEAD gets the head and nothing else", answers_head, server)
    tap.check("OPTIONS and 405 name the methods", names_what_is_allowed, server)
    tap.check("a client that closed its side gets its answer", answers_a_half_closed_client, server)
    tap.check("a stream to HTTP/1.0 ends with the connection",
              ends_http10_streams_by_closing, server)
    tap.check("a broken reply looks broken", breaks_what_the_handler_broke, server)


def check_bodies(tap, server):
    tap.check("100 comes before the body", says_continue, server)
    tap.check("no 100 for a body that is not wanted", does_not_ask_for_what_it_refuses, server)
    for sentence, *row in LARGE:
        tap.check(f"{sentence} gets a 413 the client can read", refuses_large, server, *row)
    tap.check("a handler may answer before the body is there", answers_early, server)
    tap.check("a refusal does not wait for the body", refuses_without_waiting_for_the_body, server)
    tap.check("chunks of one byte are read", reads_tiny_chunks, server)
    tap.check("clients that vanish do not affect others", survives_lost_clients, server)
    tap.check("a handler that sips holds its client back", holds_a_fast_sender_back, server)
    tap.check("no descriptor is leaked", leaks_no_descriptor, server)
    tap.check("readers that disconnect during a file do not affect others",
              survives_readers_that_leave_during_a_file, server)


def check_files(tap, server, program, folder):
    for row in RANGES:
        tap.check(f"Range: {row[0]} gets {row[1]}", sends_range, server, *row)
    for headers, status in CONDITIONS:
        tap.check(f"{' and '.join(headers)}: {status}", meets_condition, server, headers, status)
    tap.check("HEAD knows no ranges", ignores_ranges_of_head, server)
    tap.check("a file of no bytes is sent", sends_an_empty_file, program, folder)
    tap.check("a file that shrinks breaks the transfer",
              breaks_when_the_file_shrinks, program, folder)


def check_deadlines(tap, server):
    for sentence, *row in DRIPS:
        tap.check(f"the server gives up when {sentence}", drips, server, *row)
    for sentence, *row in SILENCES:
        tap.check(f"the server gives up when {sentence}", waits_in_vain, server, *row)
    tap.check("one that never reads stops its producer", stops_for_one_that_never_reads, server)
    tap.check("one that only asks is not read any more", stops_for_one_that_only_asks, server)


def bounds_collected_bodies(program):
    """One total for all connections. What does not fit is refused at once, small bodies always fit,
    and memory is given back when a request is over or its client left."""
    large = b"x" * 40000
    length, pieces = f"Content-Length: {len(large)}", chunked(b"%x\r\n" % len(large) + large)
    with Server(program, "--held", "65536") as server, server.connect() as holder:
        holder.send(post(length, body=large[:1]))
        wait_for(lambda: server.ask(post(length, body=large)).status == 503, "a body that is held")
        for data in (post(length, "Expect: 100-continue"), pieces + b"\r\n0\r\n\r\n"):
            r = server.ask(data)
            assert r.status == 503 and r.get("Retry-After") == "1", (r.status, r.rows)
            assert b"40000 of the 65536 bytes" in r.body, r.body
        r = server.ask(post("Content-Length: 65537"))
        assert r.status == 413 and b"65536" in r.body, (r.status, r.body)
        with server.connect() as other:
            for _ in range(3):
                assert other.ask(post("Content-Length: 5", body=b"hello")).body == b"hello"
        holder.send(large[1:])
        assert holder.response().body == large
        with server.connect() as other:
            assert other.ask(post(length, body=large)).status == 200
            other.send(pieces)  # which does not end
        for data in (post(length, body=large), pieces + b"\r\n0\r\n\r\n"):
            wait_for(lambda data=data: server.ask(data).status == 200, "room")


def check_limits(tap, program):
    tap.check("collected bodies have one total", bounds_collected_bodies, program)
    tap.check("at the cap newcomers wait", lets_the_next_wait, program)
    tap.check("the last place can be taken", fills_the_last_place, program)
    tap.check("at the cap the longest idle makes room", evicts_the_longest_idle, program)
    tap.check("at the cap the longest silent makes room", evicts_the_silent, program)
    tap.check("at the cap the slowest head makes room", evicts_slow_heads, program)
    tap.check("many requests of others do not delay a single one",
              is_fair_to_a_client_with_one_request, program)
    tap.check("at the cap the first to idle makes room", evicts_once_others_idle, program)
    tap.check("SIGTERM lets requests end and refuses others", drains, program)
    tap.check("running out of descriptors is survived",
              survives_running_out_of_descriptors, program)
    tap.check("slow heads cost little memory", holds_many_slow_heads_in_little_memory, program)


def main():
    program, upload = sys.argv[1], int(sys.argv[2] if len(sys.argv) > 2 else 10240) * MIB
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "file")
        with open(path, "wb") as f:
            f.write(FILE_BYTES)
        os.utime(path, (FILE_TIME, FILE_TIME))
        with Server(program, "--file", path) as server:
            check_messages(tap, server)
            check_connections(tap, server)
            check_bodies(tap, server)
            check_files(tap, server, program, folder)
            tap.check("a slow steady reader gets it all", serves_a_slow_steady_reader, server)
            tap.check(f"an upload of {upload // MIB} MiB needs no memory",
                      upload_fast, server, upload, 0)
            tap.check("1 GiB in chunks needs no memory", upload_fast, server, 1024 * MIB, 65536)
            server.drain()
            tap.check("the server was well to the end", lambda: check_status(server))
        with Server(program, "--deadlines", str(int(DEADLINE_S * 1000))) as server:
            check_deadlines(tap, server)
            server.drain()
            tap.check("the impatient server was well to the end", lambda: check_status(server))
        check_limits(tap, program)
    return tap.end()


def check_status(server):
    status = server.exit_status()
    assert status == 0, f"exit status {status}"


if __name__ == "__main__":
    sys.exit(main())
