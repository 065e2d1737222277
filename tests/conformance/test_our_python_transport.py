#!/usr/bin/env python3
"""test_our_python_transport.py - what our Python SDK does around its requests, against a small
server in this process: transports that repeat, the cache of endpoints, traces. Prints TAP. It must
be run by the Python of build/deps/sdk-ours."""
import asyncio
import contextlib
import json
import logging
import pathlib
import re
import socket
import subprocess
import sys
import threading
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tools")]

import httpx  # noqa: E402
from opentelemetry import trace  # noqa: E402
from tap import Tap  # noqa: E402

from opensandbox import Sandbox, SandboxManagerSync, SandboxSync  # noqa: E402
from opensandbox.config import ConnectionConfig, ConnectionConfigSync  # noqa: E402
from opensandbox.exceptions import SandboxApiException  # noqa: E402
from opensandbox.transport import (  # noqa: E402
    RetryAsyncTransport,
    RetryCause,
    RetryPolicy,
    RetrySyncTransport,
    unwrap_retry_transport,
)

SECONDS_MAX = 20
SHORT = timedelta(milliseconds=2)


def policy(**more):
    return RetryPolicy(**{"max_retries": 2, "initial_backoff": SHORT, "max_backoff": SHORT, **more})


class Server:
    """Refuses the first requests with 503, and keeps what came."""

    def __init__(self, refuse=0):
        self.refuse, self.seen, outer = refuse, [], self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                self.rfile.read(int(self.headers.get("content-length") or 0))
                outer.seen.append((self.command, self.path, self.headers))
                refused, outer.refuse = outer.refuse > 0, outer.refuse - 1
                body = json.dumps({"endpoint": outer.domain + "/box"}).encode()
                if refused:
                    body = b'{"code": "BUSY", "message": "busy"}'
                self.send_response(503 if refused else 200)
                self.send_header("X-Request-ID", f"r{len(outer.seen)}")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = do_DELETE = answer

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.domain = f"127.0.0.1:{self.http.server_port}"
        self.url = f"http://{self.domain}"

    def __enter__(self):
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()

    def count(self, part):
        return sum(part in path for _, path, _ in self.seen)


async def send(kind, url, method="GET", content=None, **more):
    """One request through a wrapper, by httpx itself; its status."""
    if kind == "sync":
        with httpx.Client(transport=RetrySyncTransport(
                httpx.HTTPTransport(), policy(**more), owns_inner=True)) as client:
            return client.request(method, url, content=content).status_code
    inner = httpx.AsyncHTTPTransport()
    async with httpx.AsyncClient(transport=RetryAsyncTransport(
            inner, policy(**more), owns_inner=True)) as client:
        return (await client.request(method, url, content=content)).status_code


def run(*given, **more):
    return asyncio.run(asyncio.wait_for(send(*given, **more), SECONDS_MAX))


# --- transports that repeat ---


def idempotent_requests_are_repeated(kind):
    events = []
    with Server(refuse=2) as server:
        assert run(kind, server.url, on_retry=events.append) == 200
        assert len(server.seen) == 3, server.seen
    told = [(e.attempt, e.retries_used, e.method, e.cause, e.status_code, e.request_id)
            for e in events]
    assert told == [(2, 0, "GET", RetryCause.STATUS_503, 503, "r1"),
                    (3, 1, "GET", RetryCause.STATUS_503, 503, "r2")], told


def the_last_answer_comes_when_retries_are_used_up(kind):
    with Server(refuse=9) as server:
        assert run(kind, server.url, "PUT", b"x") == 503
        assert len(server.seen) == 3


def what_may_not_be_sent_twice_is_sent_once(kind):
    with Server(refuse=9) as server:
        assert run(kind, server.url, "POST", b"x") == 503
        assert len(server.seen) == 1
    if kind == "sync":
        with Server(refuse=9) as server:
            assert run(kind, server.url, "PUT", iter([b"a", b"b"])) == 503
            assert len(server.seen) == 1


def a_refused_connection_is_tried_again(kind):
    with socket.socket() as sock:  # bound, but nothing listens
        sock.bind(("127.0.0.1", 0))
        events = []

        def told(event):
            events.append(event.cause)
            raise RuntimeError("what a callback raises changes nothing")

        try:
            run(kind, f"http://127.0.0.1:{sock.getsockname()[1]}", "POST", b"x", on_retry=told)
            raise AssertionError("it was answered")
        except httpx.ConnectError:
            pass
        assert events == [RetryCause.PRE_SEND] * 2, events


