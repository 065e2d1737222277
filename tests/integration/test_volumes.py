"""Volumes: which files of the host a sandbox sees, with which ids, and what it cannot do with them.

Usage: test_volumes.py BROKER EXECD SANDBOXCTL. TAP on standard output. Needs root.
"""
import contextlib
import os
import pathlib
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from broker_process import Broker, wait_for, why_not  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:4]]
VOLUMES_MAX = 16
BROKER = None


@contextlib.contextmanager
def folder(parent=None):
    with tempfile.TemporaryDirectory(prefix="osb-volume-", dir=parent) as name:
        os.chmod(name, 0o755)
        yield pathlib.Path(name)


def run(line, *volumes, options=()):
    """Runs a line with volumes to its end. What it printed."""
    words = [word for volume in volumes for word in ("--volume", volume)]
    return BROKER.ok("run", *words, *options, "x", "--", "sh", "-c", line)


def refused(word, *volumes, options=()):
    words = [word for volume in volumes for word in ("--volume", volume)]
    done = BROKER.ctl("run", *words, *options, "x", "--", "true")
    assert done.returncode == 1 and word in done.stderr, done
    assert BROKER.list() == []
    wait_for(lambda: os.listdir(BROKER.state / "slots") == [], "the cleaner")


def mount_options(out):
    return {line.split()[4]: line.split()[5].split(",") for line in out.splitlines()}


@contextlib.contextmanager
def image():
    """The host's root as directories, with a layer of ours above it."""
    with folder() as top:
        root, = BROKER.state.glob("roots/host-root-*")
        yield top, ("--dir", top, "--dir", root)


# --- what is seen ---


def shows_a_directory_and_a_file():
    with folder() as source:
        (source / "in").write_text("from outside\n")
        (source / "one").write_text("a file\n")
        out = run("cat /data/in /etc/one; echo inside >/data/out; ls /data",
                  f"{source}:/data", f"{source}/one:/etc/one")
        assert out.split("\n")[:2] == ["from outside", "a file"], out
        assert (source / "out").read_text() == "inside\n"
        assert run("echo more >>/srv/a/b/c; cat /srv/a/b/c",
                   f"{source}/one:/srv/a/b/c") == "a file\nmore\n"
        assert (source / "one").read_text() == "a file\nmore\n"


def keeps_ids_as_they_are_on_disk():
    with folder() as source:
        for uid, gid in ((0, 0), (1000, 1001), (65535, 0), (65536, 65536)):
            (source / str(uid)).write_text("")
            os.chown(source / str(uid), uid, gid)
        out = run("cd /data; for f in 0 1000 65535 65536; do stat -c %u:%g $f; done; "
                  "chown 0 65536 2>/dev/null && echo taken; touch new; chown 7:8 new",
                  f"{source}:/data")
        assert out.split() == ["0:0", "1000:1001", "65535:0", "65534:65534"], out
        new = os.stat(source / "new")
        assert (new.st_uid, new.st_gid) == (7, 8), new
        os.chmod(source, 0o777)
        run("touch /data/as-user", f"{source}:/data", options=("--uid", "1000"))
        assert os.stat(source / "as-user").st_uid == 1000


def mounts_in_the_order_given():
    with folder() as outer, folder() as inner:
        (inner / "deep").write_text("deep\n")
        out = run("cat /data/sub/inner/deep; stat -c %u /data/sub /data/sub/inner",
                  f"{outer}:/data", f"{inner}:/data/sub/inner")
        assert out.split() == ["deep", "0", "0"], out
        made = os.stat(outer / "sub")  # in the first volume, by root inside
        assert (made.st_uid, stat.S_IMODE(made.st_mode)) == (0, 0o755), made
        assert list((outer / "sub/inner").iterdir()) == []


def takes_as_many_as_a_plan_has():
    with folder() as source:
        volumes = [f"{source}:/v/{i}{':ro' * (i % 2)}" for i in range(VOLUMES_MAX)]
        out = run("for d in /v/*; do touch $d/x 2>/dev/null && echo $d; done; true", *volumes)
        assert len(out.split()) == VOLUMES_MAX // 2, out
        refused("bad volume", *volumes, f"{source}:/v/more")


def makes_places_that_belong_to_root_inside():
    with folder() as source:
        out = run("stat -c '%u %g %a' /a /a/b", f"{source}:/a/b/c")
        assert out.splitlines() == ["0 0 755"] * 2, out


def does_not_show_what_is_mounted_below():
    with folder() as source:
        (source / "sub").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", source / "sub"], check=True)
        try:
            (source / "sub/secret").write_text("")
            BROKER.ok("create", "--volume", f"{source}:/data", "x", "--", "sh", "-c",
                      "ls -A /data/sub; echo ready; while [ ! -e /data/go ]; do sleep 0.05; done; "
                      "ls -A /data/late; echo done; sleep 1000")
            wait_for(lambda: "ready" in BROKER.ok("log", "x"), "its first look")
            (source / "late").mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", source / "late"], check=True)
            (source / "late/secret").write_text("")
            (source / "go").write_text("")
            wait_for(lambda: "done" in BROKER.ok("log", "x"), "its second look")
            assert BROKER.ok("log", "x").split() == ["ready", "done"], BROKER.ok("log", "x")
        finally:
            BROKER.ctl("remove", "x")
            for name in ("sub", "late"):
                subprocess.run(["umount", source / name], check=False, stderr=subprocess.DEVNULL)


# --- what it cannot do ---


