"""execd as the first process of a pid namespace: what it starts, reaps, keeps, reports and ends.

Usage: test_execd_init.py EXECD-PROGRAM. TAP on standard output. Needs the right to make a pid
namespace.
"""
import contextlib
import os
import pathlib
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from execd_process import (  # noqa: E402
    EXITED, FAILED, LOG_BYTES, LOG_DATA, LOG_MARK_BYTES, RUNNING, SECONDS_MAX, Init, children,
    is_zombie, remove_group, reserve_descriptors, status_of, until, wait_for, why_not)

PROGRAM = sys.argv[1]
ELF = pathlib.Path(PROGRAM).read_bytes()
SANITIZED = b"__asan_init" in ELF
STATIC = b"ld-linux" not in ELF
NOBODY = 65534
ORPHANS, ORPHANS_AT_ONCE = 200, 600
BIG_PIPE_BYTES = 900 << 10
FLOOD_BYTES = 20 << 20
PINGS = 1000
IDLE_RSS_KIB_MAX, IDLE_ANON_KIB_MAX = 400, 96  # most of it is the program, one copy for all
# Its blocked and ignored signals, its descriptors, its group and session: what a child may inherit.
SELF = ("grep -E '^Sig(Blk|Ign)' /proc/self/status; ls /proc/self/fd; readlink /proc/self/fd/0; "
        "cut -d' ' -f1,5,6 /proc/$$/stat")


def run(*argv, **more):
    return Init(PROGRAM, *argv, **more)


def shell(line, **more):
    return run("sh", "-c", line, **more)


def ends_with(init, status):
    got = init.wait()
    assert got == status, f"ended with {got}, not {status}: {init.process.stderr.read()}"


# --- requests ---


def answers_ping_and_knows_no_other_path():
    with run("sleep", "100") as init:
        head, body = init.get("/ping")
        assert head.startswith(b"HTTP/1.1 200 ") and body == b"", head
        assert b"content-length: 0" in head.lower(), head
        head, body = init.get("/nope")
        assert head.startswith(b"HTTP/1.1 404 ") and body == b"404 page not found", body


def refuses_a_descriptor_that_does_not_listen():
    with socket.socket(socket.AF_UNIX) as deaf, open(os.devnull, "rb") as file:
        for fd in (deaf.fileno(), file.fileno()):
            with run("sleep", "100", setup=lambda fd=fd: os.dup2(fd, 3)) as init:
                ends_with(init, 126)
                report = init.report()
                assert report.phase == FAILED and "descriptor 3" in report.message, report


def stays_when_strangers_talk_nonsense():
    with run("sleep", "100") as init:
        for nonsense in (b"\0" * 1000, b"GET\r\n\r\n", b"GET /ping HTTP/9.9\r\n\r\n",
                         b"x" * 200000, b""):
            with init.connect() as client, contextlib.suppress(ConnectionError):
                client.sendall(nonsense)
                client.shutdown(socket.SHUT_WR)
                while client.recv(65536):
                    pass
        assert init.get("/ping")[0].startswith(b"HTTP/1.1 200 ")
        assert init.report().phase == RUNNING


def answers_a_thousand_pings_beside_a_busy_entrypoint():
    with shell("while :; do :; done") as init, init.connect() as client:
        begin = time.monotonic()
        for _ in range(PINGS):
            assert init.get("/ping", client)[0].startswith(b"HTTP/1.1 200 ")
        print(f"# {PINGS / (time.monotonic() - begin):.0f} pings/s")


# --- processes ---


def reaps_what_others_leave_behind():
    orphan = "until grep -q PPid:.1$ /proc/$$/status; do sleep 0.05; done; echo adopted"
    with shell(f"for i in $(seq {ORPHANS}); do (sh -c '{orphan}' &); done; sleep 100") as init:
        wait_for(lambda: init.log().count(b"adopted\n") == ORPHANS, "all orphans, adopted")
        wait_for(lambda: len(children(init.pid())) == 1, "no child but the entrypoint")
        (entry,) = children(init.pid())
        assert not is_zombie(entry)


def reaps_more_at_once_than_it_does_in_one_turn():
    with tempfile.TemporaryDirectory() as folder:
        go = pathlib.Path(folder) / "go"
        make = f"{until(go)}; for i in $(seq {ORPHANS_AT_ONCE}); do (: &); done; sleep 100"
        with shell(make) as init:
            with init.stopped() as execd:
                go.touch()
                wait_for(lambda: sum(map(is_zombie, children(execd))) == ORPHANS_AT_ONCE,
                         "that many orphans, and their end")
            assert init.get("/ping")[0].startswith(b"HTTP/1.1 200 ")
            wait_for(lambda: len(children(execd)) == 1, "no child but the entrypoint")


