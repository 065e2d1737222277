"""The server under hostile clients, and at unfavourable moments: starts, stops, hanging parts.

Usage: test_server_hostile.py SERVER BROKER EXECD SANDBOXCTL. TAP on standard output. Needs root.
"""
import concurrent.futures
import contextlib
import datetime
import fcntl
import http.client
import os
import pathlib
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from server_faults import broker_processes  # noqa: E402
from server_process import SECONDS_MAX, ServerProcess, toml, wait_for, why_not  # noqa: E402
from server_use import Gateway  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:5]]
STOPPING = 5


def server(**config):
    return ServerProcess(*PROGRAMS, config=config)


@contextlib.contextmanager
def kept():
    """A server that a test starts and stops as it likes."""
    process = server()
    try:
        yield process
    finally:
        process.remove()


def run_beside(process):
    """Another server with the same configuration, until it ends by itself."""
    return subprocess.run([process.program, "--config", str(process.config_path)], check=False,
                          capture_output=True, text=True, timeout=SECONDS_MAX,
                          env={"PATH": "/usr/bin:/bin", "HOME": str(process.folder)})


def database(process):
    return sqlite3.connect(process.state / "server" / "opensandbox.db", isolation_level=None,
                           timeout=SECONDS_MAX)


@contextlib.contextmanager
def expiring(process, statement):
    """A sandbox that expires after `statement` was executed in the store. Yields its name, its
    expiry, and the connection to the store."""
    with contextlib.closing(database(process)) as db:
        for seconds in (1, 8, 64):  # more where those are over before the rest is done
            name, due = process.create(), time.time() + seconds
            until = datetime.datetime.fromtimestamp(due, datetime.timezone.utc).isoformat()
            status, _, body = process.request("POST", f"/v1/sandboxes/{name}/renew-expiration",
                                              {"expiresAt": until})
            assert status in (200, 400), body
            db.execute(statement)
            if time.time() < due:
                yield name, due, db
                return
            if db.in_transaction:
                db.execute("ROLLBACK")
    raise AssertionError("nothing was in time")


# --- starting ---

def a_second_server_is_told_why_it_cannot_start():
    with server() as first:
        done = run_beside(first)
        assert done.returncode == 1 and "in use by another server" in done.stderr, done
        wait_for(first.is_ready, "the first one")


def a_directory_of_another_user_is_refused():
    with kept() as process:
        theirs = process.folder / "theirs"
        theirs.mkdir(mode=0o755)
        process.config = {"store": {"path": str(theirs / "sandboxes.db")}}
        process.write_config()
        done = run_beside(process)
        assert done.returncode == 1 and "belongs to user 0" in done.stderr, done
        assert theirs.stat().st_uid == 0 and theirs.stat().st_mode & 0o777 == 0o755


def a_link_in_place_of_the_volumes_is_not_followed():
    with kept() as process:
        process.start()
        process.stop()
        theirs, volumes = process.folder / "theirs", process.state / "server" / "volumes"
        theirs.mkdir(mode=0o700)
        volumes.rmdir()
        volumes.symlink_to(theirs)
        done = run_beside(process)
        assert done.returncode == 1 and theirs.stat().st_uid == 0, done
        volumes.unlink()
        process.start()
        process.stop()


def limits_of_the_configuration_are_those_of_the_server():
    with kept() as process:
        for section, keys, complaint in (
                ("server", {"workers": 65}, "workers"),
                ("store", {"path": f"/{'d' * 56}/sandboxes.db"}, "store.path")):
            process.config_path.write_text(toml({section: keys}), encoding="utf-8")
            done = subprocess.run([process.program, "--check", "--config",
                                   str(process.config_path)], check=False, capture_output=True,
                                  text=True, timeout=SECONDS_MAX)
            assert done.returncode == 1 and complaint in done.stderr, done


def a_reload_keeps_images_that_only_root_can_open():
    with kept() as process:
        closed = process.folder / "closed"
        (closed / "root").mkdir(parents=True)
        closed.chmod(0o700)
        process.config = {"embedded.images": {"mine": f"dir:{closed / 'root'}"}}
        process.start()
        request = {"image": {"uri": "mine"}, "entrypoint": ["true"], "resourceLimits": {},
                   "timeout": 60}

        def gets_as_far_as_the_entrypoint():  # the root is empty
            status, _, body = process.request("POST", "/v1/sandboxes", request)
            assert status == 202 or body["code"] == "DOCKER::INVALID_ENTRYPOINT", (status, body)

        gets_as_far_as_the_entrypoint()
        process.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "reloaded the configuration" in process.log(), "the reload")
        gets_as_far_as_the_entrypoint()
        process.stop()


