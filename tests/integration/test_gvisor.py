"""Sandboxes behind gVisor's runsc, on the embedded runtime: their life, limits, network and end.

Usage: test_gvisor.py SERVER BROKER EXECD SANDBOXCTL RUNSC. TAP on standard output. Needs root.
"""
import http.client
import json
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from broker_process import children, comm, descendants, is_alive  # noqa: E402
from server_process import ServerProcess, wait_for, why_not  # noqa: E402
from server_use import Gateway  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:5]]
RUNSC = os.path.abspath(sys.argv[5])
# What the row of gvisor adds by itself, for a runtime whose row has no options.
PLAIN = "--ignore-cgroups --overlay2=none --file-access=shared --network=sandbox"
CONFIG = {
    "embedded.images": {"python:*": "host"},
    "embedded.runtimes": {"gvisor": RUNSC, "kata": f"{RUNSC} {PLAIN}",
                          "firecracker": f"{RUNSC} {PLAIN}", "native": ""},
}
SERVER = None


def ask(method, path, body=None):
    status, _, reply = SERVER.request(method, path, body)
    return status, reply


def create(runtime="gvisor", **fields):
    body = {"image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"], "timeout": 600,
            "resourceLimits": {"memory": "1Gi", "cpu": "2"},
            "extensions": {"runtime": runtime}, **fields}
    status, reply = ask("POST", "/v1/sandboxes", body)
    assert status == 202, (status, reply)
    SERVER.wait_state(reply["id"], "Running")
    return reply["id"]


def remove(sandbox_id):
    status, reply = ask("DELETE", f"/v1/sandboxes/{sandbox_id}")
    assert status == 204, (status, reply)


def run(sandbox_id, line):
    with Gateway(SERVER, sandbox_id) as gateway:
        return gateway.run(line)


def parts():
    """Guards below the server, and all of their processes."""
    guards = [pid for pid in descendants(SERVER.pid)
              if any(comm(child) == "program" for child in children(pid))]
    return [pid for guard in guards for pid in (guard, *descendants(guard))]


def test_runs_on_another_kernel():
    box = create()
    inside = run(box, "dmesg 2>/dev/null | head -1; cat /proc/version")
    assert "gVisor" in inside or "#1 SMP Sun Jan 10" in inside, inside
    assert os.uname().release not in run(box, "uname -r"), "it is the host's kernel"
    remove(box)


def test_commands_and_files():
    box = create(env={"GREETING": "hello"})
    assert run(box, "echo $GREETING; id -u; pwd") == "hello\n0\n/"
    with Gateway(SERVER, box) as gateway:
        gateway.upload("/srv/in.txt", b"across two kernels")
        assert gateway.ask("GET", "/files/download?path=/srv/in.txt") == b"across two kernels"
        assert gateway.run("cat /srv/in.txt") == "across two kernels"
        big = os.urandom(8 << 20)
        gateway.upload("/srv/big", big)
        assert gateway.ask("GET", "/files/download?path=/srv/big") == big
    assert run(box, "hostname") == "sandbox-" + box[:8]
    remove(box)


def test_every_kind_of_answer_crosses():
    """A stream that goes on, input, a terminal's web socket, a server inside."""
    box = create()
    with Gateway(SERVER, box) as gateway:
        reply = gateway.start("for i in 1 2 3; do echo $i; done; seq 100000 | tail -1")
        assert gateway.printed(reply) == "1\n2\n3\n100000"
        run(box, "cd /srv; echo page > index.html; python3 -m http.server 8000 >/dev/null 2>&1 &")
        with Gateway(SERVER, box, 8000) as web:
            wait_for(lambda: web.call("GET", "/index.html")[0] == 200, "the web server inside")
            assert web.ask("GET", "/index.html") == b"page\n"
    remove(box)


def test_network_and_addresses_are_the_slots():
    box = create()
    inside = run(box, "cat /etc/hosts; cat /proc/net/route | wc -l; hostname -I 2>/dev/null")
    address = [line.split()[0] for line in inside.split("\n") if "sandbox-" in line][0]
    assert int(inside.split("\n")[3]) >= 2, inside
    # The host must stay closed, as for any sandbox: the rules lie outside.
    gateway = ".".join(address.split(".")[:3]) + ".1"
    probe = ("import socket; s = socket.socket(); s.settimeout(3)\n"
             f"print(s.connect_ex(('{gateway}', 22)) != 0)")
    assert run(box, f"python3 -c \"{probe}\"") == "True"
    neighbour = create("native")
    run(neighbour, "cd / && (python3 -m http.server 8000 >/dev/null 2>&1 &)")
    there = run(neighbour, "cat /etc/hosts").split("\n")[2].split()[0]
    probe = probe.replace(f"'{gateway}', 22", f"'{there}', 8000")
    assert run(box, f"python3 -c \"{probe}\"") == "True", "it reaches its neighbour"
    remove(neighbour)
    remove(box)


