"""Isolated sessions: sandboxes that execd makes inside a sandbox, or where it runs as root.

Usage: test_execd_isolated.py BROKER EXECD SANDBOXCTL. TAP on standard output. Needs root.
"""
import contextlib
import ctypes
import io
import json
import os
import pathlib
import shutil
import signal
import stat
import sys
import tarfile
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from broker_process import Broker, wait_for, why_not  # noqa: E402
from execd_client import Client, Execd, Ran, Stream, check_order  # noqa: E402
from execd_process import SECONDS_MAX, Init, reserve_descriptors, until  # noqa: E402
from execd_turns import PINGS, overtake, request  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:4]]
BROKER = None
MIB = 1 << 20
ROOT = "/v1/isolated"
NOBODY = 65534
FORM = ('--x\r\nContent-Disposition: form-data; name="metadata"; filename="metadata"\r\n\r\n'
        '{{"path":"{}"}}\r\n--x\r\n'
        'Content-Disposition: form-data; name="file"; filename="f"\r\n\r\nDATA\r\n--x--\r\n')
FORM_TYPE = ["Content-Type: multipart/form-data; boundary=x"]


def half_form(path):
    """A form that ends within the content of its file."""
    return FORM.format(path).removesuffix("\r\n--x--\r\n") + "x" * 100000


class Session:
    """One isolated session of an execd."""

    def __init__(self, execd, **isolation):
        workspace = {"path": isolation.pop("path", "/work")}
        workspace.update({key: isolation.pop(key) for key in ("mode", "persist")
                          if key in isolation})
        reply = execd.ask("POST", f"{ROOT}/session",
                          {"isolation": {"workspace": workspace, **isolation}})
        assert reply.status == 200, reply
        self.execd, self.made = execd, reply.json()
        self.url = f"{ROOT}/session/{self.made['session_id']}"

    def run(self, code, **more):
        with Stream(self.execd.connect(), f"{self.url}/run", {"code": code, **more}) as stream:
            assert stream.status == 200, f"{stream.status}: {stream.file.read1()}"
            events = list(stream.events())
        check_order(events)
        return Ran(events[0]["text"], events)

    def out(self, code, **more):
        ran = self.run(code, **more)
        assert ran.last["type"] == "execution_complete", ran.events
        return ran.of("stdout")

    def ask(self, method, path, *more):
        return self.execd.ask(method, self.url + path, *more)

    def diff(self):
        """The archive's entries by name: a file's bytes, or the entry."""
        with Stream(self.execd.connect(), f"{self.url}/diff", None) as stream:
            assert stream.status == 200, stream.file.read1()
            assert stream.headers["content-type"] == "application/gzip"
            data = b"".join(iter(stream.chunk, b""))
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as tar:
            return {m.name: tar.extractfile(m).read() if m.isfile() else m for m in tar}

    def end(self):
        return self.ask("DELETE", "")


@contextlib.contextmanager
def sandbox(*options):
    BROKER.ok("create", *options, "box", "--", "tail", "-f", "/dev/null")
    try:
        yield Client(BROKER.state / "box.sock")
    finally:
        BROKER.ctl("remove", "box")


def in_order(first, second):
    """Of two times, which are as long as they need to be."""
    return first.rstrip("Z") <= second.rstrip("Z")


def processes(box):
    """Numbers and names of all but those of the question."""
    lines = box.run("ps -eo pid=,comm=; echo").of("stdout")
    return [line.split()[1] for line in lines if line.strip() and "ps" not in line.split()[1:]
            and "bash" not in line]


# --- what there is ---


def says_what_it_can():
    with sandbox() as box:
        can = box.get(f"{ROOT}/capabilities").json()
        assert can["available"] and can["commit_supported"] and "message" not in can, can
        assert can["diff_supported"] and can["setpriv_available"], can
        assert can["profiles"] == ["strict", "balanced"] and can["share_net_overridable"], can
        assert can["workspace_modes"] == ["rw", "overlay", "ro"], can
        assert len(can["seccomp_profile_sha256"]) == 64 and not can["persist"]["available"], can
        wait_for(lambda: processes(box) == ["execd"], "the end of the try")


def is_unavailable_without_the_right():
    with Execd(PROGRAMS[1], setup=lambda: os.setresuid(NOBODY, NOBODY, NOBODY)) as execd:
        can = execd.get(f"{ROOT}/capabilities").json()
        assert can["available"] is False and "CAP_SYS_ADMIN" in can["message"], can
        for method, path in [("POST", "/session"), ("DELETE", "/session/x"),
                             ("POST", "/session/x/run"), ("POST", "/session/x/commit"),
                             ("POST", "/session/x/files/mv"), ("DELETE", "/session/x/files")]:
            reply = execd.ask(method, ROOT + path, {"isolation": {"workspace": {"path": "/tmp/x"}}})
            assert reply.status == 503, (path, reply)
            assert reply.json()["code"] == "NOT_SUPPORTED", reply


def says_when_no_session_can_be_made():
    drop_capability, set_capabilities = 24, 8
    libc = ctypes.CDLL(None)
    with Execd(PROGRAMS[1],
               setup=lambda: libc.prctl(drop_capability, set_capabilities, 0, 0, 0)) as execd:
        can = execd.get(f"{ROOT}/capabilities").json()
        assert can["available"] is False and "capabilities" in can["message"], can


# --- the box ---


def runs_code_and_tells_the_run():
    with sandbox() as box:
        s = Session(box)
        assert s.made["isolation"] == {"profile": "strict",
                                       "workspace": {"path": "/work", "mode": "overlay"}}, s.made
        assert s.made["artifacts"]["diff_url"] == f"{s.url}/diff", s.made
        ran = s.run("pwd; echo err >&2; exit 7")
        assert ran.of("stdout") == ["/work"] and ran.of("stderr") == ["err"]
        last = ran.last
        assert last["error"]["evalue"] == "7" and last["exit_code"] == 7, last
        assert last["run_id"] == ran.id and in_order(last["started_at"], last["finished_at"]), last
        assert s.run("true").last["exit_code"] == 0
        assert s.out("pwd; echo $A", cwd="/etc", envs={"A": "b c"}) == ["/etc", "b c"]
        assert s.out("mkdir sub", cwd="/work") == [] and s.out("pwd", cwd="sub") == ["/work/sub"]
        assert s.run("true", cwd="/nowhere").exit_code != 0
        state = s.ask("GET", "").json()
        assert 0 < state["idle_remaining_seconds"] <= 1800 and state["last_run_at"], state


