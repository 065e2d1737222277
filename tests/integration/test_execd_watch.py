"""What execd tells of files while they change: GET /directories/watch.

Usage: test_execd_watch.py EXECD-PROGRAM. TAP on standard output.
"""
import contextlib
import json
import os
import pathlib
import signal
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from execd_client import check_ping_period  # noqa: E402
from execd_listen import Execd  # noqa: E402
from execd_process import wait_for  # noqa: E402
from execd_turns import serves_others_during, stopped  # noqa: E402

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
SANITIZED = b"__asan_init" in pathlib.Path(PROGRAM).read_bytes()


@contextlib.contextmanager
def fast_folder():
    """For thousands of files: in memory."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield pathlib.Path(folder)


class Watch:
    """with Watch(execd, path) as watch: from `init` on."""

    def __init__(self, execd, path, recursive=True):
        self.client = execd.connect()
        flag = "&recursive=true" if recursive else ""
        self.client.request("GET", f"/directories/watch?path={path}{flag}")
        self.reply = self.client.getresponse()
        assert self.reply.status == 200, self.reply.read()
        assert self.reply.headers["Content-Type"] == "text/event-stream"
        self.path = str(path)
        first = self.next()
        assert first["type"] == "init" and first["text"] == self.path, first

    def next(self):
        """The next event; None at the end."""
        line = self.reply.readline()
        if not line:
            return None
        assert line.endswith(b"\n") and self.reply.readline() == b"\n", line
        event = json.loads(line)
        assert isinstance(event["timestamp"], int), event
        return event

    def news(self, last):
        """What happens until `last`: a word, and paths below the directory."""
        found = []
        while True:
            event = self.next()
            assert event is not None, found
            if event["type"] == "ping":
                continue
            words = [event["type"], *(event[key].removeprefix(self.path + "/")
                                      for key in ("path", "from") if key in event)]
            line = " ".join(words) + ("/" if event.get("directory") else "")
            if not found or found[-1] != line:  # several writes may be one modification, or more
                found.append(line)
            if line == last:
                return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()


def reports_each_kind_of_change(x):
    tree = x.home / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "old").write_text("1")
    with Watch(x, tree) as watch:
        (tree / "sub" / "a").write_text("1")
        (tree / "sub" / "a").rename(tree / "b")
        (tree / "old").unlink()
        (tree / "b").write_text("12")
        (tree / "sub").rename(tree / "sub2")
        (tree / "sub2").rmdir()
        news = watch.news("delete sub2/")
        assert news == ["create sub/a", "modify sub/a", "move b sub/a", "delete old", "modify b",
                        "move sub2 sub/", "delete sub2/"], news


def watches_one_directory_without_recursive(x):
    (x.home / "d" / "sub").mkdir(parents=True)
    with Watch(x, x.home / "d", recursive=False) as watch:
        (x.home / "d/sub/hidden").touch()
        (x.home / "d/shown").touch()
        assert watch.news("create shown") == ["create shown"]


def loses_no_file_of_a_new_directory(x):
    tree = x.home / "tree"
    tree.mkdir()
    made = set()
    with Watch(x, tree) as watch:
        for n in range(200):
            folder = tree / f"{n}" / "x" / "y"
            os.makedirs(folder)
            for name in ("f", "g"):
                (folder / name).touch()
                made.add(f"create {n}/x/y/{name}")
        (tree / "last").touch()
        news = watch.news("create last")
        told = [line for line in news if line in made]
        # What is queued behind "last" is told after it. Pings come in any case.
        deadline = time.monotonic() + 60
        while missing := made - set(told):
            assert time.monotonic() < deadline, missing
            line = watch.next()
            word = f"create {line.get('path', '').removeprefix(str(tree) + '/')}"
            told += [word] if word in made else []
        assert len(told) == len(made), "each once"


def follows_directories_that_move_at_once(x):
    tree = x.home / "tree"
    tree.mkdir()
    with Watch(x, tree) as watch:
        for n in range(50):
            os.makedirs(tree / f"a{n}" / "in")
            (tree / f"a{n}").rename(tree / f"b{n}")
        (tree / "last").touch()
        watch.news("create last")
        for n in range(50):
            (tree / f"b{n}" / "in" / "f").touch()
        (tree / "end").touch()
        told = watch.news("create end")
        missing = [n for n in range(50) if f"create b{n}/in/f" not in told]
        while missing:
            event = watch.next()
            missing = [n for n in missing if event.get("path") != str(tree / f"b{n}/in/f")]


def news_of_a_burst(x, tree):
    """What is told of one move out of the tree and many within it. The first may wait for its other
    half yet when the others come, and the kernel tells of these so that each read ends in between
    two halves."""
    tree.mkdir()
    (tree / "a").touch()
    with Watch(x, tree) as watch:
        os.rename(tree / "a", x.folder / "a")
        assert x.ask("GET", "/ping").status == 200, "so it heard of that one"
        with stopped(x.process):
            os.close(os.open(tree / "b", os.O_CREAT | os.O_WRONLY))
            for _ in range(2000):
                os.rename(tree / "b", tree / "c")
                os.rename(tree / "c", tree / "b")
            (tree / "end").touch()
            time.sleep(0.1)  # longer than it waits for a half
        return set(watch.news("create end"))


def joins_both_halves_of_each_of_many_moves(x):
    for n in range(10):
        news = news_of_a_burst(x, x.home / f"tree{n}")
        assert news == {"delete a", "create b", "move c b", "move b c", "create end"}, news


def reports_files_moved_out_of_the_tree(x):
    tree = x.home / "tree"
    (tree / "d").mkdir(parents=True)
    with Watch(x, tree) as watch:
        (tree / "d").rename(x.home / "away")
        assert watch.news("delete d/") == ["delete d/"]
        (x.home / "away" / "f").touch()
        (x.home / "away").rename(tree / "back")
        assert watch.news("create back/f") == ["create back/", "create back/f"]


def ends_with_the_directory(x):
    (x.home / "d").mkdir()
    with Watch(x, x.home / "d") as watch:
        (x.home / "d").rmdir()
        events = []
        while (event := watch.next()) is not None:
            events.append(event)
        kinds = [event["type"] for event in events if event["type"] != "ping"]
        assert kinds == ["delete", "error"], events
        assert events[-1]["error"]["ename"] == "WatchError", events


def pings(x):
    with Watch(x, x.home) as watch:
        assert watch.next()["type"] == "ping"  # at once
        check_ping_period(watch.next)


def reports_an_overflow_of_the_kernels_queue(x):
    """A client that reads nothing for long: the kernel's queue runs over, and memory does not."""
    before = x.rss_kib()
    with fast_folder() as tree, Watch(x, tree) as watch:
        names = [tree / f"{'n' * 200}{n}" for n in range(2)]
        kept = int(pathlib.Path("/proc/sys/fs/inotify/max_queued_events").read_text())
        for _ in range(max(20000, kept)):
            for name in names:
                name.touch()
                name.unlink()
        while watch.next()["type"] != "overflow":
            pass
        (tree / "still").touch()
        watch.news("create still")
    wait_for(lambda: SANITIZED or x.rss_kib() < before + 4096, "little memory")


