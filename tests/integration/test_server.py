"""The server's own conduct: states, races, deadlines, signals, privileges.

Usage: test_server.py SERVER BROKER EXECD SANDBOXCTL. TAP on standard output. Needs root.
"""
import concurrent.futures
import contextlib
import datetime
import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from broker_process import is_alive, wait_for  # noqa: E402
from server_faults import stamp  # noqa: E402
from server_process import ServerProcess, free_port, why_not  # noqa: E402
from server_use import Gateway  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:5]]
BURST = 100
LATE_SECONDS_MAX = 5
SERVER = None  # one for all tests that need no other


def request_of(**fields):
    return {"image": {"uri": "host"}, "entrypoint": ["sleep", "1000000"], "timeout": 600,
            "resourceLimits": {"cpu": "1", "memory": "256Mi"}, **fields}


def post(server=None, **fields):
    """Status and body of a create."""
    status, _, body = (server or SERVER).request("POST", "/v1/sandboxes", request_of(**fields))
    return status, body


def get(name, server=None):
    status, _, body = (server or SERVER).request("GET", f"/v1/sandboxes/{name}")
    return status, body


def renew(name, seconds, server=None):
    status, _, body = (server or SERVER).request(
        "POST", f"/v1/sandboxes/{name}/renew-expiration", {"expiresAt": stamp(seconds)})
    return status, body


def delete(name, server=None):
    return (server or SERVER).request("DELETE", f"/v1/sandboxes/{name}")[0]


def delete_all(server=None):
    server = server or SERVER
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        _, _, body = server.request("GET", "/v1/sandboxes?pageSize=200")
        list(pool.map(lambda item: delete(item["id"], server), body["items"]))
    wait_for(lambda: server.broker.list() == [], "the end of all sandboxes")


def is_gone(name, server=None):
    server = server or SERVER
    return get(name, server)[0] == 404 and server.broker.sandbox(name) is None


def ends_as(state, **fields):
    """The status of a sandbox that ends by itself."""
    status, body = post(**fields)
    assert status == 202, body
    wait_for(lambda: get(body["id"])[1]["status"]["state"] in ("Failed", "Terminated"), "its end")
    shown = get(body["id"])[1]["status"]
    assert shown["state"] == state, shown
    assert delete(body["id"]) == 204 and is_gone(body["id"])
    print(f"# {shown['reason']}: {shown['message']}")
    return shown


# --- create ---


def a_hundred_creates_do_not_wait_for_each_other():
    slowest, over = 0.0, threading.Event()

    def watch():
        nonlocal slowest
        while not over.is_set():
            begin = time.monotonic()
            assert SERVER.request("GET", "/health", key=None)[0] == 200
            slowest = max(slowest, time.monotonic() - begin)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(BURST) as pool:
        answers = list(pool.map(lambda _: post(), range(BURST)))
    assert all(status == 202 for status, _ in answers), answers
    assert {body["status"]["state"] for _, body in answers} <= {"Pending", "Running"}, answers
    for _, body in answers:
        SERVER.wait_state(body["id"], "Running")
    seconds = time.monotonic() - begin
    over.set()
    watcher.join()
    print(f"# {BURST} in {seconds * 1000:.0f} ms; /health took at most {slowest * 1000:.1f} ms")
    assert len({body["id"] for _, body in answers}) == BURST
    delete_all()


def a_create_may_be_deleted_at_once():
    """Also while it is Pending: nothing is left, and who asked for it is told."""
    def create_and_delete(_):
        status, body = post()
        assert status == 202, body
        return body["status"]["state"], delete(body["id"]), body["id"]

    def delete_what_shows(deleted, over):
        while not over.is_set():
            for item in SERVER.request("GET", "/v1/sandboxes?state=Pending")[2]["items"]:
                deleted.append(delete(item["id"]))

    over, deleted = threading.Event(), []
    hunter = threading.Thread(target=delete_what_shows, args=(deleted, over), daemon=True)
    hunter.start()
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        done = list(pool.map(create_and_delete, range(60)))
    over.set()
    hunter.join()
    print(f"# {len(deleted)} deleted while Pending")
    assert all(status in (204, 404) for _, status, _ in done), done
    assert set(deleted) <= {204, 404}, deleted
    assert all(is_gone(name) for _, _, name in done)
    assert SERVER.broker.list() == []
    assert os.listdir(SERVER.state / "server/sandboxes") == []