def is_one_living_shell():
    with sandbox() as box:
        s = Session(box)
        s.out("f() { echo f$1; }; v='a b'; export w=1; mkdir d; cd d; shopt -s extglob; "
              "sleep 1000 &")
        assert s.out("f 2; echo $v $w; pwd; shopt -q extglob && jobs | wc -l") == [
            "f2", "a b 1", "/work/d", "1"]
        assert s.out("echo $w $x", envs={"w": "2", "x": "it's"}) == ["2 it's"]
        assert s.out("echo $w-$x-${x+set}") == ["--"] and s.out("f 3") == ["f3"]
        with Stream(box.connect(), f"{s.url}/run",
                    {"code": f"echo up; {until('/work/go')}"}) as stream:
            stream.output()
            assert s.ask("POST", "/run", {"code": "true"}).status == 409
            assert s.ask("POST", "/directories", {"/work/go": {}}).status == 200
            assert list(stream.events())[-1]["type"] == "execution_complete"
        last = s.run("sleep 100", timeout_seconds=1).last
        assert last["exit_code"] == -1, last
        if "the machine gave it no time" not in last["error"]["traceback"][0]:
            assert s.out("f 4; pwd") == ["f4", "/work/d"], "a timeout leaves the shell as it was"
        assert s.run("exit 5").exit_code == 5
        assert s.out("type f 2>/dev/null | wc -l; pwd") == ["0", "/work"]


def refuses_writes_outside_the_workspace():
    with sandbox() as box:
        s = Session(box, mode="rw")
        for path in ("/x", "/etc/x", "/usr/x", "/var/x", "/root/x", "/home/x", "/proc/sys/x"):
            ran = s.run(f"echo x > {path}")
            assert ran.exit_code != 0 and box.run(f"test -e {path}").exit_code != 0, path
        for rest in (b"", b" and what nobody reads"):
            reply = s.ask("POST", "/directories", b'{"/tmp/d": {}}' + rest)
            assert reply.status == 400 and "outside" in reply.json()["message"], reply
        assert s.out("echo x > w; cat w") == ["x"]
        assert box.run("cat /work/w").of("stdout") == ["x"]
        assert Session(box, mode="ro").run("echo x > n").exit_code != 0


def takes_no_link_to_what_cannot_be_a_workspace():
    with sandbox() as box:
        box.run("mkdir -p /work/real; cd /work; ln -s real link; ln -s / root; ln -s /proc proc; "
                "ln -s /dev/shm shm; ln -s root again")
        for name in ("root", "proc", "shm", "again", "root/proc"):
            for mode in ("rw", "overlay"):
                reply = box.ask("POST", f"{ROOT}/session", {"isolation": {
                    "workspace": {"path": f"/work/{name}", "mode": mode}}})
                assert reply.status == 400, reply
                assert "cannot be a workspace" in reply.json()["message"], reply
        assert Session(box, path="/work/link", mode="rw").out("echo x > f; pwd") == ["/work/link"]
        assert box.run("cat /work/real/f").of("stdout") == ["x"]
        s = Session(box, path="/work/link", mode="overlay")
        assert s.out("echo y > g; pwd") == ["/work/link"]
        assert s.ask("POST", "/commit").status == 200
        assert box.run("cat /work/real/g").of("stdout") == ["y"]


def stays_where_it_was_made_whatever_its_name_leads_to():
    with sandbox() as box:
        box.run("mkdir -p /work/a/w /work/b/w; cd /work; ln -s a link; echo b > b/w/theirs")
        s = Session(box, path="/work/link/w", mode="overlay")
        assert s.out("echo x > f; ls") == ["f"]
        box.run("ln -sfn b /work/link")
        assert s.ask("POST", "/commit", {"reset_upper_after": True}).status == 200
        assert box.run("cd /work; ls a/w b/w").of("stdout") == [
            "a/w:", "f", "\n", "b/w:", "theirs"]
        assert s.out("ls") == ["f"]


def keeps_places_of_its_own():
    with sandbox() as box:
        box.run("echo theirs > /tmp/t; echo theirs > /dev/shm/t; mkdir -p /run; echo r > /run/t")
        s = Session(box)
        assert s.out("ls /tmp /run /dev/shm | wc -l; echo x > /tmp/mine; echo x > /dev/shm/mine")
        assert s.out("ls -A /tmp /run") == ["/run:", "\n", "/tmp:", "mine"]
        assert box.run("ls /tmp /dev/shm | grep -c mine").of("stdout") == ["0"]
        assert s.out("python3 -c 'import pty; pty.openpty(); print(1)'") == ["1"]
        b = Session(box, profile="balanced")
        assert b.out("cat /tmp/t; echo x > /tmp/shared; pwd; echo w > w") == ["theirs", "/work"]
        assert box.run("cat /tmp/shared /work/w").of("stdout") == ["x", "w"]


def has_no_device_but_the_usual_ones():
    usual = "fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero".split()
    with Execd(PROGRAMS[1]) as execd, tempfile.TemporaryDirectory() as folder:
        for profile in ("strict", "balanced"):
            s = Session(execd, profile=profile, path=folder)
            assert s.out("ls /dev") == usual
            assert s.out("head -c 3 /dev/zero | wc -c; echo x > /dev/null; echo y > /dev/stdout; "
                         "echo z > /dev/shm/z; touch /dev/more || echo no") == ["3", "y", "no"]
            s.end()


def sees_no_process_but_its_own():
    with sandbox() as box:
        sleeper = box.run("sleep 1000", background=True)
        s = Session(box)
        assert s.out("ls -d /proc/[0-9]* | wc -l")[0] in ("3", "4")  # init, the shell, ls and wc
        assert s.run("pgrep sleep").exit_code == 1
        assert s.run("kill -9 -1; echo alive").of("stdout") == ["alive"]
        assert box.status(sleeper.id)["running"]
        assert s.out("echo still here") == ["still here"], "its first process was killed"


def has_no_way_to_more():
    attempts = ["unshare -m true", "unshare -U true", "mount -t tmpfs x /mnt", "umount /tmp",
                "mount -o remount,rw /", "chroot / true", "nsenter -t 1 -m true",
                "cat /proc/1/environ", "ls /proc/1/fd", "ls /proc/1/root/", "hostname x",
                "mknod /tmp/d c 1 3", "chown 1000 /work", "head -c 1 /proc/1/mem",
                "python3 -c 'import ctypes as c; l = c.CDLL(None, use_errno=True); "
                "exit(l.ptrace(16, 1, 0, 0) == -1)'",
                "python3 -c 'import os; os.setuid(1)'"]
    with sandbox() as box:
        s = Session(box)
        for attempt in attempts:
            assert s.run(attempt).exit_code != 0, attempt
        status = s.out("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status")
        assert [line.split()[1] for line in status] == ["0" * 16] * 5 + ["1", "2"], status


