"""server_process.py - opensandbox-server with a directory of its own, and nothing left of it.

    with ServerProcess(server, broker, execd, sandboxctl) as server:
        status, headers, body = server.request("GET", "/v1/sandboxes")

The server is the real one, started as root: it starts its broker and drops to another user. Leaving
the block stops both, removes the sandboxes that are left, and fails when anything stays behind.
"""
import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import time

import broker_process
import postgres_process
from broker_process import Broker, children, is_alive

SECONDS_MAX = 120  # for what takes milliseconds, on a machine that may do much else

why_not = broker_process.why_not


def wait_for(condition, what, seconds=SECONDS_MAX):
    broker_process.wait_for(condition, what, seconds)


def reserve_port():
    """A bound socket that reserves its port for a server to be started: while the socket is open,
    the kernel gives the port to no other process, except one that sets SO_REUSEADDR and listens
    there."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", 0))
    return sock


def toml(sections):
    """{"section": {"key": value}} as TOML. Strings, numbers, booleans and lists of them."""
    lines = []
    for section, keys in sections.items():
        lines.append(f"[{section}]")
        lines += [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


class ServerProcess:
    """A server on 127.0.0.1.

    `config` is laid over what a test wants anyway: {"section": {"key": value}}, sections by their
    full name ("embedded.images"). `env` is added to the environment. What it logged is in log().
    """

    def __init__(self, server, broker, execd, ctl, config=None, env=None):
        server, broker, execd, ctl = map(os.path.abspath, (server, broker, execd, ctl))
        self.program, self.env, self.config = server, env or {}, config or {}
        self.reserved = reserve_port()
        self.host, self.port = self.reserved.getsockname()
        # The same directory under a broker of our own is how sandboxes are removed at the end.
        self.broker = Broker(broker, execd, ctl)
        self.folder, self.state = self.broker.folder, self.broker.state
        self.config_path, self.log_path = self.folder / "config.toml", self.folder / "server.log"
        self.config_mode, self.dsn = 0o644, ""
        self.options = []
        self.process = None

    # --- its life ---

    def start(self, wait=True):
        """Starts it and waits until it is ready."""
        self.spawn()
        if wait:
            wait_for(lambda: self.process.poll() is not None or self.is_ready(), "the server")
            assert self.process.poll() is None, f"it did not start:\n{self.log()[-4000:]}"
        return self

    def spawn(self):
        self.write_config()
        # Nothing of the user who runs the tests: no configuration, no key, no proxy.
        env = {name: value for name, value in os.environ.items()
               if name in ("PATH", "LANG", "TMPDIR") or name.endswith("SAN_OPTIONS")}
        env.update({"HOME": str(self.folder), **self.env})
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [self.program, "--config", str(self.config_path), *self.options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", env=env,
                start_new_session=True)

    def write_config(self):
        """The file, for the next start or a SIGHUP."""
        sections = {
            "server": {"host": self.host, "port": self.port, "state": str(self.state)},
            "runtime": {"ready": 2, "execd_program": self.broker.execd},
            "images": {"pull_policy": "Never"},  # a test that pulls says so, and from where
            "embedded": {"broker_program": self.broker.program},
        }
        given = json.loads(os.environ.get("OSB_TEST_CONFIG", "{}"))  # of on_runtime.py
        for section, keys in (*given.items(), *self.config.items()):
            sections.setdefault(section, {}).update(keys)
        dsn = sections.get("store", {}).get("dsn", "")
        if dsn and "search_path" not in dsn:  # tables of its own, as a file would be
            sections["store"]["dsn"] = postgres_process.own_schema(sections["store"]["dsn"],
                                                                   self.folder.name)
        self.dsn = sections.get("store", {}).get("dsn", "")  # of its PostgreSQL; "" with SQLite
        self.config_path.write_text(toml(sections), encoding="utf-8")
        self.config_path.chmod(self.config_mode)

    def stop(self, signo=signal.SIGTERM):
        """Ends the server and waits for its broker to follow; sandboxes live on. Its exit status,
        which a caller who sent SIGTERM expects to be 0."""
        if self.process is None:
            return 0
        helpers = children(self.process.pid)
        if self.process.poll() is None:
            self.process.send_signal(signo)
        status = self.process.wait(SECONDS_MAX)
        wait_for(lambda: not any(map(is_alive, helpers)), "the end of the server's broker")
        return status

    def kill9(self):
        self.stop(signal.SIGKILL)

    def restart(self):
        status = self.stop()
        assert status == 0, f"status {status}:\n{self.log()[-4000:]}"
        return self.start()

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.remove()
            raise

    def __exit__(self, kind, *_):
        status = self.stop()
        self.remove()
        assert kind or status == 0, f"the server ended with status {status}"

    def remove(self):
        """Whatever state the server is in: ends it, removes sandboxes, mounts and files."""
        if self.process and self.process.poll() is None:
            self.kill9()
        self.reserved.close()
        with self.broker:
            pass

    # --- what it is ---

    @property
    def pid(self):
        return self.process.pid

    @property
    def domain(self):
        """host:port, as clients want it."""
        return f"{self.host}:{self.port}"

    @property
    def url(self):
        return f"http://{self.domain}"

    @property
    def api_key(self):
        """The configured one, or that of its first start; None when it has none."""
        if "api_key" in self.config.get("server", {}):
            return self.config["server"]["api_key"]
        path = self.state / "server" / "api_key"
        return path.read_text(encoding="ascii").strip() if path.exists() else None

    def log(self):
        with contextlib.suppress(FileNotFoundError):
            return self.log_path.read_text(encoding="utf-8", errors="replace")
        return ""

    # --- talking to it ---

    def is_ready(self):
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.request("GET", "/ready", key=None)[0] == 200
        return False

    def connection(self, timeout=SECONDS_MAX):
        """A connection to it, of http.client."""
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def request(self, method, path, body=None, headers=None, key="", timeout=SECONDS_MAX):
        """Status, headers and body of one request; JSON is decoded. `key`: "" for the server's own,
        None for none."""
        headers = dict(headers or {})
        key = self.api_key if key == "" else key
        if key:
            headers.setdefault("OPEN-SANDBOX-API-KEY", key)
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        connection = self.connection(timeout)
        try:
            connection.request(method, path, body=body, headers=headers)
            reply = connection.getresponse()
            data = reply.read()
        finally:
            connection.close()
        if reply.headers.get_content_type() == "application/json" and data:
            data = json.loads(data)
        return reply.status, reply.headers, data

    def create(self, image="host", **fields):
        """A sandbox by its id, running. `fields` are those of the request."""
        request = {"image": {"uri": image}, "entrypoint": ["tail", "-f", "/dev/null"],
                   "resourceLimits": {"cpu": "1", "memory": "512Mi"}, "timeout": 600, **fields}
        status, _, body = self.request("POST", "/v1/sandboxes", request)
        assert status == 202, (status, body)
        self.wait_state(body["id"], "Running")
        return body["id"]

    def wait_state(self, sandbox_id, state, seconds=SECONDS_MAX):
        """Waits for a state, and says so when another one is final."""
        end = time.monotonic() + seconds
        while True:
            _, _, body = self.request("GET", f"/v1/sandboxes/{sandbox_id}")
            now = body.get("status", {}).get("state")
            if now == state:
                return body
            assert now not in ("Failed", "Terminated") and time.monotonic() < end, body
            time.sleep(0.01)
