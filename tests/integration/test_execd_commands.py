"""execd's commands: what they are given, what their clients hear, how they end, what is kept.

Usage: test_execd_commands.py EXECD. TAP on standard output.
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from execd_client import (  # noqa: E402
    Client, Execd, Ran, Stream, check_order, check_ping_period)
from execd_process import children, remove_group, status_of, until, wait_for  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
ELF = pathlib.Path(PROGRAM).read_bytes()
SANITIZED, STATIC = b"__asan_init" in ELF, b"ld-linux" not in ELF
IDLE_RSS_KIB_MAX = 400
IDLE_S, BLOCK_S = 0.08, 1.0  # EXEC_IDLE_MS, EXEC_BLOCK_MS
LONG_LINE_BYTES = 6 << 20
EXECD = None  # the one most tests share


def run(command, **more):
    return EXECD.run(command, **more)


def refused(body):
    reply = EXECD.ask("POST", "/command", body)
    assert reply.headers["content-type"] == "application/json; charset=utf-8", reply
    got = reply.json()
    assert list(got) == ["code", "message"], got
    return reply.status, got["code"], got["message"]


# --- the stream ---


def streams_events_in_their_exact_form():
    with EXECD.stream("echo hi; exit 0") as stream:
        assert stream.status == 200
        rows = {key: stream.headers[key] for key in (
            "content-type", "cache-control", "connection", "x-accel-buffering",
            "transfer-encoding")}
        events = b"".join(iter(stream.chunk, b"")).split(b"\n\n")
    assert rows == {"content-type": "text/event-stream", "cache-control": "no-cache",
                    "connection": "keep-alive", "x-accel-buffering": "no",
                    "transfer-encoding": "chunked"}, rows
    forms = [rb'\{"type":"init","text":"[0-9a-f]{32}","timestamp":\d{13}\}',
             rb'\{"type":"ping","text":"pong","timestamp":\d{13}\}',
             rb'\{"type":"stdout","text":"hi","timestamp":\d{13}\}',
             rb'\{"type":"execution_complete",("execution_time":\d+,)?"timestamp":\d{13}\}', rb""]
    events[2:] = [event for event in events[2:] if b'"ping"' not in event]  # on a slow machine
    assert len(events) == len(forms), events
    for event, form in zip(events, forms):
        assert re.fullmatch(form, event), event


def sends_lines_that_are_ready_in_few_chunks():
    """A client's work is per chunk as much as per line. The first line does not wait for others."""
    with EXECD.stream("head -c 5000 /dev/zero | tr '\\0' '\\n'; sleep 1000") as stream:
        sizes, lines = [], 0
        while lines < 5000:
            sizes.append(len(chunk := stream.chunk()))
            lines += chunk.count(b'"type":"stdout"')
    assert len(sizes) < 100 and max(sizes) <= 0xffff, sizes
    with EXECD.stream("echo one; read x; echo two", stdin_open=True) as stream:
        assert [stream.event()["type"] for _ in range(2)] == ["init", "ping"]
        assert stream.output()["text"] == "one"  # while the command waits


def reports_failures_as_the_clients_infer_them():
    cases = [("exit 3", "3", "exit status 3"), ("kill -TERM $$", "-1", "signal: terminated"),
             ("kill -9 $$", "-1", "signal: killed"), ("exit 255", "255", "exit status 255"),
             ("kill -40 $$", "-1", "signal: signal 40")]
    for command, value, why in cases:
        ran = run(command)
        assert ran.last["error"] == {"ename": "CommandExecError", "evalue": value,
                                     "traceback": [why]}, ran.last
        assert list(ran.last) == ["type", "timestamp", "error"], ran.last
        status = EXECD.status(ran.id)
        assert (status["exit_code"], status["error"]) == (int(value), why), status


def ends_at_once():
    """A wait of ours would be in each of them. What the machine takes is not: some are quick."""
    def seconds(**more):
        begin = time.monotonic()
        run("true", **more)
        return time.monotonic() - begin

    wait_for(lambda: seconds() < 0.5, "a command without a wait")
    wait_for(lambda: seconds(background=True) < 0.5, "one in the background")


def keeps_the_connection():
    with EXECD.connect() as client:
        for _ in range(3):
            client.sendall(b"POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: 18\r\n\r\n"
                           b'{"command":"true"}')
            data = b""
            while not data.endswith(b"0\r\n\r\n"):
                data += client.recv(65536)
            assert b"execution_complete" in data, data


