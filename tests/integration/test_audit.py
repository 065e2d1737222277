"""The audit record, events, webhooks, idempotency keys, versions, waiting, deleting several.

Usage: test_audit.py SERVER BROKER EXECD SANDBOXCTL OSB. TAP on standard output. Needs root.
"""
import concurrent.futures
import contextlib
import hashlib
import hmac
import http.server
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from http.client import HTTPException

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import postgres_process  # noqa: E402
import tap  # noqa: E402
from server_process import SECONDS_MAX, ServerProcess, wait_for, why_not  # noqa: E402
from server_use import Gateway  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:5]]
OSB = os.path.abspath(sys.argv[5])
SERVER = HOOK = SYSLOG = None
SECRET = "hook-secret-1b7c"
PLANTED = {name: f"planted-{name}-9d3e77" for name in ("env", "password", "query", "header")}
BOX = {"image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"], "timeout": 600,
       "resourceLimits": {"cpu": "500m", "memory": "128Mi"}}


def ask(method, path, body=None, key="", status=200, headers=None):
    """The answer's body; fails on another status."""
    got, _, answer = SERVER.request(method, path, body, key=key, headers=headers)
    assert got == status, (method, path, got, answer)
    return answer


def entries(query=""):
    return ask("GET", "/v1/audit?limit=1000" + query)["items"]


def wait_for_entry(request_id):
    def found():
        return [e for e in entries() if e["requestId"] == request_id]

    wait_for(found, f"an entry of {request_id}")
    return found()[0]


class Hook(http.server.ThreadingHTTPServer):
    """Takes what is posted, after it refused the first as often as told."""

    def __init__(self):
        self.got, self.refuse, self.lock = [], 0, threading.Lock()
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            refused = self.server.refuse > 0
            self.server.refuse -= refused
            if not refused:
                self.server.got.append((self.path, dict(self.headers), body))
        self.send_response(503 if refused else 204)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


# --- the record ---


def every_call_is_in_the_record():
    names = {f"req-{i}": spec for i, spec in enumerate((
        ("GET", "/v1/sandboxes", None, 200), ("GET", "/sandboxes/nowhere", None, 404),
        ("POST", "/v1/sandboxes", {"wrong": 1}, 400), ("DELETE", "/v1/pools/none", None, 404),
        ("GET", "/v1/no-such-path", None, 404)))}
    for name, (method, path, body, status) in names.items():
        ask(method, path, body, status=status, headers={"X-Request-ID": name})
    ask("GET", "/v1/sandboxes", key="wrong", status=401, headers={"X-Request-ID": "req-bad-key"})
    entry = wait_for_entry("req-1")
    assert entry["route"] == "/sandboxes/{sandboxId}" and entry["target"] == "nowhere", entry
    assert entry["outcome"] == "refused" and entry["status"] == 404, entry
    assert entry["principal"].startswith("key:") and entry["role"] == "admin", entry
    assert wait_for_entry("req-0")["outcome"] == "success"
    assert wait_for_entry("req-4")["route"] == "none"
    assert wait_for_entry("req-bad-key")["principal"] == "anonymous"


def the_record_can_be_asked():
    for i in range(5):
        ask("GET", f"/v1/sandboxes/ask-{i}", status=404)
    wait_for(lambda: entries("&target=ask-4"), "the last entry")
    found = entries("&target=ask-3&outcome=refused&method=GET")
    assert len(found) == 1 and found[0]["target"] == "ask-3", found
    assert entries("&target=ask-3&outcome=success") == []
    page = ask("GET", "/v1/audit?limit=2")
    assert len(page["items"]) == 2 and page["next"] == page["items"][-1]["seq"], page
    older = ask("GET", f"/v1/audit?limit=2&before={page['next']}")["items"]
    assert older[0]["seq"] == page["next"] - 1, (older, page)
    first = ask("GET", "/v1/audit?limit=3&after=0")["items"]
    assert [e["seq"] for e in first] == [1, 2, 3], first
    assert first[0]["prev"] == "0" * 64 and first[1]["prev"] == first[0]["hash"], first
    for query in ("limit=0", "limit=x", "before=x", "since=yesterday", "format=xml"):
        ask("GET", f"/v1/audit?{query}", status=400)
    ask("POST", "/v1/tenants", {"name": "asker"}, status=201)
    key = ask("POST", "/v1/keys", {"name": "a", "role": "admin", "tenant": "asker"}, status=201)
    ask("GET", "/v1/sandboxes", key=key["key"])
    wait_for(lambda: ask("GET", "/v1/audit", key=key["key"])["items"], "an entry of the tenant")
    assert {e["tenant"] for e in ask("GET", "/v1/audit?tenant=default",
                                     key=key["key"])["items"]} == {"asker"}


