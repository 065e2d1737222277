"""sandboxes.py - what benchmarks of sandboxes share: a broker of our own, and its driver."""
import json
import os
import pathlib
import subprocess
import sys
import time

import lib

TOOLS = lib.ROOT / "build/native/bench"
GROUP = f"opensandbox-bench-{os.getpid()}"
CGROUP_MOUNTS = pathlib.Path("/sys/fs/cgroup")
IDLE = ["tail", "-f", "/dev/null"]


def check_root():
    if os.geteuid() != 0:
        sys.exit("this benchmark makes sandboxes: please run it as root")


def make_root(scratch):
    """A root file system of one static program."""
    root = scratch / "root"
    for name in ("proc", "sys", "dev", "tmp", "etc"):
        (root / name).mkdir(parents=True)
    (root / "noop").write_bytes((TOOLS / "noop").read_bytes())
    (root / "noop").chmod(0o755)
    return root


def children(pid):
    return list(map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def groups():
    """Control groups of sandboxes, ours or another broker's."""
    return {str(p) for p in CGROUP_MOUNTS.glob("**/opensandbox*/*") if p.name.isdigit()}


class Broker:
    """opensandbox-broker with a state directory and a control group that are gone afterwards."""

    def __init__(self, bench, scratch, workers):
        self.bench = bench
        self.groups_before = groups()
        self.socket = scratch / "state" / "broker.sock"
        self.sockets = scratch / "sockets"
        self.sockets.mkdir()
        self.command = [lib.program("opensandbox-broker"), "--state", str(scratch / "state"),
                        "--execd", lib.program("execd")]
        self.process = bench.start([*self.command, "--workers", str(workers)],
                                   stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while not self.socket.exists():
            if time.monotonic() > deadline or self.process.poll() is not None:
                sys.exit("the broker does not start")
            time.sleep(0.02)

    def command_line(self, what, count, argv, *options):
        return [str(TOOLS / "create_driver"), *map(str, options), str(self.socket),
                str(self.sockets), what, str(count), "--", *argv]

    def drive(self, what, count, argv, *options):
        """One run of the driver, as it tells of it."""
        out = subprocess.run(self.command_line(what, count, argv, *options), check=True,
                             stdout=subprocess.PIPE, text=True).stdout
        return json.loads(out)

    def workers(self):
        """Pids of the broker and its workers."""
        return [self.process.pid, *children(self.process.pid)]

    def parked(self):
        """Pids of what waits in ready slots."""
        return [pid for worker in self.workers()[1:] for pid in children(worker)]

    def stop(self):
        """Ends it; returns what it left behind, which should be nothing."""
        self.bench.stop(self.process)
        left = sorted(groups() - self.groups_before)
        left += [str(p) for p in (self.socket.parent / "slots").iterdir()]
        return left