def test_pause_stops_it_and_resume_goes_on():
    box = create()
    run(box, "sh -c 'while :; do date +%s%N >> /srv/ticks; sleep 0.05; done' >/dev/null 2>&1 &")
    assert ask("POST", f"/v1/sandboxes/{box}/pause")[0] == 202
    SERVER.wait_state(box, "Paused")
    frozen = [pid for pid in parts() if state_of(pid) not in "DSTt"]
    assert not frozen, frozen
    assert ask("POST", f"/v1/sandboxes/{box}/resume")[0] == 202
    SERVER.wait_state(box, "Running")
    before = int(run(box, "wc -l < /srv/ticks"))
    wait_for(lambda: int(run(box, "wc -l < /srv/ticks")) > before, "another tick")
    remove(box)


def state_of(pid):
    text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return text.rpartition(")")[2].split()[0]


def test_an_entrypoint_that_ends_is_reported():
    box = create(entrypoint=["sh", "-c", "echo last words; sleep 1; exit 3"])
    SERVER.wait_state(box, "Failed")
    body = ask("GET", f"/v1/sandboxes/{box}")[1]
    assert "3" in body["status"]["message"], body
    status, _, log = SERVER.request("GET", f"/v1/sandboxes/{box}/diagnostics/logs")
    assert status == 200 and "last words" in str(log), (status, log)
    remove(box)


def test_term_reaches_the_entrypoint():
    script = "trap 'echo bye > /srv/bye; exit 0' TERM; while :; do sleep 0.1; done"
    box = create(entrypoint=["sh", "-c", script], persistent=True)
    assert ask("POST", f"/v1/sandboxes/{box}/stop")[0] in (200, 202, 204)
    SERVER.wait_state(box, "Paused")
    assert ask("POST", f"/v1/sandboxes/{box}/start")[0] in (200, 202)
    SERVER.wait_state(box, "Running")
    assert "gVisor" in run(box, "dmesg | head -1"), "it runs on another runtime now"
    remove(box)


def test_memory_that_is_over_the_limit_ends_it():
    box = create(resourceLimits={"memory": "256Mi", "cpu": "1"})
    line = "python3 -c 'x = bytearray(1 << 30); print(len(x))'"
    with Gateway(SERVER, box) as gateway:
        try:
            gateway.run(line)
            raise RuntimeError("1 GiB fits into 256 MiB")
        except (AssertionError, OSError, http.client.HTTPException):
            pass
    end_of(box)
    remove(box)


def end_of(box):
    """The status of a sandbox that has ended by itself."""
    found = {}

    def look():
        found.update(ask("GET", f"/v1/sandboxes/{box}")[1]["status"])
        return found["state"] in ("Failed", "Terminated")
    wait_for(look, "the end of the sandbox")
    return found


def test_snapshots_of_files_go_both_ways():
    box = create()
    run(box, "echo kept > /srv/kept; rm /etc/hostname; mkdir /srv/d; ln -s x /srv/d/l; sync")
    status, made = ask("POST", f"/v1/sandboxes/{box}/snapshots", {})
    assert status == 202, made
    wait_for(lambda: ask("GET", f"/v1/snapshots/{made['id']}")[1]["status"]["state"] == "Ready",
             "the snapshot")
    for runtime in ("gvisor", "native"):
        status, copy = ask("POST", "/v1/sandboxes", {
            "snapshotId": made["id"], "resourceLimits": {"memory": "512Mi"}, "timeout": 600,
            "extensions": {"runtime": runtime}})
        assert status == 202, copy
        SERVER.wait_state(copy["id"], "Running")
        assert run(copy["id"], "cat /srv/kept; readlink /srv/d/l") == "kept\nx", runtime
        remove(copy["id"])
    remove(box)
    assert ask("DELETE", f"/v1/snapshots/{made['id']}")[0] == 204


def test_volumes_are_shared_with_the_host():
    volume = {"name": "v", "mountPath": "/data/v", "pvc": {"claimName": "claim",
                                                           "createIfNotExists": True}}
    box, other = create(volumes=[volume]), create("native", volumes=[volume])
    run(box, "echo from gvisor > /data/v/f")
    assert run(other, "cat /data/v/f") == "from gvisor"
    run(other, "echo from linux > /data/v/f")
    assert run(box, "cat /data/v/f") == "from linux"
    remove(box)
    remove(other)


def snapshot(box, **fields):
    """A snapshot that has settled."""
    status, made = ask("POST", f"/v1/sandboxes/{box}/snapshots", fields)
    assert status == 202, (status, made)
    found = {}

    def look():
        found.update(ask("GET", f"/v1/snapshots/{made['id']}")[1])
        return found["status"]["state"] != "Creating"
    wait_for(look, "the end of a snapshot")
    return found


def cell(box, context, code):
    """What a cell printed."""
    with Gateway(SERVER, box) as gateway:
        reply = gateway.send("POST", "/code", json.dumps({"context": context, "code": code}))
        return gateway.printed(reply).strip()


