#!/usr/bin/env python3
"""test_images.py PROBE BROKER EXECD SANDBOXCTL - malicious root directories.

The broker refuses such a root with a reason, or the sandbox works and has no effect outside; in no
case may anything on the host change. The same for files that a sandbox leaves to be copied or
removed. TAP.
"""
import os
import pathlib
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import box_ours  # noqa: E402 # beside this file
import tap  # noqa: E402

SYSTEM = ("proc", "sys", "dev", "tmp", "etc")


class Host:
    """Directories of the host that links point at, and a record of their content before and
    after."""

    def __init__(self, work):
        self.top = pathlib.Path(work) / "host"
        for name in (*SYSTEM, "dev/shm", "dev/pts"):
            (self.top / name).mkdir(parents=True, exist_ok=True)
        for name in ("hosts", "hostname", "resolv.conf"):
            (self.top / "etc" / name).write_text("the host's\n", encoding="utf-8")
        (self.top / "precious").write_text("keep\n", encoding="utf-8")
        self.real = self.own_files()
        self.before = self.picture()

    @staticmethod
    def own_files():
        """Everything that a write would change; access times do not count."""
        found = [os.lstat(p) for p in ("/etc/hosts", "/etc/resolv.conf", "/etc/hostname")
                 if os.path.lexists(p)]
        return [(st.st_mode, st.st_ino, st.st_uid, st.st_size, st.st_mtime_ns) for st in found]

    def picture(self):
        found = {}
        for folder, _, names in os.walk(self.top):
            for path in [folder, *(os.path.join(folder, name) for name in names)]:
                st = os.lstat(path)
                found[path] = (st.st_mode, st.st_uid, st.st_size, st.st_mtime_ns, st.st_ino)
        return found

    def check(self):
        assert self.picture() == self.before, "the host changed"
        assert self.own_files() == self.real, "the host's own /etc changed"


def replace(root, name, target):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.symlink_to(target)


def hostile_roots(host):
    """{sentence: what it does to a good root}"""
    up = "/.." * 12
    roots = {}
    for name in SYSTEM:
        roots[f"/{name} is an absolute link"] = \
            lambda root, name=name: replace(root, name, host.top / name)
        roots[f"/{name} is a link upwards"] = \
            lambda root, name=name: replace(root, name, f"{up}{host.top}/{name}"[1:])
        roots[f"/{name} is a link through /proc/self/root"] = \
            lambda root, name=name: replace(root, name, f"/proc/self/root{host.top}/{name}")
        roots[f"/{name} is a link to itself"] = lambda root, name=name: replace(root, name, name)
        roots[f"/{name} is a link to /proc/1/root"] = \
            lambda root, name=name: replace(root, name, "/proc/1/root")
        roots[f"/{name} is a file"] = lambda root, name=name: make_file(root, name)
        roots[f"/{name} is a pipe"] = lambda root, name=name: make_pipe(root, name)
    for name in ("hosts", "hostname", "resolv.conf"):
        roots[f"/etc/{name} is an absolute link"] = \
            lambda root, name=name: replace(root, f"etc/{name}", host.top / "etc" / name)
        roots[f"/etc/{name} is a link upwards"] = \
            lambda root, name=name: replace(root, f"etc/{name}", f"{up}{host.top}/etc/{name}"[1:])
        roots[f"/etc/{name} is a pipe"] = lambda root, name=name: make_pipe(root, f"etc/{name}")
        roots[f"/etc/{name} is a directory"] = \
            lambda root, name=name: (root / "etc" / name).mkdir()
    for name in ("shm", "pts", "mqueue"):
        roots[f"/dev/{name} is an absolute link"] = \
            lambda root, name=name: replace(root, f"dev/{name}", host.top / "dev" / name)
    return roots


def clear(root, name):
    path = root / name
    if path.is_dir():
        shutil.rmtree(path)


def make_file(root, name):
    clear(root, name)
    (root / name).write_text("no directory\n", encoding="utf-8")


def make_pipe(root, name):
    clear(root, name)
    os.mkfifo(root / name)


# Writes wherever a link might lead; what exists on the host only must stay as it was.
INSIDE = """
for d in /etc /tmp /dev /dev/shm /proc /sys; do
    (echo x > $d/written-inside; echo x >> $d/hosts) 2> /dev/null
done
/bin/busybox test -e {precious} && echo ESCAPED
echo done
"""


