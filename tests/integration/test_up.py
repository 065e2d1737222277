#!/usr/bin/env python3
"""test_up.py OSB SERVER BROKER EXECD SANDBOXCTL - `osb up` and `osb doctor` for a new user, with no
settings, no key and no server: three commands later something runs in a sandbox."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tools")]

from broker_process import children, is_alive  # noqa: E402
from server_process import SECONDS_MAX, ServerProcess, wait_for, why_not  # noqa: E402
from tap import Tap, skip_all  # noqa: E402


class User:
    def __init__(self, program, server, home):
        self.program, self.server, self.home = os.path.abspath(program), server, pathlib.Path(home)
        self.settings = self.home / ".opensandbox/config.toml"
        self.env = {"PATH": "/usr/bin:/bin", "HOME": home, "LANG": "C.UTF-8",
                    "OPEN_SANDBOX_DOMAIN": server.domain}
        self.pid = None

    def run(self, *words, **more):
        return subprocess.run([self.program, *words], text=True, capture_output=True, check=False,
                              stdin=subprocess.DEVNULL, timeout=SECONDS_MAX,
                              env={**self.env, **more})

    def up(self, *words):
        return self.run("up", "--server-config", str(self.server.config_path), "--log",
                        str(self.home / "server.log"), *words)

    def end(self):
        """Ends the server that `osb up` started."""
        if self.pid and is_alive(self.pid):
            helpers = [self.pid, *children(self.pid)]
            os.kill(self.pid, signal.SIGTERM)
            wait_for(lambda: not any(map(is_alive, helpers)), "the end of the server")


def doctor_says_what_to_do_first(user):
    done = user.run("doctor")
    assert done.returncode == 1 and "osb up" in done.stdout, done
    assert max(map(len, done.stdout.splitlines())) < 250, "lines, not a table that is wider"
    rows = {row["check"]: row for row in json.loads(user.run("doctor", "-o", "json").stdout)}
    assert rows["server"]["result"] == rows["settings"]["result"] == "problem", rows
    assert rows["kernel"]["result"] == "ok", rows


def doctor_knows_docker(user):
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as sock:
        def row(path):
            done = user.run("doctor", "-o", "json", DOCKER_HOST=f"unix://{path}")
            return {row["check"]: row for row in json.loads(done.stdout)}["docker"]
        none = row(f"{folder}/none")
        assert none["result"] == "ok" and "needs one" in none["found"], none
        sock.bind(f"{folder}/sock")
        closed = row(f"{folder}/sock")
        assert closed["result"] == "problem", closed
        assert "systemctl start docker" in closed["advice"], closed


def a_program_that_is_missing_is_named(user):
    done = user.up("--program", "/nowhere/opensandbox-server")
    assert done.returncode == 1 and "no program /nowhere/opensandbox-server" in done.stderr, done
    assert not user.settings.exists()


def up_starts_a_server_and_keeps_its_key(user):
    done = user.up()  # the server beside osb
    assert done.returncode == 0, (done, (user.home / "server.log").read_text())
    user.pid = int(re.search(r"Server (\d+) answers", done.stdout)[1])
    assert str(user.settings) in done.stdout, done
    assert user.settings.stat().st_mode & 0o777 == 0o600
    assert user.server.api_key in user.settings.read_text(encoding="utf-8")


def then_a_command_runs_without_more_options(user):
    done = user.run("run", "--rm", "--", "echo", "hello")
    assert (done.returncode, done.stdout) == (0, "hello\n"), done
    done = user.run("doctor")
    assert done.returncode == 0 and "problem" not in done.stdout, done


def up_again_changes_nothing(user):
    before = user.settings.read_text(encoding="utf-8")
    done = user.up()
    assert done.returncode == 0 and "A server answers" in done.stdout, done
    assert user.settings.read_text(encoding="utf-8") == before


def settings_of_the_user_stay(user):
    text = "# mine\n[connection]\nrequest_timeout = 7\n[defaults]\nimage = \"python:3.12\"\n"
    user.settings.write_text(text, encoding="utf-8")
    done = user.up()
    assert done.returncode == 0, done
    shown = json.loads(user.run("config", "show", "-o", "json").stdout)
    assert shown["request_timeout"] == 7 and shown["default_image"] == "python:3.12", shown
    assert shown["api_key"] and user.settings.read_text().startswith("# mine\n"), shown


def main():
    program, *programs = sys.argv[1:]
    skip_all(why_not())
    tap = Tap()
    server = ServerProcess(*programs)  # only its directory and configuration
    server.write_config()
    try:
        with tempfile.TemporaryDirectory(prefix="osb-up-") as home:
            user = User(program, server, home)
            try:
                for test in (doctor_says_what_to_do_first, doctor_knows_docker,
                             a_program_that_is_missing_is_named,
                             up_starts_a_server_and_keeps_its_key,
                             then_a_command_runs_without_more_options, up_again_changes_nothing,
                             settings_of_the_user_stay):
                    tap.check(test.__name__, test, user)
            finally:
                user.end()
    finally:
        server.remove()
    return tap.end()


sys.exit(main())
