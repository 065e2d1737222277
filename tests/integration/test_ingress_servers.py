"""The ingress gateway before two servers: which has a sandbox, and all that a sandbox can do.

Usage: test_ingress_servers.py INGRESS SERVER BROKER EXECD SANDBOXCTL. TAP on standard output.
Needs root.
"""
import contextlib
import http.client
import json
import os
import pathlib
import socket
import sys
import tempfile
import threading
import time
import urllib.parse

import websockets.sync.client

from http_backend import Backend
from ingress_process import Ingress, Redis, wait_for
from server_process import ServerProcess, why_not
from server_use import BOUNDARY

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
from tap import run_tests, skip_all  # noqa: E402

INGRESS, *PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:6]]
KEYS = "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5LXN0YXBsZS0zMmI="
SERVERS, FOLDER = [], None


def servers_file(*more):
    path = pathlib.Path(FOLDER) / f"servers-{time.monotonic_ns()}.toml"
    text = "".join(f'[[servers]]\nname = "{i}"\nurl = "{s.url}"\napi_key = "{s.api_key}"\n'
                   for i, s in enumerate(SERVERS))
    path.write_text(text + "".join(f'[[servers]]\nurl = "{url}"\n' for url in more))
    return str(path)


def gateway(*args, more=()):
    return Ingress(INGRESS, "--provider-type", "servers", "--servers-file", servers_file(*more),
                   "--secure-access-keys", f"a={KEYS}", *args)


class Box:
    """A sandbox of one of the servers, through the gateway, by what its endpoint says."""

    def __init__(self, ingress, server, sandbox_id=None):
        self.ingress, self.server = ingress, server
        self.id = sandbox_id or server.create()

    def headers(self, port=44772):
        status, _, body = self.server.request("GET", f"/v1/sandboxes/{self.id}/endpoints/{port}")
        assert status == 200, (status, body)
        return {"OpenSandbox-Ingress-To": f"{self.id}-{port}",
                "OpenSandbox-Secure-Access": body["headers"]["OpenSandbox-Secure-Access"]}

    def ask(self, method, path, body=None, port=44772, **more):
        return self.ingress.ask(method, path, {**self.headers(port), **more}, body)

    def run(self, line):
        status, _, data = self.ask("POST", "/command", json.dumps({"command": line}))
        events = [json.loads(part) for part in data.split(b"\n\n") if part.strip()]
        assert status == 200 and events[-1]["type"] == "execution_complete", (status, data[:500])
        return "\n".join(event["text"] for event in events if event["type"] == "stdout")

    def remove(self):
        self.server.request("DELETE", f"/v1/sandboxes/{self.id}")


@contextlib.contextmanager
def boxes(ingress):
    made = [Box(ingress, server) for server in SERVERS]
    try:
        yield made
    finally:
        for box in made:
            box.remove()


def finds_the_server_of_each_sandbox():
    with gateway() as ingress, boxes(ingress) as made:
        for box in made:
            assert box.run("hostname; echo hi").endswith("hi")
        assert ingress.to("none-44772")[0] == 404
        assert ingress.to(f"{made[0].id}-44772")[0] == 401
        assert ingress.to(f"{made[0].id}-44772", OpenSandbox_Secure_Access="x")[0] == 401
        wait_for(lambda: {row["target"] for row in ingress.logged("ingress requested")} ==
                 {"0/44772", "1/44772"}, "a line of the log for each server")


def moves_files_and_streams():
    with gateway() as ingress, boxes(ingress) as made:
        box, data = made[0], os.urandom(8 << 20)
        metadata = json.dumps({"path": "/tmp/large", "mode": 644}).encode()
        parts = b"".join(
            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"; '
            f'filename="{name}"\r\n\r\n'.encode() + content + b"\r\n"
            for name, content in (("metadata", metadata), ("file", data)))
        status, _, body = box.ask("POST", "/files/upload", parts + f"--{BOUNDARY}--\r\n".encode(),
                                  **{"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"})
        assert status == 200, (status, body)
        status, _, body = box.ask("GET", "/files/download?" +
                                  urllib.parse.urlencode({"path": "/tmp/large"}))
        assert status == 200 and body == data
        connection = ingress.connection()
        connection.request("POST", "/command", headers=box.headers(), body=json.dumps(
            {"command": "echo one; while ! test -e /tmp/go; do sleep 0.05; done; echo two"}))
        reply = connection.getresponse()
        seen = b""
        while b"one" not in seen:
            seen += reply.read1(4096)
        assert b"two" not in seen
        box.run("touch /tmp/go")
        assert b"two" in reply.read()
        connection.close()


