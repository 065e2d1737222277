#!/usr/bin/env python3
"""test_server_cli.py SERVER - what opensandbox-server does beside serving: modes, texts, statuses.

TAP on standard output.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap

SERVER = os.path.abspath(sys.argv[1])
SECONDS_MAX = 120


class Home:
    """A home directory for one test; the server sees no other, and no variables of ours."""

    def __init__(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.scratch.name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.scratch.cleanup()

    def write(self, name, text):
        (self.path / name).write_text(text, encoding="utf-8")
        return str(self.path / name)

    def run(self, *args, **env):
        return subprocess.run([SERVER, *args], check=False, capture_output=True, text=True,
                              cwd=self.path, env={"HOME": str(self.path), "PATH": "/usr/bin:/bin",
                                                  **env}, timeout=SECONDS_MAX)

    def expect(self, status, *args, **env):
        done = self.run(*args, **env)
        assert done.returncode == status, \
            f"{args}: status {done.returncode}\n{done.stdout}{done.stderr}"
        return done


def it_says_its_version_and_helps():
    with Home() as home:
        assert home.expect(0, "--version").stdout.startswith("opensandbox-server ")
        for args in (["--help"], ["-h"], ["init-config", "--help"]):
            assert home.expect(0, *args).stdout.startswith("usage: opensandbox-server")


def wrong_usage_is_status_2():
    with Home() as home:
        for args in (["--nope"], ["word"], ["--port"], ["--check", "--version"],
                     ["init-config", "--nope"], ["init-config", "--example", "swarm"],
                     ["init-config", "a", "b"]):
            done = home.expect(2, *args)
            assert done.stdout == "" and done.stderr.startswith("opensandbox-server: "), args
        assert list(home.path.iterdir()) == []


def output_that_is_lost_is_a_failure():
    with Home() as home, open("/dev/full", "w", encoding="ascii") as full:
        for args in (["--version"], ["--print-config"], ["--print-reference"], ["--print-routes"]):
            done = subprocess.run([SERVER, *args], check=False, stdout=full, cwd=home.path,
                                  env={"HOME": str(home.path)}, stderr=subprocess.DEVNULL,
                                  timeout=SECONDS_MAX)
            assert done.returncode == 1, args


def check_passes_what_is_right():
    with Home() as home:
        assert home.expect(0, "--check").stdout.startswith("configuration is fine: ")
        path = home.write("c.toml", "[server]\nport = 99\n")
        done = home.expect(0, "--config", "c.toml", "--check")
        assert done.stdout == f"configuration is fine: {path}\n"
        assert home.expect(0, "--check", SANDBOX_CONFIG_PATH=path).stdout == done.stdout
        home.expect(0, "--check", "--reload")


def check_tells_all_that_is_wrong():
    with Home() as home:
        path = home.write("c.toml", "[server]\nport = 0\nprot = 1\n[embedded]\nnetwork = 'lan'\n")
        done = home.expect(1, "--config", path, "--check")
        assert done.stdout == ""
        for line in (f"{path}:2:8: error: server.port: found 0; ",
                     f"{path}:3:1: warning: server.prot is unknown",
                     f"{path}:5:11: error: embedded.network: found \"lan\"; "):
            assert line in done.stderr, done.stderr


def a_file_that_was_named_must_exist():
    with Home() as home:
        for args, env in ((["--config", "none.toml", "--check"], {}),
                          (["--check"], {"SANDBOX_CONFIG_PATH": "none.toml"})):
            assert "none.toml" in home.expect(1, *args, **env).stderr


def runtimes_that_are_not_here_are_explained():
    with Home() as home:
        for name in ("docker", "k8s"):
            path = str(home.path / name)
            home.expect(0, "init-config", path, "--example", name)
            home.expect(0, "--config", path, "--print-config")
            done = home.expect(1, "--config", path, "--check",
                               DOCKER_HOST="unix:///no/such/docker.sock")
            words = {"docker": "there is no socket: install Docker (apt install docker.io) and "
                               "start it, or name another engine by docker.host or DOCKER_HOST",
                     "k8s": "not in a pod"}
            assert words[name] in done.stderr, done.stderr


def a_program_that_could_not_run_is_refused():
    """An OCI runtime with shared libraries, as distributions have them, and a script."""
    with Home() as home:
        script = home.write("script", "#!/bin/sh\n")
        os.chmod(script, 0o755)
        for path, words in (("/bin/bash", "needs shared libraries"), (script, "is a script"),
                            ("/no/such", "there is no program")):
            config = home.write("c.toml", f"[embedded.runtimes]\nrunc = '{path}'\n")
            done = home.expect(1, "--config", config, "--check")
            assert path in done.stderr and words in done.stderr, done.stderr


def the_effective_configuration_is_shown_without_secrets():
    with Home() as home:
        path = home.write("c.toml", "[server]\nhost = '0.0.0.0'\napi_keys = ['hidden']\n")
        done = home.expect(0, "--config", path, "--port", "99", "--state", "/s", "--print-config",
                           OPENSANDBOX_SERVER_API_KEY="sesame", PENDING_FAILURE_TTL="7")
        assert "sesame" not in done.stdout and "hidden" not in done.stdout
        for line in ('host = "0.0.0.0" # line 2', "port = 99 # --port",
                     'api_key = "<redacted>" # OPENSANDBOX_SERVER_API_KEY',
                     "failed_ttl_seconds = 7 # PENDING_FAILURE_TTL", 'broker = "/s/broker.sock"'):
            assert f"\n{line}\n" in done.stdout, line
        again = home.write("again.toml", done.stdout)
        refused = home.expect(1, "--config", again, "--check").stderr
        assert "server.api_key: this stands for a key" in refused, refused
        assert "server.api_keys: this stands for a key" in refused, refused
        again = home.write("again.toml", done.stdout.replace("<redacted>", "a key"))
        home.expect(0, "--config", again, "--check")


def init_config_writes_what_loads():
    with Home() as home:
        done = home.expect(0, "init-config")
        path = home.path / ".sandbox.toml"
        assert len(done.stdout.splitlines()) == 1 and str(path) in done.stdout
        assert path.stat().st_mode & 0o777 == 0o600
        checked = home.expect(0, "--check")
        assert checked.stdout == f"configuration is fine: {path}\n"
        path.write_text("mine", encoding="utf-8")
        assert "--force" in home.expect(1, "init-config").stderr
        assert path.read_text(encoding="utf-8") == "mine"
        home.expect(0, "init-config", "--force")
        assert path.read_text(encoding="utf-8") != "mine"
        home.expect(1, "init-config", "no/such/directory/c.toml")


def the_example_is_the_one_in_deploy():
    with Home() as home:
        home.expect(0, "init-config", "c.toml", "--example", "embedded")
        written = (home.path / "c.toml").read_bytes()
        assert written == (tap.ROOT / "deploy/config.toml").read_bytes()
        home.expect(0, "--config", "c.toml", "--check")


def the_reference_in_docs_is_current():
    with Home() as home:
        printed = home.expect(0, "--print-reference").stdout
    kept = (tap.ROOT / "docs/config.md").read_text(encoding="utf-8")
    assert printed == kept, "run: opensandbox-server --print-reference > docs/config.md"


def the_routes_are_listed():
    with Home() as home:
        printed = home.expect(0, "--print-routes").stdout
    assert "/sandboxes/{sandboxId}" in printed and "POST" in printed, printed


def programs_are_found_beside_the_server():
    with Home() as home:
        for name in ("opensandbox-broker", "execd"):
            home.write(name, "#!/bin/sh\n")
            os.chmod(home.path / name, 0o755)
        os.symlink(SERVER, home.path / "opensandbox-server")
        done = subprocess.run(["./opensandbox-server", "--print-config"], check=True, text=True,
                              cwd=home.path, env={"HOME": str(home.path)}, capture_output=True,
                              timeout=SECONDS_MAX)
        assert f'broker_program = "{home.path}/opensandbox-broker"' in done.stdout, done.stdout
        assert f'execd_program = "{home.path}/execd"' in done.stdout


def a_server_says_that_it_waits_for_a_broker():
    with Home() as home:
        os.chmod(home.path, 0o755)  # the account that root becomes must get there
        path = home.write("c.toml", "[embedded]\nstart_broker = 'never'\n")
        os.chmod(path, 0o644)
        server = subprocess.Popen([SERVER, "--config", path, "--state", home.path / "st"],
                                  env={"HOME": str(home.path)}, stderr=subprocess.PIPE, text=True)
        try:
            lines = []
            for line in server.stderr:  # it ends in any case, when it has waited long enough
                lines.append(line)
                if "waiting for a broker" in line:
                    break
            assert f"{home.path}/st/broker.sock" in lines[-1], lines
        finally:
            server.kill()
            server.communicate()


if __name__ == "__main__":
    sys.exit(tap.run_tests([
        it_says_its_version_and_helps,
        wrong_usage_is_status_2,
        output_that_is_lost_is_a_failure,
        check_passes_what_is_right,
        check_tells_all_that_is_wrong,
        a_file_that_was_named_must_exist,
        runtimes_that_are_not_here_are_explained, a_program_that_could_not_run_is_refused,
        the_effective_configuration_is_shown_without_secrets,
        init_config_writes_what_loads,
        the_example_is_the_one_in_deploy,
        the_reference_in_docs_is_current,
        the_routes_are_listed,
        programs_are_found_beside_the_server,
        a_server_says_that_it_waits_for_a_broker,
    ]))
