"""Several servers on one PostgreSQL: each answers for the sandboxes of all.

Usage: test_servers.py SERVER BROKER EXECD SANDBOXCTL. TAP on standard output. Needs root.
"""
import concurrent.futures
import contextlib
import datetime
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
import postgres_process  # noqa: E402
import tap  # noqa: E402
from execd_client import Reply, send  # noqa: E402
from pty_terminal import Sessions  # noqa: E402
from server_process import SECONDS_MAX, wait_for, why_not  # noqa: E402
from server_use import Gateway  # noqa: E402
import servers_history  # noqa: E402
from servers_history import GONE, OK, PAUSED, REFUSED, RUNNING, STOPPING, UNKNOWN, Op  # noqa: E402
from servers_process import KEY, LEASE_S, Servers, has_all  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:5]]
SERVERS = None  # "a" and "b"


def pair():
    return SERVERS["a"], SERVERS["b"]


def state_of(server, name):
    status, _, body = server.request("GET", f"/v1/sandboxes/{name}")
    return body["status"]["state"] if status == 200 else status


def everything_of_a_sandbox_through_the_other_server():
    a, b = pair()
    name = a.create(metadata={"team": "blue"})
    status, headers, body = b.request("GET", f"/v1/sandboxes/{name}",
                                      headers={"X-Request-ID": "r-1"})
    assert status == 200 and body["metadata"] == {"team": "blue"}, (status, body)
    assert headers["X-Request-ID"] == "r-1" and "OpenSandbox-Cluster-Miss" not in headers, headers
    with Gateway(b, name) as gateway:  # its endpoint is an address of b
        assert gateway.run("echo here; cat", stdin="") == "here"
        gateway.upload("/tmp/file", b"x" * 300_000)
        assert gateway.download("/tmp/file") == b"x" * 300_000
    assert b.request("POST", f"/v1/sandboxes/{name}/pause")[0] == 202
    assert state_of(a, name) == state_of(b, name) == "Paused"
    assert b.request("POST", f"/v1/sandboxes/{name}/resume")[0] == 202
    assert state_of(b, name) == "Running"
    until = (datetime.datetime.now(datetime.timezone.utc)
             + datetime.timedelta(hours=3)).strftime("%Y-%m-%dT%H:%M:%SZ")
    status, _, body = b.request("POST", f"/v1/sandboxes/{name}/renew-expiration",
                                {"expiresAt": until})
    assert status == 200, (status, body)
    assert a.request("GET", f"/v1/sandboxes/{name}")[2]["expiresAt"] == until
    status, _, body = b.request("PATCH", f"/v1/sandboxes/{name}/metadata", {"team": "red"})
    assert status == 200 and body["metadata"] == {"team": "red"}, (status, body)
    for part in ("logs", "events", "inspect", "summary"):
        status, _, body = b.request("GET", f"/v1/sandboxes/{name}/diagnostics/{part}")
        assert status == 200, (part, status, body)
    assert b.request("DELETE", f"/v1/sandboxes/{name}")[0] == 204
    assert state_of(a, name) == state_of(b, name) == 404
    assert SERVERS.query("SELECT count(*) FROM opensandbox_sandboxes") == "0"


class Client:
    """What Sessions wants of a client."""

    def __init__(self, server):
        self.server, self.headers = server, {"OPEN-SANDBOX-API-KEY": KEY}

    def connect(self):
        return socket.create_connection((self.server.host, self.server.port), SECONDS_MAX)

    def ask(self, method, path, body=None):
        with self.connect() as client, client.makefile("rb") as file:
            rows = [f"{name}: {value}" for name, value in self.headers.items()]
            status, headers = send(client, file, method, path, body, rows)
            return Reply(status, headers, file.read(int(headers["content-length"])))


def a_terminal_and_a_stream_through_the_other_server():
    a, b = pair()
    name = a.create()
    client = Client(b)
    with Sessions(client, client.headers,
                  f"/v1/sandboxes/{name}/proxy/44772").terminal() as terminal:
        terminal.send("PS1='$ '; clear; tty; stty size\n")
        terminal.wait_screen("/dev/pts/0")
        terminal.wait_screen("24 80")
    with Gateway(b, name) as gateway:  # events come as they happen, not at the end
        reply = gateway.start("for i in 1 2 3; do echo $i; sleep 0.2; done")
        begin, times = time.monotonic(), []
        while line := reply.fp.readline():
            if b"stdout" in line:
                times.append(time.monotonic() - begin)
        assert len(times) == 3 and times[2] - times[0] > 0.2, times
    assert b.request("DELETE", f"/v1/sandboxes/{name}")[0] == 204


