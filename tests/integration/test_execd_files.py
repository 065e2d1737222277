"""execd's files and directories, asked over HTTP.

Usage: test_execd_files.py EXECD-PROGRAM. TAP on standard output. As root some more is checked.
"""
import contextlib
import email.utils
import grp
import json
import os
import pathlib
import pwd
import re
import shutil
import socket
import stat
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from execd_listen import Execd  # noqa: E402
from execd_process import SECONDS_MAX, wait_for  # noqa: E402
from execd_turns import overtake, request, serves_others_during  # noqa: E402

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
SANITIZED = b"__asan_init" in pathlib.Path(PROGRAM).read_bytes()
MIB = 1 << 20
UPLOAD_BYTES, UPLOAD_RSS_KIB_MAX = 300 * MIB, 2048
MANY_FILES = 2000
NOBODY = pwd.getpwnam("nobody").pw_uid
STAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{0,8}[1-9])?Z$")
INFO_KEYS = ["path", "type", "size", "modified_at", "created_at", "owner", "group", "mode"]
NO_FILE = "no such file or directory"


def need_root():
    if os.geteuid() != 0:
        raise tap.Skip("only root can give files away")


# --- facts ---


def tells_facts(x):
    file = x.home / "a.txt"
    file.write_bytes(b"hello")
    file.chmod(0o4640)
    (x.home / "sub").mkdir(mode=0o755)
    (x.home / "link").symlink_to("a.txt")
    os.utime(file, ns=(0, 1700000000120000000))
    answer = x.ask("GET", "/files/info", query=[("path", file), ("path", "~/sub"),
                                                ("path", "link"), ("path", "$HOME/sub/")])
    assert answer.status == 200
    infos = answer.json()
    assert list(infos) == sorted([str(file), "~/sub", "link", "$HOME/sub/"]), list(infos)
    info = infos[str(file)]
    assert list(info) == INFO_KEYS, info
    assert info["path"] == str(file) and info["type"] == "file" and info["size"] == 5
    assert info["mode"] == 640 and info["modified_at"] == "2023-11-14T22:13:20.12Z", info
    assert STAMP.match(info["created_at"]), info
    assert info["owner"] == pwd.getpwuid(os.getuid()).pw_name
    assert info["group"] == grp.getgrgid(os.getgid()).gr_name
    assert infos["~/sub"]["type"] == "directory" and infos["~/sub"]["mode"] == 755
    assert infos["$HOME/sub/"]["path"] == str(x.home / "sub")
    assert infos["link"] | {"modified_at": 0, "created_at": 0} == infos["link"] | {
        "path": str(x.home / "link"), "type": "symlink", "size": 5, "mode": 777,
        "modified_at": 0, "created_at": 0}
    assert x.ask("GET", "/files/info").body == b"{}"


def tells_of_files_that_are_missing(x):
    x.ask("GET", "/files/info", query=[("path", "/x")]).check_error(
        404, "FILE_NOT_FOUND", f"file not found. file not found: /x: lstat /x: {NO_FILE}")
    x.ask("GET", "/files/info", query=[("path", "$NOPE/$ALSO")]).check_error(
        500, "RUNTIME_ERROR",
        "error accessing file: path references undefined environment variables: ALSO,NOPE")
    (x.home / "plain").touch()
    x.ask("GET", "/files/info", query=[("path", "plain/x")]).check_error(500, "RUNTIME_ERROR")


def takes_names_that_are_not_utf8(x):
    name = os.fsencode(x.home) + b"/\xff\xfe.bin"
    pathlib.Path(os.fsdecode(name)).write_bytes(b"!")
    answer = x.ask("GET", "/files/info", query=[("path", name)])
    assert answer.status == 200 and br"\ufffd\ufffd.bin" in answer.body, answer.body
    answer = x.ask("GET", "/files/download", query=[("path", name)])
    assert answer.body == b"!"
    assert answer.headers["Content-Disposition"] == (
        "attachment; filename=\"%FF%FE.bin\"; filename*=UTF-8''%FF%FE.bin"), answer.headers
    x.ask("DELETE", "/files", query=[("path", name)]).check_empty()
    assert not os.path.exists(name)


def takes_a_literal_dollar(x):
    (x.home / "price$USD$1").write_bytes(b"9")
    x.ask("GET", "/files/info", query=[("path", "~/price$USD$1")]).check_error(
        500, "RUNTIME_ERROR")
    answer = x.ask("GET", "/files/download", query=[("path", r"~/price\$USD$1")])
    assert answer.body == b"9", answer.body


# --- removal ---


def removes_files(x):
    one, two = x.home / "one", x.home / "two"
    one.touch()
    two.symlink_to("nowhere")
    x.ask("DELETE", "/files", query=[("path", one), ("path", "/no/such"), ("path", two)]) \
        .check_empty()
    assert not one.exists() and not two.is_symlink(), "a dangling link is removed, too"
    x.ask("DELETE", "/files").check_empty()


def leaves_directories_to_their_own_route(x):
    folder, link = x.home / "folder", x.home / "to-folder"
    folder.mkdir()
    link.symlink_to(folder)
    for path in (folder, link):
        x.ask("DELETE", "/files", query=[("path", path)]).check_error(
            500, "RUNTIME_ERROR", f"error removing file {path}. path is a directory: {path}")
    assert folder.is_dir() and link.is_symlink()


def removes_trees(x):
    tree = x.home / "tree"
    deep = tree
    for _ in range(60):
        deep /= "d" * 40
    deep.mkdir(parents=True)
    keep = x.home / "keep"
    keep.mkdir()
    (keep / "me").touch()
    (tree / "out").symlink_to(keep)
    for number in range(300):
        (tree / str(number)).touch()
    (x.home / "file").touch()
    (x.home / "dangling").symlink_to("nowhere")
    x.ask("DELETE", "/directories", query=[("path", tree), ("path", x.home / "file"), ("path", ""),
                                           ("path", "dangling"), ("path", "/no/such")]) \
        .check_empty()
    assert not tree.exists() and (keep / "me").exists() and not (x.home / "file").exists()
    assert not (x.home / "dangling").is_symlink() and x.home.exists()
    for path in ("/", "..", "."):
        x.ask("DELETE", "/directories", query=[("path", path)]).check_error(500, "RUNTIME_ERROR")
    x.ask("DELETE", "/directories", query=[("path", "$NOPE")]).check_error(
        500, "RUNTIME_ERROR", "error resolving directory $NOPE. path references undefined "
        "environment variables: NOPE")


