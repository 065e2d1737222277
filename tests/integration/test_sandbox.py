"""Sandboxes from outside and inside: what a broker makes, limits, keeps apart, ends and remembers.

Usage: test_sandbox.py BROKER EXECD SANDBOXCTL. TAP on standard output. Needs root.
"""
import concurrent.futures
import contextlib
import os
import pathlib
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from broker_process import (  # noqa: E402
    CONFIG, LIST, SPAWN, WIRE_VERSION, Broker, ask, is_alive, wait_for, why_not)

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:4]]
MIB = 1 << 20
UID_FIRST, UID_RANGE = 0x70000000, 65536
MANY, AT_ONCE = 50, 10  # more would have to wait their turn longer than a client does, in a slow VM
GRACE_MS = 3600 * 1000  # a kill with this grace time that returns did not wait for its end
BROKER = None  # the one most tests share


def shell(line, *options, name="x"):
    return BROKER.shell(name, line, *options)


@contextlib.contextmanager
def created(name, line, *options, broker=None):
    """A sandbox that lives until the end of the block."""
    broker = broker or BROKER
    broker.ok("create", *options, name, "--", "sh", "-c", line)
    try:
        yield name
    finally:
        broker.ctl("remove", name)


def log_of(name, until):
    """Waits for a line in its output."""
    wait_for(lambda: until in BROKER.ctl("log", name).stdout, f"'{until}' from {name}")
    return BROKER.ok("log", name)


@contextlib.contextmanager
def busybox_root():
    """A root of one program, which must be static."""
    program = shutil.which("busybox")
    if not program or b"ld-linux" in pathlib.Path(program).read_bytes()[:4096]:
        raise tap.Skip("no static busybox to make a root of")
    with tempfile.TemporaryDirectory(prefix="osb-root-") as folder:
        root = pathlib.Path(folder)
        for name in ("bin", "etc", "proc", "sys", "dev", "tmp", "doomed"):
            (root / name).mkdir()
        root.chmod(0o755)
        shutil.copy(program, root / "bin/busybox")
        for name in ("sh", "ls", "cat", "id", "rm", "mkdir", "ln", "chown", "sleep", "stat",
                     "truncate", "test", "mkfifo", "echo"):
            (root / "bin" / name).symlink_to("busybox")
        (root / "doomed/file").write_text("to be deleted\n")
        yield root


# --- running ---


def runs_a_program_and_gives_its_output_and_status():
    done = BROKER.ctl("run", "x", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, sorted(done.stdout.split())) == (7, ["err", "out"]), done
    assert BROKER.ctl("run", "x", "--", "true").returncode == 0
    assert BROKER.ctl("run", "x", "--", "sh", "-c", "kill -9 $$").returncode == 128 + 9
    assert BROKER.list() == []


def says_why_the_entrypoint_does_not_start():
    done = BROKER.ctl("run", "x", "--", "/no/such/program")
    assert done.returncode == 126 and "exec '/no/such/program': No such file" in done.stderr, done
    done = BROKER.ctl("run", "--cwd", "/etc/passwd/x", "x", "--", "true")
    assert done.returncode == 126 and "/etc/passwd/x" in done.stderr, done


def gives_the_entrypoint_its_environment_directory_and_ids():
    out = shell("echo $A,$B; pwd; id -u; id -g; grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status",
                "--env", "A=1", "--env", "B=x y", "--cwd", "/usr/lib", "--uid", "1234")
    assert out.splitlines() == ["1,x y", "/usr/lib", "1234", "1234", "NoNewPrivs:\t1",
                                "Seccomp:\t2"], out


def names_the_sandbox():
    out = shell("hostname; cat /etc/hostname /etc/resolv.conf; grep box /etc/hosts",
                "--hostname", "box", "--dns", "192.0.2.53")
    assert out.splitlines() == ["box", "box", "nameserver 192.0.2.53", "127.0.1.1 box"], out
    assert shell("hostname", name="by-id") == "by-id\n"