def refuses_writes_to_a_read_only_volume():
    with folder() as source:
        (source / "f").write_text("as it was\n")
        out = run("for c in 'echo x >/data/f' 'touch /data/new' 'rm /data/f' 'chmod 777 /data/f' "
                  "'chown 1 /data/f' 'mkdir /data/d' 'ln /data/f /data/g' 'truncate -s 0 /one' "
                  "'mount -o remount,rw /data' 'umount /data'; "
                  "do sh -c \"$c\" 2>/dev/null && echo \"$c\"; done; "
                  "python3 -c 'import os; os.utime(\"/data/f\")' 2>/dev/null && echo utime; "
                  "cat /data/f; cat /proc/self/mountinfo >&2",
                  f"{source}:/data:ro", f"{source}/f:/one:ro")
        lines = [line for line in out.splitlines() if " - " not in line]
        assert lines == ["as it was"], out
        found = mount_options("\n".join(line for line in out.splitlines() if " - " in line))
        for place in ("/data", "/one"):
            assert {"ro", "nosuid", "nodev"} <= set(found[place]), found[place]
        assert (source / "f").read_text() == "as it was\n"
        assert sorted(os.listdir(source)) == ["f"]


def gives_no_power_by_setuid_files_and_devices():
    with folder() as source:
        os.mknod(source / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        out = run("cp /usr/bin/id /data/id; chmod 6755 /data/id; cat /data/null 2>&1; "
                  "mknod /data/sda b 8 0 2>&1 | grep -c 'not permitted'; "
                  "cat /proc/self/mountinfo", f"{source}:/data")
        assert "Permission denied" in out and "\n1\n" in out, out
        assert {"nosuid", "nodev"} <= set(mount_options(
            "\n".join(line for line in out.splitlines() if " - " in line))["/data"])
        out = run("/data/id -u; /data/id -g", f"{source}:/data", options=("--uid", "1000"))
        assert out.split() == ["1000", "1000"], out


def follows_no_link_out_of_the_root():
    with folder() as source, folder("/") as outside, image() as (top, options):
        (source / "f").write_text("volume\n")
        (top / "out").symlink_to(outside)
        (top / "up").symlink_to("../../../../../../" + str(outside).lstrip("/"))
        for name in ("out", "up"):  # inside, there is no such place
            refused("No such file", f"{source}:/{name}/v", options=options)
        (top / str(outside).lstrip("/")).mkdir(parents=True)  # now there is
        for name in ("out", "up"):
            assert run(f"cat {outside}/v-{name}/f", "/usr:/usr:ro", f"{source}:/{name}/v-{name}",
                       options=options) == "volume\n"
        assert list(outside.iterdir()) == [], "it was made outside"


def follows_no_link_to_what_is_ours():
    with folder() as source, folder() as other, image() as (top, options):
        for name, target in (("p", "/proc"), ("s", "sys"), ("d", "/dev/shm"), ("r", "/"),
                             ("magic", "/proc/self/root")):
            (top / name).symlink_to(target)
        refused("its links lead", f"{source}:/p/1", options=options)
        refused("mount volumes", f"{source}:/s/new", options=options)
        refused("its links lead", f"{source}:/d", options=options)
        refused("its links lead", f"{source}:/d/new", options=options)
        refused("its links lead", f"{source}:/r", options=options)
        refused("mount volumes", f"{source}:/magic/x", options=options)
        (other / "p").symlink_to("/proc")  # one that an earlier volume brings
        refused("its links lead", f"{other}:/o", f"{source}:/o/p/1", options=options)
        (other / "nowhere").symlink_to("/no/such/place")
        refused("No such file", f"{other}:/o", f"{source}:/o/nowhere", options=options)


# --- refusals ---


def refuses_places_that_are_not_plain():
    with folder() as source:
        for place in ("data", "/", "", "/a/", "//a", "/a//b", "/a/../b", "/.", "/proc", "/proc/1",
                      "/sys", "/sys/fs", "/dev", "/dev/shm/x", "/" + "x" * 1100):
            refused("bad volume", f"{source}:{place}")
        refused("the same place", f"{source}:/a", f"{source}:/b", f"{source}:/a:ro")
        refused("/usr", f"{source}:/usr")
        assert run("echo ok", f"{source}:/processes", f"{source}:/usr/local/x") == "ok\n"


def refuses_what_does_not_fit_its_place():
    with folder() as source:
        (source / "f").write_text("")
        (source / "d").mkdir()
        refused("/etc/hostname is not a directory", f"{source}/d:/etc/hostname")
        refused("/etc/hostname is not a directory", f"{source}/d:/etc/hostname/below")
        refused("something else", f"{source}/f:/etc")
        refused("Read-only", f"{source}:/data:ro", f"{source}/d:/data/missing")


def refuses_what_is_no_file():
    with folder() as source:
        os.mkfifo(source / "fifo")
        refused("neither a directory nor a regular file", f"{source}/fifo:/data")
        refused("neither a directory nor a regular file", "/dev/null:/data")
        refused("user ids", "/proc:/data")


def leaves_nothing_behind():
    assert BROKER.list() == []
    BROKER.stop()
    BROKER.must_be_clean()


TESTS = [
    shows_a_directory_and_a_file,
    keeps_ids_as_they_are_on_disk,
    mounts_in_the_order_given,
    takes_as_many_as_a_plan_has,
    makes_places_that_belong_to_root_inside,
    does_not_show_what_is_mounted_below,
    refuses_writes_to_a_read_only_volume,
    gives_no_power_by_setuid_files_and_devices,
    follows_no_link_out_of_the_root,
    follows_no_link_to_what_is_ours,
    refuses_places_that_are_not_plain,
    refuses_what_does_not_fit_its_place,
    refuses_what_is_no_file,
    leaves_nothing_behind,
]


if __name__ == "__main__":
    tap.skip_all(why_not())
    with Broker(*PROGRAMS) as BROKER:
        sys.exit(tap.run_tests(TESTS))
