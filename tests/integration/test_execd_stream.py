"""A storm of commands: random output, timing and binary bytes, kills, timeouts, standard input,
clients that stall, leave and come back.

Usage: test_execd_stream.py EXECD BLURT [COMMANDS]. TAP on standard output; SEED repeats a storm.
Every stream must end with one true terminal event, and both the stream and the raw logs must say
what the command itself wrote to a file: no byte lost or reordered.
"""
import codecs
import collections
import concurrent.futures
import itertools
import os
import pathlib
import random
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from execd_client import Execd, Ran, check_order  # noqa: E402
from execd_process import children, status_of, wait_for  # noqa: E402

PROGRAM, BLURT = (os.path.abspath(name) for name in sys.argv[1:3])
COMMANDS = int(sys.argv[3]) if len(sys.argv) > 3 else 500
AT_ONCE = 8
AT_MOST = 50  # until all of them are through, as the logs of so many are kept at least
RSS_KIB_MAX = 2048
LOGS_MAX = 200  # descriptors of ended commands
ELF = pathlib.Path(PROGRAM).read_bytes()
MEASURABLE = b"__asan_init" not in ELF and b"ld-linux" not in ELF
SEED = int(os.environ.get("SEED", time.time_ns()))


def replace_byte(error):
    return "\ufffd", error.start + 1


codecs.register_error("each", replace_byte)


def lines_of(data):
    """What the stream says of these bytes: ends of lines as LF, each bad byte as U+FFFD."""
    text = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").decode("utf-8", "each")
    return text[:-1] if text.endswith("\n") else text


def expect_same(what, got, want):
    if got != want:
        pairs = enumerate(itertools.zip_longest(got, want))
        at = next(i for i, (a, b) in pairs if a != b)
        raise AssertionError(f"{what} differs at {at} of {len(got)} and {len(want)}: "
                             f"{got[max(0, at - 5):at + 30]!r} {want[max(0, at - 5):at + 30]!r}")


