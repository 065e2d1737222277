#!/usr/bin/env python3
"""test_our_python_faults.py SERVER BROKER EXECD SANDBOXCTL - our Python SDK when things break: a
server killed in the middle of a stream, 502s during create, a half-open connection, a slow reader,
cancelled calls, redirects. The right exception comes, nothing hangs, no connection stays. TAP."""
import asyncio
import contextlib
import json
import pathlib
import socket
import sys
import threading
import time
from datetime import timedelta

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tools"), str(HERE.parent / "integration")]

from server_process import SECONDS_MAX, ServerProcess, wait_for, why_not  # noqa: E402
from tap import Tap, skip_all  # noqa: E402

from opensandbox import Sandbox, SandboxManagerSync, SandboxSync  # noqa: E402
from opensandbox.config import ConnectionConfig, ConnectionConfigSync  # noqa: E402
from opensandbox.exceptions import (  # noqa: E402
    SandboxApiException,
    SandboxConnectionException,
    SandboxException,
    SandboxStreamException,
    SandboxTimeoutException,
)
from opensandbox.models import ExecutionHandlersSync, SandboxFilter  # noqa: E402
from opensandbox.transport import RetryPolicy  # noqa: E402

SERVER = None
QUICK = RetryPolicy(max_retries=2, initial_backoff=timedelta(milliseconds=5),
                    max_backoff=timedelta(milliseconds=5))


class Front:
    """A TCP listener before the real server: passes bytes on, answers 502 for some requests, stops
    in the middle, and counts connections."""

    def __init__(self, target, refuse=0, refuse_path="/endpoints/"):
        self.target, self.refuse, self.refuse_path = target, refuse, refuse_path
        self.open, self.frozen = set(), threading.Event()
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.domain = f"127.0.0.1:{self.listener.getsockname()[1]}"

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()
        self.cut()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        host, _, port = self.target.partition(":")
        with self.lock:
            self.open.add(client)
        try:
            with socket.create_connection((host, int(port))) as server:
                back = threading.Thread(target=self.copy, args=(server, client), daemon=True)
                back.start()
                while data := client.recv(65536):
                    if self.refuse and self.refuse_path.encode() in data.split(b"\r\n")[0]:
                        self.refuse -= 1
                        client.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 3\r\n\r\nbad")
                        continue
                    server.sendall(data)
        except OSError:
            pass
        finally:
            client.close()
            with self.lock:
                self.open.discard(client)

    def copy(self, server, client):
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                if self.frozen.is_set():
                    self.frozen.clear()
                    return  # half open: nothing more comes over this one, nothing is closed
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)

    def cut(self):
        with self.lock:
            for client in self.open:
                with contextlib.suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)


def config(kind=ConnectionConfigSync, domain=None, **more):
    more.setdefault("retry_policy", QUICK)
    return kind(domain=domain or SERVER.domain, api_key=SERVER.api_key, **more)


def expect(kinds, call):
    try:
        result = call()
    except kinds as error:
        return error
    raise AssertionError(f"no {kinds}, but {result!r}")


def count():
    manager = SandboxManagerSync.create(config())
    found = manager.list_sandbox_infos(SandboxFilter()).pagination.total_items
    manager.close()
    return found


# --- tests ---


def bad_gateways_of_lookups_do_not_fail_a_create():
    with Front(SERVER.domain, refuse=2) as front:
        with SandboxSync.create("host", connection_config=config(domain=front.domain)) as sandbox:
            assert front.refuse == 0
            sandbox.kill()
        wait_for(lambda: not front.open, "the end of connections")


def lookups_that_never_work_leave_no_sandbox():
    before = count()
    with Front(SERVER.domain, refuse=100) as front:
        error = expect(SandboxApiException, lambda: SandboxSync.create(
            "host", connection_config=config(domain=front.domain)))
        assert error.status_code == 502, error
        wait_for(lambda: not front.open, "the end of connections")
    assert count() == before