def becomes_a_user_without_an_entry():
    with sandbox() as box:
        s = Session(box, uid=4321)
        assert s.out("id -u; id -g; id -G; touch mine; stat -c %u mine") == ["4321"] * 4
        assert Session(box, uid=4321, gid=99).out("id -g") == ["99"]
        assert s.run("touch /work/../etc/x").exit_code != 0


def holds_back_secrets():
    env = ("DB_PASSWORD", "my_token", "AWS_REGION", "KUBE_X", "PLAIN")
    options = [word for name in env for word in ("--env", f"{name}=v-{name}")]
    with sandbox(*options) as box:
        strict = "\n".join(Session(box).out("env"))
        assert "v-PLAIN" in strict and "v-DB" not in strict and "v-my" not in strict, strict
        assert "v-AWS" not in strict and "v-KUBE" not in strict, strict
        assert "v-AWS" in "\n".join(Session(box, profile="balanced").out("env"))
        only = Session(box, env_passthrough={"mode": "allow", "keys": ["aws_*"]})
        only = "\n".join(only.out("env"))
        assert "v-AWS" in only and "v-PLAIN" not in only and "PATH=" in only, only
        less = Session(box, env_passthrough={"mode": "deny", "keys": ["PLA*"]})
        assert "v-PLAIN" not in "\n".join(less.out("env"))
        assert less.out("echo $PLAIN", envs={"PLAIN": "given"}) == ["given"]


def has_a_network_of_its_own_when_asked():
    with sandbox() as box:
        s = Session(box, share_net=False)
        ours = box.run("readlink /proc/self/ns/net").of("stdout")
        assert s.out("readlink /proc/self/ns/net") != ours
        assert s.out("cat /sys/class/net/lo/operstate || ip -o link | wc -l")
        listen = "import socket; s = socket.create_server(('127.0.0.1', 0)); " \
                 "socket.create_connection(s.getsockname()); print('up')"
        assert s.out(f"python3 -c \"{listen}\"") == ["up"]
        assert Session(box).out("readlink /proc/self/ns/net") == ours


# --- ends ---


def times_out():
    with sandbox() as box:
        s = Session(box)
        ran = s.run("sleep 100 & sleep 100", timeout_seconds=1)
        assert ran.last["error"]["traceback"][0].startswith("timeout after 1s: "), ran.last
        assert ran.last["exit_code"] == -1, ran.last
        assert s.out("echo usable") == ["usable"]


def breaks_off_runs_as_other_shells_do():
    """By a signal for the shell alone, which traps it: SIGINT would end some of them."""
    code = "trap 'echo broke; kill -INT $$' 63; echo begun; while :; do :; done"
    for kind in ("bash", "dash", "busybox"):
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            name = "bash" if kind == "bash" else "sh"
            if not shutil.which(kind):
                continue
            os.symlink(shutil.which(kind), f"{folder}/{name}")
            with foreign(env={"PATH": folder}) as execd:
                s = Session(execd, path=execd.work)
                s.out("kept=yes")
                for seconds in (1, 10, 100):  # the first may be over before it has begun
                    ran = s.run(code, timeout_seconds=seconds)
                    if ran.of("stdout"):
                        break
                assert "broke" in ran.of("stdout"), (kind, ran.events)
                assert s.out("echo $kept") == ["yes"], kind


def leaves_nothing():
    with sandbox() as box:
        s = Session(box)
        s.run("setsid sleep 1000 & setsid -f sleep 1000; exit 0")
        with Stream(box.connect(), f"{s.url}/run", {"code": "echo up; sleep 1000"}) as stream:
            while stream.event()["type"] != "stdout":
                pass
            assert s.ask("GET", "/files/info?path=/work").status == 200
            assert s.end().status == 200
            events = list(stream.events())
        assert events[-1]["error"]["traceback"] == ["signal: killed"], events
        wait_for(lambda: processes(box) == ["execd"], "the end of all")
        assert s.ask("GET", "").status == 404 and s.end().status == 404
        wait_for(lambda: box.run("grep -c . /proc/net/unix").of("stdout") == ["1"], "all sockets")


def longer(use):
    """The result of use(seconds), tried with longer idle times: a session may end before it is
    used."""
    for seconds in (1, 4, 16):
        with contextlib.suppress(TooLate):
            return use(seconds)
    raise AssertionError("no session lived long enough to be used")


class TooLate(Exception):
    """A session has ended by itself."""


def ends_after_idling():
    with sandbox() as box:
        def use(seconds):
            s = Session(box, idle_timeout_seconds=seconds)
            code = {"code": f"sleep {1.5 * seconds}; echo busy"}
            with Stream(box.connect(), f"{s.url}/run", code) as stream:
                if stream.status == 404:
                    raise TooLate
                assert stream.output()["text"] == "busy"
            return s

        s = longer(use)
        wait_for(lambda: s.ask("GET", "").status == 404, "the end of an idle session")
        wait_for(lambda: processes(box) == ["execd"], "its processes")
        for_ever = Session(box, idle_timeout_seconds=0)
        assert for_ever.ask("GET", "").json()["idle_remaining_seconds"] is None


def background(session, code, **more):
    reply = session.ask("POST", "/run", {"code": code, "background": True, **more})
    assert reply.status == 202, reply
    return f"/runs/{reply.json()['run_id']}"


def runs_in_the_background_beside_its_shell():
    with sandbox() as box:
        s, other = Session(box), Session(box)
        run = background(s, "pwd; echo $A; touch made; read x; exit 3", envs={"A": "b c"})
        wait_for(lambda: s.ask("GET", f"{run}/logs").body == b"/work\nb c\n", "its output")
        wait_for(lambda: not s.ask("GET", run).json()["running"], "its end: nobody writes to it")
        state = s.ask("GET", run).json()
        assert (state["exit_code"], state["error"]) == (3, "exit status 3"), state
        assert state["session_id"] == s.made["session_id"] and run.endswith(state["run_id"]), state
        assert in_order(state["started_at"], state["finished_at"]), state
        assert s.out("ls") == ["made"]
        logs = s.ask("GET", f"{run}/logs?cursor=6")
        assert logs.body == b"b c\n" and logs.headers["execd-isolated-tail-cursor"] == "10", logs
        assert other.ask("GET", run).status == 404, "a run of another session"


