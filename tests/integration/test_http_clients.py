#!/usr/bin/env python3
"""test_http_clients.py HTTPD - the HTTP server as curl, Python's clients and wrk see it.

TAP on standard output.
"""
import hashlib
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from httplib import SECONDS_MAX, Server, Skip, Tap

BLOB = bytes(range(256)) * 8192  # 2 MiB
OK_JSON = b'{"status":"ok","count":42}'


def sha256(data):
    return hashlib.sha256(data).hexdigest()


# --- curl ---


class Curl:
    def __init__(self, server, folder):
        self.url = f"http://{server.address}"
        self.folder = folder
        self.blob = os.path.join(folder, "blob")

    def run(self, path, *args, data=None):
        """(exit status, body, trace of -v)"""
        if not shutil.which("curl"):
            raise Skip("curl is not installed")
        command = ["curl", "-sv", "--max-time", str(SECONDS_MAX), *args, self.url + path]
        done = subprocess.run(command, input=data, capture_output=True, check=False,
                              timeout=2 * SECONDS_MAX)
        return done.returncode, done.stdout, done.stderr.decode("latin-1")


# (sentence, path, arguments, stdin, exit status, body, patterns of the trace)
CURL = [
    ("GET", "/json", [], None, 0, OK_JSON, ["< HTTP/1.1 200 OK", "< Content-Length: 26"]),
    ("HEAD", "/json", ["-I"], None, 0, None, ["< HTTP/1.1 200 OK", "< Content-Length: 26"]),
    ("HEAD of a stream", "/flood?1000000000000", ["-I"],
     None, 0, None, ["< Transfer-Encoding: chunked"]),
    ("POST", "/echo", ["--data-binary", "@-"], b"hello", 0, b"hello", ["> Content-Length: 5"]),
    ("PUT", "/echo", ["-X", "PUT", "--data-binary", "@-"], b"hello", 0, b"hello", ["> PUT /echo"]),
    ("an upload in chunks", "/upload", ["-T", "-"], BLOB,
     0, b"2097152\n", ["> Transfer-Encoding: chunked"]),
    ("HTTP/1.0", "/json", ["--http1.0"], None, 0, OK_JSON,
     ["> GET /json HTTP/1.0", "< Connection: close"]),
    ("a stream to HTTP/1.0", "/flood?1000", ["--http1.0"],
     None, 0, bytes(1000), ["< Connection: close"]),
    ("a stream", "/flood?3000000", [], None, 0, bytes(3000000), ["< Transfer-Encoding: chunked"]),
    ("a file", "/file", [], None, 0, BLOB, ["< Accept-Ranges: bytes"]),
    ("a range", "/file", ["--range", "100-199"], None, 0,
     BLOB[100:200], ["< HTTP/1.1 206", "100-199/2097152"]),
    ("a last range", "/file", ["--range", "-7"], None, 0, BLOB[-7:], ["< HTTP/1.1 206"]),
    ("a range outside", "/file", ["--range", "3000000-"],
     None, 0, None, ["< HTTP/1.1 416", "bytes \\*/2097152"]),
    ("a wait for 100", "/upload", ["-H", "Expect: 100-continue", "--expect100-timeout",
                                   "999", "--data-binary", "@-"], BLOB, 0, b"2097152\n",
     ["< HTTP/1.1 100 Continue"]),
    ("413 instead of 100", "/small", ["-H", "Expect: 100-continue", "--expect100-timeout",
                                      "999", "--data-binary", "@-"], BLOB, 0, None,
     ["< HTTP/1.1 413", "< Connection: close"]),
    ("413 while sending", "/small", ["-H", "Expect:", "--data-binary", "@-"],
     BLOB, 0, None, ["< HTTP/1.1 413"]),
    ("404", "/nowhere", [], None, 0, None, ["< HTTP/1.1 404 Not Found"]),
    ("405", "/json", ["-X", "DELETE"], None, 0, None,
     ["< HTTP/1.1 405", "< Allow: GET, HEAD, OPTIONS"]),
    ("OPTIONS", "/echo", ["-X", "OPTIONS"], None, 0, b"",
     ["< HTTP/1.1 204", "< Allow: POST, PUT, OPTIONS"]),
    ("OPTIONS *", "/", ["-X", "OPTIONS", "--request-target", "*"],
     None, 0, b"", ["< HTTP/1.1 204"]),
    ("an answer to an unwanted upload", "/early",
     ["-T", "-", "-X", "POST"], BLOB, 0, b"early\n", []),
    ("a broken transfer", "/broken", [], None, 18, b"only this", []),  # 18: partial file
]


SEND_ERROR, RECV_ERROR = 55, 56
REFUSED = ("/small", "/early")  # their bodies are not waited for for long


def curl_agrees(curl, path, args, data, status, body, patterns):
    began = time.monotonic()
    got_status, got_body, trace = curl.run(path, *args, data=data)
    if path in REFUSED and got_status in (SEND_ERROR, RECV_ERROR) and time.monotonic() - began > 1:
        raise Skip("curl was slower than the server waits for a body it refused")
    assert got_status == status, f"exit status {got_status}\n{trace[-1000:]}"
    assert body is None or got_body == body, f"{len(got_body)} bytes: {got_body[:100]!r}"
    for pattern in patterns:
        if not pattern.startswith("bytes"):
            pattern = re.escape(pattern)
        assert re.search(pattern, trace), f"no {pattern} in\n{trace[-1000:]}"


def curl_reuses_its_connection(curl):
    status, body, trace = curl.run("/json", curl.url + "/nap?1",
                                   curl.url + "/file", curl.url + "/nowhere")
    assert status == 0 and OK_JSON in body, trace
    assert len(re.findall("Re-using existing .*connection", trace)) == 3, trace


