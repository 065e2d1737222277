"""Terminal sessions of execd, driven by PyPI's `websockets` and the terminal emulator `pyte`.

Usage: test_pty.py EXECD. TAP on standard output.
"""
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from execd_client import Execd  # noqa: E402
from execd_process import SECONDS_MAX, status_of, until, wait_for  # noqa: E402
from pty_terminal import Closed, Sessions, Terminal  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
KEY = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
MIB = 1 << 20
AHEAD_MAX = MIB // 4
PTYS_MAX = 128
PROMPT = "$ "  # of what every test sets


def name_of(pid):
    return pathlib.Path(f"/proc/{pid}/comm").read_text()


def in_the_foreground(t, command):
    """Starts a job, and comes back when the terminal is its own."""
    t.send("echo S$$E\n")
    t.wait(lambda: re.search(rb"S(\d+)E", t.output), "the pid of the shell")
    shell_pid = int(re.search(rb"S(\d+)E", t.output)[1])
    t.send(command + "\n")

    def is_begun():  # pid (comm) state ppid pgrp session tty_nr tpgid
        fields = pathlib.Path(f"/proc/{shell_pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[5]) != shell_pid and name_of(int(fields[5])) != name_of(shell_pid)
    wait_for(is_begun, "a job in the foreground")


@contextlib.contextmanager
def shell(sessions, **body):
    with sessions.terminal(**body) as t:
        t.send("PS1='$ '; clear\n")
        t.wait(lambda: t.screen.display[0].startswith(PROMPT), "the prompt")
        yield t


def wait_for_rss(x, kib_max):
    def resident():
        return int(status_of(x.process.pid, "VmRSS").split()[0])
    print(f"# {resident()} KiB resident", flush=True)
    wait_for(lambda: "asan" in PROGRAM or resident() < kib_max, f"less than {kib_max} KiB")


def is_alive(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


# --- programs ---


def vim_edits_and_saves_a_file(x, s):
    path = x.folder / "poem"
    path.write_text("one\ntwo\nthree\n")
    with shell(s) as t:
        t.send(f"LANG=C.UTF-8 vim -u NONE -N {path}\n")
        t.wait_screen("three")
        t.send("/two\r")
        t.send("ccZwei, größer\x1b")
        t.wait_screen("Zwei, größer")
        t.send("Gofour\x1b")
        t.wait_screen("four")
        t.send(":wq\r")
        t.wait(lambda: b"$ " in bytes(t.output).partition(b"\x1b[?1049l")[2], "the prompt behind "
               "its screen")  # what is typed before may be lost
        t.send("clear; echo d''one\n")
        t.wait_screen("done")
    assert path.read_text() == "one\nZwei, größer\nthree\nfour\n", path.read_text()


def top_redraws_when_resized(x, s):
    with shell(s) as t:
        t.send("(for i in $(seq 50); do sleep 1000 & done); clear; top -d 100\n")
        t.wait_screen("PID")
        t.wait(lambda: sum(1 for line in t.screen.display if line.strip()) >= 20, "a full screen")
        t.resize(100, 12)
        t.wait(lambda: t.screen.lines == 12 and t.screen.columns == 100 and t.shows("COMMAND"),
               "a small screen")
        t.resize(132, 50)
        t.wait(lambda: sum(1 for line in t.screen.display if line.strip()) >= 24,
               "more rows than before")
        begin = len(t.output)
        t.send("q")
        t.wait(lambda: b"$ " in t.output[begin:], "the prompt")  # top drops what is typed before
        t.send("clear; stty size\n")
        t.wait_screen("50 132")


def ctrl_c_interrupts_the_job(x, s):
    with shell(s) as t:
        in_the_foreground(t, "sleep 1000")
        t.send(b"\x03")
        t.send("echo status=$?\n")
        t.wait_screen("status=130")


def ctrl_z_and_fg_act(x, s):
    with shell(s) as t:
        bell = x.folder / "bell"
        os.mkfifo(bell)
        # One process: a shell that starts others by vfork cannot stop before they have begun.
        in_the_foreground(t, f"sh -c 'read line <{bell}; echo wo''ke'")
        t.send(b"\x1a")
        t.wait_screen("Stopped")
        t.send("jobs\n")
        t.wait(lambda: sum("Stopped" in line for line in t.screen.display) == 2, "the job")
        t.send("fg\n")
        with open(bell, "r+b", buffering=0) as ring:  # waits for no reader
            ring.write(b"\n")
            t.wait_screen("woke")


def a_python_prompt_works(x, s):
    with shell(s) as t:
        t.send(f"{sys.executable} -q\n")
        t.wait_screen(">>> ")
        t.send("sum(range(101))\n")
        t.wait_screen("5050")
        t.send("import os; os.get_terminal_size()\n")
        # Before its prompt Ctrl-D is no end: the line editor, once it reads, takes it for a NUL.
        t.wait(lambda: re.search(rb"columns=80, lines=24\)\r\n.*>>> ", t.output), "its prompt")
        begin = len(t.output)
        t.send(b"\x04")
        t.wait(lambda: b"$ " in t.output[begin:], "the prompt")
        t.send("echo b''ack\n")
        t.wait_screen("back")


def signals_reach_the_job_in_the_foreground(x, s):
    with shell(s) as t:
        in_the_foreground(t, "sleep 1000")
        t.say("signal", signal="SIGINT")
        t.send("echo a$?\n")
        t.wait_screen("a130")
        t.send("sh -c 'trap \"echo got-hup; exit 7\" HUP; echo re''ady; sleep 1000 & wait'\n")
        t.wait_screen("ready")
        t.say("signal", signal="SIGHUP")
        t.wait_screen("got-hup")
        t.send("echo b$?\n")
        t.wait_screen("b7")
        t.say("signal", signal="SIGSTOP")  # and other signals cannot be sent
        t.send("echo c$?\n")
        t.wait_screen("c0")


# --- frames ---


def answers_as_the_contract_requires(x, s):
    session = s.new(cwd=str(x.folder / "made" / "here"))
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", session), session
    assert s.get(session) == {"session_id": session, "running": False, "output_offset": 0}
    with s.view(session) as v:
        assert v.frames == [{"type": "connected", "session_id": session, "mode": "pty"}]
        v.say("stdin", data="pwd; stty size; echo $TERM é\n")
        v.wait_text("made/here\r\n24 80\r\nxterm-256color é\r\n")
        v.ws.send("no json")
        v.ws.send(json.dumps({"type": "resize", "cols": "80"}))
        v.ws.send(json.dumps(["stdin"]))
        v.ws.send(b"")
        v.ws.send(b"\x07ignored")
        v.say("resize", cols=0, rows=10)
        v.say("resize", cols=70000, rows=10)
        v.say("nonsense")
        assert v.wait_frame("error") == {"type": "error", "error": 'unknown frame type "nonsense"',
                                         "code": "INVALID_FRAME"}
        v.say("ping")
        assert v.wait_frame("pong") == {"type": "pong"}
        assert len(v.frames) == 3, v.frames
        v.ws.send([b"", b"\0ec", b"ho joi", b"", b"ned$((1+1))\n"])  # one message in five frames
        v.wait_text("joined2")
        v.ws.send(['{"type":"std', 'in","data":"ec', 'ho also$((1+1))\\n"}'])
        v.wait_text("also2")
        assert v.ws.ping().wait(SECONDS_MAX)
        v.send("stty size; exit 3\n")
        assert v.wait_end() == (3, 1000, "process exited")
        assert b"24 80\r\n" in v.output.partition(b"also2")[2]
    assert s.get(session) == {"session_id": session, "running": False,
                              "output_offset": len(v.output)}


def handshakes_are_refused_as_clients_know(x, s):
    session = s.new()
    good = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", KEY)

    def ask(path, *headers):
        return x.ask("GET", path, headers=headers)

    missing = ask("/pty/nobody/ws", *good)
    assert (missing.status, missing.json()) == (
        404, {"code": "CONTEXT_NOT_FOUND", "message": "pty session nobody not found"}), missing
    for headers, status, body in (
            ((), 400, b"Bad Request\n"),
            (good[1:], 400, b"Bad Request\n"),
            ((good[0], good[2], KEY), 426, b"Upgrade Required\n"),
            ((*good[:2], "Sec-WebSocket-Version: 12", KEY), 400, b"Bad Request\n"),
            (good[:3], 400, b"Bad Request\n")):
        reply = ask(s.path(session), *headers)
        assert (reply.status, reply.body) == (status, body), (headers, reply)
        assert reply.headers["sec-websocket-version"] == "13", reply
        assert reply.headers["content-type"] == "text/plain; charset=utf-8", reply
        assert reply.headers.get("upgrade") == ("websocket" if status == 426 else None), reply
    with s.view(session):  # those before hold nothing
        for path, headers in ((s.path(session), good), (s.path(session, takeover=1), ()),
                              (s.path(session, takeover=0), good)):
            reply = ask(path, *headers)
            assert (reply.status, reply.json()) == (409, {
                "code": "ALREADY_CONNECTED",
                "message": f"another client is already connected to pty session {session}"}), reply


def requests_are_refused_as_clients_know(x, s):
    for body in (b"{", b"[]", b'{"cwd": 1}', b'{"command": "a\\u0000"}'):
        reply = x.ask("POST", "/pty", body)
        assert reply.status == 400 and reply.json()["code"] == "INVALID_REQUEST_BODY", (body, reply)
        assert reply.json()["message"].startswith("error parsing request: "), reply
    for body in (None, b"", b" \n", b"null", b" {} ", b'{"cwd":null,"command":null,"more":1}'):
        assert x.ask("POST", "/pty", body).status == 201, body
    (x.folder / "file").write_text("")
    for cwd in (str(x.folder / "file" / "x"), "$NO_SUCH_NAME/x"):
        reply = x.ask("POST", "/pty", {"cwd": cwd})
        assert reply.status == 500 and reply.json()["code"] == "RUNTIME_ERROR", reply
        assert reply.json()["message"].startswith("error creating pty session: "), reply
    for method in ("GET", "DELETE"):
        reply = x.ask(method, "/pty/x")
        assert (reply.status, reply.json()["message"]) == (404, "pty session x not found"), reply


def a_shell_that_cannot_start_is_reported(x, s):
    (x.folder / "gone").mkdir()
    session = s.new(cwd=str(x.folder / "gone"))
    (x.folder / "gone").rmdir()
    v = s.view(session)
    error = v.wait_frame("error")
    assert error["code"] == "START_FAILED" and "gone" in error["error"], error
    with contextlib.suppress(Closed):
        v.take()
        raise AssertionError("it did not close")
    assert s.get(session)["running"] is False
    (x.folder / "gone").mkdir()  # and the next may
    with s.view(session) as v:
        v.send("exit\n")
        assert v.wait_end()[0] == 0


# --- pipes ---


def pipes_have_two_channels(x, s):
    with s.view(s.new(), pty=0) as v:
        assert v.frames[0]["mode"] == "pipe"
        v.send("echo out; echo err >&2; test -t 0 || echo no-tty; env | grep ^TERM || echo none\n")
        v.wait_text("none\n")
        v.wait(lambda: v.errors == b"err\n", "what is printed beside")
        assert sorted(v.output.split()) == [b"err", b"no-tty", b"none", b"out"], v.output
        v.say("resize", cols=10, rows=10)
        v.send("exec <&-; echo deaf; sleep 1000\n")
        v.wait_text("deaf")
        v.send("anyone?\n")
        v.wait(lambda: any(f["type"] == "error" for f in v.frames) or v.send("x") or False, "error")
        assert v.wait_frame("error")["code"] == "STDIN_WRITE_FAILED"
        v.say("signal", signal="SIGKILL")
        assert v.wait_end() == (-1, 1000, "process exited")


def input_of_any_size_arrives(x, s):
    data = random.Random(5).randbytes(6 * MIB)
    path = x.folder / "copy"
    with s.view(s.new(command=f"sleep 0.3; cat > {path}"), pty=0) as v:
        v.ws.send(b"\0" + data)  # one frame
        v.ws.send([b"\0" + data[:1000], data[1000:70000], data[70000:]])  # and one message in three
        v.say("stdin", data="é" * 100000)
        wanted = data + data + ("é" * 100000).encode()
        wait_for(lambda: path.exists() and path.stat().st_size == len(wanted), "the copy")
        assert path.read_bytes() == wanted
        wait_for_rss(x, 4096)
        v.say("stdin", data="x" * (2 * MIB))
        assert v.wait_frame("error")["code"] == "INVALID_FRAME"


# --- replay ---

WRITER = r"""
import os, random, sys, time, tty
r = random.Random(int(sys.argv[2]))
# a client that cannot keep up loses the oldest bytes
seen, ahead_max = sys.argv[1] + ".seen", int(sys.argv[4])
if sys.argv[3] == "pty":
    tty.setraw(0)
with open(sys.argv[1], "wb") as copy:
    left = 3 << 20
    while left:
        while copy.tell() - int(open(seen).read()) > ahead_max:
            time.sleep(0.005)
        piece = bytes(r.choices(b"abcdefghijklmnop0123456789", k=min(left, r.randint(1, 30000))))
        copy.write(piece)
        copy.flush()
        for fd in ([1] if sys.argv[3] == "pty" else [r.choice([1, 2])]):
            at = 0
            while at < len(piece):
                at += os.write(fd, piece[at:])
        left -= len(piece)
        if r.random() < 0.3:
            time.sleep(r.random() * 0.02)
os.read(0, 1)  # a session that has not ended is not restarted
sys.exit(9)
"""


def tell(path, number):
    """Writes a file that is never seen half written."""
    pathlib.Path(f"{path}.new").write_text(str(number))
    os.rename(f"{path}.new", path)


def replays_exactly(x, s, mode, seed):
    """Cuts the connection at random moments; what came before and after must join."""
    r = random.Random(seed)
    script, copy = x.folder / "writer.py", x.folder / "copy"
    script.write_text(WRITER)
    session = s.new(command=f"exec {sys.executable} {script} {copy} {seed} {mode} {AHEAD_MAX}")
    got, cuts = b"", 0
    while len(got) < 3 * MIB:
        tell(f"{copy}.seen", len(got))
        v = s.view(session, since=len(got), takeover=1, pty=0 if mode == "pipe" else 1)
        end = time.monotonic() + r.random() * 0.15
        while time.monotonic() < end:
            with contextlib.suppress(TimeoutError):
                v.take(0.01)
        if v.output:
            assert v.begin in (None, len(got)), f"{v.begin}, not {len(got)}"
            got += v.output
        v.cut()
        cuts += 1
        assert cuts < 2000
    with s.view(session, since=len(got), takeover=1) as v:
        v.send("q")
        assert v.wait_end() == (9, 1000, "process exited")
        assert not v.output, v.output
    wanted = copy.read_bytes()
    if mode == "pipe":  # the two channels have no order between them
        assert len(got) == len(wanted) == 3 * MIB and sorted(got) == sorted(wanted)
    else:
        assert got == wanted, f"{len(got)} bytes, {len(wanted)} wanted"
    assert cuts > 5, f"only {cuts} cuts"  # at most AHEAD_MAX and a piece from one to the next
    assert s.get(session)["output_offset"] == len(wanted)


def a_terminal_replays_exactly_across_cuts(x, s):
    replays_exactly(x, s, "pty", 11)


def pipes_replay_exactly_across_cuts(x, s):
    replays_exactly(x, s, "pipe", 12)


def only_the_last_mib_is_kept(x, s):
    session = s.new(command="head -c 1500000 /dev/zero | tr '\\0' a; printf 'E%.0s' 1; sleep 1000")
    with s.view(session) as v:
        v.wait_text("E")
    for since, begin in ((0, 1500001 - MIB), (-5, 1500001 - MIB), (1500000, 1500000),
                         ("junk", 1500001 - MIB)):
        with s.view(session, since=since) as v:
            assert v.begin == begin and v.replayed == 1500001 - begin, (since, v.begin, v.replayed)
            assert v.output.endswith(b"E")
    for since in (1500001, 99999999999):
        with s.view(session, since=since) as v:
            assert v.begin is None and not v.output
    s.delete(session)


def a_session_that_ended_starts_again(x, s):
    session = s.new(command="echo run $RANDOM$RANDOM; exit 4")
    with s.view(session) as v:
        assert v.wait_end()[0] == 4
    first = bytes(v.output)
    with s.view(session) as v:
        assert v.begin == 0 and v.output[:len(first)] == first
        assert v.wait_end()[0] == 4
        assert v.output.count(b"run ") == 2, v.output
    with s.view(session, since=len(v.output), pty=0) as v:
        assert v.frames[0]["mode"] == "pipe"
        assert v.wait_end()[0] == 4 and v.output.count(b"run ") == 1


# --- several clients, and none ---


def another_client_takes_over(x, s):
    session = s.new()
    with s.view(session) as first, contextlib.ExitStack() as stack:
        first.send("echo mi''ne\n")
        first.wait_text("mine")
        second = stack.enter_context(s.view(session, takeover=1))
        assert b"mine" in second.output and second.begin == 0
        try:
            while True:
                first.take()
        except Closed as end:
            assert (end.code, end.reason) == (4001, "TAKEN_OVER"), end
        second.send("echo yo''urs\n")
        second.wait_text("yours")
    wait_for(lambda: s.get(session)["running"], "it runs on")
    with s.view(session, takeover=1) as third:  # without a holder that is an ordinary one
        third.send("exit\n")
        assert third.wait_end()[0] == 0


def runs_on_without_a_client(x, s):
    go = x.folder / "go"
    session = s.new(command=f"echo one; {until(go)}; echo two; sleep 1000")
    with s.view(session) as v:
        v.wait_text("one\r\n")
    before = len(v.output)
    go.touch()
    wait_for(lambda: s.get(session)["output_offset"] == before + 5, "more output")
    with s.view(session, since=before) as v:
        assert v.output == b"two\r\n" and v.begin == before, v.output
    s.delete(session)


def a_slow_client_makes_the_program_wait(x, s):
    progress = x.folder / "progress"
    command = (f"stty raw; for i in $(seq 1 120); do head -c 65536 /dev/zero | tr '\\0' y; "
               f"echo $i > {progress}; done; exit 5")
    with s.view(s.new(command=command)) as v:
        wait_for(progress.exists, "the beginning")
        last = None
        while last != (last := progress.read_text()):
            time.sleep(0.3)
        assert int(last or 0) < 100, f"{last} of 120 pieces went nowhere"
        wait_for_rss(x, 4096)
        assert v.wait_end()[0] == 5
        assert v.output.count(b"y") == 120 * 65536, v.output.count(b"y")


def nothing_is_lost_at_the_end(x, s):
    session = s.new(command="head -c 20000 /dev/zero | tr '\\0' z; printf END; exit 6")
    for mode in (1, 0):
        for _ in range(15):
            offset = s.get(session)["output_offset"]
            with s.view(session, since=offset, pty=mode) as v:
                assert v.wait_end() == (6, 1000, "process exited")
            assert v.output == b"z" * 20000 + b"END", (mode, len(v.output), v.output[-20:])


# --- processes ---


def deletion_kills_all_processes_of_the_session(x, s):
    session = s.new()
    with s.view(session, Terminal) as t:
        t.send("PS1='$ '; sleep 1001 & sleep 1002 & (trap '' HUP TERM; sleep 1003) & "
               "echo P$(jobs -p) $$; sh -c 'sh -c \"echo Q\\$\\$; sleep 1004\"'\n")
        shown = re.compile(rb"P(\d+) (\d+) (\d+) (\d+)\r\n.*Q(\d+)\r\n", re.S)
        t.wait(lambda: shown.search(bytes(t.output)), "pids")
        pids = [int(pid) for pid in shown.search(bytes(t.output)).groups()]
        assert all(map(is_alive, pids)), pids
        s.delete(session)
        wait_for(lambda: not any(map(is_alive, pids)), "their end")
        assert t.wait_end() == (-1, 1000, "process exited")
    assert x.ask("GET", f"/pty/{session}").status == 404
    wait_for(lambda: len(os.listdir(f"/proc/{x.process.pid}/fd")) < 12, "no descriptor is left")


def environment_is_a_commands(x, s):
    pathlib.Path(x.envs).write_text("FROM_FILE=yes\nTERM=vt100\n", encoding="ascii")
    with s.view(s.new(command="env")) as v:
        assert v.wait_end()[0] == 0
    rows = v.output.decode().split("\r\n")
    assert "FROM_FILE=yes" in rows and "TERM=vt100" in rows, rows
    assert not any(row.startswith("EXECD_ACCESS_TOKEN") for row in rows), rows


def token_is_needed(x, s):
    session = s.new()
    head = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", KEY)
    assert x.ask("GET", s.path(session), headers=head).status == 401
    with s.view(session) as v:
        v.send("exit\n")
        assert v.wait_end()[0] == 0


def sh_serves_where_there_is_no_bash(x, s):
    with s.view(s.new()) as v:
        v.send("echo $0 $BASH_VERSION.; exit 5\n")
        assert v.wait_end()[0] == 5 and b"/sh .\r\n" in v.output, v.output
    with s.view(s.new(command="echo fine; exit 2")) as v:
        assert v.wait_end()[0] == 2 and v.output == b"fine\r\n", v.output


# --- bounds ---


def sessions_are_bounded(x, s):
    first = s.new()
    sessions = [s.new(command="sleep 1000") for _ in range(PTYS_MAX - 1)]
    wait_for_rss(x, 1024)  # they do nothing
    sessions.append(s.new(command="sleep 1000"))  # the oldest makes room
    assert x.ask("GET", f"/pty/{first}").status == 404
    views = [s.view(session) for session in sessions]
    for v in views:
        v.wait_frame("connected")
    reply = x.ask("POST", "/pty")
    assert reply.status == 500 and reply.json()["code"] == "RUNTIME_ERROR", reply
    assert "128 sessions are in use" in reply.json()["message"], reply
    for session, v in zip(sessions, views):
        s.delete(session)
        assert v.wait_end()[0] == -1
    assert x.ask("POST", "/pty").status == 201


def ends_with_clients_connected(x, s):
    with s.view(s.new()) as v:
        v.send("trap '' TERM HUP; sleep 1000 & echo P$!\n")
        v.wait(lambda: re.search(rb"P(\d+)\r\n", bytes(v.output)), "a pid")
        x.process.terminate()
        assert x.process.wait(SECONDS_MAX) in (0, 143), x.process.returncode
        os.kill(int(re.search(rb"P(\d+)\r\n", bytes(v.output))[1]), signal.SIGKILL)
        with contextlib.suppress(Closed):
            while True:
                v.take()


@contextlib.contextmanager
def plain():
    with Execd(PROGRAM) as x:
        yield x, Sessions(x)


@contextlib.contextmanager
def with_token():
    headers = {"X-EXECD-ACCESS-TOKEN": "secret"}
    with Execd(PROGRAM, env={"EXECD_ACCESS_TOKEN": "secret"},
               headers=[f"{name}: {value}" for name, value in headers.items()]) as x:
        yield x, Sessions(x, headers)


@contextlib.contextmanager
def with_envs_file():
    with tempfile.NamedTemporaryFile() as file, \
            Execd(PROGRAM, env={"EXECD_ENVS": file.name, "EXECD_ACCESS_TOKEN": ""}) as x:
        x.envs = file.name
        yield x, Sessions(x)


@contextlib.contextmanager
def with_busybox_alone():
    busybox = shutil.which("busybox")
    if not busybox:
        raise tap.Skip("there is no busybox")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("sh", "tail"):
            os.symlink(busybox, os.path.join(folder, name))
        with Execd(PROGRAM, env={"PATH": folder}) as x:
            yield x, Sessions(x)


TESTS = {
    vim_edits_and_saves_a_file: plain,
    top_redraws_when_resized: plain,
    ctrl_c_interrupts_the_job: plain,
    ctrl_z_and_fg_act: plain,
    a_python_prompt_works: plain,
    signals_reach_the_job_in_the_foreground: plain,
    answers_as_the_contract_requires: plain,
    handshakes_are_refused_as_clients_know: plain,
    requests_are_refused_as_clients_know: plain,
    a_shell_that_cannot_start_is_reported: plain,
    pipes_have_two_channels: plain,
    input_of_any_size_arrives: plain,
    a_terminal_replays_exactly_across_cuts: plain,
    pipes_replay_exactly_across_cuts: plain,
    only_the_last_mib_is_kept: plain,
    a_session_that_ended_starts_again: plain,
    another_client_takes_over: plain,
    runs_on_without_a_client: plain,
    a_slow_client_makes_the_program_wait: plain,
    nothing_is_lost_at_the_end: plain,
    deletion_kills_all_processes_of_the_session: plain,
    environment_is_a_commands: with_envs_file,
    token_is_needed: with_token,
    sh_serves_where_there_is_no_bash: with_busybox_alone,
    sessions_are_bounded: plain,
    ends_with_clients_connected: plain,
}


def run(test, world):
    with world() as (x, s):
        test(x, s)
        assert test is ends_with_clients_connected or x.process.poll() is None, "execd ended"


def main():
    runner = tap.Tap()
    for test, world in TESTS.items():
        if len(sys.argv) < 3 or sys.argv[2] in test.__name__:
            begin = time.monotonic()
            runner.check(test.__name__.replace("_", " "), run, test, world)
            print(f"# {time.monotonic() - begin:.1f} s", flush=True)
    return runner.end()


if __name__ == "__main__":
    sys.exit(main())