def does_not_idle_while_something_runs_in_the_background():
    with sandbox() as box:
        def use(seconds):
            s = Session(box, idle_timeout_seconds=seconds)
            code = "until [ -e go ]; do sleep 0.1; done; sleep 1000 & exit"
            if s.ask("POST", "/run", {"code": code, "background": True}).status == 404:
                raise TooLate
            time.sleep(2 * seconds)
            return s

        s = longer(use)
        assert s.ask("GET", "").json()["status"] == "active"
        assert s.ask("POST", "/commit", {}).status == 409, "committed below a run"
        assert s.out("touch go") == []
        wait_for(lambda: s.ask("GET", "").status == 404, "its end once that is over")
        wait_for(lambda: processes(box) == ["execd"], "the end of what the run left")


def interrupts_all_of_what_runs_in_the_background():
    stubborn = "trap '' TERM; echo up; while :; do sleep 1000; done"
    with sandbox() as box:
        s = Session(box)
        before = sorted(processes(box))
        for code in (stubborn, f"({stubborn}) & wait", "echo up; sleep 1000 & wait"):
            run = background(s, code)
            wait_for(lambda: s.ask("GET", f"{run}/logs").body == b"up\n", "its output")
            assert box.ask("DELETE", f"/command?id={run.removeprefix('/runs/')}").status == 200
            wait_for(lambda: sorted(processes(box)) == before, "the end of all its processes")
            wait_for(lambda: not s.ask("GET", run).json()["running"], "its end")
            assert s.ask("GET", run).json()["exit_code"] == -1, code


def ends_what_runs_in_the_background_with_it():
    with sandbox() as box:
        s = Session(box)
        run = background(s, "exec sleep 1000")
        assert s.ask("GET", run).json()["running"]
        assert s.end().status == 200 and s.ask("GET", run).status == 404
        wait_for(lambda: processes(box) == ["execd"], "the end of the run")


def notices_that_its_first_process_was_killed():
    with sandbox() as box:
        s = Session(box)
        assert box.run("pkill -9 -x session").exit_code == 0
        wait_for(lambda: s.ask("GET", "").status == 404, "the end of the session")


def interrupts_a_run_whose_client_leaves():
    with sandbox() as box:
        s = Session(box)
        s.out("f() { echo f; }; cd /")
        with Stream(box.connect(), f"{s.url}/run",
                    {"code": "echo up; sleep 1000; echo on > /work/on; sleep 1000",
                     "timeout_seconds": 0}) as stream:
            while stream.event()["type"] != "stdout":
                pass
        wait_for(lambda: s.ask("POST", "/commit").status != 409, "the end of the run")
        left = s.out("f; pwd; ls /work; pgrep sleep | wc -l")
        assert left == ["f", "/", "0"], left


# --- watches ---


class Watch:
    """A directory of a session, watched."""

    def __init__(self, session, path, query=""):
        self.stream = Stream(session.execd.connect(),
                             f"{session.url}/directories/watch?path={path}{query}", None)
        self.events, self.rest = [], ""
        assert self.stream.status == 200, self.stream.file.read1()

    def until(self, kind):
        while kind not in [event["type"] for event in self.events]:
            assert self.more(), self.events

    def more(self):
        data = self.stream.chunk().decode()
        *whole, self.rest = (self.rest + data).split("\n\n")
        self.events += map(json.loads, whole)
        return data

    def end(self):
        """Reads it to the end, which must be proper; the last event."""
        while self.more():
            pass
        check_order(self.events)
        assert not self.rest
        return self.events[-1]["error"]


def tells_a_watch_that_its_session_ends():
    with sandbox() as box:
        s = Session(box)
        with Watch(s, "/work").stream as stream:
            assert stream.headers["content-type"] == "text/event-stream"
        watches = [Watch(s, "/work"), Watch(s, "/work", "&recursive=true")]
        for watch in watches:
            watch.until("init")
        s.out("echo x > f")
        for watch in watches:
            watch.until("create")
        assert s.ask("POST", "/commit").status == 409, "a watch uses the session"
        assert s.end().status == 200 and s.ask("GET", "").status == 404
        for watch in watches:
            assert watch.end()["evalue"] == "the session has ended", watch.events
        wait_for(lambda: processes(box) == ["execd"], "the end of all")


def tells_a_watch_of_every_other_end():
    with sandbox() as box:
        s = Session(box)
        s.out("mkdir d")
        watch = Watch(s, "/work/d")
        watch.until("init")
        assert box.run("pkill -9 -x session-files").exit_code == 0
        assert "cannot be reached" in watch.end()["evalue"], watch.events
        wait_for(lambda: s.ask("GET", "/files/info?path=/work").status == 200,
                 # a killed process closes its connections a moment before it can be reaped
                 "a successor")
        watch = Watch(s, "/work/d")
        watch.until("init")
        s.out("rmdir d")
        assert watch.end()["evalue"] == "the directory is gone", watch.events
        watch = Watch(s, "/work")
        watch.until("init")
        assert box.run("pkill -9 -x session").exit_code == 0
        assert watch.end()["evalue"] == "the session has ended", watch.events
    with foreign() as execd:
        watch = Watch(Session(execd, path=execd.work), execd.work)
        watch.until("init")
        execd.process.terminate()
        assert watch.end()["ename"] == "WatchError", watch.events


# --- the layer ---


def keeps_what_is_below_until_commit():
    with sandbox() as box:
        box.run("mkdir -p /work/gone/a /work/new; echo 1 > /work/f; echo 2 > /work/gone/a/b; "
                "echo 3 > /work/new/old")
        s = Session(box)
        s.out("echo changed > f; rm -r gone new; mkdir new; echo n > new/n; ln -s f link; "
              "mkdir -p deep/er; head -c 300000 /dev/urandom > deep/er/big; cp deep/er/big copy")
        before = ["/work", "/work/f", "/work/gone", "/work/gone/a", "/work/gone/a/b", "/work/new",
                  "/work/new/old"]
        assert box.run("find /work | sort").of("stdout") == before
        diff = s.diff()
        assert sorted(diff) == ["copy", "deep", "deep/er", "deep/er/big", "f", "gone", "link",
                                "new", "new/n"], sorted(diff)
        assert diff["f"] == b"changed\n" and diff["link"].linkname == "f"
        assert diff["gone"].ischr() and diff["gone"].devmajor == diff["gone"].devminor == 0
        assert diff["new"].pax_headers["SCHILY.xattr.user.overlay.opaque"] == "y"
        assert len(diff["deep/er/big"]) == 300000 and diff["copy"] == diff["deep/er/big"]
        reply = s.ask("POST", "/commit", {"strategy": "overwrite"})
        assert reply.json() == {"files_written": 5, "paths_removed": 1, "upper_reset": False}, reply
        assert box.run("cd /work; find . | sort; cat f; cmp copy deep/er/big").of("stdout") == [
            ".", "./copy", "./deep", "./deep/er", "./deep/er/big", "./f", "./link", "./new",
            "./new/n", "changed"]
        assert s.out("cat f new/n") == ["changed", "n"]