def splits_lines_at_every_kind_of_end():
    cases = [("a\\n\\nb\\n\\n\\nc\\n", ["a", "\n", "b", "\n", "\n", "c"]),
             ("10%%\\r20%%\\r\\n", ["10%", "20%"]), ("no end", ["no end"]), ("", []),
             ("\\r\\n\\r\\n", ["\n", "\n"]), ("a\\r\\rb", ["a", "\n", "b"])]
    for text, lines in cases:
        ran = run(f"printf '{text}'")
        assert ran.of("stdout") == lines, (text, ran.of("stdout"))
    assert run("printf 'a\\r'; sleep 0.2; printf '\\nb\\n'").of("stdout") == ["a", "b"]


def escapes_what_could_end_a_line():
    ran = run(r"printf 'a\302\205b\342\200\250c\0d\033[0m<&>\t\"\\\n\377\303\n'")
    assert ran.of("stdout") == ["a\u0085b\u2028c\0d\x1b[0m<&>\t\"\\", "\ufffd\ufffd"], ran.events
    with EXECD.stream("printf '\\302\\205<'") as stream:
        raw = b"".join(iter(stream.chunk, b""))
    assert b'"\\u0085\\u003c"' in raw, raw


def shows_a_line_that_does_not_end():
    with tempfile.TemporaryDirectory() as folder:
        first, second = pathlib.Path(folder) / "1", pathlib.Path(folder) / "2"
        with EXECD.stream(f"printf 'Password: '; {until(first)}; printf x; {until(second)}; "
                          "echo y; echo z") as stream:
            events = [stream.output()]
            first.touch()
            events.append(stream.output())
            second.touch()
            events += [event for event in stream.events() if event["type"] == "stdout"]
    lines = [(event["text"], event.get("continues", False), event.get("unfinished", False))
             for event in events]
    assert lines == [("Password: ", False, True), ("x", True, True), ("y", True, False),
                     ("z", False, False)], lines


def written_in_time(apart_s_max, pieces):
    """Events of what a program writes piece by piece, a pause in seconds after each. It does so
    again until the machine let it go on with each line that it had begun within that time."""
    script = ("import os, sys, time\n"
              "slowest, begun, last = 0, False, 0\n"
              f"for piece, pause_s in {pieces!r}:\n"
              "    begin = time.monotonic()\n"
              "    os.write(1, piece)\n"
              "    slowest = max(slowest, begun and time.monotonic() - last)\n"
              "    begun, last = not piece.endswith(b'\\n'), begin\n"
              "    time.sleep(pause_s)\n"
              "print(slowest, file=sys.stderr)\n")
    for _ in range(20):
        ran = run("exec python3 -c \"$SCRIPT\"", envs={"SCRIPT": script})
        if float(ran.text("stderr")) < apart_s_max:
            return ran
    raise tap.Skip("others take too much of this machine's time")


def cuts_no_line_at_the_end_of_a_buffer():
    text = b"0123456789abcde\n" * 600
    ran = written_in_time(BLOCK_S, [(text[at:at + 4096], 0.3) for at in range(5, 9000, 4096)])
    assert not any("continues" in event for event in ran.events), ran.events
    assert ran.of("stdout")[:2] == ["56789abcde", "0123456789abcde"]


def waits_for_the_rest_of_a_line_also_after_a_silence():
    ran = written_in_time(IDLE_S, [(b"first\n", 0.7), (b"sec", 0.02), (b"ond\n", 0)])
    assert ran.of("stdout") == ["first", "second"], ran.events


def shows_a_line_that_goes_on_without_end():
    with tempfile.TemporaryDirectory() as folder:
        seen = pathlib.Path(folder) / "seen"
        with EXECD.stream(f"until [ -e {seen} ]; do printf .; sleep 0.04; done; echo; echo z") as s:
            assert set(s.output()["text"]) == {"."}
            seen.touch()
            assert [e["text"] for e in s.events() if e["type"] == "stdout"][-1] == "z"


def cuts_no_line_of_a_steady_stream():
    pieces = [(b"0123456789\n", 0), (b"abc", 0), (b"def\n", 0.001)]
    ran = written_in_time(IDLE_S, pieces * 100)
    assert ran.text("stdout") == "\n".join(["0123456789", "abcdef"] * 100)
    assert not any("continues" in event for event in ran.events), ran.events


def says_nothing_for_the_late_end_of_a_line():
    ran = run("printf question; sleep 0.3; echo; echo answer")
    assert ran.of("stdout") == ["question", "answer"], ran.events
    assert not any("continues" in event for event in ran.events)