# --- how sandboxes end ---


def says_why_an_entrypoint_never_ran():
    status = ends_as("Failed", entrypoint=["/no/such/program", "x"])
    assert status["reason"] in ("CONTAINER_EXITED_ERROR", "PROVISIONING_ERROR"), status
    assert "/no/such/program" in status["message"], status
    assert "No such file or directory" in status["message"], status


def exit_0_is_terminated():
    status = ends_as("Terminated", entrypoint=["sh", "-c", "sleep 0.2; exit 0"])
    assert status["reason"] == "CONTAINER_EXITED" and "status 0" in status["message"], status


def exit_3_is_failed():
    status = ends_as("Failed", entrypoint=["sh", "-c", "sleep 0.2; exit 3"])
    assert status["reason"] == "CONTAINER_EXITED_ERROR", status
    assert "status 3" in status["message"], status


def a_signal_is_failed():
    status = ends_as("Failed", entrypoint=["sh", "-c", "sleep 0.2; kill -TERM $$"])
    assert "signal 15" in status["message"], status


def running_out_of_memory_is_named():
    status = ends_as("Failed", entrypoint=["tail", "/dev/zero"],
                     resourceLimits={"cpu": "1", "memory": "64Mi"})
    assert "memory" in status["message"], status


EDGE = "an-edge-that-no-file-contains"


def multipart(path, content):
    part = f'--{EDGE}\r\nContent-Disposition: form-data; name="%s"; filename="x"\r\n\r\n'
    metadata = json.dumps({"path": path, "mode": 644})
    return (f"{part % 'metadata'}{metadata}\r\n{part % 'file'}".encode() + content +
            f"\r\n--{EDGE}--\r\n".encode())


def half_of_the_memory_may_be_files_in_tmp():
    _, body = post(entrypoint=["sh", "-c", "df -B1M --output=size /tmp; sleep 1000"],
                   resourceLimits={"cpu": "1", "memory": "512Mi"})
    base = f"/v1/sandboxes/{body['id']}"
    wait_for(lambda: b"256" in SERVER.request("GET", f"{base}/diagnostics/logs")[2], "its size")
    # What is uploaded is execd's memory, which must bear it. Zeros would be a hole.
    status, _, answer = SERVER.request(
        "POST", f"{base}/proxy/44772/files/upload", multipart("/tmp/big", os.urandom(200 << 20)),
        headers={"Content-Type": f"multipart/form-data; boundary={EDGE}"})
    assert status == 200, (status, answer)
    assert get(body["id"])[1]["status"]["state"] == "Running"
    assert delete(body["id"]) == 204


def history_is_kept_until_the_end():
    _, body = post(entrypoint=["sh", "-c", "echo out; sleep 0.2; exit 3"])
    name = body["id"]
    wait_for(lambda: get(name)[1]["status"]["state"] == "Failed", "its end")
    status, _, text = SERVER.request("GET", f"/v1/sandboxes/{name}/diagnostics/events")
    assert status == 200, text
    words = [line.split()[1] for line in text.decode().splitlines()]
    assert words == ["Pending", "Running", "Failed"], text
    for limit, truncated in ((3, False), (2, True)):
        path = f"/v1/sandboxes/{name}/diagnostics/events?scope=lifecycle&limit={limit}"
        _, _, answer = SERVER.request("GET", path)
        assert answer["truncated"] is truncated, answer
    status, _, text = SERVER.request("GET", f"/v1/sandboxes/{name}/diagnostics/logs")
    assert status == 200 and b"out" in text, text
    assert delete(name) == 204
    assert SERVER.request("GET", f"/v1/sandboxes/{name}/diagnostics/events")[0] == 404


