"""Shell sessions: one living shell each, whichever shell there is.

Usage: test_execd_sessions.py EXECD. TAP on standard output. Most tests run with bash, with dash and
with busybox: a PATH that has only that shell, and the tools they call.
"""
import collections
import contextlib
import os
import pathlib
import random
import re
import shutil
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from execd_client import Execd, Ran, Stream, check_order  # noqa: E402
from execd_process import SECONDS_MAX, status_of, until, wait_for  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
ELF = pathlib.Path(PROGRAM).read_bytes()
SANITIZED, STATIC = b"__asan_init" in ELF, b"ld-linux" not in ELF
TOOLS = ("cat", "chmod", "head", "ls", "python3", "rm", "seq", "setsid", "sh", "sleep", "tail",
         "tr", "yes")
SESSIONS_MAX, WAITING_MAX = 256, 16
INTERRUPTS = int(os.environ.get("INTERRUPTS", "80"))  # of bash; a quarter of that of others
LIMITS_MS = (100, 1000, 10000)  # the first ones may be over before a shell does anything
EXECD = KIND = None  # the one most tests share, and its shell


class Starved(Exception):
    """A shell was ended with its run, as the machine did not let it run for twenty seconds."""


BUSY = (  # with forks, waits and neither
    "for i in $(seq 1000); do cat </dev/null; done; sleep 60",
    "sleep 60",
    "(sleep 60)",
    "sleep 60 | sleep 60 | cat",
    "x=$(sleep 60)",
    "sleep 60 & wait",
    "while :; do cat </dev/null; done",
    "while :; do (:); done",
    "while :; do (exit 3) || cat </dev/null; done",
    "while :; do : | :; done",
    "while :; do x=$(:); done",
    "while :; do x=$(cat </dev/null); done",
    "while :; do cat </dev/null & wait $!; done",
    "busy() { while :; do sleep 0.001; done; }; busy",
    "while :; do :; done",
)


class Session:
    """with Session() as s: s.run("...")"""

    def __init__(self, execd=None, **body):
        self.execd = execd or EXECD
        reply = self.execd.ask("POST", "/session", body or None)
        assert reply.status == 200, reply
        assert re.fullmatch(rb'\{"session_id":"[0-9a-f-]{36}"\}', reply.body), reply
        self.id = reply.json()["session_id"]

    def stream(self, command, **more):
        return Stream(self.execd.connect(), f"/session/{self.id}/run", {"command": command, **more},
                      self.execd.headers)

    def run(self, command, **more):
        with self.stream(command, **more) as stream:
            assert stream.status == 200, f"{stream.status}: {stream.file.read1()}"
            events = list(stream.events())
        check_order(events)
        assert events[0]["text"] == self.id, events[0]
        return Ran(events[0]["text"], events)

    def out(self, command, **more):
        """Standard output of what succeeds and prints no errors."""
        ran = self.run(command, **more)
        assert ran.last["type"] == "execution_complete", ran.events
        assert ran.text("stderr") == "", ran.events
        return ran.text("stdout")

    def delete(self):
        return self.execd.ask("DELETE", f"/session/{self.id}")

    def interrupt(self, path="/command"):
        return self.execd.ask("DELETE", f"{path}?id={self.id}")

    def begin(self, command, **more):
        """A run under way, whose first line of output was read."""
        stream = self.stream(f"echo begun; {command}", **more)
        stream.output()
        return stream

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.delete()


def rest(stream):
    """The events that are still to come."""
    with stream:
        return list(stream.events())


def error_of(events, may_replace=False):
    assert events[-1]["type"] == "error", events
    error = events[-1]["error"]
    assert error["ename"] == "CommandExecError" and len(error["traceback"]) == 1, error
    why = error["traceback"][0]
    if not may_replace:
        if is_starved(why):
            raise Starved(why)
        assert "; the shell had to be ended with it" not in why, why
    return error["evalue"], why


def is_starved(why):
    """Whether execd saw that the machine had no time for a shell, and not that it hung."""
    return "; the shell had to be ended with it, as the machine gave it no time" in why


def patiently(test):
    """Runs it again when the machine had no time for a shell."""
    for _ in range(4):
        try:
            return test()
        except Starved as e:
            print(f"# {KIND}: {test.__name__} once more: {e}", flush=True)
    return test()