def cuts_a_long_line_between_characters():
    ran = run(f"head -c {LONG_LINE_BYTES} /dev/zero | tr '\\0' x; printf '\\nnext\\n'")
    pieces = ran.of("stdout")
    assert len(pieces) > 10 and pieces[-1] == "next", len(pieces)
    assert ran.text("stdout") == "x" * LONG_LINE_BYTES + "\nnext"
    euros = run("python3 -c 'print(\"x\" + \"\u20ac\" * 600000)'")
    assert euros.text("stdout") == "x" + "\u20ac" * 600000
    assert len(euros.of("stdout")) > 3


def pings_at_once_and_again():
    with tempfile.TemporaryDirectory() as folder:
        pinged = pathlib.Path(folder) / "pinged"
        with EXECD.stream(until(pinged)) as stream:
            seen = [stream.event()["type"] for _ in range(2)]
            check_ping_period(stream.event)
            pinged.touch()
            seen += [event["type"] for event in stream.events() if event["type"] != "ping"]
    assert seen == ["init", "ping", "execution_complete"], seen


def written_while_it_sleeps(first, second, folder):
    """Events of two writes that execd finds together."""
    go, done = pathlib.Path(folder) / "go", pathlib.Path(folder) / "done"
    command = (f"echo ready; while [ ! -e {go} ]; do sleep 0.01; done; echo 1 {first}; "
               f"echo 2 {second}; touch {done}; sleep 100")
    with EXECD.stream(command) as stream:
        command_id = stream.event()["text"]
        stream.output()
        wait_for(lambda: status_of(EXECD.process.pid, "State").startswith("S"), "its sleep")
        EXECD.process.send_signal(signal.SIGSTOP)
        try:
            go.touch()
            wait_for(done.exists, "its writes")
        finally:
            EXECD.process.send_signal(signal.SIGCONT)
        seen = [stream.output(), stream.output()]
        EXECD.ask("DELETE", f"/command?id={command_id}")
    go.unlink()
    done.unlink()
    return [(event["type"], event["text"]) for event in seen]


def reads_streams_in_the_order_of_writing():
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(3):
            assert written_while_it_sleeps("", ">&2", folder) == [("stdout", "1"), ("stderr", "2")]
            assert written_while_it_sleeps(">&2", "", folder) == [("stderr", "1"), ("stdout", "2")]


def tells_both_streams_apart():
    ran = run("echo out; echo err >&2; echo out2; echo err2 >&2")
    assert ran.of("stdout") == ["out", "out2"] and ran.of("stderr") == ["err", "err2"]


# --- the process ---


def starts_the_shell_clean():
    ran = run("grep -E '^Sig(Blk|Ign)' /proc/self/status; ls /proc/self/fd; "
              "readlink /proc/self/fd/0; cut -d' ' -f1,5 /proc/$$/stat; tty")
    words = " ".join(ran.of("stdout")).split()
    assert words[:4] == ["SigBlk:", "0" * 16, "SigIgn:", "0" * 16], words
    assert words[4:8] == ["0", "1", "2", "3"], f"more than its standard files: {words}"
    assert words[8] == "/dev/null" and words[9] == words[10], words
    assert words[11:] == ["not", "a", "tty"], words


def takes_bash_or_else_sh():
    assert run("echo ${BASH_VERSION:+bash}").of("stdout") == ["bash"]
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(shutil.which("sh"), f"{folder}/sh")
        with Execd(PROGRAM, env={"PATH": folder}) as execd:
            assert execd.run("echo $0; echo ${BASH_VERSION:-none}").of("stdout") == ["sh", "none"]
            bash = pathlib.Path(folder) / "bash"
            bash.symlink_to(shutil.which("bash"))  # looked for each time
            assert execd.run("echo $0").of("stdout") == ["bash"]


