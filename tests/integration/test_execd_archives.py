"""execd's directories as tar archives, both ways.

Usage: test_execd_archives.py EXECD-PROGRAM. TAP on standard output.
"""
import io
import os
import pathlib
import stat
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from execd_client import Client  # noqa: E402
from execd_listen import Execd  # noqa: E402
from execd_process import wait_for  # noqa: E402
from execd_turns import serves_others_during  # noqa: E402

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
SANITIZED = b"__asan_init" in pathlib.Path(PROGRAM).read_bytes()
MIB = 1 << 20
HUGE_BYTES = 9 << 30  # past what a plain head can say
RSS_KIB_MAX = 2048


def download(x, path):
    return x.ask("GET", "/directories/download", query=[("path", path)])


def upload(x, path, body, **query):
    return x.ask("POST", "/directories/upload", body, query=[("path", path), *query.items()])


def make_tree(root):
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "empty").mkdir(mode=0o700)
    (root / "a.txt").write_bytes(b"hello")
    (root / "none").touch()
    (root / "sub" / "block").write_bytes(os.urandom(512))
    (root / "sub" / "deep" / "big").write_bytes(os.urandom(300000))
    (root / ("n" * 200)).write_text("a long name")
    (root / "été").write_text("accents")
    with open(os.fsencode(root) + b"/raw\xff", "wb") as out:
        out.write(b"no text")
    (root / "link").symlink_to("t" * 180)
    (root / "a.txt").chmod(0o640)
    os.link(root / "a.txt", root / "same")
    os.mkfifo(root / "pipe")
    os.utime(root / "a.txt", (5, 1234567890))
    (root / "sub").chmod(0o750)


def facts(root):
    """Of all below: path, kind, mode, target or content."""
    found = {}
    for path in sorted(root.rglob("*")):
        mode = path.lstat().st_mode
        content = os.readlink(path) if path.is_symlink() else \
            path.read_bytes() if stat.S_ISREG(mode) else None
        found[str(path.relative_to(root))] = (mode, content)
    return found


def packs_a_tree(x):
    make_tree(x.home / "tree")
    answer = download(x, "tree")
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/x-tar"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="tree.tar"'
    with tarfile.open(fileobj=io.BytesIO(answer.body)) as archive:
        members = {member.name: member for member in archive.getmembers()}
        assert archive.extractfile("sub/deep/big").read() == \
            (x.home / "tree/sub/deep/big").read_bytes()
    assert members["."].isdir() and members["sub"].mode == 0o750 and members["pipe"].isfifo()
    assert members["a.txt"].mtime == 1234567890 and members["a.txt"].mode == 0o640
    assert members["link"].linkname == "t" * 180 and members["same"].isreg()
    with tempfile.TemporaryDirectory() as other:
        subprocess.run(["tar", "-x", "-C", other], input=answer.body, check=True)
        assert facts(pathlib.Path(other)) == facts(x.home / "tree")


def unpacks_what_it_packed(x):
    make_tree(x.home / "tree")
    upload(x, "copy/of/tree", download(x, "tree").body).check_empty()
    assert facts(x.home / "copy/of/tree") == facts(x.home / "tree")
    assert (x.home / "copy/of/tree/a.txt").stat().st_mtime == 1234567890


def unpacks_what_others_pack(x):
    make_tree(x.home / "tree")
    for form in ("v7", "gnu", "ustar", "pax"):
        names = ["."] if form in ("gnu", "pax") else ["a.txt", "sub", "none", "empty"]
        body = subprocess.run(["tar", "-c", f"--format={form}", "-C", x.home / "tree", *names],
                              capture_output=True, check=True).stdout
        target = x.home / form
        upload(x, target, body).check_empty()
        wanted = facts(x.home / "tree")
        for name, fact in facts(target).items():
            assert fact == wanted[name], (form, name)
        assert names != ["."] or facts(target) == wanted, form
        if names == ["."]:
            assert (target / "same").stat().st_nlink == 2, "hard links are"


def refuses_what_leads_out(x):
    def archive(*members):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            for name, kind, target in members:
                member = tarfile.TarInfo(name)
                member.type, member.linkname = kind, target
                tar.addfile(member, io.BytesIO(b""))
        return out.getvalue()

    file, link, hard = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
    (x.home / "secret").write_text("s")
    for members in ([("/tmp/evil", file, "")], [("../evil", file, "")],
                    [("a/../../evil", file, "")],
                    [("h", hard, "../secret")], [("h", hard, "/etc/passwd")]):
        upload(x, "out", archive(*members)).check_error(400, "INVALID_FILE")
    for target in ("..", "/tmp", "../..", "/"):
        upload(x, "out", archive(("l", link, target), ("l/evil", file, ""))).check_error(
            500, "RUNTIME_ERROR")
    upload(x, "out", archive(("l", link, ".."), ("h", hard, "l/secret"))).check_error(
        500, "RUNTIME_ERROR")
    assert not pathlib.Path("/tmp/evil").exists() and not (x.home / "evil").exists()
    assert (x.home / "secret").stat().st_nlink == 1


def explains_what_is_no_archive(x):
    for body, words in ((b"text" * 200, "not a tar"), (b"\x1f\x8b" + b"x" * 600, "compressed"),
                        (b"", "no archive"), (b"x" * 100, "half way")):
        answer = upload(x, "out", body)
        answer.check_error(400, "INVALID_FILE")
        assert words in answer.json()["message"], answer.body
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        member = tarfile.TarInfo("f")
        member.size = 5000
        tar.addfile(member, io.BytesIO(b"x" * 5000))
    upload(x, "out", whole.getvalue()[:3000]).check_error(
        400, "INVALID_FILE", "invalid archive. the archive ends half way")
    assert os.listdir(x.home / "out") == [], "no half file is left"
    x.ask("POST", "/directories/upload", b"x").check_error(400, "MISSING_QUERY")
    x.ask("GET", "/directories/download").check_error(400, "MISSING_QUERY")
    download(x, "/no/such").check_error(404, "FILE_NOT_FOUND")
    (x.home / "file").touch()
    download(x, "file").check_error(
        400, "INVALID_FILE", f"path is not a directory: {x.home}/file")
    upload(x, "file", b"").check_error(500, "RUNTIME_ERROR")


