"""box_ours.py - the battery in our own sandboxes, made by a broker that is the test's alone."""
import contextlib
import glob
import itertools
import json
import os
import pathlib
import re
import secrets
import shutil
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import battery  # noqa: E402 # beside this file
import box_server  # noqa: E402
from battery import (  # noqa: E402
    HELD_BODIES, HELD_BODY_BYTES, LOG_FLOOD_BYTES, METADATA, PORT, stop, wait_for)
from held_bodies import hold, replace_body  # noqa: E402

MIB = 1 << 20
CPU_MILLICORES = 500
LIMITS = {"memory": 256 * MIB, "pids": 128, "cpu": CPU_MILLICORES, "tmp": 32 * MIB,
          "disk": 32 * MIB, "files": 1024}
V1_CONTROLLERS = {"cpu", "cpuacct", "memory", "pids", "freezer", "blkio"}


def missing(programs):
    """Why the battery cannot run here, or None."""
    if os.geteuid() != 0:
        return "needs root"
    absent = [os.path.relpath(p) for p in programs if not os.path.exists(p)]
    if absent:
        return f"{', '.join(absent)} not built"
    busybox = shutil.which("busybox")
    if not busybox:
        return "busybox-static is not installed"
    linked = subprocess.run(["ldd", busybox], capture_output=True, text=True, check=False)
    return "busybox is not static: install busybox-static" if "=>" in linked.stdout else None


class Groups:
    """Control groups for one broker: its own below ours on v1, a mount of its own on v2.

    Brokers that share a control group would remove each other's groups in their sweeps.
    """

    def __init__(self, name):
        self.v1, self.v2 = [], []
        for point, kind, options in self.mounts():
            if kind == "cgroup2":
                self.v2.append((point, f"{point}/{name}"))
            elif V1_CONTROLLERS & set(options.split(",")):
                self.v1.append(f"{point}{self.own(options)}/{name}")

    @classmethod
    def mounts(cls):
        """One mount per hierarchy, of several the one that shows our own group, as the broker has
        it: a chroot may have a bind mount of the same tree."""
        best = {}
        for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
            fields, _, rest = line.partition(" - ")
            root, point, flags = fields.split()[3:6]
            kind, _, options = rest.split()
            key = kind if kind == "cgroup2" else frozenset(V1_CONTROLLERS & set(options.split(",")))
            if not kind.startswith("cgroup") or not key:
                continue
            own = cls.own(options) if kind == "cgroup" else ""
            rank = (root == "/" or (own + "/").startswith(root + "/"), flags.startswith("rw"),
                    point.startswith("/sys/fs/cgroup"))
            if key not in best or rank > best[key][0]:
                best[key] = rank, (point, kind, options)
        return [mount for _, mount in best.values()]

    @staticmethod
    def own(options):
        for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and set(controllers.split(",")) <= set(options.split(",")):
                return path.rstrip("/")
        return ""

    def make(self):
        for path in self.v1 + [path for _, path in self.v2]:
            os.mkdir(path)
        for point, _ in self.v2:
            for controller in ("cpu", "memory", "pids", "io"):
                with contextlib.suppress(OSError):  # on v1, or handed down already
                    pathlib.Path(point, "cgroup.subtree_control").write_text(f"+{controller}")

    def script(self):
        """What the broker's process does first, in its own mount namespace."""
        return "".join([f"echo $$ > {path}/cgroup.procs && " for path in self.v1] +
                       [f"mount --bind {path} {point} && " for point, path in self.v2])

    def remove(self):
        for top in self.v1 + [path for _, path in self.v2]:
            for directory, _, _ in os.walk(top, topdown=False):
                os.rmdir(directory)


