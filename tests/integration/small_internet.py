"""small_internet.py - two network namespaces without a way out: inside, where a workload lives and
every address leads to the interceptor, and the world, where servers have these addresses.

    with SmallInternet((certificate, key), {}) as net:
        net.requests          # what the servers got
        net.connect("198.51.100.7", 443)   # a socket of the workload
"""
import base64
import ctypes
import hashlib
import http.server
import json
import os
import socket
import ssl
import subprocess
import threading
import urllib.parse

CLONE_NEWNET = 0x40000000
SECONDS_MAX = 120
ADDRESS = "198.51.100.7"
ADDRESS_ELSE = "198.51.100.66"
ADDRESS_6 = "2001:db8::7"
WS_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_libc = ctypes.CDLL(None, use_errno=True)


def in_netns(path, work, *args):
    """Runs it in a thread of its own within the namespace; sockets that it makes stay there."""
    result = []

    def run():
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if _libc.setns(fd, CLONE_NEWNET) < 0:
                raise OSError(ctypes.get_errno(), "setns")
            result.append((work(*args), None))
        except BaseException as error:  # handed to the caller
            result.append((None, error))
        finally:
            os.close(fd)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    value, error = result[0]
    if error:
        raise error
    return value


class Namespace:
    """A network namespace, held by a process."""

    def __init__(self):
        self.holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c",
             "ip link set lo up && " + " && ".join(
                 # Without "nodad" a busy kernel gives an IPv6 address out only after a while.
                 f"ip addr add {a} dev lo" for a in (ADDRESS, ADDRESS_ELSE, f"{ADDRESS_6} nodad")) +
             " && echo up && exec cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.holder.stdout.readline() == b"up\n"
        self.path = f"/proc/{self.holder.pid}/ns/net"

    def command(self, *argv):
        return ["nsenter", f"--net={self.path}", *map(str, argv)]

    def close(self):
        self.holder.stdin.close()
        self.holder.wait(SECONDS_MAX)


class Handler(http.server.BaseHTTPRequestHandler):
    """Records requests; answers depend on the path."""

    protocol_version = "HTTP/1.1"
    timeout = SECONDS_MAX

    def log_message(self, *_):
        pass

    def chunks(self):
        while True:
            size = int(self.rfile.readline().split(b";")[0], 16)
            left = size
            while left:
                piece = self.rfile.read(min(left, 1 << 20))
                left -= len(piece)
                yield piece
            self.rfile.readline()
            if not size:
                return

    def pieces(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            yield from self.chunks()
            return
        left = int(self.headers.get("Content-Length", 0))
        while left:
            piece = self.rfile.read(min(left, 1 << 20))
            if not piece:
                raise ConnectionError("the body broke off")
            left -= len(piece)
            yield piece

    def read_body(self, keep=True):
        digest, total, kept = hashlib.sha256(), 0, b""
        for piece in self.pieces():
            digest.update(piece)
            total += len(piece)
            if keep:
                kept += piece
        return {"bytes": total, "sha256": digest.hexdigest()}, kept

    def record(self, body):
        self.server.net.requests.append({
            "host": self.headers.get("Host"), "method": self.command, "target": self.path,
            "headers": [list(row) for row in self.headers.items()], "body": body,
            "tls": isinstance(self.connection, ssl.SSLSocket)})

    def reply(self, body, *headers, status=200):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_stream(self, total):
        self.send_response(200)
        self.send_header("Content-Length", str(total))
        self.end_headers()
        block = b"x" * (1 << 20)
        while total:
            self.wfile.write(block[:total])
            total -= min(total, len(block))

    def serve_websocket(self):
        """Answers the handshake, then echoes bytes as they are until the end."""
        key = self.headers["Sec-WebSocket-Key"].encode()
        accept = base64.b64encode(hashlib.sha1(key + WS_GUID).digest()).decode()
        self.send_response(101)
        for name, value in (("Upgrade", "websocket"), ("Connection", "Upgrade"),
                            ("Sec-WebSocket-Accept", accept)):
            self.send_header(name, value)
        self.end_headers()
        while True:
            data = self.connection.recv(65536)
            if not data:
                break
            self.connection.sendall(data)
        self.close_connection = True

    def handle_any(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        if url.path == "/ws":
            self.record("")
            self.serve_websocket()
            return
        facts, body = self.read_body(keep=url.path != "/upload")
        self.record(body.decode("latin-1"))
        if url.path == "/held":  # answers when the test lets it
            assert self.server.net.held.wait(SECONDS_MAX)
        if url.path == "/stream":
            self.send_stream(int(query["bytes"]))
        elif url.path == "/upload":
            self.reply(json.dumps(facts).encode())
        elif url.path == "/split":  # a secret in pieces
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for byte in self.headers.get("Authorization", "").encode():
                self.wfile.write(b"1\r\n%c\r\n" % byte)
                self.wfile.flush()
            self.wfile.write(b"0\r\nX-Trailer: " + self.headers.get("Authorization", "").encode() +
                             b"\r\n\r\n")
        else:
            echoed = json.dumps([list(row) for row in self.headers.items()]).encode()
            auth = self.headers.get("Authorization") or self.headers.get("X-Acme-Key") or "none"
            self.reply(echoed, ("X-Echo", auth), ("X-Echo", "again " + auth),
                       ("Content-Type", "application/json"))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = handle_any


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, net, address, context=None):
        self.net = net
        self.context = context
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, Handler)

    def server_bind(self):
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = self.server_address[:2]

    def finish_request(self, request, client_address):
        request.settimeout(SECONDS_MAX)
        if self.context:
            request = self.context.wrap_socket(request, server_side=True)
        self.RequestHandlerClass(request, client_address, self)

    def handle_error(self, *_):
        pass  # clients break off


class SmallInternet:
    """Servers for every name at one address, at 80 and 443."""

    def __init__(self, certificate, others):
        """certificate: files of the certificate and its key; others: the same by server name."""
        self.requests, self.held = [], threading.Event()
        self.inside, self.world = Namespace(), Namespace()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        by_name = {}
        for name, files in others.items():
            by_name[name] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            by_name[name].load_cert_chain(*files)

        def choose(sock, name, _):
            sock.context = by_name.get(name, context)

        context.sni_callback = choose
        self.servers = []
        for at, tls in (((ADDRESS, 443), context), ((ADDRESS, 80), None),
                        ((ADDRESS_6, 443), context), ((ADDRESS_ELSE, 443), context),
                        ((ADDRESS_ELSE, 80), None)):
            server = in_netns(self.world.path, Server, self, at, tls)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.servers.append(server)

    def connect(self, address=ADDRESS, port=443):
        sock = in_netns(self.inside.path, socket.create_connection, (address, port), SECONDS_MAX)
        sock.settimeout(SECONDS_MAX)
        return sock

    def close(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()
        self.inside.close()
        self.world.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