def busy_box():
    """One with a context that has a variable, and a process that counts into a file."""
    box = create()
    with Gateway(SERVER, box) as gateway:
        context = json.loads(gateway.ask("POST", "/code/context",
                                         json.dumps({"language": "python"})))
    assert cell(box, context, "x = 41; print(x)") == "41"
    run(box, ": > /srv/count; sh -c "
             "'i=0; while :; do i=$((i+1)); echo $i >> /srv/count; sleep 0.02; done' "
             ">/dev/null 2>&1 &")
    wait_for(lambda: int(run(box, "wc -l < /srv/count")) > 5, "the count")
    return box, context


def counted(box):
    """How far it counted: each number once, so neither memory nor files went back alone."""
    numbers = [int(line) for line in run(box, "cat /srv/count").split()]
    assert numbers == list(range(1, len(numbers) + 1)), numbers
    return len(numbers)


def test_memory_goes_on_in_each_restored_sandbox():
    box, context = busy_box()
    at_least = counted(box)
    made = snapshot(box, memory=True, name="with memory")
    assert made["status"]["state"] == "Ready", made
    before = counted(box)
    wait_for(lambda: counted(box) > before, "the source to go on")
    assert cell(box, context, "print(x)") == "41"
    remove(box)
    copies = []
    for _ in range(3):
        status, copy = ask("POST", "/v1/sandboxes", {
            "snapshotId": made["id"], "resourceLimits": {"memory": "1Gi"}, "timeout": 600})
        assert status == 202, copy
        SERVER.wait_state(copy["id"], "Running")
        copies.append(copy["id"])
    for step, copy in enumerate(copies):
        assert run(copy, "hostname") == "sandbox-" + copy[:8]
        assert cell(copy, context, f"x += {step}; print(x)") == str(41 + step)
        first = counted(copy)
        assert first >= at_least, (first, at_least)
        wait_for(lambda c=copy, n=first: counted(c) > n, "a copy to go on")
    for step, copy in enumerate(copies):
        assert cell(copy, context, "print(x)") == str(41 + step), "they are not apart"
    addresses = {run(copy, "grep sandbox- /etc/hosts").split()[0] for copy in copies}
    seeds = {run(copy, "head -c 8 /dev/urandom | od -An -tx1") for copy in copies}
    assert len(addresses) == len(seeds) == 3, (addresses, seeds)
    SERVER.restart()  # restored ones are adopted like others, and the memory stays
    for copy in copies:
        SERVER.wait_state(copy, "Running")
        assert cell(copy, context, "print(x > 40)") == "True"
        remove(copy)
    assert ask("DELETE", f"/v1/snapshots/{made['id']}")[0] == 204


def test_a_fork_takes_memory_along():
    box, context = busy_box()
    status, forked = ask("POST", f"/v1/sandboxes/{box}/fork", {"count": 2, "memory": True})
    assert status == 202, (status, forked)
    for copy in forked["items"]:
        SERVER.wait_state(copy["id"], "Running")
        assert cell(copy["id"], context, "x += 1; print(x)") == "42"
        remove(copy["id"])
    remove(box)


def test_memory_of_a_kernel_that_cannot_save_it_is_refused():
    box = create("native")
    made = snapshot(box, memory=True)
    assert made["status"]["state"] == "Failed", made
    assert "gvisor can" in made["status"]["message"], made
    remove(box)
    assert ask("DELETE", f"/v1/snapshots/{made['id']}")[0] == 204


def test_names_of_other_kinds_run_the_same_way():
    for runtime in ("kata", "firecracker"):
        box = create(runtime)
        assert "gVisor" in run(box, "dmesg | head -1"), runtime
        remove(box)


def test_what_is_not_allowed_is_refused():
    for runtime in ("runc", "GVISOR", "x" * 100, "../sh"):
        status, reply = ask("POST", "/v1/sandboxes", {
            "image": {"uri": "host"}, "entrypoint": ["true"], "resourceLimits": {},
            "extensions": {"runtime": runtime}})
        assert status == 400 and "gvisor, kata, firecracker, native" in reply["message"], reply


def test_a_restart_of_the_server_finds_it_again():
    box = create()
    run(box, "echo before > /srv/f")
    SERVER.restart()
    SERVER.wait_state(box, "Running")
    assert run(box, "cat /srv/f") == "before"
    SERVER.kill9()
    SERVER.start()
    SERVER.wait_state(box, "Running")
    assert run(box, "cat /srv/f") == "before"
    remove(box)


def test_kill_of_any_part_leaves_nothing():
    """The guard, the runtime, gVisor's own processes: each takes all along."""
    for which in range(3):
        box = create()
        pids = parts()
        assert len(pids) >= 3, pids
        os.kill(pids[which], signal.SIGKILL)
        end_of(box)
        wait_for(lambda left=pids: not any(map(is_alive, left)), "the end of its processes")
        remove(box)


TESTS = [value for name, value in list(globals().items()) if name.startswith("test_")]


def main():
    global SERVER
    tap.skip_all(why_not())
    report = tap.Tap()
    with ServerProcess(*PROGRAMS, config=CONFIG) as SERVER:
        for test in TESTS:
            report.check(test.__name__, test)
        if report.failed:
            print("# " + SERVER.log()[-8000:].replace("\n", "\n# "))
    return report.end()


sys.exit(main())
