"""The standard input of execd's commands: given with the request, or sent while they run.

Usage: test_execd_stdin.py EXECD. TAP on standard output.
"""
import hashlib
import os
import pathlib
import random
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from execd_client import Execd, check_order  # noqa: E402
from execd_process import status_of, wait_for  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
ELF = pathlib.Path(PROGRAM).read_bytes()
MEASURABLE = b"__asan_init" not in ELF and b"ld-linux" not in ELF
BIG_BYTES = 64 << 20
RSS_KIB_MAX = 2048
PIPE_BYTES = 65536
EXECD = None  # the one most tests share


def send(command_id, data, query=""):
    return EXECD.ask("POST", f"/command/{command_id}/stdin{query}", data)


def refused(reply):
    assert reply.headers["content-type"] == "application/json; charset=utf-8", reply
    return reply.status, reply.json()["code"], reply.json()["message"]


def first_output(stream):
    """Events up to the first of output."""
    events = [stream.event()]
    while events[-1]["type"] not in ("stdout", "stderr"):
        events.append(stream.event())
    return events


def is_empty_unless_given():
    assert EXECD.run("readlink /proc/self/fd/0").of("stdout") == ["/dev/null"]
    for more in ({"stdin": None}, {"stdin_open": None}, {"stdin_open": False}):
        assert EXECD.run("readlink /proc/self/fd/0", **more).of("stdout") == ["/dev/null"], more
    assert EXECD.run("cat; echo end", stdin="").of("stdout") == ["end"]


def is_read_and_then_ends():
    ran = EXECD.run("tr a-z A-Z", stdin="one\ntwo\n")
    assert ran.of("stdout") == ["ONE", "TWO"] and ran.exit_code == 0, ran.events
    assert EXECD.run("wc -c", stdin="a\0\u20ac").of("stdout") == ["5"]
    assert EXECD.run("wc -c", stdin="x" * 1_000_000).of("stdout") == ["1000000"]
    ran = EXECD.run("wc -c", stdin="x" * 1_000_000, background=True)
    EXECD.wait_ended(ran.id)
    assert EXECD.logs(ran.id)[0] == b"1000000\n"


def may_be_left_unread():
    assert EXECD.run("exit 3", stdin="x" * 1_000_000).exit_code == 3
    assert EXECD.run("exec <&-; sleep 0.2; echo on", stdin="x" * 1_000_000).of("stdout") == ["on"]


def stays_open_on_request():
    with EXECD.stream("while read -r x; do echo got $x; done; echo end", stdin="first\n",
                      stdin_open=True) as stream:
        events = first_output(stream)
        command_id = events[0]["text"]
        assert events[-1]["text"] == "got first", events
        for text in ("second", "third"):
            reply = send(command_id, f"{text}\n".encode())
            assert reply.status == 200 and reply.body == b"", reply
            assert first_output(stream)[-1]["text"] == f"got {text}"
        assert send(command_id, b"fourth\n", "?eof=true").status == 200
        rest = list(stream.events())
    check_order([*events, *rest])
    assert [e["text"] for e in rest if e["type"] == "stdout"] == ["got fourth", "end"], rest


def ends_without_a_body():
    with EXECD.stream("cat; echo end", stdin_open=True) as stream:
        command_id = stream.event()["text"]
        assert send(command_id, b"", "?eof=true").status == 200
        assert [e["text"] for e in stream.events() if e["type"] == "stdout"] == ["end"]


def takes_any_bytes_at_the_commands_pace():
    data = random.Random(5).randbytes(BIG_BYTES)
    with EXECD.stream("sleep 0.3; sha256sum", stdin_open=True) as stream:
        command_id = stream.event()["text"]
        with EXECD.connect() as client, client.makefile("rb") as file:
            head = (f"POST /command/{command_id}/stdin?eof=true HTTP/1.1\r\nHost: x\r\n"
                    "Transfer-Encoding: chunked\r\n\r\n")
            client.sendall(head.encode())
            for at in range(0, len(data), 1 << 20):
                piece = data[at:at + (1 << 20)]
                client.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
                if at == 0:
                    second = send(command_id, b"x")
            client.sendall(b"0\r\n\r\n")
            assert file.readline().startswith(b"HTTP/1.1 200 "), "not taken"
        sums = [e["text"] for e in stream.events() if e["type"] == "stdout"]
    assert refused(second) == (409, "STDIN_BUSY",
                               f"another request writes to command {command_id}"), second
    assert sums == [f"{hashlib.sha256(data).hexdigest()}  -"], sums
    if MEASURABLE:
        wait_for(lambda: int(status_of(EXECD.process.pid, "VmRSS").split()[0]) <= RSS_KIB_MAX,
                 "little memory")