def a_reload_names_directories_that_the_broker_does_not_know():
    with kept() as process:
        old, new = process.folder / "images", process.folder / "images-2"
        for folder in (old / "below", new):
            folder.mkdir(parents=True)
        process.config = {"embedded.images": {"old": f"dir:{old}"}}
        process.start()
        process.config["embedded.images"] |= {"below": f"dir:{old}/below", "new": f"dir:{new}"}
        process.write_config()
        process.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "reloaded the configuration" in process.log(), "the reload")
        warnings = [line for line in process.log().splitlines() if "the broker refuses a" in line]
        assert len(warnings) == 1 and str(new) in warnings[0], warnings
        process.stop()


# --- stopping ---

def leave_much_to_remove(process):
    with contextlib.closing(database(process)) as db:
        names = ", ".join(row[1] for row in db.execute("PRAGMA table_info(sandboxes)")
                          if row[1] not in ("n", "id", "state"))
        db.execute("BEGIN")
        for i in range(20000):
            db.execute(f"INSERT OR IGNORE INTO sandboxes (id, state, {names})"
                       f" SELECT ?, ?, {names} FROM sandboxes LIMIT 1", (f"left-{i}", STOPPING))
        db.execute("COMMIT")


def a_server_that_is_loading_can_be_stopped():
    with kept() as process:
        process.start()
        process.create()
        process.stop()
        for _ in range(5):  # unless it was faster than we are
            leave_much_to_remove(process)
            os.truncate(process.log_path, 0)
            process.start(wait=False)
            wait_for(lambda: "loaded sandboxes" in process.log(), "the store to be read")
            assert process.stop() == 0
            if "listening" not in process.log():
                return
        raise AssertionError(f"it goes on loading:\n{process.log()[-4000:]}")


def being_asked_twice_to_stop_under_load_is_a_clean_end():
    with kept() as process:
        for _ in range(3):
            process.start()
            names = [process.create() for _ in range(2)]
            stop = threading.Event()

            def hurry(name, word, stop=stop):
                while not stop.is_set():
                    with contextlib.suppress(OSError, http.client.HTTPException):
                        process.request("POST", f"/v1/sandboxes/{name}/{word}")

            with concurrent.futures.ThreadPoolExecutor(16) as users:
                for _ in range(4):
                    for name in names:
                        users.submit(hurry, name, "pause")
                        users.submit(hurry, name, "resume")
                time.sleep(0.5)
                process.process.send_signal(signal.SIGTERM)
                process.process.send_signal(signal.SIGTERM)
                status = process.stop()
                stop.set()
            assert status == 0, f"status {status}:\n{process.log()[-4000:]}"


# --- a store that does not answer ---

def expiry_comes_when_the_store_failed_for_a_while():
    with server() as process:
        with expiring(process, "BEGIN IMMEDIATE") as (name, _, db):
            wait_for(lambda: "expiry of sandbox" in process.log(), "a failure")
            db.execute("ROLLBACK")
        wait_for(lambda: process.request("GET", f"/v1/sandboxes/{name}")[0] == 404, "its end")


def a_pause_that_the_store_refuses_has_no_effect():
    with server() as process:
        name = process.create()
        with contextlib.closing(database(process)) as db:
            db.execute("BEGIN IMMEDIATE")
            assert process.request("POST", f"/v1/sandboxes/{name}/pause")[0] == 503
            db.execute("ROLLBACK")
        with Gateway(process, name) as box:
            assert box.run("echo awake") == "awake"


def cpu_seconds(pid):
    text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def an_expiry_that_the_store_does_not_know_costs_no_processor():
    with server() as process:
        later = "UPDATE sandboxes SET expires_us = expires_us + 600000000"
        with expiring(process, later) as (name, due, _):
            time.sleep(max(due - time.time(), 0) + 0.5)
        before = cpu_seconds(process.pid)
        time.sleep(2)
        assert cpu_seconds(process.pid) - before < 0.5
        assert process.request("GET", f"/v1/sandboxes/{name}")[0] == 200