def inspection_tells_of_limits_and_end_and_hides_secrets():
    env = {"PLAIN": "shown", "LINES": "a\nb", "My_Api_Key": "hush1", "DB_PASSWORD": "hush2",
           "DB_URL": "postgres://ann:hush3@db/x", "GITHUB_PAT": "hush4"}
    _, body = post(entrypoint=["sh", "-c", "sleep 0.2; exit 3"], env=env)
    wait_for(lambda: get(body["id"])[1]["status"]["state"] == "Failed", "its end")
    text = SERVER.request("GET", f"/v1/sandboxes/{body['id']}/diagnostics/inspect")[2].decode()
    lines = {" ".join(line.split()) for line in text.splitlines()}
    for line in ("env: PLAIN=shown", "env: My_Api_Key=***", "env: DB_PASSWORD=***",
                 "env: DB_URL=***", "env: GITHUB_PAT=***", 'env: LINES="a\\nb"', "exit code: 3",
                 "cpu limit: 1000 millicores",
                 "mem. limit: 268435456 bytes", "disk limit: the server's default"):
        assert line in lines, (line, text)
    assert "platform:" in text and "hush" not in text, text
    assert delete(body["id"]) == 204


def logs_have_times_and_can_be_asked_for_since_one():
    name = SERVER.create(entrypoint=["sh", "-c", "echo early; sleep 4; echo late; sleep 1000"])

    def logs(query=""):
        status, _, text = SERVER.request("GET", f"/v1/sandboxes/{name}/diagnostics/logs{query}")
        assert status == 200, text
        return text.decode()

    wait_for(lambda: "late" in logs(), "the second line")
    rows = [line.split(" ") for line in logs().splitlines()]
    assert [row[1] for row in rows] == ["early", "late"], rows
    early, late = (datetime.datetime.fromisoformat(row[0].replace("Z", "+00:00")) for row in rows)
    assert 3 < (late - early).total_seconds() < 30, rows
    assert "early" not in logs("?since=3s") and "late" in logs("?since=3s")
    assert "early" in logs("?since=1h") and "early" in logs("?since=nonsense")
    assert "early" not in logs("?since=1h&tail=1")
    for days in (107000000, 2147483647):  # more microseconds than 64 bits hold
        assert "early" in logs(f"?since={days}d"), days
    assert delete(name) == 204


# --- expiry ---


def expires_in_time():
    names = [SERVER.create() for _ in range(3)]
    SERVER.request("POST", f"/v1/sandboxes/{names[1]}/pause")
    for name in names[:2]:
        assert renew(name, 1)[0] == 200
    due = time.time() + 1
    time.sleep(0.7)
    assert get(names[0])[0] == 200 and get(names[1])[0] == 200, "too early"
    wait_for(lambda: is_gone(names[0]) and is_gone(names[1]), "their end", 1 + LATE_SECONDS_MAX)
    print(f"# gone {time.time() - due:.2f} s after their time")
    assert get(names[2])[0] == 200
    assert delete(names[2]) == 204


def a_renewal_wins_or_loses_against_the_expiry():
    """Never both: who was told that it lives on has it, who was refused has not."""
    def race(i):
        name = SERVER.create()
        assert renew(name, 0.5)[0] == 200
        time.sleep(0.5 - 0.02 + 0.002 * (i % 20))
        return name, renew(name, 600)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        done = list(pool.map(race, range(60)))
    time.sleep(1)
    won = [name for name, (status, _) in done if status == 200]
    lost = [name for name, (status, _) in done if status in (404, 409)]
    print(f"# {len(won)} renewals won, {len(lost)} lost")
    assert len(won) + len(lost) == len(done), done
    assert all(get(name)[1]["status"]["state"] == "Running" for name in won)
    assert all(is_gone(name) for name in lost)
    delete_all()


def a_renewal_is_not_taken_back_by_use():
    """Access pushes the expiry on; a request that pushed it further at that moment stands."""
    config = {"renew_intent": {"enabled": True, "min_interval_seconds": 1}}
    with ServerProcess(*PROGRAMS, config=config) as server:
        other = http.client.HTTPConnection(server.host, server.port)
        headers = {"OPEN-SANDBOX-API-KEY": server.api_key, "Content-Type": "application/json"}
        for _ in range(20):
            name = server.create(timeout=60, extensions={"access.renew.extend.seconds": "300"})
            wanted = stamp(3600)
            with Gateway(server, name) as box:
                box.connection.connect()
                other.request("POST", f"/v1/sandboxes/{name}/renew-expiration",
                              json.dumps({"expiresAt": wanted}), headers)
                assert box.ask("GET", "/ping") is not None  # sent while the other is under way
                reply = other.getresponse()
                assert reply.status == 200 and json.load(reply) == {"expiresAt": wanted}
            time.sleep(0.02)
            shown = get(name, server)[1]["expiresAt"]
            assert shown == wanted, f"{shown}, although {wanted} was the answer"
            assert delete(name, server) == 204
        other.close()


