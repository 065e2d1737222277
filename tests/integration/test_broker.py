"""A broker, its unprivileged callers, and the process that started it.

Usage: test_broker.py BROKER EXECD SANDBOXCTL. TAP on standard output. Needs root.
"""
import contextlib
import ctypes
import fcntl
import os
import pathlib
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from broker_process import (CONFIG, PAUSE, SECONDS_MAX, WIRE_VERSION,  # noqa: E402
                            Broker, ask, children, comm, is_alive, wait_for, why_not)

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:4]]
CALLER = 65534
ALLOWED_MAX = 64
LAYER_UID_FIRST = 0xb0000000
DISK_SECONDS_MAX = 120  # for thousands of files, on a disk that others use, too


class Caller:
    """A user without privilege, with a directory of its own below the broker's."""

    def __init__(self, broker):
        self.broker, self.own = broker, broker.state / "caller"
        self.ctl = shutil.copy(broker.ctl_program, broker.folder)
        os.chmod(self.ctl, 0o755)

    def run(self, *words, **more):
        return subprocess.run(words, user=CALLER, group=CALLER, extra_groups=[], text=True,
                              capture_output=True, check=False, **more)

    def call(self, *words):
        return self.run(self.ctl, "--broker", self.broker.state / "broker.sock", *words)

    def sandbox(self, verb, *words):
        return self.call(verb, "--listen", f"unix:{self.own}/{time.monotonic_ns()}.sock", *words)


@contextlib.contextmanager
def caller(allow=True):
    """A broker whose caller is not root, and that caller's directory."""
    with tempfile.TemporaryDirectory(prefix="osb-") as folder:
        os.chmod(folder, 0o711)
        own = pathlib.Path(folder, "st", "caller")
        own.mkdir(parents=True)
        os.chown(own, CALLER, CALLER)
        options = ["--caller", str(CALLER)] + (["--allow", str(own)] if allow else [])
        with Broker(*PROGRAMS, workers=1, folder=folder, options=options) as broker:
            yield broker, Caller(broker)
            broker.stop()
            broker.must_be_clean()


def must_be_refused(done, word):
    assert done.returncode == 1 and word in done.stderr, done


# --- callers ---


def lets_callers_pass_to_what_is_theirs_only():
    with caller() as (broker, user):
        modes = {name: stat.S_IMODE(os.stat(broker.state / name).st_mode)
                 for name in (".", "slots", "ids", "roots", "trash", "disks", "mnt", "stage", "dev",
                              "empty", "broker.sock", "lock", "broker")}
        assert modes.pop(".") == 0o711, modes
        assert {modes.pop(name) for name in ("broker.sock", "lock", "broker")} == {0o600}, modes
        assert set(modes.values()) == {0o700}, modes
        done = user.run("sh", "-c", f"echo mine >{user.own}/f && cat {user.own}/f")
        assert done.stdout == "mine\n", done
        for path in (".", "slots", "ids", "roots", "trash", "disks"):
            assert user.run("ls", broker.state / path).returncode != 0, path
        root, = broker.state.glob("roots/host-root-*")
        for path in ("tmp", "var/tmp"):  # world-writable inside, but not reachable outside
            assert stat.S_IMODE(os.stat(root / path).st_mode) == 0o1777, path
            assert user.run("touch", root / path / "planted").returncode != 0, path
            assert not (root / path / "planted").exists(), path
        assert user.run("touch", broker.state / "f").returncode != 0
        broker.stop()
        os.chmod(broker.state, 0o700)  # as a strict umask would have left it
        os.chmod(broker.state / "slots", 0o755)
        broker.start()
        assert stat.S_IMODE(os.stat(broker.state).st_mode) == 0o711
        assert stat.S_IMODE(os.stat(broker.state / "slots").st_mode) == 0o700