def needs_no_process_to_idle():
    with run("tail", "-f", "/dev/null") as init:
        assert init.report().phase == RUNNING
        assert init.get("/ping")[0].startswith(b"HTTP/1.1 200 ")
        assert init.report().entry_pid == 0
        assert children(init.pid()) == []
        init.signal(signal.SIGTERM)
        ends_with(init, 0)
        assert init.report()[:4] == (EXITED, 0, 0, 0)


def runs_a_tail_that_is_not_quite_idle():
    with run("tail", "-f", "/dev/null", "/dev/null") as init:
        assert len(children(init.pid())) == 1
        assert init.report().entry_pid > 1


def idles_in_little_memory():
    if SANITIZED or not STATIC:
        raise tap.Skip("only the static program is made for that")
    with run("tail", "-f", "/dev/null") as init:
        init.get("/ping")

        def resident():
            return [int(status_of(init.pid(), f).split()[0]) for f in ("VmRSS", "RssAnon")]
        wait_for(lambda: resident()[0] <= IDLE_RSS_KIB_MAX, "little memory")
        wait_for(lambda: resident()[1] <= IDLE_ANON_KIB_MAX, "little memory of its own")
        rss, anon = resident()
        print(f"# idle: {rss} KiB resident, {anon} KiB of it its own")


# --- the entrypoint ---


def starts_the_entrypoint_clean():
    with shell(SELF) as init:
        ends_with(init, 0)
        words = init.log().split()
    assert words[:4] == [b"SigBlk:", b"0" * 16, b"SigIgn:", b"0" * 16], words
    assert words[4:8] == [b"0", b"1", b"2", b"3"], f"more than its standard files: {words}"
    assert words[8] == b"/dev/null", words
    assert len(words) == 12 and len(set(words[9:])) == 1, f"leads no group and session: {words}"


def gives_the_entrypoint_its_ids_directory_and_environment():
    line = ("id -u; id -g; id -G; pwd; echo $GREETING; echo opened >/dev/stderr; "
            "grep CapEff /proc/self/status")
    with shell(line, options=["--uid", "1234", "--gid", "2345", "--cwd", "/proc"],
               env={"GREETING": "hello"}, setup=lambda: os.setgroups([0, 4242])) as init:
        ends_with(init, 0)
        lines = sorted(init.log().splitlines())
    assert lines == [b"/proc", b"1234", b"2345", b"2345", b"CapEff:\t" + b"0" * 16, b"hello",
                     b"opened"], lines


def looks_the_program_up_in_the_path_of_the_sandbox():
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "our-own-program"
        script.write_text("#!/bin/sh\necho found\n", encoding="ascii")
        script.chmod(0o755)
        with run(script.name, env={"PATH": f"/nonexistent:/etc/passwd:{folder}:/usr/bin"}) as init:
            ends_with(init, 0)
            assert init.log() == b"found\n"
        with run(script.name) as init:
            ends_with(init, 127)


def says_why_the_entrypoint_cannot_run():
    cases = [
        (["no-such-program"], [], 127, "exec 'no-such-program': No such file or directory"),
        (["/etc/passwd"], [], 126, "exec '/etc/passwd': Permission denied"),
        (["true"], ["--cwd", "/proc/nowhere"], 127,
         "change directory to '/proc/nowhere': No such file or directory"),
    ]
    for argv, options, status, message in cases:
        with run(*argv, options=options) as init:
            ends_with(init, status)
            report = init.report()
            assert (report.phase, report.message) == (FAILED, message), report
            assert report.error_code > 0 and report.ended_us > 0, report


def reports_how_the_entrypoint_ended():
    cases = [("exit 0", 0, 0), ("exit 7", 7, 0), ("kill -9 $$", 0, 9), ("kill -6 $$", 0, 6)]
    for line, code, signo in cases:
        with shell(line) as init:
            ends_with(init, 128 + signo if signo else code)
            report = init.report()
            assert report.phase == EXITED, report
            assert (report.exit_code, report.exit_signal) == (code, signo), report
            assert report.entry_pid > 1
            assert 0 < report.started_us <= report.ended_us < (time.time() + 1) * 1e6, report


# --- its output ---


