#!/usr/bin/env python3
"""test_task_executor.py PROGRAM - the task executor: tasks over HTTP, their end, its own end.

TAP on standard output.
"""
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
from tap import Tap  # noqa: E402

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
SECONDS_MAX = 60


def wait_for(what, get, seconds=SECONDS_MAX):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = get()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {what}")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Executor:
    def __init__(self, folder=None):
        self.own = None if folder else tempfile.TemporaryDirectory(prefix="osb-tasks-")
        self.folder = pathlib.Path(folder or self.own.name)
        self.process = None

    def start(self):
        self.port = free_port()
        self.process = subprocess.Popen(
            [PROGRAM, f"-listen-addr=127.0.0.1:{self.port}", "--data-dir", str(self.folder / "t"),
             "--log-dir", str(self.folder / "logs")], stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE, env={**os.environ, "FROM_EXECUTOR": "yes"})
        wait_for("an answer", self.is_up)
        return self

    def is_up(self):
        assert self.process.poll() is None, self.process.stderr.read().decode()
        try:
            return self.call("GET", "/health") == (200, {"status": "healthy"})
        except OSError:
            return False

    def call(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS_MAX)
        try:
            connection.request(method, path, body if isinstance(body, (str, type(None)))
                               else json.dumps(body))
            answer = connection.getresponse()
            text = answer.read().decode()
            is_json = "json" in (answer.getheader("Content-Type") or "")
            return answer.status, json.loads(text) if is_json else text
        finally:
            connection.close()

    def set(self, *tasks):
        status, answer = self.call("POST", "/setTasks", list(tasks))
        assert status == 200, (status, answer)
        return answer

    def ended(self, name):
        def get():
            status, task = self.call("GET", f"/tasks/{name}")
            return status == 200 and task["processStatus"].get("terminated")
        return wait_for(f"the end of {name}", get)

    def running(self, name):
        def get():
            status, task = self.call("GET", f"/tasks/{name}")
            return status == 200 and task["processStatus"].get("running")
        return wait_for(f"the start of {name}", get)

    def gone(self, name):
        wait_for(f"{name} gone", lambda: self.call("GET", f"/tasks/{name}")[0] == 404)

    def kill(self):
        self.process.kill()
        self.process.wait(SECONDS_MAX)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.call("POST", "/setTasks", [])
            wait_for("no tasks", lambda: self.call("GET", "/getTasks")[1] == [])
            self.process.terminate()
            assert self.process.wait(SECONDS_MAX) == 0
        self.process.stderr.close()
        if self.own:
            self.own.cleanup()


def task(name, *command, **process):
    return {"name": name, "process": {"command": list(command), **process}}


def runs_and_reports():
    with Executor() as x:
        code, made = x.call("POST", "/tasks", task(
            "one", "/bin/sh", "-c", 'echo "$A $FROM_EXECUTOR $(pwd) $1"; echo bad >&2',
            args=["arg0", "a b"], env=[{"name": "A", "value": "x 'y'"}], workingDir="/"))
        assert code == 201 and made["name"] == "one", (code, made)
        end = x.ended("one")
        assert end["exitCode"] == 0 and end["startedAt"] and end["finishedAt"], end
        assert x.call("GET", "/tasks/one/logs/stdout") == (200, "x 'y' yes / a b\n")
        assert x.call("GET", "/tasks/one/logs/stderr") == (200, "bad\n")
        assert (x.folder / "t/one/exit").read_text().strip() == "0"


def says_how_it_failed():
    with Executor() as x:
        x.set(task("a", "sh", "-c", "exit 7"))
        assert x.ended("a")["exitCode"] == 7
        x.set(task("b", "/no/such/program"))
        assert x.ended("b")["exitCode"] == 127
        assert "no/such/program" in x.call("GET", "/tasks/b/logs/stderr")[1]
        x.set(task("c", "sh", "-c", "kill -9 $$"))
        assert x.ended("c")["exitCode"] == 137


def set_is_the_whole_set():
    with Executor() as x:
        x.set(task("a", "sleep", "1000"))
        x.running("a")
        pid = int((x.folder / "t/a/pid").read_text().split()[0])
        assert [t["name"] for t in x.set(task("a", "true"))] == ["a"]  # never updated
        x.running("a")
        x.set(task("b", "sleep", "1000"))  # the old one is on its way out
        x.running("b")
        x.gone("a")
        wait_for("the keeper's end", lambda: not pathlib.Path(f"/proc/{pid}").exists())
        assert not (x.folder / "t/a").exists()
        code, answer = x.call("POST", "/tasks", task("c", "true"))
        assert code == 500 and answer["code"] == "Internal Server Error", (code, answer)
        assert "active" in answer["message"], answer