def says_when_there_is_no_shell():
    if os.geteuid() != 0 or not STATIC:
        raise tap.Skip("not root, or a program that needs a C library")
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "dev").mkdir()
        os.mknod(root / "dev/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        shutil.copy(PROGRAM, root / "execd")
        process = subprocess.Popen(["/execd", "--listen", "unix:/sock", "--", "tail", "-f",
                                    "/dev/null"], preexec_fn=lambda: os.chroot(root),
                                   stderr=subprocess.DEVNULL)
        try:
            client = Client(root / "sock")
            wait_for(client.answers, "execd in an empty root")
            for background in (False, True):
                reply = client.ask("POST", "/command", {"command": "true",
                                                        "background": background})
                assert reply.status == 500 and "no shell" in reply.json()["message"], reply
            assert client.get("/ping").status == 200
        finally:
            process.kill()
            process.wait()


def makes_the_environment():
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "envs"
        file.write_text("# a comment\n\n A=file\nB=from $OURS ${OURS} $NOPE.\nno pair\nB2=x=y\r\n"
                        "C=1\nC=2\nT=$EXECD_ACCESS_TOKEN\n=x\n")
        env = {"EXECD_ENVS": "$WHERE/envs", "WHERE": folder, "OURS": "o", "A": "daemon",
               "EXECD_ACCESS_TOKEN": "secret", "JUPYTER_TOKEN": "secret"}
        with Execd(PROGRAM, env=env, headers=["X-EXECD-ACCESS-TOKEN: secret"]) as execd:
            command = "echo $A,$B,$B2,$C,$T,$E; env | grep -c TOKEN"
            ran = execd.run(command, envs={"E": "r$x\nz", "C": "3"})
            assert ran.of("stdout") == ["file,from o o .,x=y,3,,r$x z", "0"], ran.events
            assert execd.run(command).of("stdout")[0] == "file,from o o .,x=y,2,,"
            file.write_text("A=changed\n")
            assert execd.run("echo $A").of("stdout") == ["changed"]
            file.unlink()
            assert execd.run("echo $A").of("stdout") == ["daemon"]
    assert refused({"command": "x", "envs": {"A=B": "c"}})[:2] == (400, "INVALID_REQUEST_BODY")
    assert run("echo ${NO-unset}:${A-unset}.", envs={"A": None}).text("stdout") == "unset:."


def resolves_the_directory():
    with tempfile.TemporaryDirectory() as folder:
        assert run("pwd", cwd=folder).of("stdout") == [folder]
        assert run("pwd", cwd="$D/..//" + pathlib.Path(folder).name,
                   envs={"D": folder}).of("stdout") == [folder]
        assert run("pwd", cwd="~").of("stdout") == ["/root"]
        assert run("pwd", cwd=None).of("stdout") == [os.getcwd()]
        nowhere, file = f"{folder}/no", f"{folder}/file"
        pathlib.Path(file).touch()
        why = "invalid request, validation error "
        cases = [(nowhere, f"working directory does not exist: {nowhere}: stat {nowhere}: "
                           "no such file or directory"),
                 (file, f"working directory path is not a directory: {file}"),
                 ("$NOPE/x", 'cannot resolve working directory "$NOPE/x": path references '
                             "undefined environment variables: NOPE")]
        for cwd, message in cases:
            got = refused({"command": "true", "cwd": cwd})
            assert got == (400, "INVALID_REQUEST_BODY", why + message), got


def refuses_what_is_no_command():
    cases = [
        (b"", "error parsing request, MAYBE invalid body format. EOF"),
        (b"{", "error parsing request, MAYBE invalid body format. "),
        (b'{"command":1}', "error parsing request, MAYBE invalid body format. "),
        (b'{"command":"x","timeout":1.5}', "error parsing request, MAYBE invalid body format. "),
        (b"{}", "invalid request, validation error Key: 'RunCommandRequest.Command' Error:Field "
                "validation for 'Command' failed on the 'required' tag"),
        (b'{"command":"x","timeout":-1}',
         "invalid request, validation error Key: 'RunCommandRequest.TimeoutMs' Error:Field "
         "validation for 'TimeoutMs' failed on the 'gte' tag"),
        (b'{"command":"x","gid":1}', "invalid request, validation error uid is required when gid "
                                     "is provided"),
        (b'{"command":"a\\u0000b"}', "invalid request, validation error command: "),
    ]
    for body, message in cases:
        status, code, got = refused(body)
        assert (status, code) == (400, "INVALID_REQUEST_BODY") and got.startswith(message), got


def takes_what_clients_send():
    ran = run("echo ok", timeout=None, cwd=None, envs=None, uid=None, gid=None, background=None,
              unknown=[{}])
    assert ran.of("stdout") == ["ok"]
    body = b'{"COMMAND":"no","command":"echo \xff","Timeout":1,"timeout":900000}'
    with Stream(EXECD.connect(), "/command", body) as stream:
        events = list(stream.events())
    check_order(events)
    assert Ran("", events).of("stdout") == ["\ufffd"], events


def runs_programs_without_a_shell():
    with Execd(PROGRAM) as execd, contextlib.ExitStack() as streams:
        def run(argv, **more):
            stream = streams.enter_context(
                Stream(execd.connect(), "/command", {"argv": argv, **more}, ()))
            assert stream.status == 200
            return Ran("", list(stream.events()))

        ran = run(["echo", "a  b", "$HOME", "*"])
        assert ran.text("stdout") == "a  b $HOME *" and ran.exit_code == 0
        assert execd.status(ran.events[0]["text"])["content"] == "echo a  b $HOME *"
        assert run(["sh", "-c", "exit 3"]).exit_code == 3
        assert run(["mine"], envs={"PATH": "/no/such"}).last["error"]["evalue"] == \
            "exec 'mine': No such file or directory"
        for body in ({"argv": ["a"], "command": "b"}, {"argv": []}, {"argv": [""]},
                     {"argv": ["a\0"]}, {"argv": "a"}, {"argv": [1]}):
            assert execd.ask("POST", "/command", body).status == 400, body
    with Execd(PROGRAM, env={"PATH": "/no/such"}) as execd:
        reply = execd.ask("POST", "/command", {"command": "true"})
        assert reply.status == 500 and b"cannot start: no shell" in reply.body, reply


def becomes_the_user():
    if os.geteuid() != 0:
        raise tap.Skip("not root")
    command = "id -u; id -g; id -G; echo opened >/dev/stdout"
    assert run(command, uid=65534).of("stdout") == ["65534", "65534", "65534", "opened"]
    assert run(command, uid=12345).of("stdout") == ["12345", "12345", "12345", "opened"]
    assert run("id -u; id -g", uid=12345, gid=7).of("stdout") == ["12345", "7"]
    assert run("id -G", uid=0).exit_code == 0
    ran = run("true", uid=1, gid=1, cwd="/root")
    assert ran.last["type"] == "error" and "/root" in ran.last["error"]["evalue"], ran.last
    status = EXECD.status(ran.id)
    assert status["exit_code"] == 255 and "/root" in status["error"], status


def needs_no_privilege_to_run_as_its_own_uid():
    if os.geteuid() != 0:
        raise tap.Skip("not root")

    def drop():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)

    with Execd(PROGRAM, setup=drop) as execd:
        assert execd.run("id -u", uid=65534).of("stdout") == ["65534"]
        error = execd.run("id -u", uid=1).last["error"]
        assert "change to the user" in error["evalue"], error


