"""The server over https: curl, openssl s_client, streams through the gateway, and hostile peers.

Usage: test_tls.py SERVER BROKER EXECD SANDBOXCTL. TAP on standard output. Needs root.
"""
import contextlib
import hashlib
import json
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import sys
import tempfile

import websockets.sync.client

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from execd_client import Reply, send  # noqa: E402
from pty_terminal import Sessions  # noqa: E402
from server_process import SECONDS_MAX, wait_for, why_not  # noqa: E402
from server_use import Gateway  # noqa: E402
from tls_process import Authority, TlsServer  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:5]]
LARGE_BYTES = 32 << 20
HANDSHAKE_FAILED, CA_UNKNOWN = 35, 60  # exit statuses of curl

AUTHORITY = SERVER = BOX = None


def curl(*args, server=None, trust=True):
    server = server or SERVER
    cacert = ["--cacert", str(AUTHORITY.ca)] if trust else []
    return subprocess.run(["curl", "-sS", "--max-time", str(SECONDS_MAX), *cacert, *args],
                          capture_output=True, check=False)


def s_client(*args, sent=b"", server=None):
    """Output of one connection with openssl, both streams together."""
    server = server or SERVER
    done = subprocess.run(
        ["openssl", "s_client", "-connect", server.domain, "-CAfile", str(AUTHORITY.ca),
         "-verify_return_error", *args], input=sent, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, check=False, timeout=SECONDS_MAX)
    return done.stdout.decode("utf-8", "replace")


def connect(server=None, context=None, **more):
    server = server or SERVER
    sock = socket.create_connection((server.host, server.port), SECONDS_MAX)
    return (context or server.context).wrap_socket(sock, server_hostname="localhost", **more)


def plain_connect():
    return socket.create_connection((SERVER.host, SERVER.port), SECONDS_MAX)


def read_all(sock):
    """Up to the end, in order or not."""
    data = b""
    with contextlib.suppress(ConnectionError):
        while piece := sock.recv(65536):
            data += piece
    return data


def check_serves(server=None):
    status, _, _ = (server or SERVER).request("GET", "/health", key=None)
    assert status == 200, status


def serial(server=None):
    with connect(server) as sock:
        return sock.getpeercert()["serialNumber"]


# --- clients ---


def curl_trusts_the_authority_it_is_given_only():
    done = curl(f"{SERVER.url}/health")
    assert done.returncode == 0 and b"healthy" in done.stdout, done
    done = curl(f"https://localhost:{SERVER.port}/health")
    assert done.returncode == 0, done
    done = curl(f"{SERVER.url}/health", trust=False)
    assert done.returncode == CA_UNKNOWN, done


def the_log_says_https():
    assert f"listening address=https://{SERVER.domain}" in SERVER.log(), SERVER.log()


def a_kept_connection_serves_many_requests():
    done = curl(f"{SERVER.url}/health", f"{SERVER.url}/health", "-v")
    assert done.returncode == 0 and b"Re-using existing connection" in done.stderr, done


def curl_uploads_and_downloads_a_large_file():
    data = os.urandom(1 << 20) * (LARGE_BYTES >> 20)
    base = f"{SERVER.url}/v1/sandboxes/{BOX}/proxy/44772"
    key = f"OPEN-SANDBOX-API-KEY: {SERVER.api_key}"
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name, "large")
        path.write_bytes(data)
        metadata = json.dumps({"path": "/tmp/large", "mode": 644})
        done = curl("-f", "-H", key, "-F", f"metadata={metadata};filename=metadata",
                    "-F", f"file=@{path}", f"{base}/files/upload")
        assert done.returncode == 0, done
        done = curl("-f", "-H", key, "-o", f"{path}.back", f"{base}/files/download?path=/tmp/large")
        assert done.returncode == 0, done
        back = pathlib.Path(f"{path}.back").read_bytes()
    assert hashlib.sha256(back).digest() == hashlib.sha256(data).digest(), len(back)


