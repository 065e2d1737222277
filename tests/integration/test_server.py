"""The server's own conduct: states, races, deadlines, signals, privileges.

Usage: test_server.py SERVER BROKER EXECD SANDBOXCTL. TAP on standard output. Needs root.
"""
import concurrent.futures
import contextlib
import glob
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from broker_process import children, is_alive  # noqa: E402
from server_faults import seconds_of, stamp  # noqa: E402
from server_process import SECONDS_MAX, ServerProcess, wait_for, why_not  # noqa: E402
from server_use import Gateway  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:5]]
BURST = 100
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


def expire_soon(name, server=None, seconds=1):
    """When it does; later where this machine is so slow that a second is over before it begins."""
    status, body = renew(name, seconds, server)
    while status == 400 and seconds < 100:
        seconds *= 2
        status, body = renew(name, seconds, server)
    assert status == 200, body
    return seconds_of(body["expiresAt"])


def sleep_until(when):
    time.sleep(max(when - time.time(), 0))


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
    """The status of a sandbox that ends by itself. The gateway reports the same."""
    status, body = post(**fields)
    assert status == 202, body
    wait_for(lambda: get(body["id"])[1]["status"]["state"] in ("Failed", "Terminated"), "its end")
    shown = get(body["id"])[1]["status"]
    assert shown["state"] == state, shown
    status, _, answer = SERVER.request("GET", f"/v1/sandboxes/{body['id']}/proxy/44772/ping")
    assert status == 503 and answer["message"].endswith(": " + shown["message"]), answer
    status, _, answer = SERVER.request("GET", f"/v1/sandboxes/{body['id']}/endpoints/44772")
    assert (status, answer["code"]) == (409, "DOCKER::SANDBOX_NOT_RUNNING"), (status, answer)
    assert answer["message"].endswith(": " + shown["message"]), answer
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
    """Also while it is Pending: nothing is left, and the create request gets an answer."""
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


def nothing_is_left():
    _, _, listing = SERVER.request("GET", "/v1/sandboxes")
    assert listing["pagination"]["totalItems"] == 0, listing
    assert SERVER.broker.list() == []
    assert os.listdir(SERVER.state / "server/sandboxes") == []


def refuses_an_entrypoint_that_cannot_start():
    """The create itself says why, and leaves nothing. Which files there are is execd's to find out:
    a volume brings scripts without an interpreter or without the right to run."""
    script = "mkdir -p /data/d; cd /data; echo x >plain; printf '#!/no/such/sh\\n' >bad; " \
             "printf '\\177ELF?' >torn; chmod 755 bad torn; ln -s loop loop"
    volume = {"name": "data", "mountPath": "/data", "pvc": {"claimName": "programs"}}
    _, body = post(entrypoint=["sh", "-c", f"{script}; echo made; sleep 1000000"],
                   volumes=[{**volume, "pvc": {**volume["pvc"], "createIfNotExists": True}}])
    path = f"/v1/sandboxes/{body['id']}/diagnostics/logs"
    wait_for(lambda: b"made" in SERVER.request("GET", path)[2], "the programs")
    assert delete(body["id"]) == 204
    for program, words in (("/no/such/program", "No such file"),
                           ("no-such-program", "No such file"),
                           ("/etc/hostname", "Permission denied"), ("/etc", "Permission denied"),
                           ("/etc/hostname/x", "Not a directory"), ("/data/bad", "No such file"),
                           ("/data/plain", "Permission denied"), ("/data/torn", "Exec format"),
                           ("/data/loop", "ymbolic link"), ("/" + "x" * 300, "exec")):
        for _ in range(5):  # a machine that stood still for 2 s answers Pending: once more then
            status, body = post(entrypoint=[program, "x"], volumes=[volume])
            if status != 202:
                break
            assert body["status"]["state"] == "Pending", body
            assert delete(body["id"]) == 204
        assert (status, body["code"]) == (400, "DOCKER::INVALID_ENTRYPOINT"), (status, body)
        assert program[:40] in body["message"] and words in body["message"], body
        assert body["message"].startswith("entrypoint: "), body
        nothing_is_left()
    assert "operation failed" not in SERVER.log()


