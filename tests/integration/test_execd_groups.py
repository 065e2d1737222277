"""In which control groups execd starts what it starts, inside real sandboxes.

Usage: test_execd_groups.py BROKER EXECD SANDBOXCTL. TAP on standard output. Needs root.
"""
import contextlib
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from broker_process import Broker, wait_for, why_not  # noqa: E402
from execd_client import Client, Stream  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:4]]
ISOLATED = "/v1/isolated/session"
TELL = "cat /proc/self/cgroup"
BOMB = """
import os, signal
try:
    while os.fork():
        pass
except OSError:
    print("full", flush=True)
signal.pause()
"""
BROKER = None


@contextlib.contextmanager
def sandbox(*options):
    BROKER.ok("create", *options, "box", "--", "sh", "-c", f"{TELL}; exec tail -f /dev/null")
    try:
        yield Client(BROKER.state / "box.sock")
    finally:
        BROKER.ctl("remove", "box")


def output(box, path, body):
    with Stream(box.connect(), path, body) as stream:
        assert stream.status == 200, stream.file.read1()
        return "\n".join(e["text"] for e in stream.events() if e["type"] == "stdout").split()


def of_a_command(box):
    return box.run(TELL).of("stdout")


def of_one_in_the_background(box):
    ran = box.run(TELL, background=True)
    box.wait_ended(ran.id)
    return box.logs(ran.id)[0].decode().split()


def of_a_session(box):
    session = box.ask("POST", "/session").json()["session_id"]
    return output(box, f"/session/{session}/run", {"command": TELL})


def of_code(box):
    return output(box, "/code", {"code": "print(open('/proc/self/cgroup').read())",
                                 "context": {"language": "python"}})


def of_an_isolated_session(box):
    box.run("mkdir -p /srv")
    session = box.ask("POST", ISOLATED, {"isolation": {"workspace": {"path": "/srv"}}}).json()
    return output(box, f"{ISOLATED}/{session['session_id']}/run", {"code": TELL})


def starts_everything_where_the_limits_are(*options):
    with sandbox(*options) as box:
        wait_for(lambda: "/work" in BROKER.ctl("log", "box").stdout, "the entrypoint")
        wanted = BROKER.ok("log", "box").split()
        limiting = [line for line in wanted if ":memory:" in line] or wanted
        assert all(line.endswith("/work") for line in limiting), wanted
        for place in (of_a_command, of_one_in_the_background, of_a_session, of_code,
                      of_an_isolated_session):
            found = place(box)
            assert found == wanted, (place, found, wanted)


def starts_everything_there_also_without_clone3():
    starts_everything_where_the_limits_are("--env", "EXECD_CLONE3_COMPAT=1")


def starts_a_command_though_there_is_no_room_for_another():
    with sandbox("--pids", "20") as box:
        bomb = box.run(f"exec python3 -c '{BOMB}'", background=True)
        wait_for(lambda: b"full" in box.logs(bomb.id)[0], "no room")
        assert box.run("echo alive").of("stdout") == ["alive"]


TESTS = [
    starts_everything_where_the_limits_are,
    starts_everything_there_also_without_clone3,
    starts_a_command_though_there_is_no_room_for_another,
]


if __name__ == "__main__":
    tap.skip_all(why_not())
    with Broker(*PROGRAMS) as BROKER:
        sys.exit(tap.run_tests(TESTS))
