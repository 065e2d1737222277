"""servers_process.py - several servers that share one PostgreSQL, each with a way to it of its own.

    with Servers(PROGRAMS, ["a", "b"]) as servers:
        a, b = servers["a"], servers["b"]
        servers.way("a").cut()   # a no longer reaches the database
"""
import contextlib
import http.client
import pathlib
import selectors
import socket
import ssl
import tempfile
import threading

import postgres_process
from server_process import SECONDS_MAX, ServerProcess, wait_for

KEY = "a-key-of-all-servers-0123456789"
LEASE_S = 3


class Way:
    """A listening socket whose connections lead to an address, until it is cut."""

    def __init__(self, listener, target):
        self.listener, self.target = listener, target
        self.lock = threading.Lock()
        self.pairs = {}
        self.is_cut = False
        self.listener.listen(64)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.stopped = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.stopped:
            for key, _ in self.selector.select(0.05):
                with self.lock:
                    if key.fileobj is self.listener:
                        self.accept()
                    elif key.fileobj in self.pairs:
                        self.pass_on(key.fileobj)

    def accept(self):
        client, _ = self.listener.accept()
        if self.is_cut:
            client.close()
            return
        server = socket.socket(self.listener.family)
        try:
            server.connect(self.target)
        except OSError:
            server.close()
            client.close()
            return
        for one, other in ((client, server), (server, client)):
            self.pairs[one] = other
            self.selector.register(one, selectors.EVENT_READ)

    def pass_on(self, sock):
        try:
            data = sock.recv(1 << 16)
            if data:
                self.pairs[sock].sendall(data)
                return
        except OSError:
            pass
        self.drop(sock)

    def drop(self, sock):
        for one in (sock, self.pairs[sock]):
            self.selector.unregister(one)
            del self.pairs[one]
            one.close()

    def cut(self):
        with self.lock:
            self.is_cut = True
            while self.pairs:
                self.drop(next(iter(self.pairs)))

    def mend(self):
        self.is_cut = False

    def close(self):
        self.stopped = True
        self.thread.join()
        with self.lock:
            while self.pairs:
                self.drop(next(iter(self.pairs)))
            self.listener.close()


class WayToPostgres(Way):
    """A unix socket that leads to PostgreSQL's."""

    def __init__(self, target):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="osb-way-"))
        self.folder.chmod(0o755)
        self.path = self.folder / ".s.PGSQL.5432"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.path))
        self.path.chmod(0o777)
        super().__init__(listener, str(target / ".s.PGSQL.5432"))

    def close(self):
        super().close()
        self.path.unlink()
        self.folder.rmdir()


class WayToServer(Way):
    """A port that leads to a server's: what the other servers are told to use."""

    def __init__(self, server):
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        self.url = f"{server.url.split(':')[0]}://127.0.0.1:{listener.getsockname()[1]}"
        super().__init__(listener, (server.host, server.port))


class SecureServer(ServerProcess):
    """A server that speaks https."""

    authority = None

    @property
    def url(self):
        return f"https://{self.domain}"

    def connection(self, timeout=SECONDS_MAX):
        return http.client.HTTPSConnection(
            self.host, self.port, timeout=timeout,
            context=ssl.create_default_context(cafile=self.authority))


class Servers:
    """Servers by name. `cluster` is laid over their [cluster]; `config` over all of it. With
    `doors`, servers reach each other by ways that can be cut."""

    def __init__(self, programs, names, cluster=None, config=None, tls=None, doors=False):
        self.programs, self.names = programs, names
        self.cluster, self.config = cluster or {}, config or {}
        self.tls = tls  # (certificate, key)
        self.servers, self.ways, self.doors = {}, {}, {} if doors else None
        self.stack = contextlib.ExitStack()

    def __getitem__(self, name):
        return self.servers[name]

    def way(self, name):
        return self.ways[name]

    def door(self, name):
        """The way of the other servers to this one."""
        return self.doors[name]

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.postgres = stack.enter_context(postgres_process.Postgres())
            for name in self.names:
                self.ways[name] = WayToPostgres(self.postgres.folder)
                stack.callback(self.ways[name].close)
                self.servers[name] = self.make(name)
                stack.callback(self.servers[name].remove)
                if self.doors is not None:
                    self.doors[name] = WayToServer(self.servers[name])
                    stack.callback(self.doors[name].close)
                    self.servers[name].config["cluster"]["advertise"] = self.doors[name].url
            for server in self.servers.values():
                server.start()
            self.stack = stack.pop_all()
        self.know_each_other()
        return self

    def make(self, name):
        server = (SecureServer if self.tls else ServerProcess)(*self.programs)
        config = {section: dict(keys) for section, keys in self.config.items()}
        config.setdefault("server", {})["api_key"] = KEY
        if self.tls:
            server.authority = str(self.tls[0])
            config["server"].update(zip(("tls_cert", "tls_key"), map(str, self.tls)))
            self.cluster["ca_file"] = server.authority
        config["store"] = {"type": "postgres", "dsn": f"host={self.ways[name].folder} "
                           "user=postgres dbname=postgres options='-c search_path=public'"}
        config["cluster"] = {"advertise": server.url, "lease_seconds": LEASE_S,
                             "give_up_seconds": 600, **self.cluster}
        server.config = config
        return server

    def know_each_other(self):
        """Until each has seen all the others alive."""
        for server in self.servers.values():
            wait_for(lambda server=server: server.log().count("another server is there")
                     >= len(self.servers) - 1, "the servers to meet")

    def query(self, sql):
        return self.postgres.query(sql).stdout.strip()

    def __exit__(self, *failed):
        self.stack.close()


def has_all(server, names):
    """Whether a list, in pages, has exactly these sandboxes."""
    found, page = [], 1
    while True:
        status, _, body = server.request("GET", f"/v1/sandboxes?page={page}&pageSize=3")
        assert status == 200, (status, body)
        found += [item["id"] for item in body["items"]]
        if not body["pagination"]["hasNextPage"]:
            break
        page += 1
    assert body["pagination"]["totalItems"] == len(found), (body["pagination"], found)
    assert len(set(found)) == len(found), found
    return sorted(found) == sorted(names)
