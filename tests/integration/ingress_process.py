"""ingress_process.py - opensandbox-ingress, a stand-in for the API server, and Redis, for tests.

    with Cluster() as cluster, Ingress(PROGRAM, "--mode", "uri", cluster=cluster) as ingress:
        cluster.put("web", endpoint="127.0.0.1", token="t")
        status, headers, body = ingress.get("/web/8080/x")
"""
import contextlib
import http.client
import http.server
import json
import os
import pathlib
import queue
import signal
import subprocess
import tempfile
import threading
import time
import urllib.parse

SECONDS_MAX = 60


def wait_for(condition, what, seconds=SECONDS_MAX):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.01)
    return found


class Cluster:
    """The part of an API server that an informer uses: list and watch of one kind. What it serves
    is what put() and remove() say. `broken`: a status to answer instead."""

    def __init__(self, broken=None):
        self.broken, self.objects, self.revision = broken, {}, 1
        self.watchers, self.lock = [], threading.Lock()
        self.history = []  # of events, for watches that begin later
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                outer.serve(self)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.folder = tempfile.TemporaryDirectory(prefix="osb-ingress-")
        self.kubeconfig = pathlib.Path(self.folder.name) / "kubeconfig"
        self.kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {
                "server": f"http://127.0.0.1:{self.server.server_port}"}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }), encoding="utf-8")

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.cut()
        self.server.shutdown()
        self.server.server_close()
        self.folder.cleanup()

    def cut(self):
        """Ends all watches."""
        with self.lock:
            for watcher in self.watchers:
                watcher.put(None)

    def serve(self, handler):
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(handler.path).query)
        if self.broken:
            self.reply(handler, self.broken, {"kind": "Status", "status": "Failure",
                                              "code": self.broken, "message": "broken on purpose"})
        elif query.get("watch", ["0"])[0] in ("1", "true"):
            self.watch(handler)
        else:
            with self.lock:
                body = {"kind": "List", "metadata": {"resourceVersion": str(self.revision)},
                        "items": list(self.objects.values())}
            self.reply(handler, 200, body)

    @staticmethod
    def reply(handler, status, body):
        data = json.dumps(body).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def watch(self, handler):
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(handler.path).query)
        since = int(query.get("resourceVersion", ["0"])[0])
        events = queue.Queue()
        with self.lock:
            for event in self.history:
                if int(event["object"]["metadata"]["resourceVersion"]) > since:
                    events.put(event)
            self.watchers.append(events)
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        with contextlib.suppress(OSError):
            while (event := events.get()) is not None:
                data = json.dumps(event).encode() + b"\n"
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                handler.wfile.flush()
            handler.wfile.write(b"0\r\n\r\n")
        with self.lock:
            self.watchers.remove(events)

    def tell(self, kind, item):
        self.history.append({"type": kind, "object": item})
        for watcher in self.watchers:
            watcher.put(self.history[-1])

    def put(self, name, endpoint="127.0.0.1", token=None, ready=1, ns="default", phase="Succeed",
            status=None):
        annotations = {}
        if endpoint is not None:
            annotations["sandbox.opensandbox.io/endpoints"] = json.dumps([endpoint])
        if token:
            annotations["opensandbox.io/secure-access-token"] = token
        with self.lock:
            self.revision += 1
            known = (ns, name) in self.objects
            item = {"apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "BatchSandbox",
                    "metadata": {"name": name, "namespace": ns, "uid": f"{ns}-{name}",
                                 "resourceVersion": str(self.revision),
                                 "annotations": annotations},
                    "spec": {"replicas": 1}, "status": status or {"ready": ready, "phase": phase}}
            self.objects[ns, name] = item
            self.tell("MODIFIED" if known else "ADDED", item)

    def remove(self, name, ns="default"):
        with self.lock:
            self.revision += 1
            item = self.objects.pop((ns, name))
            item = {**item, "metadata": {**item["metadata"], "resourceVersion": str(self.revision)}}
            self.tell("DELETED", item)