def use_pushes_the_expiry_on():
    config = {"renew_intent": {"enabled": True, "min_interval_seconds": 1}}
    with ServerProcess(*PROGRAMS, config=config) as server:
        asked = server.create(timeout=60, extensions={"access.renew.extend.seconds": "300"})
        other = server.create(timeout=60)
        before = {name: get(name, server)[1]["expiresAt"] for name in (asked, other)}
        for name in (asked, other):
            with Gateway(server, name) as box:
                box.ask("GET", "/ping")
        wait_for(lambda: get(asked, server)[1]["expiresAt"] > before[asked], "a later expiry", 3)
        assert stamp(290) < get(asked, server)[1]["expiresAt"] < stamp(301)
        assert get(other, server)[1]["expiresAt"] == before[other]
        delete_all(server)


@contextlib.contextmanager
def small_disk():
    with tempfile.TemporaryDirectory(prefix="osb-disk-") as folder:
        os.chmod(folder, 0o711)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=711", "tmpfs", folder],
                       check=True)
        try:
            yield pathlib.Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


def expires_on_a_full_disk():
    """The sandbox goes, which may be what fills it, and what tells of it once there is room."""
    with small_disk() as folder:
        config = {"store": {"path": str(folder / "own/db")}, "server": {"api_key": "key"}}
        with ServerProcess(*PROGRAMS, config=config) as server:
            def ask(method, path, body=None):
                return server.request(method, path, body, key="key")

            status, _, body = ask("POST", "/v1/sandboxes", request_of())
            assert status == 202, body
            path = f"/v1/sandboxes/{body['id']}"
            wait_for(lambda: ask("GET", path)[2]["status"]["state"] == "Running", "it to run")
            assert ask("POST", path + "/renew-expiration", {"expiresAt": stamp(1)})[0] == 200
            fill(folder / "full")
            status, _, refused = ask("PATCH", path + "/metadata", {"x": "y" * 60})
            assert status == 503 and "full" in refused["message"], (status, refused)
            wait_for(lambda: "full" in ask("GET", "/ready")[2].get("message", ""), "word of it")
            wait_for(lambda: server.broker.list() == [], "its end")
            wait_for(lambda: ask("GET", path)[2]["status"]["state"] == "Stopping", "its state")
            (folder / "full").unlink()
            wait_for(lambda: ask("GET", path)[0] == 404, "the end of its row", LATE_SECONDS_MAX)


def deletes_on_a_full_disk():
    """The sandbox goes, and what tells of it once there is room."""
    with small_disk() as folder:
        config = {"store": {"path": str(folder / "own/db")}, "server": {"api_key": "key"}}
        with ServerProcess(*PROGRAMS, config=config) as server:
            def ask(method, path, body=None):
                return server.request(method, path, body, key="key")

            path = f"/v1/sandboxes/{ask('POST', '/v1/sandboxes', request_of())[2]['id']}"
            wait_for(lambda: ask("GET", path)[2]["status"]["state"] == "Running", "it to run")
            fill(folder / "full")
            status, _, body = ask("DELETE", path)
            assert (status, body["code"]) == (503, "SERVICE_UNAVAILABLE"), (status, body)
            assert "full" in body["message"], body
            assert server.broker.list() == []
            assert ask("GET", path)[2]["status"]["state"] == "Stopping"
            (folder / "full").unlink()
            wait_for(lambda: ask("GET", path)[0] == 404, "its end", LATE_SECONDS_MAX)


def fill(path):
    with open(path, "wb", buffering=0) as file:
        for size in (65536, 4096):
            with contextlib.suppress(OSError):
                while file.write(b"x" * size) == size:
                    pass


# --- answers ---


def unknown_ids_are_404_on_every_route():
    text = subprocess.run([PROGRAMS[0], "--print-routes"], capture_output=True, text=True,
                          check=True).stdout
    rows = [line.split() for line in text.splitlines() if "{sandboxId}" in line
            or "{snapshotId}" in line]
    assert len(rows) > 25, rows
    bodies = {"renew-expiration": {"expiresAt": stamp(60)}, "metadata": {"a": "b"}}
    for method, path in rows:
        verb = path.rsplit("/", 1)[1]
        path = path.replace("{sandboxId}", "no-such").replace("{snapshotId}", "no-such")
        path = path.replace("{port}", "44772").replace("*", "ping")
        for one in ("GET", "POST") if method == "*" else (method,):
            status, _, body = SERVER.request(one, path, bodies.get(verb))
            assert status == 404 and body["code"].endswith("NOT_FOUND"), (one, path, status, body)
            assert "no-such" in body["message"], body