def osb(*words, check=True, stdin=""):
    home = str(SERVER.state)
    done = subprocess.run([OSB, "--config", f"{home}/osb.toml", *words], input=stdin,
                          capture_output=True, text=True, timeout=SECONDS_MAX, env={
                              "PATH": os.environ["PATH"], "HOME": home,
                              "OPEN_SANDBOX_API_KEY": SERVER.api_key,
                              "OPEN_SANDBOX_DOMAIN": SERVER.domain})
    assert not check or done.returncode == 0, (words, done.stdout, done.stderr)
    return done


def copy_of_record(folder):
    target = pathlib.Path(folder) / "audit"
    shutil.copytree(SERVER.state / "server" / "audit", target)
    return target


def verify_proves_the_chain_and_finds_changes():
    for _ in range(60):
        ask("GET", "/v1/sandboxes")  # files are small here: several are filled
    def verified():
        return json.loads(osb("audit", "verify", "-o", "json").stdout)
    wait_for(lambda: verified()["entries"] > 60, "all entries")  # written behind the answers
    intact = verified()
    assert intact["status"] == "intact" and intact["first"] == 1, intact
    with tempfile.TemporaryDirectory() as folder:
        copy = copy_of_record(folder)
        files = sorted(copy.glob("audit-*.jsonl"))
        assert len(files) > 2, files
        whole = json.loads(osb("audit", "verify", str(copy), "-o", "json").stdout)
        osb("audit", "verify", str(copy), "--head", whole["head"])
        assert osb("audit", "verify", str(copy), "--head", "0" * 64, check=False).returncode == 1
    changes = {
        "a changed entry": lambda lines: [lines[0].replace(b'"GET"', b'"PUT"', 1), *lines[1:]],
        "a missing entry": lambda lines: [lines[0], *lines[2:]],
        "two swapped entries": lambda lines: [lines[1], lines[0], *lines[2:]],
        "a doubled entry": lambda lines: [lines[0], *lines],
        "an invented hash": lambda lines: [
            lines[0][:-67] + b"0" * 64 + lines[0][-3:], *lines[1:]],
    }
    for what, change in changes.items():
        with tempfile.TemporaryDirectory() as folder:
            copy = copy_of_record(folder)
            path = sorted(copy.glob("audit-*.jsonl"))[1]
            lines = path.read_bytes().splitlines(keepends=True)
            path.write_bytes(b"".join(change(lines)))
            done = osb("audit", "verify", str(copy), check=False)
            assert done.returncode == 1 and "was changed" in done.stdout + done.stderr, \
                (what, done.stdout, done.stderr)
    with tempfile.TemporaryDirectory() as folder:
        copy = copy_of_record(folder)
        sorted(copy.glob("audit-*.jsonl"))[1].unlink()
        assert osb("audit", "verify", str(copy), check=False).returncode == 1


def the_chain_goes_on_after_restarts_and_kills():
    before = ask("GET", "/v1/audit")["head"]
    SERVER.restart()
    SERVER.kill9()
    newest = sorted((SERVER.state / "server" / "audit").glob("audit-*.jsonl"))[-1]
    with open(newest, "ab") as file:
        file.write(b'{"seq":99,"torn')
    SERVER.start()
    ask("GET", "/v1/sandboxes")
    intact = json.loads(osb("audit", "verify", "-o", "json").stdout)
    assert intact["last"] > before["seq"] and intact["first"] == 1, (intact, before)


