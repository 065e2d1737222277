"""The limit of a sandbox's writable layer, from inside a sandbox and from the host.

Usage: test_disk.py BROKER EXECD SANDBOXCTL. TAP on standard output. Needs root.
"""
import contextlib
import glob
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from broker_process import Broker, wait_for, why_not  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:4]]
MIB = 1 << 20
LIMIT = 32 * MIB
OVERHEAD = LIMIT // 8  # what an image may spend on itself
DISTURBANCE = MIB  # what execd and the shell may have written beside


class DiskBroker(Broker):
    """Knows what limits leave on the host."""

    def said(self, name):
        return self.ok("log", name)

    def images(self):
        return [file for file in self.disks() if file.name == "disk.img"]

    def disks(self):
        """Of all slots. One that is removed while they are listed has none."""
        found = []
        for slot in (self.state / "slots").iterdir():
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                found += [file for file in slot.iterdir() if file.name.startswith("disk")]
        return found

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
    broker.ok("create", "--disk", LIMIT, name, "--", "sh", "-c",
              f"dd if=/dev/zero of=/{folder}/big bs=64k; echo status=$?; "
              f"echo size=$(wc -c </{folder}/big); sleep 1000")
    wait_for(lambda: "size=" in broker.said(name), "dd")
    said = broker.said(name)
    assert "No space left" in said or "quota exceeded" in said, said
    assert "status=1" in said, said
    size = int(said.partition("size=")[2])
    assert LIMIT - OVERHEAD - DISTURBANCE <= size <= LIMIT, size
    assert broker.pings(name)
    assert "state=running" in broker.ok("stat", name)
    broker.ok("remove", name)


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
        broker.ok("create", "--disk", mib * MIB, name, "--", "sh", "-c",
                  "dd if=/dev/zero of=/root/big bs=64k count=512; echo status=$?; sleep 1000")
    for name, status in (("small", 1), ("large", 0)):
        wait_for(lambda name=name: "status=" in broker.said(name), "dd")
        assert f"status={status}" in broker.said(name)
        broker.ok("remove", name)


def costs_nothing_without_a_limit(broker):
    wait_for(lambda: not broker.images() and not broker.attached(), "those of others to be gone")
    broker.ok("create", "free", "--", "sleep", "1000")
    assert not broker.images() and not broker.attached()
    broker.ok("remove", "free")


def names_the_least_limit(broker):
    done = broker.ctl("create", "--disk", 4 * MIB - 1, "tiny", "--", "true")
    assert done.returncode == 1 and "limit the disk" in done.stderr, done.stderr
    assert str(4 * MIB) in done.stderr, done.stderr
    assert "there is no sandbox" in broker.ctl("stat", "tiny").stderr


def leaves_nothing_behind(broker):
    broker.ok("create", "--disk", LIMIT, "gone", "--", "sleep", "1000")
    pid = broker.sandbox("gone").pid
    if "loop image" in broker.log():
        assert broker.images() and broker.attached()
    os.kill(pid, 9)  # without the broker's help: the loop device detaches by itself
    wait_for(lambda: not broker.attached(), "the loop device to go")
    broker.ok("remove", "gone")
    wait_for(lambda: not broker.disks(), "the cleaner")
    assert str(broker.state) not in pathlib.Path("/proc/self/mountinfo").read_text("utf-8")


def snapshot_after(broker, state, verb, *more):
    """What the sandbox wrote to / and /usr is in the snapshot, living or not."""
    name, folder = f"for-{verb}", broker.folder / state
    broker.ok("create", "--disk", LIMIT, name, "--", "sh", "-c",
              "echo one >/root/a; echo two >/usr/b; rm /etc/hosts; echo done; sleep 1000")
    wait_for(lambda: "done" in broker.said(name), "the files")
    broker.ok(verb, name, *more)
    wait_for(lambda: f"state={state}" in broker.ok("stat", name), state)
    folder.mkdir()
    broker.ok("snapshot", name, folder)
    assert (folder / "root/a").read_text("utf-8") == "one\n"
    assert (folder / "usr/b").read_text("utf-8") == "two\n"
    broker.ok("remove", name)
    wait_for(lambda: not broker.attached(), "the loop device to go")


def snapshots_a_paused_sandbox(broker):
    snapshot_after(broker, "paused", "pause")


def snapshots_a_dead_sandbox(broker):
    snapshot_after(broker, "dead", "signal", 9)


def main():
    tap.skip_all(why_not())
    tests = tap.Tap()
    with DiskBroker(*PROGRAMS, workers=1) as broker:
        print("# " + broker.log().strip())
        for test in (stops_a_writer_at_the_limit, counts_usr_too, bounds_the_number_of_files,
                     limits_side_by_side, costs_nothing_without_a_limit, names_the_least_limit,
                     leaves_nothing_behind, snapshots_a_paused_sandbox, snapshots_a_dead_sandbox):
            tests.check(test.__name__, test, broker)
    return tests.end()


sys.exit(main())