class Ingress:
    """The program on a free port. `log` lines as they came; stopped by pid."""

    def __init__(self, program, *args, cluster=None, env=None, tls=None, metrics=True, wait=True):
        self.args = [program, "--port", "0", "--address", "127.0.0.1", *args]
        if cluster:
            self.args += ["--kubeconfig", str(cluster.kubeconfig)]
        if metrics:
            self.args += ["--metrics-address", "127.0.0.1:0"]
        self.env, self.tls, self.wait = env or {}, tls, wait
        self.lines, self.port, self.metrics_port, self.process = [], None, None, None

    def __enter__(self):
        env = {name: value for name, value in os.environ.items()
               if name in ("PATH", "LANG", "TMPDIR") or name.endswith("SAN_OPTIONS")}
        self.process = subprocess.Popen(self.args, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        env={**env, **self.env})
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        if self.wait:
            try:
                wait_for(lambda: self.port or self.process.poll() is not None, "the port")
                assert self.port, "it did not start:\n" + "\n".join(map(str, self.lines))
            except BaseException:
                self.kill()
                raise
        return self

    def read(self):
        for line in self.process.stdout:
            try:
                row = json.loads(line)
            except ValueError:
                row = {"msg": line.decode("utf-8", "replace").rstrip("\n")}
            self.lines.append(row)
            if row["msg"] == "listening":
                self.port = row["port"]
            if row["msg"] == "metrics are served":
                self.metrics_port = row["port"]

    def kill(self):
        self.process.kill()
        self.process.wait(SECONDS_MAX)

    def __exit__(self, kind, *_):
        status = self.stop()
        assert kind or status == 0, f"status {status}: {self.lines[-5:]}"

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self.reader.join(SECONDS_MAX)
        return status

    def logged(self, msg):
        return [row for row in self.lines if row["msg"] == msg]

    # --- talking to it ---

    @property
    def domain(self):
        return f"127.0.0.1:{self.port}"

    def connection(self):
        if self.tls:
            return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=SECONDS_MAX,
                                               context=self.tls)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS_MAX)

    def ask(self, method, path, headers=None, body=None):
        connection = self.connection()
        try:
            connection.request(method, path, body=body, headers=headers or {})
            reply = connection.getresponse()
            return reply.status, reply.headers, reply.read()
        finally:
            connection.close()

    def get(self, path, headers=None):
        return self.ask("GET", path, headers)

    def to(self, target, path="/", method="GET", body=None, **headers):
        """By header; a keyword argument x_y is the header x-y."""
        rows = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask(method, path, {"OpenSandbox-Ingress-To": target, **rows}, body)

    def admin(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.metrics_port, timeout=SECONDS_MAX)
        try:
            connection.request("GET", path)
            reply = connection.getresponse()
            return reply.status, reply.read().decode()
        finally:
            connection.close()

    def metric(self, row):
        for line in self.admin("/metrics")[1].splitlines():
            if line.startswith(row + " "):
                return float(line.rsplit(" ", 1)[1])
        return 0.0


class Redis:
    """redis-server on a unix socket and a port, and a client of few words."""

    def __init__(self, password=None):
        self.password, self.folder = password, tempfile.TemporaryDirectory(prefix="osb-redis-")
        os.chmod(self.folder.name, 0o755)  # a server is another user
        self.path = f"{self.folder.name}/redis.sock"
        self.process = None

    def __enter__(self):
        password = ["--requirepass", self.password] if self.password else []
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.path, "--unixsocketperm",
             "777", "--save", "",
             "--dir", self.folder.name, *password], stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        wait_for(lambda: self.call("PING") == "PONG", "redis")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(SECONDS_MAX)
        self.folder.cleanup()

    def call(self, *words):
        auth = ["-a", self.password, "--no-auth-warning"] if self.password else []
        done = subprocess.run(["redis-cli", "-s", self.path, *auth, *words], capture_output=True,
                              text=True, check=False, timeout=SECONDS_MAX)
        return done.stdout.strip()

    def intents(self, key="opensandbox:renew:intent"):
        lines = self.call("LRANGE", key, "0", "-1").splitlines()
        return [json.loads(line) for line in lines if line]

    @property
    def dsn(self):
        account = f":{self.password}@" if self.password else ""
        return f"unix://{account}{self.path}"