def everything_written():
    """Log, files of the server, and what its database has if that is PostgreSQL."""
    scanned = [p for p in (SERVER.state / "server").rglob("*")
               if p.is_file() and p.name != "api_key"]
    text = b"".join(p.read_bytes() for p in scanned) + SERVER.log().encode()
    for table in ("sandboxes", "events", "records", "usage", "marks") if SERVER.dsn else ():
        rows = postgres_process.psql(SERVER.dsn, f"SET bytea_output = 'escape'; "
                                     f"SELECT * FROM opensandbox_{table}").stdout
        text += rows.encode()
    assert len(scanned) >= 4, scanned
    return text


def nothing_secret_is_stored_or_logged():
    registry = {"username": "u", "password": PLANTED["password"]}
    made = ask("POST", "/v1/sandboxes", {
        **BOX, "env": {"API_TOKEN": PLANTED["env"]}, "image": {"uri": "host", "auth": registry}},
        status=202)["id"]
    kept = ask("POST", "/v1/sandboxes", {**BOX, "persistent": True,
                                         "env": {"API_TOKEN": PLANTED["env"]}}, status=202)["id"]
    SERVER.wait_state(kept, "Running")
    text = everything_written()  # while they run
    for what in ("env", "password"):
        assert PLANTED[what].encode() not in text, what
    key = ask("POST", "/v1/keys", {"name": "scan", "role": "admin"}, status=201)["key"]
    token = ask("GET", f"/v1/sandboxes/{made}/endpoints/44772",
                headers={"X-Other": PLANTED["header"]})["headers"]["OpenSandbox-Secure-Access"]
    ask("GET", f"/v1/sandboxes?x={PLANTED['query']}", key=key)
    wait_for(lambda: entries(f"&target={made}/44772"), "the last entry")
    ask("DELETE", f"/v1/sandboxes/{made}", status=204)
    ask("POST", f"/v1/sandboxes/{kept}/stop", status=202)
    SERVER.wait_state(kept, "Paused")
    SERVER.restart()
    text = everything_written()
    assert b"audit" in text and b"key:" in text and kept.encode() in text
    for what, secret in {**PLANTED, "key": key, "api key": SERVER.api_key, "token": token,
                         "hook": SECRET}.items():
        assert secret.encode() not in text, what
    ask("POST", f"/v1/sandboxes/{kept}/start", status=202)
    SERVER.wait_state(kept, "Running")
    with Gateway(SERVER, kept) as gateway:  # it was sealed, not dropped
        assert gateway.run("echo $API_TOKEN") == PLANTED["env"]
    ask("DELETE", f"/v1/sandboxes/{kept}", status=204)


def the_record_goes_to_syslog_and_webhook():
    ask("GET", "/v1/sandboxes", headers={"X-Request-ID": "req-exported"})
    wait_for(lambda: any(b"req-exported" in m for m in SYSLOG.got()), "a message to syslog")
    assert SYSLOG.got()[0].startswith(b"<86>opensandbox-server: {"), SYSLOG.got()[0]

    def posted():
        return [p for p in list(HOOK.got) if p[0] == "/audit" and b"req-exported" in p[2]]

    wait_for(posted, "a post to the webhook")
    _, headers, body = posted()[0]
    wanted = hmac.new(SECRET.encode(), headers["X-OpenSandbox-Timestamp"].encode() + b"." + body,
                      hashlib.sha256).hexdigest()
    assert headers["X-OpenSandbox-Signature"] == f"sha256={wanted}", headers
    assert all(json.loads(line)["seq"] for line in body.splitlines())


# --- events ---


class Watch:
    """GET /v1/events, read by a thread."""

    def __init__(self, key=None, last=None, query=""):
        self.events, self.connection, self.ended = [], SERVER.connection(), False
        headers = {"OPEN-SANDBOX-API-KEY": key or SERVER.api_key}
        self.connection.request("GET", "/v1/events" + query, headers={
            **headers, **({"Last-Event-ID": last} if last else {})})
        self.reply = self.connection.getresponse()
        assert self.reply.status == 200, self.reply.read()
        assert self.reply.headers.get_content_type() == "text/event-stream"
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        name = ident = None
        with contextlib.suppress(OSError, ValueError, AttributeError, HTTPException):
            for line in self.reply:
                line = line.decode().rstrip("\n")
                if line.startswith("event: "):
                    name = line[7:]
                elif line.startswith("id: "):
                    ident = line[4:]
                elif line.startswith("data: "):
                    self.events.append((name, ident, json.loads(line[6:])))
            self.ended = True  # and was not broken off

    def types(self, sandbox):
        return [name for name, _, data in list(self.events) if data.get("sandboxId") == sandbox]

    def close(self):
        with contextlib.suppress(OSError):
            self.connection.sock.shutdown(socket.SHUT_RDWR)