def concurrent_patches_lose_nothing():
    name = SERVER.create(metadata={"first": "1"})

    def patch(i):
        return SERVER.request("PATCH", f"/v1/sandboxes/{name}/metadata", {f"k{i}": str(i)})[0]

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert set(pool.map(patch, range(48))) == {200}
    want = {"first": "1", **{f"k{i}": str(i) for i in range(48)}}
    assert get(name)[1]["metadata"] == want
    status, _, body = SERVER.request("PATCH", f"/v1/sandboxes/{name}/metadata", {"first": None})
    assert status == 200 and "first" not in body["metadata"], body
    assert delete(name) == 204


def lists_by_page_and_filter():
    names = [SERVER.create(metadata={"i": str(i), "odd": str(i % 2)}) for i in range(5)]
    SERVER.request("POST", f"/v1/sandboxes/{names[0]}/pause")

    def ids(query):
        status, _, body = SERVER.request("GET", "/v1/sandboxes?" + query)
        assert status == 200, body
        return [item["id"] for item in body["items"]], body["pagination"]

    found, page = ids("pageSize=2&page=1")
    assert found == names[:2:-1], "newest first"
    assert page == {"page": 1, "pageSize": 2, "totalItems": 5, "totalPages": 3,
                    "hasNextPage": True}, page
    assert ids("pageSize=2&page=3")[0] == [names[0]]
    assert ids("pageSize=2&page=9") == ([], {"page": 9, "pageSize": 2, "totalItems": 5,
                                              "totalPages": 3, "hasNextPage": False})
    assert ids("metadata=odd%3D1")[0] == [names[3], names[1]]
    assert ids("metadata=odd%3D1%26i%3D3")[0] == [names[3]]
    assert ids("state=paused")[0] == [names[0]]
    assert ids("state=paused&state=RUNNING")[1]["totalItems"] == 5
    assert ids("state=Failed")[1]["totalPages"] == 0
    for query in ("page=0", "pageSize=201", "page=x", "metadata=nothing"):
        assert SERVER.request("GET", "/v1/sandboxes?" + query)[0] == 400, query
    delete_all()


def names_every_request():
    _, headers, _ = SERVER.request("GET", "/v1/sandboxes", headers={"X-Request-ID": "mine-1"})
    assert headers["X-Request-ID"] == "mine-1"
    made = {SERVER.request("GET", path, key=key)[1]["X-Request-ID"]
            for path in ("/health", "/v1/sandboxes", "/nowhere") for key in ("", None)}
    assert len(made) == 6 and all(len(text) == 32 for text in made), made
    for odd in ("x" * 5000, "a\tb"):
        _, headers, _ = SERVER.request("GET", "/health", headers={"X-Request-ID": odd})
        assert len(headers["X-Request-ID"]) == 32, headers["X-Request-ID"]


# --- signals ---


def reloads_at_sighup():
    with ServerProcess(*PROGRAMS, config={"server": {"api_key": "old"}}) as server:
        def works(key):
            return server.request("GET", "/v1/sandboxes", key=key)[0] == 200

        assert works("old") and not works("new")
        server.config = {"server": {"api_key": "new"}, "log": {"level": "DEBUG"}}
        server.write_config()
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: works("new"), "the new key")
        assert not works("old")
        assert "DEBUG" in server.log(), "requests that only read are logged at DEBUG"
        server.config_path.write_text("[server]\nport = 'no'\n")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "cannot reload" in server.log(), "a complaint")
        assert works("new") and not works("old")


