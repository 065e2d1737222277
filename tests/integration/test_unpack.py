"""Layers of images: what the broker's program makes of archives, good and hostile.

Usage: test_unpack.py BROKER EXECD SANDBOXCTL UNPACK. TAP on standard output. Needs root.
"""
import contextlib
import hashlib
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from broker_process import Broker, wait_for, why_not  # noqa: E402
from layer_archives import (  # noqa: E402
    archive, capability, directory, file, gz, gzip_zeros, hard_link, head, long_name, pax,
    sparse_listed, sparse_old, symlink)

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:4]]
UNPACK = os.path.abspath(sys.argv[4])
UID_FIRST = 0xB0000000
MIB = 1 << 20


class Unpacker:
    """A broker, and a place to unpack to."""

    def __init__(self, broker, folder):
        self.broker, self.folder, self.count = broker, pathlib.Path(folder), 0

    def start(self, data, *limits):
        """Returns the command's arguments and the directory."""
        self.count += 1
        blob, out = self.folder / f"blob{self.count}", self.folder / f"out{self.count}"
        blob.write_bytes(data)
        out.mkdir()
        return ("unpack", str(blob), str(out), *limits), out

    @contextlib.contextmanager
    def long(self):
        """Unpacking that takes long: an archive of 4 GiB, most of it a hole. Yields the process
        that asked for it, and the program's pid."""
        command, _ = self.start(head("zeros", size=4 << 30))
        os.truncate(command[1], (4 << 30) + 4096)
        with subprocess.Popen(self.broker.ctl_command(*command), stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as ctl:
            wait_for(helper, "the program")
            yield ctl, helper()

    def unpack(self, data, *limits):
        """The result, and the directory."""
        command, out = self.start(data, *limits)
        return self.broker.ctl(*command), out

    def good(self, data, *limits):
        done, out = self.unpack(data, *limits)
        assert done.returncode == 0, done.stderr
        words = done.stdout.split()
        return out, dict(zip(("diff_id", "entries", "bytes", "file_bytes", "skipped"), words))

    def refused(self, data, *words, limits=()):
        done, out = self.unpack(data, *limits)
        assert done.returncode == 1, f"accepted: {done.stdout}"
        for word in words:
            assert word in done.stderr, f"{word!r} is not in {done.stderr!r}"
        return out


def tree(root):
    """Every path with all that a layer keeps of it."""
    found = {}
    for path in [root, *sorted(root.rglob("*"))]:
        st = path.lstat()
        found[str(path.relative_to(root))] = (
            stat.filemode(st.st_mode), st.st_uid, st.st_gid,
            st.st_mtime_ns, os.readlink(path) if path.is_symlink() else
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
            {n: os.getxattr(path, n, follow_symlinks=False)
             for n in os.listxattr(path, follow_symlinks=False) if n.startswith("user.")},
            st.st_nlink if stat.S_ISREG(st.st_mode) else 0)
    return found


def shifted(found):
    return {path: (mode, uid - UID_FIRST, gid - UID_FIRST, *rest)
            for path, (mode, uid, gid, *rest) in found.items()}


# --- what is refused: (what, archive, words of the reason) ---

DEEP = "d/" * 200
REFUSED = [
    ("a path that leads out", archive(file("../evil")), ["'../evil'", "'..'"]),
    ("a path that leads out later", archive(file("a/b/../../../evil")), ["a/b/../../../evil"]),
    ("dots at the end", archive(directory("a/..")), ["a/.."]),
    ("an absolute path with dots", archive(file("/../../etc/passwd")), ["'..'"]),
    ("a PAX path that leads out", archive(pax(("path", "../../evil")), file("ok")), ["../../evil"]),
    ("a GNU long name that leads out", archive(long_name("a/" * 60 + "../" * 61 + "evil"),
                                               file("ok")), ["'..'"]),
    ("a hard link to a path that leads out", archive(hard_link("l", "../../etc/shadow")),
     ["'l'", "'..'"]),
    ("a hard link to nothing", archive(hard_link("l", "nowhere")), ["'l'", "'nowhere'"]),
    ("a hard link to the host's file", archive(hard_link("l", "/etc/passwd")), ["'etc/passwd'"]),
    ("a hard link to a directory", archive(directory("d"), hard_link("l", "d")), ["directory"]),
    ("a hard link to the root", archive(hard_link("l", "/")), ["'l'", "root"]),
    ("a hard link to a whiteout", archive(file(".wh.a", b""), hard_link("l", "a")), ["'a'"]),
    ("a hard link through a symbolic link", archive(directory("d"), file("d/f"), symlink("s", "d"),
                                                    hard_link("l", "s/f")), ["'s/f'"]),
    ("a file through a symbolic link to /", archive(symlink("s", "/"), file("s/evil")),
     ["'s/evil'", "symbolic link"]),
    ("a file through a symbolic link up", archive(symlink("s", "../../.."), file("s/evil")),
     ["'s/evil'", "symbolic link"]),
    ("a file through a symbolic link inside", archive(directory("d"), symlink("s", "d"),
                                                      file("s/f")), ["'s/f'", "symbolic link"]),
    ("a file through two symbolic links", archive(symlink("a", "b"), symlink("b", "/tmp"),
                                                  file("a/evil")), ["'a/evil'"]),
    ("a directory through a symbolic link", archive(symlink("s", "/"), directory("s/d")),
     ["'s/d'", "symbolic link"]),
    ("a whiteout through a symbolic link", archive(symlink("s", "/"), file("s/.wh.etc", b"")),
     ["symbolic link"]),
    ("an opaque mark through a symbolic link", archive(symlink("s", "/etc"),
                                                       file("s/.wh..wh..opq", b"")), ["'s"]),
    ("a file below a file", archive(file("f"), file("f/g")), ["'f/g'", "no directory"]),
    ("an opaque mark of a file", archive(file("f"), file("f/.wh..wh..opq", b"")), ["'f"]),
    ("a character device", archive(head("null", b"3", devices=(1, 3))), ["'null'", "device"]),
    ("a block device", archive(head("sda", b"4", devices=(8, 0))), ["'sda'", "device"]),
    ("a device 0/0", archive(head("gone", b"3")), ["'gone'", "device"]),
    ("a device in a directory called dev", archive(head("x/dev/null", b"3", devices=(1, 3))),
     ["'x/dev/null'"]),
    ("an owner above 65535", archive(file("f", uid=65536)), ["'f'", "65535"]),
    ("a group above 65535", archive(file("f", gid=70000)), ["'f'", "65535"]),
    ("an owner of 2^40", archive(pax(("uid", str(1 << 40))), file("f")), ["'f'", "65535"]),
    ("a negative owner", archive(head("f", raw={108: b"\xff" * 8})), ["number"]),
    ("a whiteout of nothing", archive(file(".wh.", b"")), ["'.wh.'"]),
    ("a whiteout of the directory itself", archive(file("a/.wh..", b"")), ["'a/.wh..'"]),
    ("a whiteout of the directory above", archive(file("a/.wh...", b"")), ["'a/.wh...'"]),
    ("a file below a whiteout", archive(file(".wh.a/f")), ["'.wh.a/f'", "whiteout"]),
    ("an attribute of overlayfs", archive(pax(("SCHILY.xattr.trusted.overlay.redirect", "/")),
                                          file("f")), ["trusted.overlay.redirect"]),
    ("an attribute of overlayfs for users", archive(pax(("SCHILY.xattr.user.overlay.opaque", "y")),
                                                    directory("d")), ["user.overlay.opaque"]),
    ("an attribute without a name", archive(pax(("SCHILY.xattr.", "y")), file("f")), ["bad name"]),
    ("an attribute with a NUL in its name", archive(pax(("SCHILY.xattr.user.a\0b", "y")),
                                                    file("f")), ["bad name"]),
    ("65 attributes", archive(pax(*[(f"SCHILY.xattr.user.n{i}", "v") for i in range(65)]),
                              file("f")), ["64 attributes"]),
    ("70 KB of attributes", archive(pax(("SCHILY.xattr.user.big", "v" * 70000)), file("f")),
     ["bytes of attributes"]),
    ("a capability that is none", archive(pax(("SCHILY.xattr.security.capability", b"xx")),
                                          file("f")), ["security.capability"]),
    ("a capability of an unknown version", archive(
        pax(("SCHILY.xattr.security.capability", capability(0x09000001))), file("f")),
     ["security.capability"]),
    ("a name of 256 bytes", archive(long_name("n" * 256), file("x")), ["255 bytes"]),
    ("a path of 5000 bytes", archive(long_name("n/" * 2500), file("x")), ["4096"]),
    ("200 levels", archive(directory(DEEP[:99], prefix=DEEP[:150].encode()),
                           long_name(DEEP), directory("x")), ["deeper"]),
    ("a name with a NUL", archive(pax(("path", "a\0b")), file("x")), ["NUL"]),
    ("an entry without a name", archive(file("")), ["path"]),
    ("the root as a file", archive(head("./", b"1", target="x")), ["root"]),
    ("the root as a symbolic link", archive(symlink("/", "/etc")), ["root"]),
    ("a negative size", archive(head("f", raw={124: b"\xff" * 12})), ["number"]),
    ("a size of an exabyte", archive(head("f", size=1 << 60)), ["'f'", "more bytes"]),
    ("a PAX size of 2^63", archive(pax(("size", str(1 << 63))), file("f")), ["size"]),
    ("a PAX head of 2 MiB", archive(head("x", b"x", 2 * MIB) + bytes(2 * MIB), file("f")),
     ["head of more than"]),
    ("a PAX record that is too long", archive(pax(data=b"99 path=x\n"), file("f")), ["PAX"]),
    ("a PAX record without a length", archive(pax(data=b"path=x\n"), file("f")), ["PAX"]),
    ("a PAX record of length 0", archive(pax(data=b"0 path=x\n"), file("f")), ["PAX"]),
    ("a wrong checksum", archive(file("f"), head("g").replace(b"g", b"h", 1)), ["checksum"]),
    ("no archive", b"hello " * 200, ["not a tar archive"]),
    ("nothing", b"", ["archive"]),
    ("half a head", file("f")[:300], ["half way"]),
    ("half a file", file("f", b"x" * 5000)[:3000], ["half way"]),
    ("half a gzip", gz(archive(file("f", os.urandom(5000))))[:-2000], ["half way"]),
    ("a damaged gzip", gz(archive(file("f", b"x" * 9000)))[:30] + b"\xff" * 50, ["damaged"]),
    ("a gzip with a wrong checksum", gz(archive(file("f")))[:-8] + b"\0" * 8, ["damaged"]),
    ("bytes behind a gzip", gz(archive(file("f"))) + b"garbage!", ["damaged"]),
    ("a damaged zstd", b"\x28\xb5\x2f\xfd" + b"\xff" * 60, ["damaged"]),
    ("a zstd that needs 2 GiB", b"\x28\xb5\x2f\xfd\x00\xa8" + b"\0" * 60, ["damaged"]),
    ("an unknown kind of entry", archive(head("m", b"M")), ["'m"[1:], "type"]),
    ("a sparse file whose pieces overlap", archive(sparse_old("s", [(0, 10), (5, 10)], 20,
                                                              b"x" * 20)), ["'s'", "overlap"]),
    ("a sparse file whose pieces lie outside", archive(sparse_old("s", [(100, 10)], 20, b"x" * 10)),
     ["'s'", "outside"]),
    ("a sparse file with too little content", archive(sparse_old("s", [(0, 600)], 1000, b"x")),
     ["'s'", "content"]),
    ("a sparse file of an exabyte", archive(
        pax(("GNU.sparse.realsize", str(1 << 60)), ("GNU.sparse.map", "0,1")), file("s")),
     ["'s'", "more bytes"]),
    ("a sparse file with a list that is none", archive(
        pax(("GNU.sparse.major", "1"), ("GNU.sparse.realsize", "9")), file("s", b"hello" * 99)),
     ["'s'", "list"]),
    ("a sparse file with half a list", archive(
        pax(("GNU.sparse.major", "1"), ("GNU.sparse.realsize", "9")), file("s", b"3\n0\n1\n")),
     ["'s'", "half way"]),
    ("a sparse file with a million pieces", archive(
        pax(("GNU.sparse.major", "1"), ("GNU.sparse.realsize", "9")), file("s", b"1000000\n")),
     ["'s'", "too many"]),
    ("a sparse directory", archive(pax(("GNU.sparse.realsize", "0"), ("GNU.sparse.map", "")),
                                   directory("d")), ["'d'", "sparse"]),
    ("a sparse file with a name that leads out", archive(sparse_listed("../s", [(0, 1)], 1, b"x")),
     ["'../s'"]),
    ("a map of odd length", archive(pax(("GNU.sparse.map", "0,1,5")), file("s")), ["half way"]),
]


def what_is_refused(u, check):
    for what, data, words in REFUSED:
        check(f"refused: {what}", u.refused, data, *words)


LIMITED = [
    ("more entries than allowed", archive(*[file(f"f{i}") for i in range(11)]), "entries=10",
     ["'f10'", "more entries"]),
    ("more bytes than allowed", archive(file("a", b"x" * 3000), sparse_old("b", [(0, 1)], 8000,
                                                                           b"x")),
     "bytes=9000", ["'b'", "more bytes"]),
    ("a longer archive than allowed", archive(*[directory(f"d{i}") for i in range(99)]),
     "bytes=10000", ["longer than 10000"]),
    ("deeper than allowed", archive(directory("a/b/c/d")), "depth=3", ["'a/b/c/d'", "deeper"]),
    ("a bomb of gzip", gzip_zeros(200), "ratio=100", ["100 times"]),
]


def what_is_limited(u, check):
    for what, data, limit, words in LIMITED:
        check(f"limited: {what}", lambda d=data, w=words, n=limit: u.refused(d, *w, limits=(n,)))


# --- what is done ---

def whiteouts_are_devices(u):
    out, _ = u.good(archive(file("a/.wh.gone", b""), file(".wh..wh.plnk/1", b""),
                            file(".wh..wh.aufs", b"")))
    st = (out / "a/gone").lstat()
    assert stat.S_ISCHR(st.st_mode) and st.st_rdev == 0
    assert sorted(os.listdir(out)) == ["a"]


def opaque_directories_are_marked(u):
    out, _ = u.good(archive(directory("a"), file("a/.wh..wh..opq", b""), file("a/f"),
                            file("b/.wh..wh..opq", b""), directory("b"), directory("c")))
    assert [d for d in "abc" if os.listxattr(out / d)] == ["a", "b"]
    assert os.getxattr(out / "a", "trusted.overlay.opaque") == b"y"
    assert os.listdir(out / "a") == ["f"]


def any_number_of_directories_can_be_opaque(u):
    """More than the kernel lets be under way to the process that marks them."""
    names = [f"d{i}" for i in range(3000)]
    out, _ = u.good(archive(*(file(f"{name}/.wh..wh..opq", b"") for name in names)))
    assert all(os.listxattr(out / name) for name in names)


def the_root_can_be_opaque(u):
    out, _ = u.good(archive(file(".wh..wh..opq", b""), file("f")))
    assert os.getxattr(out, "trusted.overlay.opaque") == b"y"


def a_whiteout_hides_lower_layers_only(u):
    """Whatever the order; a directory that replaces one is opaque."""
    out, _ = u.good(archive(file("f"), file(".wh.f", b""), file(".wh.g", b""), file("g"),
                            file(".wh.d", b""), directory("d"), file("d/x"),
                            directory("e"), file(".wh.e", b""), file(".wh.i", b""), file("i/x")))
    assert (out / "f").read_bytes() == (out / "g").read_bytes() == b"x"
    for name in "dei":
        assert os.getxattr(out / name, "trusted.overlay.opaque") == b"y", name


def later_entries_replace_earlier_ones(u):
    out, _ = u.good(archive(
        file("f", b"one"), file("f", b"two"), file("a"), directory("a"), file("a/x"),
        directory("b"), file("b/x"), directory("b/c"), file("b", b"now a file"),
        symlink("s", "/etc/passwd"), file("s", b"not followed"),
        directory("k", mode=0o700), file("k/x"), directory("k", mode=0o711, uid=5)))
    assert (out / "f").read_bytes() == b"two" and (out / "a/x").is_file()
    assert (out / "b").read_bytes() == b"now a file"
    assert not (out / "s").is_symlink() and (out / "s").read_bytes() == b"not followed"
    st = (out / "k").stat()
    assert stat.S_IMODE(st.st_mode) == 0o711 and st.st_uid == UID_FIRST + 5
    assert (out / "k/x").is_file()


def absolute_names_lose_their_slash(u):
    out, _ = u.good(archive(file("/etc//x"), file("././y")))
    assert (out / "etc/x").is_file() and (out / "y").is_file()


def symbolic_links_are_kept_as_they_are(u):
    out, _ = u.good(archive(symlink("a", "/etc/passwd"), symlink("b", "../../.."),
                            symlink("loop", "loop"), head("c", b"2", target="x" * 100, uid=7)))
    assert os.readlink(out / "a") == "/etc/passwd" and os.readlink(out / "b") == "../../.."
    assert (out / "c").lstat().st_uid == UID_FIRST + 7 and os.readlink(out / "loop") == "loop"


def hard_links_share_an_inode(u):
    out, _ = u.good(archive(file("a", b"data"), hard_link("d/b", "/a"), hard_link("a", "a"),
                            symlink("s", "a"), hard_link("t", "s"), file("c"),
                            hard_link("c", "a")))
    inodes = {(out / name).stat().st_ino for name in ("a", "d/b", "c")}
    assert len(inodes) == 1 and (out / "a").stat().st_nlink == 3
    assert os.readlink(out / "t") == "a"


def owners_modes_and_times_are_kept(u):
    out, _ = u.good(archive(
        directory("d", mode=0o1777, uid=65535, gid=65535, mtime=1234567),
        pax(("mtime", "1000000000.123456789")), file("d/f", mode=0o4755, uid=1000, gid=100),
        pax(("mtime", "-1.5")), file("old", mode=0o2644), head("fifo", b"6", mode=0o620, gid=5)))
    st = (out / "d/f").stat()
    assert st.st_mtime_ns == 1000000000123456789 and stat.S_IMODE(st.st_mode) == 0o4755
    assert (st.st_uid, st.st_gid) == (UID_FIRST + 1000, UID_FIRST + 100)
    st = (out / "d").stat()
    assert int(st.st_mtime) == 1234567 and stat.S_IMODE(st.st_mode) == 0o1777
    assert st.st_uid == UID_FIRST + 65535
    st = (out / "old").stat()
    assert st.st_mtime_ns == -1500000000 and stat.S_IMODE(st.st_mode) == 0o2644
    st = (out / "fifo").stat()
    assert stat.S_ISFIFO(st.st_mode) and stat.S_IMODE(st.st_mode) == 0o620


def attributes_are_kept_or_left_out(u):
    out, said = u.good(archive(
        pax(("SCHILY.xattr.user.a", b"\0\n=bytes"), ("SCHILY.xattr.security.selinux", "label"),
            ("SCHILY.xattr.trusted.x", "y"),
            ("SCHILY.xattr.security.capability", capability(2))), file("ping", uid=3),
        pax(("SCHILY.xattr.security.capability", capability(3))), file("pong"),
        pax(("SCHILY.xattr.user.d", "dir")), directory("d")))
    assert os.getxattr(out / "ping", "user.a") == b"\0\n=bytes"
    assert os.getxattr(out / "d", "user.d") == b"dir"
    for name in ("ping", "pong"):
        caps = os.getxattr(out / name, "security.capability")
        assert len(caps) == 24 and caps[20:] == UID_FIRST.to_bytes(4, "little"), caps
    assert sorted(os.listxattr(out / "ping")) == ["security.capability", "user.a"]
    assert said["skipped"] == "2"


def sparse_files_have_holes(u):
    pieces = [(i * MIB, 100) for i in range(8)]
    data = b"".join(bytes([65 + i]) * 100 for i in range(8))
    size = 9 * MIB
    out, said = u.good(archive(
        sparse_old("old", pieces, size, data), sparse_listed("listed", pieces, size, data),
        pax(("GNU.sparse.size", str(size)), ("GNU.sparse.numblocks", "8"),
            ("GNU.sparse.map", ",".join(f"{o},{n}" for o, n in pieces))), file("map", data),
        pax(("GNU.sparse.size", str(size)), *[pair for o, n in pieces for pair in
                                              (("GNU.sparse.offset", str(o)),
                                               ("GNU.sparse.numbytes", str(n)))]),
        file("pairs", data)))
    wanted = bytearray(size)
    for i, (offset, length) in enumerate(pieces):
        wanted[offset:offset + length] = bytes([65 + i]) * length
    for name in ("old", "listed", "map", "pairs"):
        assert (out / name).read_bytes() == wanted, name
        assert (out / name).stat().st_blocks * 512 < MIB, name
    assert int(said["file_bytes"]) == 4 * len(data)


def sparse_files_of_gnu_tar_are_read(u):
    source = u.folder / "sparse"
    source.mkdir()
    with open(source / "f", "wb") as f:
        for i in range(40):
            f.seek(i * MIB)
            f.write(b"%d" % i)
        f.truncate(50 * MIB)
    for form in ("--format=gnu", "--format=pax", "--sparse-version=0.0", "--sparse-version=0.1"):
        data = subprocess.run(["tar", "-C", source, "-S", "--format=pax", form, "-c", "f"],
                              capture_output=True, check=True).stdout
        assert len(data) < MIB, "not sparse"
        out, _ = u.good(data)
        assert (out / "f").read_bytes() == (source / "f").read_bytes(), form
        assert (out / "f").stat().st_blocks * 512 < 2 * MIB, form


def long_names_are_read(u):
    name = "/".join(["n" * 200] * 10)
    out, _ = u.good(archive(long_name(name), file("x", b"gnu"), pax(("path", "p" + name)),
                            file("x", b"pax"), long_name("t" * 3000, b"K"), symlink("s", "x")))
    assert (out / name).read_bytes() == b"gnu" and (out / ("p" + name)).read_bytes() == b"pax"
    assert os.readlink(out / "s") == "t" * 3000


def nodes_below_dev_are_left_out(u):
    out, said = u.good(archive(directory("dev"), head("dev/null", b"3", devices=(1, 3)),
                               head("./dev/sda", b"4", devices=(8, 0)), file("f")))
    assert os.listdir(out / "dev") == [] and said["skipped"] == "2"


def compressed_layers_are_read(u):
    data = archive(file("f", os.urandom(300000)), directory("d"))
    zstd = subprocess.run(["zstd", "-c"], input=data, capture_output=True, check=False).stdout \
        if shutil.which("zstd") else None
    middle = len(data) // 2
    for packed in (data, gz(data), gz(data[:middle]) + gz(data[middle:]), zstd):
        if packed is None:
            continue
        out, said = u.good(packed)
        assert said["diff_id"] == hashlib.sha256(data).hexdigest()
        assert int(said["bytes"]) == len(data) and said["entries"] == "2"
        assert (out / "f").stat().st_size == 300000


def bytes_behind_the_end_count_for_the_diff_id(u):
    data = archive(file("f")) + bytes(10240)
    _, said = u.good(data)
    assert said["diff_id"] == hashlib.sha256(data).hexdigest()


def a_missing_end_is_forgiven(u):
    out, _ = u.good(archive(file("f"), end=False))
    assert (out / "f").is_file()
    out, _ = u.good(file("f", b"data")[:512 + 4])  # as umoci writes it
    assert (out / "f").read_bytes() == b"data"


def only_an_empty_directory_is_filled(u):
    command, out = u.start(archive(file("f")))
    (out / "there").touch()
    done = u.broker.ctl(*command)
    assert done.returncode == 1 and "empty directory" in done.stderr, done.stderr
    assert (out / "there").stat().st_uid == 0


def messages_show_no_control_characters(u):
    done, _ = u.unpack(archive(file("a\x1b[31m\n/../b")))
    assert done.returncode == 1 and "\x1b" not in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


def make_system(folder):
    """A tree with all that a layer may have."""
    folder.mkdir()
    for i in range(40):
        (folder / f"d{i % 5}").mkdir(exist_ok=True)
        path = folder / f"d{i % 5}/f{i}"
        path.write_bytes(os.urandom(i * 997))
        os.chown(path, i * 100, i)
        path.chmod(0o4755 if i % 7 == 0 else 0o600 + i % 8)
        os.utime(path, ns=(1, 1_600_000_000_000_000_000 + i * 1_234_567))
        os.setxattr(path, "user.number", b"%d" % i)
    os.link(folder / "d1/f1", folder / "d2/hard")
    os.symlink("../d1/f1", folder / "d3/link")
    os.mkfifo(folder / "fifo", 0o640)
    (folder / ("n" * 250)).write_text("long")
    os.utime(folder / "d4", ns=(1, 1_500_000_000_111_111_111))


def a_tree_comes_out_as_gnu_tar_has_it(u):
    source, other = u.folder / "source", u.folder / "by-tar"
    make_system(source)
    data = subprocess.run(["tar", "-C", source, "--xattrs", "--format=pax", "-c", "."],
                          capture_output=True, check=True).stdout
    out, _ = u.good(gz(data))
    other.mkdir()
    subprocess.run(["tar", "-C", other, "--xattrs", "-xp"], input=data, check=True)
    ours, theirs = shifted(tree(out)), tree(other)
    assert ours == theirs, [(k, ours.get(k), theirs.get(k)) for k in {**ours, **theirs}
                            if ours.get(k) != theirs.get(k)][:5]


def a_tree_comes_out_as_umoci_has_it(u):
    if not shutil.which("umoci"):
        raise tap.Skip("umoci is not installed")
    source, image = u.folder / "umoci-source", u.folder / "umoci-image"
    make_system(source)

    def umoci(*args):
        subprocess.run(["umoci", *args], check=True, capture_output=True)

    umoci("init", "--layout", str(image))
    umoci("new", "--image", f"{image}:x")
    umoci("insert", "--image", f"{image}:x", str(source), "/")
    umoci("unpack", "--image", f"{image}:x", str(u.folder / "bundle"))
    blobs = sorted((image / "blobs/sha256").iterdir(), key=lambda p: p.stat().st_size)
    out, _ = u.good(blobs[-1].read_bytes())
    ours, theirs = shifted(tree(out)), tree(u.folder / "bundle/rootfs")
    for one in (ours, theirs):
        one.pop(".")
    assert ours == theirs, [(k, ours.get(k), theirs.get(k)) for k in {**ours, **theirs}
                            if ours.get(k) != theirs.get(k)][:5]


def status_of(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def helper():
    """The pid of the running program, or None."""
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            status = status_of(entry.name)
            if status["Uid"].startswith(f"{UID_FIRST}\t") and status.get("Seccomp") == "2":
                return int(entry.name)
    return None


def the_program_is_confined(u):
    with u.long() as (ctl, pid):
        status = status_of(pid)
        assert status["NoNewPrivs"] == "1" and status["Threads"] == "2"
        # CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETFCAP
        assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0x8000001B, status
        for kind in ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup"):
            assert os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")
        mounts = pathlib.Path(f"/proc/{pid}/mountinfo").read_text(encoding="utf-8").splitlines()
        assert len(mounts) == 1 and "nosuid,nodev,noexec" in mounts[0], mounts
        os.kill(pid, signal.SIGKILL)
        assert ctl.wait(30) == 1 and b"killed by signal 9" in ctl.stderr.read()


def it_ends_with_its_caller(u):
    with u.long() as (ctl, _):
        ctl.kill()
    wait_for(lambda: not helper(), "its end")


def it_ends_with_its_broker(u):
    with u.long() as (ctl, _):
        u.broker.stop(signal.SIGKILL)
        wait_for(lambda: not helper(), "its end")
        assert b"ended" in ctl.communicate(timeout=30)[1]
    u.broker.start()


def it_ends_at_the_deadline(u):
    command, _ = u.start(head("zeros", size=4 << 30), "time_ms=200")
    os.truncate(command[1], (4 << 30) + 4096)
    done = u.broker.ctl(*command)
    assert done.returncode == 1 and "longer than allowed" in done.stderr, done.stderr
    assert not helper()


DONE = [
    whiteouts_are_devices, opaque_directories_are_marked,
    any_number_of_directories_can_be_opaque, the_root_can_be_opaque,
    a_whiteout_hides_lower_layers_only, later_entries_replace_earlier_ones,
    absolute_names_lose_their_slash, symbolic_links_are_kept_as_they_are,
    hard_links_share_an_inode, owners_modes_and_times_are_kept, attributes_are_kept_or_left_out,
    sparse_files_have_holes, sparse_files_of_gnu_tar_are_read, long_names_are_read,
    nodes_below_dev_are_left_out, compressed_layers_are_read,
    bytes_behind_the_end_count_for_the_diff_id, a_missing_end_is_forgiven,
    only_an_empty_directory_is_filled, messages_show_no_control_characters,
    a_tree_comes_out_as_gnu_tar_has_it, a_tree_comes_out_as_umoci_has_it,
    the_program_is_confined, it_ends_with_its_caller, it_ends_with_its_broker,
    it_ends_at_the_deadline,
]


def main():
    tap.skip_all(why_not())
    results = tap.Tap()
    with tempfile.TemporaryDirectory(prefix="unpack-") as folder, \
            Broker(*PROGRAMS, options=("--unpack", UNPACK)) as broker:
        u = Unpacker(broker, folder)
        outside = sorted(os.listdir("/"))
        for test in DONE:
            results.check(test.__name__, test, u)
        what_is_refused(u, results.check)
        what_is_limited(u, results.check)

        def nothing_appeared_outside():
            assert sorted(os.listdir("/")) == outside and not os.path.exists("/tmp/evil")
            assert not (pathlib.Path(folder) / "evil").exists()
        results.check("nothing_appeared_outside", nothing_appeared_outside)
    return results.end()


if __name__ == "__main__":
    sys.exit(main())