def ends_with_its_leader():
    ran = run("sleep 30 & echo $!")
    os.kill(int(ran.of("stdout")[0]), 9)  # fails if it is gone


def lets_those_it_left_behind_write_on():
    with tempfile.TemporaryDirectory() as folder:
        go, done = pathlib.Path(folder) / "go", pathlib.Path(folder) / "done"
        done.touch()
        run(f"({until(go)}; echo still here; echo $? >{done}) & exit 0")
        go.touch()
        wait_for(lambda: done.read_text().endswith("\n"), "the one left behind")
        assert done.read_text() == "0\n"


def delivers_all_that_was_written_before_the_end():
    for _ in range(20):
        assert run("head -c 60000 /dev/zero | tr '\\0' y").text("stdout") == "y" * 60000


def kills_the_group_at_the_timeout():
    for limit_ms, text in ((300, "300ms"), (3000, "3s"), (30000, "30s")):
        begin = time.monotonic()
        ran = run("sleep 100 & echo $!; sleep 100", timeout=limit_ms)
        took = time.monotonic() - begin
        assert took > limit_ms / 1000, took
        assert ran.last["error"] == {"ename": "CommandExecError", "evalue": "-1", "traceback":
                                     [f"timeout after {text}: signal: killed"]}, ran.last
        assert EXECD.status(ran.id)["error"] == f"timeout after {text}: signal: killed"
        if ran.of("stdout"):  # else it came before the shell did anything
            break
    pid = int(ran.of("stdout")[0])
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"), "the end of its child")
    assert run("exit 4", timeout=600_000).exit_code == 4


def leaves_no_zombie():
    with Execd(PROGRAM) as execd:
        execd.run("for i in 1 2 3 4 5; do (sleep 0.05 &); done")
        wait_for(lambda: not children(execd.process.pid), "the end of all, and no zombie")


# --- clients ---


def stops_the_command_of_a_client_that_stops_reading():
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "count"
        command = (f"i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo {'x' * 200}; "
                   f"if [ $((i % 100)) = 0 ]; then echo $i >{file}; fi; done")
        with EXECD.stream(command) as stream:
            wait_for(file.exists, "the first lines")
            seen = -1
            while seen != (now := file.read_text()):  # until it stands still
                seen = now
                time.sleep(0.5)
            assert int(seen or 0) < 20000, "it ran on"
            events = list(stream.events())
        check_order(events)
        assert Ran("", events).text("stdout") == "\n".join(["x" * 200] * 20000)


def runs_on_when_its_client_leaves():
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "done"
        with EXECD.stream(f"yes | head -c 10000000; touch {file}; exit 5") as stream:
            command_id = stream.event()["text"]
        wait_for(file.exists, "the end of the command")
        assert EXECD.wait_ended(command_id)["exit_code"] == 5


