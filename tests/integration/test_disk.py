"""The limit of a sandbox's writable layer, from inside a sandbox and from the host.

Usage: test_disk.py BROKER EXECD SANDBOXCTL. TAP on standard output. Needs root.
"""
import contextlib
import glob
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402

BROKER, EXECD, CTL = sys.argv[1:4]
SECONDS_MAX = 20
MIB = 1 << 20
LIMIT = 32 * MIB
OVERHEAD = LIMIT // 8  # what an image may spend on itself
DISTURBANCE = MIB  # what execd and the shell may have written beside


def wait_for(condition, what):
    end = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < end, f"waited {SECONDS_MAX} s for {what}"
        time.sleep(0.02)


class Broker:
    """A broker in a temporary directory."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.chmod(0o711)
        self.state = self.folder / "state"

    def __enter__(self):
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(  # pylint: disable=consider-using-with
                [BROKER, "--state", str(self.state), "--execd", EXECD, "--workers", "1"],
                stdout=log, stderr=log)
        wait_for(lambda: self.process.poll() is not None or "disk=" in self.log(), "the broker")
        assert self.process.poll() is None, self.log()
        return self

    def __exit__(self, *_):
        for line in self.ctl("list").stdout.splitlines():
            self.ctl("remove", line.split()[0])
        self.process.terminate()
        self.process.wait(SECONDS_MAX)

    def log(self):
        return (self.folder / "log").read_text(encoding="utf-8")

    def ctl(self, *words):
        return subprocess.run([CTL, "--broker", str(self.state / "broker.sock"),
                               *map(str, words)], capture_output=True, text=True, check=False,
                              timeout=120)

    def must(self, *words):
        done = self.ctl(*words)
        assert done.returncode == 0, f"{words}: {done.returncode} {done.stdout} {done.stderr}"
        return done.stdout

    def said(self, name):
        return self.ctl("log", name).stdout  # there is none before the entrypoint runs

    def images(self):
        return list(self.state.glob("slots/*/disk.img"))

    def attached(self):
        """Loop devices on files of ours, also on deleted ones."""
        found = []
        for path in glob.glob("/sys/block/loop*/loop/backing_file"):
            with contextlib.suppress(OSError):
                text = pathlib.Path(path).read_text(encoding="utf-8")
                found += [path] if text.startswith(str(self.state)) else []
        return found


def write_past_the_limit(broker, folder):
    """Fills a directory of the layer; the sandbox and its execd must not mind."""
    name = f"full-{folder}"
    broker.must("create", "--disk", LIMIT, name, "--", "sh", "-c",
                f"dd if=/dev/zero of=/{folder}/big bs=64k; echo status=$?; wc -c </{folder}/big; "
                "sleep 100")
    wait_for(lambda: "status=" in broker.said(name), "dd")
    time.sleep(0.1)
    said = broker.said(name)
    assert "No space left" in said or "quota exceeded" in said, said
    assert "status=1" in said, said
    size = int(said.split()[-1])
    assert LIMIT - OVERHEAD - DISTURBANCE <= size <= LIMIT, size
    assert broker.must("ping", name) == "pong\n"
    assert "state=running" in broker.must("stat", name)
    broker.must("remove", name)


def stops_a_writer_at_the_limit(broker):
    write_past_the_limit(broker, "root")


def counts_usr_too(broker):
    write_past_the_limit(broker, "usr")


def bounds_the_number_of_files(broker):
    script = ("i=0; while true >/root/$i; do i=$((i + 1)); done 2>/dev/null; "
              "exec 2>&1; echo made=$(ls /root | wc -l)")
    done = broker.ctl("run", "--disk", 4 * MIB, "files", "--", "sh", "-c", script)
    made = [int(word[5:]) for word in done.stdout.split() if word.startswith("made=")]
    assert made and 500 < made[0] <= 1024, (done.stdout, done.stderr)


def limits_side_by_side(broker):
    for name, mib in (("small", 8), ("large", 64)):
        broker.must("create", "--disk", mib * MIB, name, "--", "sh", "-c",
                    "dd if=/dev/zero of=/root/big bs=64k count=512; echo status=$?; sleep 100")
    for name, status in (("small", 1), ("large", 0)):
        wait_for(lambda name=name: "status=" in broker.said(name), "dd")
        assert f"status={status}" in broker.said(name)
        broker.must("remove", name)


def costs_nothing_without_a_limit(broker):
    broker.must("create", "free", "--", "sleep", "100")
    assert not broker.images() and not broker.attached()
    broker.must("remove", "free")


def names_the_least_limit(broker):
    done = broker.ctl("create", "--disk", 4 * MIB - 1, "tiny", "--", "true")
    assert done.returncode == 1 and "limit the disk" in done.stderr, done.stderr
    assert str(4 * MIB) in done.stderr, done.stderr
    assert "there is no sandbox" in broker.ctl("stat", "tiny").stderr


def leaves_nothing_behind(broker):
    broker.must("create", "--disk", LIMIT, "gone", "--", "sleep", "100")
    pid = int(broker.must("list").split("pid=")[1].split()[0])
    if "loop image" in broker.log():
        assert broker.images() and broker.attached()
    os.kill(pid, 9)  # nobody helps: the device goes by itself
    wait_for(lambda: not broker.attached(), "the loop device to go")
    broker.must("remove", "gone")
    assert not broker.images() and not list(broker.state.glob("slots/*/disk*"))
    assert str(broker.state) not in pathlib.Path("/proc/self/mountinfo").read_text("utf-8")


def snapshot_after(broker, state, verb, *more):
    """What the sandbox wrote to / and /usr is in the snapshot, living or not."""
    name, folder = f"for-{verb}", broker.folder / state
    broker.must("create", "--disk", LIMIT, name, "--", "sh", "-c",
                "echo one >/root/a; echo two >/usr/b; rm /etc/hosts; echo done; sleep 100")
    wait_for(lambda: "done" in broker.said(name), "the files")
    broker.must(verb, name, *more)
    wait_for(lambda: f"state={state}" in broker.must("stat", name), state)
    folder.mkdir()
    broker.must("snapshot", name, folder)
    assert (folder / "root/a").read_text("utf-8") == "one\n"
    assert (folder / "usr/b").read_text("utf-8") == "two\n"
    broker.must("remove", name)
    wait_for(lambda: not broker.attached(), "the loop device to go")


def snapshots_a_paused_sandbox(broker):
    snapshot_after(broker, "paused", "pause")


def snapshots_a_dead_sandbox(broker):
    snapshot_after(broker, "dead", "signal", 9)


def main():
    tap.skip_all("sandboxes need root" if os.geteuid() != 0 else None)
    tests = tap.Tap()
    with tempfile.TemporaryDirectory(prefix="osb-disk-") as folder, Broker(folder) as broker:
        print("# " + broker.log().strip())
        for test in (stops_a_writer_at_the_limit, counts_usr_too, bounds_the_number_of_files,
                     limits_side_by_side, costs_nothing_without_a_limit, names_the_least_limit,
                     leaves_nothing_behind, snapshots_a_paused_sandbox, snapshots_a_dead_sandbox):
            tests.check(test.__name__, test, broker)
    return tests.end()


sys.exit(main())