def time_out_is_137():
    with Executor() as x:
        x.set(task("slow", "sleep", "1000", timeoutSeconds=1))
        end = x.ended("slow")
        assert (end["exitCode"], end["reason"]) == (137, "TaskTimeout"), end
        pid = int((x.folder / "t/slow/pid").read_text().split()[0])
        wait_for("its end", lambda: not pathlib.Path(f"/proc/{pid}").exists())
        assert x.ended("slow")["reason"] == "TaskTimeout"


def deletion_is_seen_and_stops():
    with Executor() as x:
        x.set(task("t", "sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"))
        x.running("t")
        assert x.call("DELETE", "/tasks/t")[0] == 204
        assert x.call("DELETE", "/tasks/nothing")[0] == 204
        assert "deletionTimestamp" in x.call("GET", "/tasks/t")[1]
        x.gone("t")  # SIGKILL after 10 s


def survives_the_executor():
    with Executor() as x:
        x.set(task("long", "sh", "-c", "sleep 3; exit 5"))
        started = x.running("long")["startedAt"]
        x.kill()
        x.start()
        assert x.running("long")["startedAt"] == started
        assert x.ended("long")["exitCode"] == 5
        x.kill()
        x.start()
        assert x.ended("long")["exitCode"] == 5
        x.set(task("next", "true"))
        assert x.ended("next")["exitCode"] == 0


def a_task_that_died_with_the_executor_is_forgotten():
    with Executor() as x:
        x.set(task("t", "sleep", "1000"))
        x.running("t")
        x.kill()
        os.killpg(int((x.folder / "t/t/pid").read_text().split()[0]), signal.SIGKILL)
        x.start()
        assert x.call("GET", "/getTasks") == (200, [])
        x.set(task("t", "true"))
        assert x.ended("t")["exitCode"] == 0


def a_crash_is_reported():
    with Executor() as x:
        x.set(task("t", "sleep", "1000"))
        x.running("t")
        os.killpg(int((x.folder / "t/t/pid").read_text().split()[0]), signal.SIGKILL)
        end = x.ended("t")
        assert (end["exitCode"], end["reason"]) == (137, "ProcessCrashed"), end


def refuses_what_makes_no_sense():
    with Executor() as x:
        assert x.call("POST", "/setTasks", "{")[0] == 400
        assert x.call("POST", "/setTasks", {})[0] == 400
        assert x.call("POST", "/tasks", {"process": {"command": ["true"]}})[0] == 400
        assert x.call("POST", "/tasks", task("../up", "true"))[0] == 500
        assert x.call("POST", "/tasks", {"name": "n"})[0] == 500
        code, answer = x.call("POST", "/tasks", {"name": "n", "podTemplateSpec": {"spec": {}}})
        assert code == 500 and "not supported" in answer["message"], answer
        assert x.call("GET", "/tasks/none")[0] == 404
        assert not (x.folder / "up").exists() and x.call("GET", "/getTasks")[1] == []


def runs_in_the_main_container():
    """Sidecar mode: the main container lends its namespaces and environment."""
    with tempfile.TemporaryDirectory(prefix="osb-tasks-") as folder:
        main = subprocess.Popen(
            ["unshare", "--uts", "--mount", "sh", "-c", "hostname main-box && exec sleep 1000"],
            env={**os.environ, "SANDBOX_MAIN_CONTAINER": f"box{os.getpid()}", "OF_MAIN": "1"})
        x = Executor(folder)
        try:
            os.environ["ENABLE_SIDECAR_MODE"] = "true"
            os.environ["MAIN_CONTAINER_NAME"] = f"box{os.getpid()}"
            comm = pathlib.Path(f"/proc/{main.pid}/comm")
            wait_for("a name", lambda: comm.read_text() == "sleep\n")
            with x:
                x.set(task("t", "sh", "-c", "hostname; echo $OF_MAIN"))
                assert x.ended("t")["exitCode"] == 0
                assert x.call("GET", "/tasks/t/logs/stdout") == (200, "main-box\n1\n")
        finally:
            del os.environ["ENABLE_SIDECAR_MODE"], os.environ["MAIN_CONTAINER_NAME"]
            main.kill()
            main.wait()


def main():
    tap = Tap()
    tap.check("a task runs with its environment, and says how it ended", runs_and_reports)
    tap.check("a task that fails says how", says_how_it_failed)
    tap.check("setTasks is the whole set; one task is active", set_is_the_whole_set)
    tap.check("a task that runs out of time ends with 137", time_out_is_137)
    tap.check("a deletion shows, and ends a task that ignores SIGTERM", deletion_is_seen_and_stops)
    tap.check("a task survives the executor", survives_the_executor)
    tap.check("a task that died with the executor is forgotten",
              a_task_that_died_with_the_executor_is_forgotten)
    tap.check("a task that crashes under the executor is reported", a_crash_is_reported)
    tap.check("what makes no sense is refused", refuses_what_makes_no_sense)
    tap.check("sidecar mode runs in the main container", runs_in_the_main_container)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
