"""The server's fault drill, short. tests/drill has the long one.

Usage: test_server_faults.py SERVER BROKER EXECD SANDBOXCTL FAULTY-BROKER. TAP on standard output.
Needs root.
"""
import contextlib
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import server_faults  # noqa: E402
import tap  # noqa: E402
from broker_process import comm  # noqa: E402
from fault_phases import cgroups_of  # noqa: E402
from server_process import ServerProcess, wait_for, why_not  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:5]]
FAULTY = os.path.abspath(sys.argv[5]) if len(sys.argv) > 5 else None
SEED, KILLS = 1, 25
POINTS = ("before naming", "after naming", "after limiting", "after sending the plan",
          "after starting", "after recording")  # of a create: tests/tools/broker_faults.c
REMOVALS = ("before removing groups", "before removing files")


def keeps_its_word_when_killed():
    print(f"# seed {SEED}: {server_faults.random_kills(PROGRAMS, SEED, KILLS)}")


def an_empty_note_of_a_create_that_was_killed_is_none():
    with ServerProcess(*PROGRAMS) as server:
        name = server.create()
        server.kill9()
        note = next(server.state.rglob(f"sandboxes/{name}/source"))
        os.truncate(note, 0)
        server.start()
        assert server.request("DELETE", f"/v1/sandboxes/{name}")[0] == 204, server.log()
        wait_for(lambda: not note.parent.exists(), "the end of its directory")
        assert "cannot tell the layers" not in server.log()


# --- a worker of the broker dies in the middle of a create ---


class Deaths:
    """A server whose broker kills itself at points of a create or a removal, on demand."""

    def __init__(self, server, kills):
        self.server, self.kills = server, kills
        self.hold = kills.with_name(kills.name + ".hold")

    def plan(self, *points, hold=False):
        """The next process of the broker to reach the first point dies there, and so on; with
        `hold`, when the file `hold` is gone."""
        if hold:
            self.hold.touch()
        self.kills.write_text("".join(point + "\n" for point in points), encoding="ascii")

    def left(self):
        return self.kills.read_text(encoding="ascii").split("\n")[:-1]

    def execds(self):
        return [pid for pid in os.listdir("/proc") if pid.isdigit() and comm(pid) == "execd"
                and self.server.broker.group in cgroups_of(pid)]

    def post(self, **fields):
        status, _, body = self.server.request("POST", "/v1/sandboxes", {
            "image": {"uri": "host"}, "entrypoint": ["sleep", "1000000"], "timeout": 600,
            "resourceLimits": {"cpu": "1", "memory": "256Mi"}, "metadata": {"tag": "t"}, **fields})
        return status, body

    def begin(self, **fields):
        """The id of a sandbox that may still be Pending."""
        status, body = self.post(**fields)
        assert status == 202, body
        return body["id"]

    def settled(self, name):
        """What became of it."""
        shown = {}

        def is_settled():
            shown.update(self.server.request("GET", f"/v1/sandboxes/{name}")[2])
            return shown["status"]["state"] != "Pending"
        wait_for(is_settled, "the end of a create")
        return shown

    def create(self):
        return self.settled(self.begin())

    def must_run(self, body):
        """It runs, is the only one there is, and answers."""
        assert body["status"]["state"] == "Running", f"{body}\n{self.server.log()[-3000:]}"
        (sandbox,) = self.server.broker.list()
        assert (sandbox.id, sandbox.state) == (body["id"], "running"), vars(sandbox)
        wait_for(lambda: len(self.execds()) == 1, "the end of every other execd")
        shown = server_faults.listed(self.server)
        server_faults.check_data_plane(self.server, shown, server_faults.random.Random(0))

    def delete(self, name):
        status, _, body = self.server.request("DELETE", f"/v1/sandboxes/{name}")
        assert status == 204, body

    def must_be_clean(self):
        """Nothing of any sandbox is left; a sweep after the death may still be at it."""
        def is_clean():
            with contextlib.suppress(AssertionError):
                server_faults.check_leftovers(self.server, {}, [])
                return not os.listdir(self.server.state / "ids") and not self.execds()
            return False
        wait_for(is_clean, "nothing to be left")


@contextlib.contextmanager
def deaths(workers, ready):
    with tempfile.TemporaryDirectory(prefix="osb-") as folder:
        os.chmod(folder, 0o755)
        kills, program = pathlib.Path(folder, "kills"), pathlib.Path(folder, "broker")
        program.write_text(f"#!/bin/sh\nOSB_FAULT_KILLS={kills} exec {FAULTY} \"$@\"\n",
                           encoding="utf-8")
        program.chmod(0o755)
        config = {"embedded": {"broker_program": str(program), "broker_workers": workers},
                  "runtime": {"ready": ready}}
        with ServerProcess(*PROGRAMS, config=config) as server:
            yield Deaths(server, kills)


def creates_though_a_worker_dies_at_any_point():
    for workers, ready in ((1, 0), (2, 2)):
        with deaths(workers, ready) as world:
            for point in POINTS:
                world.plan(point)
                body = world.create()
                assert world.left() == [], f"no process died {point}"
                world.must_run(body)
                world.delete(body["id"])
                world.must_be_clean()


def creates_though_workers_die_twice():
    """Also while what the first left is being removed."""
    with deaths(2, 2) as world:
        for points in (*((point, "after naming") for point in POINTS),
                       *(("after starting", removal) for removal in REMOVALS)):
            world.plan(*points)
            body = world.create()
            world.plan()
            world.must_run(body)
            world.delete(body["id"])
            world.must_be_clean()


def runs_an_entrypoint_once_when_the_reply_is_lost():
    """A sandbox that was complete is kept: what its entrypoint does is not done twice."""
    with deaths(2, 2) as world:
        world.plan("after recording", hold=True)
        name = world.begin(
            entrypoint=["sh", "-c", "echo run >>/data/runs; exec sleep 1000000"],
            volumes=[{"name": "data", "mountPath": "/data", "pvc": {
                "claimName": "runs", "deleteOnSandboxTermination": True}}])
        runs = world.server.state / "server/volumes/runs/runs"
        wait_for(lambda: runs.exists() and runs.read_text(encoding="ascii"), "the entrypoint")
        world.hold.unlink()
        body = world.settled(name)
        world.must_run(body)
        assert runs.read_text(encoding="ascii") == "run\n"
        world.delete(body["id"])
        world.must_be_clean()


def tells_why_when_every_worker_dies():
    """Tries have an end, and nothing is left then."""
    with deaths(2, 2) as world:
        world.plan(*["after starting"] * 20)
        status, body = world.post()
        if status == 202:  # tries took longer than a create waits before it answers Pending
            shown = world.settled(body["id"])["status"]
            assert (shown["state"], shown["reason"]) == ("Failed", "PROVISIONING_ERROR"), shown
            world.delete(body["id"])
            body = {"code": "DOCKER::SANDBOX_START_FAILED", **shown}
        assert len(world.left()) in range(1, 19), world.left()
        world.plan()
        assert body["code"] == "DOCKER::SANDBOX_START_FAILED", (status, body)
        assert "talk to the broker" in body["message"], body
        assert world.server.broker.list() == []
        world.must_be_clean()


if __name__ == "__main__":
    tap.skip_all(why_not())
    sys.exit(tap.run_tests([
        creates_though_a_worker_dies_at_any_point,
        creates_though_workers_die_twice,
        runs_an_entrypoint_once_when_the_reply_is_lost,
        tells_why_when_every_worker_dies,
        keeps_its_word_when_killed,
        an_empty_note_of_a_create_that_was_killed_is_none,
    ]))