def begins_anew_after_a_commit_that_resets():
    with sandbox() as box:
        s = Session(box)
        s.out("echo 1 > a; setsid -f sleep 1000")
        assert s.ask("POST", "/commit", {"reset_upper_after": True}).json()["upper_reset"]
        assert s.diff() == {} and s.out("cat a; pgrep sleep | wc -l") == ["1", "0"]
        s.out("rm a")
        assert box.run("cat /work/a").of("stdout") == ["1"]
        s.ask("POST", "/commit")
        assert box.run("ls /work").of("stdout") == []


def commits_only_what_can_be():
    with sandbox() as box:
        assert Session(box, mode="rw").ask("POST", "/commit").status == 503
        assert Session(box, mode="rw").ask("GET", "/diff").status == 404
        s = Session(box)
        assert s.ask("POST", "/commit", {"strategy": "merge"}).status == 400
        for nothing in (b" null", b"\n"):
            assert s.ask("POST", "/commit", nothing).status == 200, nothing
        with Stream(box.connect(), f"{s.url}/run", {"code": "echo up; sleep 1000"}) as stream:
            while stream.event()["type"] != "stdout":
                pass
            busy = s.ask("POST", "/commit")
            assert busy.status == 409 and busy.json()["code"] == "SESSION_BUSY", busy


def commits_not_while_files_are_written():
    with sandbox() as box:
        box.run("mkdir /work")
        s = Session(box)
        form = FORM.format("/work/f").encode()
        with box.connect() as client:
            client.sendall(f"POST {s.url}/files/upload HTTP/1.1\r\nHost: x\r\n{FORM_TYPE[0]}\r\n"
                           f"Content-Length: {len(form)}\r\n\r\n".encode() + form[:-20])
            wait_for(lambda: s.ask("POST", "/commit").status == 409, "the upload to have begun")
            client.sendall(form[-20:])
            assert client.recv(64).startswith(b"HTTP/1.1 200"), "the upload"
        assert s.ask("POST", "/commit").status == 200
        assert box.run("cat /work/f").of("stdout") == ["DATA"]


def does_not_follow_links_when_it_commits():
    with sandbox() as box:
        box.run("mkdir -p /work/d /target; echo safe > /target/f")
        s = Session(box)
        s.out("echo evil > d/f; mkdir e; echo evil > e/f")
        box.run("rmdir /work/d; ln -s /target /work/d; ln -s /target /work/e")
        s.ask("POST", "/commit")
        assert box.run("cat /target/f; ls /target").of("stdout") == ["safe", "f"]


def limits_a_layer():
    with sandbox() as box:
        s = Session(box, persist={"max_size_bytes": MIB})
        assert s.run("head -c 2000000 /dev/zero > big").exit_code != 0
        assert s.out("rm big; echo fits > small; cat small") == ["fits"]


# --- files ---


def serves_files_as_the_session_sees_them():
    with sandbox() as box:
        box.run("mkdir /work; echo below > /work/f")
        s = Session(box, uid=1234)
        s.run("rm -f f; echo x")
        s = Session(box)
        s.out("echo mine > g; rm f; ln -s /etc/hostname link")
        assert s.ask("GET", "/files/info?path=/work/f").status == 404
        assert s.ask("GET", "/files/download?path=/work/g").body == b"mine\n"
        assert s.ask("POST", "/files/upload", FORM.format("/work/up/f").encode(),
                     FORM_TYPE).status == 200
        assert s.out("cat up/f") == ["DATA"] and box.run("ls /work").of("stdout") == ["f"]
        assert s.ask("POST", "/files/mv", [{"src": "/work/g", "dest": "/work/h"}]).status == 200
        assert s.ask("POST", "/files/permissions", {"/work/h": {"mode": 600}}).status == 200
        assert s.ask("POST", "/directories", {"/work/made": {"mode": 755}}).status == 200
        names = [row["path"] for row in s.ask("GET", "/files/search?path=/work&pattern=*").json()]
        assert names == ["/work/h", "/work/link", "/work/up/f"], names
        change = {"/work/h": {"old": "mine", "new": "yours"}}
        assert s.ask("POST", "/files/replace", change).status == 200
        assert s.out("cat h; stat -c %a h") == ["yours", "600"]
        assert s.ask("DELETE", "/files?path=/work/h").status == 200
        assert s.ask("DELETE", "/directories?path=/work/made").status == 200
        assert s.out("ls") == ["link", "up"]


def gives_new_files_to_the_user_of_the_session():
    with sandbox() as box:
        s = Session(box, uid=1234)
        s.ask("POST", "/files/upload", FORM.format("/work/f").encode(), FORM_TYPE)
        assert s.out("stat -c %u f; echo more >> f; cat f") == ["1234", "DATAmore"]


def leaves_no_part_of_a_file_when_it_ends():
    with sandbox() as box:
        box.run("mkdir /work")
        s = Session(box, mode="rw")
        form = half_form("/work/part").encode()
        with box.connect() as client:
            client.sendall(f"POST {s.url}/files/upload HTTP/1.1\r\nHost: x\r\n{FORM_TYPE[0]}\r\n"
                           f"Content-Length: {len(form) + 7}\r\n\r\n".encode() + form)
            wait_for(lambda: box.run("ls -A /work").of("stdout"),
                     "the temporary file")  # named: a box has no /proc for others
            assert s.end().status in (200, 204)
            wait_for(lambda: not box.run("ls -A /work").of("stdout"), "its end")


def kills_a_process_of_files_that_hangs():
    with sandbox() as box:
        s = Session(box)
        assert s.ask("GET", "/directories/list?path=/work").status == 200
        assert box.run("pkill -STOP -x session-files").exit_code == 0
        s.end()
        wait_for(lambda: box.run("pgrep -x session-files").exit_code == 1, "its end")


