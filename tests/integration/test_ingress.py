"""The ingress gateway: routes, access, HTTP and WebSocket as a proxy, limits, intents, its end.

Usage: test_ingress.py INGRESS. TAP on standard output. Sandboxes are scripts on loopback, which a
stand-in for the API server names; test_ingress_cluster.py has a real one.
"""
import base64
import contextlib
import hashlib
import json
import os
import pathlib
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

from http_backend import OK, Backend, answer, echo
from httplib import Client, request
from ingress_process import Cluster, Ingress, Redis, wait_for
from tls_process import Authority

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
from tap import run_tests  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
KEY = b"correct-horse-battery-staple-32b"
KEYS = "a=" + base64.b64encode(KEY).decode()
FAR = 1893456000  # 2030
TOKEN = "tok-1"


def base36(n):
    text = ""
    while n or not text:
        n, digit = divmod(n, 36)
        text = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + text
    return text


def sign(sandbox, port, expires=FAR, key=KEY, key_id="a"):
    """Expiry and signature of a route, by the words of the contract."""
    text = f"v1\nshort\n{sandbox}\n{port}\n{base36(expires)}\n".encode()
    digest = hashlib.sha256(struct.pack(">I", len(key)) + key + struct.pack(">I", len(text)) + text)
    return base36(expires), digest.hexdigest()[:8] + key_id


@contextlib.contextmanager
def gateway(*args, script=None, token=None, name="web", **more):
    """A backend that is the sandbox `web`, and the gateway before it."""
    with Backend(script or answer(OK)) as backend, Cluster() as cluster:
        cluster.put(name, token=token)
        with Ingress(PROGRAM, *args, cluster=cluster, **more) as ingress:
            backend.port = backend.listener.getsockname()[1]
            yield ingress, backend, cluster


def header(head, name):
    rows = [row.split(":", 1) for row in head.split("\r\n")[1:]]
    values = [value.strip() for row, value in rows if row.lower() == name.lower()]
    return ", ".join(values) if values else None


def last(backend):
    return backend.requests[-1]


# --- routes ---

def routes_by_header_host_and_old_header():
    with gateway() as (ingress, backend, _):
        target = f"web-{backend.port}"
        status, headers, body = ingress.to(target, "/a%2Fb?x=%20&y", X_Mine="1")
        assert (status, body) == (200, b"ok"), (status, body)
        assert headers["Reverse-Proxy-Server-Powerby"] == "OpenSandbox-ingress", headers
        head = last(backend)
        assert head.startswith("GET /a%2Fb?x=%20&y HTTP/1.1\r\n"), head
        assert header(head, "Host") == f"127.0.0.1:{backend.port}", head
        assert header(head, "X-Mine") == "1" and not header(head, "OpenSandbox-Ingress-To"), head
        assert ingress.get("/", {"OPEN-SANDBOX-INGRESS": target})[0] == 200
        assert not header(last(backend), "OPEN-SANDBOX-INGRESS"), last(backend)
        assert ingress.get("/", {"Host": f"{target}.sbx.example.net"})[0] == 200
        assert ingress.get("/", {"Host": f"{target}.sbx.example.net:8443"})[0] == 200
        assert ingress.to(f"https://{target}.x")[0] == 200
        assert ingress.to(f"web-0{backend.port}")[0] == 200


def refuses_targets_that_are_none():
    with gateway() as (ingress, _, _):
        for target in ("web", "-80", "web-0", "web-65536", "web-+80", "web-8080-vbbc00-XYZ"):
            status, headers, body = ingress.to(target)
            assert status == 400, (target, status)
            assert body.startswith(b"OpenSandbox Ingress: invalid ingress route: "), body
            assert body.endswith(b"\n") and headers["Content-Type"].startswith("text/plain"), body
        assert ingress.get("/")[0] == 400  # Host is the gateway's own address
        with Client(("127.0.0.1", ingress.port)) as c:
            assert c.ask(request("OPTIONS", "*")).status == 400
        status, _, body = ingress.to("other-80")
        assert (status, body) == (404, b"OpenSandbox Ingress: sandbox not found: other\n"), body