def reaches_ports_of_the_workload():
    with gateway() as ingress, boxes(ingress) as made:
        box = made[1]
        box.run("mkdir -p /tmp/w && echo hello > /tmp/w/x && cd /tmp/w && "
                "(python3 -m http.server 8000 >/dev/null 2>&1 &)")
        status, _, body = wait_for(lambda: (r := box.ask("GET", "/x", port=8000))[0] == 200 and r,
                                   "the app")
        assert body == b"hello\n", body
        assert box.ask("GET", "/none", port=8000)[0] == 404  # the app's own


def opens_terminals_by_websocket():
    with gateway() as ingress, boxes(ingress) as made:
        box = made[0]
        status, _, body = box.ask("POST", "/pty", "{}")
        assert status in (200, 201), (status, body)
        session = json.loads(body)["session_id"]
        with socket.create_connection(("127.0.0.1", ingress.port), 60) as sock:
            ws = websockets.sync.client.connect(
                f"ws://{ingress.domain}/pty/{session}/ws", sock=sock, compression=None,
                additional_headers=box.headers(), open_timeout=60)
            ws.send(b"\0echo $((6*7))\n")
            seen = b""
            while b"42" not in seen:
                piece = ws.recv(60)
                seen += piece if isinstance(piece, bytes) else b""
            ws.close()


def serves_by_path_and_by_signed_route():
    with gateway("--mode", "uri") as ingress, boxes(ingress) as made:
        box = made[0]
        status, _, body = box.server.request(
            "GET", f"/v1/sandboxes/{box.id}/endpoints/44772?expires={int(time.time()) + 600}")
        assert status == 200, body
        token = body["headers"]["OpenSandbox-Ingress-To"]
        expires, signature = token.split("-")[-2:]
        path = f"/{box.id}/44772/{expires}/{signature}/ping"
        assert ingress.get(path)[0] == 200, ingress.get(path)
        wrong = ("0" if signature[0] != "0" else "1") + signature[1:]
        assert ingress.get(f"/{box.id}/44772/{expires}/{wrong}/ping")[0] == 401
        assert ingress.get(f"/{box.id}/44772/ping")[0] == 401


def looks_again_when_a_sandbox_is_gone():
    with gateway("--lookup-ttl", "3600") as ingress:
        box = Box(ingress, SERVERS[0])
        headers = box.headers()
        assert ingress.get("/ping", headers)[0] == 200
        box.remove()
        wait_for(lambda: ingress.get("/ping", headers)[0] == 404, "404 of the gateway")
        _, _, body = ingress.get("/ping", headers)
        assert body.startswith(b"OpenSandbox Ingress: sandbox not found"), body
        assert ingress.metric("ingress_retries_total") >= 1


def resumes_a_paused_sandbox():
    with gateway("--wake-timeout", "60", "--lookup-ttl", "3600") as ingress, boxes(ingress) as made:
        box = made[1]
        headers = box.headers()
        assert ingress.get("/ping", headers)[0] == 200

        def pause():
            status, _, body = box.server.request("POST", f"/v1/sandboxes/{box.id}/pause")
            assert status == 202, (status, body)
            box.server.wait_state(box.id, "Paused")

        pause()
        status, _, body = ingress.get("/ping", {**headers, "OpenSandbox-Secure-Access": "x"})
        assert status == 401, (status, body)
        box.server.wait_state(box.id, "Paused")  # a stranger wakes nothing
        assert ingress.get("/ping", headers)[0] == 200
        box.server.wait_state(box.id, "Running")
        assert ingress.metric("ingress_wakes_total") == 1
    with gateway() as ingress, boxes(ingress) as made:
        box = made[1]
        headers = box.headers()
        box.server.request("POST", f"/v1/sandboxes/{box.id}/pause")
        box.server.wait_state(box.id, "Paused")
        status, _, body = ingress.get("/ping", headers)
        assert status == 503 and b"paused" in body, (status, body)


