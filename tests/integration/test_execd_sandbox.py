"""execd's API inside real sandboxes, where it is PID 1 with few rights.

Usage: test_execd_sandbox.py BROKER EXECD SANDBOXCTL. TAP on standard output. Needs root.
"""
import contextlib
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from broker_process import Broker, wait_for, why_not  # noqa: E402
from execd_client import Client, Stream  # noqa: E402
from held_bodies import hold, replace_body  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:4]]
MEMORY = "134217728"
MIB = 1 << 20
BROKER = None


@contextlib.contextmanager
def sandbox(*options, entry=("tail", "-f", "/dev/null")):
    BROKER.ok("create", *options, "box", "--", *entry)
    try:
        yield Client(BROKER.state / "box.sock")
    finally:
        BROKER.ctl("remove", "box")


def runs_commands():
    with sandbox() as box:
        ran = box.run("echo out; echo err >&2; hostname; exit 3")
        assert ran.of("stdout") == ["out", "box"] and ran.of("stderr") == ["err"], ran.events
        assert ran.exit_code == 3


def puts_commands_where_the_entrypoint_is():
    facts = "cat /proc/self/cgroup; grep -E '^(Cap(Eff|Bnd)|NoNewPrivs|Seccomp):' /proc/self/status"
    with sandbox(entry=("sh", "-c", f"{facts}; sleep 100")) as box:
        wait_for(lambda: "Seccomp:" in BROKER.ctl("log", "box").stdout, "the entrypoint")
        wanted = BROKER.ok("log", "box").split("\n")[:-1]
        assert box.run(facts).of("stdout") == wanted, (box.run(facts).of("stdout"), wanted)


def becomes_users_of_the_sandbox():
    with sandbox() as box:
        assert box.run("id -u; id -g", uid=1000, gid=1001).of("stdout") == ["1000", "1001"]
        assert box.run("id -u; id -g; id -G", uid=54321).of("stdout") == ["54321"] * 3
        ran = box.run("sleep 100", uid=1000, timeout=200)
        assert ran.last["error"]["traceback"] == ["timeout after 200ms: signal: killed"]


def serves_files_with_no_more_rights_than_a_command_has():
    facts = "grep -E '^(Cap(Prm|Eff|Bnd)|NoNewPrivs|Seccomp|Uid|Gid):' /proc/{0}/status; " \
        "cat /proc/{0}/cgroup"
    with sandbox() as box:
        for uid, gid in ((0, 0), (1000, 1001)):
            url = f"/v1/filesystem/{uid}/{gid}/files/info?path=/"
            assert box.get(url).status == 200
            pid = box.run(f"pgrep -x user-files -u {uid}").of("stdout")[0]
            wanted = box.run(facts.format("self"), uid=uid, gid=gid).of("stdout")
            assert box.run(facts.format(pid)).of("stdout") == wanted, (uid, wanted)
            for user in (0, uid):
                for file in ("mem", "environ", "fd/3"):
                    ran = box.run(f"cat /proc/{pid}/{file}", uid=user)
                    assert "ermission denied" in ran.of("stderr")[0], (user, file, ran.events)


def limits_commands_as_the_workload():
    with sandbox("--memory", MEMORY) as box:
        ran = box.run("python3 -c 'x = bytearray(400 << 20)'")
        assert ran.last["type"] == "error", ran.last
        assert box.run("echo alive").of("stdout") == ["alive"]


def says_that_the_memory_limit_ended_it():
    """Whatever was killed: the command, a child of it, the process of a context or its child."""
    eater = "python3 -c 'x = bytearray(400 << 20)'"
    told = "out of memory (limit 128 MiB)"
    with sandbox("--memory", MEMORY) as box:
        assert box.run("exit 3").last["error"]["traceback"] == ["exit status 3"]
        for command in (f"exec {eater}", f"{eater}; exit 3"):
            ran = box.run(command)
            assert ran.last["error"]["traceback"][0].endswith(told), ran.last
            assert box.status(ran.id)["error"].endswith(told), box.status(ran.id)
        assert box.run("kill -9 $$").last["error"]["traceback"] == ["signal: killed"]
        session = box.ask("POST", "/session", {}).json()["session_id"]
        for language, code in (
                (None, f"{eater} || false"), ("bash", f"{eater} || false"),
                ("python", "x = bytearray(400 << 20)"),
                ("python", f"import subprocess; subprocess.run({eater!r}, shell=True, check=True)"),
                ("python", "1 / 0")):
            path = "/code" if language else f"/session/{session}/run"
            body = {"code": code, "context": {"language": language}} if language else \
                {"command": code}
            with Stream(box.connect(), path, body) as stream:
                errors = [e["error"] for e in stream.events() if e["type"] == "error"]
            assert len(errors) == 1, (code, errors)
            if "bytearray" in code:
                assert told in errors[0]["traceback"][0], (code, errors)
            else:
                assert told not in str(errors), (code, errors)