def keeps_what_the_entrypoint_printed():
    with shell("echo to out; echo to err >&2; exit 3") as init:
        ends_with(init, 3)
        assert sorted(init.log().splitlines()) == [b"to err", b"to out"], init.log()


def keeps_the_end_of_a_flood_in_bounded_room():
    with shell(f"head -c {FLOOD_BYTES} /dev/zero | tr '\\0' x; echo the end") as init:
        ends_with(init, 0)
        written, size = init.log_size()
        assert written == FLOOD_BYTES + len("the end\n"), written
        assert size <= LOG_DATA + LOG_BYTES + LOG_MARK_BYTES, size
        assert init.log() == b"x" * (LOG_BYTES - 8) + b"the end\n"


def keeps_what_a_pipe_held_when_its_writer_ended():
    with tempfile.TemporaryDirectory() as folder:
        go = pathlib.Path(folder) / "go"
        line = ("import fcntl, os, time; fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20)\n"
                f"while not os.path.exists('{go}'): time.sleep(0.01)\n"
                f"os.write(1, b'p' * {BIG_PIPE_BYTES})")
        with run(sys.executable, "-c", line) as init:
            with init.stopped() as execd:
                go.touch()
                (entry,) = children(execd)
                wait_for(lambda: is_zombie(entry), "the end of the writer")
            ends_with(init, 0)
            assert init.log_size()[0] == BIG_PIPE_BYTES, init.log_size()


def goes_on_when_its_log_cannot_be_written():
    def read_only():
        fd = os.open("/dev/full", os.O_RDONLY)
        os.dup2(fd, 5)

    with shell("head -c 1000000 /dev/zero; echo done", setup=read_only) as init:
        ends_with(init, 0)
        assert b"lost" in init.process.stderr.read()


# --- the end ---


def forwards_the_signal_to_all_processes():
    with tempfile.TemporaryDirectory() as folder:
        script, heard = pathlib.Path(folder) / "script", pathlib.Path(folder) / "heard"
        # The rest has a second once the entrypoint has ended, which therefore waits for the orphan.
        script.write_text(f"trap '[ $1 = orphan ] || {until(heard)}; echo $1 got it; "
                          f"touch {heard}; exit 4' TERM INT\n"
                          "echo $1 ready\nwhile :; do sleep 0.01; done\n")
        # A shell lets background processes ignore SIGINT.
        for signo, told in ((signal.SIGTERM, {b"entry got it", b"orphan got it"}),
                            (signal.SIGINT, {b"entry got it"})):
            with shell(f"(sh {script} orphan &); exec sh {script} entry",
                       options=["--grace-ms", f"{SECONDS_MAX}000"]) as init:
                init.wait_for_log(b"orphan ready")
                init.wait_for_log(b"entry ready")
                init.signal(signo)
                ends_with(init, 4)
                assert told <= set(init.log().splitlines()), init.log()
                assert init.report()[2:4] == (4, 0)


def kills_processes_that_outlive_the_grace_time():
    with shell("trap '' TERM; echo ready; while :; do sleep 0.01; done",
               options=["--grace-ms", "400"]) as init:
        init.wait_for_log(b"ready")
        begin = time.monotonic()
        init.signal(signal.SIGTERM)
        ends_with(init, 137)
        assert time.monotonic() - begin >= 0.4, time.monotonic() - begin
        assert init.report()[2:4] == (0, 9), init.report()


def ends_with_its_entrypoint_and_takes_the_rest_along():
    stubborn = "trap \"\" TERM; echo stubborn; while :; do sleep 0.05; done"
    with tempfile.TemporaryDirectory() as folder:
        go = pathlib.Path(folder) / "go"
        with shell(f"(sh -c '{stubborn}' &); {until(go)}; exit 5") as init:
            init.wait_for_log(b"stubborn")
            begin = time.monotonic()
            go.touch()
            ends_with(init, 5)
            assert time.monotonic() - begin > 0.9, "the rest has a second"
            assert init.report()[2:4] == (5, 0)


def ends_at_once_when_no_process_is_left():
    """A second for the rest would be in each of them; what the machine takes is not."""
    def seconds(*argv):
        begin = time.monotonic()
        with run(*argv) as init:
            if argv[0] == "tail":
                init.signal(signal.SIGTERM)
            ends_with(init, 0)
        return time.monotonic() - begin

    wait_for(lambda: seconds("true") < 0.9, "an end without a wait")
    wait_for(lambda: seconds("tail", "-f", "/dev/null") < 0.9, "an end without a wait")


