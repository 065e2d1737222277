#!/usr/bin/env python3
"""test_egress_sidecar.py EGRESS - opensandbox-egress as a sidecar: a real process in the network
namespace of a workload, in the small internet of egress_world.py."""
import contextlib
import ctypes
import http.client
import http.server
import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import egress_world
from broker_process import wait_for
from egress_world import HOST, RESOLVER
from otlp_receiver import Receiver
from test_egress import INSIDE, no, same

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
from tap import Tap, skip_all  # noqa: E402

CLONE_NEWNS = 0x00020000
TOKEN = "t0ken-of-the-sandbox"
RULES = pathlib.Path("/var/egress/rules")
SECONDS_MAX = 30
# What a container without NET_ADMIN has, with NET_RAW.
WORKLOAD = ["setpriv", "--bounding-set", "-net_admin,-sys_admin,-sys_ptrace",
            "--inh-caps", "-net_admin,-sys_admin,-sys_ptrace", "--no-new-privs"]


def private_files(egress):
    """A mount namespace of this process: files of the sidecar at their fixed paths."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) < 0:
        raise OSError(ctypes.get_errno(), "unshare")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    home = tempfile.mkdtemp(prefix="egress-sidecar-")
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", home], check=True)
    program = shutil.copy(egress, f"{home}/egress")
    for path in ("/var", "/opt"):
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", path], check=True)
    RULES.mkdir(parents=True)
    pathlib.Path("/var/lib").mkdir()
    pathlib.Path(f"{home}/resolv.conf").write_text(f"nameserver {RESOLVER}\n", encoding="ascii")
    subprocess.run(["mount", "--bind", f"{home}/resolv.conf", "/etc/resolv.conf"], check=True)
    return home, program


class Sidecar:
    """The process, and requests to it."""

    def __init__(self, program, home, policy=None, **env):
        self.log = open(f"{home}/log", "ab")  # pylint: disable=consider-using-with
        more = {"TOKEN": TOKEN, "MODE": "dns+nft", **env}
        if policy is not None:
            more["RULES"] = policy if isinstance(policy, str) else json.dumps(policy)
        self.env = {"PATH": os.environ["PATH"],
                    **{k if k.startswith(("OTEL", "OPENSANDBOX", "HOST")) else
                       f"OPENSANDBOX_EGRESS_{k}": v for k, v in more.items()}}
        self.program, self.home, self.process = program, home, None
        self.begin = os.path.getsize(f"{home}/log")

    def start(self, ready=True):
        self.process = subprocess.Popen([self.program], env=self.env, stdout=self.log,
                                        stderr=self.log)
        if ready:
            wait_for(lambda: self.health() == (200, b"ok"), "the sidecar is ready")
        return self

    def health(self):
        assert self.process.poll() is None, self.lines()[-5:]
        try:
            status, _, body = self.request("GET", "/healthz", token=None)
            return status, body
        except OSError:
            return None

    def lines(self):
        with open(f"{self.home}/log", encoding="utf-8") as log:
            log.seek(self.begin)
            return log.read().splitlines()

    def events(self, name):
        found = (json.loads(line) for line in self.lines() if line.startswith("{"))
        return [row for row in found if row.get("opensandbox.event") == name]

    def request(self, method, path, body=None, token=TOKEN, address="127.0.0.1", port=18080):
        c = http.client.HTTPConnection(address, port, timeout=SECONDS_MAX)
        headers = {"OPENSANDBOX-EGRESS-AUTH": token} if token else {}
        text = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
        with contextlib.closing(c):
            c.request(method, path, text, headers)
            reply = c.getresponse()
            return reply.status, dict(reply.getheaders()), reply.read()

    def policy(self, method="GET", body=None, **more):
        status, headers, text = self.request(method, "/policy", body, **more)
        is_json = headers.get("Content-Type") == "application/json"
        return status, json.loads(text) if is_json else text.decode()

    def kill(self, signo=signal.SIGKILL):
        self.process.send_signal(signo)
        return self.process.wait(SECONDS_MAX)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill(signal.SIGTERM)
        self.log.close()


def inside(code, wait=0.4, program=()):
    """What Python code prints as the workload, evaluated."""
    done = subprocess.run([*WORKLOAD, *program, sys.executable, "-c",
                           INSIDE + "\nprint(repr(" + code.strip() + "))\n"],
                          env={"WAIT": str(wait), "PATH": os.environ["PATH"]}, check=False,
                          capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stderr
    return eval(done.stdout)  # pylint: disable=eval-used  # what our own script printed


def deny(*rules):
    return {"defaultAction": "deny",
            "egress": [{"action": a, "target": t} for a, t in rules]}


# --- tests ---


def filters_by_env(w, tap):
    with Sidecar(*w.at, deny(("deny", "api.allowed.test"), ("allow", "*.allowed.test"),
                             ("allow", "203.0.113.0/28"), ("deny", "203.0.113.12"))) as s:
        with tap.test("an allowed name opens its address, in both IP versions"):
            no(inside("tcp('203.0.113.40')"))
            same(inside("web('cdn.allowed.test')"), "203.0.113.40")
            same(inside("tcp('203.0.113.40')", 5), "203.0.113.40")
            same(inside("tcp('2001:db8:3::10') if lookup('www.allowed.test') else ''", 5),
                 "2001:db8:3::10")
        with tap.test("another name does not exist, nor does the apex of a wildcard"):
            same(inside("[ask(n)[0] for n in ('other.test', 'allowed.test', 'api.allowed.test')]"),
                 [3, 3, 3])
            no(inside("tcp('203.0.113.20')"))
        with tap.test("a network is allowed, and a denied address of it is not"):
            same(inside("tcp('203.0.113.11')", 5), "203.0.113.11")
            no(inside("tcp('203.0.113.12')"))
        with tap.test("every resolver is ours: any address, UDP and TCP, IPv6"):
            same(inside("[ask('other.test', 1, a, o)[0] for a in ('192.0.2.1', '198.51.100.2',"
                        "'2001:db8:1::2') for o in ('udp', 'tcp')]"), [3] * 6)
            same(inside("ask('www.allowed.test', 28, '2001:db8:1::2')[:2]"), (0, 1))
            same(inside("ask('big.allowed.test', 1, over='tcp')[:2]"), (0, 60))
        with tap.test("ports 853 are closed, and what no rule names"):
            no(inside("tcp('203.0.113.11', 853)"))
            no(inside("udp('203.0.113.11', 853)"))
            no(inside("udp('203.0.113.99')"))
            no(inside("tcp('2001:db8:3::99')"))
        with tap.test("names that lead to loopback or metadata are refused"):
            same(inside("[ask(n + '.allowed.test')[0] for n in ('loop', 'metadata')]"), [3, 3])
        with tap.test("connections from outside are answered"):
            same(reach_from_outside(w), b"hello")
        with tap.test("GET has the policy, and what happened is logged"):
            status, got = s.policy()
            same((status, got["status"], got["mode"], got["enforcementMode"]),
                 (200, "ok", "enforcing", "dns+nft"))
            same(len(got["policy"]["egress"]), 4)
            same(len(s.events("egress.loaded")), 1)
            assert all(row["logger"] == "opensandbox.egress" for row in s.events("egress.loaded"))


def reach_from_outside(w):
    """The internet connects to a server of the workload."""
    code = ("import socket; s = socket.create_server(('0.0.0.0', 7777)); print('up', flush=True);"
            "c = s.accept()[0]; c.sendall(b'hello'); c.close()")
    with subprocess.Popen([*WORKLOAD, sys.executable, "-c", code], stdout=subprocess.PIPE) as p:
        assert p.stdout.readline() == b"up\n"
        got = subprocess.run(
            ["nsenter", "-t", str(w.internet.process.pid), "-n", sys.executable, "-c",
             f"import socket; s = socket.create_connection(('{HOST}', 7777), 10);"
             "print(s.recv(9).decode())"], capture_output=True, check=True, timeout=SECONDS_MAX)
        return got.stdout.strip()


def no_marks(w, tap):
    with Sidecar(*w.at, deny()), tap.test("no mark and no uid of the workload opens anything"):
        code = """[(lambda s: (s.setsockopt(1, 36, m), s.settimeout(0.3),
            s.connect_ex(('203.0.113.99', 80)))[2])(socket.socket()) for m in (1, 2, 0xffff)]"""
        got = inside(f"(lambda: {code})()")
        assert 0 not in got, got
        no(inside("tcp('203.0.113.99')", program=["setpriv", "--reuid", "10042"]))
        same(inside("ask('other.test')[0]", program=["setpriv", "--reuid", "10042"]), 3)
        same(w.internet.arrivals("203.0.113.99"), 0)


def speaks_policy(w, tap):
    with Sidecar(*w.at) as s:
        with tap.test("without rules all is denied, and the token is needed"):
            same(s.policy()[1]["mode"], "deny_all")
            same(s.policy()[1]["policy"], {"egress": [], "defaultAction": "deny"})
            same(s.policy(token=None), (401, "unauthorized\n"))
            same(s.policy("PUT", {}, token="wrong"), (401, "unauthorized\n"))
            same(s.request("GET", "/healthz", token=None)[::2], (200, b"ok"))
        with tap.test("replacing, the example of the contract"):
            rules = [("deny", "ads.allowed.test"), ("allow", "*.allowed.test"),
                     ("allow", "PyPI.test"), ("allow", "203.0.113.0/24"),
                     ("deny", "203.0.113.9")]
            same(s.policy("PUT", deny(*rules)),
                 (200, {"status": "ok", "mode": "enforcing", "enforcementMode": "dns+nft"}))
            same(inside("ask('www.allowed.test')[0]"), 0)
            same(s.policy("PATCH", [{"action": "allow", "target": "ads.allowed.test"},
                                    {"action": "deny", "target": "*.allowed.test"},
                                    {"action": "deny", "target": "ADS.allowed.test"}])[0], 200)
            same([r["target"] for r in s.policy()[1]["policy"]["egress"]],
                 ["ads.allowed.test", "*.allowed.test", "PyPI.test", "203.0.113.0/24",
                  "203.0.113.9"])
            same(inside("ask('www.allowed.test')[0]"), 3)
            same(s.policy("DELETE", ["203.0.113.9", "nope.test"])[0], 200)
            same(s.policy("DELETE", ["nope.test"])[1]["reason"], "no matching targets found")
            updated = s.events("egress.updated")
            same(len(updated), 3)
        with tap.test("an empty body resets"):
            same(s.policy("POST", ""), (200, {"status": "ok", "mode": "deny_all",
                                              "reason": "policy reset to default deny-all"}))
            same(s.policy("POST", "null")[1]["mode"], "deny_all")
            same(s.policy("PUT", {"defaultAction": "allow"})[1]["mode"], "allow_all")
            same(inside("tcp('203.0.113.99')", 5), "203.0.113.99")
        with tap.test("mistakes are named as text, and change nothing"):
            for method, body, begin in (("POST", "{", "invalid policy: "),
                                        ("PATCH", "", "empty body"),
                                        ("PATCH", "[]", "invalid patch rules: "),
                                        ("DELETE", "[]", "invalid delete targets: "),
                                        ("POST", '{"defaultAction":"maybe"}', "invalid policy: ")):
                status, text = s.policy(method, body)
                assert status == 400 and text.startswith(begin), (method, body, status, text)
            status, headers, text = s.request("HEAD", "/policy")
            same((status, headers["Allow"]), (405, "GET, POST, PUT, PATCH, DELETE"))
            status, headers, text = s.request("GET", "/nothing")
            same((status, text), (404, b"404 page not found\n"))
            same(headers["X-Content-Type-Options"], "nosniff")
            status, headers, _ = s.request("GET", "//x/../policy")
            same((status, headers["Location"]), (301, "/policy"))
            same(s.policy()[1]["mode"], "allow_all")
        with tap.test("what nftables cannot take is 500, and the old policy stays"):
            many = {"egress": [{"action": "allow", "target": f"203.0.113.{i}", "ports": [*range(
                8000, 8016)]} for i in range(40)]}
            status, text = s.policy("PUT", many)
            assert status == 500 and text.startswith("failed to apply nftables policy: "), text
            same(s.policy()[1]["mode"], "allow_all")
            same(inside("tcp('203.0.113.99')", 5), "203.0.113.99")
            assert s.events("egress.update_failed")
    with Sidecar(*w.at, MAX_RULES="2") as s, tap.test("too many rules are 413"):
        same(s.policy("PUT", deny(*[("allow", f"{c}.test") for c in "abc"])),
             (413, "egress rule total count 3 exceeds limit 2\n"))


def keeps_its_file(w, tap):
    file = pathlib.Path(w.home, "policy.json")
    env = {"POLICY_FILE": str(file)}
    with tap.test("the policy file comes before the environment, and is written"):
        file.write_text(json.dumps(deny(("allow", "from.file"))), encoding="ascii")
        file.chmod(0o640)
        with Sidecar(*w.at, deny(("allow", "from.env")), **env) as s:
            same([r["target"] for r in s.policy()[1]["policy"]["egress"]], ["from.file"])
            same(s.policy("PATCH", [{"action": "allow", "target": "more.test"}])[0], 200)
            text = file.read_text(encoding="ascii")
            same(json.loads(text)["egress"][0]["target"], "more.test")
            assert text.startswith('{\n  "egress": [\n    {\n') and text.endswith("}\n"), text
            same(stat.S_IMODE(file.stat().st_mode), 0o640)
            s.kill()
            s.start()
            same(len(s.policy()[1]["policy"]["egress"]), 2)
    for what, text in (("empty", ""), ("invalid", "{no")):
        file.write_text(text, encoding="ascii")
        with tap.test(f"an {what} file falls back to the environment"):
            with Sidecar(*w.at, deny(("allow", "from.env")), **env) as s:
                same([r["target"] for r in s.policy()[1]["policy"]["egress"]], ["from.env"])
    file.unlink()
    with tap.test("what it must not start with ends it"):
        for bad in ({"policy": "{"}, {"DNS_UPSTREAM": "resolver.test"}, {"DNS_UPSTREAM": " ,"},
                    {"POLICY_FILE": "/proc/1/mem"}, {"MITMPROXY_TRANSPARENT": "1",
                                                      "MITMPROXY_SCRIPT": "/x.py"}):
            s = Sidecar(*w.at, **bad).start(ready=False)
            same((bad, s.process.wait(SECONDS_MAX)), (bad, 1))
            s.log.close()
    with tap.test("a resolver that is dead costs nothing"):
        with Sidecar(*w.at, deny(("allow", "*.allowed.test")),
                     DNS_UPSTREAM=f"192.0.2.77,[{egress_world.NET6}]:53,{RESOLVER}",
                     DNS_UPSTREAM_TIMEOUT="60"):
            same(inside("ask('www.allowed.test', wait=20)[0]"), 0)


def obeys_lists(w, tap):
    (RULES / "allow.always").write_text("# always\nother.test\n", encoding="ascii")
    with Sidecar(*w.at, deny(("allow", "*.allowed.test"))) as s:
        with tap.test("lists of the operator come first"):
            same(inside("[ask(n)[0] for n in ('other.test', 'www.allowed.test')]"), [0, 0])
        with tap.test("a change of them is taken, and GET does not show it"):
            (RULES / "deny.always").write_text("*.allowed.test\n203.0.113.20\n", encoding="ascii")
            s.process.send_signal(signal.SIGHUP)
            wait_for(lambda: inside("ask('www.allowed.test')[0]") == 3, "the list is in force")
            same(len(s.policy()[1]["policy"]["egress"]), 1)
            wait_for(lambda: inside("tcp('203.0.113.20')").startswith("no"), "the address is shut")
        with tap.test("a bad list leaves the rules as they are"):
            (RULES / "deny.always").write_text("not a name!\n", encoding="ascii")
            s.process.send_signal(signal.SIGHUP)
            wait_for(lambda: "keeping the rules" in s.lines()[-1], "it is said")
            same(inside("ask('www.allowed.test')[0]"), 3)
    (RULES / "log_skip.always").write_text("a.test\n10.0.0.1\n", encoding="ascii")
    for name in ("allow", "deny"):
        (RULES / f"{name}.always").unlink()
    with tap.test("an address in log_skip.always ends it, with the line"):
        s = Sidecar(*w.at).start(ready=False)
        same(s.process.wait(SECONDS_MAX), 1)
        assert "line 2" in s.lines()[-1], s.lines()[-1]
        s.log.close()
    (RULES / "log_skip.always").unlink()


def plain_dns(w, tap):
    with Sidecar(*w.at, deny(("allow", "*.allowed.test")), MODE="DNS") as s:
        with tap.test("mode dns judges names and no packets"):
            same(s.policy()[1]["enforcementMode"], "dns")
            same(inside("ask('other.test')[0]"), 3)
            same(inside("tcp('203.0.113.20')", 5), "203.0.113.20")
    with Sidecar(*w.at, MODE="iptables") as s, tap.test("an unknown mode is dns, with a warning"):
        same(s.policy()[1]["enforcementMode"], "dns")
        assert any("OPENSANDBOX_EGRESS_MODE" in line for line in s.lines())
    with Sidecar(*w.at, {"defaultAction": "allow"}, BLOCK_DOH_443="yes",
                 DOH_BLOCKLIST="203.0.113.20,junk"), tap.test("listed DoH servers are shut at 443"):
        no(inside("tcp('203.0.113.20', 443)"))
        same(inside("[tcp('203.0.113.20', 80), tcp('203.0.113.10', 443)]", 5),
             ["203.0.113.20", "203.0.113.10"])
    with Sidecar(*w.at, {"defaultAction": "allow"}, BLOCK_DOH_443="1"), \
            tap.test("without a list all of TCP 443 is"):
        no(inside("tcp('203.0.113.10', 443)"))
    with Sidecar(*w.at, deny(), NAMESERVER_EXEMPT=f"{RESOLVER},10.0.0.0/8,{RESOLVER}"), \
            tap.test("an exempt resolver is asked directly"):
        same(inside(f"ask('other.test', 1, '{RESOLVER}')[0]"), 0)
        same(inside("ask('other.test', 1, '192.0.2.9')[0]"), 3)


HOLD = """
import socket, sys
s = socket.create_connection((sys.argv[1], 8443), 10)
for line in sys.stdin:
    s.settimeout(float(line))
    try:
        s.sendall(b"x"); print("yes" if s.recv(1) else "end", flush=True)
    except OSError as e:
        print("no", type(e).__name__, flush=True)
