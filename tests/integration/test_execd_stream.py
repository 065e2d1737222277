"""A storm of commands: random output, timing, binary bytes, kills, stalling and vanishing clients.

Usage: test_execd_stream.py EXECD [COMMANDS]. TAP on standard output. Every stream must end with one
true terminal event, and say what the command itself wrote to a file: no byte lost or reordered.
"""
import codecs
import concurrent.futures
import itertools
import os
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from execd_client import Execd, Ran, check_order  # noqa: E402
from execd_process import status_of, wait_for  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
COMMANDS = int(sys.argv[2]) if len(sys.argv) > 2 else 200
AT_ONCE = 8
RSS_KIB_MAX = 2048
ELF = pathlib.Path(PROGRAM).read_bytes()
MEASURABLE = b"__asan_init" not in ELF and b"ld-linux" not in ELF
SEED = int(os.environ.get("SEED", time.time_ns()))

# Writes pieces to both streams, and what was taken to a file each; then ends as it is told.
WRITER = r"""
import os, random, sys, time
seed, folder, end = int(sys.argv[1]), sys.argv[2], sys.argv[3]
r = random.Random(seed)
files = [os.open(f"{folder}/{seed}.{i}", os.O_WRONLY | os.O_CREAT | os.O_APPEND) for i in (1, 2)]
alphabets = [b"abc \n", b"x", bytes(range(256)), b"\r\n", "\u20ac\u00e9\U0001f600\n".encode(),
             b"0123456789" * 9 + b"\n"]
for _ in range(r.choice((0, 1, 3, 10))):
    which, size = r.choice((0, 0, 1)), r.choice((1, 7, 100, 5000, 70000, 200000))
    alphabet = r.choice(alphabets)
    piece = bytes(r.choices(alphabet, k=min(size, 3000) if len(alphabet) == 2 else size))
    while piece:
        n = os.write(which + 1, piece)
        os.write(files[which], piece[:n])
        piece = piece[n:]
    if r.random() < 0.2:
        time.sleep(r.random() * 0.15)
if end == "kill":
    os.kill(os.getpid(), 9)
os._exit(int(end) if end.isdigit() else 0)
"""


def replace_byte(error):
    return "\ufffd", error.start + 1


codecs.register_error("each", replace_byte)


def lines_of(data):
    """What the stream says of these bytes: ends of lines as LF, each bad byte as U+FFFD."""
    text = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").decode("utf-8", "each")
    return text[:-1] if text.endswith("\n") else text


def expect_text(ran, kind, file):
    want, got = lines_of(file.read_bytes()), ran.text(kind)
    if got != want:
        pairs = enumerate(itertools.zip_longest(got, want))
        at = next(i for i, (a, b) in pairs if a != b)
        raise AssertionError(f"{kind} differs at {at} of {len(got)} and {len(want)}: "
                             f"{got[at - 5:at + 30]!r} {want[at - 5:at + 30]!r}")


def follow(stream, chance, leave_after):
    """Reads events, slowly at times. None when the client left before the end."""
    events = []
    stalls = {chance.randrange(1, 50) for _ in range(chance.choice((0, 1, 3)))}
    for event in stream.events():
        events.append(event)
        if len(events) in stalls:
            time.sleep(chance.random() * 0.3)
        if leave_after is not None and len(events) > leave_after:
            return None
    return events


class Storm:
    """The commands of one run, and what became of them."""

    def __init__(self, execd):
        self.execd, self.counts = execd, {}
        self.folder = execd.folder / "files"
        self.folder.mkdir()
        self.writer = execd.folder / "writer.py"
        self.writer.write_text(WRITER)

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    def one(self, number):
        chance = random.Random(SEED + number)
        seed = SEED + number
        end = chance.choice(("0", "0", "0", "3", "kill"))
        leave_after = chance.randrange(5) if chance.random() < 0.1 else None
        stop = chance.random() < 0.1
        command = f"exec python3 {self.writer} {seed} {self.folder} {end}"
        if end != "kill" and chance.random() < 0.3:  # of that a shell would tell
            command = command.replace("exec ", "") + " & wait $!"
        with self.execd.stream(command) as stream:
            assert stream.status == 200
            first = stream.event()
            if stop:
                time.sleep(chance.random() * 0.1)
                self.execd.ask("DELETE", f"/command?id={first['text']}")
            events = follow(stream, chance, leave_after)
        status = self.execd.wait_ended(first["text"])
        if events is None:
            self.count("left")
            return
        self.check(Ran(first["text"], [first, *events]), status, seed, end, stop)

    def check(self, ran, status, seed, end, stop):
        check_order(ran.events)
        assert ran.exit_code == status["exit_code"], (ran.last, status)
        if stop:  # what it wrote last may be in the file or in the pipe only
            self.count("stopped")
            return
        expected = -1 if end == "kill" else int(end)
        assert ran.exit_code == expected, (ran.last, end)
        expect_text(ran, "stdout", self.folder / f"{seed}.1")
        expect_text(ran, "stderr", self.folder / f"{seed}.2")
        self.count("whole")


def loses_nothing_in_a_storm():
    print(f"# SEED={SEED}")
    with Execd(PROGRAM) as execd:
        storm = Storm(execd)
        begin = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for done in [pool.submit(storm.one, n) for n in range(COMMANDS)]:
                done.result()
        took = time.monotonic() - begin
        wait_for(lambda: execd.get("/ping").status == 200, "execd")
        rss = int(status_of(execd.process.pid, "VmRSS").split()[0])
        print(f"# {COMMANDS} commands in {took:.1f} s: {storm.counts}; {rss} KiB resident after")
        assert storm.counts["whole"] > COMMANDS / 2
        if MEASURABLE:
            assert rss <= RSS_KIB_MAX, f"{rss} KiB resident"


if __name__ == "__main__":
    sys.exit(tap.run_tests([loses_nothing_in_a_storm]))