def runs_what_the_host_has_installed():
    assert shell("python3 -c 'print(6 * 7)'") == "42\n"
    assert shell("python -c 'print(6 * 7)'") == "42\n"  # the host may have python3 only
    assert shell("/opt/opensandbox/code-interpreter.sh & kill $! && echo started") == "started\n"
    if shutil.which("awk"):
        assert shell("echo 1 2 | awk '{print $2}'") == "2\n"
    if shutil.which("gcc"):
        out = shell("cd /tmp && echo 'int main(void){return 0;}' >a.c && gcc -o a a.c && ./a && "
                    "echo built")
        assert out == "built\n", out


def shows_nothing_of_the_host_but_usr():
    out = shell("cd /; ls -A root home srv mnt media opt var/lib var/log var/tmp; "
                "ls etc/shadow etc/ssh etc/sudoers etc/machine-id etc/fstab 2>/dev/null; "
                f"ls -d {BROKER.folder} 2>/dev/null; true")
    found = [line for line in out.splitlines() if line and not line.endswith(":")]
    assert found == ["code-interpreter", "opensandbox"], out  # in /opt, and made for sandboxes
    out = shell("cat /proc/sys/kernel/hostname; ls /proc | grep -c '^[0-9]*$'; "
                "cat /proc/1/comm; cut -d' ' -f5 /proc/self/mountinfo")
    assert out.split()[2] == "execd" and int(out.split()[1]) < 8, out


def writes_only_into_its_own_layer():
    with created("x", "echo mine >/etc/mine; echo usr >/usr/local/mine; echo ok; sleep 1000"):
        log_of("x", "ok")
        assert not os.path.exists("/usr/local/mine") and not os.path.exists("/etc/mine")
        root, = BROKER.state.glob("roots/host-root-*")
        assert (root / "etc").is_dir() and not (root / "etc/mine").exists()
        assert shell("ls /etc/mine /usr/local/mine 2>&1 | grep -c No", name="y") == "2\n"


def makes_a_root_of_directories():
    with busybox_root() as root:
        out = BROKER.ok("run", "--dir", root, "x", "--", "sh", "-c",
                        "id -u; ls -A /; test -e /usr/bin/python3 || echo alone; stat -c %u /bin")
        words = out.split()
        assert words[0] == "0" and "alone" in words and words[-1] == "0", out
        assert "doomed" in words and "home" not in words, out


# --- apart from each other ---


def gives_every_sandbox_ids_of_its_own():
    with created("a", "touch /file; echo ok; sleep 1000"), \
            created("b", "touch /file; echo ok; sleep 1000"):
        owners = []
        for name in ("a", "b"):
            log_of(name, "ok")
            owner = os.stat(BROKER.slot_dir(name) / "upper/file").st_uid
            pid = BROKER.sandbox(name).pid
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            assert f"Uid:\t{owner}\t{owner}" in status, status
            assert owner >= UID_FIRST and (owner - UID_FIRST) % UID_RANGE == 0, owner
            owners.append(owner)
        assert owners[0] != owners[1], owners


def keeps_sandboxes_apart():
    line = ("touch /tmp/of-$0 /dev/shm/of-$0 /root/of-$0; ipcmk -Q >/dev/null; sleep 1000 & "
            "echo ready; wait")
    with created("a", line):
        log_of("a", "ready")
        out = shell("ls /tmp /dev/shm /root | grep of-; grep -h sleep /proc/[0-9]*/comm; "
                    "ipcs -q | grep 0x; true", name="b")
        assert [line for line in out.splitlines() if "/proc/" not in line] == [], out
        namespaces = [{n: os.readlink(f"/proc/{pid}/ns/{n}") for n in
                       ("pid", "mnt", "uts", "ipc", "net", "user", "cgroup")}
                      for pid in (BROKER.sandbox("a").pid, os.getpid())]
        assert all(namespaces[0][n] != namespaces[1][n] for n in namespaces[0]), namespaces


def has_no_network_unless_asked():
    assert shell("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; wc -l </proc/net/route"
                 ).split() == ["lo", "1"]


ADDRESS = ("import fcntl,socket,struct; s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); "
           "print(socket.inet_ntoa(fcntl.ioctl(s,0x8915,struct.pack('256s',b'eth0'))[20:24]))")