def curl_sends_a_form(curl):
    tricky = b"--boundary\r\n\r\n--" * 100
    empty = os.path.join(curl.folder, "empty")
    with open(empty, "wb"):
        pass
    status, body, trace = curl.run("/form", "-F", "note=hello", "-F", f"big=@{curl.blob}", "-F",
                                   'odd=@-;filename="x; y.txt"', "-F", f"none=@{empty}",
                                   data=tricky)
    assert status == 0 and "< HTTP/1.1 200" in trace, trace[-1000:]
    parts = [("note", None, b"hello"), ("big", "blob", BLOB), ("odd", "x; y.txt", tricky),
             ("none", "empty", b"")]
    assert json.loads(body) == [{"name": name, "filename": filename, "bytes": len(data),
                                 "sha256": sha256(data)} for name, filename, data in parts], body


def curl_learns_why_a_form_is_malformed(curl):
    for kind, data in (("text/plain", b"x"), ("multipart/form-data", b"x"),
                       ("multipart/form-data; boundary=b", b"--b\r\nnonsense\r\n\r\n--b--"),
                       ("multipart/form-data; boundary=b", b"--b\r\n\r\nnever ends")):
        _, body, trace = curl.run("/form", "-H", f"Content-Type: {kind}", "--data-binary", "@-",
                                  data=data)
        assert "< HTTP/1.1 400" in trace and json.loads(body)["message"], trace[-1000:]


def curl_resumes_a_download(curl):
    path = os.path.join(curl.folder, "partial")
    with open(path, "wb") as f:
        f.write(BLOB[:1000000])
    status, _, trace = curl.run("/file", "-C", "-", "-o", path)
    assert status == 0 and "< HTTP/1.1 206" in trace, trace[-1000:]
    with open(path, "rb") as f:
        assert f.read() == BLOB


# --- Python ---


def python_keeps_a_connection(server):
    c = http.client.HTTPConnection(*server.endpoint, timeout=SECONDS_MAX)
    for method, path, body, status, wanted in [
            ("GET", "/json", None, 200, OK_JSON), ("HEAD", "/json", None, 200, b""),
            ("POST", "/echo", b"hello", 200, b"hello"), ("GET", "/nowhere", None, 404, None),
            ("PUT", "/upload", BLOB, 200, b"2097152\n"),
            ("GET", "/flood?100000", None, 200, bytes(100000)),
            ("POST", "/upload", iter([b"a", b"bc"]), 200, b"3\n"),
            ("GET", "/nap?5", None, 200, b"slept\n")]:
        c.request(method, path, body, encode_chunked=True,
                  headers={"Transfer-Encoding": "chunked"} if hasattr(body, "__next__") else {})
        sock = c.sock
        r = c.getresponse()
        got = r.read()
        assert r.status == status and wanted in (None, got), (method, path, r.status, got[:100])
        assert c.sock is sock, f"{method} {path} cost the connection"
    c.close()


def python_sees_a_broken_transfer(server):
    c = http.client.HTTPConnection(*server.endpoint, timeout=SECONDS_MAX)
    c.request("GET", "/broken")
    try:
        c.getresponse().read()
    except http.client.IncompleteRead:
        return
    finally:
        c.close()
    raise AssertionError("a broken transfer looks complete")


def urllib_reads_errors(server):
    url = f"http://{server.address}"
    with urllib.request.urlopen(url + "/json", timeout=SECONDS_MAX) as r:
        assert json.load(r) == {"status": "ok", "count": 42}
    try:
        urllib.request.urlopen(url + "/nowhere", timeout=SECONDS_MAX)
    except urllib.error.HTTPError as e:
        with e:
            assert e.code == 404 and json.load(e)["code"] == "NOT_FOUND"
        return
    raise AssertionError("a 404 went unnoticed")


# --- wrk ---


def wrk_finds_no_error(server):
    if not shutil.which("wrk"):
        raise Skip("wrk is not installed")
    url = f"http://{server.address}/json"
    done = subprocess.run(["wrk", "-t1", "-c64", "-d2s", "--timeout", "60s", url],
                          capture_output=True, text=True, check=True, timeout=2 * SECONDS_MAX)
    assert re.search(r"\b[1-9]\d* requests in", done.stdout), done.stdout
    assert "Socket errors" not in done.stdout and "Non-2xx" not in done.stdout, done.stdout


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "blob")
        with open(path, "wb") as f:
            f.write(BLOB)
        with Server(sys.argv[1], "--file", path) as server:
            curl = Curl(server, folder)
            for sentence, *row in CURL:
                tap.check(f"curl gets {sentence}", curl_agrees, curl, *row)
            tap.check("curl reuses its connection", curl_reuses_its_connection, curl)
            tap.check("curl sends a form", curl_sends_a_form, curl)
            tap.check("curl learns why a form is malformed",
                      curl_learns_why_a_form_is_malformed, curl)
            tap.check("curl resumes a download", curl_resumes_a_download, curl)
            tap.check("http.client keeps its connection", python_keeps_a_connection, server)
            tap.check("http.client sees a broken transfer", python_sees_a_broken_transfer, server)
            tap.check("urllib reads errors", urllib_reads_errors, server)
            tap.check("wrk finds no error", wrk_finds_no_error, server)
            server.is_well()
            server.drain()
            tap.check("the server was well to the end", lambda: exits_well(server))
    return tap.end()


def exits_well(server):
    status = server.exit_status()
    assert status == 0, f"exit status {status}"


if __name__ == "__main__":
    sys.exit(main())
