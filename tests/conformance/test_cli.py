#!/usr/bin/env python3
"""test_cli.py OSB SERVER BROKER EXECD SANDBOXCTL - the official command line tool, as PyPI has it,
against the real server, broker and execd."""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from datetime import datetime, timedelta

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tools"), str(HERE.parent / "integration")]

from server_process import SECONDS_MAX, ServerProcess, wait_for, why_not  # noqa: E402
from tap import Tap, skip_all  # noqa: E402

CONFIG = {"embedded.images": {"python:*": "host"}}
UNKNOWN = "00000000-0000-4000-8000-000000000000"


class Osb:
    """The tool with a home directory of its own, and the server it talks to."""

    def __init__(self, program, server, home):
        self.program, self.server, self.home = program, server, pathlib.Path(home)
        self.env = {"PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8"}
        self.address = {"OPEN_SANDBOX_DOMAIN": server.domain,
                        "OPEN_SANDBOX_API_KEY": server.api_key}

    def run(self, *words, stdin="", env=None):
        env = self.address if env is None else env
        return subprocess.run([self.program, "--no-color", *words], input=stdin, text=True,
                              capture_output=True, check=False, timeout=SECONDS_MAX,
                              env={**self.env, **env})

    def ok(self, *words, **more):
        done = self.run(*words, **more)
        said = done.stdout + done.stderr
        assert done.returncode == 0, f"{words}: status {done.returncode}\n{said}"
        return done.stdout

    def json(self, *words, **more):
        at = words.index("--") if "--" in words else len(words)
        return json.loads(self.ok(*words[:at], "-o", "json", *words[at:], **more))

    def create(self, *words):
        return self.json("sandbox", "create", "--image", "host", *words)["id"]

    @contextlib.contextmanager
    def sandbox(self, *words):
        name = self.create(*words)
        try:
            yield name
        finally:
            self.run("sandbox", "kill", name)


# --- sandboxes ---


def create_and_get(osb):
    with osb.sandbox("-t", "5m", "-e", "GREETING=hello", "-m", "team=blue", "--resource", "cpu=1",
                     "--resource", "memory=256Mi", "--entrypoint", "sleep", "--entrypoint",
                     "infinity") as name:
        got = osb.json("sandbox", "get", name)
        assert (got["id"], got["status"]["state"]) == (name, "Running"), got
        assert got["metadata"] == {"team": "blue"} and got["entrypoint"] == ["sleep", "infinity"]
        assert got["expires_at"] and got["image"]["image"] == "host", got
        assert osb.ok("command", "run", name, "--", "sh", "-c", "echo $GREETING") == "hello\n"
        assert name in osb.ok("sandbox", "get", name)  # as a table


def create_by_an_image_of_the_registries(osb):
    name = osb.json("sandbox", "create", "--image", "python:3.12")["id"]
    assert osb.ok("command", "run", name, "--", "python3", "-c", "print(6 * 7)") == "42\n"
    osb.ok("sandbox", "kill", name)


def list_by_state_metadata_and_page(osb):
    with osb.sandbox("-m", "list=cli", "-m", "n=1") as first, \
            osb.sandbox("-m", "list=cli", "-m", "n=2") as second:
        got = osb.json("sandbox", "list", "-m", "list=cli")
        assert [item["id"] for item in got["items"]] == [second, first], got
        got = osb.json("sandbox", "list", "-m", "list=cli", "-m", "n=1", "-s", "running")
        assert [item["id"] for item in got["items"]] == [first], got
        got = osb.json("sandbox", "list", "-m", "list=cli", "--page", "2", "--page-size", "1")
        assert [item["id"] for item in got["items"]] == [first], got
        assert got["pagination"]["total_items"] == 2 and not got["pagination"]["has_next_page"]
        assert first[:8] in osb.ok("sandbox", "list")
        assert osb.json("sandbox", "list", "-m", "list=none")["items"] == []


