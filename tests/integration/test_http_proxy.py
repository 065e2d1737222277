#!/usr/bin/env python3
"""The HTTP client and the proxy, between a raw client and a backend that follows a script.

usage: test_http_proxy.py HTTPD RSS-GROWTH-MIB-MAX
"""
import contextlib
import socket
import sys
import threading
import time

from http_backend import OK, Backend, answer, echo
from httplib import SECONDS_MAX, Server, Tap, request, wait_for

MIB = 1 << 20
RSS_GROWTH_MAX = int(sys.argv[2]) * MIB


@contextlib.contextmanager
def proxy_to(script, *options):
    with Backend(script) as backend, \
            Server(sys.argv[1], "--backend", backend.address, *options) as server:
        yield backend, server


def passes_request_heads():
    with proxy_to(answer(OK)) as (backend, server):
        head = (b"GET /proxy/a%2Fb/../c?x=%20&y HTTP/1.1\r\nHost: some.host:81\r\nX-One: 1\r\n"
                b"Cookie: a=b\r\nx-one: 2\r\nConnection: keep-alive, X-Mine\r\nX-Mine: secret\r\n"
                b"TE: trailers\r\nKeep-Alive: 5\r\nAccept: */*\r\n\r\n")
        assert server.ask(head).body == b"ok"
        assert backend.requests == [
            "GET /a%2Fb/../c?x=%20&y HTTP/1.1\r\nHost: some.host:81\r\nX-One: 1\r\nCookie: a=b\r\n"
            "x-one: 2\r\nAccept: */*"], backend.requests


def passes_response_heads():
    text = (b"HTTP/1.1 418 I'm a  teapot\r\nDate: yesterday\r\nSet-Cookie: a=1\r\nX-b: \xc3\xa9\r\n"
            b"Set-Cookie: b=2\r\nConnection: X-Hop\r\nx-hop: 1\r\nKeep-Alive: 3\r\n"
            b"Content-Length: 0\r\n\r\n")
    with proxy_to(answer(text)) as (_, server), server.connect() as c:
        c.send(request("GET", "/proxy/"))
        assert c.take_until(b"\r\n\r\n") == (
            b"HTTP/1.1 418 I'm a  teapot\r\nDate: yesterday\r\nSet-Cookie: a=1\r\nX-b: \xc3\xa9\r\n"
            b"Set-Cookie: b=2\r\nContent-Length: 0")


def passes_head_and_no_content():
    text = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
    with proxy_to(answer(text)) as (_, server), server.connect() as c:
        for _ in range(3):
            assert c.ask(request("HEAD", "/proxy/"), no_body=True).get("Content-Length") == "1000"
    for status in (204, 304):
        text = b"HTTP/1.1 %d X\r\nX-A: b\r\n\r\n" % status
        with proxy_to(answer(text)) as (_, server), server.connect() as c:
            for _ in range(3):
                r = c.ask(request("GET", "/proxy/"))
                assert (r.status, r.get("X-A"), r.get("Content-Length")) == (status, "b", None)


def skips_interim_answers():
    text = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK
    with proxy_to(answer(text)) as (_, server):
        assert server.ask(request("GET", "/proxy/")).body == b"ok"


def streams_chunks_as_they_come():
    go_on = threading.Event()

    def script(conn):
        conn.read_head()
        conn.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        go_on.wait(SECONDS_MAX)
        conn.send(b"3;x=y\r\ntwo\r\n0\r\nTrailer: t\r\n\r\n")
        conn.take_rest()

    with proxy_to(script) as (_, server), server.connect() as c:
        c.send(request("GET", "/proxy/"))
        c.take_until(b"one\r\n")
        go_on.set()
        assert c.take_until(b"0\r\n\r\n") == b"3\r\ntwo\r\n"


def reads_answers_that_end_by_closing():
    def script(conn):
        conn.read_head()
        conn.send(b"HTTP/1.0 200 OK\r\n\r\nall of it")

    with proxy_to(script) as (_, server), server.connect() as c:
        for _ in range(3):
            assert c.ask(request("GET", "/proxy/")).body == b"all of it"