def the_deadline_ends_repetitions(kind):
    with Server(refuse=9) as server:
        status = run(kind, server.url, initial_backoff=timedelta(seconds=5),
                     max_backoff=timedelta(seconds=5), overall_deadline=timedelta(seconds=1))
        assert status == 503 and len(server.seen) == 1, server.seen


def an_attempt_has_its_time():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        events = []
        try:
            run("sync", f"http://127.0.0.1:{silent.getsockname()[1]}", max_retries=1,
                per_attempt_timeout=timedelta(milliseconds=50), on_retry=events.append)
            raise AssertionError("it was answered")
        except httpx.ReadTimeout:
            assert [e.cause for e in events] == [RetryCause.READ_TIMEOUT]


def an_inner_transport_is_closed_by_its_owner_only():
    class Inner(httpx.BaseTransport):
        closed = 0

        def close(self):
            self.closed += 1

    inner = Inner()
    RetrySyncTransport(inner, policy()).close()
    assert inner.closed == 0
    RetrySyncTransport(inner, policy(), owns_inner=True).close()
    assert inner.closed == 1
    assert unwrap_retry_transport(RetrySyncTransport(inner, policy())) is inner
    assert unwrap_retry_transport(inner) is inner


def a_wrapper_in_a_configuration_repeats_once_only():
    with Server(refuse=99) as server:
        wrapper = RetrySyncTransport(httpx.HTTPTransport(), policy(max_retries=1), owns_inner=True)
        config = ConnectionConfigSync(domain=server.domain, transport=wrapper)
        manager = SandboxManagerSync.create(config)
        try:
            manager.get_sandbox_info("x")
            raise AssertionError("it was answered")
        except SandboxApiException as error:
            assert error.status_code == 503
        assert len(server.seen) == 2, len(server.seen)
        manager.close()
        wrapper.close()


# --- endpoints ---


def connected(server, **more):
    config = ConnectionConfigSync(domain=server.domain, **more)
    return SandboxSync.connect("x", connection_config=config, skip_health_check=True)


def an_endpoint_is_looked_up_once():
    with Server() as server, connected(server) as sandbox:
        first = sandbox.get_endpoint(8000)
        first.endpoint = "changed by its caller"
        assert sandbox.get_endpoint(8000).endpoint == server.domain + "/box"
        assert server.count("/endpoints/8000") == 1, server.seen
        sandbox.get_signed_endpoint(8000, 1)
        sandbox.get_signed_endpoint(8000, 1)
        assert server.count("expires=1") == 2
        sandbox.pause()
        sandbox.get_endpoint(8000)
        assert server.count("/endpoints/8000") == 4, server.seen


def endpoints_are_forgotten_as_configured():
    for more in ({"endpoint_cache_disabled": True}, {"endpoint_cache_ttl": timedelta(0)}):
        with Server() as server, connected(server, **more) as sandbox:
            sandbox.get_endpoint(8000)
            sandbox.get_endpoint(8000)
            assert server.count("/endpoints/8000") == 2, (more, server.seen)
    with Server() as server, connected(server, endpoint_cache_size=1) as sandbox:
        for port in (8000, 8001, 8001, 8000):
            sandbox.get_endpoint(port)
        assert server.count("/endpoints/8000") == 2 and server.count("/endpoints/8001") == 1


def what_failed_is_not_kept():
    with Server() as server, connected(server, retry_policy=RetryPolicy.disabled()) as sandbox:
        server.refuse = 1
        with contextlib.suppress(SandboxApiException):
            sandbox.get_endpoint(8000)
        assert sandbox.get_endpoint(8000).endpoint == server.domain + "/box"


# --- traces ---


class Made(trace.NonRecordingSpan):
    """A span that keeps what was set."""

    def __init__(self, context, name, kind, attributes):
        super().__init__(context)
        self.name, self.kind, self.attributes = name, kind, dict(attributes or {})

    def set_attribute(self, key, value):
        self.attributes[key] = value