def events_stream_through_the_gateway_as_they_happen():
    with Gateway(SERVER, BOX) as gateway:
        reply = gateway.start("echo one; while [ ! -e /tmp/go-on ]; do sleep 0.05; done; echo two")
        seen = b""
        while b"one" not in seen:
            seen += reply.readline()
        with Gateway(SERVER, BOX) as other:
            other.run("touch /tmp/go-on")
        rest = reply.read()
        assert b"two" in rest and b"execution_complete" in rest, rest


class TlsClient:
    """What Sessions wants of a client."""

    headers = None

    def connect(self):
        return connect()

    def ask(self, method, path, body=None):
        with self.connect() as client, client.makefile("rb") as file:
            rows = [f"{name}: {value}" for name, value in self.headers.items()]
            status, headers = send(client, file, method, path, body, rows)
            return Reply(status, headers, file.read(int(headers["content-length"])))


def websockets_through_the_gateway():
    client = TlsClient()
    client.headers = {"OPEN-SANDBOX-API-KEY": SERVER.api_key}
    sessions = Sessions(client, client.headers, f"/v1/sandboxes/{BOX}/proxy/44772")
    with sessions.view(sessions.new(), pty=0) as view:
        view.send("seq 100000; echo err >&2; exit 7\n")
        assert view.wait_end() == (7, 1000, "process exited")
        assert view.errors == b"err\n" and b"\n100000\n" in view.output
    url = f"wss://{SERVER.domain}{sessions.path(sessions.new())}"
    with websockets.sync.client.connect(url, ssl=SERVER.context, proxy=None,
                                        additional_headers=client.headers) as ws:
        assert "connected" in ws.recv(SECONDS_MAX)


def programs_inside_hear_that_it_is_https():
    script = ("import http.server as h\n"
              "class H(h.BaseHTTPRequestHandler):\n"
              " def do_GET(self):\n"
              "  self.send_response(200); self.end_headers()\n"
              "  self.wfile.write(str(self.headers.get_all('X-Forwarded-Proto')).encode())\n"
              "h.HTTPServer(('127.0.0.1', 8000), H).serve_forever()\n")
    with Gateway(SERVER, BOX) as gateway:
        gateway.upload("/tmp/proto.py", script.encode())
        gateway.run("python3 /tmp/proto.py", background=True)
    path = f"/v1/sandboxes/{BOX}/proxy/8000/"
    wait_for(lambda: SERVER.request("GET", path)[0] == 200, "the program in the sandbox")
    for headers in ({}, {"X-Forwarded-Proto": "http"}):
        _, _, body = SERVER.request("GET", path, headers=headers)
        assert body == b"['https']", body


# --- what is spoken ---


def tls_1_2_and_1_3_only():
    for version in ("-tls1", "-tls1_1"):
        text = s_client(version, "-cipher", "DEFAULT@SECLEVEL=0")
        assert "protocol version" in text and "Cipher is (NONE)" in text, text
    for version, name in (("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")):
        text = s_client(version)
        assert f"New, {name}" in text and "Verify return code: 0 (ok)" in text, text
        assert "Compression: NONE" in text, text


def modern_ciphers_only():
    for cipher in ("AES128-SHA", "AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-SHA",
                   "ECDHE-ECDSA-AES256-SHA384", "ECDHE-ECDSA-AES128-CCM"):
        text = s_client("-tls1_2", "-cipher", f"{cipher}@SECLEVEL=0")
        assert "handshake failure" in text, (cipher, text)
    for cipher in ("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"):
        assert f"Cipher is {cipher}" in s_client("-tls1_2", "-cipher", cipher), cipher


def alpn_is_http_1_1():
    assert "ALPN protocol: http/1.1" in s_client("-alpn", "h2,http/1.1")
    assert "no application protocol" in s_client("-alpn", "h2")


def renegotiation_is_refused():
    text = s_client("-tls1_2", sent=b"R\n")
    assert "RENEGOTIATING" in text and "no renegotiation" in text, text
    check_serves()