def survives_40_held_bodies_of_16_mib():
    with sandbox("--memory", str(256 * MIB)) as box:
        assert box.run("echo a > /root/f").exit_code == 0
        body = replace_body("/root/f", 16 * MIB)
        answers = hold(box.socket_path, 40, body)
        statuses = [status for status, _, _ in answers]
        assert statuses.count(200) >= 1 and set(statuses) == {200, 503}, statuses
        for status, headers, text in answers:
            if status == 503:
                assert int(headers["retry-after"]) >= 1 and b"try again" in text, (headers, text)
        assert hold(box.socket_path, 1, body)[0][0] == 200, "memory was given back"
        assert box.run("echo alive").of("stdout") == ["alive"]


def reaps_what_commands_leave_behind():
    with sandbox() as box:
        box.run("for i in 1 2 3 4 5 6 7 8; do (sleep 0.1 &) ; done; exit 0")
        count = "cat /proc/[0-9]*/stat | grep -c ') Z '"
        wait_for(lambda: box.run(count).of("stdout") == ["0"], "no zombie")


def keeps_logs_out_of_reach():
    with sandbox() as box:
        ran = box.run("echo here; find /tmp /var/tmp -type f | wc -l; rm -rf /tmp/*",
                      background=True)
        assert box.wait_ended(ran.id)["exit_code"] == 0
        assert box.logs(ran.id)[0] == b"here\n0\n"


def measures_the_sandbox_and_not_the_host():
    with sandbox("--memory", MEMORY, "--cpu", "500") as box:
        before = box.get("/metrics").json()
        assert before["mem_total_mib"] == 128 and before["cpu_count"] == 0.5, before
        assert before["mem_used_mib"] < 64 and 0 <= before["cpu_used_pct"] <= 100, before
        burner = box.run("python3 -c 'x = bytearray(60 << 20)\nwhile True: pass'", background=True)
        wait_for(lambda: 60 < box.get("/metrics").json()["mem_used_mib"] - before["mem_used_mib"]
                 < 90, "memory in use")
        wait_for(lambda: box.get("/metrics").json()["cpu_used_pct"] > 10, "a cpu in use")
        assert box.ask("DELETE", f"/command?id={burner.id}").status == 200


def last_of_a_stream():
    """The exit code that is told of a command that exits with 9 when the sandbox ends."""
    with sandbox() as box:
        line = "trap 'echo bye; exit 9' TERM; echo ready; while :; do sleep 0.02; done"
        with box.stream(line) as s:
            events = [s.event()]
            while events[-1]["type"] != "stdout":
                events.append(s.event())
            BROKER.ctl("signal", "box", "15")
            events += list(s.events())
        return events[-1]["error"]["evalue"]


def ends_streams_before_the_sandbox_ends():
    codes = []
    while not codes or codes[-1] == "-1" and len(codes) < 5:  # killed: a second was too short
        codes.append(last_of_a_stream())
    assert codes[-1] == "9", codes


TESTS = [
    runs_commands,
    puts_commands_where_the_entrypoint_is,
    becomes_users_of_the_sandbox,
    serves_files_with_no_more_rights_than_a_command_has,
    limits_commands_as_the_workload,
    says_that_the_memory_limit_ended_it,
    survives_40_held_bodies_of_16_mib,
    reaps_what_commands_leave_behind,
    keeps_logs_out_of_reach,
    measures_the_sandbox_and_not_the_host,
    ends_streams_before_the_sandbox_ends,
]


if __name__ == "__main__":
    tap.skip_all(why_not())
    with Broker(*PROGRAMS) as BROKER:
        sys.exit(tap.run_tests(TESTS))