def keeps_file_routes_within_the_workspace():
    with sandbox() as box:
        s = Session(box)
        for method, path, *body in [
                ("GET", "/files/info?path=/etc/passwd"), ("GET", "/files/download?path=/work/../x"),
                ("DELETE", "/files?path=/work/a&path=/tmp/b"),
                ("GET", "/directories/list?path=/"), ("DELETE", "/directories?path=/worker"),
                ("POST", "/files/mv", [{"src": "/work/a", "dest": "/tmp/a"}]),
                ("POST", "/files/permissions", {"/etc/x": {"mode": 600}}),
                ("POST", "/directories", {"/tmp/x": {}}),
                ("POST", "/files/upload", FORM.format("/tmp/x").encode(), FORM_TYPE)]:
            reply = s.ask(method, path, *body)
            assert reply.status == 400, (path, reply)
        s.out("ln -s /etc out")
        reply = s.ask("POST", "/files/upload", FORM.format("/work/out/x").encode(), FORM_TYPE)
        assert reply.status == 500 and box.run("test -e /etc/x").exit_code == 1, reply
        reader = Session(box, mode="ro")
        assert reader.ask("POST", "/directories", {"/work/x": {}}).status == 403
        assert reader.ask("DELETE", "/files?path=/work/x").status == 403
        assert reader.ask("GET", "/directories/list?path=/work").status == 200


# --- bodies ---


def says_what_is_wrong():
    with sandbox() as box:
        for body in ({}, {"isolation": {}}, {"isolation": {"workspace": {}}},
                     {"isolation": {"workspace": {"path": "/"}}},
                     {"isolation": {"workspace": {"path": "/proc/x"}}},
                     {"isolation": {"workspace": {"path": "/w", "mode": "x"}}},
                     {"isolation": {"workspace": {"path": "/w"}, "profile": "x"}},
                     {"isolation": {"workspace": {"path": "/w"}, "extra_writable": ["/var"]}},
                     {"isolation": {"workspace": {"path": "/w", "persist": {"enabled": True}}}},
                     {"isolation": {"workspace": {"path": "/w",
                                                  "persist": {"max_size_bytes": 1 << 40}}}},
                     {"isolation": {"workspace": {"path": "/etc/passwd"}}},
                     {"workspace": {"path": "/w"}, "binds": [{"source": "/usr"}]},
                     {"workspace": {"path": "/w"}, "overlays": [{"path": "/v"}]},
                     {"overlays": [{"path": "/w", "persist": True}]},
                     {"workspace": {"path": "/w"}, "uid_mode": "userns"}):
            reply = box.ask("POST", f"{ROOT}/session", body)
            assert reply.status == 400, (body, reply)
        s = Session(box)
        for body in ({}, {"code": ""}, {"code": "a\0b"}, {"code": "x", "envs": {"a=b": "c"}},
                     {"code": "x", "timeout_seconds": -1}):
            assert s.ask("POST", "/run", body).status == 400, body
        assert s.ask("GET", "/runs/none").status == s.ask("GET", "/runs/none/logs").status == 404
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/run"), ("GET", "/diff"),
                             ("GET", "/runs/x")):
            assert box.ask(method, f"{ROOT}/session/none{path}", {"code": "x"}).status == 404


def takes_bodies_as_newer_clients_write_them():
    with sandbox() as box:
        for body, mode in (({"workspace": {"path": "/w", "mode": "rw"}}, "rw"),
                           ({"overlays": [{"path": "/w", "persist": False}],
                             "uid_mode": "setpriv"}, "overlay"),
                           ({"overlays": [{"path": "/w"}]}, "overlay"),
                           ({"overlays": [{"path": "/w", "mode": "ro"}], "uid": 7, "gid": 8,
                             "share_net": False, "idle_timeout_seconds": 0}, "ro")):
            made = box.ask("POST", f"{ROOT}/session", body).json()
            state = box.get(f"{ROOT}/session/{made['session_id']}").json()
            assert state["status"] == "active", state
            for answer in (made, state):
                assert answer["workspace"] == {"path": "/w", "mode": mode}, answer
                assert answer["profile"] == "strict" and answer["extra_writable"] == [], answer
                for key in ("uid", "gid", "share_net", "idle_timeout_seconds"):
                    assert key not in body or answer[key] == body[key], (key, answer)
        listed = box.get(f"{ROOT}/sessions").json()["sessions"]
        assert len(listed) == 4 and all(row["status"] == "active" for row in listed), listed
        assert listed[0]["last_run_at"] == listed[0]["created_at"], listed
        assert made["session_id"] in [row["session_id"] for row in listed], listed


def bounds_what_there_is():
    with sandbox() as box:
        made = [box.ask("POST", f"{ROOT}/session", {"isolation": {"workspace": {"path": "/w"}}})
                for _ in range(66)]
        assert [reply.status for reply in made] == [200] * 64 + [503] * 2, made[-1]
        for reply in made[:64]:
            assert box.ask("DELETE", f"{ROOT}/session/{reply.json()['session_id']}").status == 200
        wait_for(lambda: processes(box) == ["execd"], "the end of all")


# --- in a foreign image ---


@contextlib.contextmanager
def foreign(*options, env=None):
    with tempfile.TemporaryDirectory(prefix="isolated-") as folder, \
            Execd(PROGRAMS[1], *options, env=env) as execd:
        execd.work = f"{folder}/work"
        yield execd


def works_where_execd_is_an_ordinary_process():
    with foreign() as execd:
        s = Session(execd, path=execd.work, uid=NOBODY)
        assert s.out("id -u; echo x > f; cat f; ls /proc | grep -c '^[0-9]'")[:2] == ["65534", "x"]
        assert not os.path.exists(f"{execd.work}/f")
        assert s.ask("GET", f"/files/download?path={execd.work}/f").body == b"x\n"
        assert s.diff() == {"f": b"x\n"}
        assert s.ask("POST", "/commit").status == 200
        assert pathlib.Path(f"{execd.work}/f").read_bytes() == b"x\n"
        assert s.run("mount -t tmpfs x /mnt").exit_code != 0
        assert s.end().status == 200


def opens_no_device_of_ours():
    """No device node outside of /dev works either, even one that root of the session owns."""
    with foreign() as execd, tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        try:
            os.mknod(f"{folder}/zero", 0o600 | stat.S_IFCHR, os.makedev(1, 5))
        except PermissionError as e:
            raise tap.Skip(f"a device cannot be made here: {e}") from e
        s = Session(execd, path=execd.work)
        assert s.out(f"id -u; ls {folder}; head -c 3 {folder}/zero || echo no; "
                     "head -c 3 /dev/zero | wc -c; echo x > /dev/null; chmod 600 /dev/null || "
                     "echo read-only") == ["0", "zero", "no", "3", "read-only"]


