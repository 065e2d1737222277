"""containerd_process.py - a containerd of the test's own, without Kubernetes: containers with the
labels that the kubelet gives.

    with Containerd(folder) as containerd:
        containerd.load(archive)
        containerd.run("app", "localhost/app:1", "/bin/busybox", "sleep", "1000", pod="p")
"""
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time

SECONDS_MAX = 60
NAMESPACE = "k8s.io"


def why_not():
    """Why there can be none here, or None."""
    if os.geteuid() != 0:
        return "root only"
    missing = [name for name in ("containerd", "ctr", "runc", "docker-registry", "skopeo")
               if not shutil.which(name)]
    return f"no {', '.join(missing)} (tools/deps test installs them)" if missing else None


class Containerd:
    def __init__(self):
        # Sockets have short paths.
        self.temporary = tempfile.TemporaryDirectory(prefix="osb-ctrd-", dir="/run")
        self.folder = self.temporary.name
        self.socket = f"{self.folder}/s.sock"

    def __enter__(self):
        with open(f"{self.folder}/config.toml", "w", encoding="ascii") as file:
            file.write(f"""version = 2
root = "{self.folder}/root"
state = "{self.folder}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.aufs", "io.containerd.internal.v1.opt"]
[grpc]
address = "{self.socket}"
""")
        # Layers in /run would be in memory, and the kernel refuses some overlays there.
        self.disk = tempfile.TemporaryDirectory(prefix="osb-ctrd-")
        os.symlink(self.disk.name, f"{self.folder}/root")
        with open(f"{self.folder}/log", "wb") as log:
            self.process = subprocess.Popen(["containerd", "-c", f"{self.folder}/config.toml"],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for(lambda: self.ctr("version", check=False).returncode == 0, "containerd")
        return self

    def __exit__(self, *_):
        for name in self.names("c"):
            self.remove(name)
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(SECONDS_MAX)
        finally:
            self.process.kill()
            self.process.wait()
            self.unmount()
        self.disk.cleanup()
        self.temporary.cleanup()

    def unmount(self):
        with open("/proc/self/mounts", encoding="ascii") as file:
            mounts = [line.split()[1] for line in file]
        for mount in reversed(mounts):
            if mount.startswith((self.folder, self.disk.name)):
                subprocess.run(["umount", "-l", mount], check=False, timeout=SECONDS_MAX)

    def ctr(self, *words, check=True):
        done = subprocess.run(["ctr", "-a", self.socket, "-n", NAMESPACE, *map(str, words)],
                              capture_output=True, text=True, check=False, timeout=SECONDS_MAX)
        assert not check or done.returncode == 0, (words, done.stderr)
        return done

    def names(self, kind):
        return self.ctr(kind, "ls", "-q", check=False).stdout.split()

    def load(self, archive):
        self.ctr("image", "import", archive)

    def run(self, name, image, *command, pod, uid="u-1", container="sandbox"):
        labels = {"io.kubernetes.pod.name": pod, "io.kubernetes.pod.namespace": "boxes",
                  "io.kubernetes.pod.uid": uid, "io.kubernetes.container.name": container}
        self.ctr("run", "-d", *(word for key, value in labels.items()
                                for word in ("--label", f"{key}={value}")),
                 image, name, *command)

    def exec(self, name, script):
        return self.ctr("task", "exec", "--exec-id", f"x{time.monotonic_ns()}", name,
                        "/bin/busybox", "sh", "-c", script).stdout

    def state(self, name):
        for line in self.ctr("task", "ls").stdout.splitlines():
            if line.split()[0] == name:
                return line.split()[2]
        return None

    def remove(self, name):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.ctr("task", "resume", name, check=False)
            self.ctr("task", "kill", "-s", "KILL", name, check=False)
            for _ in range(100):
                if self.ctr("task", "rm", "-f", name, check=False).returncode == 0:
                    break
                time.sleep(0.05)
            self.ctr("c", "rm", name, check=False)


def wait_for(is_so, what, seconds=SECONDS_MAX):
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"waited too long for {what}"
        time.sleep(0.02)