def ports_and_previews_through_the_other_server():
    a, b = pair()
    name = a.create()
    with Gateway(b, name) as gateway:
        gateway.start("python3 -m http.server 8000 -d /etc", background=True).read()
    path = f"/v1/sandboxes/{name}/proxy/8000/hostname"
    wait_for(lambda: b.request("GET", path)[0] == 200, "the program inside")
    assert b.request("GET", path, key=None)[0] == 401
    assert b.request("GET", path, key="wrong-key-0123456789")[0] == 401
    for here, there in ((a, b), (b, a)):
        status, _, body = here.request("POST", f"/v1/sandboxes/{name}/previews/8000")
        assert status == 201, (status, body)
        for server in (here, there):
            status, headers, _ = server.request("GET", body["path"] + "hostname", key=None)
            assert status == 200 and "sandbox" in headers["Content-Security-Policy"], headers
    ticket = body["path"].split("/")[2]
    assert b.request("GET", f"/preview/{'0' * 32}.{ticket.split('.')[1]}/", key=None)[0] == 404
    assert b.request("DELETE", f"/v1/sandboxes/{name}")[0] == 204


def lists_are_of_all_servers():
    a, b = pair()
    names = [(a, b)[i % 2].create(metadata={"n": str(i % 3)}) for i in range(7)]
    assert has_all(a, names) and has_all(b, names)
    for server in (a, b):
        def ids(query, server=server):
            status, _, body = server.request("GET", f"/v1/sandboxes?{query}")
            assert status == 200, (status, body)
            return [item["id"] for item in body["items"]], body["pagination"]["totalItems"]

        assert ids("metadata=n%3D1") == (names[::-1][2::3], 2), ids("metadata=n%3D1")
        assert ids("pageSize=200") == (names[::-1], 7)  # newest first, of both
        assert ids("state=Paused") == ([], 0)
    assert b.request("POST", f"/v1/sandboxes/{names[0]}/pause")[0] == 202
    for server in (a, b):
        assert [item["id"] for item in
                server.request("GET", "/v1/sandboxes?state=Paused")[2]["items"]] == [names[0]]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda name: a.request("DELETE", f"/v1/sandboxes/{name}")[0],
                            names)) == {204}
    assert has_all(b, [])


