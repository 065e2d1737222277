"""registry_process.py - Debian's docker-registry at a free port, filled by skopeo; a token server
and a proxy for it.

    with Registry(folder) as registry:
        registry.push(layout, "me/app:1")
"""
import base64
import contextlib
import http.server
import json
import pathlib
import select
import socket
import subprocess
import threading
import time
import urllib.parse

SECONDS_MAX = 120
# Of "pw": bcrypt is the only form that the registry takes, and little else here can make it.
HTPASSWD = "me:$2b$04$tLvBadInOG2B9YQrxjSVLu.iLeNnMW3GSubhWSGIRb/swSOtr/AmW\n"


def run(*args):
    done = subprocess.run([str(arg) for arg in args], capture_output=True, text=True,
                          timeout=SECONDS_MAX, check=False)
    assert done.returncode == 0, f"{args}: {done.stdout}{done.stderr}"
    return done.stdout


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def make_layout(folder, big_mb=3):
    """An OCI layout with an image `app` of busybox and a file that does not compress. Its path."""
    layout, big = folder / "layout", folder / "big"
    big.write_bytes(pathlib.Path("/dev/urandom").open("rb").read(big_mb << 20))
    run("umoci", "init", "--layout", layout)
    run("umoci", "new", "--image", f"{layout}:app")
    run("umoci", "insert", "--rootless", "--image", f"{layout}:app", "/bin/busybox", "/bin/busybox")
    run("umoci", "insert", "--rootless", "--image", f"{layout}:app", big, "/data/big")
    run("umoci", "config", "--image", f"{layout}:app", "--config.env", "GREETING=hello",
        "--config.cmd", "/bin/busybox")
    return layout


class Registry:
    """auth: lines of the configuration under "auth:"; tls: (certificate, key)."""

    def __init__(self, folder, auth="", tls=None):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(exist_ok=True)
        self.port = free_port()
        self.host = f"localhost:{self.port}"
        self.tls = tls
        lines = ["version: 0.1", "storage:", "  filesystem:",
                 f"    rootdirectory: {self.folder}/data", "http:",
                 f"  addr: 127.0.0.1:{self.port}", "  secret: x"]
        if tls:
            lines += ["  tls:", f"    certificate: {tls[0]}", f"    key: {tls[1]}"]
        if auth:
            lines += ["auth:", *("  " + line for line in auth.splitlines())]
        self.config = self.folder / "config.yml"
        self.config.write_text("\n".join(lines) + "\n")

    def __enter__(self):
        self.process = subprocess.Popen(["docker-registry", "serve", str(self.config)],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.await_listening()
        # It goes on to talk, and must not be stopped by a full pipe.
        self.reader = threading.Thread(target=self.process.stderr.read, daemon=True)
        self.reader.start()
        return self

    def await_listening(self):
        deadline, seen = time.monotonic() + SECONDS_MAX, b""
        while b"listening on" not in seen:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self.process.stderr], [], [], max(left, 0))
            piece = self.process.stderr.read1() if ready else b""
            assert piece, f"docker-registry did not begin: {seen.decode()}"
            seen += piece

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(SECONDS_MAX)
        self.reader.join(SECONDS_MAX)
        self.process.stderr.close()

    def push(self, layout, name, *options, image="app"):
        run("skopeo", "copy", "--insecure-policy", "--dest-tls-verify=false", *options,
            f"oci:{layout}:{image}", f"docker://{self.host}/{name}")


@contextlib.contextmanager
def serving(handler):
    """A server of Python at a free port, its handler's class in a thread each. The server."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(SECONDS_MAX)


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class TokenIssuer:
    """Signs the tokens that a registry believes, with a key of its own."""

    def __init__(self, folder):
        self.key, self.cert = folder / "token.key", folder / "token.pem"
        run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", self.key, "-out",
            self.cert, "-days", "2", "-subj", "/CN=tokens")
        self.asked = []

    def auth(self, port):
        """What the registry's configuration has to say."""
        return (f"token:\n  realm: http://localhost:{port}/token\n  service: test-registry\n"
                f"  issuer: test-issuer\n  rootcertbundle: {self.cert}")

    def issue(self, scope):
        pem = self.cert.read_text()
        der = "".join(line for line in pem.splitlines() if "-" not in line)
        kind, name, actions = scope.split(":")
        now = int(time.time())
        head = {"typ": "JWT", "alg": "RS256", "x5c": [der]}
        claims = {"iss": "test-issuer", "aud": "test-registry", "sub": "me", "jti": str(now),
                  "iat": now - 10, "nbf": now - 10, "exp": now + 300,
                  "access": [{"type": kind, "name": name, "actions": actions.split(",")}]}
        text = ".".join(base64url(json.dumps(part).encode()) for part in (head, claims))
        done = subprocess.run(["openssl", "dgst", "-sha256", "-sign", str(self.key)], check=True,
                              input=text.encode(), capture_output=True, timeout=SECONDS_MAX)
        return f"{text}.{base64url(done.stdout)}"

    def handler(self):
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
                given = self.headers.get("Authorization", "")
                issuer.asked.append((query.get("scope", [""])[0], given))
                good = given == "Basic " + base64.b64encode(b"me:pw").decode()
                body = json.dumps({"token": issuer.issue(query["scope"][0]), "expires_in": 300}
                                  if good else {"details": "wrong password"}).encode()
                self.send_response(200 if good else 401)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        return Handler


def tunnel_handler(port, seen):
    """A proxy that leads every CONNECT to our port, whatever was asked for; `seen` says what."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_CONNECT(self):
            seen.append(self.path)
            with socket.create_connection(("127.0.0.1", port), SECONDS_MAX) as there:
                self.send_response(200)
                self.end_headers()
                self.wfile.flush()
                self.relay(there)
            self.close_connection = True

        def relay(self, there):
            here, ends = self.connection, {self.connection: there, there: self.connection}
            while True:
                ready, _, _ = select.select([here, there], [], [], SECONDS_MAX)
                for sock in ready:
                    piece = sock.recv(65536)
                    if not piece:
                        return
                    ends[sock].sendall(piece)
                if not ready:
                    return

        def log_message(self, *_):
            pass

    return Handler