def reaches_neither_host_nor_neighbours_over_the_bridge():
    serve = f"python3 -c \"{ADDRESS}\" && exec python3 -u -m http.server --bind 0.0.0.0 8000"
    done = BROKER.ctl("create", "--net", "bridge", "a", "--", "sh", "-c", serve)
    if done.returncode != 0 and "nftables" in done.stderr:
        raise tap.Skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    try:
        neighbour = log_of("a", "Serving").split()[0]
        with socket.create_server(("0.0.0.0", 0)) as service:
            port = service.getsockname()[1]
            gateway = neighbour.rsplit(".", 2)[0] + ".0.1"
            tries = "; ".join(
                f"(timeout 1 bash -c ': </dev/tcp/{host}/{number}') 2>/dev/null && echo {host} open"
                for host, number in ((neighbour, 8000), (gateway, port)))
            out = shell(f"python3 -c \"{ADDRESS}\"; {tries}; grep ' x$' /etc/hosts | cut -d' ' -f1",
                        "--net", "bridge")
        words = out.split()
        assert "open" not in words, out
        assert len(words) == 2 and words[0] == words[1] != neighbour, out
    finally:
        BROKER.ok("remove", "a")


# --- limits ---


def kills_what_takes_too_much_memory_but_not_execd():
    line = "python3 -c 'x = bytearray(200 << 20)'; echo python ended with $?; sleep 1000"
    with created("x", line, "--memory", 48 * MIB):
        wait_for(lambda: BROKER.stat("x")["oom_kills"] >= 1, "an oom kill")

        # v1 kills python alone; v2 the whole workload, and the sandbox ends with its entrypoint
        wait_for(lambda: BROKER.sandbox("x").state != "running"
                 or "ended with 137" in BROKER.ok("log", "x") and BROKER.pings("x"),
                 "the end of python or of all")


def contains_a_fork_bomb():
    bomb = "while :; do (sleep 100 &) 2>/dev/null || sleep 0.1; done"
    with created("x", bomb, "--pids", 50):
        wait_for(lambda: BROKER.stat("x")["pids"] >= 50, "the limit")
        assert BROKER.stat("x")["pids"] <= 50 + 8, BROKER.stat("x")
        assert BROKER.pings("x")