"""


def cuts_and_keeps(w, tap):
    with Sidecar(*w.at, deny(("allow", "*.allowed.test"), ("allow", "other.test"))) as s:
        def held(address):
            return subprocess.Popen([*WORKLOAD, sys.executable, "-c", HOLD, address], text=True,
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        def moves(p, wait):
            print(wait, file=p.stdin, flush=True)
            return p.stdout.readline().strip()

        inside("[lookup('www.allowed.test'), lookup('other.test')]")
        with held("203.0.113.10") as kept, held("203.0.113.20") as cut:
            with tap.test("connections outlive a kill and a restart with the same policy"):
                same([moves(kept, 10), moves(cut, 10)], ["yes", "yes"])
                s.kill()
                same([moves(kept, 10), moves(cut, 10)], ["yes", "yes"])
                s.start()
                same([moves(kept, 10), moves(cut, 10)], ["yes", "yes"])
            with tap.test("a tighter policy cuts what it no longer allows"):
                inside("[lookup('www.allowed.test'), lookup('other.test')]")
                same(s.policy("DELETE", ["other.test"])[0], 200)
                no(moves(cut, 0.5))
                same(moves(kept, 10), "yes")
            for p in (kept, cut):
                p.kill()


FLOOD = """
import socket, time
u, sent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0
control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
control.setblocking(False)
print("go", flush=True)
while True:
    for to in (("203.0.113.99", 443), ("203.0.113.99", 5353)):
        try:
            u.sendto(b"x", to)
        except OSError:
            pass
    try:
        control.sendto(b"x", ("203.0.113.10", 443))
    except OSError:
        pass
    time.sleep(0.002)