def reads_go_on_while_the_store_hangs():
    with server() as process:
        name = process.create()
        with contextlib.closing(database(process)) as db, \
                concurrent.futures.ThreadPoolExecutor(40) as users:
            db.execute("BEGIN IMMEDIATE")
            stuck = [users.submit(process.request, "PATCH", f"/v1/sandboxes/{name}/metadata",
                                  {"n": str(i)}) for i in range(3)]
            for path in ("/health", f"/v1/sandboxes/{name}", "/v1/sandboxes"):
                assert process.request("GET", path)[0] == 200
            db.execute("ROLLBACK")
            assert {task.result()[0] for task in stuck} <= {200, 503}  # 503 after too long a wait


def wait_unready(process, why):
    """Waits until /ready gives this reason. A positive answer may be a second old, and another
    reason may come first."""
    def says_why():
        status, _, body = process.request("GET", "/ready")
        return (status, body.get("code")) == (503, "SERVICE_UNAVAILABLE") and why in body["message"]

    wait_for(says_why, f"'{why}'")


def metrics(process):
    status, _, text = process.request("GET", "/metrics")
    assert status == 200, text
    return text.decode()


def slots(process):
    return dict(re.findall(r'opensandbox_slots\{kind="(\w+)"\} (\d+)', metrics(process)))


def a_store_that_hangs_is_reported():
    with server() as process, contextlib.closing(database(process)) as db:
        db.execute("BEGIN IMMEDIATE")
        wait_for(lambda: int(slots(process).get("wanted", 0)) > 0, "figures, which need no store")
        wait_unready(process, "not ready: the store does not answer")
        assert process.request("GET", "/health")[0] == 200
        db.execute("ROLLBACK")
        wait_for(process.is_ready, "readiness")
        assert "path=/ready" not in process.log(), "what asks for it is no news, the reason is"


@contextlib.contextmanager
def unreadable(process):
    """Damages the database's shared-memory index and holds the locks of a process that repairs it:
    SQLite lets readers wait."""
    write, recover, second_header = 120, 122, 48  # bytes of the file: sqlite.org/walformat.html
    path = process.state / "server" / "opensandbox.db-shm"
    with open(path, "r+b", buffering=0) as index:
        for byte in (write, recover):
            fcntl.lockf(index, fcntl.LOCK_EX, 1, byte)
        index.seek(second_header)
        index.write(b"\xff" * 4)
        yield


def a_store_that_is_busy_is_no_fault_of_ours():
    with server() as process:
        name = process.create()
        path = f"/v1/sandboxes/{name}/diagnostics/events"
        with unreadable(process):
            status, _, body = process.request("GET", path)
            assert (status, body["code"]) == (503, "SERVICE_UNAVAILABLE"), (status, body)
        assert process.request("GET", path)[0] == 200


def a_client_that_watches_causes_few_writes():
    with server() as process:
        log = process.state / "server/opensandbox.db-wal"
        written = log.stat().st_size
        begin = time.monotonic()
        for _ in range(50):
            process.is_ready()
            slots(process)
        seconds = time.monotonic() - begin
        pages = (log.stat().st_size - written) / 4096
        assert pages <= 2 * (seconds + 1), f"{pages:.1f} pages in {seconds:.1f} s"


# --- a broker that does not answer ---

def is_stopped(pid):
    text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return text.rpartition(")")[2].split()[0] == "T"


@contextlib.contextmanager
def stopped_broker(process):
    """The first process, then the workers, of which there are no more from then on."""
    pids = []
    try:
        for kind in range(2):
            for pid in broker_processes(process)[kind]:
                pids.append(pid)
                os.kill(pid, signal.SIGSTOP)
                wait_for(lambda pid=pid: is_stopped(pid), "it to stop")
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def a_broker_that_hangs_is_reported_at_once():
    with server() as process, stopped_broker(process):
        wait_unready(process, "does not answer")
        assert slots(process) == {}


def a_broker_that_hangs_blocks_one_worker_for_all_probes():
    with server(embedded={"workers": 2, "reconcile_seconds": 86400}) as process:
        name = process.create()
        with stopped_broker(process), concurrent.futures.ThreadPoolExecutor(8) as users:
            wait_unready(process, "the runtime does not answer")
            paths = ["/metrics", "/ready", "/ready", "/ready"] * 2
            late = [users.submit(process.request, "GET", path) for path in paths]
            assert [task.result()[0] for task in late] == [200, 503, 503, 503] * 2
            jobs = re.findall(r"^opensandbox_jobs_\w+ (\d+)$", metrics(process), re.MULTILINE)
            assert len(jobs) == 2 and sum(map(int, jobs)) <= 1, jobs
            status, _, body = process.request("PATCH", f"/v1/sandboxes/{name}/metadata",
                                              {"a": "b"})
            assert status == 200, body