def shows_a_command_before_its_first_event():
    with EXECD.stream("sleep 100") as stream:
        command_id = stream.event()["text"]
        status = EXECD.status(command_id)
        assert status["running"] and "exit_code" not in status, status
        EXECD.ask("DELETE", f"/command?id={command_id}")


# --- interrupt, status, logs ---


def interrupts_the_group():
    with EXECD.stream("sleep 100 & echo $!; wait") as stream:
        events = [stream.event()]
        while events[-1]["type"] != "stdout":
            events.append(stream.event())
        reply = EXECD.ask("DELETE", f"/command?id={events[0]['text']}")
        assert reply.status == 200 and reply.body == b"", reply
        assert reply.headers["content-length"] == "0" and "content-type" not in reply.headers
        events += list(stream.events())
    check_order(events)
    assert events[-1]["error"]["evalue"] == "-1", events[-1]
    pid = int(next(e["text"] for e in events if e["type"] == "stdout"))
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"), "the end of its child")


def kills_a_command_that_ignores_sigterm():
    with EXECD.stream("trap '' TERM; echo ready; sleep 100; sleep 100") as stream:
        events = [stream.event()]
        while events[-1]["type"] != "stdout":
            events.append(stream.event())
        begin = time.monotonic()
        assert EXECD.ask("DELETE", f"/command?id={events[0]['text']}").status == 200
        assert time.monotonic() - begin > 2.8
        assert EXECD.get("/ping").status == 200
        assert list(stream.events())[-1]["error"]["traceback"] == ["signal: killed"]


def explains_what_cannot_be_interrupted():
    done = run("true").id
    cases = [("/command", 400, "MISSING_QUERY", "missing query parameter 'id'"),
             ("/command?id=", 400, "MISSING_QUERY", "missing query parameter 'id'"),
             (f"/command?id={done}", 500, "RUNTIME_ERROR",
              f"error interruptting code context. command session {done} is not running"),
             ("/command?id=nope", 500, "RUNTIME_ERROR",
              "error interruptting code context. no such session")]
    for path, status, code, message in cases:
        reply = EXECD.ask("DELETE", path)
        assert (reply.status, reply.json()) == (status, {"code": code, "message": message}), reply


def reports_the_status_of_a_command():
    ran = run("exit 7")
    reply = EXECD.get(f"/command/status/{ran.id}")
    status = reply.json()
    assert reply.headers["content-type"] == "application/json; charset=utf-8"
    assert list(status) == ["id", "content", "running", "exit_code", "error", "started_at",
                            "finished_at"], status
    assert (status["id"], status["content"], status["running"]) == (ran.id, "exit 7", False)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", status["started_at"]), status
    assert "error" not in EXECD.status(run("true").id)
    reply = EXECD.get("/command/status/nope")
    assert (reply.status, reply.json()) == (404, {"code": "INVALID_REQUEST_BODY", "message":
                                                  "command not found: nope"}), reply


def runs_in_the_background():
    with tempfile.TemporaryDirectory() as folder:
        go = pathlib.Path(folder) / "go"
        ran = run(f"echo one; echo two >&2; {until(go)}; printf 'three\\377'; exit 3",
                  background=True)
        assert ran.kinds() == ["init", "ping", "execution_complete"], ran.events
        wait_for(lambda: EXECD.logs(ran.id)[1] == 8, "its first output")
        assert EXECD.logs(ran.id) == (b"one\ntwo\n", 8)
        assert EXECD.logs(ran.id, 8) == (b"", 8) and EXECD.logs(ran.id, 100) == (b"", 100)
        assert EXECD.status(ran.id)["running"]
        go.touch()
        assert EXECD.wait_ended(ran.id)["exit_code"] == 3
    assert EXECD.logs(ran.id, 8) == (b"three\xff", 14)
    assert EXECD.logs(ran.id, "x")[1] == 14
    assert EXECD.logs(ran.id, 4)[0] == b"two\nthree\xff"


def explains_which_logs_there_are():
    front, back = run("true").id, run("true", background=True).id
    cases = [("/command/nope/logs", "command not found: nope"),
             (f"/command/{front}/logs?stream=both",
              f"command {front} has no such stream; stdout and stderr are its streams"),
             (f"/command/{back}/logs?stream=stdout",
              f"command {back} has no such stream; stdout and stderr of a background command "
              "are one"),
             (f"/command/{back}/logs?cursor=-1", "error seek file: invalid argument")]
    for path, message in cases:
        reply = EXECD.get(path)
        assert reply.status == 400, reply
        assert reply.json() == {"code": "INVALID_REQUEST_BODY", "message": message}, reply