def gone(pid):
    """Whether a process is no more, or a zombie that waits for its parent."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, IndexError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    return True


# --- what stays ---


def state_stays_from_run_to_run():
    with Session() as s:
        assert s.run("x=5; y='a b'; f() { echo \"f:$1:$x\"; }; alias hello='echo aliased'").events
        assert s.out("f one; hello; echo \"$y\"") == "f:one:5\naliased\na b"
        s.run("cd /tmp; umask 027; set -f; trap 'echo trapped' USR1; set -- p q; exec 5>&1")
        assert s.out("pwd; umask; echo *; echo $2; echo five >&5") == "/tmp\n0027\n*\nq\nfive"
        assert s.out("kill -USR1 $$; :") == "trapped"
        assert s.out("echo $x $$") == s.out("echo $x $$")
        if KIND == "bash":
            s.run("shopt -s extglob; declare -A m=([k]=v); a=(1 2 3)")
            assert s.out("shopt -q extglob && echo ${m[k]} ${a[2]} ${BASH_VERSION%%.*}") == "v 3 5"


def interrupted(s, command):
    """Ends a run whose first line of output is there. How it ended."""
    stream = s.stream(command)
    while stream.event()["type"] != "stdout":
        pass
    assert s.interrupt().status == 200
    return error_of(rest(stream))


def nothing_that_is_defined_breaks_the_next_run():
    """Functions and aliases called like what a run is begun, interrupted and reported with."""
    names = ["alias", "cd", "command", "echo", "false", "kill", "printf", "read", "test", "true"]
    if KIND == "bash":  # what a sh has no functions for
        names += [".", ":", "builtin", "declare", "eval", "exec", "exit", "export", "local",
                  "return", "set", "shopt", "source", "trap", "unset"]
    gone = "builtin" if KIND == "bash" else "command"  # the one that does not stay
    for name in names + ["all of them"]:
        functions = "\n".join(f"{n}() {{ kept=no; }}" for n in names if name in (n, "all of them"))
        with Session() as s:
            s.run(f"kept=yes\n{functions}")
            assert s.run("ls /dev/null", cwd="/", envs={"A": "it's"}).text("stdout") == "/dev/null"
            assert s.run("cat <<X\n$kept $PWD $A\nX").text("stdout") == "yes / it's", name
            how = interrupted(s, f"{functions}\nls /dev/null; while sleep 60; do sleep 60; done")
            assert how == ("-1", "signal: interrupt"), (name, how)
            assert s.run("cat <<X\n$kept\nX").text("stdout") == "yes", name
            if name not in (gone, "all of them"):
                assert s.run(f"{name} && cat <<X\n$kept\nX").text("stdout") == "no", name
    with Session() as s:
        s.run("kept=yes; " + ";".join(f"alias {n}=nope" for n in names if n not in ":.alias"))
        assert interrupted(s, "ls /dev/null; sleep 60") == ("-1", "signal: interrupt")
        assert s.run("ls /dev/null", cwd="/", envs={"A": "it's"}).text("stdout") == "/dev/null"
        assert s.run("cat <<X\n$kept $PWD $A\nX").text("stdout") == "yes / it's"


def no_setting_breaks_the_next_run():
    settings = ["set -x", "set -v", "set -u", "set -f", "set -C", "set -a", "IFS=0123456789abcdef",
                "IFS=r; readonly IFS", "TMOUT=1; readonly TMOUT", "PATH=", "PS1=no; PS2=no"]
    if KIND == "bash":
        settings += ["set -o posix", "set -k", "set -T", "set -E", "enable -n echo kill",
                     "shopt -s extdebug failglob xpg_echo", "POSIXLY_CORRECT=",
                     "shopt -u expand_aliases", "BASH_COMPAT=4.2"]
    for setting in settings:
        with Session() as s:
            s.run(f"path=\"$PATH\"; kept=yes; {setting}")
            if "TMOUT" in setting:
                time.sleep(1.5)
            for _ in range(20):  # the numbers of runs are random
                assert s.run('printf %s "$kept"').text("stdout") == "yes", setting
            s.run('PATH="$path"')
            assert interrupted(s, "ls /dev/null; sleep 60") == ("-1", "signal: interrupt"), setting
            assert s.run('printf %s "$kept"').text("stdout") == "yes", setting


def a_sandbox_has_sessions_apart():
    with Session() as a, Session() as b:
        a.run("v=a; cd /tmp")
        b.run("v=b; cd /")
        assert (a.out("echo $v; pwd"), b.out("echo $v; pwd")) == ("a\n/tmp", "b\n/")


def exit_codes_are_reported():
    with Session() as s:
        for command, code in (("true", 0), ("false", 1), ("(exit 42)", 42), ("return 7", 7),
                              ("no-such-program", 127), ("sh -c 'kill -9 $$'", 137),
                              ("break", 0), ("continue", 0)):
            ran = s.run(command)
            assert ran.exit_code == code, (command, ran.last)
            if code:
                assert error_of(ran.events) == (str(code), f"exit status {code}"), ran.last
        assert s.out("echo alive") == "alive"


def what_is_no_program_leaves_the_session_alone():
    with Session() as s:
        s.run("keep=1")
        for code in ("echo 'open", 'echo "open', "if true; then", "cat <<X\n$(", ")", "fi", "a(",
                     "\x01\x02\x7f\x81\xff", "'", "\\", "${x", "`"):
            ran = s.run(code)
            assert ran.exit_code != 0, (code, ran.events)
            assert s.out("echo $keep") == "1", code
        assert s.run("cat <<X\nno end").text("stdout").endswith("no end")
        assert s.out("printf '%s\\n' \"it's\" '$x `y` \"z\"' \\\\ \"\u00e9\u20ac\"") == (
            "it's\n$x `y` \"z\"\n\\\n\u00e9\u20ac")
        assert s.run("echo ${unset_one?is needed}; echo not this").text("stdout") == ""
        assert s.out("echo $keep") == "1"


def output_is_lines_of_two_streams():
    with Session() as s:
        ran = s.run("printf 'a\\n\\nb\\r\\n\\n\\nc'; echo e >&2; printf tail >&2")
        assert ran.of("stdout") == ["a", "\n", "b", "\n", "\n", "c"], ran.events
        assert ran.of("stderr") == ["e", "tail"], ran.events
        big = s.run("seq 30000; printf '\\377\\000x'")
        assert big.text("stdout") == "".join(f"{i}\n" for i in range(1, 30001)) + "\ufffd\0x"


def input_is_empty():
    with Session() as s:
        assert s.out("read l; echo \"$?:$l\"; cat; echo end") == "1:\nend"


# --- options that would break a lesser loop ---


def options_of_the_code_do_not_disturb():
    with Session() as s:
        s.run("set -x")
        ran = s.run("echo traced")
        assert ran.text("stdout") == "traced" and "execd" not in ran.text("stderr"), ran.events
        assert re.fullmatch(r"\++ echo traced", ran.text("stderr")), ran.events
        s.run("set +x")
        s.run("set -u; set -C; IFS=0123456789; set -f")
        assert s.run("echo $nothing; echo no").exit_code != 0
        assert s.run("false").exit_code == 1
        assert s.out("set +u; echo ${keep-none}") == "none"
        s.run("unset IFS; set +C +f; trap 'echo \"status $?\"' EXIT")
        assert s.out("echo quiet") == "quiet"
        ran = s.run("exit 6")
        assert ran.text("stdout") == "status 6" and ran.exit_code == 6, ran.events


def errexit_ends_the_run_and_a_new_shell_follows():
    with Session(cwd="/tmp") as s:
        s.run("export KEPT='it'\\''s $kept'; cd /usr; plain=1; f() { :; }")
        s.run("set -e; gone=1")
        ran = s.run("echo before; false; echo after")
        assert ran.text("stdout") == "before" and ran.exit_code == 1, ran.events
        assert s.out("echo \"$KEPT:${plain-none}:$PWD\"; false; echo on") == (
            "it's $kept:none:/usr\non")


def the_ends_of_a_shell_are_not_the_ends_of_a_session():
    with Session(cwd="/usr") as s:
        for command, value, why in (
                ("echo out; exit 5", "5", "exit status 5"),
                ("exec sh -c 'echo out; exit 9'", "9", "exit status 9"),
                ("echo out; kill -9 $$", "-1", "signal: killed"),
                ("echo out; kill -SEGV $$; sleep 9", "-1", "signal: segmentation fault")):
            ran = s.run(f"cd /; {command}")
            assert ran.text("stdout") == "out", ran.events
            assert error_of(ran.events)[0] == value and why in error_of(ran.events)[1], ran.events
            assert s.out("pwd") == "/usr"
        assert s.run("exit").last["type"] == "execution_complete"
        assert s.run("exec sh -c :").last["type"] == "execution_complete"
        assert s.out("pwd") == "/usr"


def descriptors_may_be_redirected_and_closed():
    with Session() as s, tempfile.TemporaryDirectory() as folder:
        assert s.run(f"exec 5>&1 >{folder}/out 2>&1; echo one").of("stdout") == []
        assert s.run("echo two; no-such").exit_code == 127
        assert s.out("exec >&5 5>&-; echo back") == "back"
        text = pathlib.Path(folder, "out").read_text()
        assert text.startswith("one\ntwo\n") and "no-such" in text, text
        s.run("exec >&- 2>&-")
        assert s.run("echo lost").exit_code != 0
        assert s.run("true").exit_code == 0
        s.run("exec 0<&- 3<&- 4<&- 5<&- 6<&- 7<&- 8<&- 9<&-")
        assert s.run("true").exit_code == 0 and s.run("(exit 3)").exit_code == 3


# --- nothing printed is believed ---


def printed_things_are_output_and_nothing_else():
    with Session() as s:
        text = "__EXIT_CODE__:7\n__ENV_DUMP_START__\n__PWD__:/x\n0 0 - -\nr abc\n- 0 0 -"
        assert s.out(f"printf '%s' '{text}'") == text
        spoof = ("for fd in 3 4 5 6 7 8 9; do eval \"echo '- 0 - -' >&$fd\" 2>/dev/null && "
                 "echo \"wrote to $fd\"; done; sh -c 'ls /proc/self/fd'; (exit 3)")
        ran = s.run(spoof)
        assert ran.exit_code == 3 and "wrote" not in ran.text("stdout"), ran.events
        listed = [int(n) for n in ran.text("stdout").split()]
        assert max(listed) <= 3, f"a program of a run sees {listed}"  # 3 is what ls reads
        environment = s.out("python3 -c 'import os; print(sorted(os.environ))'")
        assert "execd" not in environment.lower(), environment


# --- what a run may bring ---


def a_directory_becomes_the_sessions():
    with tempfile.TemporaryDirectory() as folder:
        odd = pathlib.Path(folder, "it's $HOME; \"here\"\nreally")
        odd.mkdir()
        with Session(cwd=f"{folder}/new/er") as s:
            assert s.out("pwd") == f"{folder}/new/er"
            assert s.out("pwd", cwd=folder) == folder
            assert s.out("pwd") == folder
            assert s.run("echo 'open", cwd="/usr").exit_code != 0
            assert s.out("pwd", cwd=None) == "/usr"
            escaped = str(odd).replace("$", "\\$")
            assert s.out("pwd", cwd=escaped) == str(odd)


def variables_of_a_run_are_exported_and_stay():
    with Session() as s:
        envs = {"A": "it's", "B": "$HOME `x` \"\\", "C": "two\nlines", "D": ""}
        show = "python3 -c 'import os; print([os.environ.get(n) for n in \"ABCD\"])'"
        assert s.out(show, envs=envs) == str([envs[n] for n in "ABCD"])
        assert s.out(show) == str([envs[n] for n in "ABCD"])
        s.run("unset A; exit 1")
        assert s.out(show, envs={"D": "d"}) == str([envs["A"], envs["B"], envs["C"], "d"])


def wrong_requests_are_refused():
    with Session() as s:
        path = f"/session/{s.id}/run"
        tag = "Error:Field validation for '{0}' failed on the '{1}' tag"
        for body, message in (
                (b"", "error parsing request. EOF"),
                (b" \n", "error parsing request. EOF"),
                ({"command": ""}, "invalid request. Key: 'RunInSessionRequest.Command' "
                 + tag.format("Command", "required")),
                ({"command": "x", "timeout": -1}, "invalid request. Key: "
                 "'RunInSessionRequest.Timeout' " + tag.format("Timeout", "gte")),
                ({"command": "x", "cwd": "/nope"}, "invalid request. working directory does not "
                 "exist: /nope: stat /nope: no such file or directory"),
                ({"command": "x", "cwd": "/etc/passwd"}, "invalid request. working directory path "
                 "is not a directory: /etc/passwd"),
                ({"command": "x", "envs": {"a.b": "c"}}, "invalid request. envs: 'a.b' cannot be a "
                 "variable of a shell")):
            reply = EXECD.ask("POST", path, body)
            assert (reply.status, reply.json()) == (
                400, {"code": "INVALID_REQUEST_BODY", "message": message}), reply
        unknown = EXECD.ask("POST", "/session/nope/run", {"command": "true"})
        assert (unknown.status, unknown.json()) == (500, {
            "code": "RUNTIME_ERROR", "message": "error running in session. context not found"})
        unknown = EXECD.ask("DELETE", "/session/nope")
        assert (unknown.status, unknown.json()) == (404, {
            "code": "CONTEXT_NOT_FOUND", "message": "session nope not found"})
        for body in (None, b"", b"\r\n", b"{}", b"null", {"cwd": None}, {"cwd": ""}):
            reply = EXECD.ask("POST", "/session", body)
            assert reply.status == 200, (body, reply)
            assert EXECD.ask("DELETE", f"/session/{reply.json()['session_id']}").status == 200
        assert EXECD.ask("POST", "/session", b"[").status == 400
        assert EXECD.ask("POST", "/session", {"cwd": "/etc/passwd/x"}).status == 500


# --- timeouts and interrupts ---


def loops_of_the_shell_itself_are_interrupted():
    with Session() as s:
        s.run("kept=yes; f() { echo fine; }")
        for command in ("while :; do :; done", "f2() { while true; do :; done; }; f2; echo no",
                        "i=0; until false; do i=$((i+1)); done", "eval 'while :; do :; done'"):
            ran = s.run(f"{command}; echo not this", timeout=200)
            assert error_of(ran.events) == (
                "-1", "timeout after 200ms: signal: interrupt"), ran.events
            assert "not this" not in ran.text("stdout"), ran.events
            assert s.out("f; echo $kept") == "fine\nyes"


def programs_in_the_foreground_are_interrupted():
    with Session() as s:
        s.run("kept=yes")
        for command in ("sleep 60", "sleep 60 | sleep 60", "(sleep 60; sleep 61)",
                        "while true; do sleep 60; done", "echo $(sleep 60)", "sh -c 'sleep 60; :'"):
            ran = s.run(f"{command}; echo not this", timeout=150)
            assert error_of(ran.events)[0] == "-1", ran.events
            assert "not this" not in ran.text("stdout"), ran.events
            assert s.out("echo $kept") == "yes", command


def stubborn_programs_are_killed():
    ignore = "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (2, 15, 1)]; " \
        "print(__import__('os').getpid(), flush=True); time.sleep(60)"
    with Session() as s:
        s.run("kept=yes")
        for command in (f"python3 -c \"{ignore}\"",
                        f"python3 -c \"import os; os.setpgid(0, 0); {ignore}\""):
            stream = s.stream(f"{command}; sleep 60")
            pid = int(stream.output()["text"])
            assert s.interrupt().status == 200
            assert error_of(rest(stream))[0] == "-1"
            wait_for(lambda: gone(pid), "the end of a stubborn program")
            assert s.out("echo $kept") == "yes"


def a_shell_that_ignores_interrupts_is_replaced_and_says_so():
    with Session(cwd="/tmp") as s:
        s.run("export E=e; plain=1; cd /usr")
        for limit_ms in LIMITS_MS:
            ran = s.run("trap '' INT; echo begun; while :; do :; done", timeout=limit_ms)
            if ran.of("stdout"):
                break
        value, why = error_of(ran.events, may_replace=True)
        assert value == "-1", value
        assert re.match("timeout after [0-9]+m?s: signal: killed; the shell", why), why
        assert s.out("echo $E:${plain-none}:$PWD") == "e:none:/usr"


def jobs_survive_interrupts_and_runs():
    with Session() as s:
        job = int(s.out("sleep 1000 & echo $!"))
        assert error_of(s.run("sleep 60", timeout=100).events)[0] == "-1"
        assert not gone(job)
        assert s.out(f"kill -0 {job} && echo there; jobs").startswith("there\n[1]")
        s.run("exit 3")
        assert not gone(job) and s.out("echo new") == "new"
        assert s.delete().status == 200
        wait_for(lambda: gone(job), "the job's end")


def jobs_that_hold_the_pipe_delay_no_run():
    with Session() as s:
        noise = "while :; do echo noise; sleep 0.02; done"
        assert "started" in s.out(f"({noise}) & echo started")
        for _ in range(20):
            assert s.run("echo x").exit_code == 0
        wait_for(lambda: "noise" in s.out("sleep 0.1; :"), "noise")
        flood = next(filter(str.isdigit, s.run("yes >&2 & echo $!").of("stdout")))
        assert s.run("true").exit_code == 0
        assert s.run(f"kill {flood}; kill %1 2>/dev/null; true").exit_code == 0


def interrupts_by_request_act_on_the_run_only():
    with Session() as s:
        for path in ("/command", "/code"):
            s.run("kept=yes")
            for command in ("sleep 60", "while :; do :; done", "exec sleep 60"):
                stream = s.begin(command)
                reply = s.interrupt(path)
                assert (reply.status, reply.body) == (200, b""), reply
                value, why = error_of(rest(stream))
                assert value == "-1" and why == "signal: interrupt", (command, value, why)
                if not command.startswith("exec"):
                    assert s.out("echo $kept") == "yes"
            assert s.interrupt(path).status == 200  # nothing runs: nothing happens
        assert s.run("echo usable").exit_code == 0


def an_interrupt_never_hits_the_next_run():
    with Session() as s:
        s.run("kept=yes")
        for i in range(30):
            with s.stream(f"echo begun; sleep 0.0{i % 10}") as stream:
                stream.output()
                assert s.interrupt().status == 200
                events = list(stream.events())
                assert events[-1]["type"] == "execution_complete" or error_of(events)
            assert s.out(f"echo {i} $kept") == f"{i} yes"


def interrupts_at_any_moment_leave_the_shell_as_it_was():
    """At random, as whatever the shell does at that moment may be the wrong one. SEED=n repeats."""
    seed = int(os.environ.get("SEED", time.time_ns() % 1000000))
    pick, count = random.Random(seed), INTERRUPTS if KIND == "bash" else INTERRUPTS // 4
    lost, starved, slowest, cut_short = collections.Counter(), 0, 0.0, 0
    s = None
    for _ in range(count):
        s = s or Session()
        s.run("kept=yes; keep() { echo \"kept $kept\"; }; cd /usr")
        code, moment_ms = pick.choice(BUSY), pick.uniform(0, 20)
        began = time.monotonic()
        if pick.random() < 0.3:
            events = s.run(code, timeout=max(1, int(moment_ms))).events
        else:
            stream = s.begin(code)
            time.sleep(moment_ms / 1000)
            assert s.interrupt().status == 200
            events = rest(stream)
        slowest = max(slowest, time.monotonic() - began)
        value, why = error_of(events, may_replace=True)
        early = value == "191" and code.endswith("wait")  # seldom, and documented
        assert value == "-1" or early, (seed, code, events)
        cut_short += early
        if s.run("keep; pwd").text("stdout") != "kept yes\n/usr":
            assert "; the shell had to be ended" in why, f"lost in silence: {seed} {code} {why}"
            if is_starved(why):
                starved += 1
            else:
                lost[code] += 1
            s.delete()
            s = None
    print(f"# {KIND}: {lost.total()} shells lost to {count} interrupts, {starved} starved, "
          f"{cut_short} waits cut short, slowest end {slowest * 1000:.0f} ms, SEED={seed}")
    assert not lost, lost


def traps_of_the_code_are_its_own():
    with Session() as s:
        s.run("trap 'echo mine' INT; kept=yes")
        for limit_ms in LIMITS_MS:
            ran = s.run("echo begun; sleep 60; echo after", timeout=limit_ms)
            if ran.of("stdout"):
                break
        assert ran.text("stdout").startswith("begun\nmine") or KIND != "bash", ran.events
        assert s.out("trap - INT; echo $kept") == "yes"
        assert error_of(s.run("while :; do :; done", timeout=50).events)[0] == "-1"
        s.run("trap - $(seq 1 64) 2>/dev/null")
        assert error_of(s.run("while :; do :; done", timeout=50).events)[0] == "-1"
        assert s.out("echo $kept") == "yes"


def a_shell_that_waits_for_the_kernel_is_interrupted():
    with tempfile.TemporaryDirectory() as folder, Session(cwd=folder) as s:
        os.mkfifo(f"{folder}/fifo")
        s.run("kept=yes")
        for code in ("read -r x <fifo", "exec 4<>fifo; read -r x <&4"):
            assert error_of(s.run(code, timeout=50).events)[0] == "-1", code
            assert s.out("echo $kept") == "yes", code


def a_client_that_leaves_ends_its_run():
    with Session() as s:
        s.run("kept=yes")
        with s.begin("sleep 61 && echo not this"):
            pass
        assert s.out("echo $kept") == "yes"  # not a minute later, when the client gives up


# --- many at once ---


def runs_wait_for_their_turn():
    with tempfile.TemporaryDirectory() as folder, Session() as s:
        go = pathlib.Path(folder, "go")
        first = s.begin(until(go))
        streams = [s.stream(f"n=$((n + 1)); echo {i} $n") for i in range(WAITING_MAX)]
        reply = EXECD.ask("POST", f"/session/{s.id}/run", {"command": "true"})
        assert reply.status == 409 and "busy" in reply.json()["message"], reply
        go.touch()
        assert rest(first)[-1]["type"] == "execution_complete"
        for i, stream in enumerate(streams):
            texts = [e["text"] for e in rest(stream) if e["type"] == "stdout"]
            assert texts == [f"{i} {i + 1}"], texts


def deleting_a_session_ends_all_of_it():
    s = Session()
    job = int(s.out("sleep 1000 & echo $!"))
    stream = s.begin("sleep 1001 | sleep 1002")
    waiting = s.stream("echo never")
    wait_for(lambda: waiting.event()["type"] == "init", "init")
    assert (s.delete().status, s.delete().status) == (200, 404)
    for each in (stream, waiting):
        assert error_of(rest(each)) == ("-1", "signal: killed")
    wait_for(lambda: gone(job), "the job's end")
    assert EXECD.ask("POST", f"/session/{s.id}/run", {"command": "true"}).status == 500


def sessions_are_counted():
    with Execd(PROGRAM, env={"PATH": EXECD.path}) as execd:
        ids = [execd.ask("POST", "/session").json()["session_id"] for _ in range(SESSIONS_MAX)]
        reply = execd.ask("POST", "/session")
        assert reply.status == 503 and "sessions" in reply.json()["message"], reply
        assert execd.ask("DELETE", f"/session/{ids[0]}").status == 200
        assert execd.ask("POST", "/session").status == 200


def a_slow_reader_slows_the_run_and_loses_nothing():
    with Session() as s:
        stream = s.stream("seq 60000; echo end")
        time.sleep(0.5)
        with stream:
            events = list(stream.events())
        check_order(events)
        assert Ran(s.id, events).text("stdout") == "".join(
            f"{i}\n" for i in range(1, 60001)) + "end"


# --- environment ---


def the_environment_is_that_of_a_command():
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("FROM_FILE=it is $BASE\n")
        file.flush()
        with Execd(PROGRAM, "--access-token", "t0k", headers=["X-EXECD-ACCESS-TOKEN: t0k"],
                   env={"PATH": EXECD.path, "EXECD_ENVS": file.name, "BASE": "base"}) as execd:
            with Session(execd) as s:
                assert s.out("echo \"$FROM_FILE\"; echo ${EXECD_ACCESS_TOKEN-none}") == (
                    "it is base\nnone")
                signals = s.out("cat /proc/self/status")
                assert re.search(r"SigBlk:\s*0+\nSigIgn:\s*0+\n", signals), signals


def variables_for_people_at_terminals_do_no_harm():
    with tempfile.TemporaryDirectory() as home:
        noise = {"TMOUT": "1", "PS1": "prompt> ", "PS2": "more> ", "PS4": "trace> ",
                 "PROMPT_COMMAND": "echo prompted", "HISTFILE": f"{home}/history",
                 "MAIL": f"{home}/mail", "MAILCHECK": "0", "HOME": home, "TERM": "xterm"}
        with Execd(PROGRAM, env={"PATH": EXECD.path, **noise}) as execd, Session(execd) as s:
            pathlib.Path(home, "mail").write_text("you have mail\n")
            assert s.out("x=1; echo hi") == "hi"
            time.sleep(1.3)  # bash gives up reading after TMOUT
            assert s.out("echo $x") == "1"
            assert s.out("sleep 1.2; echo $x") == "1"
            assert s.run("exit 3").text("stderr") == ""
        assert os.listdir(home) == ["mail"], os.listdir(home)


def an_image_without_a_shell_says_so():
    with tempfile.TemporaryDirectory() as folder, \
            Execd(PROGRAM, env={"PATH": folder}) as execd, Session(execd) as s:
        ran = s.run("true")
        assert "install bash" in ran.last["error"]["evalue"], ran.last
        shutil.copy("/bin/false", f"{folder}/sh")
        ran = s.run("true")
        assert ran.last["type"] == "error", ran.last
        os.unlink(f"{folder}/sh")
        pathlib.Path(folder, "sh").symlink_to(shutil.which("dash"))
        assert s.out("echo found") == "found"


def sessions_end_with_their_daemon():
    with Execd(PROGRAM, env={"PATH": EXECD.path}) as execd:
        s = Session(execd)
        shell = int(s.out("echo $$"))
        job = int(s.out("sleep 1000 & echo $!"))
        line = pathlib.Path(f"/proc/{job}/cmdline")
        wait_for(lambda: line.read_bytes().endswith(b"1000\0"), "the job to be no shell any more")
        execd.process.terminate()
        execd.process.wait(timeout=SECONDS_MAX)
    wait_for(lambda: gone(shell) and gone(job), "the end of a session's processes")


# --- cost ---


def runs_are_quick_and_leave_nothing():
    with Execd(PROGRAM, env={"PATH": EXECD.path}) as execd, Session(execd) as s:
        s.run("true")
        path, times = f"/session/{s.id}/run", []
        descriptors = len(os.listdir(f"/proc/{execd.process.pid}/fd"))
        for _ in range(200):
            client = execd.connect()
            began = time.perf_counter()
            with Stream(client, path, {"command": "true"}) as stream:
                events = list(stream.events())
                times.append(time.perf_counter() - began)
            assert events[-1]["type"] == "execution_complete", events
        wait_for(lambda: len(os.listdir(f"/proc/{execd.process.pid}/fd")) <= descriptors,
                 "descriptors given back")
        median = sorted(times)[100] * 1000
        print(f"# {KIND}: {median:.2f} ms per run of true")
        if STATIC and not SANITIZED:
            wait_for(lambda: int(status_of(execd.process.pid, "VmRSS").split()[0]) <= 2048,
                     "little memory after 200 runs")


def sessions_work_side_by_side():
    def work(i, failures):
        try:
            with Session() as s:
                s.run(f"me={i}; cd /")
                for k in range(10):
                    assert s.out(f"echo $me {k}") == f"{i} {k}"
        except Exception as failure:  # told by the main thread
            failures.append(failure)

    failures = []
    threads = [threading.Thread(target=work, args=(i, failures)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


TESTS = [value for value in list(globals().values())
         if callable(value) and getattr(value, "__module__", "") == "__main__"
         and not isinstance(value, type)
         and value.__name__ not in ("error_of", "gone", "interrupted", "is_starved", "main",
                                    "path_for", "patiently", "rest")]


def path_for(kind, folder):
    """A PATH with this shell and the tools of the tests."""
    program = shutil.which(kind)
    if not program:
        return None
    for name in TOOLS:
        if name != "sh":
            pathlib.Path(folder, name).symlink_to(shutil.which(name))
    pathlib.Path(folder, "sh").symlink_to(shutil.which("dash") if kind == "bash" else program)
    if kind == "bash":
        pathlib.Path(folder, "bash").symlink_to(program)
    return str(folder)


def main():
    global EXECD, KIND
    out = tap.Tap()
    for KIND in ("bash", "dash", "busybox"):
        with tempfile.TemporaryDirectory() as folder:
            path = path_for(KIND, folder)
            if not path:
                out.check(f"{KIND} is here", lambda: (_ for _ in ()).throw(tap.Skip("it is not")))
                continue
            with Execd(PROGRAM, env={"PATH": path}) as EXECD:
                EXECD.path = path
                for test in TESTS:
                    if len(sys.argv) < 3 or sys.argv[2] in f"{KIND} {test.__name__}":
                        out.check(f"{KIND}: {test.__name__}", patiently, test)
    return out.end()


if __name__ == "__main__":
    sys.exit(main())
