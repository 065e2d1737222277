"""box_docker.py - the battery in plain Docker containers: the control."""
import contextlib
import os
import pathlib
import secrets
import subprocess

import battery
from battery import LOG_FLOOD_BYTES, METADATA, PORT, stop, wait_for


class Docker:
    """A dockerd of our own; everything of it is below one directory and ends with it."""

    gateway = "172.29.77.1"

    def __init__(self, work, probe):
        self.dir = work / "docker"
        self.dir.mkdir()
        self.name = "battery-" + secrets.token_hex(4)
        self.cgroup = "opensandbox-" + self.name
        self.stack = contextlib.ExitStack()
        self.pid = None
        self.probe = probe

    def client(self, *args, **kwargs):
        command = ["docker", "-H", f"unix://{self.dir}/sock", *args]
        return subprocess.run(command, check=True, capture_output=True, text=True, **kwargs).stdout

    def __enter__(self):
        log = self.stack.enter_context(open(self.dir / "log", "wb"))
        script = (f"ip link set lo up && ip addr add {METADATA}/32 dev lo && exec dockerd "
                  f"--data-root {self.dir}/data --exec-root {self.dir}/exec "
                  f"--pidfile {self.dir}/pid -H unix://{self.dir}/sock "
                  f"--cgroup-parent /{self.cgroup} --bip {self.gateway}/24")
        daemon = subprocess.Popen(["unshare", "--net", "--mount", "sh", "-c", script],
                                  stdout=log, stderr=log, start_new_session=True)
        self.stack.callback(self.remove_cgroups)
        self.stack.callback(stop, daemon)
        self.pid = daemon.pid
        wait_for("dockerd", lambda: (self.dir / "sock").exists() and self.answers(),
                 why=lambda: (self.dir / "log").read_text()[-2000:])
        self.import_image()
        self.stack.callback(stop, battery.listen(self.pid, f"0.0.0.0,{PORT}", f"{METADATA},80"))
        return self

    def __exit__(self, *exc):
        self.stack.close()

    def answers(self):
        try:
            self.client("info")
        except subprocess.CalledProcessError:
            return False
        return True

    def remove_cgroups(self):
        for top in pathlib.Path("/sys/fs/cgroup").glob(f"*/{self.cgroup}"):
            for directory, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(directory)

    def import_image(self):
        root = self.dir / "root"
        battery.make_root(root, self.probe)
        subprocess.run(["tar", "-C", root, "-cf", self.dir / "root.tar", "."], check=True)
        self.client("import", str(self.dir / "root.tar"), "battery:1")

    def neighbour(self, *args):
        name = f"{self.name}-n{secrets.token_hex(2)}"
        self.client("run", "-d", "--name", name, "battery:1", "/probe", *args)
        self.stack.callback(self.client, "rm", "-f", name)
        return name

    def inspect(self, name, what):
        return self.client("inspect", "-f", "{{%s}}" % what, name).strip()

    def run(self, probes, secret):
        name = self.neighbour(f"--neighbour={PORT}")
        wait_for("the neighbour", lambda: "ready" in self.client("logs", name))
        upper = self.inspect(name, ".GraphDriver.Data.UpperDir")
        settings = {
            "secret-path": secret, "host-ip": self.gateway, "host-port": PORT,
            "metadata-ip": METADATA, "neighbour-port": PORT,
            "neighbour-ip": self.inspect(name, ".NetworkSettings.IPAddress"),
            "neighbour-pid": self.inspect(name, ".State.Pid"),
            "neighbour-path": f"{upper}/neighbour-file",
        }
        prefix = ["docker", "-H", f"unix://{self.dir}/sock", "run", "--rm", "battery:1", "/probe"]
        results = battery.run_all(prefix, settings, probes, battery.GROUPS)
        holder = self.neighbour("--hold-inotify=30")
        wait_for("the greedy neighbour", lambda: self.client("logs", holder).strip().isdigit())
        results |= battery.run_probes(prefix, settings, ["inotify-starved"])[0]
        self.client("kill", holder)
        results["log-flood"] = self.log_flood()
        return results

    def log_flood(self):
        name = self.name + "-flood"
        script = f"/bin/busybox yes | /bin/busybox head -c {LOG_FLOOD_BYTES}"
        self.client("run", "-d", "--name", name, "battery:1", "/bin/sh", "-c", script)
        self.client("wait", name)
        size = os.stat(self.inspect(name, ".LogPath")).st_size
        self.client("rm", "-f", name)
        return battery.judge_log(size)