def when(text):
    """The tool writes times with Z and with an offset."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def renew(osb):
    with osb.sandbox("-t", "5m") as name:
        before = when(osb.json("sandbox", "get", name)["expires_at"])
        answer = when(osb.json("sandbox", "renew", name, "-t", "1h30m")["expires_at"])
        after = when(osb.json("sandbox", "get", name)["expires_at"])
        assert after - before > timedelta(hours=1, minutes=24), (before, after)
        assert abs(after - answer) < timedelta(seconds=1), (answer, after)


def pause_and_resume(osb):
    with osb.sandbox() as name:
        osb.ok("sandbox", "pause", name)
        assert osb.json("sandbox", "get", name)["status"]["state"] == "Paused"
        assert osb.json("sandbox", "health", name)["healthy"] is False
        osb.ok("sandbox", "resume", name)
        assert osb.json("sandbox", "get", name)["status"]["state"] == "Running"
        assert osb.json("sandbox", "health", name)["healthy"] is True


def endpoint_and_metrics(osb):
    with osb.sandbox("--resource", "cpu=1", "--resource", "memory=300Mi") as name:
        got = osb.json("sandbox", "endpoint", name, "-p", "8000")
        assert name in got["endpoint"] and got["headers"], got
        got = osb.json("sandbox", "metrics", name)
        assert got["memory_total_in_mib"] == 300, got


def kill_several(osb):
    names = [osb.create(), osb.create()]
    got = osb.json("sandbox", "kill", *names)
    assert [(row["sandbox_id"], row["status"]) for row in got] == \
        [(name, "terminated") for name in names], got
    for name in names:
        assert osb.run("sandbox", "get", name).returncode == 1


def errors_are_reported(osb):
    done = osb.run("sandbox", "get", UNKNOWN)
    assert done.returncode == 1 and UNKNOWN in done.stdout + done.stderr, done
    done = osb.run("sandbox", "create", "--image", "host", "-m", "a=not a value")
    assert done.returncode == 1 and "metadata" in done.stderr, done
    done = osb.run("sandbox", "list", env={**osb.address, "OPEN_SANDBOX_API_KEY": "wrong"})
    assert done.returncode == 1 and "API key" in done.stderr, done


# --- commands ---


def run_in_the_foreground(osb, name):
    done = osb.run("command", "run", name, "-w", "/usr", "--", "sh", "-c", "pwd; echo bad >&2")
    assert (done.returncode, done.stdout, done.stderr) == (0, "/usr\n", "bad"), done
    done = osb.run("command", "run", name, "--", "sh", "-c", "exit 3")
    assert done.returncode == 1 and "3" in done.stderr, done
    done = osb.run("command", "run", name, "-t", "1s", "--", "sleep", "30")
    assert done.returncode == 1, done


def ended(osb, name, command):
    """Its status, once it does not run any more."""
    seen = []

    def look():
        seen[:] = [osb.json("command", "status", name, command)]
        return not seen[0]["running"]

    wait_for(look, "its end")
    return seen[0]


def run_in_the_background(osb, name):
    got = osb.json("command", "run", name, "-d", "--", "sh", "-c", "echo one; exit 4")
    command = got["execution_id"]
    assert got["mode"] == "background", got
    status = ended(osb, name, command)
    assert status["exit_code"] == 4, status
    logs = osb.json("command", "logs", name, command)
    assert logs["content"] == "one\n", logs
    logs = osb.json("command", "logs", name, command, "--cursor", str(logs["cursor"]))
    assert logs["content"] == "", logs

    command = osb.json("command", "run", name, "-d", "--", "sleep", "60")["execution_id"]
    osb.ok("command", "interrupt", name, command)
    assert ended(osb, name, command)["exit_code"] != 0


# --- files ---


def write_and_cat(osb, name):
    osb.ok("file", "write", name, "/tmp/a", "-c", "from an option, äöü", "--mode", "640")
    assert osb.ok("file", "cat", name, "/tmp/a").rstrip("\n") == "from an option, äöü"
    osb.ok("file", "write", name, "/tmp/b", stdin="from\nstdin\n")
    assert osb.ok("file", "cat", name, "/tmp/b") == "from\nstdin\n"
    got = osb.json("file", "info", name, "/tmp/a", "/tmp/b")
    got = list(got.values()) if isinstance(got, dict) else got
    assert {row["path"]: row["mode"] for row in got} == {"/tmp/a": 640, "/tmp/b": 755}, got


def upload_and_download(osb, name):
    data = os.urandom(3 * 1024 * 1024 + 1)
    local, back = osb.home / "up.bin", osb.home / "new" / "down.bin"
    local.write_bytes(data)
    osb.ok("file", "upload", name, str(local), "/tmp/deep/er/up.bin")
    osb.ok("file", "download", name, "/tmp/deep/er/up.bin", str(back))
    assert back.read_bytes() == data


def arrange_files(osb, name):
    osb.ok("file", "mkdir", name, "/tmp/d/one", "/tmp/d/two", "--mode", "750")
    osb.ok("file", "write", name, "/tmp/d/one/x.py", "-c", "red red")
    osb.ok("file", "replace", name, "/tmp/d/one/x.py", "--old", "red", "--new", "blue")
    osb.ok("file", "mv", name, "/tmp/d/one/x.py", "/tmp/d/two/y.py")
    osb.ok("file", "chmod", name, "/tmp/d/two/y.py", "--mode", "600")
    got = osb.json("file", "search", name, "/tmp/d", "-p", "*.py")
    assert [(row["path"], row["mode"], row["size"]) for row in got] == \
        [("/tmp/d/two/y.py", 600, 9)], got
    assert osb.ok("file", "cat", name, "/tmp/d/two/y.py").rstrip("\n") == "blue blue"
    osb.ok("file", "rm", name, "/tmp/d/two/y.py")
    osb.ok("file", "rmdir", name, "/tmp/d")
    assert osb.run("file", "info", name, "/tmp/d").returncode == 1


# --- its own settings ---


def flags_and_files_say_where_the_server_is(osb):
    flags = ["--domain", osb.server.domain, "--api-key", osb.server.api_key, "--protocol", "http"]
    assert "items" in osb.json(*flags, "sandbox", "list", env={})
    assert osb.run("sandbox", "list", env={}).returncode == 1  # without a key and an address
    path = osb.home / "osb.toml"
    path.write_text(f'[connection]\ndomain = "{osb.server.domain}"\n'
                    f'api_key = "{osb.server.api_key}"\n[defaults]\nimage = "host"\n',
                    encoding="utf-8")
    name = osb.json("--config", str(path), "sandbox", "create", env={})["id"]
    assert osb.ok("--config", str(path), "--use-server-proxy", "command", "run", name, "--", "echo",
                  "proxied", env={}) == "proxied\n"
    osb.ok("--config", str(path), "sandbox", "kill", name, env={})


def diagnostics_are_read(osb):
    with osb.sandbox("--entrypoint", "sh", "--entrypoint", "-c", "--entrypoint",
                     "echo said at start; sleep infinity") as name:
        assert "Running" in osb.ok("devops", "summary", name)
        wait_for(lambda: "said at start" in osb.ok("devops", "logs", name), "what it said")
        assert "Running" in osb.ok("diagnostics", "events", name, "-s", "lifecycle")
        assert "said at start" in osb.ok("diagnostics", "logs", name, "-s", "container")


LIFE_TESTS = [
    create_and_get,
    create_by_an_image_of_the_registries,
    list_by_state_metadata_and_page,
    renew,
    pause_and_resume,
    endpoint_and_metrics,
    kill_several,
    errors_are_reported,
    flags_and_files_say_where_the_server_is,
    diagnostics_are_read,
]
INSIDE_TESTS = [  # these share a sandbox
    run_in_the_foreground,
    run_in_the_background,
    write_and_cat,
    upload_and_download,
    arrange_files,
]


def main():
    program, *programs = sys.argv[1:]
    skip_all(why_not())
    tap = Tap()
    with ServerProcess(*programs, config=CONFIG) as server, \
            tempfile.TemporaryDirectory(prefix="osb-cli-") as home:
        osb = Osb(program, server, home)
        print("# " + osb.ok("--version").strip())
        for test in LIFE_TESTS:
            tap.check(test.__name__, test, osb)
        with osb.sandbox() as name:
            for test in INSIDE_TESTS:
                tap.check(test.__name__, test, osb, name)
        if tap.failed:
            print("# " + server.log()[-8000:].replace("\n", "\n# "))
    return tap.end()


sys.exit(main())