def says_so_when_a_server_is_away():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with gateway(more=(f"http://127.0.0.1:{port}",)) as ingress, boxes(ingress) as made:
        assert made[0].run("echo hi") == "hi"  # found on another
        status, _, body = ingress.to("none-44772")
        assert status == 502, (status, body)  # the one that is away may have it


def a_server_that_answers_nonsense_is_survived():
    def script(conn):
        conn.read_head()
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"status\"")

    with Backend(script) as backend, gateway(more=(f"http://{backend.address}",)) as ingress, \
            boxes(ingress) as made:
        assert made[0].run("echo hi") == "hi"
        assert ingress.to("none-44772")[0] == 502


def many_clients_at_once_are_served():
    with gateway() as ingress, boxes(ingress) as made:
        headers, wrong = [box.headers() for box in made], []

        def use(n):
            connection = http.client.HTTPConnection("127.0.0.1", ingress.port, timeout=60)
            for _ in range(40):
                connection.request("GET", "/ping", headers=headers[n % 2])
                reply = connection.getresponse()
                reply.read()
                if reply.status != 200:
                    wrong.append(reply.status)
            connection.close()

        threads = [threading.Thread(target=use, args=(n,)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert not wrong, wrong


def servers_read_the_intents_of_gateways():
    with Redis() as redis:
        config = {"renew_intent": {"enabled": True},
                  "renew_intent.redis": {"enabled": True, "dsn": redis.dsn, "queue_key": "mine"}}
        with ServerProcess(*PROGRAMS, config=config) as server:
            box = server.create(timeout=600,
                                extensions={"access.renew.extend.seconds": "7200"})

            def expiry():
                return server.request("GET", f"/v1/sandboxes/{box}")[2]["expiresAt"]

            before = expiry()
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            for text in ("nonsense", "{}",
                         json.dumps({"sandbox_id": box, "observed_at": "2020-01-01T00:00:00Z"}),
                         json.dumps({"sandbox_id": "none", "observed_at": now})):
                redis.call("LPUSH", "mine", text)
            wait_for(lambda: redis.call("LLEN", "mine") == "0", "the list to be read")
            assert expiry() == before
            redis.call("LPUSH", "mine", json.dumps({"sandbox_id": box, "observed_at": now}))
            wait_for(lambda: expiry() > before, "the renewal")
            server.request("DELETE", f"/v1/sandboxes/{box}")


TESTS = [
    finds_the_server_of_each_sandbox,
    moves_files_and_streams,
    reaches_ports_of_the_workload,
    opens_terminals_by_websocket,
    serves_by_path_and_by_signed_route,
    looks_again_when_a_sandbox_is_gone,
    resumes_a_paused_sandbox,
    says_so_when_a_server_is_away,
    a_server_that_answers_nonsense_is_survived,
    many_clients_at_once_are_served,
    servers_read_the_intents_of_gateways,
]


def main():
    global FOLDER
    skip_all(why_not())
    config = {"ingress.secure_access": {"active_key": "a"}}
    with tempfile.TemporaryDirectory(prefix="osb-ingress-") as FOLDER, \
            contextlib.ExitStack() as all_:
        for _ in range(2):
            server = SignedServer(*PROGRAMS, config=config)
            SERVERS.append(all_.enter_context(server))
        return run_tests(TESTS)


class SignedServer(ServerProcess):
    def write_config(self):
        super().write_config()
        with open(self.config_path, "a", encoding="utf-8") as config:
            config.write(f'[[ingress.secure_access.keys]]\nkey_id = "a"\nkey = "{KEYS}"\n')


if __name__ == "__main__":
    sys.exit(main())