def logs_what_a_client_may_miss():
    command = "printf 'a\\377\\r\\0b'; printf 'oops\\n' >&2; sleep 0.3; printf more; exit 6"
    with EXECD.stream(command) as stream:
        command_id = stream.event()["text"]
        stream.output()
    assert EXECD.wait_ended(command_id)["exit_code"] == 6
    assert EXECD.logs(command_id) == (b"a\xff\r\0bmore", 9)
    assert EXECD.logs(command_id, "5&stream=stdout") == (b"more", 9)
    assert EXECD.logs(command_id, "0&stream=stderr") == (b"oops\n", 5)
    assert EXECD.logs(run("true").id) == (b"", 0)


def logs_what_comes_after_the_end():
    with tempfile.TemporaryDirectory() as folder:
        go = pathlib.Path(folder) / "go"
        ran = run(f"({until(go)}; echo late) & echo early")
        assert ran.of("stdout") == ["early"], ran.events
        go.touch()
        wait_for(lambda: EXECD.logs(ran.id) == (b"early\nlate\n", 11), "the late one")


def keeps_the_last_of_a_foreground_command():
    with EXECD.stream("seq 1 10000000") as stream:  # 78888897 bytes
        command_id = stream.event()["text"]
    EXECD.wait_ended(command_id)
    data, cursor = EXECD.logs(command_id)
    assert cursor == 78888897 and len(data) == 64 << 20, (cursor, len(data))
    assert data.endswith(b"9999999\n10000000\n")


def keeps_so_many_logs():
    with Execd(PROGRAM) as execd:
        ids = [execd.run("echo out; echo err >&2").id for _ in range(102)]
        assert execd.get(f"/command/{ids[0]}/logs").status == 400
        assert execd.status(ids[0])["exit_code"] == 0
        assert execd.logs(ids[2])[0] == b"out\n"
        wait_for(lambda: len(os.listdir(f"/proc/{execd.process.pid}/fd")) < 230, "the rest's end")


def kills_the_background_too():
    ran = run("sleep 100", background=True, timeout=200)
    status = EXECD.wait_ended(ran.id)
    assert (status["exit_code"], status["error"]) == (-1, "timeout after 200ms: signal: killed")
    ran = run("sleep 100", background=True)
    assert EXECD.ask("DELETE", f"/command?id={ran.id}").status == 200
    assert EXECD.wait_ended(ran.id)["error"] == "signal: terminated"


def keeps_the_last_of_a_long_log():
    ran = run("seq 1 10000000", background=True)  # 78888897 bytes
    EXECD.wait_ended(ran.id)
    data, cursor = EXECD.logs(ran.id)
    assert cursor == 78888897 and len(data) == 64 << 20, (cursor, len(data))
    assert data.endswith(b"9999999\n10000000\n")
    assert EXECD.logs(ran.id, cursor - 9) == (b"10000000\n", cursor)


def needs_no_tmp():
    with tempfile.TemporaryDirectory() as folder:
        with Execd(PROGRAM, env={"TMPDIR": f"{folder}/gone"}) as execd:
            ran = execd.run("echo here", background=True)
            execd.wait_ended(ran.id)
            assert execd.logs(ran.id)[0] == b"here\n"
            assert execd.run("echo there").of("stdout") == ["there"]
        with Execd(PROGRAM, env={"TMPDIR": folder}) as execd:
            execd.run("echo here", background=True)
            assert os.listdir(folder) == [], "a file with a name"


def forgets_the_oldest():
    with Execd(PROGRAM) as execd:
        first = execd.run("true").id
        text = "true #" + "x" * 60000
        ids = [execd.run(text).id for _ in range(10)]
        assert execd.get(f"/command/status/{first}").status == 404
        assert execd.get(f"/command/status/{ids[0]}").status == 404
        assert execd.status(ids[-1])["content"] == text


# --- metrics, token, paths ---


def measures():
    with Execd(PROGRAM) as execd:
        for _ in range(10):
            begin = time.time()
            got = execd.get("/metrics").json()
            assert list(got) == ["cpu_count", "cpu_used_pct", "mem_total_mib", "mem_used_mib",
                                 "timestamp"], got
            assert got["cpu_count"] > 0 and 0 <= got["cpu_used_pct"] <= 100, got
            assert 0 <= got["mem_used_mib"] <= got["mem_total_mib"], got
            assert begin - 1 < got["timestamp"] / 1000 < time.time() + 1, got