def shows_a_broken_backend(framing, body):
    def script(conn):
        conn.read_head()
        conn.send(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n\r\n" + body)

    with proxy_to(script) as (_, server), server.connect() as c:
        c.send(request("GET", "/proxy/"))
        got = c.take_rest()
        assert framing in got and b"part" in got and not got.endswith(b"0\r\n\r\n"), got
        server.is_well()


def answers_502_to(bytes_of_backend):
    def script(conn):
        conn.read_head()
        conn.send(bytes_of_backend)
        conn.take_rest()

    with proxy_to(script) as (_, server):
        r = server.ask(request("GET", "/proxy/"))
        assert r.status == 502 and b'"BAD_GATEWAY"' in r.body, (r.status, r.body)


def answers_502_when_no_backend_listens():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen: nobody else can meanwhile
        address = "%s:%d" % taken.getsockname()
        with Server(sys.argv[1], "--backend", address) as server:
            r = server.ask(request("GET", "/proxy/"))
            assert r.status == 502 and b"refused" in r.body, (r.status, r.body)


def answers_504_when_the_backend_is_silent():
    def script(conn):
        conn.read_head()
        conn.take_rest()

    with proxy_to(script, "--deadlines", "1000") as (backend, server):
        r = server.ask_in_time(request("GET", "/proxy/"))
        assert r.status == 504 and b'"GATEWAY_TIMEOUT"' in r.body, (r.status, r.body)
        wait_for(lambda: backend.ended == 1)  # and the backend was let go


def keeps_connections():
    with proxy_to(answer(OK)) as (backend, server), server.connect() as c:
        for _ in range(20):
            assert c.ask(request("GET", "/proxy/")).body == b"ok"
        assert backend.begun == 1 and len(backend.requests) == 20


def close_kept(conn):
    """Answers once, then closes at the next request: as a server does whose patience just ended."""
    conn.read_head()
    conn.send(OK)
    conn.read_head()


def replaces_a_closed_connection():
    with proxy_to(close_kept) as (_, server), server.connect() as c:
        for _ in range(10):
            assert c.ask(request("GET", "/proxy/")).body == b"ok"


def does_not_repeat_what_may_do_harm():
    with proxy_to(close_kept) as (backend, server), server.connect() as c:
        assert c.ask(request("GET", "/proxy/")).status == 200
        assert c.ask(request("POST", "/proxy/pay", body=b"x")).status == 502
        assert sum("POST" in head for head in backend.requests) == 1, backend.requests


def passes_bodies():
    big = bytes(range(256)) * 4096 * 3
    with proxy_to(lambda conn: [echo(conn) for _ in range(10)]) as (backend, server), \
            server.connect() as c:
        assert c.ask(request("POST", "/proxy/", body=b"small")).body == b"small"
        assert c.ask(request("POST", "/proxy/", body=big)).body == big
        assert "Content-Length: %d" % len(big) in backend.requests[1]
        c.send(request("PUT", "/proxy/", "Transfer-Encoding: chunked"))
        c.send(b"5\r\nhello\r\n")
        time.sleep(0.05)
        assert c.ask(b"6\r\n world\r\n0\r\n\r\n").body == b"hello world"
        assert "Content-Length" not in backend.requests[2]
        c.send(request("POST", "/proxy/", "Expect: 100-continue", "Content-Length: 3"))
        assert c.response().status == 100
        assert c.ask(b"abc").body == b"abc"
        assert "Expect" not in backend.requests[3]
        r = c.ask(request("POST", "/proxy/", "Content-Length: 0"))
        assert (r.status, r.body) == (200, b"")
        assert "Content-Length: 0" in backend.requests[4]


def passes_an_early_answer():
    passed = threading.Event()

    def script(conn):
        conn.read_head()
        conn.send(b"HTTP/1.1 413 No\r\nContent-Length: 4\r\nConnection: close\r\n\r\nmuch")
        passed.wait(SECONDS_MAX)  # closing over unread bytes would take the answer back

    with proxy_to(script) as (_, server), server.connect() as c:
        c.send(request("POST", "/proxy/", "Content-Length: 100000000"))
        c.send(b"x" * 100000)
        r = c.response()
        passed.set()
        assert (r.status, r.body) == (413, b"much")
        server.is_well()


def lets_the_backend_go_when_the_client_leaves():
    def script(conn):
        conn.read_head()
        conn.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            conn.send(b"1\r\nx\r\n")
            time.sleep(0.01)

    with proxy_to(script) as (backend, server):
        with server.connect() as c:
            c.send(request("GET", "/proxy/"))
            c.take_until(b"1\r\nx\r\n")
        wait_for(lambda: backend.ended == 1)


def stops_a_fast_backend():
    sent = [0]

    def script(conn):
        conn.read_head()
        conn.sock.settimeout(None)
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (256 * MIB))
        piece = bytes(MIB)
        for _ in range(256):
            conn.send(piece)
            sent[0] += MIB
        conn.take_rest()

    with proxy_to(script) as (_, server), server.connect(receive_bytes=65536) as c:
        before = server.rss_bytes()
        c.send(request("GET", "/proxy/"))
        c.take_until(b"\r\n\r\n")
        time.sleep(1)
        assert sent[0] < 64 * MIB, f"the backend got rid of {sent[0]} bytes nobody read"
        assert server.rss_bytes() - before < RSS_GROWTH_MAX
        got = len(c.inbox)
        while got < 256 * MIB:
            got += len(c.sock.recv(MIB))
        assert got == 256 * MIB and server.rss_bytes() - before < RSS_GROWTH_MAX