def says_why_an_entrypoint_never_ran_to_one_told_of_pending():
    """While the broker stands still a create can only answer Pending."""
    helpers = children(SERVER.pid)
    helpers += [pid for helper in helpers for pid in children(helper)]
    for pid in helpers:
        os.kill(pid, signal.SIGSTOP)
    try:
        status, body = post(entrypoint=["/no/such/program"])
    finally:
        for pid in helpers:
            os.kill(pid, signal.SIGCONT)
    assert (status, body["status"]["state"]) == (202, "Pending"), (status, body)
    wait_for(lambda: get(body["id"])[1]["status"]["state"] == "Failed", "its failure")
    shown = get(body["id"])[1]["status"]
    assert shown["reason"] == "PROVISIONING_ERROR", shown
    assert "/no/such/program" in shown["message"] and "No such file" in shown["message"], shown
    status, _, answer = SERVER.request("GET", f"/v1/sandboxes/{body['id']}/endpoints/44772")
    assert status == 409 and answer["message"].endswith(": " + shown["message"]), answer
    assert delete(body["id"]) == 204 and is_gone(body["id"])
    nothing_is_left()


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


def limit_execd_memory(name, more_bytes):
    """Leaves execd of a sandbox so many bytes beside what it uses now."""
    slot = SERVER.broker.sandbox(name).slot
    for now, limit in (("memory.usage_in_bytes", "memory.limit_in_bytes"),
                       ("memory.current", "memory.max")):
        for group in glob.glob(f"/sys/fs/cgroup/**/{SERVER.broker.group}/{slot}/init",
                               recursive=True):
            with contextlib.suppress(FileNotFoundError):
                used = int(pathlib.Path(group, now).read_text(encoding="ascii"))
                pathlib.Path(group, limit).write_text(str(used + more_bytes), encoding="ascii")


def execd_out_of_memory_is_not_the_workload_out_of_memory():
    _, body = post(entrypoint=["sleep", "1000"])
    name = body["id"]
    limit_execd_memory(name, 2 << 20)
    with contextlib.suppress(OSError, http.client.HTTPException):
        SERVER.request("POST", f"/v1/sandboxes/{name}/proxy/44772/files/replace", b" " * (15 << 20))
    wait_for(lambda: get(name)[1]["status"]["state"] == "Failed", "its end")
    status = get(name)[1]["status"]
    assert "execd ran out of memory" in status["message"], status
    assert delete(name) == 204


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


def inspection_of_a_killed_sandbox_shows_an_unknown_end():
    """The first process is killed from outside, and so noted no time."""
    _, body = post()
    path = f"/v1/sandboxes/{body['id']}/diagnostics/inspect"
    wait_for(lambda: get(body["id"])[1]["status"]["state"] == "Running", "it to run")
    os.kill(int(re.search(rb"pid: +(\d+)", SERVER.request("GET", path)[2])[1]), signal.SIGKILL)
    wait_for(lambda: get(body["id"])[1]["status"]["state"] == "Failed", "its end")
    lines = SERVER.request("GET", path)[2].decode().splitlines()
    assert ["signal:", "9"] in [line.split() for line in lines], lines
    assert ["ended:", "unknown"] in [line.split() for line in lines], lines
    assert delete(body["id"]) == 204


def logs_have_times_and_can_be_asked_for_since_one():
    name = SERVER.create(entrypoint=["sh", "-c", "echo early; while sleep 0.2; do echo late; done"])

    def logs(query=""):
        status, _, text = SERVER.request("GET", f"/v1/sandboxes/{name}/diagnostics/logs{query}")
        assert status == 200, text
        return text.decode()

    def only_late(text):
        return "late" in text and "early" not in text

    wait_for(lambda: only_late(logs("?since=3s")), "the first line to be of long ago")
    rows = [line.split(" ") for line in logs().splitlines()]
    assert [row[1] for row in rows] == ["early"] + ["late"] * (len(rows) - 1), rows
    times = [seconds_of(row[0]) for row in rows]
    assert times == sorted(times) and times[-1] - times[0] > 1, rows
    assert "early" in logs("?since=1h") and "early" in logs("?since=nonsense")
    assert only_late(logs("?since=1h&tail=1"))
    for days in (107000000, 2147483647):  # more microseconds than 64 bits hold
        assert "early" in logs(f"?since={days}d"), days
    assert delete(name) == 204


# --- expiry ---