def removes_a_tree_deeper_than_paths_are_long(x):
    here = os.open(x.home, os.O_DIRECTORY)
    for _ in range(300):  # 300 * 101 bytes
        os.mkdir("d" * 100, dir_fd=here)
        there = os.open("d" * 100, os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = there
    os.close(here)
    x.ask("DELETE", "/directories", query=[("path", "~/" + "d" * 100)]).check_empty()
    assert not list(x.home.glob("d*"))


# --- permissions ---


def changes_permissions(x):
    need_root()
    file, link = x.home / "f", x.home / "l"
    file.touch()
    link.symlink_to("f")
    x.ask("POST", "/files/permissions", {"l": {"owner": "nobody", "group": None, "mode": 4751}}) \
        .check_empty()
    assert file.stat().st_uid == NOBODY and stat.S_IMODE(file.stat().st_mode) == 0o751
    x.ask("POST", "/files/permissions", {str(file): {"Owner": "1234", "GROUP": "root"}}) \
        .check_empty()
    assert (file.stat().st_uid, file.stat().st_gid) == (1234, 0)
    x.ask("POST", "/files/permissions", {str(file): {"mode": 0}, str(link): None}).check_empty()
    assert stat.S_IMODE(file.stat().st_mode) == 0o751


def explains_permissions_it_cannot_give(x):
    (x.home / "f").touch()
    for wanted, message in (
            ({"owner": "bob!"}, "failed to lookup user bob!: user: unknown user bob!"),
            ({"mode": 649}, "invalid mode 649: expected octal digits, such as 644"),
            ({"mode": -1}, "invalid mode -1: expected octal digits, such as 644")):
        x.ask("POST", "/files/permissions", {"f": wanted}).check_error(
            500, "RUNTIME_ERROR", f"error changing permissions for f. {message}")
    x.ask("POST", "/files/permissions", {"/no/such": {"mode": 600}}).check_error(
        500, "RUNTIME_ERROR", "error changing permissions for /no/such. chmod /no/such: " + NO_FILE)
    for body in (b"{", b"[]", b'{"f":{"mode":"644"}}', b'{"f":{"mode":6.5}}', b'{"f":5}', b""):
        answer = x.ask("POST", "/files/permissions", body)
        answer.check_error(400, "INVALID_REQUEST_BODY")
        assert answer.json()["message"].startswith(
            "error parsing request, MAYBE invalid body format. "), answer.body


# --- moving ---


def moves(x):
    src, dest = x.home / "src", x.home / "new" / "sub" / "dest"
    src.mkdir()
    (src / "f").write_bytes(b"1")
    (x.home / "dangling").symlink_to("nowhere")
    x.ask("POST", "/files/mv", [{"src": str(src), "dest": str(dest)},
                                {"src": "dangling", "dest": "new/link"}]).check_empty()
    assert (dest / "f").read_bytes() == b"1" and not src.exists()
    assert os.readlink(x.home / "new/link") == "nowhere"
    assert stat.S_IMODE((x.home / "new").stat().st_mode) == 0o755
    x.ask("POST", "/files/mv", [{"src": str(src), "dest": "/x"}]).check_error(
        404, "FILE_NOT_FOUND",
        f"file not found. source path not found: {src}: stat {src}: {NO_FILE}")
    (x.home / "other").touch()
    x.ask("POST", "/files/mv", [{"src": "other", "dest": str(dest)}]).check_error(
        500, "RUNTIME_ERROR", f"error accessing file: destination path already exists: {dest}")
    x.ask("POST", "/files/mv", [{"src": "new", "dest": "new/x"}]).check_error(500, "RUNTIME_ERROR")
    x.ask("POST", "/files/mv", {"src": "a"}).check_error(400, "INVALID_REQUEST_BODY")
    x.ask("POST", "/files/mv", [{"src": 5}]).check_error(400, "INVALID_REQUEST_BODY")


@contextlib.contextmanager
def another_file_system(x):
    shm = pathlib.Path("/dev/shm")
    if not shm.is_dir() or shm.stat().st_dev == x.home.stat().st_dev:
        raise tap.Skip("there is no second file system to write to")
    folder = pathlib.Path(tempfile.mkdtemp(dir=shm))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def moves_across_file_systems(x):
    with another_file_system(x) as far:
        tree = x.home / "tree"
        (tree / "a" / "b").mkdir(parents=True)
        (tree / "a" / "b" / "big").write_bytes(os.urandom(3 * MIB + 17))
        content = (tree / "a" / "b" / "big").read_bytes()
        (tree / "link").symlink_to("a/b")
        os.link(tree / "a" / "b" / "big", tree / "same")
        os.mkfifo(tree / "pipe")
        (tree / "locked").mkdir()
        (tree / "locked" / "f").touch(mode=0o400)
        (tree / "locked").chmod(0o500)
        if os.geteuid() == 0:
            os.chown(tree / "a", NOBODY, NOBODY)
        os.utime(tree / "a" / "b" / "big", ns=(1, 2000000003))
        os.utime(tree / "a", ns=(1, 4000000005))
        owner = (tree / "a").stat().st_uid
        if os.geteuid() != 0:
            (tree / "locked").chmod(0o700)
        x.ask("POST", "/files/mv", [{"src": str(tree), "dest": str(far / "t")}]).check_empty()
        assert not tree.exists()
        assert (far / "t/a/b/big").read_bytes() == content
        assert (far / "t/a/b/big").stat().st_mtime_ns == 2000000003
        assert (far / "t/same").samefile(far / "t/a/b/big")
        assert (far / "t/a").stat().st_mtime_ns == 4000000005
        assert (far / "t/a").stat().st_uid == owner
        assert os.readlink(far / "t/link") == "a/b"
        assert stat.S_ISFIFO((far / "t/pipe").stat().st_mode)
        assert stat.S_IMODE((far / "t/locked/f").stat().st_mode) == 0o400
        assert [entry.name for entry in far.iterdir()] == ["t"], "no temporary name is left"


def undoes_a_copy_that_fails(x):
    with another_file_system(x) as far:
        need_root()
        tree = x.home / "tree"
        (tree / "a").mkdir(parents=True)
        (tree / "a" / "f").write_bytes(b"1")
        os.system(f"mount -t tmpfs none {tree}/a 2>/dev/null")
        if not os.path.ismount(tree / "a"):
            raise tap.Skip("cannot mount here")
        try:
            x.ask("POST", "/files/mv", [{"src": str(tree), "dest": str(far / "t")}]).check_error(
                500, "RUNTIME_ERROR")
            assert not list(far.iterdir()) and tree.exists()
        finally:
            os.system(f"umount {tree}/a")


# --- search ---


def make_tree(root):
    for name in ("b/two.txt", "a/one.txt", "a/sub/deep.c", ".hidden", "top.c", "a.d/x"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
    (root / "link.c").symlink_to("a")


def search(x, root, **query):
    answer = x.ask("GET", "/files/search", query=[("path", root), *query.items()])
    assert answer.status == 200, answer.body
    return [os.path.relpath(info["path"], root) for info in answer.json()]


def searches(x):
    root = x.home / "tree"
    make_tree(root)
    everything = [".hidden", "a/one.txt", "a/sub/deep.c", "a.d/x", "b/two.txt", "link.c", "top.c"]
    assert search(x, root) == everything, search(x, root)
    assert search(x, root, pattern="**") == everything
    assert search(x, root, pattern="*.c") == ["a/sub/deep.c", "link.c", "top.c"]
    assert search(x, root, pattern="**/*.txt") == ["a/one.txt", "b/two.txt"]
    assert search(x, root, pattern="a/*") == ["a/one.txt"]
    assert search(x, root, pattern="a/**") == ["a/one.txt", "a/sub/deep.c"]
    assert search(x, root, pattern="{top,deep}.c") == ["a/sub/deep.c", "top.c"]
    assert search(x, root, pattern="!(*.c|*.txt)") == [".hidden", "a.d/x"]
    assert search(x, root, pattern="nothing") == []
    assert search(x, root / "top.c") == ["."] and search(x, root / "top.c", pattern="x") == []
    assert search(x, root / "link.c") == ["."], "a link is not followed"


def explains_a_search_that_fails(x):
    x.ask("GET", "/files/search").check_error(400, "MISSING_QUERY",
                                              "missing query parameter 'path'")
    x.ask("GET", "/files/search", query=[("path", "/no/such")]).check_error(
        404, "FILE_NOT_FOUND", f"file not found. lstat /no/such: {NO_FILE}")
    x.ask("GET", "/files/search", query=[("path", "~"), ("pattern", "[")]).check_error(
        500, "RUNTIME_ERROR",
        "error searching files. invalid pattern [: syntax error in pattern")


def make_wide_tree(root, folders=20):
    for folder in range(folders):
        (root / str(folder)).mkdir(parents=True)
        for file in range(1000):
            os.close(os.open(root / str(folder) / f"{file:04}", os.O_CREAT | os.O_WRONLY))


def serves_others_during_long_work(x):
    root, large = x.home / "wide", x.home / "large"
    make_wide_tree(root)
    with serves_others_during(x, "GET", f"/files/search?path={root}&pattern=none") as reply:
        assert reply.read() == b"[]"
    with serves_others_during(x, "GET", f"/directories/list?path={root}&depth=2") as reply:
        infos = json.loads(reply.read())
    assert len(infos) == 20 * 1001
    paths = [info["path"].split("/") for info in infos]
    assert paths == sorted(paths), "names in order, children behind their directory"
    large.touch()
    os.truncate(large, 256 * MIB)
    with serves_others_during(x, "POST", "/files/replace",
                              json.dumps({str(large): {"old": "a", "new": "b"}}).encode()) as reply:
        assert reply.status == 200, reply.read()
    before = x.rss_kib()
    with serves_others_during(x, "DELETE", f"/directories?path={root}") as reply:
        assert reply.status == 200, reply.read()
    assert not root.exists()
    wait_for(lambda: SANITIZED or x.rss_kib() < before + 1024, "little memory")


def serves_others_while_it_moves_a_tree(x):
    with another_file_system(x) as far:
        make_wide_tree(far / "wide", 2)
        moves = json.dumps([{"src": str(far / "wide"), "dest": str(x.home / "wide")}]).encode()
        with serves_others_during(x, "POST", "/files/mv", moves) as reply:
            assert reply.status == 200, reply.read()
        assert not (far / "wide").exists() and len(os.listdir(x.home / "wide" / "1")) == 1000


def refuses_to_list_too_much(x):
    root = x.home / "huge"
    root.mkdir()
    here = os.open(root, os.O_DIRECTORY)
    os.close(os.open("f0", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    for number in range(1, 100001):  # hard links cost less than files
        if number % 60000 == 0:
            os.close(os.open(f"f{number}", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        else:
            os.link(f"f{number // 60000 * 60000}", f"f{number}", src_dir_fd=here, dst_dir_fd=here)
    answer = x.ask("GET", "/directories/list", query=[("path", root)])
    answer.check_error(500, "RUNTIME_ERROR")
    assert "100000 entries" in answer.json()["message"], answer.body
    os.unlink("f1", dir_fd=here)
    os.close(here)
    assert len(x.ask("GET", "/directories/list", query=[("path", root)]).json()) == 100000
    x.ask("DELETE", "/directories", query=[("path", root)]).check_empty()


def skips_what_it_may_not_read(x):
    """As another user: root may read everything."""
    need_root()
    root = pathlib.Path(tempfile.mkdtemp())
    try:
        (root / "no").mkdir(mode=0o700)
        (root / "no" / "f").touch()
        (root / "yes").touch()
        root.chmod(0o755)
        (root / "seen").mkdir()
        (root / "seen" / "f").touch()
        (root / "seen").chmod(0o744)  # shows its names and nothing of their files
        with as_nobody() as other:
            assert search(other, root) == ["yes"]
            assert search(other, root / "seen") == []
            other.ask("GET", "/directories/list", query=[("path", root), ("depth", "2")]) \
                .check_error(500, "RUNTIME_ERROR",
                             f"error listing directory {root}. {root}/no: permission denied")
    finally:
        shutil.rmtree(root)
    assert "status" in search(x, "/proc/1"), "map_files can be opened, but not read"


@contextlib.contextmanager
def as_nobody():
    """An execd that is not root, from a copy that all users may run."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        copy = shutil.copy(PROGRAM, folder)
        os.chmod(copy, 0o755)
        with Execd(copy, user=NOBODY) as other:
            yield other


# --- directories ---


def lists(x):
    root = x.home / "tree"
    make_tree(root)

    def listed(**query):
        answer = x.ask("GET", "/directories/list", query=[("path", root), *query.items()])
        assert answer.status == 200, answer.body
        return [(os.path.relpath(info["path"], root), info["type"]) for info in answer.json()]

    top = [(".hidden", "file"), ("a", "directory"), ("a.d", "directory"), ("b", "directory"),
           ("link.c", "symlink"), ("top.c", "file")]
    assert listed() == top and listed(depth="1") == top
    assert listed(depth="0") == []
    assert ("a/sub", "directory") in listed(depth="2") and ("a/sub/deep.c", "file") not in listed(
        depth="2")
    assert len(listed(depth="9")) == 11
    for depth in ("-1", "x", "1.5", "99999999999999999999"):
        x.ask("GET", "/directories/list", query=[("path", root), ("depth", depth)]).check_error(
            400, "INVALID_REQUEST_BODY", f"invalid query parameter 'depth': {depth}")
    x.ask("GET", "/directories/list").check_error(400, "MISSING_QUERY",
                                                  "missing query parameter 'path'")
    x.ask("GET", "/directories/list", query=[("path", "/no/such")]).check_error(
        404, "FILE_NOT_FOUND")
    x.ask("GET", "/directories/list", query=[("path", root / "link.c")]).check_error(
        400, "INVALID_REQUEST_BODY",
        f"path is a symbolic link, refusing to traverse: {root}/link.c")
    x.ask("GET", "/directories/list", query=[("path", root / "top.c")]).check_error(
        400, "INVALID_REQUEST_BODY", f"path is not a directory: {root}/top.c")


def makes_directories(x):
    (x.home / "old").mkdir(mode=0o711)
    (x.home / "file").touch()
    x.ask("POST", "/directories", {"~/new/sub": {"mode": 750}, "old": {"mode": 700},
                                   "old/more": None}).check_empty()
    assert stat.S_IMODE((x.home / "new").stat().st_mode) == 0o755
    assert stat.S_IMODE((x.home / "new/sub").stat().st_mode) == 0o750
    assert stat.S_IMODE((x.home / "old").stat().st_mode) == 0o711, "an existing one is left alone"
    x.ask("POST", "/directories", {"file/sub": {}}).check_error(
        500, "RUNTIME_ERROR", f"error accessing file: mkdir {x.home}/file/sub: not a directory")
    x.ask("POST", "/directories", {"file": {}}).check_error(500, "RUNTIME_ERROR")
    x.ask("POST", "/directories", {"x": {"owner": "bob!"}}).check_error(500, "RUNTIME_ERROR")
    x.ask("POST", "/directories", b"[1]").check_error(400, "INVALID_REQUEST_BODY")


# --- replacing ---


def replaces(x):
    file, same, link = x.home / "f", x.home / "same", x.home / "link"
    file.write_bytes(b"aXbXc\xff\0X")
    file.chmod(0o640)
    same.write_bytes(b"nothing here")
    os.utime(same, ns=(1, 1))
    link.symlink_to("f")
    if os.geteuid() == 0:
        os.chown(file, NOBODY, NOBODY)
    owner = file.stat().st_uid
    answer = x.ask("POST", "/files/replace", {"link": {"old": "X", "new": "YY"},
                                              "same": {"old": "absent", "new": ""}},
                   query=[("verbose", "true")])
    assert answer.body == b'{"link":{"replacedCount":3},"same":{"replacedCount":0}}', answer.body
    assert file.read_bytes() == b"aYYbYYc\xff\0YY" and link.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640 and file.stat().st_uid == owner
    assert same.stat().st_mtime_ns == 1, "what holds none is not touched"
    x.ask("POST", "/files/replace", {"f": {"old": "YY"}}, query=[("verbose", "false")]) \
        .check_empty()
    assert file.read_bytes() == b"abc\xff\0"
    x.ask("POST", "/files/replace", {"/no/such": {"old": "a", "new": "b"}}).check_error(
        404, "FILE_NOT_FOUND", f"file not found. open /no/such: {NO_FILE}")
    x.ask("POST", "/files/replace", {"f": {"old": "", "new": "b"}}).check_error(
        400, "INVALID_REQUEST_BODY", "old content must not be empty")
    for body in (b"{", b'{"f":{"old":1}}', b'{"f":[]}'):
        x.ask("POST", "/files/replace", body).check_error(400, "INVALID_REQUEST_BODY")
    x.ask("POST", "/files/replace", {"~": {"old": "a"}}).check_error(
        500, "RUNTIME_ERROR", f"error accessing file: read {x.home}: is a directory")
    assert not list(x.home.glob(".opensandbox*"))


def refuses_a_body_that_is_large_once_parsed(x):
    rows = ",".join(f'"/no/{number}":{{}}' for number in range(400_000))
    x.ask("POST", "/files/replace", ("{" + rows + "}").encode()).check_error(
        413, "CONTENT_TOO_LARGE",
        "the parsed body takes more than 24 MiB of memory: send it in several requests")


def replaces_across_pieces(x):
    """Occurrences at, before and across the edges of the pieces files are read in."""
    file = x.home / "f"
    for old in (b"ab", b"abcabcab", b"n" * 70000 + b"x"):
        for shift in (0, 1, len(old) // 2, len(old) - 1):
            text = b"." * (65536 - shift) + old + b"." * 65536 + old + old + b"tail" + old[:-1]
            file.write_bytes(text)
            x.ask("POST", "/files/replace", {"f": {"old": old.decode(), "new": "<new>"}}) \
                .check_empty()
            assert file.read_bytes() == text.replace(old, b"<new>"), (len(old), shift)
    file.write_bytes(b"z" * 5000)
    x.ask("POST", "/files/replace", {"f": {"old": "z", "new": "y" * 3000}}).check_empty()
    assert file.read_bytes() == b"y" * 15000000


def is_at_end(reader):
    """Whether the pipe is empty and has no writer."""
    try:
        return os.read(reader, 1) == b""
    except BlockingIOError:
        return False


def replace_what_becomes_a_pipe(x):
    """The answer to a replacement in a file that becomes a pipe meanwhile, with a reader that does
    not read."""
    file, pipe = x.home / "f", x.home / "pipe"
    file.unlink(missing_ok=True)
    with open(file, "wb") as f:
        f.truncate(2048 * MIB)
        f.seek(0, os.SEEK_END)
        f.write(b"needle")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    answers = []
    asking = threading.Thread(target=lambda: answers.append(
        x.ask("POST", "/files/replace", {"f": {"old": "needle", "new": "n" * MIB}})))
    asking.start()
    wait_for(lambda: answers or str(file) in x.descriptor_links(), "execd to look at it")
    os.rename(pipe, file)
    asking.join(SECONDS_MAX)
    assert answers, "execd waits for a pipe"
    wait_for(lambda: is_at_end(reader), "execd to close the pipe")
    os.close(reader)
    return answers[0]


def replaces_nothing_in_a_pipe(x):
    for _ in range(10):
        answer = replace_what_becomes_a_pipe(x)
        if answer.status != 200:  # otherwise it was done before the file became a pipe
            break
    answer.check_error(500, "RUNTIME_ERROR")


def replaces_in_constant_memory(x):
    file = x.home / "f"
    with open(file, "wb") as out:
        for _ in range(64):
            out.write(b"0123456789abcdef" * 65536)
    before = x.rss_kib()
    answer = x.ask("POST", "/files/replace", {"f": {"old": "f0", "new": "-"}},
                   query=[("verbose", "true")])
    assert answer.json() == {"f": {"replacedCount": 64 * 65536 - 1}}
    wait_for(lambda: SANITIZED or x.rss_kib() < before + UPLOAD_RSS_KIB_MAX, "little memory")


# --- download ---


def download(x, path, headers=None, **query):
    return x.ask("GET", "/files/download", query=[("path", path), *query.items()], headers=headers)


def downloads(x):
    file = x.home / "a b.txt"
    file.write_bytes(b"hello\n")
    answer = download(x, file)
    assert answer.status == 200 and answer.body == b"hello\n"
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="a b.txt"'
    assert answer.headers["Accept-Ranges"] == "bytes" and answer.headers["Content-Length"] == "6"
    since = answer.headers["Last-Modified"]
    assert email.utils.parsedate_to_datetime(since).timestamp() == int(file.stat().st_mtime)
    assert download(x, file, {"If-Modified-Since": since}).status == 304
    early = "Sun, 06 Nov 1994 08:49:37 GMT"
    assert download(x, file, {"If-Unmodified-Since": early}).status == 412
    assert download(x, file, {"If-Modified-Since": early}).status == 200
    (x.home / "l").symlink_to(file)
    assert download(x, "l").body == b"hello\n"
    (x.home / "测.txt").touch()
    assert download(x, "测.txt").headers["Content-Disposition"] == (
        "attachment; filename=\"%E6%B5%8B.txt\"; filename*=UTF-8''%E6%B5%8B.txt")
    (x.home / 'q"\r\nX: y').write_bytes(b"1")
    assert download(x, 'q"\r\nX: y').headers["Content-Disposition"] == (
        "attachment; filename=\"q%22%0D%0AX%3A%20y\"; filename*=UTF-8''q%22%0D%0AX%3A%20y")
    assert b"execd" in download(x, "/proc/self/status").body, "files that say they are empty"


def refuses_what_is_no_file(x):
    x.ask("GET", "/files/download").check_error(400, "MISSING_QUERY",
                                                "missing query parameter 'path'")
    download(x, "/no/such").check_error(404, "FILE_NOT_FOUND",
                                        f"file not found. open /no/such: {NO_FILE}")
    download(x, x.home).check_error(400, "INVALID_FILE", f"path is a directory: {x.home}")
    os.mkfifo(x.home / "pipe")
    download(x, "pipe").check_error(400, "INVALID_FILE", "path is not a regular file: pipe")
    download(x, "/dev/zero").check_error(400, "INVALID_FILE")


def downloads_ranges(x):
    file, empty = x.home / "f", x.home / "empty"
    file.write_bytes(b"0123456789")
    empty.touch()
    for wanted, got, place in (("0-4", b"01234", "0-4/10"), ("5-", b"56789", "5-9/10"),
                               ("-3", b"789", "7-9/10"), ("8-99", b"89", "8-9/10"),
                               ("20-30,2-3", b"23", "2-3/10"), ("-99", b"0123456789", "0-9/10")):
        answer = download(x, file, {"Range": "bytes=" + wanted})
        assert (answer.status, answer.body) == (206, got), (wanted, answer.status, answer.body)
        assert answer.headers["Content-Range"] == "bytes " + place
        assert answer.headers["Content-Length"] == str(len(got))
    for wanted in ("items=0-1", "bytes=5-2", "bytes=a-b", "bytes=", "0-1"):
        answer = download(x, file, {"Range": wanted})
        assert answer.status == 416 and answer.json() == {"code": "UNKNOWN"}, wanted
    answer = download(x, file, {"Range": "bytes=10-"})
    assert answer.status == 416 and answer.headers["Content-Range"] == "bytes */10"
    assert answer.body == b"invalid range: failed to overlap\n"
    assert answer.headers["Content-Type"].startswith("text/plain")
    answer = download(x, empty, {"Range": "bytes=0-4"})
    assert (answer.status, answer.body) == (200, b"")


def downloads_from_a_large_file(x):
    file = x.home / "sparse"
    with open(file, "wb") as out:
        out.truncate(1 << 30)
        out.seek((1 << 30) - 5)
        out.write(b"tail!")
    before = x.rss_kib()
    assert download(x, file, {"Range": "bytes=1073741819-"}).body == b"tail!"
    client = x.connect()
    client.request("GET", f"/files/download?path={file}")
    reply = client.getresponse()
    total = 0
    while piece := reply.read(1 << 20):
        total += len(piece)
    assert total == 1 << 30
    wait_for(lambda: SANITIZED or x.rss_kib() < before + UPLOAD_RSS_KIB_MAX, "little memory")


def downloads_lines(x):
    file = x.home / "f"
    file.write_bytes(b"one\r\ntwo\n\nfo\rur\nfive\r\r\n")
    for query, got in (({"offset": "1"}, b"one\ntwo\n\nfo\rur\nfive"),
                       ({"offset": "2", "limit": "1"}, b"two"),
                       ({"limit": "3"}, b"one\ntwo\n"), ({"offset": "5", "limit": "9"}, b"five"),
                       ({"offset": "6"}, b""), ({"offset": "99", "limit": "1"}, b"")):
        answer = download(x, file, **query)
        assert (answer.status, answer.body) == (200, got), (query, answer.body)
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    for name in ("offset", "limit"):
        for value in ("0", "-1", "x", "1.5"):
            download(x, file, **{name: value}).check_error(
                400, "INVALID_REQUEST_BODY", f"invalid query parameter '{name}': {value}")
    download(x, file, {"Range": "bytes=0-1"}, offset="1").check_error(
        400, "INVALID_REQUEST_BODY", "line-based reading (offset/limit) and byte range (Range "
        "header) are mutually exclusive")
    assert download(x, file, offset="", limit="").headers["Accept-Ranges"] == "bytes"
    lines = [b"%d" % n + b"x" * (n % 300) + b"\r" * (n % 3) for n in range(20000)]
    file.write_bytes(b"\n".join(lines))
    answer = download(x, file, offset="5001", limit="10000")
    assert answer.body == b"\n".join(line.rstrip(b"\r") for line in lines[5000:15000])
    assert answer.headers["Transfer-Encoding"] == "chunked"


def describes_an_empty_file_like_any_other(x):
    file = x.home / "empty"
    file.touch()
    os.utime(file, (1700000000, 1700000000))
    then = email.utils.formatdate(1700000000, usegmt=True)
    before = email.utils.formatdate(1699999999, usegmt=True)
    for headers in ({}, {"Range": "bytes=0-4"}, {"If-Modified-Since": before},
                    {"If-Unmodified-Since": then}):
        answer = download(x, "empty", headers=headers)
        assert (answer.status, answer.body) == (200, b""), (headers, answer.status, answer.body)
        assert answer.headers["Content-Length"] == "0", answer.headers
        assert answer.headers["Last-Modified"] == then, answer.headers
        assert answer.headers["Accept-Ranges"] == "bytes", answer.headers
        assert answer.headers["Content-Type"] == "application/octet-stream", answer.headers
        assert answer.headers["Content-Disposition"] == 'attachment; filename="empty"'
    assert download(x, "empty", headers={"If-Modified-Since": then}).status == 304
    assert download(x, "empty", headers={"If-Unmodified-Since": before}).status == 412
    answer = download(x, "/proc/version")  # its size is 0, although it has content
    assert answer.status == 200 and answer.body.startswith(b"Linux"), answer.body
    answer = download(x, "/sys/kernel/uevent_seqnum")  # its size is 4096, whatever its content
    assert answer.status == 200 and answer.body.strip().isdigit(), answer.body
    (x.home / "hole").touch()
    os.truncate(x.home / "hole", 10000)
    assert download(x, "hole", headers={"Range": "bytes=-2"}).body == b"\0\0"
    assert download(x, "hole").body == b"\0" * 10000


def takes_a_null_body_for_an_empty_one(x):
    for route in ("/files/mv", "/files/permissions", "/files/replace", "/directories"):
        x.ask("POST", route, "null").check_empty()
        x.ask("POST", route, " null ignored").check_empty()
    x.ask("POST", "/files/mv", [None]).check_error(500, "RUNTIME_ERROR")
    x.ask("POST", "/directories", {"made": None}).check_empty()
    assert (x.home / "made").is_dir()


# --- upload ---


BOUNDARY = "----osb7MA4YWxk"


def part(name, content, filename=None, head=None):
    head = head or f'Content-Disposition: form-data; name="{name}"' + (
        f'; filename="{filename}"' if filename else "")
    return b"--" + BOUNDARY.encode() + b"\r\n" + head.encode() + b"\r\n\r\n" + content + b"\r\n"


def meta(path, **more):
    return part("metadata", json.dumps({"path": str(path), **more}).encode(), "metadata")


def file_part(content, filename="x"):
    return part("file", content, filename)


def form(*parts):
    return b"".join(parts) + b"--" + BOUNDARY.encode() + b"--\r\n"


def upload(x, *parts, body=None, kind=f"multipart/form-data; boundary={BOUNDARY}", **more):
    return x.ask("POST", "/files/upload", form(*parts) if body is None else body,
                 headers={"Content-Type": kind}, **more)


def uploads(x):
    target = x.home / "new" / "a.bin"
    content = bytes(range(256)) * 300
    upload(x, meta("~/new/a.bin", owner=None, group=None, mode=640), file_part(content)) \
        .check_empty()
    assert target.read_bytes() == content and stat.S_IMODE(target.stat().st_mode) == 0o640
    upload(x, meta("new/b"), file_part(b"")).check_empty()
    assert (x.home / "new/b").read_bytes() == b""
    assert stat.S_IMODE((x.home / "new/b").stat().st_mode) == 0o755
    if os.geteuid() == 0:
        upload(x, meta("c", owner="nobody", group="0", mode=600), file_part(b"c")).check_empty()
        assert (x.home / "c").stat().st_uid == NOBODY
    assert sorted(os.listdir(x.home / "new")) == ["a.bin", "b"], "no temporary file is left"


def pairs_parts_in_any_order(x):
    a, b, c = meta("a"), meta("b"), meta("c")
    fa, fb, fc = file_part(b"AAA"), file_part(b"B" * 200000), file_part(b"")
    other = part("comment", b"not seen", None) + part("extra", b"ignored", "extra")
    for parts in ((a, fa, b, fb, c, fc), (a, b, c, fa, fb, fc), (fa, fb, fc, a, b, c),
                  (fa, a, fb, b, fc, c), (a, fa, fb, b, c, fc),
                  (other, fa, fb, a, other, b, c, fc)):
        for name in "abc":
            with contextlib.suppress(FileNotFoundError):
                (x.home / name).unlink()
        upload(x, *parts).check_empty()
        assert (x.home / "a").read_bytes() == b"AAA"
        assert (x.home / "b").read_bytes() == b"B" * 200000
        assert (x.home / "c").read_bytes() == b""
    assert not os.listdir(x.folder / "tmp"), "the spool has no name"


def replaces_files_whole(x):
    """Readers see all of the old content or all of the new; mode, owner and links are kept."""
    target, link = x.home / "t", x.home / "l"
    old, new = b"o" * 300000, b"n" * 500000
    target.write_bytes(old)
    target.chmod(0o600)
    link.symlink_to("t")
    if os.geteuid() == 0:
        os.chown(target, NOBODY, NOBODY)
    owner = target.stat().st_uid
    seen, stop = set(), threading.Event()

    def read():
        while not stop.is_set():
            seen.add(target.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for content in (new, old) * 10:
        upload(x, meta("l"), file_part(content)).check_empty()
    stop.set()
    reader.join()
    assert seen <= {old, new}, [len(content) for content in seen]
    assert link.is_symlink() and stat.S_IMODE(target.stat().st_mode) == 0o600
    assert target.stat().st_uid == owner


def creates_what_a_dangling_link_names(x):
    (x.home / "l").symlink_to("sub/there")
    (x.home / "sub").mkdir()
    upload(x, meta("l"), file_part(b"1")).check_empty()
    assert (x.home / "l").is_symlink() and (x.home / "sub/there").read_bytes() == b"1"


def writes_devices_and_pipes_in_place(x):
    upload(x, meta("/dev/null"), file_part(b"gone")).check_empty()
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    os.mkfifo(x.home / "pipe")
    reader = os.open(x.home / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    upload(x, meta("pipe"), file_part(b"through")).check_empty()
    assert os.read(reader, 100) == b"through"
    os.close(reader)


def writes_in_place_where_it_may_not_make_files(x):
    need_root()
    root = pathlib.Path(tempfile.mkdtemp())
    try:
        root.chmod(0o755)
        (root / "f").write_bytes(b"old content")
        (root / "f").chmod(0o666)
        with as_nobody() as other:
            upload(other, meta(root / "f"), file_part(b"new")).check_empty()
            assert (root / "f").read_bytes() == b"new" and (root / "f").stat().st_uid == 0
            upload(other, meta(root / "g"), file_part(b"new")).check_error(
                500, "RUNTIME_ERROR",
                f"error opening destination file {root}/g. open {root}/g: permission denied")
    finally:
        shutil.rmtree(root)


def explains_a_bad_upload(x):
    good = (meta("ok"), file_part(b"1"))
    not_a_form = (400, "INVALID_FILE", "multipart form is empty")
    upload(x, body=b"{}", kind="application/json").check_error(*not_a_form)
    upload(x, body=b"").check_error(*not_a_form)
    x.ask("POST", "/files/upload").check_error(*not_a_form)
    upload(x, body=b"no boundary at all").check_error(*not_a_form)
    upload(x, body=form(*good)[:-8]).check_error(*not_a_form)
    upload(x).check_error(400, "INVALID_FILE_METADATA", "metadata file is missing")
    upload(x, good[1]).check_error(400, "INVALID_FILE_METADATA", "metadata file is missing")
    upload(x, part("metadata", b'{"path":"x"}'), good[1]).check_error(
        400, "INVALID_FILE_METADATA", "metadata file is missing")
    upload(x, good[0]).check_error(400, "INVALID_FILE_CONTENT", "file is missing")
    upload(x, *good, good[0]).check_error(400, "INVALID_FILE",
                                          "metadata and file count mismatch: 2 vs 1")
    answer = upload(x, part("metadata", b"{", "metadata"), good[1])
    answer.check_error(400, "INVALID_FILE_METADATA")
    assert answer.json()["message"].startswith("invalid metadata format. "), answer.body
    upload(x, part("metadata", b"x" * 100000, "m"), good[1]).check_error(
        400, "INVALID_FILE_METADATA", "invalid metadata format. more than 65536 bytes")
    for empty in (b"{}", b'{"path":""}', b'{"path":null}'):
        upload(x, part("metadata", empty, "m"), good[1]).check_error(
            400, "INVALID_FILE_METADATA", "metadata path is empty")
    for content in (good[1], file_part(b"z" * MIB)):
        upload(x, meta("$NOPE/x"), content).check_error(
            500, "RUNTIME_ERROR", "error resolving target path $NOPE/x. path references undefined "
            "environment variables: NOPE")
    (x.home / "file").touch()
    upload(x, meta("file/x"), good[1]).check_error(
        500, "RUNTIME_ERROR", "error creating target directory file. not a directory")
    upload(x, meta(x.home), good[1]).check_error(
        500, "RUNTIME_ERROR",
        f"error opening destination file {x.home}. open {x.home}: is a directory")
    upload(x, meta("/dev/full"), good[1]).check_error(
        500, "RUNTIME_ERROR", "error copying file /dev/full. no space left on device")
    upload(x, meta("z", owner="bob!"), good[1]).check_error(
        500, "RUNTIME_ERROR",
        "error chmoding file z. failed to lookup user bob!: user: unknown user bob!")
    assert not (x.home / "z").exists()
    assert not [name for name in os.listdir(x.home) if name.startswith(".")]


def keeps_what_came_before_an_error(x):
    """Each file is whole, or not there: those before the error are, the others are not."""
    pair = (meta("one"), file_part(b"1"))
    for parts, status, code in (
            ((*pair, meta("two")), 400, "INVALID_FILE"),
            ((*pair, file_part(b"2")), 400, "INVALID_FILE"),
            ((*pair, meta(""), file_part(b"2"), meta("two"), file_part(b"3")), 400,
             "INVALID_FILE_METADATA"),
            ((*pair, meta("$NOPE"), file_part(b"2"), meta("two"), file_part(b"2")), 500,
             "RUNTIME_ERROR")):
        upload(x, *parts).check_error(status, code)
        assert os.listdir(x.home) == ["one"], (code, os.listdir(x.home))
        (x.home / "one").unlink()
    upload(x, body=form(*pair, meta("two"), file_part(b"2" * 100000))[:-8]).check_error(
        400, "INVALID_FILE", "multipart form is empty")
    assert os.listdir(x.home) == ["one"], os.listdir(x.home)
    upload(x, file_part(b"2"), meta("two"), meta("one/x"), file_part(b"x")).check_error(
        500, "RUNTIME_ERROR", "error creating target directory one. not a directory")
    assert (x.home / "two").read_bytes() == b"2", "its metadata came later"


def can_be_nameless(home):
    with contextlib.suppress(OSError):
        os.close(os.open(home, os.O_TMPFILE | os.O_WRONLY))
        return True
    return False


def waiting(x):
    """How many files are written, in part or whole, and not in their places: some have no name."""
    named = sum(name.startswith(".opensandbox-") for _, _, names in os.walk(x.home)
                for name in names)
    return named + sum(link.startswith(str(x.home)) and "/#" in link  # as the kernel calls them
                       for link in x.descriptor_links())


def shows_each_file_when_it_is_complete(x):
    before = x.descriptors()
    parts = [piece for n in range(MANY_FILES)
             for piece in (meta(f"d{n % 7}/{n}"), file_part(b"%d" % n))]
    whole = lambda: sum(not name.startswith(".opensandbox-")  # noqa: E731
                        for _, _, names in os.walk(x.home) for name in names)
    with unfinished(x, *parts, meta("last"), file_part(b"l" * 100000)):
        wait_for(lambda: whole() == MANY_FILES and waiting(x) == 1, "all but the last one")
        assert x.descriptors() <= before + 4, (before, x.descriptors())
        if not SANITIZED:
            assert x.rss_kib() < 16 << 10, x.rss_kib()
    wait_for(lambda: waiting(x) == 0, "the last one to go")
    assert not (x.home / "last").exists()


def reads_forms_as_clients_spell_them(x):
    kotlin = part("metadata", b'{"path":"kotlin"}', head='Content-Disposition: form-data; '
                  'name="metadata"; filename="metadata"\r\nContent-Type: application/json\r\n'
                  'Content-Length: 17')
    upload(x, kotlin, file_part(b"k")).check_empty()
    sharp = [part("", content, head="Content-Type: application/json\r\nContent-Disposition: "
                  f"form-data; name={name}; filename={name}; filename*=utf-8''{name}")
             for name, content in (("metadata", b'{"path":"sharp"}'), ("file", b"#"))]
    upload(x, *sharp, kind=f'multipart/form-data; boundary="{BOUNDARY}"').check_empty()
    upload(x, meta("python"), file_part(b"p", "/workspace/测 %22.txt")).check_empty()
    pieces = iter([form(meta("go"), file_part(b"g" * 5000))[at:at + 7] for at in
                   range(0, len(form(meta("go"), file_part(b"g" * 5000))), 7)])
    upload(x, body=pieces).check_empty()  # http.client sends an iterable chunked
    for name, content in (("kotlin", b"k"), ("sharp", b"#"), ("python", b"p"), ("go", b"g" * 5000)):
        assert (x.home / name).read_bytes() == content, name
    nearly = b"x\r\n--" + BOUNDARY[:-1].encode()
    upload(x, body=b"preamble\r\n" + form(meta("pre"), file_part(nearly)) + b"epilogue") \
        .check_empty()
    assert (x.home / "pre").read_bytes() == nearly


def uploads_many_files(x):
    parts = [piece for n in range(MANY_FILES)
             for piece in (meta(f"many/{n % 7}/{n}"), file_part(b"%d" % n))]
    before = x.descriptors()
    upload(x, *parts).check_empty()
    upload(x, *parts[1::2], *parts[0::2]).check_empty()
    for n in range(MANY_FILES):
        assert (x.home / f"many/{n % 7}/{n}").read_bytes() == b"%d" % n
    wait_for(lambda: x.descriptors() <= before, "descriptors to close")


def serves_others_during_an_upload(x):
    """Of files with a directory each, which is made when its file comes."""
    count = 400
    body = form(*(piece for n in range(count) for piece in (meta(f"each/{n}/f"), file_part(b"f"))))
    long = request("POST", "/files/upload", body,
                   f"Content-Type: multipart/form-data; boundary={BOUNDARY}")
    reply, last = overtake(x, long, [request("GET", f"/files/info?path=each/{count - 1}")])
    assert last.status == 404, "the whole form was taken at once"
    assert reply.status == 200 and len(os.listdir(x.home / "each")) == count, reply.status


def uploads_in_constant_memory(x):
    piece = os.urandom(MIB)
    pieces = UPLOAD_BYTES // MIB

    def body(first, last):
        yield first
        for _ in range(pieces):
            yield piece
        yield last

    whole = form(meta("big"), file_part(b"@"))
    at = whole.index(b"\r\n\r\n@") + 4
    spooled = form(file_part(b"@"), meta("big2"))
    late = spooled.index(b"\r\n\r\n@") + 4
    peak = 0
    stop = threading.Event()

    def watch():
        nonlocal peak
        while not stop.is_set():
            peak = max(peak, x.rss_kib())
            time.sleep(0.01)

    before = x.rss_kib()
    watcher = threading.Thread(target=watch)
    watcher.start()
    upload(x, body=body(whole[:at], whole[at + 1:])).check_empty()
    upload(x, body=body(spooled[:late], spooled[late + 1:])).check_empty()
    stop.set()
    watcher.join()
    for name in ("big", "big2"):
        assert (x.home / name).stat().st_size == UPLOAD_BYTES
        with open(x.home / name, "rb") as file:
            file.seek(17 * MIB)
            assert file.read(MIB) == piece
    if not SANITIZED:
        assert peak < before + UPLOAD_RSS_KIB_MAX, f"{before} KiB grew to {peak} KiB"


def leaves_nothing_of_an_upload_that_breaks_off(x):
    body = form(meta("part"), file_part(b"x" * 100000))
    with socket.create_connection(("127.0.0.1", x.port)) as client:
        client.sendall(b"POST /files/upload HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n"
                       b"Content-Type: multipart/form-data; boundary=" + BOUNDARY.encode()
                       + b"\r\n\r\n" + body[:60000])
        wait_for(lambda: waiting(x), "the temporary file")
    wait_for(lambda: not waiting(x), "the temporary file to go")
    assert not os.listdir(x.home)


@contextlib.contextmanager
def unfinished(x, *parts, more=0):
    """A form of which all but the end was sent, or so many bytes."""
    body = form(*parts)
    end = body.rindex(b"--" + BOUNDARY.encode())
    with socket.create_connection(("127.0.0.1", x.port), timeout=SECONDS_MAX) as client:
        client.sendall(b"POST /files/upload HTTP/1.1\r\nHost: x\r\nContent-Type: "
                       b"multipart/form-data; boundary=" + BOUNDARY.encode() + b"\r\n"
                       b"Content-Length: %d\r\n\r\n" % (end + (more or 8)) + body[:end])
        yield client


def leaves_no_part_of_a_file_when_it_ends(x):
    with unfinished(x, meta("whole"), file_part(b"x"), meta("part"), file_part(b"x" * 100000)):
        wait_for(lambda: (x.home / "whole").exists() and waiting(x) == 1, "the temporary file")
        x.process.terminate()
        x.process.wait(SECONDS_MAX)
    assert os.listdir(x.home) == ["whole"], os.listdir(x.home)


def leaves_no_part_of_a_file_when_it_is_killed(x):
    if not can_be_nameless(x.home):
        raise tap.Skip("no files without a name here")
    (x.home / "old").write_bytes(b"old")
    with unfinished(x, meta("made/one"), file_part(b"1"), meta("old"), file_part(b"2" * 100000)):
        wait_for(lambda: (x.home / "made/one").exists() and waiting(x) == 1, "the temporary file")
        x.process.kill()
        x.process.wait(SECONDS_MAX)
    assert (x.home / "old").read_bytes() == b"old"
    assert [names for _, _, names in os.walk(x.home)] == [["old"], ["one"]], list(os.walk(x.home))


# --- races ---


def keeps_within_a_tree_that_changes(x):
    """While directories turn into links and back, nothing outside the tree is removed."""
    outside = x.folder / "outside"
    (outside / "sub").mkdir(parents=True)
    for n in range(50):
        (outside / "sub" / str(n)).touch()
    stop = threading.Event()
    tree = x.home / "tree"

    def swap():
        while not stop.is_set():
            with contextlib.suppress(OSError):
                os.rename(tree / "a", x.home / "aside")
                os.symlink(outside, tree / "a")
            with contextlib.suppress(OSError):
                os.unlink(tree / "a")
                os.rename(x.home / "aside", tree / "a")

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for _ in range(60):
            for n in range(30):
                with contextlib.suppress(OSError):  # the swapper was faster
                    (tree / "a" / "sub" / str(n)).mkdir(parents=True)
            x.ask("GET", "/files/search", query=[("path", tree)])
            x.ask("DELETE", "/directories", query=[("path", tree)])
    finally:
        stop.set()
        swapper.join()
    names = {name for name in os.listdir(outside / "sub")}
    assert {str(n) for n in range(50)} <= names, "files outside are gone"


def stays_small(x):
    if SANITIZED or b"ld-linux" in pathlib.Path(PROGRAM).read_bytes():
        raise tap.Skip("only the static program is small")
    x.ask("GET", "/ping")
    idle = x.rss_kib()
    make_tree(x.home / "tree")
    for _ in range(200):
        search(x, x.home / "tree")
        upload(x, meta("f"), file_part(b"x" * 100000))
        download(x, "f")
    wait_for(lambda: x.rss_kib() < idle + 700, "little memory")


TESTS = [
    tells_facts, tells_of_files_that_are_missing, takes_names_that_are_not_utf8,
    takes_a_literal_dollar, removes_files, leaves_directories_to_their_own_route, removes_trees,
    removes_a_tree_deeper_than_paths_are_long, changes_permissions,
    explains_permissions_it_cannot_give, moves, moves_across_file_systems,
    undoes_a_copy_that_fails, searches, explains_a_search_that_fails,
    serves_others_during_long_work, serves_others_while_it_moves_a_tree, refuses_to_list_too_much,
    skips_what_it_may_not_read, lists,
    makes_directories, replaces, refuses_a_body_that_is_large_once_parsed,
    replaces_across_pieces, replaces_nothing_in_a_pipe,
    replaces_in_constant_memory, downloads,
    refuses_what_is_no_file, downloads_ranges, downloads_from_a_large_file, downloads_lines,
    describes_an_empty_file_like_any_other, takes_a_null_body_for_an_empty_one,
    uploads,
    pairs_parts_in_any_order, replaces_files_whole, creates_what_a_dangling_link_names,
    writes_devices_and_pipes_in_place, writes_in_place_where_it_may_not_make_files,
    explains_a_bad_upload, keeps_what_came_before_an_error,
    shows_each_file_when_it_is_complete, reads_forms_as_clients_spell_them,
    uploads_many_files, serves_others_during_an_upload, uploads_in_constant_memory,
    leaves_nothing_of_an_upload_that_breaks_off,
    leaves_no_part_of_a_file_when_it_ends, leaves_no_part_of_a_file_when_it_is_killed,
    keeps_within_a_tree_that_changes, stays_small,
]


if __name__ == "__main__":
    sys.exit(tap.run_tests(TESTS, lambda: Execd(PROGRAM)))
