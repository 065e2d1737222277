"""node_world.py - a cluster in which pods really run, with our programs around and in it.

    with NodeWorld(programs) as world:
        with KubeServer(..., cluster=world.cluster, config=world.server_config()) as server:
            ...

`programs`: the paths of what is built, by name. Operator and gateway run on this machine; execd,
the task executor, the committer and the egress sidecar are in images, imported into containerd. The
image of sandboxes is in the registry alone, so that the node pulls it.
"""
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import operator_process
from cluster_process import ClusterProcess, image_archive
from kube_world import set_up

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS_MAX = 180



def libraries(program):
    """The shared libraries of a program, and its loader."""
    shown = subprocess.run(["ldd", program], capture_output=True, text=True, check=True,
                           timeout=60).stdout
    return re.findall(r"(/\S+) \(0x", shown)


def add_program(root, program, at):
    """A program at a place in a root, with the libraries that it needs."""
    target = root / at.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(program, target)
    target.chmod(0o755)
    if b"ld-linux" not in pathlib.Path(program).read_bytes()[:8192]:
        return
    for library in libraries(program):
        copy = root / library.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, copy)


def add_busybox(root):
    (root / "bin").mkdir(parents=True, exist_ok=True)
    for name in ("tmp", "etc", "proc", "dev", "sys", "root", "var"):
        (root / name).mkdir(exist_ok=True)
    add_program(root, "/bin/busybox", "/bin/busybox")
    names = subprocess.run(["/bin/busybox", "--list"], capture_output=True, text=True, check=True,
                           timeout=60).stdout.split()
    for name in names:
        if name != "busybox":
            (root / "bin" / name).symlink_to("busybox")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n"
                                     "nobody:x:65534:65534:nobody:/:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")


def add_python(root):
    """Python of this machine's packages, without what programs add to it."""
    add_program(root, "/usr/bin/python3", "/usr/bin/python3")
    name = os.path.basename(os.path.realpath("/usr/bin/python3"))
    library = root / "usr/lib" / name
    shutil.copytree(f"/usr/lib/{name}", library, symlinks=True, ignore=shutil.ignore_patterns(
        "__pycache__", "test", "idlelib", "config-*", "lib2to3", "*.exe", "sitecustomize.py",
        "EXTERNALLY-MANAGED", "ensurepip", "tkinter", "pydoc_data"))
    for module in library.glob("lib-dynload/*.so"):
        for needed in libraries(module):
            copy = root / needed.lstrip("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            if not copy.exists():
                shutil.copy(needed, copy)


class Images:
    """Archives of the images that a cluster needs."""

    def __init__(self, folder, programs):
        self.folder, self.programs = pathlib.Path(folder), programs

    def make(self, name, tag, *fillers, **config):
        root, archive = self.folder / name, self.folder / f"{name}.tar"
        root.mkdir()
        for fill in fillers:
            fill(root)
        image_archive(root, tag, archive, config)
        shutil.rmtree(root)
        return archive

    def program(self, name, at):
        return lambda root: add_program(root, self.programs[name], at)

    def ours(self):
        def bootstrap(root):
            shutil.copy(ROOT / "images/execd/bootstrap.sh", root / "bootstrap.sh")
            (root / "bootstrap.sh").chmod(0o755)
        yield self.make("execd", "localhost/execd:1", add_busybox, self.program("execd", "/execd"),
                        bootstrap, WorkingDir="/")
        yield self.make("task-executor", "localhost/task-executor:1", add_busybox,
                        self.program("task-executor", "/workspace/server"), WorkingDir="/workspace")
        yield self.make("committer", "localhost/image-committer:1",
                        self.program("image-committer", "/usr/local/bin/image-committer"))
        yield self.make("egress", "localhost/egress:1", add_busybox,
                        self.program("egress", "/opt/opensandbox-egress/egress"),
                        lambda root: (root / "var/egress/rules").mkdir(parents=True),
                        Entrypoint=["/opt/opensandbox-egress/egress"])

    def sandbox(self, tag):
        # Clients of code contexts look for their server by bash.
        return self.make("sandbox", tag, add_busybox, add_python,
                         lambda root: add_program(root, "/bin/bash", "/bin/bash"), Cmd=["sh"])


class NodeWorld:
    def __init__(self, programs):
        self.programs = programs
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.cluster = stack.enter_context(ClusterProcess(api_only=False, timeout=400,
                                                               audit=True))
            self.load_images()
            self.set_up(stack)
            self.stack = stack.pop_all()
        return self

    def set_up(self, stack):
        self.cluster.install_crds()
        set_up(self.cluster)
        self.operator = stack.enter_context(self.make_operator())

    def __exit__(self, *error):
        self.stack.__exit__(*error)

    def load_images(self):
        self.image = f"{self.cluster.registry}/base/sandbox:1"
        with tempfile.TemporaryDirectory(prefix="osb-images-") as folder:
            images = Images(folder, self.programs)
            self.cluster.load(*images.ours())
            self.cluster.load(images.sandbox(self.image))
        # Into the registry, and away from the node.
        self.ctr("image", "push", "--plain-http", self.image)
        self.forget_image(self.image)

    def ctr(self, *words, check=True):
        done = subprocess.run(
            ["nsenter", f"--net=/run/netns/{self.cluster.facts['netns']}", "ctr", "-a",
             self.cluster.facts["containerd"], "-n", "k8s.io", *words], capture_output=True,
            text=True, check=False, timeout=SECONDS_MAX)
        assert not check or done.returncode == 0, (words, done.stderr)
        return done.stdout

    def local_images(self):
        return self.ctr("image", "ls", "-q").split()

    def forget_image(self, name):
        """Removes an image from the node by all its names, and waits until its bytes are gone, too:
        what needs it afterwards must pull it."""
        name, _, tag = name.rpartition(":")
        ids = {line.split()[2] for line in self.ctr("image", "ls").splitlines()[1:]
               if line.split()[0] == f"{name}:{tag}"}
        for line in self.ctr("image", "ls").splitlines()[1:]:
            if line.split()[2] in ids:
                self.ctr("image", "rm", "--sync", line.split()[0])
        assert not ids & {line.split()[2]
                          for line in self.ctr("image", "ls").splitlines()[1:]}

    def make_operator(self):
        return operator_process.Operator(
            self.programs["operator"], operator_process.account(self.cluster),
            f"--snapshot-registry={self.cluster.registry}/snapshots",
            "--snapshot-registry-insecure=true",
            "--image-committer-image=localhost/image-committer:1",
            f"--containerd-socket-path={self.cluster.facts['containerd']}")

    def pool(self, size=1):
        """The manifest of a pool, as docs and examples have it, with our images."""
        text = (ROOT / "deploy/kubernetes/examples/pool.yaml").read_text()
        return text.replace("opensandbox/task-executor:latest", "localhost/task-executor:1") \
            .replace("opensandbox/execd:latest", "localhost/execd:1") \
            .replace("python:3.12", self.image) \
            .replace("namespace: opensandbox", "namespace: boxes") \
            .replace("{bufferMin: 2, bufferMax: 6, poolMin: 2, poolMax: 50}",
                     f"{{bufferMin: {size}, bufferMax: {size}, poolMin: {size}, poolMax: 8}}")