def try_root(ours, host, spoil, work):
    root = pathlib.Path(tempfile.mkdtemp(dir=work))
    shutil.copytree(ours.root, root, symlinks=True, dirs_exist_ok=True)
    spoil(root)
    script = INSIDE.format(precious=host.top / "precious")
    done = ours.ctl("run", *ours.options(root, "none"), ours.new_id(), "--", "/bin/sh", "-c",
                    script, check=False)
    host.check()
    assert "ESCAPED" not in done.stdout, done.stdout
    refused = done.returncode == 1 and "of the image is not a directory" in done.stderr
    assert refused or (done.returncode == 0 and "done" in done.stdout), (done, "neither")
    assert not ours.sandboxes(), "a sandbox was left over"
    box_ours.wait_for("the cleaner", lambda: not os.listdir(ours.state / "slots"))
    shutil.rmtree(root)


def finds_no_device_nor_privilege_in_an_image(ours, host, work):
    root = pathlib.Path(tempfile.mkdtemp(dir=work))
    shutil.copytree(ours.root, root, symlinks=True, dirs_exist_ok=True)
    os.mknod(root / "zero", 0o20666, os.makedev(1, 5))
    (root / "setuid").mkdir()
    shutil.copy(root / "bin/busybox", root / "setuid")
    os.chmod(root / "setuid/busybox", 0o4755)
    script = "/bin/busybox head -c1 /zero && echo OPENED; /setuid/busybox id -u"
    done = ours.ctl("run", *ours.options(root, "none"), "--uid", 1000, ours.new_id(), "--",
                    "/bin/sh", "-c", script, check=False)
    assert "OPENED" not in done.stdout, done
    assert done.stdout.split()[-1:] == ["1000"], done
    host.check()


def removes_links_and_not_what_they_name(ours, host, _work):
    name = ours.new_id()
    script = (f"/bin/busybox ln -s {host.top} /out; /bin/busybox mkdir -p /a/b; "
              f"/bin/busybox ln -s {host.top}/etc /a/b/etc; /bin/busybox mkfifo /a/pipe; "
              "/bin/busybox chmod 0 /a; echo ready; /bin/busybox sleep 1000")
    ours.ctl("create", *ours.options(net="none"), name, "--", "/bin/sh", "-c", script)
    box_ours.wait_for("the script", lambda: "ready" in ours.ctl("log", name).stdout)
    ours.ctl("remove", name)
    host.check()
    box_ours.wait_for("the cleaner", lambda: not os.listdir(ours.state / "slots"))


def copies_links_and_not_what_they_name(ours, host, work):
    name = ours.new_id()
    copy = pathlib.Path(work) / "copy"
    copy.mkdir()
    script = (f"/bin/busybox ln -s {host.top} /out; /bin/busybox ln -s {host.top}/precious /f; "
              "echo ready; /bin/busybox sleep 1000")
    ours.ctl("create", *ours.options(net="none", without=["disk"]), name, "--", "/bin/sh", "-c",
             script)
    box_ours.wait_for("the script", lambda: "ready" in ours.ctl("log", name).stdout)
    ours.ctl("pause", name)
    ours.ctl("snapshot", name, copy)
    ours.ctl("remove", name)
    host.check()
    links = [p for p in copy.rglob("*") if p.name in ("out", "f")]
    assert len(links) == 2 and all(p.is_symlink() for p in links), sorted(copy.rglob("*"))


def main():
    programs = [str(pathlib.Path(p).resolve()) for p in sys.argv[1:]]
    tap.skip_all(box_ours.missing(programs))
    tests = tap.Tap()
    with tempfile.TemporaryDirectory(prefix="osb-images-") as work:
        host = Host(work)
        with box_ours.Ours(work, *programs) as ours:
            for sentence, spoil in hostile_roots(host).items():
                tests.check(f"is safe where {sentence}", try_root, ours, host, spoil, work)
            for test in (finds_no_device_nor_privilege_in_an_image,
                         removes_links_and_not_what_they_name,
                         copies_links_and_not_what_they_name):
                tests.check(test.__name__, test, ours, host, work)
    return tests.end()


if __name__ == "__main__":
    sys.exit(main())