def takes_from_callers_what_is_allowed_only():
    with caller() as (broker, user), tempfile.TemporaryDirectory() as other:
        os.chmod(other, 0o777)
        volume = user.own / "volume"
        volume.mkdir()
        (volume / "f").write_text("mine\n")
        (user.own / "link").symlink_to(other)
        for source, place in ((volume, "/data"), (f"{volume}/f", "/data/g"), (user.own, "/data")):
            done = user.sandbox("run", "--volume", f"{source}:{place}", "x", "--", "sh", "-c",
                                "find /data | grep -c .")
            assert done.returncode == 0, done
        for source in (other, user.own / "link", "/", "/etc/passwd", broker.state, "/usr",
                       broker.folder, f"{user.own}/../caller-not"):
            with contextlib.suppress(FileExistsError):
                (broker.state / "caller-not").mkdir()
            must_be_refused(user.sandbox("run", "--volume", f"{source}:/data", "x", "--", "true"),
                            "not below a directory that this broker allows")
        must_be_refused(user.sandbox("run", "--dir", "/", "x", "--", "true"), "allows")
        top = user.own / "layer"
        top.mkdir()
        done = user.sandbox("run", "--dir", top, "x", "--", "true")
        assert "exec 'true'" in done.stderr, done  # its root, which is empty, was taken
        (broker.state / "caller-not").rmdir()


def does_not_take_what_was_moved_out():
    """The broker checks the kernel's path of a descriptor, and that this path leads to the same
    file."""
    with caller() as (_, user), tempfile.TemporaryDirectory(dir=user.broker.folder) as other:
        (user.own / "v").mkdir()
        fd = os.open(user.own / "v", os.O_PATH)
        try:
            os.rename(user.own / "v", f"{other}/v")
            (user.own / "v").mkdir()
            done = user.run(user.ctl, "--broker", user.broker.state / "broker.sock", "run",
                            "--listen", f"unix:{user.own}/x.sock", "--volume",
                            f"/proc/self/fd/{fd}:/data", "x", "--", "true", pass_fds=[fd])
            must_be_refused(done, "not below a directory that this broker allows")
        finally:
            os.close(fd)


def takes_nothing_from_callers_without_leave():
    with caller(allow=False) as (_, user):
        assert user.sandbox("run", "x", "--", "true").returncode == 0
        must_be_refused(user.sandbox("run", "--volume", f"{user.own}:/data", "x", "--", "true"),
                        "only root")
        must_be_refused(user.call("erase", user.own), "only root")


def snapshots_for_callers_as_files_of_nobody():
    with caller() as (_, user), tempfile.TemporaryDirectory() as other:
        line = ("cp /usr/bin/id /su; chmod 6755 /su; mkdir -m 2775 /d; mkfifo /fifo; ln -s su /l; "
                "chown -h 7 /l; echo ok >/d/f; echo ready; sleep 1000")
        assert user.sandbox("create", "x", "--", "sh", "-c", line).returncode == 0
        wait_for(lambda: "ready" in user.call("log", "x").stdout, "its files")
        done = user.run("mkdir", "-m", "0755", user.own / "snapshot")
        assert done.returncode == 0, done
        os.chmod(other, 0o777)
        must_be_refused(user.call("snapshot", "x", other), "allows")
        done = user.call("snapshot", "x", user.own / "snapshot")
        assert done.returncode == 0, done
        modes = {name: os.lstat(user.own / "snapshot" / name).st_mode
                 for name in ("su", "d", "fifo", "l")}
        assert stat.S_IMODE(modes["su"]) == 0o6755 and stat.S_IMODE(modes["d"]) == 0o2775, modes
        assert stat.S_ISFIFO(modes["fifo"])
        assert os.lstat(user.own / "snapshot/l").st_uid == LAYER_UID_FIRST + 7
        assert os.stat(user.own / "snapshot/su").st_uid == LAYER_UID_FIRST
        out = user.sandbox("run", "--shifted", user.own / "snapshot", "--volume",
                           f"{user.own}:/mnt", "y", "--", "/nothing")
        assert "exec '/nothing'" in out.stderr, out  # it can be a layer
        must_be_refused(user.call("erase", other), "allows")
        assert user.run("rm", "-r", user.own / "snapshot").returncode != 0  # it is root's by now
        assert user.call("erase", user.own / "snapshot").returncode == 0
        assert not (user.own / "snapshot").exists(), "its name is gone at once"
        wait_for(lambda: not list(user.own.glob(".erase-*")), "the end of its files")
        assert user.call("remove", "x").returncode == 0