def expires_in_time():
    """Not earlier, and no other sandbox."""
    names = [SERVER.create() for _ in range(3)]
    SERVER.request("POST", f"/v1/sandboxes/{names[1]}/pause")
    for name in names[:2]:
        due = expire_soon(name)
        wait_for(lambda: is_gone(name), "its end")
        late = time.time() - due
        assert late > 0, f"gone {-late:.2f} s too early"
        print(f"# gone {late:.2f} s after its time")
    assert get(names[2])[0] == 200
    assert delete(names[2]) == 204


def a_renewal_wins_or_loses_against_the_expiry():
    """A renewal that succeeded keeps the sandbox; one that was refused does not."""
    def race(i):
        name = SERVER.create()
        sleep_until(expire_soon(name, seconds=0.5) - 0.02 + 0.002 * (i % 20))
        return name, renew(name, 600)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        done = list(pool.map(race, range(60)))
    won = [name for name, (status, _) in done if status == 200]
    lost = [name for name, (status, _) in done if status in (404, 409)]
    print(f"# {len(won)} renewals won, {len(lost)} lost")
    assert len(won) + len(lost) == len(done), done
    wait_for(lambda: all(map(is_gone, lost)), "the end of those that were not renewed")
    assert all(get(name)[1]["status"]["state"] == "Running" for name in won)
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
            time.sleep(0.02)  # for what should not happen
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
        begin = time.time()
        for name in (asked, other):
            with Gateway(server, name) as box:
                box.ask("GET", "/ping")
        wait_for(lambda: get(asked, server)[1]["expiresAt"] > before[asked], "a later expiry")
        extended = seconds_of(get(asked, server)[1]["expiresAt"]) - 300
        assert begin - 1 < extended < time.time() + 1, extended - begin
        assert get(other, server)[1]["expiresAt"] == before[other]
        delete_all(server)


@contextlib.contextmanager
def small_disk():
    """A server whose store is on a disk that a test may fill, and the file to fill it with."""
    with tempfile.TemporaryDirectory(prefix="osb-disk-") as folder:
        os.chmod(folder, 0o711)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=711", "tmpfs", folder],
                       check=True)
        config = {"store": {"path": f"{folder}/own/db"}, "server": {"api_key": "key"},
                  "runtime": {"reconcile_seconds": 86400}}
        try:
            with ServerProcess(*PROGRAMS, config=config) as server:
                yield server, pathlib.Path(folder, "full")
        finally:
            subprocess.run(["umount", folder], check=True)


def expires_on_a_full_disk():
    """The sandbox, which may be what fills the disk, is removed; its row is removed once there is
    space."""
    with small_disk() as (server, full):
        name = server.create()
        fill(full)
        status, _, body = server.request("PATCH", f"/v1/sandboxes/{name}/metadata", {"x": "y" * 60})
        assert status == 503 and "full" in body["message"], (status, body)
        wait_for(lambda: "full" in server.request("GET", "/ready")[2].get("message", ""), "word")
        full.unlink()
        for seconds in (1, 8, 64):
            name = server.create()
            due = expire_soon(name, server, seconds)
            fill(full)
            if time.time() < due:
                break
            full.unlink()  # it took so long that all may have been over before
        wait_for(lambda: server.broker.sandbox(name) is None, "its end")
        wait_for(lambda: get(name, server)[1]["status"]["state"] == "Stopping", "its state")
        full.unlink()
        wait_for(lambda: get(name, server)[0] == 404, "the end of its row")


def deletes_on_a_full_disk():
    """The sandbox is removed, and its row once there is space."""
    with small_disk() as (server, full):
        name = server.create()
        fill(full)
        status, _, body = server.request("DELETE", f"/v1/sandboxes/{name}")
        assert (status, body["code"]) == (503, "SERVICE_UNAVAILABLE"), (status, body)
        assert "full" in body["message"], body
        assert server.broker.list() == []
        assert get(name, server)[1]["status"]["state"] == "Stopping"
        full.unlink()
        wait_for(lambda: get(name, server)[0] == 404, "its end")


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
        wait_for(lambda: "DEBUG" in server.log(), "requests that only read, which is logged there")
        server.config_path.write_text("[server]\nport = 'no'\n")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "cannot reload" in server.log(), "a complaint")
        assert works("new") and not works("old")