def reloads_a_file_that_only_root_can_read():
    server = ServerProcess(*PROGRAMS, config={"server": {"api_key": "old"}})
    home = server.folder / "home"
    home.mkdir(mode=0o700)
    server.config_path = home / ".sandbox.toml"
    server.config_mode = 0o600
    with server:
        def works(key):
            return server.request("GET", "/v1/sandboxes", key=key)[0] == 200

        for key in ("new", "newer"):  # the second one is another file of that name
            server.config = {"server": {"api_key": key}}
            server.write_config()
            server.process.send_signal(signal.SIGHUP)
            wait_for(lambda: works(key), f"the key {key}")
            server.config_path.rename(home / "before")
        server.config_path.symlink_to("before")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "cannot reload" in server.log(), "a complaint about the link")
        assert works("newer")
        server.config_path.unlink()


def logs_requests_as_json_whatever_they_hold():
    log = {"file_enabled": True, "format": "json"}
    with ServerProcess(*PROGRAMS, config={"log": log}) as server:
        asked = {"X-Request-ID": 'a "b" \\'}
        server.request("GET", '/v1/"\\', headers=asked)
        path = server.folder / "logs/opensandbox/access.log"
        wait_for(lambda: '"status":404' in path.read_text(), "the line of the request")
        last = [json.loads(line) for line in path.read_text().splitlines()][-1]
        assert (last["path"], last["status"], last["request_id"]) == \
            ('/v1/"\\', 404, asked["X-Request-ID"]), last
        assert last["peer"].startswith("127.0.0.1:") and last["method"] == "GET", last


def forgets_what_was_secret():
    with ServerProcess(*PROGRAMS, config={"embedded": {"reconcile_seconds": 1}}) as server:
        def keepers():
            files = (server.state / "server").glob("opensandbox.db*")
            return [path.name for path in files if b"sesame-open" in path.read_bytes()]

        name = server.create(metadata={"word": "sesame-open"})
        assert keepers(), "it is kept as long as its sandbox"
        assert server.request("DELETE", f"/v1/sandboxes/{name}")[0] == 204
        wait_for(lambda: not keepers(), "its end on the disk")


def logs_who_broke_a_request_off():
    log = {"file_enabled": True, "format": "json"}
    with ServerProcess(*PROGRAMS, config={"log": log}) as server:
        client = http.client.HTTPConnection(server.host, server.port)
        client.putrequest("POST", "/v1/sandboxes")
        client.putheader("OPEN-SANDBOX-API-KEY", server.api_key)
        client.putheader("Content-Length", "9")
        client.endheaders(b"{")
        host, port = client.sock.getsockname()
        client.close()
        path = server.folder / "logs/opensandbox/access.log"
        wait_for(lambda: '"POST"' in path.read_text(), "the line of the request")
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert [line["peer"] for line in lines if line["method"] == "POST"] == [f"{host}:{port}"]


def logs_to_files_of_a_home_that_only_root_enters():
    log = {"file_enabled": True, "file_max_bytes": 2000}
    server = ServerProcess(*PROGRAMS, config={"log": log})
    home = server.folder / "home"
    home.mkdir(mode=0o700)
    server.env["HOME"] = str(home)
    logs = home / "logs" / "opensandbox"
    with server:
        for _ in range(40):
            assert server.request("GET", "/v1/sandboxes")[0] == 200
        assert "listening" in (logs / "server.log").read_text()
        wait_for((logs / "access.log.1").exists, "a log that was put aside")
        wait_for((logs / "access.log").exists, "the one after it")
        assert logs.stat().st_uid == (logs / "access.log").stat().st_uid != 0
        assert (home / "logs").stat().st_uid == 0
        server.restart()  # now the files are there
        (logs / "server.log").rename(logs / "moved")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "reloaded" in (logs / "server.log").read_text()
                 if (logs / "server.log").exists() else False, "a new log")


def drains_and_leaves_sandboxes_running():
    with ServerProcess(*PROGRAMS) as server:
        name, idle = server.create(metadata={"a": "b"}), server.create()
        server.request("POST", f"/v1/sandboxes/{idle}/pause")
        before = get(name, server)[1]
        pids = [sandbox.pid for sandbox in server.broker.list()]
        with Gateway(server, name) as box:
            reply = box.start("echo begin; sleep 2; echo end")
            text = b""
            while b"begin" not in text:
                text += reply.read1(4096)
            server.process.send_signal(signal.SIGTERM)
            text += reply.read()
        assert b'"end"' in text and b"execution_complete" in text, text
        assert server.process.wait(20) == 0, server.log()[-2000:]
        assert all(map(is_alive, pids)), "sandboxes live on"
        server.start()
        assert get(name, server)[1] == before
        assert get(idle, server)[1]["status"]["state"] == "Paused"
        with Gateway(server, name) as box:
            assert box.run("echo still here") == "still here"
        assert server.request("POST", f"/v1/sandboxes/{idle}/resume")[0] == 202
        with Gateway(server, idle) as box:
            assert box.run("echo awake") == "awake"


