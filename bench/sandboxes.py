"""sandboxes.py - what benchmarks of sandboxes share: a broker of our own, its driver, docker."""
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


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def tool(name, *args):
    """The rounds of a program that prints them."""
    done = subprocess.run([str(TOOLS / name), *map(str, args)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr else "no output")
    return json.loads(done.stdout)


def docker_command(bench, scratch, root):
    """A daemon of our own, that touches no network and no other daemon's files."""
    home = scratch / "docker"
    home.mkdir()
    client = ["docker", "-H", f"unix://{home}/sock"]
    bench.start([lib.program("dockerd"), "--data-root", str(home / "data"), "--exec-root",
                 str(home / "exec"), "--pidfile", str(home / "pid"), "-H", f"unix://{home}/sock",
                 "--bridge", "none", "--iptables=false", "--ip6tables=false", "--ip-forward=false"],
                stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while subprocess.run([*client, "version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                         ).returncode != 0:
        if time.monotonic() > deadline:
            raise RuntimeError("dockerd does not start")
        time.sleep(0.2)
    archive = subprocess.run(["tar", "-C", str(root), "-c", "."], check=True,
                             stdout=subprocess.PIPE)
    subprocess.run([*client, "import", "-", "bench"], check=True, input=archive.stdout,
                   stdout=subprocess.DEVNULL)
    return [*client, "run", "--rm", "--network", "none", "bench", "/noop"]


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
        """One run of the driver; its report."""
        out = subprocess.run(self.command_line(what, count, argv, *options), check=True,
                             stdout=subprocess.PIPE, text=True).stdout
        return json.loads(out)

    def workers(self):
        """Pids of the broker and its workers."""
        return [self.process.pid, *children(self.process.pid)]

    def parked(self):
        """Pids of the parked children in ready slots."""
        return [pid for worker in self.workers()[1:] for pid in children(worker)]

    def stop(self):
        """Ends it; returns what it left behind, which should be nothing."""
        self.bench.stop(self.process)
        left = sorted(groups() - self.groups_before)
        left += [str(p) for p in (self.socket.parent / "slots").iterdir()]
        return left