def forgets_clients_that_leave(x):
    assert x.ask("GET", "/ping").status == 200
    before = x.descriptors()
    for _ in range(20):
        with Watch(x, x.home):
            pass
    wait_for(lambda: x.descriptors() <= before, "descriptors to close")


def explains_what_it_cannot_watch(x):
    ask = lambda *query: x.ask("GET", "/directories/watch", query=query)  # noqa: E731
    ask().check_error(400, "MISSING_QUERY")
    ask(("path", "/no/such")).check_error(404, "FILE_NOT_FOUND")
    (x.home / "f").touch()
    ask(("path", "f")).check_error(
        400, "INVALID_REQUEST_BODY", f"path is not a directory: {x.home}/f")


def watches_so_many_and_no_more(x):
    with fast_folder() as tree:
        for n in range(9000):
            os.makedirs(tree / f"{n // 100}" / f"{n}")
        answer = x.ask("GET", "/directories/watch", query=[("path", tree), ("recursive", "true")])
    answer.check_error(500, "RUNTIME_ERROR")
    assert "more directories than can be watched" in answer.json()["message"]


def serves_others_meanwhile(x):
    with fast_folder() as tree:
        for n in range(3000):
            os.makedirs(tree / f"{n}")
        with serves_others_during(
                x, "GET", f"/directories/watch?path={tree}&recursive=true") as reply:
            assert json.loads(reply.readline())["type"] == "init"


def says_so_when_execd_ends(x):
    with Watch(x, x.home) as watch:
        os.kill(x.process.pid, signal.SIGTERM)
        events = []
        while (event := watch.next()) is not None:
            events.append(event)
        assert events[-1]["type"] == "error", events


TESTS = [
    reports_each_kind_of_change, watches_one_directory_without_recursive,
    loses_no_file_of_a_new_directory, follows_directories_that_move_at_once,
    joins_both_halves_of_each_of_many_moves, reports_files_moved_out_of_the_tree,
    ends_with_the_directory, pings, reports_an_overflow_of_the_kernels_queue,
    forgets_clients_that_leave, explains_what_it_cannot_watch, watches_so_many_and_no_more,
    serves_others_meanwhile, says_so_when_execd_ends,
]


if __name__ == "__main__":
    sys.exit(tap.run_tests(TESTS, lambda: Execd(PROGRAM)))