def a_cut_stream_of_a_command_is_told_to_its_end():
    """Through the server's proxy, cut by the front; the rest comes over new connections."""
    with Front(SERVER.domain) as front:
        sandbox = SandboxSync.create("host", connection_config=config(
            domain=front.domain, use_server_proxy=True))
        seen = []

        def cut(message):
            seen.append(message.text)
            if len(seen) == 5:
                front.cut()

        done = sandbox.commands.run(
            "for n in $(seq 1 40); do echo line $n; sleep 0.02; done; echo bad >&2; exit 9",
            handlers=ExecutionHandlersSync(on_stdout=cut))
        assert seen == [f"line {n}" for n in range(1, 41)], seen
        assert done.exit_code == 9 and [m.text for m in done.logs.stderr] == ["bad"], done
        sandbox.destroy()
        wait_for(lambda: not front.open, "the end of connections")


def a_cut_download_is_whole():
    with Front(SERVER.domain) as front:
        sandbox = SandboxSync.create("host", connection_config=config(
            domain=front.domain, use_server_proxy=True))
        sandbox.commands.run("seq 1 3000000 > /tmp/large; sha256sum /tmp/large > /tmp/sum")
        import hashlib
        digest, size = hashlib.sha256(), 0
        for piece in sandbox.files.read_bytes_stream("/tmp/large"):
            if size < 5_000_000 <= size + len(piece):
                front.cut()
            size += len(piece)
            digest.update(piece)
        assert digest.hexdigest() in sandbox.files.read_file("/tmp/sum"), size
        sandbox.destroy()


def a_half_open_stream_is_noticed():
    """Neither bytes nor an end come: the missing pings tell, and the command is followed up."""
    with Front(SERVER.domain) as front:
        sandbox = SandboxSync.create("host", connection_config=config(
            domain=front.domain, use_server_proxy=True, stream_idle_timeout=timedelta(seconds=4),
            request_timeout=timedelta(seconds=4)))
        seen = []

        def freeze(message):
            seen.append(message.text)
            if message.text == "one":
                front.frozen.set()

        done = sandbox.commands.run("echo one; sleep 2; echo two",
                                    handlers=ExecutionHandlersSync(on_stdout=freeze))
        assert not front.frozen.is_set(), "nothing was frozen"
        assert (seen, done.exit_code) == (["one", "two"], 0), (seen, done)
        sandbox.destroy()


def a_server_that_is_gone_is_an_error():
    """Killed in the middle of a stream: there is no one to follow up with."""
    with ServerProcess(*sys.argv[1:5]) as server:
        sandbox = SandboxSync.create("host", connection_config=ConnectionConfigSync(
            domain=server.domain, api_key=server.api_key, retry_policy=QUICK,
            use_server_proxy=True))
        error = expect(SandboxStreamException, lambda: sandbox.commands.run(
            "echo x; sleep 60", handlers=ExecutionHandlersSync(on_stdout=lambda _: server.kill9())))
        assert error.error.code == "STREAM_ENDED", error
        expect(SandboxConnectionException, sandbox.get_info)
        assert sandbox.is_healthy() is False
        sandbox.close()
        server.start()
        server.request("DELETE", f"/v1/sandboxes/{sandbox.id}")


def a_slow_reader_gets_everything():
    with SandboxSync.create("host", connection_config=config()) as sandbox:
        got = 0
        for event in sandbox.commands.stream("seq 1 200000"):
            if event.type == "stdout":
                got += 1
                if got % 50000 == 0:
                    time.sleep(0.2)
        assert got == 200000, got
        sandbox.kill()


def an_iterator_that_is_left_closes_its_connection():
    with Front(SERVER.domain) as front:
        sandbox = SandboxSync.create("host", connection_config=config(
            domain=front.domain, use_server_proxy=True))
        before = len(front.open)
        stream = sandbox.commands.stream("while :; do echo x; sleep 0.01; done")
        for event in stream:
            if event.type == "stdout":
                break
        stream.close()
        wait_for(lambda: len(front.open) <= before, "the end of the stream")
        assert sandbox.commands.run("echo alive").text == "alive"
        sandbox.destroy()
        wait_for(lambda: not front.open, "the end of connections")


