"""The server with its state in PostgreSQL: restarts of either, lost connections, a second server.

Usage: test_postgres.py SERVER BROKER EXECD SANDBOXCTL. TAP on standard output. Needs root.
"""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import postgres_process  # noqa: E402
import tap  # noqa: E402
from server_process import SECONDS_MAX, ServerProcess, wait_for, why_not  # noqa: E402
from server_use import Gateway  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:5]]
POSTGRES = None  # one cluster for all tests; each server has a schema of its own


def server_on(dsn=None):
    return ServerProcess(*PROGRAMS, config={"store": {"type": "postgres",
                                                      "dsn": dsn or POSTGRES.dsn}})


def schema_of(server):
    return server.folder.name


def state_of(server, name):
    status, _, body = server.request("GET", f"/v1/sandboxes/{name}")
    return body["status"]["state"] if status == 200 else status


def backends_of(server):
    """The processes of PostgreSQL that hold the lock of the server's tables."""
    return (f"SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objid = "
            f"'\"{schema_of(server)}\".opensandbox_meta'::regclass::oid")


def cut_connection(server):
    cut = POSTGRES.query(f"SELECT pg_terminate_backend(pid, 60000) FROM ({backends_of(server)}) x")
    assert cut.stdout.strip() == "t", cut


def keeps_its_state_over_kill_9():
    with server_on() as server:
        name = server.create(metadata={"team": "blue"})
        server.kill9()
        server.start()
        status, _, body = server.request("GET", f"/v1/sandboxes/{name}")
        assert status == 200 and body["metadata"] == {"team": "blue"}, (status, body)
        with Gateway(server, name) as gateway:
            assert gateway.run("echo still here") == "still here"
        assert server.request("DELETE", f"/v1/sandboxes/{name}")[0] == 204
        rows = POSTGRES.query(f'SELECT count(*) FROM "{schema_of(server)}".opensandbox_sandboxes')
        assert rows.stdout.strip() == "0", rows


def keeps_a_second_server_out():
    with server_on() as server:
        second = server_on(postgres_process.own_schema(POSTGRES.dsn, schema_of(server)))
        second.write_config()
        text = second.config_path.read_text(encoding="utf-8")
        second.config_path.write_text(text.replace(schema_of(second), schema_of(server)),
                                      encoding="utf-8")
        done = subprocess.run([second.program, "--config", second.config_path], cwd="/",
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              timeout=SECONDS_MAX)
        assert done.returncode != 0 and "in use by another server" in done.stderr, done
        assert server.create()
        second.remove()


def a_cut_connection_is_made_again():
    with server_on() as server:
        before = server.create()
        cut_connection(server)
        after = server.create()
        assert state_of(server, before) == state_of(server, after) == "Running"


def changes_nothing_once_another_has_the_lock():
    with server_on() as server:
        name = server.create()
        other = subprocess.Popen(["psql", "-X", "-q", "-t", "-A", POSTGRES.dsn],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            # Waits for the lock in one statement: it gets it as the server's connection ends.
            other.stdin.write("SELECT pg_advisory_lock(x'4f534258'::int, "
                              f"'\"{schema_of(server)}\".opensandbox_meta'::regclass::oid::int);\n"
                              "SELECT 'taken';\n")
            other.stdin.flush()
            wait_for(lambda: POSTGRES.query("SELECT count(*) FROM pg_locks WHERE "
                                            "locktype = 'advisory' AND NOT granted"
                                            ).stdout.strip() == "1", "the other to wait")
            cut_connection(server)
            while other.stdout.readline().strip() != "taken":
                pass
            status, _, body = server.request("POST", "/v1/sandboxes", {
                "image": {"uri": "host"}, "entrypoint": ["sleep", "1000"], "timeout": 600,
                "resourceLimits": {}})
            assert status >= 500 and "in use by another server" in server.log(), (status, body)
        finally:
            other.communicate("\\q\n", timeout=SECONDS_MAX)
        assert server.create() and state_of(server, name) == "Running"


def says_that_the_database_is_away_and_goes_on_when_it_is_back():
    with server_on() as server:
        name = server.create()
        POSTGRES.stop()
        try:
            status, _, body = server.request("POST", "/v1/sandboxes", {
                "image": {"uri": "host"}, "entrypoint": ["sleep", "1000"], "timeout": 600,
                "resourceLimits": {}})
            assert status >= 500 and body["code"] and body["message"], (status, body)
            with Gateway(server, name) as gateway:  # what runs goes on
                assert gateway.run("echo still here") == "still here"
        finally:
            POSTGRES.start()
        other = server.create()
        assert state_of(server, name) == state_of(server, other) == "Running"
        for each in (name, other):
            assert server.request("DELETE", f"/v1/sandboxes/{each}")[0] == 204


def does_not_start_without_a_database_and_keeps_the_password_to_itself():
    for dsn, words in (("host=/nonexistent password=hunter2", "PostgreSQL"),
                       ("postgresql://u:hunter2@[", "not a connection string")):
        server = ServerProcess(*PROGRAMS)
        try:
            server.write_config()
            with open(server.config_path, "a", encoding="utf-8") as config:
                config.write(f'[store]\ntype = "postgres"\ndsn = "{dsn}"\n')
            done = subprocess.run([server.program, "--config", server.config_path], cwd="/",
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  check=False, timeout=SECONDS_MAX)
            assert done.returncode != 0 and words in done.stderr, done
            assert "hunter2" not in done.stderr + done.stdout, done
            shown = subprocess.run([server.program, "--config", server.config_path,
                                    "--print-config"], capture_output=True, text=True, check=True,
                                   timeout=SECONDS_MAX).stdout
            assert "hunter2" not in shown and "postgres" in shown, shown
        finally:
            server.remove()


def main():
    global POSTGRES
    tap.skip_all(why_not() or postgres_process.why_not())
    with contextlib.ExitStack() as stack:
        POSTGRES = stack.enter_context(postgres_process.Postgres())
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        return tap.run_tests([
            keeps_its_state_over_kill_9,
            keeps_a_second_server_out,
            a_cut_connection_is_made_again,
            changes_nothing_once_another_has_the_lock,
            says_that_the_database_is_away_and_goes_on_when_it_is_back,
            does_not_start_without_a_database_and_keeps_the_password_to_itself,
        ])


if __name__ == "__main__":
    sys.exit(main())