class Storm:
    """The commands of one run, and what became of them."""

    def __init__(self, execd):
        self.execd, self.counts, self.bytes = execd, collections.Counter(), 0
        self.folder = execd.folder / "files"
        self.folder.mkdir()

    def one(self, number):
        """One command of a random kind."""
        chance = random.Random(SEED + number)
        kind = chance.choices((self.follow, self.leave, self.interrupt, self.time_out,
                               self.background, self.feed), (55, 15, 10, 7, 8, 5))[0]
        try:
            kind(chance, Files(self.folder, SEED + number))
        except Exception as failure:
            raise AssertionError(f"command {number}, {kind.__name__}: {failure}") from failure
        self.counts[kind.__name__] += 1

    # --- kinds ---

    def follow(self, chance, files):
        """Reads all of it, with pauses at times."""
        end = chance.choice(("0", "0", "0", "3", "kill"))
        command = files.command(end)
        if end != "kill" and chance.random() < 0.3:  # of that a shell would tell
            command += " & wait $!"
        with self.execd.stream(command if "wait" in command else f"exec {command}") as stream:
            events = [stream.event()]
            stalls = {chance.randrange(1, 50) for _ in range(chance.choice((0, 0, 1, 3)))}
            for event in stream.events():
                events.append(event)
                if len(events) in stalls:
                    time.sleep(chance.random() * 0.3)
        ran = Ran(events[0]["text"], events)
        self.check_end(ran, -1 if end == "kill" else int(end))
        for kind, file in zip(("stdout", "stderr"), files.paths):
            expect_same(kind, ran.text(kind), lines_of(file.read_bytes()))
        self.check_logs(ran.id, files)

    def leave(self, chance, files):
        """Goes away in the middle, and asks for everything afterwards."""
        end = chance.choice(("0", "3", "kill"))
        with self.execd.stream(f"exec {files.command(end)}") as stream:
            command_id = stream.event()["text"]
            for _ in zip(range(chance.choice((0, 1, 5, 50))), stream.events()):
                pass
        status = self.execd.wait_ended(command_id)
        assert status["exit_code"] == (-1 if end == "kill" else int(end)), status
        self.check_logs(command_id, files)

    def interrupt(self, chance, files):
        """Ends it from outside, somewhere in the middle."""
        with self.execd.stream(f"exec {files.command('hang')}") as stream:
            events = [stream.event()]
            time.sleep(chance.random() * 0.2)
            assert self.execd.ask("DELETE", f"/command?id={events[0]['text']}").status == 200
            events += list(stream.events())
        ran = Ran(events[0]["text"], events)
        self.check_end(ran, -1, "signal: terminated")
        self.check_prefix(ran.id, files)

    def time_out(self, chance, files):
        limit_ms = chance.choice((1, 50, 300))
        with self.execd.stream(f"exec {files.command('hang')}", timeout=limit_ms) as stream:
            events = list(stream.events())
        ran = Ran(events[0]["text"], events)
        self.check_end(ran, -1, f"timeout after {limit_ms}ms: signal: killed")
        self.check_prefix(ran.id, files)

    def background(self, chance, files):
        """Reads the log by cursor while it grows."""
        files.paths = files.paths[:1] * 2  # one pipe, so one order
        ran = self.execd.run(f"exec {files.command('5')}", background=True)
        data, cursor, running = b"", 0, True
        while running:
            time.sleep(chance.random() * 0.05)
            running = self.execd.status(ran.id)["running"]
            piece, cursor = self.execd.logs(ran.id, cursor)
            data += piece
            assert cursor == len(data), (cursor, len(data))
        assert self.execd.status(ran.id)["exit_code"] == 5
        expect_same("log", data, files.paths[0].read_bytes())
        self.bytes += len(data)

    def feed(self, chance, files):
        """Sends random bytes to standard input, in pieces."""
        pieces = [chance.randbytes(chance.choice((0, 1, 1000, 100000))) for _ in range(3)]
        with self.execd.stream("exec cat", stdin_open=True) as stream:
            events = [stream.event()]
            command_id = events[0]["text"]
            reads = threading.Thread(target=lambda: events.extend(stream.events()))
            if chance.random() < 0.5:
                reads.start()
            else:
                stream.client.shutdown(socket.SHUT_RDWR)  # it left
            for at, piece in enumerate(pieces):
                last = "?eof=true" if at + 1 == len(pieces) else ""
                reply = self.execd.ask("POST", f"/command/{command_id}/stdin{last}", piece)
                assert reply.status == 200, reply
            if reads.ident:
                reads.join()
                check_order(events)
        assert self.execd.wait_ended(command_id)["exit_code"] == 0
        files.paths[0].write_bytes(b"".join(pieces))
        files.paths[1].write_bytes(b"")
        self.check_logs(command_id, files)

    # --- checks ---

    def check_end(self, ran, exit_code, why=None):
        check_order(ran.events)
        status = self.execd.status(ran.id)
        assert not status["running"] and status["exit_code"] == exit_code, (status, exit_code)
        assert ran.exit_code == exit_code, (ran.last, exit_code)
        if why:
            assert ran.last["error"]["traceback"] == [why] and status["error"] == why, ran.last

    def logs_of(self, command_id):
        for stream in ("stdout", "stderr"):
            data, cursor = self.execd.logs(command_id, f"0&stream={stream}")
            assert cursor == len(data), (cursor, len(data))
            self.bytes += len(data)
            yield stream, data

    def check_logs(self, command_id, files):
        for (stream, data), file in zip(self.logs_of(command_id), files.paths):
            expect_same(f"log of {stream}", data, file.read_bytes())

    def check_prefix(self, command_id, files):
        """Of one that was killed: its last write may not have reached its file."""
        for (stream, data), file in zip(self.logs_of(command_id), files.paths):
            want = file.read_bytes() if file.exists() else b""
            expect_same(f"log of {stream}", data[:len(want)], want)


class Files:
    """Where one command writes what it prints."""

    def __init__(self, folder, seed):
        self.seed, self.paths = seed, [folder / f"{seed}.{i}" for i in (1, 2)]

    def command(self, end):
        return f"{BLURT} {self.seed} {self.paths[0]} {self.paths[1]} {end}"


def resident_kib(execd):
    return int(status_of(execd.process.pid, "VmRSS").split()[0])


def loses_nothing_in_a_storm():
    print(f"# SEED={SEED}", flush=True)
    with Execd(PROGRAM) as execd:
        assert execd.get("/ping").status == 200  # it is up, and not only listening
        before = len(os.listdir(f"/proc/{execd.process.pid}/fd"))
        storm = Storm(execd)
        begin = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for first in range(0, COMMANDS, AT_MOST):
                list(pool.map(storm.one, range(first, min(first + AT_MOST, COMMANDS))))
                if first % 1000 < AT_MOST:
                    print(f"# {first} commands", flush=True)
        took = time.monotonic() - begin
        wait_for(lambda: not children(execd.process.pid), "the end of all commands")
        wait_for(lambda: len(os.listdir(f"/proc/{execd.process.pid}/fd")) <= before + LOGS_MAX,
                 "descriptors that go")
        print(f"# {COMMANDS} commands in {took:.1f} s, {storm.bytes >> 20} MiB: "
              f"{dict(storm.counts)}; {resident_kib(execd)} KiB resident after")
        if MEASURABLE:
            wait_for(lambda: resident_kib(execd) <= RSS_KIB_MAX, "little memory")


if __name__ == "__main__":
    sys.exit(tap.run_tests([loses_nothing_in_a_storm]))