def stops_while_it_starts():
    with ServerProcess(*PROGRAMS) as server:
        for i in range(12):
            server.stop()
            server.start(wait=False)
            time.sleep(0.02 * i)
            server.process.send_signal(signal.SIGTERM)
            try:
                server.process.wait(10)
            except subprocess.TimeoutExpired:
                raise AssertionError(f"it goes on after SIGTERM:\n{server.log()[-2000:]}") from None
        server.start()


def sees_what_ended_while_it_was_away():
    with ServerProcess(*PROGRAMS) as server:
        ends, dies = server.create(entrypoint=["sleep", "1"]), server.create()
        late = server.create()
        assert renew(late, 1, server)[0] == 200
        pid = server.broker.sandbox(dies).pid
        server.stop()
        os.kill(pid, signal.SIGKILL)
        time.sleep(1.5)
        server.start()
        assert get(late, server)[0] == 404 and server.broker.sandbox(late) is None
        assert get(ends, server)[1]["status"]["state"] == "Terminated", get(ends, server)
        status = get(dies, server)[1]["status"]
        assert status["state"] == "Failed" and "signal 9" in status["message"], status


# --- privileges ---


def has_none():
    text = pathlib.Path(f"/proc/{SERVER.pid}/status").read_text(encoding="ascii")
    rows = dict(line.split(":\t", 1) for line in text.splitlines())
    assert "0" not in rows["Uid"].split() and "0" not in rows["Gid"].split(), rows
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(rows[name], 16) == 0, (name, rows[name])
    assert rows["NoNewPrivs"] == "1" and rows["Groups"].strip() == "", rows
    for thread in os.listdir(f"/proc/{SERVER.pid}/task"):
        path = pathlib.Path(f"/proc/{SERVER.pid}/task/{thread}/status")
        assert "CapEff:\t0000000000000000" in path.read_text(encoding="ascii"), thread


def refuses_the_state_of_another():
    before, name = SERVER.log(), SERVER.create()
    command = [PROGRAMS[0], "--config", str(SERVER.config_path), "--port", str(free_port())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done
    assert "another" in done.stderr and str(SERVER.state) in done.stderr, done.stderr
    assert SERVER.process.poll() is None and SERVER.log().startswith(before)
    with Gateway(SERVER, name) as box:
        assert box.run("echo fine") == "fine"
    assert delete(name) == 204 and delete(SERVER.create()) == 204


if __name__ == "__main__":
    tap.skip_all(why_not())
    with ServerProcess(*PROGRAMS) as SERVER:
        result = tap.run_tests([
            a_hundred_creates_do_not_wait_for_each_other,
            a_create_may_be_deleted_at_once,
            says_why_an_entrypoint_never_ran,
            exit_0_is_terminated,
            exit_3_is_failed,
            a_signal_is_failed,
            running_out_of_memory_is_named,
            half_of_the_memory_may_be_files_in_tmp,
            history_is_kept_until_the_end,
            inspection_tells_of_limits_and_end_and_hides_secrets,
            logs_have_times_and_can_be_asked_for_since_one,
            expires_in_time,
            a_renewal_wins_or_loses_against_the_expiry,
            a_renewal_is_not_taken_back_by_use,
            use_pushes_the_expiry_on,
            expires_on_a_full_disk,
            deletes_on_a_full_disk,
            unknown_ids_are_404_on_every_route,
            concurrent_patches_lose_nothing,
            lists_by_page_and_filter,
            names_every_request,
            reloads_at_sighup,
            reloads_a_file_that_only_root_can_read,
            logs_requests_as_json_whatever_they_hold,
            logs_who_broke_a_request_off,
            forgets_what_was_secret,
            logs_to_files_of_a_home_that_only_root_enters,
            drains_and_leaves_sandboxes_running,
            stops_while_it_starts,
            sees_what_ended_while_it_was_away,
            has_none,
            refuses_the_state_of_another,
        ])
    sys.exit(result)