def measures_its_own_group():
    group = pathlib.Path(f"/sys/fs/cgroup/memory/execd-test-{os.getpid()}")
    limit_name = "memory.limit_in_bytes"
    if not group.parent.exists():
        group = pathlib.Path("/sys/fs/cgroup") / group.name
        limit_name = "memory.max"
    try:
        group.mkdir()
        (group / limit_name).write_text(str(100 << 20))
    except OSError as error:
        if group.exists():
            group.rmdir()
        raise tap.Skip(f"no control group to be had: {error}") from error
    try:
        with Execd(PROGRAM, setup=lambda: (group / "cgroup.procs").write_text(
                str(os.getpid()))) as execd:
            got = execd.get("/metrics").json()
        assert got["mem_total_mib"] == 100 and got["mem_used_mib"] < 100, got
    finally:
        remove_group(group)


def watches_metrics():
    with Stream(EXECD.connect(), "/metrics/watch", None) as stream:
        got = [json.loads(stream.chunk()) for _ in range(3)]
    assert all(0 <= m["cpu_used_pct"] <= 100 for m in got), got


def asks_for_its_token():
    with Execd(PROGRAM, "--access-token", "abc") as execd:
        for headers in ([], ["X-EXECD-ACCESS-TOKEN: abd"], ["X-EXECD-ACCESS-TOKEN: ab"]):
            for path in ("/ping", "/nope"):
                reply = execd.ask("GET", path, headers=headers)
                assert reply.status == 401, reply
                assert reply.body == (b'{"error":"Unauthorized: invalid or missing header '
                                      b'X-EXECD-ACCESS-TOKEN"}'), reply
        assert execd.ask("GET", "/ping", headers=["x-execd-access-token: abc"]).status == 200


def knows_no_other_path_or_method():
    for method, path in (("GET", "/nope"), ("GET", "/command"), ("PUT", "/command"),
                         ("POST", "/ping"), ("OPTIONS", "/ping"), ("GET", "/command/status/")):
        reply = EXECD.ask(method, path)
        assert (reply.status, reply.body) == (404, b"404 page not found"), (method, path, reply)
        assert reply.headers["content-type"] == "text/plain"


def leads_from_a_slash_too_many():
    with Execd(PROGRAM, "--access-token", "abc") as execd:
        for method, path, status, location in (
                ("GET", "/ping/", 301, "/ping"),
                ("POST", "/command/?a=%2F", 307, "/command?a=%2F"),
                ("GET", "/command/x%20y/logs/?cursor=3", 301, "/command/x%20y/logs?cursor=3")):
            reply = execd.ask(method, path, headers=[])  # also without a token
            assert (reply.status, reply.headers["location"]) == (status, location), reply
        for method, path in (("POST", "/ping/"), ("GET", "/"), ("GET", "/ping//"),
                             ("GET", "/nope/"), ("GET", "/command/status/")):
            reply = execd.ask(method, path, headers=["X-EXECD-ACCESS-TOKEN: abc"])
            assert reply.status == 404, (method, path, reply)


def reads_the_first_value_of_a_body():
    body = b'{"COMMAND":"echo a","Envs":{"X":"1"}} {"command":"echo b"} \xff and more'
    with Stream(EXECD.connect(), "/command", body) as stream:
        events = list(stream.events())
    assert Ran("", events).of("stdout") == ["a"], events


def stays_small():
    if SANITIZED or not STATIC:
        raise tap.Skip("only the static program is made for that")
    with Execd(PROGRAM) as execd:
        def resident():
            return int(status_of(execd.process.pid, "VmRSS").split()[0])
        wait_for(lambda: resident() <= IDLE_RSS_KIB_MAX, "little memory while it idles")
        for i in range(200):
            execd.run(f"seq {i * 10}", background=i % 4 == 0)
        print(f"# {resident()} KiB resident after 200 commands")
        wait_for(lambda: resident() <= 2048, "little memory after 200 commands")


def ended_with(execd):
    """Ends it, and with it a command that wants to exit with 9: the exit code that is told."""
    with execd.stream("trap 'exit 9' TERM; echo $$; while :; do sleep 0.05; done") as stream:
        events = [stream.event()]
        while events[-1]["type"] != "stdout":
            events.append(stream.event())
        execd.process.terminate()
        events += list(stream.events())
    check_order(events)
    return int(events[-1]["error"]["evalue"])


def ends_its_commands_when_it_ends():
    codes = []
    while not codes or codes[-1] == -1 and len(codes) < 5:  # killed: a second was too short
        with Execd(PROGRAM) as execd:
            codes.append(ended_with(execd))
    assert codes[-1] == 9, codes


TESTS = [value for value in list(globals().values())
         if callable(value) and getattr(value, "__module__", "") == "__main__"
         and value.__name__ not in ("run", "refused", "written_while_it_sleeps", "written_in_time",
                                   "ended_with")]


if __name__ == "__main__":
    with Execd(PROGRAM) as EXECD:
        sys.exit(tap.run_tests(TESTS))