def routes_by_path():
    with gateway("--mode", "uri") as (ingress, backend, cluster):
        cluster.put("safe", token=TOKEN)
        wait_for(lambda: ingress.get("/safe/1")[0] != 404, "the second sandbox")
        base = f"/web/{backend.port}"
        for path, want in (("", "/"), ("/", "/"), ("/api/x?q=1", "/api/x?q=1"),
                           ("/a%2Fb", "/a%2Fb"), ("?q", "/?q"),
                           ("/vbbc00/78d0cfa8a/api", "/vbbc00/78d0cfa8a/api")):
            assert ingress.get(base + path)[0] == 200
            assert last(backend).split(" ")[1] == want, (path, last(backend))
        assert header(last(backend), "X-Forwarded-Prefix") == base, last(backend)
        for path in ("/", "/web", f"/web/0{backend.port}/x", "/web/0/x", "/web/x"):
            assert ingress.get(path)[0] == 400, path
        assert ingress.get("/status.ok") [0] == 200


def cleans_paths_by_a_redirect():
    with gateway("--mode", "uri") as (ingress, backend, _):
        base = f"/web/{backend.port}"
        for path, want in (("//a", "/a"), ("/x/../y%2F?q=//", "/y%2F?q=//"), ("/./", "/")):
            status, headers, _ = ingress.get(base + path)
            assert (status, headers["Location"]) == (301, base + want), (path, headers["Location"])
        assert not backend.requests