def reloads_what_its_own_account_can_read():
    """The file is root's and of the group of the server's account, 0640."""
    server = ServerProcess(*PROGRAMS, config={"server": {"api_key": "old"}})
    server.config_mode = 0o640
    with server:
        group = (server.state / "server").stat().st_gid
        assert "SIGHUP cannot read the configuration" in server.log()  # its group was root's

        def works(key):
            return server.request("GET", "/v1/sandboxes", key=key)[0] == 200

        server.config = {"server": {"api_key": "new"}}
        server.write_config()
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "cannot reload" in server.log(), "a complaint")
        assert "0640" in server.log() and works("old")
        os.chown(server.config_path, 0, group)
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: works("new"), "the new key")


def access_line(server, word):
    """What the log of requests says of the one with that word, which comes after its answer."""
    path, found = server.folder / "logs/opensandbox/access.log", []

    def look():
        found[:] = [line for line in text_of(path).split("\n")[:-1] if word in line]
        return found

    wait_for(look, f"a line with {word}")
    assert len(found) == 1, found
    return json.loads(found[0])


def text_of(path):
    """Nothing while there is no such file, as between the log of before and the next."""
    with contextlib.suppress(FileNotFoundError):
        return path.read_text(encoding="latin-1")
    return ""


def logs_requests_as_json_whatever_they_hold():
    log = {"file_enabled": True, "format": "json"}
    with ServerProcess(*PROGRAMS, config={"log": log}) as server:
        asked = {"X-Request-ID": 'a "b" \\'}
        server.request("GET", '/v1/"\\', headers=asked)
        line = access_line(server, '"status":404')
        assert (line["path"], line["request_id"]) == ('/v1/"\\', asked["X-Request-ID"]), line
        assert line["peer"].startswith("127.0.0.1:") and line["method"] == "GET", line


def forgets_what_was_secret():
    with ServerProcess(*PROGRAMS, config={"runtime": {"reconcile_seconds": 1}}) as server:
        def keepers():
            files = (server.state / "server").glob("opensandbox.db*")
            return [path.name for path in files if "sesame-open" in text_of(path)]

        name = server.create(metadata={"word": "sesame-open"})
        assert keepers(), "it is kept as long as its sandbox"
        assert server.request("DELETE", f"/v1/sandboxes/{name}")[0] == 204
        wait_for(lambda: not keepers(), "its end on the disk")


def logs_the_peer_of_an_aborted_request():
    log = {"file_enabled": True, "format": "json"}
    with ServerProcess(*PROGRAMS, config={"log": log}) as server:
        client = http.client.HTTPConnection(server.host, server.port)
        client.putrequest("POST", "/v1/sandboxes")
        client.putheader("OPEN-SANDBOX-API-KEY", server.api_key)
        client.putheader("Content-Length", "9")
        client.endheaders(b"{")
        host, port = client.sock.getsockname()
        client.close()
        assert access_line(server, '"POST"')["peer"] == f"{host}:{port}"


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
        assert "listening" in text_of(logs / "server.log")
        wait_for((logs / "access.log.1").exists, "a log that was put aside")
        assert logs.stat().st_uid == (logs / "server.log").stat().st_uid != 0
        assert (home / "logs").stat().st_uid == 0
        server.restart()  # now the files are there
        (logs / "server.log").rename(logs / "moved")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "reloaded" in text_of(logs / "server.log"), "a new log")


# A volume, how a sandbox waits for a file to show up there, and how we have it do so.
CUE = {"name": "cue", "mountPath": "/cue", "pvc": {"claimName": "cue"}}
AWAIT_CUE = "until [ -e /cue/now ]; do sleep 0.05; done"


def give_cue(server):
    (server.state / "server/volumes/cue/now").touch()


def is_closed(server):
    try:
        socket.create_connection((server.host, server.port)).close()
    except ConnectionRefusedError:
        return True
    return False