"""


def never_opens(w, tap):
    denied, control = w.internet.arrivals("203.0.113.99"), w.internet.arrivals("203.0.113.10")
    with Sidecar(*w.at, deny(("allow", "203.0.113.10"))) as s, \
            subprocess.Popen([*WORKLOAD, sys.executable, "-c", FLOOD],
                             stdout=subprocess.PIPE) as flood:
        flood.stdout.readline()
        with tap.test("nothing that is denied passes while it is killed and starts again"):
            for _ in range(8):
                s.kill()
                s.start()
            same(w.internet.arrivals("203.0.113.99"), denied)
            wait_for(lambda: w.internet.arrivals("203.0.113.10") > control + 20,
                     "what is allowed arrives")
        with tap.test("nor after a clean end, unless that was asked for"):
            same(s.kill(signal.SIGTERM), 0)
            before = w.internet.arrivals("203.0.113.10")
            wait_for(lambda: w.internet.arrivals("203.0.113.10") > before + 20, "packets go on")
            same(w.internet.arrivals("203.0.113.99"), denied)
            s.env["OPENSANDBOX_EGRESS_OPEN_ON_STOP"] = "1"
            s.start()
            same(s.kill(signal.SIGTERM), 0)
            wait_for(lambda: w.internet.arrivals("203.0.113.99") > denied, "it is open")
        flood.kill()


class Hook(http.server.BaseHTTPRequestHandler):
    """Takes reports; the first is refused with 500."""

    def log_message(self, *_):
        pass

    def do_POST(self):  # pylint: disable=invalid-name
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.headers["Content-Type"], json.loads(body)))
        self.send_response(500 if len(self.server.got) == 1 else 204)
        self.end_headers()


def reports(w, tap):
    server = http.server.HTTPServer(("127.0.0.1", 0), Hook)
    server.got = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/hook"
    with Sidecar(*w.at, deny(), DENY_WEBHOOK=url, SANDBOX_ID="sb-1",
                 METRICS_EXTRA_ATTRS="zone=a=b,x=") as s:
        with tap.test("denied names are reported, and again after an error"):
            inside("[ask('BAD.Example'), ask('worse.test')]")
            wait_for(lambda: len(server.got) >= 3, "three requests")
            kinds, rows = zip(*server.got)
            same(set(kinds), {"application/json"})
            same([r["hostname"] for r in rows], ["bad.example", "bad.example", "worse.test"])
            same({(r["source"], r["sandboxId"]) for r in rows}, {("opensandbox-egress", "sb-1")})
            time.strptime(rows[0]["timestamp"], "%Y-%m-%dT%H:%M:%SZ")
            row = s.events("egress.loaded")[0]
            same((row["sandbox_id"], row["zone"]), ("sb-1", "a=b"))
    server.shutdown()
    before = w.internet.arrivals("203.0.113.20")
    with Sidecar(*w.at, deny(), DENY_WEBHOOK="http://other.test:8443/hook"):
        with tap.test("the webhook's own name is not subject to the policy"):
            same(inside("ask('bad.test')[0]"), 3)
            wait_for(lambda: w.internet.arrivals("203.0.113.20") > before, "it is reached")
            no(inside("tcp('203.0.113.20', 8443)"))


def intercepts(w, tap):
    with Sidecar(*w.at, deny(("allow", "api.allowed.test")), MITMPROXY_TRANSPARENT="on") as s:
        vault = {"credentials": [{"name": "k", "source": {"value": "s3cr3t-0123456789"}}],
                 "bindings": [{"name": "b", "match": {"schemes": ["http"], "ports": [80],
                                                      "hosts": ["api.allowed.test"]},
                               "auth": {"type": "apiKey", "name": "x-key", "credential": "k"}}]}
        with tap.test("the authority is where the workload looks for it"):
            text = pathlib.Path("/opt/opensandbox/mitmproxy-ca-cert.pem")
            assert text.read_bytes().startswith(b"-----BEGIN CERTIFICATE"), text
            same(stat.S_IMODE(text.stat().st_mode), 0o644)
        with tap.test("the vault takes writes over loopback, and shows no secret"):
            same(s.request("GET", "/credential-vault/_active")[::2], (403, b"forbidden\n"))
            same(s.request("GET", "/credential-vault")[0], 404)
            same(s.request("POST", "/credential-vault", vault, address=HOST)[0], 426)
            status, _, body = s.request("POST", "/credential-vault", vault)
            assert status == 201 and b"s3cr3t" not in body, (status, body)
            same(s.policy("DELETE", ["api.allowed.test"])[0], 400)
            same(s.policy("POST", "")[0], 400)
        with tap.test("a request gets its credential, and another host none"):
            status, seen = inside("headers('api.allowed.test')", 10)
            same(status, 200)
            assert "X-Key: " in seen and "s3cr3t" not in seen, seen
            before = w.internet.arrivals("203.0.113.20")
            assert "203" not in inside("[tcp('203.0.113.20', p) for p in (80, 443)]", 5)
            same(w.internet.arrivals("203.0.113.20"), before)
        with tap.test("the authority is the same after a restart"):
            before = pathlib.Path("/opt/opensandbox/mitmproxy-ca-cert.pem").read_bytes()
            s.kill()
            s.start()
            same(pathlib.Path("/opt/opensandbox/mitmproxy-ca-cert.pem").read_bytes(), before)
    with Sidecar(*w.at, deny(("allow", "api.allowed.test")), MITMPROXY_TRANSPARENT="true",
                 CREDENTIAL_VAULT_REQUIRE_TLS="false") as s, \
            tap.test("the operator may allow writes of the vault without TLS"):
        same(s.request("POST", "/credential-vault", vault, address=HOST)[0], 201)
    with Sidecar(*w.at, deny(), TOKEN="") as s, tap.test("without a token there is no vault"):
        same(s.policy(token=None)[0], 200)
        same(s.request("POST", "/credential-vault", "{}")[::2],
             (412, b"credential vault requires egress API auth token\n"))
    with Sidecar(*w.at, deny()) as s, tap.test("nor without interception"):
        same(s.request("POST", "/credential-vault", "{}")[::2],
             (412, b"credential vault requires transparent mitmproxy\n"))


def observes(w, tap):
    with Receiver() as collector, \
            Sidecar(*w.at, deny(("allow", "*.allowed.test")), SANDBOX_ID="sb-2",
                    OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{collector.port}/base",
                    OTEL_METRIC_EXPORT_INTERVAL="200", METRICS_EXTRA_ATTRS="zone=z1") as s:
        with tap.test("a stream has each event as it happens"):
            c = http.client.HTTPConnection("127.0.0.1", 18080, timeout=SECONDS_MAX)
            with contextlib.closing(c):
                c.request("GET", "/events/stream", headers={"OPENSANDBOX-EGRESS-AUTH": TOKEN})
                stream = c.getresponse()
                same((stream.status, stream.getheader("Content-Type")), (200, "text/event-stream"))
                inside("ask('bad.test')")
                same(s.policy("PATCH", [{"action": "allow", "target": "new.test"}])[0], 200)
                rows, kinds = [], []
                while len(rows) < 2:
                    line = stream.readline().decode().strip()
                    if line.startswith("event:"):
                        kinds.append(line[6:].strip())
                    if line.startswith("data:"):
                        rows.append(json.loads(line[5:]))
                same(kinds, ["egress.deny", "policy.change"])
                same([r["target"] for r in rows], ["bad.test", "enforcing"])
        with tap.test("the last events can be asked for, with what was sent"):
            assert not inside("web('www.allowed.test')", 5).startswith("no")
            same(s.request("GET", "/events", token=None)[0], 401)
            status, _, body = s.request("GET", "/events")
            got = json.loads(body)
            same((status, [r["event"] for r in got["events"]][:3]),
                 (200, ["egress.deny", "policy.change", "egress.allow"]))
            assert got["packets"] >= 4 and got["bytes"] > 200 and got["connections"] >= 1, got
        with tap.test("what was tried without a name is an event"):
            inside("[tcp('203.0.113.99'), udp('2001:db8:3::99', 5353)]")
            wanted = {"203.0.113.99:80/tcp", "[2001:db8:3::99]:5353/udp"}
            wait_for(lambda: wanted <= {r["target"] for r in json.loads(
                s.request("GET", "/events")[2])["events"]}, "the events")
        with tap.test("Prometheus finds the figures"):
            text = s.request("GET", "/metrics")[2].decode()
            rows = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
            same(rows["opensandbox_egress_policy_denied_total"], "1")
            assert int(rows["opensandbox_egress_dns_query_duration_seconds_count"]) >= 1, text
            assert int(rows['opensandbox_egress_sandbox_bytes_total{sandbox="sb-2"}']) > 200, text
        with tap.test("a collector gets the metrics of the contract"):
            def latest():
                rows = [e for e in collector.exports if "egress.policy.denied_total" in e.metrics
                        and e.metrics["egress.policy.denied_total"].points[0].value == 1]
                return rows[-1] if rows else None
            wait_for(latest, "an export")
            export = latest()
            same(export.path, "/base/v1/metrics")
            same(set(export.metrics), {
                "egress.dns.query.duration", "egress.policy.denied_total",
                "egress.nftables.updates.count", "egress.nftables.rules.count",
                "egress.system.memory.usage_bytes", "egress.system.cpu.utilization"})
            same(export.resource["sandbox_id"], "sb-2")
            assert export.resource["service.name"].startswith("opensandbox-egress-")
            same(export.metrics["egress.policy.denied_total"].points[0].attributes,
                 {"sandbox_id": "sb-2", "zone": "z1"})
            same(export.metrics["egress.dns.query.duration"].unit, "s")
        with tap.test("answers are logged, with their addresses"):
            rows = s.events("egress.outbound")
            same(rows[0]["target.host"], "www.allowed.test")
            assert "203.0.113.10" in rows[0]["target.ips"] + rows[1]["target.ips"], rows[:2]


class Checks(Tap):
    """Tests as blocks, so that several use one sidecar."""

    @contextlib.contextmanager
    def test(self, sentence):
        self.count += 1
        try:
            yield
            print(f"ok {self.count} - {sentence}", flush=True)
        except Exception:  # whatever went wrong, the next check still runs
            self.failed += 1
            print(f"not ok {self.count} - {sentence}")
            print("# " + traceback.format_exc().strip().replace("\n", "\n# "), flush=True)


class World:
    """The internet, and where the sidecar's files are."""

    def __init__(self, home, program):
        self.internet, self.home, self.at = egress_world.Internet(), home, (program, home)


TESTS = [filters_by_env, no_marks, speaks_policy, keeps_its_file, obeys_lists, plain_dns,
         cuts_and_keeps, never_opens, reports, intercepts, observes]


def main():
    why = egress_world.why_not()
    if why:
        skip_all(why)
    tap = Checks()
    home, program = private_files(sys.argv[1])
    egress_world.enter()
    w = World(home, program)
    wanted = sys.argv[2:]
    with w.internet:
        for test in TESTS:
            if not wanted or test.__name__ in wanted:
                test(w, tap)
    subprocess.run(["umount", "--lazy", home], check=False)
    os.rmdir(home)
    sys.exit(tap.end())


if __name__ == "__main__":
    main()