def erases_deep_trees_and_leaves_links_alone():
    with Broker(*PROGRAMS, workers=1) as broker, tempfile.TemporaryDirectory() as folder, \
            tempfile.TemporaryDirectory() as other:
        (pathlib.Path(other) / "kept").write_text("")
        for i in range(20):
            deep = pathlib.Path(folder, *[f"{i}-{k}" for k in range(30)])
            deep.mkdir(parents=True)
            (deep / "f").write_text("")
        os.symlink(other, f"{folder}/link")
        subprocess.run(["mkdir", "-p", folder + "/d" * 900], check=True)
        for name in os.listdir(folder):
            if name != "link":
                broker.ok("erase", f"{folder}/{name}")
        for name, word in (("link", "not a directory"), ("none", "No such file"), (".", "expected"),
                           ("..", "expected")):
            must_be_refused(broker.ctl("erase", f"{folder}/{name}"), word)
        wait_for(lambda: os.listdir(folder) == ["link"], "the end of the erasure")
        wait_for(lambda: not os.listdir(broker.state / "trash"), "the end of its notes")
        assert os.listdir(other) == ["kept"]


def erases_nothing_but_what_is_noted():
    """A note whose directory is not there, or is a link by now, is dropped; what cannot be erased
    yet is tried again. `--sweep` erases, too."""
    with Broker(*PROGRAMS, workers=1) as broker, tempfile.TemporaryDirectory() as folder:
        kept, busy = pathlib.Path(folder, "kept"), pathlib.Path(folder, ".erase-busy")
        for path in (kept, busy / "mount"):
            path.mkdir(parents=True)
            (path / "f").write_text("")
        broker.stop()
        pathlib.Path(folder, ".erase-link").symlink_to(kept)
        pathlib.Path(folder, "up").symlink_to(folder)
        os.mkdir(f"{folder}/.erase-really")
        for number, target in (("1", ".erase-link"), ("2", ".erase-none"), ("3", "kept"),
                               ("4", "up/.erase-really"), ("5", ".erase-busy")):
            os.symlink(f"{folder}/{target}", broker.state / "trash" / number)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", busy / "mount"], check=True)
        try:
            broker.start()
            wait_for(lambda: os.listdir(broker.state / "trash") == ["5"], "the eraser")
            wait_for(lambda: "cannot remove all" in broker.log(), "its complaint")
        finally:
            subprocess.run(["umount", busy / "mount"], check=True)
        assert sorted(os.listdir(folder)) == [".erase-busy", ".erase-link", ".erase-really",
                                              "kept", "up"]
        assert (kept / "f").exists()
        broker.stop()
        assert broker.sweep() == 1 and not busy.exists()
        assert os.listdir(broker.state / "trash") == []