def sessions_are_resumed():
    with tempfile.TemporaryDirectory() as name:
        path = os.path.join(name, "session")
        assert "New, TLSv1.2" in s_client("-tls1_2", "-sess_out", path)
        assert "Reused, TLSv1.2" in s_client("-tls1_2", "-sess_in", path)
    context = AUTHORITY.context(minimum_version=ssl.TLSVersion.TLSv1_3)
    with connect(context=context) as sock:
        sock.sendall(b"GET /health HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        assert b" 200 " in read_all(sock) and not sock.session_reused
        session = sock.session
    with connect(context=context, session=session) as sock:
        assert sock.session_reused


def connections_end_with_close_notify():
    with connect() as sock:
        sock.sendall(b"GET /health HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        while sock.recv(65536):  # raises ssl.SSLEOFError where there is none
            pass


# --- hostile peers ---


def client_hello():
    """The first bytes of a handshake."""
    context = AUTHORITY.context()
    out = ssl.MemoryBIO()
    tls = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return out.read()


def garbage_is_cut():
    for data in (b"\x00" * 100, b"\xff" * 100, os.urandom(4096),
                 b"\x16\x03\x01\xff\xff" + b"A" * 70000,
                 b"\x80\x2e\x01\x00\x02" + b"\x00" * 64):
        with plain_connect() as sock:
            with contextlib.suppress(ConnectionError):
                sock.sendall(data)
            assert b"HTTP" not in read_all(sock)
    check_serves()


def plain_http_is_cut_without_an_answer():
    with plain_connect() as sock:
        sock.sendall(b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n")
        assert read_all(sock) == b""
    check_serves()


def a_slow_handshake_meets_the_deadline():
    hello = client_hello()
    with plain_connect() as sock:
        sent = 0
        with contextlib.suppress(ConnectionError):
            for byte in hello:  # some minute in all
                sock.sendall(bytes([byte]))
                sent += 1
                sock.settimeout(0.2)
                with contextlib.suppress(TimeoutError):
                    if sock.recv(1) == b"":
                        break
        assert sent < len(hello), "it waited for all of it"
    check_serves()


def a_handshake_that_stops_is_forgotten():
    hello = client_hello()
    for cut in (1, 5, len(hello) // 2, len(hello)):
        with plain_connect() as sock:
            sock.sendall(hello[:cut])
    check_serves()


def a_truncated_body_is_no_request():
    with connect() as sock:
        sock.sendall(b"POST /v1/sandboxes HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n"
                     b"OPEN-SANDBOX-API-KEY: " + SERVER.api_key.encode() + b"\r\n\r\n{\"image\":")
        os.close(sock.detach())  # below TLS, without close_notify
    check_serves()


def a_broken_record_ends_the_connection():
    with plain_connect() as sock:
        tls_in, tls_out = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = AUTHORITY.context().wrap_bio(tls_in, tls_out, server_hostname="localhost")
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                sock.sendall(tls_out.read())
                tls_in.write(sock.recv(65536))
        tls.write(b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n")
        record = bytearray(tls_out.read())
        record[-1] ^= 1
        sock.sendall(record)
        tls_in.write(read_all(sock))
        tls_in.write_eof()
        try:
            while True:
                assert b"HTTP" not in tls.read(65536)
        except ssl.SSLError as error:
            assert "BAD_RECORD_MAC" in str(error) or "DECRYPT" in str(error).upper(), error
    check_serves()


# --- reloading ---


def sighup_exchanges_the_certificate_while_a_stream_goes_on():
    before = serial()
    with Gateway(SERVER, BOX) as gateway:
        reply = gateway.start("echo one; until [ -e /tmp/reloaded ]; do sleep 0.05; done; echo two")
        while b"one" not in reply.readline():
            pass
        AUTHORITY.issue("server")
        SERVER.process.send_signal(signal.SIGHUP)
        wait_for(lambda: serial() != before, "the new certificate")
        with Gateway(SERVER, BOX) as other:
            other.run("touch /tmp/reloaded")
        rest = reply.read()
        assert b"two" in rest and b"execution_complete" in rest, rest


def a_broken_certificate_is_named_and_the_old_one_stays():
    before, good = serial(), SERVER.cert.read_bytes()
    SERVER.cert.write_bytes(b"no certificate\n")
    SERVER.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "cannot reload the TLS certificate" in SERVER.log(), "the error")
    assert f"{SERVER.cert}: no certificate in PEM form" in SERVER.log(), SERVER.log()
    assert serial() == before
    SERVER.cert.write_bytes(good)


# --- other servers ---


def a_key_of_root_is_read_before_root_is_given_up():
    server = TlsServer(AUTHORITY, *PROGRAMS)
    server.key.chmod(0o600)
    with server:
        check_serves(server)
        before = serial(server)
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "cannot reload the TLS certificate" in server.log(), "the error")
        assert f"{server.key}: Permission denied" in server.log(), server.log()
        assert serial(server) == before


def clients_must_show_a_certificate_where_an_authority_is_configured():
    config = {"server": {"tls_client_ca": str(AUTHORITY.ca)}}
    server = TlsServer(AUTHORITY, *PROGRAMS, config=config)
    cert, key = AUTHORITY.issue("user")
    server.context.load_cert_chain(cert, key)
    with server:
        check_serves(server)
        done = curl(f"{server.url}/health")
        assert done.returncode != 0 and b"healthy" not in done.stdout, done
        done = curl(f"{server.url}/health", "--cert", str(cert), "--key", str(key))
        assert done.returncode == 0 and b"healthy" in done.stdout, done
        text = s_client("-ign_eof", sent=b"GET / HTTP/1.0\r\n\r\n", server=server)
        assert "certificate required" in text, text


def a_start_without_usable_files_is_refused_with_the_reason():
    other, other_key = AUTHORITY.issue("other")
    for keys, reason in (
            ({"tls_cert": "/nowhere/cert.pem"}, "/nowhere/cert.pem: No such file or directory"),
            ({"tls_key": str(other)}, f"{other}: no private key in PEM form"),
            ({"tls_key": str(other_key)}, f"{other_key}: not the key of the certificate in"),
            ({"tls_key": ""}, "server.tls_cert: needs server.tls_key")):
        server = TlsServer(AUTHORITY, *PROGRAMS)
        server.config["server"].update(keys)
        try:
            server.spawn()
            assert server.process.wait(SECONDS_MAX) != 0
            assert reason in server.log(), (reason, server.log())
        finally:
            server.remove()


TESTS = [
    curl_trusts_the_authority_it_is_given_only,
    the_log_says_https,
    a_kept_connection_serves_many_requests,
    curl_uploads_and_downloads_a_large_file,
    events_stream_through_the_gateway_as_they_happen,
    websockets_through_the_gateway,
    programs_inside_hear_that_it_is_https,
    tls_1_2_and_1_3_only,
    modern_ciphers_only,
    alpn_is_http_1_1,
    renegotiation_is_refused,
    sessions_are_resumed,
    connections_end_with_close_notify,
    garbage_is_cut,
    plain_http_is_cut_without_an_answer,
    a_slow_handshake_meets_the_deadline,
    a_handshake_that_stops_is_forgotten,
    a_truncated_body_is_no_request,
    a_broken_record_ends_the_connection,
    sighup_exchanges_the_certificate_while_a_stream_goes_on,
    a_broken_certificate_is_named_and_the_old_one_stays,
]
OTHERS = [
    a_key_of_root_is_read_before_root_is_given_up,
    clients_must_show_a_certificate_where_an_authority_is_configured,
    a_start_without_usable_files_is_refused_with_the_reason,
]


def main():
    global AUTHORITY, SERVER, BOX
    tap.skip_all(why_not())
    results = tap.Tap()
    with tempfile.TemporaryDirectory(prefix="osb-tls-") as name:
        AUTHORITY = Authority(pathlib.Path(name))
        with TlsServer(AUTHORITY, *PROGRAMS) as SERVER:
            BOX = SERVER.create()
            for test in TESTS:
                results.check(test.__name__, test)
            if results.failed:
                print("# " + SERVER.log()[-4000:].replace("\n", "\n# "))
        for test in OTHERS:
            results.check(test.__name__, test)
    return results.end()


if __name__ == "__main__":
    sys.exit(main())
