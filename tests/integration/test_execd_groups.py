"""The control groups of the processes that execd starts, inside real sandboxes.

Usage: test_execd_groups.py BROKER EXECD SANDBOXCTL. TAP on standard output. Needs root.
"""
import contextlib
import json
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
DESCRIPTORS = 20  # more than execd has at rest
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


def heard(box, path, body):
    """All that comes back, whatever it is."""
    with Stream(box.connect(), path, body) as stream:
        if stream.headers.get("transfer-encoding") != "chunked":
            return stream.file.read(int(stream.headers["content-length"])).decode()
        return json.dumps(list(stream.events()))


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


def where(folder):
    """Which directory it is, and in which mount."""
    info = pathlib.Path(f"/proc/self/fdinfo/{folder}").read_text(encoding="ascii")
    st = os.stat(folder)
    return [line for line in info.splitlines() if line.startswith("mnt_id")], st.st_dev, st.st_ino


def has_no_directory_with_a_way_up():
    with sandbox() as box:
        box.run("true")
        pid = BROKER.sandbox("box").pid
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                folder = os.open(f"/proc/{pid}/fd/{name}", os.O_PATH | os.O_DIRECTORY)
            except (FileNotFoundError, NotADirectoryError):
                continue
            above = os.open("..", os.O_PATH | os.O_DIRECTORY, dir_fd=folder)
            assert where(above) == where(folder), os.readlink(f"/proc/{pid}/fd/{name}")
            os.close(above)
            os.close(folder)


def in_a_command(box, cwd, look):
    return heard(box, "/command", {"command": look, "cwd": cwd})


def in_a_session(box, cwd, look):
    made = box.ask("POST", "/session", {"cwd": cwd})
    if made.status >= 300:
        return made.body.decode()
    session = made.json()["session_id"]
    try:
        return heard(box, f"/session/{session}/run", {"command": look})
    finally:
        box.ask("DELETE", f"/session/{session}")


def in_an_isolated_session(box, cwd, look):
    made = box.ask("POST", ISOLATED, {"isolation": {"workspace": {"path": cwd}}})
    if made.status >= 300:
        return made.body.decode()
    session = made.json()["session_id"]
    try:
        return heard(box, f"{ISOLATED}/{session}/run", {"code": look})
    finally:
        box.ask("DELETE", f"{ISOLATED}/{session}")


def in_the_background_of_one(box, cwd, look):
    made = box.ask("POST", ISOLATED, {"isolation": {"workspace": {"path": "/srv"}}}).json()
    session = f"{ISOLATED}/{made['session_id']}"
    try:
        ran = box.ask("POST", f"{session}/run", {"code": look, "cwd": cwd, "background": True})
        if ran.status >= 300:
            return ran.body.decode()
        run = f"{session}/runs/{ran.json()['run_id']}"
        wait_for(lambda: not box.get(run).json()["running"], "its end")
        return box.get(f"{run}/logs").body.decode()
    finally:
        box.ask("DELETE", session)


def in_code(box, cwd, look):
    made = box.ask("POST", "/code/context", {"language": "bash", "cwd": cwd})
    if made.status >= 300:
        return made.body.decode()
    context = made.json()["id"]
    try:
        return heard(box, "/code", {"code": look, "context": {"id": context, "language": "bash"}})
    finally:
        box.ask("DELETE", f"/code/contexts/{context}")


def on_a_terminal(box, cwd, _look):
    """Whether there would be one."""
    made = box.ask("POST", "/pty", {"cwd": cwd})
    if made.status >= 300:
        return made.body.decode()
    box.ask("DELETE", f"/pty/{made.json()['session_id']}")
    return "entered"


PLACES = [in_a_command, in_a_session, in_an_isolated_session, in_the_background_of_one, in_code,
          on_a_terminal]


def ways_to(box, number):
    """What would be a directory of execd's descriptors: by name, and by a link."""
    for name in (f"/proc/self/fd/{number}", f"/proc/1/fd/{number}"):
        link = "/root/way" + name.replace("/", "-")
        box.run(f"ln -s {name} {link}")
        yield from (name, link)


def enters_none_of_its_descriptors():
    """They are of the host: a directory among them could lead up to its root."""
    secret = BROKER.folder / "secret"
    secret.write_text("of the host\n", encoding="ascii")
    look = f"echo en''tered; cat {'../' * 20}{secret}"
    with sandbox() as box:
        for place in PLACES:
            assert "entered" in place(box, "/srv", look), place
        for number in range(DESCRIPTORS):
            for cwd in ways_to(box, number):
                for place in PLACES:
                    found = place(box, cwd, look)
                    assert "of the host" not in found, (place, cwd, found)
                    assert "entered" not in found, (place, cwd, found)


def finds_no_file_of_the_host_by_its_descriptors():
    secret = BROKER.folder / "secret"
    secret.write_text("of the host\n", encoding="ascii")
    with sandbox() as box:
        for number in range(DESCRIPTORS):
            for way in ways_to(box, number):
                above = f"{way}/{'../' * 20}{BROKER.folder}"
                box.run(f"ln -sfn {above}/secret /root/file; ln -sfn {above} /root/folder")
                for path in ("/files/download?path=/root/file", "/files/info?path=/root/file",
                             "/directories/list?path=/root/folder",
                             "/files/search?path=/root/folder&pattern=*"):
                    found = box.get(path)
                    assert found.status >= 400 or b"secret" not in found.body, (path, way, found)
                    assert b"of the host" not in found.body, (path, way, found)


TESTS = [
    starts_everything_where_the_limits_are,
    starts_everything_there_also_without_clone3,
    starts_a_command_though_there_is_no_room_for_another,
    has_no_directory_with_a_way_up,
    enters_none_of_its_descriptors,
    finds_no_file_of_the_host_by_its_descriptors,
]


if __name__ == "__main__":
    tap.skip_all(why_not())
    with Broker(*PROGRAMS) as BROKER:
        sys.exit(tap.run_tests(TESTS))