@contextlib.contextmanager
def nothing_is_erased(broker):
    """Holds the lock of the trash: the eraser waits."""
    trash = os.open(broker.state / "trash", os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(trash, fcntl.LOCK_EX)
        yield
    finally:
        os.close(trash)


def remembers_what_to_erase_while_it_is_not_mounted():
    with Broker(*PROGRAMS, workers=1) as broker, tempfile.TemporaryDirectory() as folder:
        real, mounted = pathlib.Path(folder, "real"), pathlib.Path(folder, "mounted")
        (real / "x").mkdir(parents=True)
        mounted.mkdir()
        broker.stop()
        subprocess.run(["mount", "--bind", real, mounted], check=True)
        try:
            broker.start()
            with nothing_is_erased(broker):
                broker.ok("erase", mounted / "x")
                broker.stop()
        finally:
            subprocess.run(["umount", mounted], check=True)
        for missing in (False, True):
            if missing:
                mounted.rmdir()
            assert broker.sweep() == 0 and len(os.listdir(broker.state / "trash")) == 1
        mounted.mkdir()
        subprocess.run(["mount", "--bind", real, mounted], check=True)
        try:
            assert broker.sweep() == 1
        finally:
            subprocess.run(["umount", mounted], check=True)
        assert os.listdir(real) == [] and os.listdir(broker.state / "trash") == []


def starts_only_with_directories_that_can_be_allowed():
    with Broker(*PROGRAMS, workers=1) as broker:
        broker.stop()
        for path, word in ((broker.state, "cannot be allowed"), (broker.folder, "cannot be"),
                           ("/", "cannot be allowed"), ("/no/such", "No such file"),
                           ("/etc/passwd", "Not a directory")):
            done = subprocess.run(broker.command("--allow", str(path)), capture_output=True,
                                  text=True, check=False)
            must_be_refused(done, word)
        many = ["--allow", "/usr"] * (ALLOWED_MAX + 1)
        done = subprocess.run(broker.command(*many), capture_output=True, text=True, check=False)
        assert done.returncode == 2 and "at most 64" in done.stderr, done
        broker.options = many[2:]
        broker.start()


# --- the process that started it ---


PARENT = """
import os, subprocess, sys
read, write = os.pipe()
broker = subprocess.Popen([*sys.argv[1:], "--until-eof", str(read)], pass_fds=[read])
os.close(read)
print(broker.pid, flush=True)
os.write(write, b"words that mean nothing")
broker.wait()
"""


def ends_with_the_process_that_started_it():
    with Broker(*PROGRAMS, workers=1) as broker:
        broker.stop()
        command = [sys.executable, "-c", PARENT, *broker.command("--workers", "1")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True) as parent:
            pid = int(parent.stdout.readline())
            wait_for(broker.answers, "the broker")
            broker.ok("fill", 2)
            broker.ok("create", "x", "--", "sleep", "1000")
            time.sleep(0.3)
            assert is_alive(pid) and len(os.listdir(broker.state / "slots")) >= 2
            parent.kill()
        wait_for(lambda: not is_alive(pid), "the broker's end")
        wait_for(lambda: len(os.listdir(broker.state / "slots")) == 1, "its slots to be given back")
        broker.start()
        assert broker.sandbox("x").state == "running" and broker.pings("x")
        broker.ok("remove", "x")


def takes_a_pipe_and_nothing_else():
    with Broker(*PROGRAMS, workers=1) as broker, open("/etc/passwd", "rb") as file:
        broker.stop()
        for fd in (str(file.fileno()), "77", "x", "-1"):
            done = subprocess.run(broker.command("--until-eof", fd), pass_fds=[file.fileno()],
                                  capture_output=True, text=True, check=False)
            assert done.returncode == 2 and "is no" in done.stderr.replace("is not", "is no"), done


@contextlib.contextmanager
def nothing_is_swept(broker):
    """Holds the shared lock: creates and removals work, sweeps and the remover wait."""
    with open(broker.state / "lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield


def replaces_a_worker_while_the_slots_are_locked():
    """A sweep waits for locks that others hold; no other process waits for the sweep."""
    with Broker(*PROGRAMS, workers=1) as broker:
        broker.ok("fill", 2)
        with nothing_is_swept(broker):
            broker.kill_worker()
            wait_for(broker.answers, "another worker")
            assert len(os.listdir(broker.state / "slots")) >= 2
            broker.kill_worker()
            wait_for(broker.answers, "yet another worker")
            assert broker.list() == []
        wait_for(lambda: os.listdir(broker.state / "slots") == [], "the sweep")
        with nothing_is_swept(broker):  # and it can be told to end meanwhile
            broker.kill_worker()
            wait_for(broker.answers, "another worker")
            broker.stop()
        broker.must_be_clean()


def tells_of_a_step_that_hangs():
    """The client waits longer than the broker does."""
    with Broker(*PROGRAMS, workers=1) as broker:
        broker.ok("fill", 1)
        parked = children(broker.workers()[0])
        assert len(parked) == 1, parked
        os.kill(parked[0], signal.SIGSTOP)
        done = broker.ctl("create", "x", "--", "sleep", "1000")
        must_be_refused(done, "no step may take longer than 30 s")
        assert broker.list() == [] and not is_alive(parked[0])


def drops_a_request_whose_caller_is_gone():
    """A worker drops a request whose caller has closed its connection."""
    with Broker(*PROGRAMS, workers=1) as broker:
        broker.ok("create", "x", "--", "sleep", "1000")
        worker = broker.workers()[0]
        with broker.connect() as sock:
            os.kill(worker, signal.SIGSTOP)
            sock.send(struct.pack("=I4x64s", PAUSE, b"x"))
        os.kill(worker, signal.SIGCONT)
        assert broker.sandbox("x").state == "running"  # the same worker answers, after that
        assert "its caller is gone" in broker.log()


# --- levels ---


def removers(broker):
    """Processes that remove what was left."""
    return [pid for pid in children(broker.process.pid)
            if comm(pid) in ("remover", "cleaner") and is_alive(pid)]


def make_many_files(broker, name):
    """A sandbox with more files than a worker removes itself: its directory."""
    broker.ok("create", name, "--", "sh", "-c", "mkdir /many && cd /many && seq 1500 | xargs touch "
              "&& mkdir /done && exec tail -f /dev/null")
    folder = broker.state / "slots" / str(broker.sandbox(name).slot)
    wait_for((folder / "upper" / "done").exists, "the files", DISK_SECONDS_MAX)
    return folder


def removes_many_files_beside_what_it_serves():
    with Broker(*PROGRAMS, workers=1) as broker:
        folder = make_many_files(broker, "one")
        with nothing_is_swept(broker):
            broker.ok("remove", "one")
            assert folder.exists() and not (folder / "record").exists(), "who removed it?"
            broker.ok("create", "two", "--", "tail", "-f", "/dev/null")
            assert [sandbox.id for sandbox in broker.list()] == ["two"]
            broker.ok("remove", "two")
        wait_for(lambda: not folder.exists(), "the removal", DISK_SECONDS_MAX)
        wait_for(lambda: not removers(broker), "the remover's end")


def removes_slots_while_a_directory_is_erased():
    with Broker(*PROGRAMS, workers=1) as broker, tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/volume")
        slot = make_many_files(broker, "one")
        with nothing_is_erased(broker):
            broker.ok("erase", f"{folder}/volume")
            wait_for(lambda: [pid for pid in children(broker.process.pid) if comm(pid) == "eraser"],
                     "the eraser")
            broker.ok("remove", "one")
            wait_for(lambda: not slot.exists(), "the removal", DISK_SECONDS_MAX)
            assert len(os.listdir(folder)) == 1, "a process did not wait for the lock"
        wait_for(lambda: not os.listdir(folder), "the end of the erasure")


class Deletions:
    """Names that are deleted from directories, in their order (inotify)."""
    IN_DELETE, EVENT = 0x200, struct.Struct("iIII")

    def __init__(self, *folders):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for folder in folders:
            assert libc.inotify_add_watch(self.fd, os.fsencode(folder), self.IN_DELETE) >= 0

    def close(self):
        """All names until now."""
        with os.fdopen(self.fd, "rb", 0) as file:
            data, names = file.read(65536) or b"", []
        while data:
            length = self.EVENT.unpack_from(data)[3]
            end = self.EVENT.size + length
            names.append(data[self.EVENT.size:end].rstrip(b"\0").decode())
            data = data[end:]
        return names


def frees_a_name_before_the_record_of_its_slot():
    """Others take a name without a record for a leftover: it may be a new sandbox's by then."""
    with Broker(*PROGRAMS, workers=1) as broker:
        broker.ok("create", "x", "--", "tail", "-f", "/dev/null")
        slot = broker.state / "slots" / str(broker.sandbox("x").slot)
        deletions = Deletions(broker.state / "ids", slot)
        broker.ok("remove", "x")
        names = [name for name in deletions.close() if name in ("x", "record")]
        assert names == ["x", "record"], names


def goes_on_with_many_files_after_a_kill():
    with Broker(*PROGRAMS, workers=1) as broker:
        folder = make_many_files(broker, "one")
        with nothing_is_swept(broker):
            broker.ok("remove", "one")
            for _ in range(2):
                wait_for(lambda: removers(broker), "the remover")
                remover = removers(broker)[0]
                os.kill(remover, signal.SIGKILL)
                wait_for(lambda pid=remover: not is_alive(pid), "its end")
            assert folder.exists(), "who removed it?"
        wait_for(lambda: not folder.exists(), "the removal", DISK_SECONDS_MAX)


def goes_on_with_many_files_when_it_starts_again():
    """Also with files that the previous broker's remover is still unlinking: no signal interrupts
    unlink."""
    with Broker(*PROGRAMS, workers=1) as broker:
        folder, other = make_many_files(broker, "one"), make_many_files(broker, "two")
        with nothing_is_swept(broker):
            broker.ok("remove", "one")
            broker.ok("remove", "two")
            broker.stop()
        assert folder.exists() and other.exists(), "who removed it?"
        busy = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(busy, fcntl.LOCK_EX)
            broker.start()
            wait_for(lambda: removers(broker), "the remover")
            assert folder.exists(), "who removed it?"
        finally:
            os.close(busy)
        wait_for(lambda: not folder.exists() and not other.exists(), "the removal",
                 DISK_SECONDS_MAX)


def makes_the_hosts_root_again_when_it_would_be_another():
    """The root of an older version stays while there are sandboxes, which may use it."""
    with Broker(*PROGRAMS, workers=1) as broker:
        broker.ok("create", "x", "--", "tail", "-f", "/dev/null")
        broker.stop()
        made, = broker.state.glob("roots/*")
        old = made.rename(made.parent / "host-root-old")
        shutil.rmtree(old / "opt")
        broker.start()
        assert broker.shell("y", "ls /opt/code-interpreter | wc -l") == "2\n"
        assert sorted(broker.state.glob("roots/*")) == sorted([old, made])
        broker.ok("remove", "x")
        broker.stop()
        broker.start()
        assert list(broker.state.glob("roots/*")) == [made]


def hides_a_world_writable_root():
    """Older versions had it in the state directory. Sandboxes that use it go on, no other user can
    reach it, and new sandboxes get another root, without files that may have been planted."""
    with Broker(*PROGRAMS, workers=1) as broker:
        broker.ok("create", "x", "--", "tail", "-f", "/dev/null")
        broker.stop()
        made, = broker.state.glob("roots/*")
        for again in range(2):  # also when an older version ran in between
            planted = made.rename(broker.state / made.name)
            (planted / "tmp/planted").write_text("")
            (planted / "var/tmp/planted").write_text("")
            broker.start()
            assert not list(broker.state.glob("host-root*")), "others can still reach it"
            assert broker.shell("y", "ls /tmp /var/tmp | grep -c planted; true") == "0\n"
            assert made.is_dir() and len(list(broker.state.glob("roots/*"))) == 2 + again
            assert broker.pings("x")
            broker.stop()
        broker.start()
        broker.ok("remove", "x")
        broker.stop()
        broker.start()
        assert list(broker.state.glob("roots/*")) == [made]


def tells_how_many_slots_are_ready():
    with Broker(*PROGRAMS, workers=1) as broker:
        def info():
            return {key: int(value) for key, value in
                    (word.split("=") for word in broker.ok("info").split())}

        assert set(info().values()) == {0}, info()
        broker.ok("fill", 3)
        found = info()
        assert (found["ready_none"], found["here_none"], found["live"]) == (3, 3, 0), found
        assert found["wanted_none"] == found["ready_bridge"] == 0, found  # that caller has gone
        broker.ok("create", "x", "--", "sleep", "1000")
        found = info()
        assert (found["ready_none"], found["live"], found["dead"]) == (2, 1, 0), found
        os.kill(broker.sandbox("x").pid, signal.SIGKILL)
        wait_for(lambda: info()["dead"] == 1, "its end to be known")
        assert info()["live"] == 0


def keeps_as_many_slots_ready_as_wanted_by_all_workers_together():
    wanted = 5
    with Broker(*PROGRAMS, workers=2) as broker, contextlib.ExitStack() as stack:
        def ready():
            words = broker.ok("info").split()
            return int(dict(word.split("=") for word in words)["ready_none"])

        def connect():
            sock = stack.enter_context(broker.connect(configure=False))
            reply = ask(sock, struct.pack("=I4xIIII", CONFIG, WIRE_VERSION, 0, wanted, 0))
            assert reply and reply[0] == 0, reply

        connections = iter(range(32))

        def complete():  # until every worker has a connection
            if next(connections, None) is not None:
                connect()
            return ready() >= wanted

        wait_for(complete, "slots")
        for _ in range(50):  # a worker makes one more whenever it has nothing else to do
            assert ready() == wanted, ready()


TESTS = [
    lets_callers_pass_to_what_is_theirs_only,
    takes_from_callers_what_is_allowed_only,
    does_not_take_what_was_moved_out,
    takes_nothing_from_callers_without_leave,
    snapshots_for_callers_as_files_of_nobody,
    erases_deep_trees_and_leaves_links_alone,
    erases_nothing_but_what_is_noted,
    remembers_what_to_erase_while_it_is_not_mounted,
    starts_only_with_directories_that_can_be_allowed,
    ends_with_the_process_that_started_it,
    takes_a_pipe_and_nothing_else,
    replaces_a_worker_while_the_slots_are_locked,
    tells_of_a_step_that_hangs,
    drops_a_request_whose_caller_is_gone,
    removes_many_files_beside_what_it_serves,
    removes_slots_while_a_directory_is_erased,
    frees_a_name_before_the_record_of_its_slot,
    goes_on_with_many_files_after_a_kill,
    goes_on_with_many_files_when_it_starts_again,
    makes_the_hosts_root_again_when_it_would_be_another,
    hides_a_world_writable_root,
    tells_how_many_slots_are_ready,
    keeps_as_many_slots_ready_as_wanted_by_all_workers_together,
]


if __name__ == "__main__":
    tap.skip_all(why_not())
    sys.exit(tap.run_tests(TESTS))