class Tracer(trace.Tracer):
    def __init__(self):
        self.made = []

    def start_span(self, name, context=None, kind=trace.SpanKind.INTERNAL, attributes=None, **_):
        parent = trace.get_current_span(context).get_span_context()
        made = trace.SpanContext(parent.trace_id or 0xABC0 + len(self.made), 1 + len(self.made),
                                 False, trace.TraceFlags(1))
        self.made.append(Made(made, name, kind, attributes))
        return self.made[-1]

    @contextlib.contextmanager
    def start_as_current_span(self, name, context=None, kind=trace.SpanKind.INTERNAL,
                              attributes=None, **_):
        span = self.start_span(name, context, kind, attributes)
        with trace.use_span(span):
            yield span


class Provider(trace.TracerProvider):
    tracer = Tracer()

    def get_tracer(self, *_, **__):
        return self.tracer


def traces_go_on_at_the_server():
    made = Provider.tracer.made
    made.clear()
    with Server() as server:
        config = ConnectionConfigSync(domain=server.domain, enable_tracing=True)
        with SandboxSync.connect("x", connection_config=config):
            pass
        sent = [headers["traceparent"] for _, _, headers in server.seen]
    assert [span.name for span in made] == ["Sandbox.connect", "GET", "GET"], made
    assert made[0].attributes["sandbox.id"] == "x"
    parents = [f"00-{made[0].get_span_context().trace_id:032x}-{n:016x}-01" for n in (2, 3)]
    assert sent == parents, (sent, parents)
    assert made[1].kind is trace.SpanKind.CLIENT
    found = made[1].attributes
    assert found["http.response.status_code"] == 200 and found["server.address"] == "127.0.0.1"
    assert re.search("/v1/sandboxes/x/endpoints/44772$", found["url.full"]), found


async def traced_failure(server):
    config = ConnectionConfig(domain=server.domain, enable_tracing=True, retry_policy=policy())
    with contextlib.suppress(SandboxApiException):
        await Sandbox.connect("x", connection_config=config)


def a_failure_is_in_its_span():
    made = Provider.tracer.made
    made.clear()
    with Server(refuse=99) as server:
        asyncio.run(asyncio.wait_for(traced_failure(server), SECONDS_MAX))
    assert len(made) == 2, made
    assert made[1].attributes["http.response.status_code"] == 503
    assert made[1].attributes["http.request.resend_count"] == 2
    assert made[1].attributes["error.type"] == "SandboxApiException", made[1].attributes


def nothing_is_traced_unasked():
    Provider.tracer.made.clear()
    with Server() as server, connected(server):
        assert server.seen[0][2]["traceparent"] is None
    assert not Provider.tracer.made


def tracing_needs_no_opentelemetry():
    program = """
import sys
sys.modules["opentelemetry"] = None
from opensandbox import SandboxSync
from opensandbox.config import ConnectionConfigSync
config = ConnectionConfigSync(domain=sys.argv[1], enable_tracing=True)
SandboxSync.connect("x", connection_config=config).close()
"""
    with Server() as server:
        subprocess.run([sys.executable, "-c", program, server.domain], check=True,
                       timeout=SECONDS_MAX)
        assert server.count("/ping") == 1 and server.seen[0][2]["traceparent"] is None


BOTH = [idempotent_requests_are_repeated, the_last_answer_comes_when_retries_are_used_up,
        what_may_not_be_sent_twice_is_sent_once, a_refused_connection_is_tried_again,
        the_deadline_ends_repetitions]
TESTS = [an_attempt_has_its_time, an_inner_transport_is_closed_by_its_owner_only,
         a_wrapper_in_a_configuration_repeats_once_only, an_endpoint_is_looked_up_once,
         endpoints_are_forgotten_as_configured, what_failed_is_not_kept,
         traces_go_on_at_the_server, a_failure_is_in_its_span, nothing_is_traced_unasked,
         tracing_needs_no_opentelemetry]


def main():
    trace.set_tracer_provider(Provider())
    logging.getLogger("opensandbox").setLevel(logging.CRITICAL)
    tap = Tap()
    for test in BOTH:
        for kind in ("sync", "async"):
            tap.check(f"{test.__name__}, {kind}", test, kind)
    for test in TESTS:
        tap.check(test.__name__, test)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