def changes_are_told_and_can_be_caught_up_with():
    ask("POST", "/v1/tenants", {"name": "watcher"}, status=201)
    key = ask("POST", "/v1/keys", {"name": "w", "role": "operator", "tenant": "watcher"},
              status=201)["key"]
    mine, all_of_them = Watch(key), Watch()
    HOOK.refuse = 1
    box = ask("POST", "/v1/sandboxes", BOX, status=202)["id"]
    own = ask("POST", "/v1/sandboxes", BOX, key=key, status=202)["id"]
    ask("POST", f"/v1/sandboxes/{box}/pause", status=202)
    for name in (box, own):
        ask("DELETE", f"/v1/sandboxes/{name}", status=204)
    wait_for(lambda: "sandbox.deleted" in all_of_them.types(own), "the last event")
    types = all_of_them.types(box)
    assert types[:2] == ["sandbox.created", "sandbox.running"], types
    assert "sandbox.paused" in types and types[-1] == "sandbox.deleted", types
    assert types.count("sandbox.created") == 1 and types.count("sandbox.deleted") == 1, types
    wait_for(lambda: "sandbox.deleted" in mine.types(own), "the tenant's last event")
    assert mine.types(box) == [], mine.events
    first = next(ident for _, ident, data in all_of_them.events if data["sandboxId"] == box)
    late = Watch(last=first, query=f"?sandboxId={box}")
    wait_for(lambda: "sandbox.deleted" in late.types(box), "what was missed")
    assert late.types(box) == types[1:] and late.types(own) == [], late.events
    lost = Watch(last="1-1")
    wait_for(lambda: lost.events, "a first event")
    assert lost.events[0][0] == "reset", lost.events
    for watch in (mine, all_of_them, late, lost):
        watch.close()

    def posted():
        return [json.loads(body)["type"] for path, _, body in list(HOOK.got)
                if path == "/events" and box.encode() in body]

    wait_for(lambda: "sandbox.deleted" in posted(), "the webhook to get the events")
    assert posted() == types, posted()


def a_server_that_stops_keeps_no_watcher_waiting():
    """Else each of them would hold its end up, and requests of other servers meanwhile."""
    box = SERVER.create()
    watch, waiter = Watch(), SERVER.connection()
    waiter.request("GET", f"/v1/sandboxes/{box}?wait=Paused&timeout=200",
                   headers={"OPEN-SANDBOX-API-KEY": SERVER.api_key})
    for _ in range(2):  # what was sent before these has been read when they are answered
        ask("GET", "/v1/sandboxes")
    assert SERVER.stop() == 0
    answer = waiter.getresponse()
    assert answer.status == 200, answer.status
    assert json.loads(answer.read())["status"]["state"] == "Running"
    wait_for(lambda: watch.ended, "the end of the stream")
    waiter.close()
    SERVER.start()
    ask("DELETE", f"/v1/sandboxes/{box}", status=204)


# --- doing it once, and on the right version ---


