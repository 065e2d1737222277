"""execd --files-root: every route of files, and every way out of a directory.

Usage: test_execd_files_root.py EXECD-PROGRAM. TAP on standard output.
"""
import ctypes
import io
import json
import os
import pathlib
import sys
import tarfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from execd_listen import Execd  # noqa: E402

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
BOUNDARY = "b0undary"
AT_FDCWD, RENAME_EXCHANGE = -100, 2


def upload(x, path, content):
    parts = ""
    for name, text in (("metadata", json.dumps({"path": str(path)})), ("file", content)):
        parts += (f"--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"; "
                  f"filename=\"{name}\"\r\n\r\n{text}\r\n")
    return x.ask("POST", "/files/upload", (parts + f"--{BOUNDARY}--\r\n").encode(),
                 headers={"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"})


def prepare(x):
    """What lies outside, and the ways there."""
    outside = x.folder / "outside"
    (outside / "dir").mkdir(parents=True)
    (outside / "dir" / "file").write_text("secret")
    root = x.home
    (root / "abs").symlink_to(outside / "dir")
    (root / "rel").symlink_to("../outside/dir")
    (root / "file").symlink_to("../outside/dir/file")
    (root / "self").symlink_to(".")
    return outside / "dir"


def ways_out(x, outside):
    """Paths that lead to the file outside."""
    return [outside / "file", x.home / "abs/file", x.home / "rel/file", x.home / "file",
            x.home / "self/self/rel/file", f"{x.home}/../outside/dir/file", "../outside/dir/file"]


def works_inside(x):
    prepare(x)
    upload(x, x.home / "a/b/c", "hello").check_empty()
    upload(x, "~/d", "relative").check_empty()
    assert (x.home / "a/b/c").read_text() == "hello" and (x.home / "d").read_text() == "relative"
    assert x.ask("GET", "/files/download", query=[("path", x.home / "self/a/b/c")]).body == b"hello"
    x.ask("POST", "/files/permissions", {str(x.home / "a/b/c"): {"mode": 600}}).check_empty()
    assert (x.home / "a/b/c").stat().st_mode & 0o777 == 0o600
    x.ask("POST", "/files/mv", [{"src": "a/b/c", "dest": "e/f"}]).check_empty()
    x.ask("POST", "/files/replace", {"e/f": {"old": "hello", "new": "bye"}}).check_empty()
    assert (x.home / "e/f").read_text() == "bye"
    assert len(x.ask("GET", "/files/search", query=[("path", x.home)]).json()) == 6
    assert x.ask("GET", "/directories/list", query=[("path", x.home)]).status == 200
    x.ask("POST", "/directories", {str(x.home / "g/h"): {}}).check_empty()
    assert x.ask("GET", "/directories/download", query=[("path", x.home)]).status == 200
    x.ask("DELETE", "/directories", query=[("path", x.home / "g")]).check_empty()
    x.ask("DELETE", "/files", query=[("path", x.home / "e/f")]).check_empty()
    infos = x.ask("GET", "/files/info", query=[("path", x.home), ("path", x.home / "file")]).json()
    assert [info["type"] for info in infos.values()] == ["directory", "symlink"]


def leads_nowhere_else(x):
    outside = prepare(x)
    before = os.stat(outside / "file")
    for path in ways_out(x, outside):
        link_itself = path == x.home / "file"
        assert x.ask("GET", "/files/download", query=[("path", path)]).status == 500, path
        assert x.ask("GET", "/files/download", query=[("path", path), ("limit", "1")]).status == 500
        if not link_itself:
            assert x.ask("GET", "/files/info", query=[("path", path)]).status == 500, path
            assert x.ask("DELETE", "/files", query=[("path", path)]).status == 500, path
            x.ask("POST", "/files/mv", [{"src": str(path), "dest": "got"}]).check_error(
                500, "RUNTIME_ERROR")
            (x.home / "mine").touch()
            x.ask("POST", "/files/mv", [{"src": "mine", "dest": str(path) + "2"}]).check_error(
                500, "RUNTIME_ERROR")
            assert x.ask("GET", "/files/search", query=[("path", path)]).status == 500
        upload(x, path, "evil").check_error(500, "RUNTIME_ERROR")
        x.ask("POST", "/files/permissions", {str(path): {"mode": 777}}).check_error(
            500, "RUNTIME_ERROR")
        x.ask("POST", "/files/replace", {str(path): {"old": "secret", "new": "x"}}).check_error(
            500, "RUNTIME_ERROR")
    after = os.stat(outside / "file")
    assert (outside / "file").read_text() == "secret" and before.st_mode == after.st_mode
    assert os.listdir(outside) == ["file"], os.listdir(outside)


def keeps_directories_in_too(x):
    outside = prepare(x)
    for path in (outside, x.home / "abs/sub", x.home / "rel/sub", f"{x.home}/../outside/new"):
        x.ask("POST", "/directories", {str(path) + "/new": {}}).check_error(500, "RUNTIME_ERROR")
        for route in ("list", "download", "watch"):
            assert x.ask("GET", f"/directories/{route}", query=[("path", path)]).status == 500
        body = io.BytesIO()
        with tarfile.open(fileobj=body, mode="w") as archive:
            archive.addfile(tarfile.TarInfo("evil"))
        assert x.ask("POST", "/directories/upload", body.getvalue(),
                     query=[("path", path)]).status == 500
        x.ask("DELETE", "/directories", query=[("path", path)])
    x.ask("DELETE", "/directories", query=[("path", x.home)]).check_error(500, "RUNTIME_ERROR")
    x.ask("DELETE", "/directories", query=[("path", x.home / "rel")]).check_empty()
    assert not (x.home / "rel").is_symlink() and os.listdir(outside) == ["file"]
    assert len(os.listdir(outside.parent)) == 1


def withstands_links_that_change(x):
    """A directory and a link to the outside that change places, while files are written there."""
    outside = prepare(x)
    (x.home / "real").mkdir()
    (x.home / "way").symlink_to(outside)
    stop = threading.Event()

    def swap():
        here, there = os.fsencode(x.home / "real"), os.fsencode(x.home / "way")
        libc = ctypes.CDLL(None)
        while not stop.is_set():
            assert libc.renameat2(AT_FDCWD, here, AT_FDCWD, there, RENAME_EXCHANGE) == 0

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for n in range(300):
            upload(x, x.home / "real/file", "evil")
            assert b"secret" not in x.ask("GET", "/files/download",
                                          query=[("path", x.home / "real/file")]).body
            x.ask("POST", "/files/permissions", {str(x.home / "real/file"): {"mode": 777}})
            x.ask("DELETE", "/files", query=[("path", x.home / "real/file")])
    finally:
        stop.set()
        thread.join()
    assert (outside / "file").read_text() == "secret"
    assert (outside / "file").stat().st_mode & 0o777 != 0o777


TESTS = [works_inside, leads_nowhere_else, keeps_directories_in_too, withstands_links_that_change]


if __name__ == "__main__":
    sys.exit(tap.run_tests(TESTS, lambda: Execd(PROGRAM, options=["--files-root", "{home}"])))
