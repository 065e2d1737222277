"""web.py - what benchmarks of HTTP share: nginx to compare with, loads, cores for each."""
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import typing

import lib

MIB = 1 << 20
GIB = 1 << 30
BODY = '{"status":"ok","count":42}'
NGINX_HEAD = """
user root;
worker_processes 1;
daemon off;
pid {dir}/pid;
error_log {dir}/error.log;
"""
NGINX_CONF = NGINX_HEAD + """
events {{ worker_connections 20000; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000000;
    client_body_temp_path {dir}/body;
    proxy_temp_path {dir}/proxy;
    fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi;
    scgi_temp_path {dir}/scgi;
    upstream backend {{
        server {backend};
        keepalive 128;
        keepalive_requests 1000000000;
    }}
    server {{
        listen 127.0.0.1:{port} {tls}backlog=4096;
        {certificate}
        location /json {{ default_type application/json; return 200 '{body}'; }}
        location /file {{ alias {file}; }}
        location /proxy/ {{
            proxy_pass http://backend/;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_request_buffering off;
            proxy_max_temp_file_size 0;
            client_max_body_size 0;
        }}
    }}
}}
"""


def pinned(core, command):
    """The command on one core, where there is more than one."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        return command
    chosen = cores[0] if core == 0 else ",".join(map(str, cores[1:]))
    return ["taskset", "-c", str(chosen), *command]


def cpu_seconds(pid):
    """What a process has used so far, in user space and in the kernel."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def worker_of(pid):
    """The worker process of a server whose first process only supervises."""
    while not (children := pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
        time.sleep(0.01)
    return int(children[0])


def start_nginx(bench, scratch, core, backend, file, tls=None):
    """Port and worker of an nginx before `backend`, which is HOST:PORT or unix:PATH. With `tls` it
    speaks https, with the certificate TLS.pem and its key TLS.key."""
    directory = pathlib.Path(tempfile.mkdtemp(dir=scratch))
    port = bench.free_port()
    conf = directory / "nginx.conf"
    certificate = f"ssl_certificate {tls}.pem; ssl_certificate_key {tls}.key;" if tls else ""
    conf.write_text(NGINX_CONF.format(dir=directory, port=port, backend=backend, body=BODY,
                                      file=file, tls="ssl " if tls else "",
                                      certificate=certificate))
    command = [lib.program("nginx"), "-e", str(directory / "error.log"), "-c", str(conf)]
    child = bench.start(pinned(core, command))
    bench.wait_port(port)
    return port, worker_of(child.pid)


class Target(typing.NamedTuple):
    """The target of a load."""
    port: int
    pid: int  # whose CPU time counts
    path: str
    headers: tuple = ()  # "Name: value"
    scheme: str = "http"


def wrk(target, connections, seconds):
    """How many requests were served, and how many per second; refuses a run with errors in it."""
    headers = [word for header in target.headers for word in ("-H", header)]
    out = subprocess.run(
        pinned(1, ["wrk", "-t1", f"-c{connections}", f"-d{seconds}", *headers,
                   f"{target.scheme}://127.0.0.1:{target.port}{target.path}"]),
        check=True, stdout=subprocess.PIPE, text=True).stdout
    return wrk_output(out, target.path)


def wrk_output(out, what):
    """The same two figures, of what wrk printed."""
    if "Socket errors" in out or "Non-2xx" in out:
        sys.exit(f"wrk saw errors at {what}:\n{out}")
    return (int(re.search(r"(\d+) requests in", out).group(1)),
            float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1)))


class Comparison(typing.NamedTuple):
    """Medians over turns. The first ratio is what a client sees; the second, of requests per CPU
    second, does not depend on other load of the machine."""
    rps: float
    rps_vs_nginx: float
    cpu_vs_nginx: float


def compare(bench, name, ours, nginx, connections, args):
    """One load against both in turns."""
    targets = {"ours": ours, "nginx": nginx}
    rates = {who: [] for who in targets}
    costs = {who: [] for who in targets}
    for _ in range(args.turns):
        for who, target in targets.items():
            before = cpu_seconds(target.pid)
            count, rate = wrk(target, connections, args.seconds)
            rates[who].append(rate)
            costs[who].append((cpu_seconds(target.pid) - before) / count * 1e6)
    for who in targets:
        bench.row(who, **{f"{name} rps, {connections} conn": rates[who],
                          f"{name} cpu us, {connections} conn": costs[who]})
    return Comparison(
        statistics.median(rates["ours"]),
        statistics.median(o / n for o, n in zip(rates["ours"], rates["nginx"])),
        statistics.median(n / o for o, n in zip(costs["ours"], costs["nginx"])))


def receive_all(sock, want):
    """Reads and drops `want` bytes, or up to the end."""
    room = bytearray(MIB)
    got = 0
    while got < want:
        n = sock.recv_into(room)
        if n == 0:
            break
        got += n
    return got


def read_head(sock):
    head = b""
    while b"\r\n\r\n" not in head:
        piece = sock.recv(4096)
        if not piece:
            sys.exit("the server hung up before its answer")
        head += piece
    head, rest = head.split(b"\r\n\r\n", 1)
    if b" 200 " not in head.split(b"\r\n")[0]:
        sys.exit(f"unexpected answer: {head!r}")
    return rest


def message(method, target, length=None):
    rows = [f"{method} {target.path} HTTP/1.1", "Host: bench", *target.headers]
    if length is not None:
        rows.append(f"Content-Length: {length}")
    return ("\r\n".join(rows) + "\r\n\r\n").encode()


def download_mib_s(target, size):
    with socket.create_connection(("127.0.0.1", target.port)) as sock:
        began = time.monotonic()
        sock.sendall(message("GET", target))
        rest = read_head(sock)
        if receive_all(sock, size - len(rest)) != size - len(rest):
            sys.exit("the download was cut short")
        return size / MIB / (time.monotonic() - began)


def upload_mib_s(target, file, size):
    """Sends the beginning of a file to a path that answers with the number of bytes it got."""
    with socket.create_connection(("127.0.0.1", target.port)) as sock, open(file, "rb") as source:
        began = time.monotonic()
        sock.sendall(message("POST", target, size))
        sock.sendfile(source, count=size)
        if int(read_head(sock) or sock.recv(64)) != size:
            sys.exit("the upload was not counted in full")
        return size / MIB / (time.monotonic() - began)