async def cancelled():
    with Front(SERVER.domain) as front:
        sandbox = await Sandbox.create("host", connection_config=config(
            ConnectionConfig, front.domain, use_server_proxy=True))
        task = asyncio.create_task(sandbox.commands.run("sleep 60"))
        await asyncio.sleep(0.2)
        task.cancel()
        try:
            await task
            raise AssertionError("a cancelled call returned")
        except asyncio.CancelledError:
            pass
        assert (await sandbox.commands.run("echo alive")).text == "alive"
        await sandbox.destroy()
        while front.open:
            await asyncio.sleep(0.01)


def a_cancelled_call_ends_at_once():
    asyncio.run(asyncio.wait_for(cancelled(), SECONDS_MAX))


async def cancelled_create():
    before = count()

    async def never(_):
        await asyncio.sleep(0.05)
        return False
    task = asyncio.create_task(Sandbox.create("host", health_check=never, connection_config=config(
        ConnectionConfig)))
    while count() == before:
        await asyncio.sleep(0.02)
    task.cancel()
    try:
        await task
        raise AssertionError("a cancelled create returned")
    except asyncio.CancelledError:
        pass
    assert count() == before, "the sandbox is still there"


def a_cancelled_create_leaves_no_sandbox():
    asyncio.run(asyncio.wait_for(cancelled_create(), SECONDS_MAX))


def nobody_listens():
    manager = SandboxManagerSync.create(config(domain="127.0.0.1:1"))
    error = expect(SandboxConnectionException, lambda: manager.get_sandbox_info("x"))
    assert error.is_retryable and isinstance(error, SandboxException), error
    manager.close()


def nobody_answers():
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        manager = SandboxManagerSync.create(config(
            domain=f"127.0.0.1:{deaf.getsockname()[1]}", request_timeout=timedelta(seconds=0.2)))
        expect(SandboxTimeoutException, lambda: manager.get_sandbox_info("x"))
        manager.close()


def redirects_to_others_carry_no_secrets():
    heard = []

    def serve(listener, answer):
        client, _ = listener.accept()
        heard.append(client.recv(65536).decode().lower())
        client.sendall(answer.encode())
        client.close()

    with socket.create_server(("127.0.0.1", 0)) as first, \
            socket.create_server(("127.0.0.1", 0)) as other:
        body = json.dumps({"id": "x", "status": {"state": "Running"},
                           "createdAt": "2026-07-01T09:30:00Z"})
        answers = [f"HTTP/1.1 307 There\r\nLocation: http://127.0.0.1:{other.getsockname()[1]}/\r\n"
                   "Content-Length: 0\r\nConnection: close\r\n\r\n",
                   f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}"]
        for listener, answer in zip((first, other), answers):
            threading.Thread(target=serve, args=(listener, answer), daemon=True).start()
        manager = SandboxManagerSync.create(ConnectionConfigSync(
            domain=f"127.0.0.1:{first.getsockname()[1]}", api_key="secret", follow_redirects=True))
        assert manager.get_sandbox_info("x").id == "x"
        manager.close()
    assert "secret" in heard[0] and "secret" not in heard[1], heard


TESTS = [
    bad_gateways_of_lookups_do_not_fail_a_create,
    lookups_that_never_work_leave_no_sandbox,
    a_cut_stream_of_a_command_is_told_to_its_end,
    a_cut_download_is_whole,
    a_half_open_stream_is_noticed,
    a_server_that_is_gone_is_an_error,
    a_slow_reader_gets_everything,
    an_iterator_that_is_left_closes_its_connection,
    a_cancelled_call_ends_at_once,
    a_cancelled_create_leaves_no_sandbox,
    nobody_listens,
    nobody_answers,
    redirects_to_others_carry_no_secrets,
]


def main():
    global SERVER
    skip_all(why_not())
    tap = Tap()
    with ServerProcess(*sys.argv[1:5]) as SERVER:
        for test in [t for t in TESTS if len(sys.argv) < 6 or t.__name__ in sys.argv[5:]]:
            tap.check(test.__name__, test)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