def says_why_it_takes_nothing():
    assert refused(send("nope", b"x")) == (404, "COMMAND_NOT_FOUND", "command not found: nope")
    done = EXECD.run("true", stdin_open=True).id
    assert refused(send(done, b"x")) == (409, "STDIN_CLOSED", f"command {done} is not running")
    with EXECD.stream("sleep 100") as stream:
        command_id = stream.event()["text"]
        assert refused(send(command_id, b"x")) == (
            409, "STDIN_CLOSED", f"the standard input of command {command_id} is not open")
        EXECD.ask("DELETE", f"/command?id={command_id}")


def reports_that_the_command_reads_no_more():
    with EXECD.stream("exec <&-; echo closed; sleep 100", stdin_open=True) as stream:
        command_id = first_output(stream)[0]["text"]
        status, code, text = refused(send(command_id, b"x" * 1000))
        assert (status, code) == (409, "STDIN_CLOSED") and " 0 bytes" in text, text
        EXECD.ask("DELETE", f"/command?id={command_id}")
    # A full pipe may hold less than its size: short writes leave its pages partly filled.
    ends_when_fed = ("import fcntl, sys, termios, time\n"
                     "held = lambda: fcntl.ioctl(0, termios.FIONREAD, bytes(4))\n"
                     f"while int.from_bytes(held(), sys.byteorder) < {PIPE_BYTES // 2}:\n"
                     "    time.sleep(0.01)\n"
                     "sys.exit(4)\n")
    with EXECD.stream("exec python3 -c \"$SCRIPT\"", stdin_open=True,
                      envs={"SCRIPT": ends_when_fed}) as stream:
        command_id = stream.event()["text"]
        status, code, text = refused(send(command_id, b"x" * 1_000_000))
        taken = int(re.search(r" (\d+) bytes", text)[1])
        assert (status, code) == (409, "STDIN_CLOSED"), text
        assert PIPE_BYTES // 2 <= taken <= PIPE_BYTES, text
        assert list(stream.events())[-1]["error"]["evalue"] == "4"
    assert EXECD.get("/ping").status == 200


def lets_the_next_one_go_on():
    with EXECD.stream("cat", stdin_open=True) as stream:
        command_id = stream.event()["text"]
        with EXECD.connect() as client:
            client.sendall(f"POST /command/{command_id}/stdin HTTP/1.1\r\nHost: x\r\n"
                           "Content-Length: 100\r\n\r\none\n".encode())
            assert first_output(stream)[-1]["text"] == "one"
        wait_for(lambda: send(command_id, b"").status == 200, "the place of who left")
        assert send(command_id, b"two\n", "?eof=1").status == 200
        assert [e["text"] for e in stream.events() if e["type"] == "stdout"] == ["two"]


def is_checked_in_the_request():
    for body, word in (({"command": "cat", "stdin": 5}, "stdin"),
                       ({"command": "cat", "stdin_open": "yes"}, "stdin_open")):
        status, code, text = refused(EXECD.ask("POST", "/command", body))
        assert (status, code) == (400, "INVALID_REQUEST_BODY") and word in text, text


def bounds_the_unread_input_of_all_commands():
    """A command that does not read its input leaves it in execd's memory: 16 MiB for all."""
    text, sleepers = "x" * (3 << 20), []
    while (ran := EXECD.run("exec sleep 1000", background=True, stdin=text)) and \
            EXECD.status(ran.id)["running"] and len(sleepers) < 6:
        sleepers.append(ran.id)
    assert len(sleepers) == 5 and "memory" in EXECD.status(ran.id)["error"], sleepers
    for command_id in sleepers:
        assert EXECD.ask("DELETE", f"/command?id={command_id}").status == 200
        EXECD.wait_ended(command_id)
    assert EXECD.run("wc -c", stdin=text).of("stdout") == [str(len(text))]


def leaves_no_descriptor_behind():
    def count():
        return len(os.listdir(f"/proc/{EXECD.process.pid}/fd"))

    before = count()
    for _ in range(20):
        EXECD.run("head -c 5 >/dev/null", stdin="x" * 200_000)
        EXECD.run("true", stdin_open=True)
    wait_for(lambda: count() <= before, "the end of connections")


TESTS = [is_empty_unless_given, is_read_and_then_ends, may_be_left_unread, stays_open_on_request,
         ends_without_a_body, takes_any_bytes_at_the_commands_pace, says_why_it_takes_nothing,
         reports_that_the_command_reads_no_more, lets_the_next_one_go_on, is_checked_in_the_request,
         bounds_the_unread_input_of_all_commands, leaves_no_descriptor_behind]


if __name__ == "__main__":
    with Execd(PROGRAM) as EXECD:
        sys.exit(tap.run_tests(TESTS))