class Ours:
    """A broker in network and mount namespaces of its own: bridge, rules, services are the test's.

    Everything of it is below one directory, and ends with it.
    """

    def __init__(self, work, probe, broker, execd, sandboxctl, server=None):
        self.dir = pathlib.Path(work) / "ours"
        self.dir.mkdir()
        self.server = server
        self.probe, self.broker, self.execd, self.sandboxctl = probe, broker, execd, sandboxctl
        self.root = self.dir / "root"
        self.state = self.dir / "st"
        self.groups = Groups("osb-battery-" + secrets.token_hex(4))
        self.stack = contextlib.ExitStack()
        self.numbers = itertools.count()
        self.pid = None

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            battery.make_root(self.root, self.probe)
            stack.callback(self.groups.remove)
            self.groups.make()
            log = stack.enter_context(open(self.dir / "log", "wb"))
            script = (f"{self.groups.script()} ip link set lo up && "
                      f"ip addr add {METADATA}/32 dev lo && "
                      f"exec {self.broker} --state {self.state} --execd {self.execd}")
            process = subprocess.Popen(["unshare", "--net", "--mount", "sh", "-c", script],
                                       stdout=log, stderr=log, start_new_session=True)
            stack.callback(stop, process)
            self.pid = process.pid
            wait_for("the broker", lambda: self.ctl("list", check=False).returncode == 0,
                     why=lambda: (self.dir / "log").read_text()[-2000:])
            stack.callback(self.remove_all)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *exc):
        self.stack.close()

    def command(self, *args):
        return [self.sandboxctl, "--broker", f"{self.state}/broker.sock", *map(str, args)]

    def ctl(self, *args, check=True):
        done = subprocess.run(self.command(*args), capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL, timeout=150)
        if check and done.returncode != 0:
            raise SystemExit(f"battery: sandboxctl {args}: {done.stderr}")
        return done

    def sandboxes(self):
        """{id: {slot, state, pid}}, as text."""
        lines = self.ctl("list").stdout.splitlines()
        return {line.split()[0]: dict(re.findall(r"(\w+)=(\S+)", line)) for line in lines}

    def remove_all(self):
        for name in self.sandboxes():
            self.ctl("remove", name)

    def options(self, root=None, net="bridge", without=()):
        limits = [text for name, value in LIMITS.items() if name not in without
                  for text in (f"--{name}", value)]
        return ["--dir", root or self.root, "--net", net, *limits]

    def new_id(self):
        return f"s{next(self.numbers)}"

    def prefix(self):
        return self.command("run", *self.options(), self.new_id(), "--", "/probe")

    def start(self, *argv):
        """Starts a sandbox, waits for its first output and returns its id.

        It has no disk limit, so its files have a path on the host that other probes can try.
        """
        name = self.new_id()
        self.ctl("create", *self.options(without=["disk"]), name, "--", *argv)
        wait_for("a sandbox", lambda: self.ctl("log", name).stdout)
        return name

    def addresses(self, pid, interface):
        """{family: address} of an interface in a process's network namespace."""
        shown = subprocess.run(["nsenter", f"--net=/proc/{pid}/ns/net", "ip", "-j", "addr", "show",
                                *interface], check=True, capture_output=True, text=True).stdout
        return {a["family"]: a["local"] for i in json.loads(shown) for a in i["addr_info"]
                if a["scope"] == "global"}

    def settings(self, neighbour, secret):
        """What the probes need to know about the host: addresses, pids, paths."""
        init = neighbour["pid"]
        inside = self.addresses(init, ["dev", "eth0"])
        gateway = self.addresses(self.pid, ["type", "bridge"])
        return {
            "secret-path": secret, "metadata-ip": METADATA, "cpu-millicores": CPU_MILLICORES,
            "host-ip": gateway["inet"], "host-ip6": gateway["inet6"], "host-port": PORT,
            "neighbour-ip": inside["inet"], "neighbour-ip6": inside["inet6"],
            "neighbour-port": PORT,
            "neighbour-pid": pathlib.Path(f"/proc/{init}/task/{init}/children").read_text().strip(),
            "neighbour-path": f"{self.state}/slots/{neighbour['slot']}/upper/neighbour-file",
        }

    def check_reachable(self, address):
        """Checks that the host can reach the neighbour; otherwise a failed probe would prove
        nothing."""
        reach = f"import socket; socket.create_connection(('{address}', {PORT}), 60)"
        subprocess.run(["nsenter", f"--net=/proc/{self.pid}/ns/net", "python3", "-c", reach],
                       check=True)

    def run(self, probes, secret):
        name = self.start("/probe", f"--neighbour={PORT}")
        settings = self.settings(self.sandboxes()[name], secret)
        if not os.path.exists(settings["neighbour-path"]):
            raise SystemExit("battery: the neighbour's file is elsewhere")
        self.check_reachable(settings["neighbour-ip"])
        listener = battery.listen(self.pid, f"0.0.0.0,{PORT}", f"::,{PORT}", f"{METADATA},80")
        self.stack.callback(stop, listener)
        results = battery.run_all(self.prefix, settings, probes, battery.GROUPS)
        holder = self.start("/probe", "--hold-inotify=600")
        results |= battery.run_probes(self.prefix, settings, ["inotify-starved"])[0]
        self.ctl("remove", holder)
        results["log-flood"] = self.log_flood()
        results["host-root-tampering"] = self.tampering()
        results["volume-links"] = box_server.volume_links(self.server, self.broker, self.execd,
                                                          self.sandboxctl)
        results["fork-bomb-default"] = self.fork_bomb_default()
        results["held-bodies"] = self.held_bodies()
        wait_for("the neighbour, whatever was tried,",
                 lambda: self.ctl("ping", name, check=False).returncode == 0)
        return results

    def tampering(self):
        """Others may pass through what is above the state directory, as through /var/lib."""
        for path in (self.dir.parent, self.dir):
            path.chmod(0o711)
        return battery.judge_tampering(self.state)

    def held_bodies(self):
        """Many requests whose bodies execd must hold, sent to its socket as the gateway does."""
        name = self.start("/bin/sh", "-c", "echo text > /file; echo ready; sleep 600")
        body = replace_body("/file", HELD_BODY_BYTES)
        answers = hold(f"{self.state}/{name}.sock", HELD_BODIES, body)
        alive = self.ctl("ping", name, check=False).returncode == 0
        self.ctl("remove", name)
        return battery.judge_bodies([status for status, _, _ in answers], alive)

    def log_flood(self):
        name = self.new_id()
        script = f"/bin/busybox yes | /bin/busybox head -c {LOG_FLOOD_BYTES}"
        self.ctl("create", *self.options(), name, "--", "/bin/sh", "-c", script)
        wait_for("the end of a flood", lambda: self.sandboxes()[name]["state"] == "dead")
        size = os.stat(f"{self.state}/slots/{self.sandboxes()[name]['slot']}/log").st_size
        self.ctl("remove", name)
        return battery.judge_log(size)

    def processes(self, slot):
        """The number of processes that the kernel counts in a slot; 0 once its groups are gone."""
        for top in self.groups.v1 + [path for _, path in self.groups.v2]:
            # Unlike Path.glob, glob.glob passes over groups that go away meanwhile.
            for path in glob.glob(f"{top}/**/{slot}/work/pids.current", recursive=True):
                with contextlib.suppress(OSError):
                    return int(pathlib.Path(path).read_text(encoding="ascii"))
        return 0

    def fork_bomb_default(self):
        """Memory and CPU have limits, processes only the one that follows from the memory."""
        name = self.new_id()
        limit = 2 * LIMITS["memory"] // MIB
        self.ctl("create", *self.options(without=["pids"]), name, "--", "/bin/sh", "-c",
                 "b() { b | b & }; b; while :; do /bin/busybox sleep 1; done")
        slot = self.sandboxes()[name]["slot"]
        seen = []

        def is_large():
            seen.append(self.processes(slot))
            return max(seen) >= limit / 2
        wait_for("a fork bomb", is_large, seconds=240)
        seen += [self.processes(slot) for _ in range(100)]
        self.ctl("remove", name)
        return battery.judge_bomb(max(seen), limit, self.processes(slot))