def tells_a_run_that_execd_ends():
    with foreign() as execd:
        s = Session(execd, path=execd.work)
        with Stream(execd.connect(), f"{s.url}/run", {"code": "echo on; sleep 100"}) as stream:
            events = stream.events()
            began = [next(events)]
            while began[-1]["type"] != "stdout":
                began.append(next(events))
            execd.process.terminate()
            check_order(began + list(events))


def leaves_no_part_of_a_file(execd, work, end):
    """Of a file that was on its way when everything ended."""
    s = Session(execd, path=work, mode="rw")
    form = half_form(pathlib.Path(work, "part")).encode()
    with execd.connect() as client:
        client.sendall(f"POST {s.url}/files/upload HTTP/1.1\r\nHost: x\r\n{FORM_TYPE[0]}\r\n"
                       f"Content-Length: {len(form) + 7}\r\n\r\n".encode() + form)
        wait_for(lambda: os.listdir(work), "the temporary file")
        end()
    assert not os.listdir(work), os.listdir(work)


def leaves_no_part_of_a_file_when_execd_ends():
    def end(process):
        process.terminate()
        process.wait(SECONDS_MAX)

    with foreign() as execd:
        os.mkdir(execd.work)
        leaves_no_part_of_a_file(execd, execd.work, lambda: end(execd.process))
    reserve_descriptors()
    for argv in (["sleep", "1000"], ["tail", "-f", "/dev/null"]):  # the latter is not run
        with tempfile.TemporaryDirectory(prefix="isolated-") as folder, \
                Init(PROGRAMS[1], *argv) as init:
            def end_first():
                init.signal(signal.SIGTERM)
                init.wait()

            os.mkdir(f"{folder}/work")
            leaves_no_part_of_a_file(Client(init.socket_path), f"{folder}/work",
                                     end_first)  # which has a second


def serves_others_during_a_commit():
    with foreign() as execd:
        s = Session(execd, path=execd.work)
        s.out("seq 3000 | xargs touch")
        for reset in (b"false", b"true"):
            commit, diff, *pings = overtake(
                execd, request("POST", f"{s.url}/commit", b'{"reset_upper_after": %s}' % reset),
                [request("GET", f"{s.url}/diff"), *PINGS])
            assert all(ping.status == 200 for ping in pings)
            assert diff.status == 409 and b"SESSION_BUSY" in diff.read(), diff.status
            assert commit.status == 200 and json.loads(commit.read())["files_written"] == 3000
            assert len(os.listdir(execd.work)) == 3000
        assert s.diff() == {}


def lets_allowed_paths_be_written():
    with tempfile.TemporaryDirectory(prefix="isolated-") as folder:
        with foreign(env={"EXECD_ISOLATION_ALLOWED_WRITABLE": f"/nowhere,{folder}/"}) as execd:
            os.mkdir(f"{folder}/in")
            can = execd.get(f"{ROOT}/capabilities").json()
            assert can["allowed_extra_writable_prefixes"] == ["/nowhere", f"{folder}/"], can
            s = Session(execd, path=execd.work, extra_writable=[f"{folder}/in"])
            s.out(f"echo x > {folder}/in/f")
            assert pathlib.Path(f"{folder}/in/f").read_bytes() == b"x\n"
            s.run(f"echo x > {folder}/f")
            assert os.listdir(folder) == ["in"]
            os.symlink("/etc", f"{folder}/in/out")
            reply = execd.ask("POST", f"{ROOT}/session", {"isolation": {
                "workspace": {"path": execd.work}, "extra_writable": [f"{folder}/in/out"]}})
            assert reply.status == 400 and "/etc" in reply.json()["message"], reply


@contextlib.contextmanager
def keeper(*options):
    """An execd that keeps layers, with the place of them."""
    with tempfile.TemporaryDirectory(prefix="isolated-upper-", dir="/var/tmp") as upper, \
            foreign("--isolation-upper-root", upper, *options) as execd:
        if not execd.get(f"{ROOT}/capabilities").json()["persist"]["available"]:
            raise tap.Skip(f"{upper} cannot have layers")
        yield execd, upper


def spares_a_session_that_moves_directories_while_they_are_counted():
    with keeper() as (execd, upper):
        s = Session(execd, path=execd.work, persist={"enabled": True, "max_size_bytes": 5 * MIB})
        s.out("mkdir -p a/d b; (cd a/d; seq 3000 | xargs touch)")
        other = pathlib.Path(upper) / "of-somebody-else"  # as much as the layer might have grown
        with open(other, "wb") as file:
            for _ in range(3):
                file.write(os.urandom(8 * MIB))
                file.flush()
                s.out("for i in $(seq 150); do mv a/d b/d; mv b/d a/d; done")
        other.unlink()
        assert s.ask("GET", "").json()["status"] == "active"
        s.end()


def ends_a_session_whose_layer_outgrows_its_ceiling():
    with keeper() as (execd, upper):
        persist = {"enabled": True, "max_size_bytes": 8 * MIB}
        s = Session(execd, path=execd.work, persist=persist)
        s.out("head -c 4000000 /dev/urandom > f; truncate -s 1G sparse; "
              "for i in $(seq 50); do ln f l$i; done; sleep 1")
        assert s.ask("GET", "").json()["status"] == "active", "a file was counted twice"
        s.out("rm l* sparse")
        # Other programs may free space meanwhile and so hide the growth until the next full walk.
        ran = s.run("while :; do head -c 100000 /dev/zero >> big; sleep 0.01; done",
                    timeout_seconds=300)
        why = f"the layer is larger than {8 * MIB} bytes"
        assert ran.last["error"]["traceback"] == [f"{why}: signal: killed"], ran.last
        assert ran.last["exit_code"] == -1, ran.last
        for method, path, *body in (("POST", "/run", {"code": "true"}),
                                    ("POST", "/files/upload", FORM.format("x").encode(), FORM_TYPE),
                                    ("GET", f"/files/info?path={execd.work}/f")):
            reply = s.ask(method, path, *body)
            assert reply.status == 413 and reply.json()["code"] == "CONTENT_TOO_LARGE", reply
            assert why in reply.json()["message"], reply
        state = s.ask("GET", "").json()
        assert state["status"] == "dead" and state["reason"] == why, state
        kept = s.diff()
        assert len(kept["f"]) == 4000000 < len(kept["big"])
        assert s.ask("POST", "/commit").status == 200 and s.end().status == 200
        wait_for(lambda: os.listdir(upper) == [], "the removal of the layer")
        many = Session(execd, path=execd.work, persist=persist)
        ran = many.run("seq 30000 | xargs touch; sleep 1000", timeout_seconds=300)
        assert ran.last["error"]["traceback"][0].startswith(why), ran.last