def a_create_is_done_once():
    header = {"Idempotency-Key": "order-1"}
    first = ask("POST", "/v1/sandboxes", BOX, status=202, headers=header)
    status, headers, again = SERVER.request("POST", "/v1/sandboxes", BOX, headers=header)
    assert (status, again["id"], headers["Idempotent-Replayed"]) == (202, first["id"], "true")
    refusal = ask("POST", "/v1/sandboxes", {**BOX, "timeout": 700}, status=422, headers=header)
    assert refusal["code"] == "IDEMPOTENCY::KEY_REUSED", refusal
    SERVER.restart()
    assert ask("POST", "/v1/sandboxes", BOX, status=202, headers=header)["id"] == first["id"]
    bad = {"Idempotency-Key": "order-2"}
    ask("POST", "/v1/sandboxes", {**BOX, "entrypoint": ["/no/such/program"]}, status=400,
        headers=bad)
    other = ask("POST", "/v1/sandboxes", BOX, status=202, headers=bad)["id"]
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        got = list(pool.map(lambda _: SERVER.request(
            "POST", "/v1/sandboxes", BOX, headers={"Idempotency-Key": "order-3"}), range(20)))
    made = {body["id"] for status, _, body in got if status == 202}
    assert len(made) == 1 and {s for s, _, _ in got} <= {202, 409}, got
    ask("DELETE", f"/v1/sandboxes/{first['id']}", status=204)
    assert ask("POST", "/v1/sandboxes", BOX, status=409,
               headers=header)["code"] == "IDEMPOTENCY::GONE"
    for name in (other, *made):
        ask("DELETE", f"/v1/sandboxes/{name}", status=204)
    ask("POST", "/v1/sandboxes", BOX, status=400, headers={"Idempotency-Key": "x" * 256})


def a_change_can_name_the_version():
    box = SERVER.create()
    path = f"/v1/sandboxes/{box}"
    tag = SERVER.request("GET", path)[1]["ETag"]
    assert tag == SERVER.request("GET", path)[1]["ETag"] and len(tag) == 18, tag
    ask("PATCH", path + "/metadata", {"a": "1"}, headers={"If-Match": tag})
    for method, tail, body in (("PATCH", "/metadata", {"a": "2"}), ("POST", "/pause", None),
                               ("DELETE", "", None)):
        refusal = ask(method, path + tail, body, status=412, headers={"If-Match": tag})
        assert refusal["code"] == "PRECONDITION_FAILED", refusal
    now = SERVER.request("GET", path)[1]["ETag"]
    assert now != tag

    def patch(i):
        return SERVER.request("PATCH", path + "/metadata", {"n": str(i)},
                              headers={"If-Match": now})[0]

    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        got = sorted(pool.map(patch, range(10)))
    assert got == [200] + 9 * [412], got
    ask("DELETE", path, status=204, headers={"If-Match": "*"})


def waits_for_a_state():
    box = SERVER.create()
    path = f"/v1/sandboxes/{box}"
    assert ask("GET", path + "?wait=Running")["status"]["state"] == "Running"
    assert ask("GET", path + "?wait=30")["status"]["state"] == "Running"
    begin = time.monotonic()
    assert ask("GET", path + "?wait=Paused&timeout=1")["status"]["state"] == "Running"
    assert time.monotonic() - begin >= 1
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        paused = pool.submit(ask, "GET", path + "?wait=Paused&timeout=60")
        gone = pool.submit(ask, "GET", path + "?wait=Terminated&timeout=60", status=404)
        ask("POST", path + "/pause", status=202)
        assert paused.result()["status"]["state"] == "Paused"
        ask("DELETE", path, status=204)
        gone.result()
    for query in ("wait=Nothing", "wait=301", "wait=Running&timeout=x"):
        other = SERVER.create()
        ask("GET", f"/v1/sandboxes/{other}?{query}", status=400)
        ask("DELETE", f"/v1/sandboxes/{other}", status=204)


def deletes_what_a_selector_names():
    made = [SERVER.create(metadata={"batch": "one"}) for _ in range(4)]
    other = SERVER.create(metadata={"batch": "two"})
    ask("DELETE", "/v1/sandboxes", status=400)
    done = ask("DELETE", "/v1/sandboxes?metadata=batch%3Done")
    assert sorted(done["deleted"]) == sorted(made) and done["failed"] == [], done
    assert [b["id"] for b in ask("GET", "/v1/sandboxes")["items"]] == [other]
    assert ask("DELETE", "/v1/sandboxes?state=Running&all=true")["deleted"] == [other]


# --- the command line ---