def several_are_deleted_at_all_servers():
    a, b = pair()
    names = [(a, b)[i % 2].create(metadata={"n": str(i // 2)}) for i in range(4)]
    status, _, body = a.request("DELETE", "/v1/sandboxes?metadata=n%3D1")
    assert status == 200 and body["failed"] == [], (status, body)
    assert sorted(body["deleted"]) == sorted(names[2:]), (body, names)
    assert has_all(b, names[:2])
    status, _, body = b.request("DELETE", "/v1/sandboxes?all=true")
    assert status == 200 and sorted(body["deleted"]) == sorted(names[:2]), (status, body)
    assert has_all(a, [])


def asked_from(address, server, path):
    """What a client at this address gets."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=SECONDS_MAX,
                                            source_address=(address, 0))
    with contextlib.closing(connection):
        connection.request("GET", path, headers={"OPEN-SANDBOX-API-KEY": KEY})
        return connection.getresponse().read().decode().lower()


class Watch:
    """GET /v1/events of a server, read by a thread: (type, id, data) of each."""

    def __init__(self, server, key=KEY, last=None):
        self.events, self.connection = [], server.connection()
        self.connection.request("GET", "/v1/events", headers={
            "OPEN-SANDBOX-API-KEY": key, **({"Last-Event-ID": last} if last else {})})
        self.reply = self.connection.getresponse()
        assert self.reply.status == 200, self.reply.read()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        name = ident = None
        with contextlib.suppress(OSError, ValueError, AttributeError, http.client.HTTPException):
            for line in self.reply:
                word, _, rest = line.decode().rstrip("\n").partition(": ")
                name, ident = rest if word == "event" else name, rest if word == "id" else ident
                if word == "data":
                    self.events.append((name, ident, json.loads(rest)))

    def types(self, sandbox):
        return [name for name, _, data in list(self.events) if data.get("sandboxId") == sandbox]

    def wait(self, name, sandbox=None):
        wait_for(lambda: any(type_ == name and data.get("sandboxId") == sandbox
                             for type_, _, data in list(self.events)), f"{name} of {sandbox}")

    def close(self):
        with contextlib.suppress(OSError):
            self.connection.sock.shutdown(socket.SHUT_RDWR)


def events_of_all_servers_come_from_each():
    a, b = pair()
    assert a.request("POST", "/v1/tenants", {"name": "green"})[0] == 201
    key = a.request("POST", "/v1/keys", {"name": "g", "tenant": "green", "role": "operator"})[2]
    wait_for(lambda: b.request("GET", "/v1/whoami", key=key["key"])[0] == 200, "b to learn the key")
    with contextlib.ExitStack() as stack:
        def watch(*args, **options):
            watch = Watch(*args, **options)
            stack.callback(watch.close)
            return watch

        here, there, green = watch(a), watch(b), watch(b, key["key"])
        name = a.create()
        mine = a.request("POST", "/v1/sandboxes", servers_history.REQUEST, key=key["key"])[2]["id"]
        assert b.request("POST", f"/v1/sandboxes/{name}/pause")[0] == 202
        for each in (name, mine):
            assert b.request("DELETE", f"/v1/sandboxes/{each}")[0] == 204
        for one in (here, there):
            one.wait("sandbox.deleted", mine)
            one.wait("sandbox.deleted", name)
        green.wait("sandbox.deleted", mine)
        types = there.types(name)
        assert types == here.types(name) and "sandbox.paused" in types, (types, here.types(name))
        assert types.count("sandbox.created") == 1, types
        assert green.types(name) == [] and green.types(mine) == there.types(mine), green.events
        ids = [ident for _, ident, data in there.events if data.get("sandboxId") == name]
        assert [data["id"] for _, _, data in there.events if data.get("sandboxId")] == \
            [ident for _, ident, data in there.events if data.get("sandboxId")], there.events
        late = watch(b, last=ids[0])  # it kept those of the other server
        late.wait("sandbox.deleted", name)
        assert late.types(name) == types[1:], late.events
        seen = len(there.events)
        a.kill9()
        a.start()
        wait_for(lambda: "reset" in [type_ for type_, _, _ in there.events[seen:]],
                 "the word that some may have been missed")
        again = a.create()
        there.wait("sandbox.running", again)
        assert a.request("DELETE", f"/v1/sandboxes/{again}")[0] == 204
        there.wait("sandbox.deleted", again)
    assert a.request("DELETE", f"/v1/keys/{key['id']}")[0] == 204
    assert a.request("DELETE", "/v1/tenants/green")[0] == 204


def nobody_from_outside_is_taken_for_a_server():
    a, b = pair()
    name = a.create()
    now = int(time.time())
    forged = f"1;{now};x;key:0;default;4;1;;;" + "0" * 64
    for value in (forged, "", "1;2;3", forged + ";", ";" * 9):
        for server, key in ((a, ""), (b, ""), (a, None)):
            status, headers, body = server.request("GET", f"/v1/sandboxes/{name}", key=key,
                                                   headers={"OpenSandbox-Cluster": value})
            assert status == 401 and headers["X-Request-ID"], (value, status, body)
    with Gateway(b, name) as gateway:  # and what is inside never sees the header
        gateway.start("python3 -c \"import http.server as h;"
                      "H=type('H',(h.BaseHTTPRequestHandler,),{'do_GET':lambda s:"
                      "(s.send_response(200),s.end_headers(),"
                      "s.wfile.write(str(s.headers).encode()))});"
                      "h.HTTPServer(('',8001),H).serve_forever()\"", background=True).read()
    path = f"/v1/sandboxes/{name}/proxy/8001/"
    wait_for(lambda: b.request("GET", path)[0] == 200, "the program inside")
    seen = b.request("GET", path)[2].decode().lower()
    assert "opensandbox-cluster" not in seen and KEY not in seen and "x-request-id" in seen, seen
    for server in (a, b):  # and it learns whose the request is, whichever server was asked
        seen = asked_from("127.0.0.2", server, path)
        assert re.search(r"x-forwarded-for: 127\.0\.0\.2\b", seen), seen
    assert a.request("DELETE", f"/v1/sandboxes/{name}")[0] == 204


def keys_and_tenants_are_everybodys():
    a, b = pair()
    assert a.request("POST", "/v1/tenants", {"name": "blue"})[0] == 201
    status, _, key = a.request("POST", "/v1/keys", {"name": "k", "tenant": "blue",
                                                    "role": "operator"})
    assert status == 201, (status, key)
    wait_for(lambda: b.request("GET", "/v1/whoami", key=key["key"])[0] == 200, "b to learn the key")
    mine = a.create()
    assert b.request("GET", f"/v1/sandboxes/{mine}", key=key["key"])[0] == 404  # another tenant's
    assert b.request("DELETE", f"/v1/sandboxes/{mine}", key=key["key"])[0] == 404
    status, _, body = a.request("POST", "/v1/sandboxes", {
        "image": {"uri": "host"}, "entrypoint": ["sleep", "1000"], "timeout": 600,
        "resourceLimits": {}}, key=key["key"])
    assert status == 202, (status, body)
    assert b.request("GET", f"/v1/sandboxes/{body['id']}", key=key["key"])[0] == 200
    listed = b.request("GET", "/v1/sandboxes", key=key["key"])[2]["items"]
    assert [item["id"] for item in listed] == [body["id"]], listed
    for server in (a, b):  # the sandbox is at a only
        wait_for(lambda server=server: server.request("GET", "/v1/tenants/blue")[0] == 200, "blue")
        assert server.request("DELETE", "/v1/keys/" + key["id"])[0] in (204, 404)
        wait_for(lambda: b.request("GET", "/v1/whoami", key=key["key"])[0] == 401, "the key's end")
        status, _, answer = server.request("DELETE", "/v1/tenants/blue")
        assert status == 409, (status, answer)
    assert b.request("DELETE", f"/v1/sandboxes/{body['id']}")[0] == 204
    assert b.request("DELETE", "/v1/tenants/blue")[0] == 204
    wait_for(lambda: a.request("GET", "/v1/tenants/blue")[0] == 404, "the tenant's end")
    assert a.request("DELETE", f"/v1/sandboxes/{mine}")[0] == 204


def quotas_hold_under_100_parallel_creates():
    a, b = pair()
    assert b.request("POST", "/v1/tenants", {"name": "small", "quota": {"sandboxes": 5}})[0] == 201
    status, _, key = b.request("POST", "/v1/keys", {"name": "small", "tenant": "small",
                                                    "role": "operator"})
    assert status == 201, (status, key)
    wait_for(lambda: a.request("GET", "/v1/whoami", key=key["key"])[0] == 200, "a to learn the key")
    request = {"image": {"uri": "host"}, "entrypoint": ["sleep", "1000"], "timeout": 600,
               "resourceLimits": {"memory": "64Mi"}}

    def create(i):
        return (a, b)[i % 2].request("POST", "/v1/sandboxes", request, key=key["key"])

    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        answers = list(pool.map(create, range(100)))
    made = [body["id"] for status, _, body in answers if status == 202]
    refused = {(status, body["code"]) for status, _, body in answers if status != 202}
    assert len(made) == 5 and refused == {(403, "QUOTA_EXCEEDED")}, (len(made), refused)
    assert a.request("DELETE", f"/v1/sandboxes/{made[0]}")[0] == 204
    answers = [create(i) for i in range(4)]  # room for one more, wherever
    made += [body["id"] for status, _, body in answers if status == 202]
    assert len(made) == 6, answers
    for name in made[1:]:
        assert b.request("DELETE", f"/v1/sandboxes/{name}")[0] == 204
    assert SERVERS.query("SELECT count(*) FROM opensandbox_usage") == "0"


def an_idempotency_key_counts_at_every_server():
    a, b = pair()
    request = {"image": {"uri": "host"}, "entrypoint": ["sleep", "1000"], "timeout": 600,
               "resourceLimits": {}}

    def create(server, key, **fields):
        return server.request("POST", "/v1/sandboxes", {**request, **fields},
                              headers={"Idempotency-Key": key})

    status, _, first = create(a, "k1")
    assert status == 202, (status, first)
    status, headers, second = create(b, "k1")
    assert status == 202 and second["id"] == first["id"], (status, second)
    assert headers["Idempotent-Replayed"] == "true", headers
    assert create(b, "k1", timeout=700)[0] == 422
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda i: create((a, b)[i % 2], "k2"), range(16)))
    made = {body["id"] for status, _, body in answers if status == 202}
    assert len(made) == 1 and {s for s, _, _ in answers} <= {202, 409}, answers
    for name in (first["id"], *made):
        assert b.request("DELETE", f"/v1/sandboxes/{name}")[0] == 204
    assert create(b, "k1")[2]["code"] == "IDEMPOTENCY::GONE"


def snapshots_are_found_where_they_are():
    a, b = pair()
    name = a.create()
    with Gateway(b, name) as gateway:
        gateway.run("echo kept > /root/kept")
    status, _, snapshot = b.request("POST", f"/v1/sandboxes/{name}/snapshots", {"name": "s"})
    assert status == 202, (status, snapshot)
    path = f"/v1/snapshots/{snapshot['id']}"
    wait_for(lambda: b.request("GET", path)[2]["status"]["state"] == "Ready", "the snapshot")
    def copy_of():  # a key that no server knows does not keep it from the snapshot
        return b.request("POST", "/v1/sandboxes", {
            "snapshotId": snapshot["id"], "entrypoint": ["sleep", "1000"], "timeout": 600,
            "resourceLimits": {}}, headers={"Idempotency-Key": "copy"})

    status, _, copy = copy_of()
    assert status == 202, (status, copy)
    assert copy_of()[2]["id"] == copy["id"]
    b.wait_state(copy["id"], "Running")
    with Gateway(b, copy["id"]) as gateway:
        assert gateway.run("cat /root/kept") == "kept"
    for one in (name, copy["id"]):
        assert b.request("DELETE", f"/v1/sandboxes/{one}")[0] == 204
    assert b.request("DELETE", path)[0] == 204
    assert a.request("GET", path)[0] == 404


def a_server_that_is_killed_comes_back_to_its_sandboxes():
    a, b = pair()
    name, short = a.create(metadata={"of": "a"}), a.create(timeout=60)
    own = b.create()
    assert state_of(b, name) == "Running"
    a.kill9()
    status, headers, body = b.request("POST", f"/v1/sandboxes/{name}/pause")
    assert status == 503 and body["code"] == "SERVER_UNAVAILABLE", (status, body)
    assert int(headers["Retry-After"]) > 0, headers
    wait_for(lambda: b.request("GET", f"/v1/sandboxes/{name}")[0] == 200, "the end of its lease")
    status, _, body = b.request("GET", f"/v1/sandboxes/{name}")
    assert body["status"]["state"] == "Running" and body["status"]["reason"] == "SERVER_AWAY", body
    assert body["metadata"] == {"of": "a"}, body
    assert has_all(b, [name, short, own])
    assert state_of(b, own) == "Running"
    a.start()
    wait_for(lambda: b.request("GET", f"/v1/sandboxes/{name}")[2]["status"]["reason"]
             != "SERVER_AWAY", "a's return")
    with Gateway(b, name) as gateway:
        assert gateway.run("echo still here") == "still here"
    for each in (name, short, own):
        assert b.request("DELETE", f"/v1/sandboxes/{each}")[0] == 204


def a_rolling_restart_refuses_nothing():
    a, b = pair()
    names = {"a": a.create(), "b": b.create()}
    stop, failed, count = [], [], [0]
    locks = {"a": threading.Lock(), "b": threading.Lock()}

    def ask(through):
        other = "b" if through == "a" else "a"
        while not stop:
            with locks[through]:
                for of in (through, other) if not SERVERS[through].restarting else ():
                    path = f"/v1/sandboxes/{names[of]}"
                    reply = SERVERS[through].request("GET", path)
                    count[0] += 1
                    if reply[0] != 200 or reply[2]["status"]["reason"] == "SERVER_AWAY":
                        failed.append((through, of, reply[0], reply[2]))
                    until = servers_history.stamp(3600 + count[0])
                    for wanted, *request in (
                            (200, "GET", path + "/proxy/44772/ping"),
                            (200, "POST", path + "/renew-expiration", {"expiresAt": until}),
                            (202, "POST", "/v1/sandboxes", servers_history.REQUEST)):
                        reply = SERVERS[through].request(*request)
                        if reply[0] != wanted:
                            failed.append((through, of, *request[:2], reply[0], reply[2]))
                    made = reply[2].get("id")
                    if SERVERS[through].request("DELETE", f"/v1/sandboxes/{made}")[0] != 204:
                        failed.append((through, "DELETE", made))
            time.sleep(0.01)

    a.restarting = b.restarting = False
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        asking = [pool.submit(ask, name) for name in "ab"]
        try:
            for name, server in (("a", a), ("b", b)):
                with locks[name]:  # a balancer in front takes it out first: its clients have gone
                    server.restarting = True
                server.restart()
                server.restarting = False
                time.sleep(0.5)
        finally:
            stop.append(True)
        for one in asking:
            one.result()
    assert not failed and count[0] > 20, (failed[:3], count)
    for name in names.values():
        assert a.request("DELETE", f"/v1/sandboxes/{name}")[0] == 204


def a_restart_that_waits_for_a_command_refuses_nothing():
    """A server that is told to stop lets what it streams go on for a while; its port is closed."""
    a, b = pair()
    name = a.create()
    with Gateway(a, name) as gateway, concurrent.futures.ThreadPoolExecutor(1) as pool:
        reply = gateway.start("echo begun; sleep 1000")
        assert any(b"begun" in line for line in iter(reply.fp.readline, b""))
        began = time.monotonic()
        restart = pool.submit(a.restart)
        wait_for(lambda: not a.is_ready(), "the closed port")
        while not restart.done():
            for request in (("POST", f"/v1/sandboxes/{name}/renew-expiration",
                             {"expiresAt": servers_history.stamp(4000)}),
                            ("GET", f"/v1/sandboxes/{name}")):
                status, _, body = b.request(*request)
                if time.monotonic() - began < 20:  # so long requests wait for a: RESTART_MS
                    assert status == 200, (request, status, body)
                    assert body.get("status", {"state": "Running"})["state"] == "Running", body
        restart.result()
    assert b.request("DELETE", f"/v1/sandboxes/{name}")[0] == 204


def a_server_without_the_database_goes_on_and_changes_nothing():
    a, b = pair()
    name, own = a.create(), b.create()
    SERVERS.way("a").cut()
    try:
        assert state_of(a, name) == "Running"
        with Gateway(a, name) as gateway:
            assert gateway.run("echo still here") == "still here"
        status, _, body = a.request("POST", f"/v1/sandboxes/{name}/pause")
        assert status >= 500, (status, body)
        assert a.request("GET", "/v1/sandboxes")[0] == 503  # half a list would be a lie
        wait_for(lambda: b.request("GET", f"/v1/sandboxes/{name}")[2].get("status", {}).get(
            "reason") == "SERVER_AWAY", "the end of its lease")
        status, _, body = b.request("POST", f"/v1/sandboxes/{name}/pause")
        assert status == 503 and body["code"] == "SERVER_UNAVAILABLE", (status, body)
    finally:
        SERVERS.way("a").mend()
    wait_for(lambda: b.request("POST", f"/v1/sandboxes/{name}/pause")[0] == 202, "a's return")
    assert state_of(a, name) == state_of(b, name) == "Paused"
    assert state_of(a, own) == "Running"
    for each in (name, own):
        assert a.request("DELETE", f"/v1/sandboxes/{each}")[0] == 204


def a_change_is_not_sent_twice():
    """A holder that reads a DELETE and dies may have carried it out: asked again, it would say that
    there is nothing to delete. A GET is sent again."""
    a, b = pair()
    name = a.create()
    holder = SERVERS.query(f"SELECT convert_from(holder, 'UTF8') FROM opensandbox_sandboxes WHERE "
                           f"id = '{name}'")
    socket.setdefaulttimeout(SECONDS_MAX)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    SERVERS.query(f"INSERT INTO opensandbox_servers VALUES ('fade', 'http://127.0.0.1:{port}', "
                  "now() + interval '1 hour')")
    SERVERS.query(f"UPDATE opensandbox_sandboxes SET holder = 'fade' WHERE id = '{name}'")
    seen = []

    def read(peer):
        request = b""
        while b"\r\n\r\n" not in request:
            request += peer.recv(65536)
        seen.append(request.split(b" ")[0])
        assert b"\r\nopensandbox-cluster: 1;" in request.lower(), request

    def answer(peer):
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    try:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            for method in ("DELETE", "GET"):
                asked = pool.submit(b.request, "GET", f"/v1/sandboxes/{name}")
                peer, _ = listener.accept()
                read(peer)
                answer(peer)
                assert asked.result()[0] == 200
                asked = pool.submit(b.request, method, f"/v1/sandboxes/{name}")
                read(peer)  # on the connection that was kept
                listener.close()
                peer.close()
                time.sleep(0.3)
                listener = socket.create_server(("127.0.0.1", port))
                if method == "GET":
                    peer, _ = listener.accept()
                    read(peer)
                    answer(peer)
                    peer.close()
                status, _, body = asked.result()
                assert status == (200 if method == "GET" else 503), (status, body)
        assert seen == [b"GET", b"DELETE", b"GET", b"GET", b"GET"], seen
    finally:
        socket.setdefaulttimeout(None)
        listener.close()
        SERVERS.query("DELETE FROM opensandbox_servers WHERE id = 'fade'")
        SERVERS.query(f"UPDATE opensandbox_sandboxes SET holder = '{holder}' WHERE id = '{name}'")


def what_stays_away_is_given_up_and_expires():
    with Servers(PROGRAMS, ["a", "b"], {"give_up_seconds": 10}) as servers:
        a, b = servers["a"], servers["b"]
        lasting, kept = a.create(), a.create(metadata={"k": "v"})
        short, files = a.create(), a.create(persistent=True)
        ends = time.time() + 40
        assert a.request("POST", f"/v1/sandboxes/{short}/renew-expiration", {
            "expiresAt": servers_history.stamp(40)})[0] == 200
        begin = time.time()
        a.kill9()
        for name in (lasting, kept, short):
            wait_for(lambda name=name: state_of(b, name) == "Failed", "the sandbox to be given up")
        assert time.time() - begin > LEASE_S - 1 + 10, time.time() - begin
        status, _, body = b.request("GET", f"/v1/sandboxes/{kept}")
        assert body["status"]["reason"] == "SERVER_LOST" and body["metadata"] == {"k": "v"}, body
        assert b.request("DELETE", f"/v1/sandboxes/{kept}")[0] == 204
        body = b.request("GET", f"/v1/sandboxes/{files}")[2]  # its files are at a
        assert body["status"]["reason"] == "SERVER_AWAY", body
        assert b.request("POST", f"/v1/sandboxes/{files}/pause")[0] == 503
        a.start()  # what it has and no row knows ends
        wait_for(lambda: a.log().count("removed a sandbox without a row") == 3, "the orphans' end")
        servers.know_each_other()
        assert state_of(b, files) == "Running"
        assert b.request("DELETE", f"/v1/sandboxes/{files}")[0] == 204
        assert state_of(a, lasting) == "Failed" and a.request(
            "DELETE", f"/v1/sandboxes/{lasting}")[0] == 204
        state = state_of(b, short)
        assert state == "Failed" or time.time() > ends - 1, state
        wait_for(lambda: state_of(b, short) == 404, "its expiry")
        assert time.time() > ends - 1, "it expired early"


def trace_of(server, request):
    """The trace in the line of the server's log about a request."""
    lines = [line for line in server.log().splitlines()
             if f"request_id={request}" in line and "method=" in line]
    found = re.search(r"trace_id=(\w+)", "".join(lines))
    return found and found[1]


def servers_speak_https_to_each_other():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        files = [pathlib.Path(folder) / name for name in ("cert.pem", "key.pem")]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=servers",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-out", files[0], "-keyout",
                        files[1]], check=True, capture_output=True)
        files[1].chmod(0o644)
        telemetry = {"endpoint": "http://127.0.0.1:9", "metrics": "none", "logs": "none"}
        with Servers(PROGRAMS, ["a", "b"], {"secret": "s" * 32}, {"telemetry": telemetry},
                     tls=files) as servers:
            a, b = servers["a"], servers["b"]
            name = a.create()
            with Gateway(b, name) as gateway:
                assert gateway.run("echo here") == "here"
                gateway.upload("/tmp/file", b"x" * 300_000)
            status, _, body = b.request("GET", f"/v1/sandboxes/{name}/endpoints/8000")
            assert status == 200 and body["endpoint"].startswith(b.domain), (status, body)
            assert b.request("DELETE", f"/v1/sandboxes/{name}",
                             headers={"X-Request-ID": "one-trace"})[0] == 204
            wait_for(lambda: trace_of(a, "one-trace") and trace_of(b, "one-trace"), "both lines")
            assert trace_of(a, "one-trace") == trace_of(b, "one-trace")
            status, _, body = b.request("POST", "/v1/sandboxes", {
                "image": {"uri": "host"}, "entrypoint": ["sleep", "100"], "timeout": 600,
                "resourceLimits": {}}, headers={"Idempotency-Key": "k", "X-Request-ID": "made"})
            assert status == 202, (status, body)
            wait_for(lambda: trace_of(b, "made"), "the line")
            assert re.search(f"sandbox created.* trace_id={trace_of(b, 'made')}", b.log())
            name = a.create()
            b.stop()
            b.config["cluster"]["ca_file"] = "/etc/hostname"  # without it nothing is sent, not
            b.start()                                         # even in the clear
            status, _, body = b.request("GET", f"/v1/sandboxes/{name}")
            assert status == 503 and "cannot be reached" in body["message"], (status, body)


def a_second_server_with_the_same_directory_is_kept_out():
    a, _ = pair()
    done = subprocess.run([a.program, "--config", a.config_path], cwd="/", capture_output=True,
                          stdin=subprocess.DEVNULL, text=True, check=False, timeout=SECONDS_MAX)
    assert done.returncode != 0 and "another server with the same id" in done.stderr, done.stderr


def rows_of_an_older_server_are_not_anybodys():
    SERVERS.query("INSERT INTO opensandbox_records (kind, id, state, tenant, owner, created_us, "
                  "json) VALUES ('pool', 'p', '', 'default', '', 1, '{}')")
    third = SERVERS.make("a")
    try:
        third.spawn()
        assert third.process.wait(SECONDS_MAX) != 0
        assert "1 rows are of an older server" in third.log(), third.log()
    finally:
        third.remove()
        SERVERS.query("DELETE FROM opensandbox_records WHERE kind = 'pool'")


def a_server_without_cluster_is_kept_out():
    a, _ = pair()
    path = a.config_path.with_name("alone.toml")
    text = a.config_path.read_text(encoding="utf-8")
    path.write_text(text[:text.index("[cluster]")], encoding="utf-8")
    done = subprocess.run([a.program, "--config", path], cwd="/", capture_output=True,
                          stdin=subprocess.DEVNULL, text=True, check=False, timeout=SECONDS_MAX)
    assert done.returncode != 0 and "in use by another server" in done.stderr, done.stderr


def the_checker_finds_what_is_wrong():
    def history(*rows):
        ops = [Op("create", 0, 1, OK, "e")]
        for kind, call, answer, result, *value in rows:
            ops.append(Op(kind, call, answer if result != UNKNOWN else float("inf"), result,
                          *value))
        return servers_history.check(ops)

    running, paused = (RUNNING, "e"), (PAUSED, "e")
    for good in (
        [("pause", 2, 3, OK), ("get", 4, 5, paused)],
        [("pause", 2, 6, OK), ("get", 3, 4, running), ("get", 4, 5, paused)],
        [("pause", 2, 3, UNKNOWN), ("get", 4, 5, running), ("get", 6, 7, paused)],
        [("pause", 2, 3, UNKNOWN), ("get", 4, 5, running)],
        [("renew", 2, 3, OK, "f"), ("get", 4, 5, (RUNNING, "f"))],
        [("remove", 2, 5, OK), ("get", 3, 4, (STOPPING, "e")), ("delete", 2, 5, OK),
         ("get", 6, 7, GONE)],
        [("resume", 2, 3, REFUSED), ("pause", 2, 4, OK), ("resume", 5, 6, OK)],
    ):
        assert history(*good) is None, history(*good)
    for bad in (
        [("pause", 2, 3, OK), ("get", 4, 5, running)],  # a stale read
        [("get", 2, 3, GONE)],  # a lost sandbox
        [("pause", 2, 6, OK), ("get", 3, 4, paused), ("get", 5, 5.5, running)],  # back and forth
        [("get", 2, 3, paused), ("pause", 4, 5, OK)],  # the future
        [("renew", 2, 3, OK, "f"), ("get", 4, 5, running)],  # an expiry that came back
        [("remove", 2, 3, OK), ("delete", 2, 3, OK), ("get", 4, 5, running)],  # it came back
        [("pause", 2, 3, OK), ("pause", 4, 5, OK)],
        [("pause", 2, 3, REFUSED)],
    ):
        assert history(*bad), bad


def histories_are_linearizable_under_faults():
    print("#", servers_history.run(SERVERS, ["a", "b"], seed=20, moments=10))


TESTS = [
    the_checker_finds_what_is_wrong,
    everything_of_a_sandbox_through_the_other_server,
    a_terminal_and_a_stream_through_the_other_server,
    ports_and_previews_through_the_other_server,
    lists_are_of_all_servers,
    several_are_deleted_at_all_servers,
    events_of_all_servers_come_from_each,
    nobody_from_outside_is_taken_for_a_server,
    keys_and_tenants_are_everybodys,
    quotas_hold_under_100_parallel_creates,
    an_idempotency_key_counts_at_every_server,
    snapshots_are_found_where_they_are,
    a_server_that_is_killed_comes_back_to_its_sandboxes,
    a_rolling_restart_refuses_nothing,
    a_restart_that_waits_for_a_command_refuses_nothing,
    a_server_without_the_database_goes_on_and_changes_nothing,
    a_change_is_not_sent_twice,
    what_stays_away_is_given_up_and_expires,
    servers_speak_https_to_each_other,
    a_second_server_with_the_same_directory_is_kept_out,
    rows_of_an_older_server_are_not_anybodys,
    a_server_without_cluster_is_kept_out,
    histories_are_linearizable_under_faults,
]


def clean(test):
    """What one test leaves is not the next one's."""
    def run():
        try:
            test()
        finally:
            for server in pair():
                if server.process.poll() is not None:
                    server.start()
            for item in SERVERS["a"].request("GET", "/v1/sandboxes?pageSize=200")[2]["items"]:
                SERVERS["a"].request("DELETE", f"/v1/sandboxes/{item['id']}")
    run.__name__ = test.__name__
    return run


def main():
    global SERVERS
    tap.skip_all(why_not() or postgres_process.why_not())
    wanted = sys.argv[5:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with Servers(PROGRAMS, ["a", "b"]) as SERVERS:
        return tap.run_tests([clean(test) for test in TESTS
                              if not wanted or test.__name__ in wanted])


if __name__ == "__main__":
    sys.exit(main())