def refuses_an_upload_larger_than_the_layer():
    with keeper() as (execd, _):
        s = Session(execd, path=execd.work, persist={"enabled": True, "max_size_bytes": 8 * MIB})
        form = FORM.format(f"{execd.work}/f").encode()
        large = form.replace(b"DATA", os.urandom(9 * MIB))
        reply = s.ask("POST", "/files/upload", large, FORM_TYPE)
        assert reply.status == 413 and reply.json()["code"] == "CONTENT_TOO_LARGE", reply
        assert s.ask("POST", "/files/upload", form.replace(b"DATA", os.urandom(7 * MIB)),
                     FORM_TYPE).status == 200
        assert s.out("ls") == ["f"]
        form = form.replace(b"/f\"", b"/g\"")
        s.ask("POST", "/files/upload", form.replace(b"DATA", os.urandom(7 * MIB)), FORM_TYPE)
        wait_for(lambda: s.ask("GET", "").json()["status"] == "dead", "the end of the session")


def bounds_a_layer_without_a_size_in_the_request():
    with keeper("--isolation-upper-max-bytes", str(4 * MIB)) as (execd, _):
        persist = execd.get(f"{ROOT}/capabilities").json()["persist"]
        assert persist["max_size_bytes_default"] == persist["max_size_bytes_limit"] == 4 * MIB
        s = Session(execd, path=execd.work)
        assert s.run("head -c 5000000 /dev/zero > big").exit_code != 0
        reply = execd.ask("POST", f"{ROOT}/session", {"isolation": {"workspace": {
            "path": execd.work, "persist": {"max_size_bytes": 4 * MIB + 1}}}})
        assert reply.status == 400 and reply.json()["code"] == "INVALID_REQUEST_BODY", reply


def removes_what_is_kept():
    with keeper() as (execd, upper):
        s = Session(execd, path=execd.work, persist={"enabled": True, "retain_seconds": 1000})
        s.out("echo kept > f")
        assert s.end().status == 200 and s.diff() == {"f": b"kept\n"}
        assert s.end().status == 200 and s.ask("GET", "").status == 404
        assert s.ask("GET", "/diff").status == 404 and s.end().status == 404
        wait_for(lambda: os.listdir(upper) == [], "the removal of the layer")


def removes_what_is_kept_once_it_was_read():
    with keeper() as (execd, upper):
        s = Session(execd, path=execd.work, persist={"enabled": True})
        s.out("head -c 30000000 /dev/urandom > big")
        assert s.end().status == 200
        with Stream(execd.connect(), f"{s.url}/diff", None) as stream:
            data = stream.chunk()
            assert s.end().status == 200 and s.end().status == 404
            data += b"".join(iter(stream.chunk, b""))
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as tar:
            assert [m.size for m in tar] == [30000000]
        wait_for(lambda: os.listdir(upper) == [], "the removal of the layer")


def keeps_a_layer_that_persists():
    with keeper("--isolation-diff-max-bytes", "100000") as (execd, upper):
        s = Session(execd, path=execd.work, persist={"enabled": True, "retain_seconds": 1000})
        s.out("echo kept > f")
        assert len(os.listdir(upper)) == 1
        assert s.out(f"ls -A {upper}") == [], "what others keep can be seen"
        assert s.end().status == 200 and s.ask("POST", "/run", {"code": "x"}).status == 404
        assert s.diff() == {"f": b"kept\n"} and s.ask("GET", "").json()["status"] == "dead"
        assert s.ask("POST", "/commit").status == 200
        assert pathlib.Path(f"{execd.work}/f").read_bytes() == b"kept\n"
        assert s.end().status == 200
        s = Session(execd, path=execd.work, persist={"enabled": True, "retain_seconds": 1})
        assert s.end().status == 200
        wait_for(lambda: s.ask("GET", "").status == 404, "the end of retention")
        wait_for(lambda: os.listdir(upper) == [], "the removal of the layers")
        big = Session(execd, path=execd.work)
        big.out("head -c 200000 /dev/zero > big")
        assert big.ask("GET", "/diff").status == 413


TESTS = [
    says_what_it_can,
    is_unavailable_without_the_right,
    says_when_no_session_can_be_made,
    runs_code_and_tells_the_run,
    is_one_living_shell,
    refuses_writes_outside_the_workspace,
    takes_no_link_to_what_cannot_be_a_workspace,
    stays_where_it_was_made_whatever_its_name_leads_to,
    keeps_places_of_its_own,
    has_no_device_but_the_usual_ones,
    sees_no_process_but_its_own,
    has_no_way_to_more,
    becomes_a_user_without_an_entry,
    holds_back_secrets,
    has_a_network_of_its_own_when_asked,
    times_out,
    breaks_off_runs_as_other_shells_do,
    leaves_nothing,
    ends_after_idling,
    runs_in_the_background_beside_its_shell,
    does_not_idle_while_something_runs_in_the_background,
    interrupts_all_of_what_runs_in_the_background,
    ends_what_runs_in_the_background_with_it,
    notices_that_its_first_process_was_killed,
    interrupts_a_run_whose_client_leaves,
    tells_a_watch_that_its_session_ends,
    tells_a_watch_of_every_other_end,
    keeps_what_is_below_until_commit,
    begins_anew_after_a_commit_that_resets,
    commits_only_what_can_be,
    commits_not_while_files_are_written,
    does_not_follow_links_when_it_commits,
    limits_a_layer,
    serves_files_as_the_session_sees_them,
    gives_new_files_to_the_user_of_the_session,
    leaves_no_part_of_a_file_when_it_ends,
    kills_a_process_of_files_that_hangs,
    keeps_file_routes_within_the_workspace,
    says_what_is_wrong,
    takes_bodies_as_newer_clients_write_them,
    bounds_what_there_is,
    works_where_execd_is_an_ordinary_process,
    opens_no_device_of_ours,
    tells_a_run_that_execd_ends,
    leaves_no_part_of_a_file_when_execd_ends,
    serves_others_during_a_commit,
    lets_allowed_paths_be_written,
    spares_a_session_that_moves_directories_while_they_are_counted,
    ends_a_session_whose_layer_outgrows_its_ceiling,
    refuses_an_upload_larger_than_the_layer,
    bounds_a_layer_without_a_size_in_the_request,
    removes_what_is_kept,
    removes_what_is_kept_once_it_was_read,
    keeps_a_layer_that_persists,
]


if __name__ == "__main__":
    tap.skip_all(why_not())
    with Broker(*PROGRAMS) as BROKER:
        sys.exit(tap.run_tests(TESTS))
