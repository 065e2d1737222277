"""interception.py - requests through the TLS interceptor of opensandbox-egress, through mitmproxy
and through nginx. Each ends the client's TLS, puts the same credential into each request, and
speaks TLS to the same server, whose certificate it verifies.

Each proxy has core 0 to itself; the load generator (wrk) and the server (nginx) share the rest.
"""
import json
import os
import pathlib
import statistics
import subprocess
import time

import lib
import web
from docker_process import UnixConnection
from small_internet import ADDRESS, Namespace
from tls_process import Authority

INTERCEPTD = lib.ROOT / "build/native/tests/tools/interceptd"
NAME = "api.acme.test"
KEY = "a-key-that-clients-do-not-have"
CONNECTIONS, SECONDS, TURNS = 32, 5, 3
MITMDUMP = lib.ROOT / "build/deps/bench-mitmproxy/bin/mitmdump"
PORTS = {"nginx": 8443, "mitmproxy": 8444}
# The server answers 403 to a request without the credential, which wrk counts as an error.
NGINX_CONF = web.NGINX_HEAD + """
events {{ worker_connections 1024; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    ssl_certificate {certificate};
    ssl_certificate_key {key};
    {more}
}}
"""
UPSTREAM = """
    server {{
        listen {address}:443 ssl backlog=1024;
        if ($http_authorization != "Bearer {key}") {{ return 403; }}
        location / {{ default_type application/json; return 200 '{body}'; }}
    }}"""
PROXY = """
    proxy_temp_path {dir}/proxy;
    upstream server {{ server {address}:443; keepalive 128; keepalive_requests 1000000000; }}
    server {{
        listen 127.0.0.1:{port} ssl backlog=1024;
        location / {{
            proxy_pass https://server;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $host;
            proxy_set_header Authorization "Bearer {key}";
            proxy_ssl_server_name on;
            proxy_ssl_name {name};
            proxy_ssl_verify on;
            proxy_ssl_trusted_certificate {ca};
        }}
    }}"""


class Contest:
    def __init__(self, bench, scratch):
        self.bench, self.scratch = bench, pathlib.Path(scratch)
        self.inside, self.world = Namespace(), Namespace()
        self.authority = Authority(self.scratch)
        self.files = self.authority.issue("server", f"DNS:{NAME}")
        self.pids = {}

    def close(self):
        self.inside.close()
        self.world.close()

    def start(self, core, command):
        return self.bench.start(self.world.command(*web.pinned(core, [str(c) for c in command])),
                                stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)

    def nginx(self, name, core, text):
        folder = self.scratch / name
        folder.mkdir()
        certificate, key = self.files
        conf = folder / "nginx.conf"
        conf.write_text(NGINX_CONF.format(
            dir=folder, certificate=certificate, key=key, more=text.format(
                dir=folder, address=ADDRESS, port=PORTS["nginx"], key=KEY, name=NAME,
                ca=self.authority.ca, body=web.BODY)))
        child = self.start(core, [lib.program("nginx"), "-e", folder / "error.log", "-c", conf])
        return web.worker_of(child.pid)

    def start_ours(self):
        control = self.scratch / "control.sock"
        child = self.start(0, [INTERCEPTD, "--inside", self.inside.path, "--control",
                               f"unix:{control}", "--ca", self.scratch / "ours-ca.pem", "--trust",
                               self.authority.ca, "--events", "no"])
        wait_for(control.exists, "interceptd")
        connection = UnixConnection(str(control), 30)
        connection.request("POST", "/credential-vault", json.dumps(
            {"credentials": [{"name": "key", "source": {"value": KEY}}],
             "bindings": [{"name": "acme", "match": {"hosts": [NAME]},
                           "auth": {"type": "bearer", "credential": "key"}}]}))
        assert connection.getresponse().status == 201
        connection.close()
        return child.pid

    def start_mitmproxy(self):
        home = self.scratch / "mitmproxy"
        child = self.start(0, [
            MITMDUMP, "--quiet", "--mode", f"reverse:https://{ADDRESS}:443/", "--listen-host",
            "127.0.0.1", "--listen-port", PORTS["mitmproxy"], "--set", f"confdir={home}", "--set",
            "keep_host_header=true", "--set", "http2=false", "--set",
            f"ssl_verify_upstream_trusted_ca={self.authority.ca}",
            "--set", "stream_large_bodies=1m",
            "--modify-headers", f"/~q/Authorization/Bearer {KEY}"])
        return child.pid

    def load(self, who, seconds):
        """Requests and requests per second of one contestant."""
        address, port = ("127.0.0.1", PORTS[who]) if who in PORTS else (ADDRESS, 443)
        hosts = self.scratch / "hosts"
        hosts.write_text(f"{address} {NAME}\n")
        netns = self.world if who in PORTS else self.inside
        run = netns.command(*web.pinned(1, [
            "unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"',
            str(hosts),
            "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}", "--timeout", "30s",
            f"https://{NAME}:{port}/"]))
        return web.wrk_output(subprocess.run(run, check=True, stdout=subprocess.PIPE,
                                             text=True).stdout, who)


def wait_for(ready, what):
    end = time.monotonic() + 30
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} does not start")
        time.sleep(0.02)


def accepts(contest, who):
    run = contest.world.command("curl", "-skf", "-m", "5", "--resolve",
                                f"{NAME}:{PORTS[who]}:127.0.0.1", f"https://{NAME}:{PORTS[who]}/")
    return subprocess.run(run, check=False, stdout=subprocess.DEVNULL).returncode == 0


def compare(bench, scratch):
    contest = Contest(bench, scratch)
    try:
        contest.nginx("server", 1, UPSTREAM)
        pids = {"ours": contest.start_ours(), "nginx": contest.nginx("proxy", 0, PROXY)}
        if os.path.exists(MITMDUMP):
            pids["mitmproxy"] = contest.start_mitmproxy()
        else:
            bench.note("no mitmproxy in build/deps/bench-mitmproxy: not compared")
        for who in PORTS.keys() & pids.keys():
            wait_for(lambda who=who: accepts(contest, who), who)
        rates, costs = ({who: [] for who in pids} for _ in range(2))
        for _ in range(TURNS):
            for who, pid in pids.items():
                before = web.cpu_seconds(pid)
                count, rate = contest.load(who, SECONDS)
                rates[who].append(rate)
                costs[who].append((web.cpu_seconds(pid) - before) / max(count, 1) * 1e6)
        for who in pids:
            bench.row(f"TLS, {who}", rps=rates[who], cpu_us=costs[who])
        for who in pids.keys() - {"ours"}:
            bench.result(**{
                f"mitm_rps_vs_{who}": statistics.median(
                    o / max(t, 1) for o, t in zip(rates["ours"], rates[who])),
                f"mitm_cpu_vs_{who}": statistics.median(
                    t / max(o, 1) for o, t in zip(costs["ours"], costs[who]))})
    finally:
        bench.stop_all()
        contest.close()