def answers_health_itself_unless_a_sandbox_is_named():
    with gateway(script=answer(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\napp")) as \
            (ingress, backend, _):
        assert ingress.get("/status.ok")[2] == b"OK"
        assert ingress.ask("POST", "/status.ok")[2] == b"OK"
        assert ingress.get("/status.ok", {"Host": "gw-1.example.net"})[2] == b"OK"
        assert ingress.to(f"web-{backend.port}", "/status.ok")[2] == b"app"


def a_mode_that_does_not_exist_refuses_everything():
    with gateway("--mode", "other") as (ingress, backend, _):
        assert ingress.to(f"web-{backend.port}")[0] == 400
        assert ingress.get("/status.ok")[0] == 200


# --- access ---

def checks_tokens_and_signatures():
    with gateway("--secure-access-keys", KEYS, token=TOKEN) as (ingress, backend, _):
        port = backend.port
        expires, signature = sign("web", port)
        wrong = ("0" if signature[0] != "0" else "1") + signature[1:]

        def reply(target, **headers):
            status, _, body = ingress.to(target, **headers)
            return status, body.decode().removeprefix("OpenSandbox Ingress: ").strip()

        assert reply(f"web-{port}") == (401, "signature: signature required for this sandbox")
        assert reply(f"web-{port}", OpenSandbox_Secure_Access=TOKEN)[0] == 200
        assert not header(last(backend), "OpenSandbox-Secure-Access"), last(backend)
        assert reply(f"web-{port}-{expires}-{signature}")[0] == 200
        assert reply(f"web-{port}-{expires}-{wrong}") == (
            401, "signature: unauthorized: signature mismatch")
        assert reply(f"web-{port}-{expires}-{signature[:8]}b") == (
            401, "signature: unauthorized: unknown signed_key_id")
        old = sign("web", port, 1000)
        assert reply(f"web-{port}-{old[0]}-{old[1]}") == (401, "signature: access expired")
        for value in ("nope", ""):
            assert reply(f"web-{port}-{expires}-{signature}", OpenSandbox_Secure_Access=value) == (
                401, "signature: secure access header mismatch")
        assert reply(f"web-{port}-{expires}-{wrong}", OpenSandbox_Secure_Access=TOKEN)[0] == 200
        ever = sign("web", port, 2**64 - 1)
        assert reply(f"web-{port}-{ever[0]}-{ever[1]}")[0] == 200


def checks_signatures_in_paths_and_needs_keys():
    with gateway("--mode", "uri", "--secure-access-keys", KEYS, token=TOKEN) as \
            (ingress, backend, _):
        expires, signature = sign("web", backend.port)
        base = f"/web/{backend.port}"
        assert ingress.get(f"{base}/{expires}/{signature}/api?x=2")[0] == 200
        assert last(backend).split(" ")[1] == "/api?x=2"
        prefix = header(last(backend), "X-Forwarded-Prefix")
        assert prefix == f"{base}/{expires}/{signature}", prefix
        assert ingress.get(f"{base}/x")[0] == 401
        line = wait_for(lambda: ingress.logged("ingress requested"), "the log")[0]
        assert line["uri"] == f"{base}/{expires}/***/api?x=***", line
        assert line["logger"] == "opensandbox.ingress" and line["method"] == "GET", line
        assert line["target"] == f"127.0.0.1:{backend.port}" and line["status"] == 200, line
        assert signature not in json.dumps(ingress.lines) and TOKEN not in json.dumps(ingress.lines)
    with gateway("--mode", "uri", token=TOKEN) as (ingress, backend, _):
        status, _, body = ingress.get(f"/web/{backend.port}/{expires}/{signature}/")
        assert (status, body) == (
            503, b"OpenSandbox Ingress: signature: ingress verifier not configured\n"), body


def bounds_guesses_of_one_source():
    with gateway("--secure-access-keys", KEYS, "--source-failures", "3", token=TOKEN) as \
            (ingress, backend, _):
        expires, signature = sign("web", backend.port)
        target = f"web-{backend.port}-{expires}-0000000{0 if signature[7] != '0' else 1}a"
        codes = [ingress.to(target)[0] for _ in range(5)]
        assert codes == [401, 401, 401, 429, 429], codes
        assert ingress.to(f"web-{backend.port}-{expires}-{signature}")[0] == 429
        assert ingress.metric('ingress_limited_total{limit="failures"}') == 3


def can_refuse_what_is_not_protected():
    with gateway("--unprotected", "no-control") as (ingress, backend, _):
        assert ingress.to(f"web-{backend.port}")[0] == 200
        assert ingress.to("web-44772")[0] == 403 and ingress.to("web-18080")[0] == 403
    with gateway("--unprotected", "deny", "--hide-unknown") as (ingress, backend, _):
        assert ingress.to(f"web-{backend.port}")[0] == 403
        assert ingress.to("other-80")[0] == 401


def reads_keys_again_at_sighup():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "keys"
        path.write_text(f"# rotated\n{KEYS}\n", encoding="ascii")
        with gateway("--secure-access-keys-file", str(path), token=TOKEN) as (ingress, backend, _):
            expires, signature = sign("web", backend.port)
            target = f"web-{backend.port}-{expires}-{signature}"
            assert ingress.to(target)[0] == 200
            path.write_text("b=Yg==\n", encoding="ascii")
            ingress.process.send_signal(signal.SIGHUP)
            wait_for(lambda: ingress.to(target)[0] == 401, "the new keys")
            path.write_text("nonsense\n", encoding="ascii")
            ingress.process.send_signal(signal.SIGHUP)
            wait_for(lambda: ingress.logged("keys and certificates are read again")[1:], "a line")
            assert ingress.to(target)[0] == 401


def starts_only_with_good_settings():
    for args, status, text in (
            (["--secure-access-enabled"], 2, "secure-access-enabled"),
            (["--provider-type", "x"], 1, "expected one of"),
            (["--secure-access-keys", "A=YQ=="], 1, "key id"),
            (["--renew-intent-redis-dsn", "http://x"], 1, "redis://"),
            (["--provider-type", "servers"], 1, "--servers-file")):
        done = subprocess.run([PROGRAM, "--port", "0", *args], capture_output=True, text=True,
                              check=False, timeout=60, env={"HOME": "/nonexistent"})
        assert done.returncode == status, (args, done)
        assert text in done.stdout + done.stderr, (args, done)


def gives_up_when_the_first_list_does_not_come():
    with Cluster(broken=403) as cluster, \
            Ingress(PROGRAM, "--start-timeout", "1", cluster=cluster, wait=False) as ingress:
        wait_for(lambda: ingress.process.poll() is not None, "its end")
        assert ingress.process.returncode == 1
        wait_for(lambda: any("first list" in row["msg"] for row in ingress.lines), "the reason")
        ingress.process.returncode = 0  # as expected


# --- discovery ---

def follows_the_cluster():
    with gateway() as (ingress, backend, cluster):
        port = backend.port
        cases = ((dict(ready=0), "no pod is ready"), (dict(endpoint=None), "no endpoint"),
                 (dict(endpoint=""), "no endpoint"), (dict(phase="Paused"), "paused"))
        for fields, text in cases:
            cluster.put("web", **fields)
            status, _, body = wait_for(lambda: (r := ingress.to(f"web-{port}"))[0] == 503 and
                                       text.encode() in r[2] and r, text)
            assert body.startswith(b"OpenSandbox Ingress: sandbox not ready: "), body
        cluster.put("web")
        wait_for(lambda: ingress.to(f"web-{port}")[0] == 200, "it to be ready")
        cluster.put("web", ns="other")
        status, _, body = wait_for(lambda: (r := ingress.to(f"web-{port}"))[0] == 502 and r, "502")
        assert b"ambiguous sandbox id" in body, body
        cluster.remove("web", ns="other")
        wait_for(lambda: ingress.to(f"web-{port}")[0] == 200, "one of them to go")
        cluster.cut()  # the watch ends, and is taken up again
        cluster.remove("web")
        wait_for(lambda: ingress.to(f"web-{port}")[0] == 404, "it to go")


def finds_agent_sandboxes_by_their_names():
    ready = {"serviceFQDN": "localhost", "conditions": [{"type": "Ready", "status": "True"}]}
    with Backend(answer(OK)) as backend, Cluster() as cluster:
        port = backend.listener.getsockname()[1]
        cluster.put("my-box", status=ready)
        cluster.put("sandbox-1234", status=ready)
        cluster.put("cold", status={"serviceFQDN": "localhost"})
        with Ingress(PROGRAM, "--provider-type", "agent-sandbox", cluster=cluster) as ingress:
            for name in ("my-box", "My_Box", "1234", "sandbox-1234"):
                assert ingress.to(f"{name}-{port}")[0] == 200, name
            assert ingress.to(f"cold-{port}")[0] == 503
            assert ingress.to(f"none-{port}")[0] == 404


# --- HTTP ---

def passes_bodies_both_ways():
    with gateway(script=echo) as (ingress, backend, _):
        data = os.urandom(3 << 20)
        status, _, body = ingress.to(f"web-{backend.port}", method="POST", body=data)
        assert status == 200 and body == data
        pieces = (data[i:i + 65536] for i in range(0, len(data), 65536))
        status, _, body = ingress.to(f"web-{backend.port}", method="PUT", body=pieces)
        assert status == 200 and body == data


def streams_events_as_they_come():
    go = threading.Event()

    def script(conn):
        conn.read_head()
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                  b"Transfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n")
        assert go.wait(60)
        conn.send(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n")

    with gateway(script=script) as (ingress, backend, _):
        connection = ingress.connection()
        connection.request("GET", "/", headers={"OpenSandbox-Ingress-To": f"web-{backend.port}"})
        reply = connection.getresponse()
        assert reply.read1(9) == b"data: 1\n\n"
        go.set()
        assert reply.read() == b"data: 2\n\n"
        connection.close()


def tells_the_app_where_requests_come_from():
    with gateway() as (ingress, backend, _):
        ingress.to(f"web-{backend.port}", X_Forwarded_For="1.2.3.4", X_Forwarded_Proto="https",
                   X_Real_IP="5.6.7.8", Connection="X-Hop", X_Hop="1", Cookie="a=b",
                   Authorization="Basic eDp5", X_Request_ID="mine")
        head = last(backend)
        assert header(head, "X-Forwarded-For") == "1.2.3.4, 127.0.0.1", head
        assert header(head, "X-Forwarded-Proto") == "https", head
        assert header(head, "X-Forwarded-Host") == f"127.0.0.1:{ingress.port}", head
        assert header(head, "X-Forwarded-Port") == str(ingress.port), head
        assert header(head, "X-Real-IP") == "5.6.7.8" and header(head, "Cookie") == "a=b", head
        assert header(head, "Authorization") == "Basic eDp5" and not header(head, "X-Hop"), head
        assert header(head, "X-Request-ID") == "mine", head
        line = wait_for(lambda: ingress.logged("ingress requested"), "the log")[0]
        assert line["client"] == "1.2.3.4" and line["request_id"] == "mine", line
    with gateway("--trusted-proxies", "10.0.0.0/8") as (ingress, backend, _):
        ingress.to(f"web-{backend.port}", X_Forwarded_For="1.2.3.4", X_Forwarded_Host="evil",
                   X_Real_IP="5.6.7.8")
        head = last(backend)
        assert header(head, "X-Forwarded-For") == "127.0.0.1", head
        assert not header(head, "X-Real-IP"), head
        assert header(head, "X-Forwarded-Host") == f"127.0.0.1:{ingress.port}", head
        line = wait_for(lambda: ingress.logged("ingress requested"), "the log")[0]
        assert line["client"] == "127.0.0.1", line


def a_transfer_that_breaks_off_looks_broken():
    def script(conn):
        conn.read_head()
        conn.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")

    with gateway(script=script) as (ingress, backend, _):
        with Client(("127.0.0.1", ingress.port)) as c:
            c.send(request("GET", "/", f"OpenSandbox-Ingress-To: web-{backend.port}"))
            with contextlib.suppress(ConnectionError):
                data = c.take_rest()
                assert b"0\r\n\r\n" not in data, data


def a_sandbox_that_does_not_answer_is_a_bad_gateway():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with gateway() as (ingress, _, _):
        status, _, body = ingress.to(f"web-{port}")
        assert (status, body) == (502, b""), (status, body)
        status, _, body = ingress.to(f"web-{port}", Connection="Upgrade", Upgrade="websocket",
                                     Sec_WebSocket_Key="x" * 22 + "==", Sec_WebSocket_Version="13")
        assert (status, body) == (503, b"Service Unavailable\n"), (status, body)
        assert ingress.metric("ingress_backend_failures_total") == 2
    with gateway(script=answer(b"garbage\r\n\r\n")) as (ingress, backend, _):
        assert ingress.to(f"web-{backend.port}")[0] == 502


def can_wait_for_a_port_that_opens_late():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with gateway("--connect-wait", "30000") as (ingress, _, _):
        result = []
        thread = threading.Thread(target=lambda: result.append(ingress.to(f"web-{port}")[0]))
        thread.start()
        wait_for(lambda: ingress.metric("ingress_retries_total") >= 1, "a second attempt")
        with socket.create_server(("127.0.0.1", port)) as late:
            late.settimeout(60)
            sock, _ = late.accept()
            with sock:
                sock.recv(65536)
                sock.sendall(OK)
                thread.join(60)
        assert result == [200], result


# --- WebSocket ---

def upgrade(port, sandbox_port, *rows):
    return request("GET", "/ws", f"OpenSandbox-Ingress-To: web-{sandbox_port}",
                   "Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
                   "Sec-WebSocket-Version: 13", "X-EXECD-ACCESS-TOKEN: e", *rows)


SWITCH = (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
          b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")


def websocket_echo(conn):
    conn.read_head()
    conn.send(SWITCH)
    with contextlib.suppress(EOFError):
        while True:
            conn.receive()
            conn.send(conn.inbox)
            conn.inbox = b""


def relays_websockets_with_all_headers():
    with gateway(script=websocket_echo) as (ingress, backend, _):
        for connection in ("Upgrade", "keep-alive, Upgrade"):
            with Client(("127.0.0.1", ingress.port)) as c:
                c.send(upgrade(ingress.port, backend.port, f"Connection: {connection}"))
                assert c.response(no_body=True).status == 101
                frame = b"\x81\x82abcd" + bytes(a ^ b for a, b in zip(b"hi", b"abcd"))
                c.send(frame)
                assert c.take(len(frame)) == frame
                head = last(backend)
                assert header(head, "X-EXECD-ACCESS-TOKEN") == "e", head
                assert header(head, "Host") == f"127.0.0.1:{backend.port}", head
                wait_for(lambda: ingress.metric("ingress_proxy_websocket_connections") == 1, "it")
            wait_for(lambda: ingress.metric("ingress_proxy_websocket_connections") == 0, "its end")
        assert ingress.metric("ingress_proxy_websocket_connections_total") == 2


def passes_a_refused_handshake_on():
    refusal = b"HTTP/1.1 418 No\r\nX-Why: tea\r\nContent-Length: 3\r\n\r\ntea"
    with gateway(script=answer(refusal)) as (ingress, backend, _):
        with Client(("127.0.0.1", ingress.port)) as c:
            r = c.ask(upgrade(ingress.port, backend.port, "Connection: Upgrade"))
            assert (r.status, r.body, r.get("X-Why")) == (418, b"tea", "tea")


# --- hostile peers and limits ---

def closes_on_garbage_and_lives_on():
    with gateway() as (ingress, backend, _):
        for data in (b"\0" * 100, b"GET / HTTP/9.9\r\n\r\n", b"GET /\r\n\r\n",
                     b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"\x16\x03\x01" + b"x" * 99,
                     b"POST / HTTP/1.1\r\nHost: web-80\r\nContent-Length: 1\r\n"
                     b"Transfer-Encoding: chunked\r\n\r\n",
                     b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 70000 + b"\r\n\r\n"):
            with Client(("127.0.0.1", ingress.port)) as c:
                with contextlib.suppress(ConnectionError, EOFError):
                    c.send(data)
                    c.half_close()
                    assert c.response().status in (400, 431, 501, 505), data[:30]
        assert ingress.to(f"web-{backend.port}")[0] == 200


def limits_what_one_source_does():
    with gateway("--source-rate", "1", "--source-burst", "3") as (ingress, backend, _):
        codes = [ingress.to(f"web-{backend.port}")[0] for _ in range(12)]
        assert codes[:3] == [200] * 3 and 429 in codes, codes
    with gateway("--source-connections", "3") as (ingress, backend, _):
        with contextlib.ExitStack() as stack:
            held = [stack.enter_context(Client(("127.0.0.1", ingress.port))) for _ in range(3)]
            wait_for(lambda: ingress.metric("ingress_connections") == 3, "three connections")
            with Client(("127.0.0.1", ingress.port)) as c:
                c.wait_closed()
            assert held
        wait_for(lambda: ingress.metric("ingress_connections") == 0, "their end")
        assert ingress.to(f"web-{backend.port}")[0] == 200
        assert ingress.metric('ingress_limited_total{limit="connections"}') == 1


# --- renew intents ---

def publishes_intents_to_redis():
    with Redis(password="p@ss word") as redis:
        redis.password = "p@ss word"
        dsn = redis.dsn.replace("p@ss word", "p%40ss%20word")
        with gateway("--mode", "uri", "--renew-intent-enabled", "--renew-intent-redis-dsn", dsn,
                     token=TOKEN) as (ingress, backend, _):
            base = f"/web/{backend.port}"
            assert ingress.get(base)[0] == 401
            for path in ("/api/v1?x=2", "/again"):
                assert ingress.get(base + path, {"OpenSandbox-Secure-Access": TOKEN})[0] == 200
            [intent] = wait_for(redis.intents, "an intent")
            assert intent["sandbox_id"] == "web" and intent["port"] == backend.port, intent
            assert intent["request_uri"] == "/api/v1", intent
            assert intent["observed_at"].endswith("Z"), intent
            assert set(intent) == {"sandbox_id", "port", "request_uri", "observed_at"}, intent
            assert ingress.metric('ingress_renew_intents_total{result="throttled"}') == 1
            assert len(redis.intents()) == 1


def keeps_the_list_short_and_notes_long_connections():
    with Redis() as redis, \
            gateway("--renew-intent-enabled", "--renew-intent-redis-dsn", redis.dsn,
                    "--renew-intent-min-interval", "1", "--renew-intent-queue-max-len", "2",
                    "--renew-intent-queue-key", "k", script=websocket_echo) as \
            (ingress, backend, _):
        with Client(("127.0.0.1", ingress.port)) as c:
            c.send(upgrade(ingress.port, backend.port, "Connection: Upgrade"))
            assert c.response(no_body=True).status == 101
            wait_for(lambda: ingress.metric('ingress_renew_intents_total{result="pushed"}') >= 3,
                     "intents of an open WebSocket")
        intents = redis.intents("k")
        assert len(intents) == 2 and "request_uri" not in intents[0], intents


def serves_while_redis_is_away():
    with gateway("--renew-intent-enabled", "--renew-intent-redis-dsn", "unix:///nonexistent/r",
                 "--renew-intent-min-interval", "0") as (ingress, backend, _):
        for _ in range(5):
            assert ingress.to(f"web-{backend.port}")[0] == 200
        lost = 'ingress_renew_intents_total{result="failed"}'
        wait_for(lambda: ingress.metric(lost) == 5, "the loss of five")


# --- TLS and the end ---

def serves_https_and_reads_certificates_again():
    with tempfile.TemporaryDirectory(prefix="osb-tls-") as name:
        authority = Authority(pathlib.Path(name))
        cert, key = authority.issue("ingress")
        context = authority.context()
        with gateway("--tls-cert", str(cert), "--tls-key", str(key), tls=context) as \
                (ingress, backend, _):
            assert ingress.to(f"web-{backend.port}")[0] == 200
            assert header(last(backend), "X-Forwarded-Proto") == "https"

            def serial():
                with socket.create_connection(("127.0.0.1", ingress.port), 60) as sock, \
                        context.wrap_socket(sock, server_hostname="localhost") as tls:
                    return tls.getpeercert()["serialNumber"]

            before = serial()
            authority.issue("ingress")
            ingress.process.send_signal(signal.SIGHUP)
            wait_for(lambda: serial() != before, "the new certificate")
            with contextlib.suppress(ssl.SSLError, ConnectionError, EOFError), \
                    Client(("127.0.0.1", ingress.port)) as c:
                assert c.ask(request("GET", "/status.ok")).status != 200


def lets_requests_finish_when_it_ends():
    go, begun = threading.Event(), threading.Event()

    def script(conn):
        conn.read_head()
        begun.set()
        assert go.wait(60)
        conn.send(OK)

    with gateway(script=script) as (ingress, backend, _):
        result = []
        thread = threading.Thread(
            target=lambda: result.append(ingress.to(f"web-{backend.port}")))
        thread.start()
        assert begun.wait(60)
        assert ingress.admin("/readyz")[0] == 200
        ingress.process.send_signal(signal.SIGTERM)
        wait_for(lambda: ingress.logged("draining"), "the drain")
        assert ingress.admin("/readyz")[0] == 503 and ingress.admin("/healthz")[0] == 200

        def refused():
            try:
                socket.create_connection(("127.0.0.1", ingress.port), 60).close()
            except ConnectionRefusedError:
                return True
            return False

        wait_for(refused, "the port to close")
        go.set()
        thread.join(60)
        assert result and result[0][0] == 200, result
        assert ingress.stop() == 0


def ends_in_time_with_open_tunnels_and_at_once_when_told_twice():
    with gateway("--drain-timeout", "1", script=websocket_echo) as (ingress, backend, _):
        with Client(("127.0.0.1", ingress.port)) as c:
            c.send(upgrade(ingress.port, backend.port, "Connection: Upgrade"))
            assert c.response(no_body=True).status == 101
            begin = time.monotonic()
            assert ingress.stop() == 0
            assert time.monotonic() - begin >= 0.9
    with gateway("--drain-timeout", "600", script=websocket_echo) as (ingress, backend, _):
        with Client(("127.0.0.1", ingress.port)) as c:
            c.send(upgrade(ingress.port, backend.port, "Connection: Upgrade"))
            assert c.response(no_body=True).status == 101
            ingress.process.send_signal(signal.SIGTERM)
            wait_for(lambda: ingress.logged("draining"), "the drain")
            assert ingress.stop() == 0


TESTS = [
    routes_by_header_host_and_old_header,
    refuses_targets_that_are_none,
    routes_by_path,
    cleans_paths_by_a_redirect,
    answers_health_itself_unless_a_sandbox_is_named,
    a_mode_that_does_not_exist_refuses_everything,
    checks_tokens_and_signatures,
    checks_signatures_in_paths_and_needs_keys,
    bounds_guesses_of_one_source,
    can_refuse_what_is_not_protected,
    reads_keys_again_at_sighup,
    starts_only_with_good_settings,
    gives_up_when_the_first_list_does_not_come,
    follows_the_cluster,
    finds_agent_sandboxes_by_their_names,
    passes_bodies_both_ways,
    streams_events_as_they_come,
    tells_the_app_where_requests_come_from,
    a_transfer_that_breaks_off_looks_broken,
    a_sandbox_that_does_not_answer_is_a_bad_gateway,
    can_wait_for_a_port_that_opens_late,
    relays_websockets_with_all_headers,
    passes_a_refused_handshake_on,
    closes_on_garbage_and_lives_on,
    limits_what_one_source_does,
    publishes_intents_to_redis,
    keeps_the_list_short_and_notes_long_connections,
    serves_while_redis_is_away,
    serves_https_and_reads_certificates_again,
    lets_requests_finish_when_it_ends,
    ends_in_time_with_open_tunnels_and_at_once_when_told_twice,
]

if __name__ == "__main__":
    sys.exit(run_tests(TESTS))
