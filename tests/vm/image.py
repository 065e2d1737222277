"""image.py - makes what the test VM boots from: an initramfs and a disk.

The initramfs has busybox and kernel modules. The disk is ext4 with project quotas; it has busybox,
the programs under test, and the shared libraries that these need, each at its place on the host.
"""
import lzma
import os
import pathlib
import re
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
DISK_BYTES = 2 << 30  # sparse
DISK_INODES = 65536
MERGED = ("bin", "lib", "lib64", "sbin")  # links into usr, as on the host
NO_APPLETS = {"busybox", "dpkg", "dpkg-deb", "rpm", "rpm2cpio"}  # tests take them for the real ones
LEFT_OUT = {"__pycache__", "test"}  # of directories
DIRECTORIES = ("dev", "etc", "mnt", "opensandbox", "proc", "root", "run", "state", "sys", "tmp",
               "usr/bin", "usr/lib", "usr/lib64", "usr/sbin", "var/lib")
LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")
ETC = {
    "group": "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost vm\n::1 localhost\n",
    "os-release": 'ID=debian\nNAME="test VM"\n',
    "passwd": "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/nonexistent:/bin/sh\n",
    "resolv.conf": "",
}


class ImageError(Exception):
    """Something that the image needs is not there."""


def run(command, **options):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False, **options)
    if done.returncode != 0:
        raise ImageError(f"{command[0]}: {done.stdout.decode(errors='replace').strip()}")


def listed(path):
    """The lines of a table without comments and empty ones."""
    lines = (line.split("#")[0].strip() for line in path.read_text().splitlines())
    return [line for line in lines if line]


class Kernel:
    """A kernel package, unpacked, with a modules.dep made for it."""

    def __init__(self, directory):
        images = sorted(directory.glob("boot/vmlinuz-*"))
        if not images:
            raise ImageError(f"no kernel in {directory}")
        self.image = images[-1]
        self.modules = directory / "lib/modules" / self.image.name[len("vmlinuz-"):]

    def module_order(self, names):
        """Paths of the modules and of all they need, each after what it needs."""
        needs = {}
        for line in (self.modules / "modules.dep").read_text().splitlines():
            path, _, rest = line.partition(":")
            needs[self.module_name(path)] = [*reversed(rest.split()), path]
        built_in = {self.module_name(path)
                    for path in (self.modules / "modules.builtin").read_text().split()}
        order = {}  # as a set that remembers
        for name in names:
            if name not in needs and name not in built_in:
                raise ImageError(f"{self.image.name} has no module {name}")
            order.update(dict.fromkeys(needs.get(name, [])))
        return list(order)

    @staticmethod
    def module_name(path):
        return os.path.basename(path).split(".ko")[0].replace("-", "_")


def copy_module(source, folder):
    """Copies a module, unpacked; returns its name there."""
    data = source.read_bytes()
    if source.suffix == ".xz":
        data = lzma.decompress(data)
    name = source.name.split(".ko")[0] + ".ko"
    (folder / name).write_bytes(data)
    return name


def make_initramfs(kernel, work, busybox):
    """Returns the path of an uncompressed cpio archive: unpacking would cost more than reading."""
    root, archive = work / "initramfs", work / "initramfs.cpio"
    shutil.rmtree(root, ignore_errors=True)
    (root / "bin").mkdir(parents=True)
    (root / "modules").mkdir()
    shutil.copy(busybox, root / "bin/busybox")
    shutil.copy(HERE / "init", root / "init")
    order = [copy_module(kernel.modules / path, root / "modules")
             for path in kernel.module_order(listed(HERE / "modules"))]
    (root / "modules/order").write_text("".join(f"{name}\n" for name in order))
    names = sorted(str(path.relative_to(root)) for path in root.rglob("*"))
    with open(archive, "wb") as out:
        done = subprocess.run(["cpio", "-o", "-H", "newc", "-R", "0:0", "--quiet"], cwd=root,
                              input="\n".join(names).encode(), stdout=out, check=False)
    if done.returncode != 0:
        raise ImageError("cpio failed")
    return archive


def libraries(program):
    """Absolute paths of the shared libraries and the interpreter of a program; none if static."""
    done = subprocess.run(["ldd", str(program)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, check=False)
    if "not found" in done.stdout:
        raise ImageError(f"{program}: {done.stdout.strip()}")
    return [pathlib.Path(path) for path in LIBRARY.findall(done.stdout)]


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


class Disk:
    """The tree that becomes the VM's root file system."""

    def __init__(self, work, busybox):
        self.work = work
        self.root = work / "disk"
        shutil.rmtree(self.root, ignore_errors=True)
        for name in DIRECTORIES:
            (self.root / name).mkdir(parents=True, exist_ok=True)
        for name in MERGED:
            (self.root / name).symlink_to(f"usr/{name}")
        for name, text in ETC.items():
            (self.root / "etc" / name).write_text(text)
        shutil.copy(busybox, self.root / "usr/bin/busybox")
        applets = subprocess.run([busybox, "--list"], stdout=subprocess.PIPE, text=True, check=True)
        for name in set(applets.stdout.split()) - NO_APPLETS:
            (self.root / "usr/bin" / name).symlink_to("busybox")

    def add_file(self, source, target=None):
        """Copies a file, and the libraries it needs when it is a program."""
        target = self.root / (target or os.path.realpath(source.parent)[1:] + f"/{source.name}")
        if target.exists() and not target.is_symlink():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        shutil.copy(source, target)
        if is_elf(source):
            for library in libraries(source):
                self.add_file(library)

    def add(self, source, target=None):
        """Copies a file or all of a directory."""
        if not source.is_dir():
            self.add_file(source, target)
            return
        for folder, subfolders, names in os.walk(source):
            subfolders[:] = set(subfolders) - LEFT_OUT
            for path in (pathlib.Path(folder, name) for name in names):
                if path.is_file():
                    self.add_file(path, target and f"{target}/{path.relative_to(source)}")

    def make(self):
        image = self.work / "disk.ext4"
        image.unlink(missing_ok=True)
        with open(image, "wb") as file:
            file.truncate(DISK_BYTES)
        run(["mkfs.ext4", "-q", "-F", "-O", "quota,project", "-E", "quotatype=prjquota",
             "-E", "lazy_itable_init=1,nodiscard,root_owner=0:0", "-N", DISK_INODES, "-m", 0,
             "-d", self.root, image])
        return image