def removes_a_fork_bomb_that_has_default_limits():
    """The process limit follows from the memory limit: 512 at 256 MiB. A small machine, such as the
    emulated one, is spared most of it."""
    is_small = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE") < 4096 * MIB
    memory, limit = (96 * MIB, 192) if is_small else (256 * MIB, 512)
    with created("x", "b() { b | b & }; b; sleep 1000", "--memory", memory, "--cpu", 1000):
        wait_for(lambda: BROKER.stat("x")["pids"] >= limit // 2, "a bomb")
        assert BROKER.stat("x")["pids"] <= limit + 8, BROKER.stat("x")
        slot = BROKER.sandbox("x").slot
        BROKER.ok("remove", "x")
        assert not BROKER.sandbox("x")
        left = [path for path in BROKER.groups() if path.endswith(f"/{slot}/")]
        for path in left:  # the slot may be another's by now
            assert not pathlib.Path(path, "work/cgroup.procs").read_text().split(), path


def cpu_limit(name):
    """Microseconds that it has of each period, and how often it was held back for having had them,
    as the kernel counts."""
    slot = BROKER.sandbox(name).slot
    for group in BROKER.groups():
        folder = pathlib.Path(group) / "work"
        for file in ("cpu.max", "cpu.cfs_quota_us"):
            if group.endswith(f"/{slot}/") and (folder / file).exists():
                words = (folder / "cpu.stat").read_text().split()
                quota = (folder / file).read_text().split()[0]
                return quota, int(words[words.index("nr_throttled") + 1])
    raise AssertionError(f"no group of {name} can have a limit")


def answers_beside_a_burning_workload():
    burn = "for i in 1 2 3 4; do (while :; do :; done) & done; wait"
    with created("x", burn, "--cpu", 20):  # so little that they get it on any machine, and more
        assert cpu_limit("x")[0] == "2000", cpu_limit("x")
        wait_for(lambda: cpu_limit("x")[1] >= 3, "the kernel to hold it back")
        for _ in range(20):
            assert BROKER.pings("x")


def limits_open_files_and_temporary_room():
    out = shell("ulimit -n; head -c 9000000 /dev/zero >/tmp/a 2>/dev/null; stat -c %s /tmp/a; "
                "head -c 9000000 /dev/zero >/dev/shm/a 2>/dev/null; stat -c %s /dev/shm/a",
                "--files", 100, "--tmp", 4 * MIB, "--shm", 2 * MIB)
    assert out.split() == ["100", str(4 * MIB), str(2 * MIB)], out


# --- pausing and ending ---


def takes_the_quick_for_what_they_are():
    for i in range(20):
        done = BROKER.ctl("run", f"quick-{i}", "--", "true")
        assert done.returncode == 0, done.stderr


def stands_still_while_paused():
    with created("x", "i=0; while :; do i=$((i+1)); echo $i >/count; sleep 0.01; done"):
        count = BROKER.slot_dir("x") / "upper/count"
        wait_for(lambda: count.exists() and count.read_text().strip(), "a count")
        BROKER.ok("pause", "x")
        assert BROKER.sandbox("x").state == "paused"
        first = count.read_text()
        time.sleep(0.3)
        assert count.read_text() == first
        BROKER.ok("pause", "x")  # once more is fine
        BROKER.ok("resume", "x")
        assert BROKER.sandbox("x").state == "running"
        wait_for(lambda: count.read_text() not in ("", first), "a higher count")
    for words in (("remove", "x"), ("kill", "x", GRACE_MS)):  # also while paused
        with created("x", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done"):
            log_of("x", "ready")
            BROKER.ok("pause", "x")
            BROKER.ok(*words)
            assert BROKER.sandbox("x") is None, words


def ends_the_willing_and_the_stubborn():
    with created("x", "trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done"):
        log_of("x", "ready")
        BROKER.ok("kill", "x", GRACE_MS)
    with created("x", "trap 'echo heard' TERM; echo ready; while :; do sleep 0.05; done"):
        log_of("x", "ready")
        pid = BROKER.sandbox("x").pid
        BROKER.ok("signal", "x", int(signal.SIGTERM))
        log_of("x", "heard")
        BROKER.ok("remove", "x")
        assert not is_alive(pid) and BROKER.list() == []


def knows_a_sandbox_whose_first_process_was_killed():
    with created("x", "sleep 1000"):
        os.kill(BROKER.sandbox("x").pid, signal.SIGKILL)  # perhaps before it said anything
        wait_for(lambda: BROKER.sandbox("x").state == "dead", "its end to be known")
        for verb in ("pause", "resume"):
            done = BROKER.ctl(verb, "x")
            assert done.returncode == 1 and "has ended" in done.stderr, done
        assert BROKER.ctl("create", "x", "--", "true").returncode == 1  # its name is still taken
        BROKER.ok("log", "x")  # and what it said can still be read
        BROKER.ok("kill", "x")  # nothing to kill is left, so it is removed
    assert BROKER.sandbox("x") is None


# --- refusals ---


def refuses_a_second_of_the_same_name():
    with created("x", "sleep 1000"):
        done = BROKER.ctl("create", "--listen", f"unix:{BROKER.folder}/other", "x", "--", "true")
        assert done.returncode == 1 and "there is a sandbox 'x' already" in done.stderr, done
        assert BROKER.sandbox("x").state == "running"
    for verb in ("remove", "stat", "pause", "log"):
        done = BROKER.ctl(verb, "x")
        assert done.returncode == 1 and "no sandbox 'x'" in done.stderr, done


def plan(name=b"x", root=0, net=0, limits=(0,) * 8, ids=(0, 0), layers=0, lasting=0, binds=0,
         read_only=0, flags=b"", args=1, env=0, text=b"true\0/\0", runtime=b"", memory=0):
    head = struct.pack("=I4x64s64s16sII4Q4I2I12x8I136sIII", SPAWN, name, b"", runtime, root, net,
                       *limits, *ids, layers, lasting, memory, 0, binds, read_only, 0, 0, flags,
                       args, env, len(text))
    return head + text


def refuses_plans_it_cannot_rely_on():
    cases = [
        (plan(name=b"../etc"), "id"), (plan(name=b""), "id"), (plan(name=b"x" * 64), "id"),
        (plan(root=7), "root"), (plan(net=9), "net "), (plan(ids=(65536, 0)), "uid"),
        (plan(layers=136), "layer"), (plan(root=1), "layer"), (plan(args=0), "arg_count"),
        (plan(args=1025), "arg_count"), (plan(text=b"true"), "text"),
        (plan(text=b"true\0relative\0"), "cwd"),
        (plan(env=1, text=b"true\0NOVALUE\0/\0"), "environment"),
        (plan(layers=1, flags=b"\x02"), "layer_flags"), (plan(flags=b"\1"), "layer_flags"),
        (plan(lasting=2), "lasting"), (plan(lasting=1), "1 writable"),
        (plan(runtime=b"../runsc"), "runtime"),
        (plan(memory=2), "memory"), (plan(memory=1), "memory"),
        (plan(binds=17), "bind_count"), (plan(read_only=1), "binds_read_only"),
        (plan(binds=1), "text"), (plan(binds=1, text=b"true\0/\0/proc/x\0"), "bind 0"),
        (plan(binds=1, text=b"true\0/\0/a/../b\0"), "bind 0"),
        (plan(binds=1, text=b"true\0/\0/a\0"), "1 volumes"),
    ]
    with BROKER.connect() as sock, socket.create_server(("127.0.0.1", 0)) as listener:
        for message, word in cases:
            result, text = ask(sock, message, [listener.fileno()])
            assert result < 0 and word in text, (word, result, text)
        result, text = ask(sock, plan())
        assert result < 0 and "listener" in text, text
    assert BROKER.list() == []


def drops_callers_that_talk_nonsense_and_serves_the_others():
    nonsense = [b"", b"\1", struct.pack("=I", 99), struct.pack("=I4xI", LIST, 0),
                b"x" * 60000]
    for message in nonsense:
        with BROKER.connect(configure=False) as sock:
            reply = ask(sock, message)
            assert reply is None or reply[0] < 0, (message[:8], reply)
    with BROKER.connect(configure=False) as sock:
        result, text = ask(sock, struct.pack("=I4xIIII", CONFIG, WIRE_VERSION - 1, 0, 0, 0))
        assert result < 0 and "of different releases" in text, text
    with BROKER.connect() as sock, open(os.devnull, "rb") as file:
        again = ask(sock, struct.pack("=I4xIIII", CONFIG, WIRE_VERSION, 0, 0, 0))
        assert again[0] < 0 and "configured already" in again[1], again
        reply = ask(sock, struct.pack("=I4xI", LIST, 0), [file.fileno()] * 3)
        assert reply[0] < 0, reply
        assert ask(sock, struct.pack("=I4xI", LIST, 0), [file.fileno()] * 250) is None
    assert BROKER.list() == []


def is_not_held_up_by_callers_that_stall():
    stalled = []
    for _ in range(8):
        sock = BROKER.connect()
        sock.setblocking(False)
        with contextlib.suppress(BlockingIOError, ConnectionError):
            for _ in range(2000):
                sock.send(struct.pack("=I4xI", LIST, 0))
        stalled.append(sock)
    silent = [BROKER.connect(configure=False) for _ in range(8)]
    assert shell("echo served") == "served\n"
    for sock in stalled + silent:
        sock.close()


def says_what_a_start_without_privileges_lacks():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        program = shutil.copy(PROGRAMS[0], folder)
        done = subprocess.run([program, "--state", folder + "/st"], user=65534, group=65534,
                              extra_groups=[], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done
    assert "root" in done.stderr and "CAP_SYS_ADMIN" in done.stderr, done.stderr
    assert done.stderr.endswith("CAP_SETFCAP\n"), done.stderr  # the last of those it needs


def takes_directories_from_root_only():
    """Another caller could have us show or fill what it may not touch itself."""
    with Broker(*PROGRAMS, workers=1, options=("--caller", "65534")) as broker, \
            tempfile.TemporaryDirectory() as folder:
        os.chown(folder, 65534, 65534)
        os.chmod(folder, 0o755)
        ctl = [shutil.copy(PROGRAMS[2], folder), "--broker", str(broker.state / "broker.sock")]

        def as_caller(*words):
            return subprocess.run([*ctl, *words], user=65534, group=65534, extra_groups=[],
                                  capture_output=True, text=True, check=False)

        listen = ("--listen", f"unix:{folder}/x.sock")
        done = as_caller("run", *listen, "mine", "--", "echo", "hello")
        assert (done.returncode, done.stdout) == (0, "hello\n"), done
        done = as_caller("run", *listen, "--dir", "/", "theirs", "--", "true")
        assert done.returncode == 1 and "only root" in done.stderr, done
        assert as_caller("create", *listen, "box", "--", "sleep", "1000").returncode == 0
        done = as_caller("snapshot", "box", folder)
        assert done.returncode == 1 and "only root" in done.stderr, done
        assert as_caller("remove", "box").returncode == 0
        broker.stop()


# --- death of others ---


def survives_its_caller():
    with subprocess.Popen(BROKER.ctl_command("run", "x", "--", "sleep", "1000")) as caller:
        wait_for(lambda: BROKER.sandbox("x"), "the sandbox")
        caller.kill()
    with BROKER.connect():
        assert BROKER.sandbox("x").state == "running" and BROKER.pings("x")
        assert BROKER.ok("log", "x") == ""
    BROKER.ok("kill", "x")


def survives_its_brokers():
    with Broker(*PROGRAMS) as broker:
        with created("x", "sleep 1000", broker=broker):
            pid = broker.sandbox("x").pid
            for worker in broker.workers():
                os.kill(worker, signal.SIGKILL)
            wait_for(lambda: len(broker.workers()) == 2 and broker.answers(), "new workers")
            assert broker.sandbox("x").pid == pid and broker.pings("x")
            broker.stop(signal.SIGKILL)
            assert is_alive(pid)
            broker.start()
            assert broker.sandbox("x").state == "running" and broker.pings("x")
            broker.ok("pause", "x")
            broker.stop()
            broker.start()
            assert broker.sandbox("x").state == "paused"
            broker.ok("resume", "x")
            broker.ok("kill", "x")
        assert not is_alive(pid)
        broker.must_be_clean()


def gives_slots_made_ahead_back():
    with Broker(*PROGRAMS, workers=1) as broker:
        broker.ok("fill", 4)
        assert len(os.listdir(broker.state / "slots")) == 4 and broker.list() == []
        broker.ok("run", "x", "--", "true")
        broker.kill_worker()
        wait_for(lambda: os.listdir(broker.state / "slots") == [], "the sweep after a worker")
        broker.ok("fill", 4)
        broker.stop()
        broker.must_be_clean()
        broker.start()
        broker.ok("fill", 4)
        broker.stop(signal.SIGKILL)
        broker.sweep()
        broker.must_be_clean()


def takes_slots_made_ahead_for_any_root():
    """The last root was the host's, so the next slots have one: other plans must not see it."""
    look = "cat /etc/hostname; test -e /usr/bin/env && echo host; echo mine >/etc/mine"
    with Broker(*PROGRAMS, workers=1) as broker, busybox_root() as root:
        for options in ((), ("--dir", root), ("--disk", 32 * MIB), ("--dir", root)):
            broker.ok("run", "before", "--", "true")
            broker.ok("fill", 2)
            out = broker.ok("run", *options, "x", "--", "sh", "-c", look)
            assert out == ("x\n" if "--dir" in options else "x\nhost\n"), (options, out)
            assert broker.ok("run", *options, "y", "--", "sh", "-c",
                             "ls /etc/mine 2>/dev/null; true") == "", options


def sweeps_slots_without_a_living_owner():
    with Broker(*PROGRAMS) as broker:
        for name in ("dead", "alive"):
            broker.ok("create", name, "--", "sleep", "1000")
        os.kill(broker.sandbox("dead").pid, signal.SIGKILL)
        wait_for(lambda: broker.sandbox("dead").state == "dead", "its end to be known")
        (broker.state / "ids/ghost").symlink_to("77")
        (broker.state / "slots/99").mkdir()
        broker.stop()
        broker.start()  # sweeps, too, but keeps reports that no caller has read
        states = sorted((s.id, s.state) for s in broker.list())
        assert states == [("alive", "running"), ("dead", "dead")], states
        assert sorted(os.listdir(broker.state / "ids")) == ["alive", "dead"]
        assert broker.sweep() == 1
        assert [s.id for s in broker.list()] == ["alive"] and broker.pings("alive")
        broker.ok("remove", "alive")
        broker.must_be_clean()


def serves_a_directory_only_once():
    with Broker(*PROGRAMS) as first, Broker(*PROGRAMS) as other:
        done = subprocess.run(first.command(), capture_output=True, text=True, check=False)
        assert done.returncode == 1 and "another broker serves" in done.stderr, done
        with created("x", "sleep 1000", broker=first), created("x", "sleep 1000", broker=other):
            for broker in (first, other):
                broker.stop()
                broker.sweep()
                broker.start()
            assert first.pings("x") and other.pings("x")


# --- many ---


def makes_many_at_once():
    names = [f"many-{i}" for i in range(MANY)]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda name: BROKER.ok("create", name, "--", "sleep", "1000"), names))
        found = BROKER.list()
        assert sorted(s.id for s in found) == sorted(names), len(found)
        assert len({s.slot for s in found}) == len({s.pid for s in found}) == MANY
        assert all(pool.map(BROKER.pings, names))
        list(pool.map(lambda name: BROKER.ok("remove", name), names))
    assert BROKER.list() == []


def lets_many_remove_the_same():
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for i in range(5):
            BROKER.ok("create", "x", "--", "sleep", "1000")
            others = [pool.submit(BROKER.ok, "create", f"o-{i}-{k}", "--", "sleep", "1000")
                      for k in range(2)]
            done = [pool.submit(BROKER.ctl, "remove", "x") for _ in range(4)]
            assert [d.result().returncode for d in done].count(0) == 1, [d.result() for d in done]
            for other in others:
                other.result()
    assert all(s.state == "running" and BROKER.pings(s.id) for s in BROKER.list())
    assert len(BROKER.list()) == 10
    for sandbox in BROKER.list():
        BROKER.ok("remove", sandbox.id)


def leaves_nothing_behind():
    assert BROKER.list() == []
    BROKER.stop()
    BROKER.must_be_clean()


TESTS = [
    runs_a_program_and_gives_its_output_and_status,
    says_why_the_entrypoint_does_not_start,
    gives_the_entrypoint_its_environment_directory_and_ids,
    names_the_sandbox,
    runs_what_the_host_has_installed,
    shows_nothing_of_the_host_but_usr,
    writes_only_into_its_own_layer,
    makes_a_root_of_directories,
    gives_every_sandbox_ids_of_its_own,
    keeps_sandboxes_apart,
    has_no_network_unless_asked,
    reaches_neither_host_nor_neighbours_over_the_bridge,
    kills_what_takes_too_much_memory_but_not_execd,
    contains_a_fork_bomb,
    removes_a_fork_bomb_that_has_default_limits,
    answers_beside_a_burning_workload,
    limits_open_files_and_temporary_room,
    takes_the_quick_for_what_they_are,
    stands_still_while_paused,
    ends_the_willing_and_the_stubborn,
    knows_a_sandbox_whose_first_process_was_killed,
    refuses_a_second_of_the_same_name,
    refuses_plans_it_cannot_rely_on,
    drops_callers_that_talk_nonsense_and_serves_the_others,
    is_not_held_up_by_callers_that_stall,
    says_what_a_start_without_privileges_lacks,
    takes_directories_from_root_only,
    survives_its_caller,
    survives_its_brokers,
    gives_slots_made_ahead_back,
    takes_slots_made_ahead_for_any_root,
    sweeps_slots_without_a_living_owner,
    serves_a_directory_only_once,
    makes_many_at_once,
    lets_many_remove_the_same,
    leaves_nothing_behind,
]


if __name__ == "__main__":
    tap.skip_all(why_not())
    with Broker(*PROGRAMS) as BROKER:
        sys.exit(tap.run_tests(TESTS))
