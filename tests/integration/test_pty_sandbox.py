"""Terminal sessions in a real sandbox, through the server's gateway.

Usage: test_pty_sandbox.py SERVER BROKER EXECD SANDBOXCTL. TAP on standard output. Needs root.
"""
import contextlib
import os
import pathlib
import re
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from execd_client import Reply, send  # noqa: E402
from pty_terminal import Sessions  # noqa: E402
from server_process import SECONDS_MAX, ServerProcess, why_not  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:5]]
SESSIONS = None


class Gateway:
    """What Sessions wants of a client: connections to the server, with its key."""

    def __init__(self, server):
        self.server = server
        self.headers = {"OPEN-SANDBOX-API-KEY": server.api_key}

    def connect(self):
        return socket.create_connection((self.server.host, self.server.port), SECONDS_MAX)

    def ask(self, method, path, body=None):
        with self.connect() as client, client.makefile("rb") as file:
            rows = [f"{name}: {value}" for name, value in self.headers.items()]
            status, headers = send(client, file, method, path, body, rows)
            return Reply(status, headers, file.read(int(headers["content-length"])))


def a_terminal_of_the_sandbox():
    with SESSIONS.terminal() as t:
        t.send("PS1='$ '; clear; tty; stty size; echo to-tty > /dev/tty\n")
        t.wait_screen("/dev/pts/0")
        t.wait_screen("24 80")
        t.wait_screen("to-tty")
        t.send("sh -c 'echo be''gun; exec sleep 1000'\n")
        t.wait_screen("begun")
        t.send(b"\x03")
        t.send("echo status=$?\n")
        t.wait_screen("status=130")


def programs_that_make_terminals_of_their_own():
    with SESSIONS.terminal() as t:
        t.send("PS1='$ '; clear; tty; script -qc 'tty; echo in''side' /dev/null\n")
        t.wait_screen("inside")
        ours, theirs = re.findall(rb"/dev/pts/(\d+)", bytes(t.output))
        assert ours != theirs, t.output


def a_full_screen_program():
    with SESSIONS.terminal() as t:
        t.send("top -d 100\n")
        t.wait_screen("PID")
        t.resize(120, 10)
        t.wait(lambda: t.shows("COMMAND") and t.screen.lines == 10, "a small screen")
        t.send("q")


def the_workloads_place_and_limits():
    with SESSIONS.view(SESSIONS.new(command="cat /proc/self/cgroup; echo END; cat; exit 3")) as v:
        v.wait_text("END")
        assert b"/work" in v.output, v.output
        v.send(b"\x04")
        assert v.wait_end() == (3, 1000, "process exited")


def pipes_through_the_gateway():
    with SESSIONS.view(SESSIONS.new(), pty=0) as v:
        v.send("echo out; echo err >&2; exit 7\n")
        assert v.wait_end() == (7, 1000, "process exited")
        assert v.errors == b"err\n" and b"out\n" in v.output


def cuts_and_takeovers_through_the_gateway():
    session = SESSIONS.new(command="stty -echo; i=0; while [ $i -lt 100000 ]; do echo $i; "
                                   "i=$((i+1)); done; read line; exit 9")
    wanted = "".join(f"{i}\r\n" for i in range(100000)).encode()
    got = b""
    while len(got) < len(wanted):
        v = SESSIONS.view(session, since=len(got), takeover=1)
        end = time.monotonic() + 0.1
        while time.monotonic() < end:
            with contextlib.suppress(TimeoutError):
                v.take(0.02)
        if v.output:
            assert v.begin in (None, len(got)), (v.begin, len(got))
            got += v.output
        v.cut()
    assert got == wanted, (len(got), len(wanted))
    with SESSIONS.view(session, since=len(got), takeover=1) as v:
        v.send("\n")
        assert v.wait_end() == (9, 1000, "process exited")


def refusals_through_the_gateway():
    reply = SESSIONS.client.ask("GET", SESSIONS.path("nobody"))
    assert reply.status == 404 and reply.json()["code"] == "CONTEXT_NOT_FOUND", reply
    session = SESSIONS.new()
    with SESSIONS.view(session) as v:
        reply = SESSIONS.client.ask("GET", SESSIONS.path(session))
        assert reply.status == 409 and reply.json()["code"] == "ALREADY_CONNECTED", reply
        SESSIONS.delete(session)
        assert v.wait_end() == (-1, 1000, "process exited")


TESTS = [
    a_terminal_of_the_sandbox,
    programs_that_make_terminals_of_their_own,
    a_full_screen_program,
    the_workloads_place_and_limits,
    pipes_through_the_gateway,
    cuts_and_takeovers_through_the_gateway,
    refusals_through_the_gateway,
]


def main():
    global SESSIONS
    tap.skip_all(why_not())
    with ServerProcess(*PROGRAMS) as server:
        box = server.create()
        gateway = Gateway(server)
        SESSIONS = Sessions(gateway, gateway.headers, f"/v1/sandboxes/{box}/proxy/44772")
        return tap.run_tests(TESTS)


if __name__ == "__main__":
    sys.exit(main())