def keeps_owners_when_asked(x):
    if os.geteuid() != 0:
        raise tap.Skip("only root can give files away")
    tree = x.home / "tree"
    tree.mkdir()
    (tree / "f").write_text("1")
    os.chown(tree / "f", 12345, 2345)
    (tree / "f").chmod(0o4755)
    body = download(x, tree).body
    upload(x, "plain", body).check_empty()
    made = (x.home / "plain/f").stat()
    assert (made.st_uid, made.st_gid, made.st_mode & 0o7777) == (0, 0, 0o755)
    upload(x, "owned", body, owners="true").check_empty()
    made = (x.home / "owned/f").stat()
    assert (made.st_uid, made.st_gid, made.st_mode & 0o7777) == (12345, 2345, 0o4755)


def takes_huge_files_in_constant_memory(x):
    tree = x.home / "tree"
    tree.mkdir()
    with open(tree / "huge", "wb") as out:
        out.truncate(HUGE_BYTES)
    if SANITIZED:
        raise tap.Skip("memory and time are another matter under the sanitizers")
    before = x.rss_kib()
    source, sink = x.connect(), x.connect()
    source.request("GET", f"/directories/download?path={tree}")
    reply = source.getresponse()

    def pieces():
        total = 0
        while total < 300 * MIB and (piece := reply.read(MIB)):
            total += len(piece)
            yield piece

    header = next(pieces())
    with tarfile.open(fileobj=io.BytesIO(header), mode="r|") as archive:
        assert archive.next().isdir() and archive.next().size == HUGE_BYTES
    source.close()
    source = x.connect()
    with open(tree / "huge", "wb") as out:
        out.truncate(300 * MIB)
        out.write(b"x")
        out.seek(299 * MIB)
        out.write(os.urandom(MIB))
    source.request("GET", f"/directories/download?path={tree}")
    reply = source.getresponse()
    sink.request("POST", f"/directories/upload?path={x.home}/copy",
                 iter(lambda: reply.read(MIB), b""), encode_chunked=True,
                 headers={"Transfer-Encoding": "chunked"})
    assert sink.getresponse().status == 200
    copy = (x.home / "copy/huge").stat()
    assert copy.st_size == 300 * MIB and copy.st_blocks * 512 < 3 * MIB, "holes stay holes"
    subprocess.run(["cmp", tree / "huge", x.home / "copy/huge"], check=True)
    wait_for(lambda: x.rss_kib() < before + RSS_KIB_MAX, "little memory")


def packs_many_files(x):
    tree = x.home / "tree"
    for folder in range(20):
        (tree / str(folder)).mkdir(parents=True)
        for n in range(200):
            (tree / str(folder) / str(n)).write_bytes(b"%d" % n)
    descriptors = x.descriptors()
    body = download(x, tree).body
    upload(x, "copy", body).check_empty()
    assert facts(tree) == facts(x.home / "copy")
    client = x.connect()  # and one that leaves half way
    client.request("GET", f"/directories/download?path={tree}")
    client.getresponse().read(100)
    client.close()
    wait_for(lambda: x.descriptors() <= descriptors, "descriptors to close")


def serves_others_while_it_unpacks(x):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for n in range(180):
            tar.addfile(tarfile.TarInfo(f"f{n}"))
    with serves_others_during(x, "POST", "/directories/upload?path=many",
                              archive.getvalue()) as reply:
        assert reply.status == 200, reply.read()
    assert len(os.listdir(x.home / "many")) == 180


def breaks_off_what_it_cannot_read(x):
    if os.geteuid() != 0:
        raise tap.Skip("needs files of others")
    with Execd(PROGRAM, user=12345) as other:
        tree = other.home / "tree"
        tree.mkdir()
        tree.chmod(0o755)
        (tree / "mine").write_bytes(b"x")
        (tree / "mine").chmod(0o600)
        download(other, tree).check_error(500, "RUNTIME_ERROR")


def leaves_out_what_the_kernel_shows(x):
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        raise tap.Skip("cannot mount")
    script = (f"mkdir -p {x.home}/t/proc && mount -t proc proc {x.home}/t/proc && "
              f"exec {PROGRAM} --listen unix:{x.home}/sock -- sleep 1000")
    process = subprocess.Popen(["unshare", "-m", "sh", "-c", script], stderr=subprocess.DEVNULL)
    try:
        wait_for(Client(x.home / "sock").answers, "execd")
        body = subprocess.run(["curl", "-s", "--unix-socket", x.home / "sock",
                               f"http://x/directories/download?path={x.home}/t"],
                              capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(body)) as archive:
            assert archive.getnames() == [".", "proc"], archive.getnames()[:10]
    finally:
        process.terminate()
        process.wait()


TESTS = [
    packs_a_tree, unpacks_what_it_packed, unpacks_what_others_pack, refuses_what_leads_out,
    explains_what_is_no_archive, keeps_owners_when_asked, takes_huge_files_in_constant_memory,
    packs_many_files, serves_others_while_it_unpacks, breaks_off_what_it_cannot_read,
    leaves_out_what_the_kernel_shows,
]


if __name__ == "__main__":
    sys.exit(tap.run_tests(TESTS, lambda: Execd(PROGRAM)))