def drains_and_leaves_sandboxes_running():
    with ServerProcess(*PROGRAMS) as server:
        name, idle = server.create(metadata={"a": "b"}, volumes=[CUE]), server.create()
        server.request("POST", f"/v1/sandboxes/{idle}/pause")
        before = get(name, server)[1]
        pids = [sandbox.pid for sandbox in server.broker.list()]
        with Gateway(server, name) as box:
            reply = box.start(f"echo begin; {AWAIT_CUE}; echo end")
            text = b""
            while b"begin" not in text:
                text += reply.read1(4096)
            server.process.send_signal(signal.SIGTERM)
            wait_for(lambda: is_closed(server), "the door to close")
            give_cue(server)
            text += reply.read()
        assert b'"end"' in text and b"execution_complete" in text, text
        assert server.process.wait(SECONDS_MAX) == 0, server.log()[-2000:]
        assert all(map(is_alive, pids)), "a sandbox ended with the server"
        server.start()
        assert get(name, server)[1] == before
        assert get(idle, server)[1]["status"]["state"] == "Paused"
        with Gateway(server, name) as box:
            assert box.run("echo still here") == "still here"
        assert server.request("POST", f"/v1/sandboxes/{idle}/resume")[0] == 202
        with Gateway(server, idle) as box:
            assert box.run("echo awake") == "awake"


class Asking:
    """A client that sends one request after the other until the port is closed: over one
    connection, or each over a new one. `lost` counts requests that were sent and not answered,
    unless this client itself was slow to send: connections stay open for half a second only."""

    def __init__(self, server, keeps):
        self.server, self.keeps = server, keeps
        self.answered, self.lost = 0, 0
        self.request = (f"GET /v1/sandboxes HTTP/1.1\r\nHost: x\r\n"
                        f"OPEN-SANDBOX-API-KEY: {server.api_key}\r\n\r\n").encode()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        sock, before = None, time.monotonic()  # it was open then, or not yet
        while sock or (sock := self.connect()):
            begin = time.monotonic()
            try:
                sock.sendall(self.request)
                slow = time.monotonic() - before > 0.2
                answer = sock.recv(65536)
            except ConnectionError:
                answer, slow = b"", time.monotonic() - before > 0.2
            before = begin
            self.answered += bool(answer)
            self.lost += not answer and not slow
            if not answer or not self.keeps or b"\r\nConnection: close" in answer:
                sock.close()
                sock, before = None, time.monotonic()

    def connect(self):
        with contextlib.suppress(ConnectionError):
            return socket.create_connection((self.server.host, self.server.port), SECONDS_MAX)
        return None


def what_was_sent_before_it_stops_is_answered():
    with ServerProcess(*PROGRAMS) as server:
        asking = [Asking(server, i % 2 == 0) for i in range(16)]
        wait_for(lambda: all(one.answered for one in asking), "an answer to each")
        assert server.stop() == 0
        for one in asking:
            one.thread.join()
        assert sum(one.lost for one in asking) == 0, [one.lost for one in asking]


def stops_while_it_starts():
    with ServerProcess(*PROGRAMS) as server:
        for i in range(12):
            server.stop()
            server.start(wait=False)
            time.sleep(0.02 * i)
            server.process.send_signal(signal.SIGTERM)
            try:
                server.process.wait(SECONDS_MAX)
            except subprocess.TimeoutExpired:
                raise AssertionError(f"it goes on after SIGTERM:\n{server.log()[-2000:]}") from None
        server.start()


def sees_what_ended_while_it_was_away():
    with ServerProcess(*PROGRAMS) as server:
        ends = server.create(entrypoint=["sh", "-c", AWAIT_CUE], volumes=[CUE])
        dies, late = server.create(), server.create()
        pids = [server.broker.sandbox(name).pid for name in (ends, dies)]
        due = expire_soon(late, server)
        server.stop()
        give_cue(server)
        os.kill(pids[1], signal.SIGKILL)
        wait_for(lambda: not any(map(is_alive, pids)), "their end")
        sleep_until(due)
        server.start()
        assert get(late, server)[0] == 404 and server.broker.sandbox(late) is None
        assert get(ends, server)[1]["status"]["state"] == "Terminated", get(ends, server)
        status = get(dies, server)[1]["status"]
        assert status["state"] == "Failed" and "signal 9" in status["message"], status


# --- a host that cannot ---


class InChroot(ServerProcess):
    """In a chroot that shows the same files: there the kernel makes no user namespaces."""

    def spawn(self):
        self.write_config()
        root = self.folder / "root"
        root.mkdir(exist_ok=True)
        line = 'mount --rbind / "$0" && exec chroot "$0" "$@"'
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                ["unshare", "--mount", "sh", "-c", line, str(root), self.program, "--config",
                 str(self.config_path)], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                env={"PATH": os.environ["PATH"], "HOME": str(self.folder)}, start_new_session=True)

    def answers(self):
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.request("GET", "/health", key=None)[0] == 200
        return False