def paused(process):
    name = process.create()
    assert process.request("POST", f"/v1/sandboxes/{name}/pause")[0] == 202
    process.wait_state(name, "Paused")
    return name


def must_get_no_answer(process, name):
    status, _, body = process.request("POST", f"/v1/sandboxes/{name}/resume")
    assert (status, body["code"]) == (503, "SERVICE_UNAVAILABLE"), body
    assert "the broker does not answer" in body["message"], body


def a_broker_that_hangs_is_waited_for_as_long_as_it_makes_sense():
    with server(embedded={"broker_workers": 1}) as process:
        name = paused(process)
        with stopped_broker(process):
            must_get_no_answer(process, name)
            assert process.request("GET", f"/v1/sandboxes/{name}")[0] == 200
        # Its worker comes to this question only after what lay there before.
        assert process.broker.sandbox(name).state == "paused", "what failed was done later"
        process.wait_state(name, "Paused")
        assert process.request("POST", f"/v1/sandboxes/{name}/resume")[0] == 202
        process.wait_state(name, "Running")


def what_a_broker_does_too_late_is_found_out():
    """It had begun when the server gave up, and goes on."""
    with server(embedded={"broker_workers": 1, "reconcile_seconds": 86400}) as process:
        name = paused(process)
        slot = os.open(process.broker.slot_dir(name), os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(slot, fcntl.LOCK_EX)
            must_get_no_answer(process, name)
        finally:
            os.close(slot)
        process.wait_state(name, "Running")
        assert process.broker.sandbox(name).state == "running"


# --- clients ---

def a_client_that_only_connects_is_no_request():
    with contextlib.ExitStack() as silent, server(server={"limit_concurrency": 16}) as process:
        for _ in range(200):
            sock = socket.create_connection((process.host, process.port))
            silent.enter_context(sock)
            sock.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n")
        assert process.request("GET", "/health")[0] == 200


def more_requests_than_allowed_are_told_to_come_again():
    """A request whose body is passed on piece by piece is worked on from its head."""
    with contextlib.ExitStack() as slow, server(server={"limit_concurrency": 4}) as process:
        head = (f"POST /v1/sandboxes/{process.create()}/proxy/44772/command HTTP/1.1\r\n"
                f"Host: x\r\nContent-Length: 100\r\n"
                f"OPEN-SANDBOX-API-KEY: {process.api_key}\r\n\r\n{{")
        for _ in range(8):
            sock = socket.create_connection((process.host, process.port))
            slow.enter_context(sock)
            sock.sendall(head.encode())
        wait_for(lambda: process.request("GET", "/v1/sandboxes")[2].get("code")
                 == "SERVICE_UNAVAILABLE", "as many requests as are allowed")
        for path in ("/health", "/ready", "/version", "/docs"):
            assert process.request("GET", path, key=None)[0] == 200, path


# Requests that are never completed, and the status of the answer; None where there is none.
HALF_REQUESTS = [
    ("POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", 401),
    ("POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
     "OPEN-SANDBOX-API-KEY: wrong\r\n\r\n{", 401),
    ("POST /v1/sandboxes/x/proxy/80/ HTTP/1.1\r\nHost: x\r\n"
     "Transfer-Encoding: chunked\r\n\r\n", 401),
    ("GET /version HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", 200),
    ("POST /health HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", 405),
    ("POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\n", None),
]


def status_of_answer(sock):
    """Of a blocking socket; the rest of the answer is left unread."""
    with sock.makefile("rb") as lines:
        return int(lines.readline().split()[1])


def half_requests_without_a_key_do_not_block_others():
    """More of each kind than may be worked on at a time."""
    with contextlib.ExitStack() as half, server(server={"limit_concurrency": 128}) as process:
        for head, status in HALF_REQUESTS:
            for _ in range(184):
                sock = socket.create_connection((process.host, process.port), SECONDS_MAX)
                half.enter_context(sock)
                sock.sendall(head.encode())
                assert status is None or status_of_answer(sock) == status, head
            for path in ("/health", "/ready"):
                assert process.request("GET", path, key=None)[0] == 200, (head, path)
            assert process.request("GET", "/v1/sandboxes")[0] == 200, head
        name = process.create()
        assert process.request("DELETE", f"/v1/sandboxes/{name}")[0] == 204


def half_requests_to_a_server_without_keys_do_not_block_others():
    """Nobody is refused there, so only what is complete may count."""
    head = (b"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
            b"Expect: 100-continue\r\n\r\n")
    with contextlib.ExitStack() as half, ServerProcess(
            *PROGRAMS, env={"OPENSANDBOX_INSECURE_SERVER": "YES"},
            config={"server": {"limit_concurrency": 16}}) as process:
        for _ in range(32):
            sock = socket.create_connection((process.host, process.port), SECONDS_MAX)
            half.enter_context(sock)
            sock.sendall(head)
            assert status_of_answer(sock) == 100  # its body is awaited
            sock.sendall(b"{")
        assert process.request("GET", "/v1/sandboxes", key=None)[0] == 200


def refusals_are_logged_in_few_lines():
    count = 2000
    with server() as process:
        with socket.create_connection((process.host, process.port), SECONDS_MAX) as sock:
            sender = threading.Thread(target=sock.sendall, args=(
                b"GET /v1/sandboxes HTTP/1.1\r\nHost: x\r\n\r\n" * count,))
            sender.start()
            with sock.makefile("rb") as answers:
                seen = 0
                while seen < count:
                    seen += b"HTTP/1.1 401 " in answers.readline()
            sender.join()

        def logged():
            lines = re.findall(r" request peer=.* status=401 ", process.log())
            left_out = re.findall(r"left out lines of failed requests status=401 count=(\d+)",
                                  process.log())
            return len(lines), sum(map(int, left_out))

        wait_for(lambda: sum(logged()) == count, f"{count} refusals in the log")
        assert logged()[1] > 0, "a line for each"


def the_root_leads_to_the_documentation():
    with server() as process:
        for method in ("GET", "HEAD"):
            status, headers, _ = process.request(method, "/", key=None)
            assert (status, headers["Location"]) == (302, "/docs"), (status, headers)
        assert process.request("GET", headers["Location"], key=None)[0] == 200


def a_client_that_leaves_does_not_take_its_sandbox_along():
    with server() as process:
        body = (b'{"image": {"uri": "host"}, "entrypoint": ["sleep", "600"], "timeout": 600,'
                b' "resourceLimits": {}}')
        for _ in range(50):
            with socket.create_connection((process.host, process.port)) as sock:
                sock.sendall(b"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Type: "
                             b"application/json\r\nOPEN-SANDBOX-API-KEY: "
                             + process.api_key.encode() + b"\r\nContent-Length: "
                             + str(len(body)).encode() + b"\r\n\r\n" + body)
        wait_for(lambda: process.request("GET", "/v1/sandboxes?state=Running")[2]["pagination"]
                 ["totalItems"] == 50, "50 sandboxes")
        items = process.request("GET", "/v1/sandboxes?pageSize=100")[2]["items"]
        for item in items:
            assert process.request("DELETE", f"/v1/sandboxes/{item['id']}")[0] == 204
        assert not list((process.state / "server" / "sandboxes").iterdir())


if __name__ == "__main__":
    tap.skip_all(why_not())
    sys.exit(tap.run_tests([
        a_second_server_is_told_why_it_cannot_start,
        a_directory_of_another_user_is_refused,
        a_link_in_place_of_the_volumes_is_not_followed,
        limits_of_the_configuration_are_those_of_the_server,
        a_reload_keeps_images_that_only_root_can_open,
        a_reload_names_directories_that_the_broker_does_not_know,
        a_server_that_is_loading_can_be_stopped,
        being_asked_twice_to_stop_under_load_is_a_clean_end,
        expiry_comes_when_the_store_failed_for_a_while,
        a_pause_that_the_store_refuses_has_no_effect,
        an_expiry_that_the_store_does_not_know_costs_no_processor,
        reads_go_on_while_the_store_hangs,
        a_store_that_hangs_is_reported,
        a_store_that_is_busy_is_no_fault_of_ours,
        a_client_that_watches_causes_few_writes,
        a_broker_that_hangs_is_reported_at_once,
        a_broker_that_hangs_blocks_one_worker_for_all_probes,
        a_broker_that_hangs_is_waited_for_as_long_as_it_makes_sense,
        what_a_broker_does_too_late_is_found_out,
        a_client_that_only_connects_is_no_request,
        more_requests_than_allowed_are_told_to_come_again,
        half_requests_without_a_key_do_not_block_others,
        half_requests_to_a_server_without_keys_do_not_block_others,
        refusals_are_logged_in_few_lines,
        the_root_leads_to_the_documentation,
        a_client_that_leaves_does_not_take_its_sandbox_along,
    ]))