# --- cgroups ---


@contextlib.contextmanager
def a_pids_cgroup():
    """A new cgroup of the pids controller (v1) or any (v2), and away with it."""
    for root in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"):
        folder = pathlib.Path(root) / f"execd-test-{secrets.token_hex(4)}"
        if not (pathlib.Path(root) / "cgroup.procs").exists():
            continue
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            yield folder
        finally:
            remove_group(folder)
        return
    raise tap.Skip("no cgroup can be made here")


def moves_the_entrypoint_into_the_work_cgroups_and_stays_out():
    with a_pids_cgroup() as folder, open(folder / "cgroup.procs", "wb", buffering=0) as procs:
        with run("sleep", "100", work=[procs.fileno()]) as init:
            (entry,) = children(init.pid())
            assert (folder / "cgroup.procs").read_text().split() == [str(entry)]


def reports_that_it_cannot_fork():
    with a_pids_cgroup() as folder:
        if not (folder / "pids.max").exists():
            raise tap.Skip("no pids controller")
        (folder / "pids.max").write_text("2")  # unshare and execd
        with run("true", setup=lambda: (folder / "cgroup.procs").write_text("0")) as init:
            ends_with(init, 126)
            report = init.report()
            assert report.phase == FAILED and "fork" in report.message, report


# --- without a sandbox ---


def listening_by_itself(*argv, folder, **more):
    process = subprocess.Popen(
        [PROGRAM, "--listen", "127.0.0.1:0", "--exit-file", f"{folder}/exit", "--log-file",
         f"{folder}/log", "--", *argv], stderr=subprocess.PIPE, **more)
    address = re.search(rb"address=127\.0\.0\.1:(\d+)", process.stderr.readline())
    return process, int(address[1])


def serves_as_an_ordinary_process_too():
    with tempfile.TemporaryDirectory() as folder:
        # The parent process may ignore SIGCHLD; if execd inherited that, it would lose every exit
        # status.
        process, port = listening_by_itself(
            "sh", "-c", "echo hello; sleep 100", folder=folder,
            preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        with process, socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"GET /ping HTTP/1.1\r\nHost: h\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 200 ")
            wait_for(lambda: b"hello" in (pathlib.Path(folder) / "log").read_bytes(), "output")
            process.terminate()
            assert process.wait(SECONDS_MAX) == 128 + signal.SIGTERM


def keeps_its_memory_from_others_of_its_user():
    if os.geteuid() != 0:
        raise tap.Skip("only root can become another user")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        process, _ = listening_by_itself("sleep", "100", folder=folder,
                                         preexec_fn=lambda: os.setuid(NOBODY))
        with process:
            assert os.stat(f"/proc/{process.pid}").st_uid == NOBODY
            owner = os.stat(f"/proc/{process.pid}/environ").st_uid
            process.terminate()
        assert owner == 0, f"/proc/PID/environ is of user {owner}"


def main():
    reserve_descriptors()
    tap.skip_all(why_not())
    return tap.run_tests([
        answers_ping_and_knows_no_other_path,
        refuses_a_descriptor_that_does_not_listen,
        stays_when_strangers_talk_nonsense,
        answers_a_thousand_pings_beside_a_busy_entrypoint,
        reaps_what_others_leave_behind,
        reaps_more_at_once_than_it_does_in_one_turn,
        needs_no_process_to_idle,
        runs_a_tail_that_is_not_quite_idle,
        idles_in_little_memory,
        starts_the_entrypoint_clean,
        gives_the_entrypoint_its_ids_directory_and_environment,
        looks_the_program_up_in_the_path_of_the_sandbox,
        says_why_the_entrypoint_cannot_run,
        reports_how_the_entrypoint_ended,
        keeps_what_the_entrypoint_printed,
        keeps_the_end_of_a_flood_in_bounded_room,
        keeps_what_a_pipe_held_when_its_writer_ended,
        goes_on_when_its_log_cannot_be_written,
        forwards_the_signal_to_all_processes,
        kills_processes_that_outlive_the_grace_time,
        ends_with_its_entrypoint_and_takes_the_rest_along,
        ends_at_once_when_no_process_is_left,
        moves_the_entrypoint_into_the_work_cgroups_and_stays_out,
        reports_that_it_cannot_fork,
        serves_as_an_ordinary_process_too,
        keeps_its_memory_from_others_of_its_user,
    ])


if __name__ == "__main__":
    sys.exit(main())