def says_once_that_there_are_no_user_namespaces():
    with contextlib.ExitStack() as stack:
        server = InChroot(*PROGRAMS)
        stack.callback(server.remove)
        server.start(wait=False)
        wait_for(lambda: server.process.poll() is not None or server.answers(), "the server")
        assert server.process.poll() is None, server.log()
        for _ in range(3):
            status, _, body = server.request("GET", "/ready", key=None)
            assert (status, body["code"]) == (503, "SERVICE_UNAVAILABLE"), (status, body)
            assert "user namespace" in body["message"] and "chroot" in body["message"], body
            status, _, body = server.request("GET", "/health", key=None)
            assert (status, body["status"]) == (200, "healthy"), (status, body)
            assert "user namespace" in body["message"] and "chroot" in body["message"], body
        told = [line for line in server.log().splitlines() if "user namespace" in line]
        assert len(told) == 1 and "chroot" in told[0], told
        time.sleep(2.5)  # in which each worker tries again twice
        assert server.log().count("user namespace") == 1, server.log()
        status, body = post(server)
        if status == 202:
            wait_for(lambda: get(body["id"], server)[1]["status"]["state"] == "Failed", "its end")
            body = get(body["id"], server)[1]["status"]
        assert status in (202, 500) and "user namespace" in body["message"], (status, body)
        assert server.stop() == 0


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
    command = [PROGRAMS[0], "--config", str(SERVER.config_path), "--port", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done
    assert "another" in done.stderr and str(SERVER.state) in done.stderr, done.stderr
    assert SERVER.process.poll() is None and SERVER.log().startswith(before)
    with Gateway(SERVER, name) as box:
        assert box.run("echo fine") == "fine"
    assert delete(name) == 204 and delete(SERVER.create()) == 204


# --- the gateway ---


def read_events(reply, until):
    """The events of a stream, up to the first of that type."""
    for line in reply:
        if line.strip():
            event = json.loads(line)
            yield event
            if event["type"] == until:
                return


def a_client_that_leaves_interrupts_its_cell():
    """A retry that comes at once is not told that the context is busy."""
    name = SERVER.create()
    context = {"language": "python"}
    for number in range(10):
        code = f"kept = {number}\nprint('go')\nwhile True: pass"
        with Gateway(SERVER, name) as box:
            reply = box.send("POST", "/code", json.dumps({"code": code, "context": context}))
            assert list(read_events(reply, "stdout"))[-1]["text"] == "go\n"
            reply.close()
        with Gateway(SERVER, name) as box:
            reply = box.send("POST", "/code", json.dumps({"code": "kept", "context": context}))
            events = list(read_events(reply, "execution_complete"))
        result = [e["results"]["text"] for e in events if e["type"] == "result"]
        assert result == [str(number)], events
    assert delete(name) == 204


if __name__ == "__main__":
    tap.skip_all(why_not())
    with ServerProcess(*PROGRAMS) as SERVER:
        result = tap.run_tests([
            a_hundred_creates_do_not_wait_for_each_other,
            a_create_may_be_deleted_at_once,
            refuses_an_entrypoint_that_cannot_start,
            says_why_an_entrypoint_never_ran_to_one_told_of_pending,
            exit_0_is_terminated,
            exit_3_is_failed,
            a_signal_is_failed,
            running_out_of_memory_is_named,
            execd_out_of_memory_is_not_the_workload_out_of_memory,
            half_of_the_memory_may_be_files_in_tmp,
            history_is_kept_until_the_end,
            inspection_tells_of_limits_and_end_and_hides_secrets,
            inspection_of_a_killed_sandbox_shows_an_unknown_end,
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
            reloads_what_its_own_account_can_read,
            logs_requests_as_json_whatever_they_hold,
            logs_the_peer_of_an_aborted_request,
            forgets_what_was_secret,
            logs_to_files_of_a_home_that_only_root_enters,
            drains_and_leaves_sandboxes_running,
            what_was_sent_before_it_stops_is_answered,
            stops_while_it_starts,
            sees_what_ended_while_it_was_away,
            says_once_that_there_are_no_user_namespaces,
            has_none,
            refuses_the_state_of_another,
            a_client_that_leaves_interrupts_its_cell,
        ])
    sys.exit(result)