def stops_a_fast_client():
    go_on = threading.Event()

    def script(conn):
        conn.read_head()
        go_on.wait(SECONDS_MAX)
        got = len(conn.inbox)
        while got < 128 * MIB:
            got += len(conn.sock.recv(MIB))
        conn.send(OK)

    with proxy_to(script) as (_, server), server.connect() as c:
        before = server.rss_bytes()
        c.send(request("POST", "/proxy/", f"Content-Length: {128 * MIB}"))
        sent, piece = 0, bytes(MIB)
        c.sock.settimeout(0.5)
        with contextlib.suppress(TimeoutError):
            while sent < 128 * MIB:
                sent += c.sock.send(piece[:128 * MIB - sent])
        assert sent < 64 * MIB, f"{sent} bytes went nowhere"
        assert server.rss_bytes() - before < RSS_GROWTH_MAX
        go_on.set()
        c.sock.settimeout(SECONDS_MAX)
        while sent < 128 * MIB:
            sent += c.sock.send(piece[:128 * MIB - sent])
        assert c.response().body == b"ok"


def serves_many_at_once():
    with proxy_to(answer(OK)) as (_, server):
        clients = [server.connect() for _ in range(200)]
        for c in clients:
            c.send(request("GET", "/proxy/") * 3)
        for c in clients:
            bodies = [c.response().body for _ in range(3)]
            assert bodies == [b"ok"] * 3, bodies
            c.sock.close()


# how, the framing of the answer, what comes of its body
BROKEN = [
    ("with a length", b"Content-Length: 100", b"part"),
    ("in chunks", b"Transfer-Encoding: chunked", b"4\r\npart\r\n"),
    ("within a chunk", b"Transfer-Encoding: chunked", b"9\r\npart"),
    ("with a bad chunk", b"Transfer-Encoding: chunked", b"4\r\npart\r\nzz\r\n"),
]

NO_ANSWERS = [
    ("garbage", b"hello there\r\n\r\n"),
    ("a bare LF", b"HTTP/1.1 200 OK\nContent-Length: 0\n\n"),
    ("two lengths", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
    ("a length and a coding",
     b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ("an upgrade nobody asked for", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"),
    ("an endless head", b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100000),
]

CHECKS = [
    ("a request passes as it is, but for what belongs to the connection", passes_request_heads),
    ("a response passes as it is, but for what belongs to the connection", passes_response_heads),
    ("HEAD, 204 and 304 keep their headers and have no body", passes_head_and_no_content),
    ("interim answers of the backend are skipped", skips_interim_answers),
    ("chunks pass as they come", streams_chunks_as_they_come),
    ("an answer that ends with its connection is complete", reads_answers_that_end_by_closing),
    ("a backend that cannot be reached is a 502 that says why",
     answers_502_when_no_backend_listens),
    ("a silent backend is a 504 and is let go", answers_504_when_the_backend_is_silent),
    ("connections to the backend are kept", keeps_connections),
    ("a kept connection that was closed is replaced unseen", replaces_a_closed_connection),
    ("a POST is never sent twice", does_not_repeat_what_may_do_harm),
    ("bodies pass, with a length, in chunks, after 100-continue", passes_bodies),
    ("an answer before the end of the request passes", passes_an_early_answer),
    ("a client that leaves frees the backend", lets_the_backend_go_when_the_client_leaves),
    ("a slow client slows the backend, in constant memory", stops_a_fast_backend),
    ("a slow backend slows the client, in constant memory", stops_a_fast_client),
    ("200 clients are served at once", serves_many_at_once),
]


def main():
    tap = Tap()
    for sentence, run in CHECKS:
        tap.check(sentence, run)
    for name, framing, body in BROKEN:
        tap.check(f"a backend that breaks off {name} shows as broken", shows_a_broken_backend,
                  framing, body)
    for name, answered in NO_ANSWERS:
        tap.check(f"a backend that answers {name} is a 502", answers_502_to, answered)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