def osb_manages_tenants_and_keys():
    osb("tenant", "create", "cli", "--sandboxes", "3", "--memory", "1Gi")
    shown = json.loads(osb("tenant", "get", "cli", "-o", "json").stdout)
    assert shown["quota"] == {"sandboxes": 3, "memory": "1073741824"}, shown
    made = json.loads(osb("key", "create", "ci", "--role", "operator", "--tenant", "cli", "-o",
                          "json").stdout)
    assert made["key"].startswith("osbk_"), made
    assert "ci" in osb("key", "list").stdout
    osb("login", SERVER.domain, stdin=made["key"] + "\n")
    assert made["key"] in (SERVER.state / "osb.toml").read_text()
    assert osb("login", SERVER.domain, stdin="wrong\n", check=False).returncode == 1
    assert json.loads(osb("whoami", "-o", "json").stdout)["role"] == "admin"  # of the environment
    turned = json.loads(osb("key", "rotate", made["id"], "-o", "json").stdout)
    assert turned["key"] != made["key"]
    assert "POST" in osb("audit", "list", "--route", "/v1/keys").stdout
    lines = osb("audit", "export", "--method", "POST").stdout.splitlines()
    assert lines and all(json.loads(line)["method"] == "POST" for line in lines)
    osb("key", "revoke", made["id"])
    osb("tenant", "delete", "cli")


def closed_files_have_lasting_names_and_old_ones_go():
    with ServerProcess(*PROGRAMS, config={
            "audit": {"file_max_bytes": 4096, "file_backup_count": 2}}) as server:
        folder = server.state / "server" / "audit"
        seen = {}

        def rotated():
            for _ in range(20):
                server.request("GET", "/v1/sandboxes")
            names = sorted(path.name for path in folder.glob("audit-*.jsonl"))
            for name in names[:-1]:  # those that are closed
                with contextlib.suppress(FileNotFoundError):
                    text = (folder / name).read_bytes()
                    assert seen.setdefault(name, text) == text, f"{name} changed after its end"
            return len(seen) >= 5

        wait_for(rotated, "five closed files")
        wait_for(lambda: len(list(folder.glob("audit-*.jsonl"))) <= 3, "the end of old files")
        kept = sorted(folder.glob("audit-*.jsonl"))
        lines = [json.loads(line) for path in kept for line in path.read_text().splitlines()]
        assert [line["seq"] for line in lines] == list(
            range(lines[0]["seq"], lines[0]["seq"] + len(lines)))
        assert all(a["hash"] == b["prev"] for a, b in zip(lines, lines[1:]))
        firsts = [(path, path.read_text().splitlines()[:1]) for path in kept]
        for path, first in firsts:  # the name is the number of the first entry, of the newest to be
            assert not first or int(path.stem.removeprefix("audit-")) == json.loads(
                first[0])["seq"], path
        assert lines[0]["seq"] > 1


class Syslog:
    """A socket as a syslog daemon has it."""

    def __init__(self, folder):
        self.path, self.messages = os.path.join(folder, "log"), []
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(self.path)
        os.chmod(self.path, 0o666)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        with contextlib.suppress(OSError):
            while True:
                self.messages.append(self.sock.recv(65536))

    def got(self):
        return list(self.messages)


def main():
    global SERVER, HOOK, SYSLOG
    tap.skip_all(why_not())
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        os.chmod(folder, 0o755)
        HOOK, SYSLOG = Hook(), Syslog(folder)
        SERVER = stack.enter_context(ServerProcess(*PROGRAMS, config={
            "audit": {"file_max_bytes": 8192, "syslog": SYSLOG.path,
                      "webhook_url": HOOK.url + "/audit", "webhook_secret": SECRET},
            "events": {"webhook_url": HOOK.url + "/events", "webhook_secret": SECRET}}))
        return tap.run_tests([
            every_call_is_in_the_record,
            the_record_can_be_asked,
            verify_proves_the_chain_and_finds_changes,
            the_chain_goes_on_after_restarts_and_kills,
            nothing_secret_is_stored_or_logged,
            the_record_goes_to_syslog_and_webhook,
            closed_files_have_lasting_names_and_old_ones_go,
            changes_are_told_and_can_be_caught_up_with,
            a_server_that_stops_keeps_no_watcher_waiting,
            a_create_is_done_once,
            a_change_can_name_the_version,
            waits_for_a_state,
            deletes_what_a_selector_names,
            osb_manages_tenants_and_keys,
        ])


if __name__ == "__main__":
    sys.exit(main())
