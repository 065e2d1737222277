#!/usr/bin/env python3
"""test_egress.py SERVER BROKER EXECD SANDBOXCTL EGRESS - what sandboxes reach under a policy,
through the real server, broker and opensandbox-egress, in a small internet of namespaces."""
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import struct
import sys
import textwrap
import time

import egress_world
from broker_process import children, comm, wait_for
from egress_world import RESOLVER
from server_process import ServerProcess

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
from tap import Tap, skip_all  # noqa: E402

# Runs inside: each probe prints one line, "yes" or "no" with a reason.
INSIDE = """
import socket, struct, sys, os
socket.setdefaulttimeout(float(os.environ.get("WAIT", "0.4")))
def tcp(address, port=80):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as s:
        try:
            s.connect((address, port)); s.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
            return s.recv(4096).decode().rpartition("\\n")[2]
        except OSError as e:
            return "no " + type(e).__name__
def udp(address, port=443):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        try:
            s.connect((address, port)); s.send(b"x"); return "yes" if s.recv(9) else "no"
        except OSError as e:
            return "no " + type(e).__name__
def lookup(name):
    try:
        return sorted({a[4][0] for a in socket.getaddrinfo(name, 80, type=socket.SOCK_STREAM)})
    except OSError as e:
        return "no " + str(e)
def web(name, port=80):
    try:
        with socket.create_connection((name, port), timeout=5) as s:
            s.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
            return s.recv(4096).decode().rpartition("\\n")[2]
    except OSError as e:
        return "no " + type(e).__name__
def headers(name, scheme="http"):
    import http.client, ssl
    try:
        c = (http.client.HTTPSConnection(name, timeout=20, context=ssl.create_default_context())
             if scheme == "https" else http.client.HTTPConnection(name, timeout=20))
        c.request("GET", "/headers"); r = c.getresponse(); return r.status, r.read().decode()
    except OSError as e:
        return "no " + repr(e)
def ask(name, kind=1, server="192.0.2.53", over="udp", wait=5):
    q = struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0) + b"".join(
        bytes([len(l)]) + l.encode() for l in name.split(".")) + b"\\0"
    q += struct.pack("!HH", kind, 1)
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM if over == "udp" else socket.SOCK_STREAM) as s:
        s.settimeout(wait)
        try:
            s.connect((server, 53))
            if over == "udp":
                s.send(q); r = s.recv(65535)
            else:
                s.sendall(struct.pack("!H", len(q)) + q)
                n = struct.unpack("!H", s.recv(2, socket.MSG_WAITALL))[0]
                r = s.recv(n, socket.MSG_WAITALL)
            return (r[3] & 15, struct.unpack("!H", r[6:8])[0], (r[2] >> 1) & 1)
        except OSError as e:
            return "no " + type(e).__name__
def ask_at_once(first, name, count, server="192.0.2.53", room=None):
    import threading
    def message(name, number):
        q = struct.pack("!HHHHHH", number, 0x0100, 1, 0, 0, 0)
        q += b"".join(bytes([len(l)]) + l.encode() for l in name.split(".")) + b"\\0\\0\\1\\0\\1"
        return struct.pack("!H", len(q)) + q
    all = message(first, 0) + b"".join(message(name, i) for i in range(1, count))
    with socket.socket() as s, s.makefile("rb") as f:
        s.settimeout(10)
        if room:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        s.connect((server, 53))
        threading.Thread(target=s.sendall, args=(all,)).start()
        got = [f.read(struct.unpack("!H", f.read(2))[0]) for i in range(count)]
    return [struct.unpack("!H", r[:2])[0] for r in got] == list(range(count))
"""


class World:
    """A server in the world, and helpers of the tests."""

    def __init__(self, programs, config=None):
        self.internet = egress_world.Internet()
        server, broker, execd, ctl, egress = programs
        sections = {"egress": {"program": os.path.abspath(egress), "upstreams": [RESOLVER]}}
        for name, keys in (config or {}).items():
            sections.setdefault(name, {}).update(keys)
        self.server = ServerProcess(server, broker, execd, ctl, sections)

    def __enter__(self):
        self.server.__enter__()
        return self

    def __exit__(self, *what):
        try:
            self.server.__exit__(*what)
        finally:
            self.internet.__exit__()

    def inside(self, box, code, wait=0.4):
        """What Python code prints inside, evaluated."""
        script = INSIDE + "\nprint(repr(" + code.strip() + "))\n"
        status, _, body = self.server.request(
            "POST", f"/sandboxes/{box}/proxy/44772/command",
            {"command": f"WAIT={wait} python3 - <<'END'\n{script}\nEND", "timeout": 60000})
        assert status == 200, (status, body)
        text = body.decode() if isinstance(body, bytes) else body
        out = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        lines = [event["text"] for event in out if event["type"] in ("stdout", "stderr")]
        assert lines, text
        try:
            return eval("".join(lines))  # pylint: disable=eval-used  # what our own script printed
        except SyntaxError as e:
            raise AssertionError("".join(lines)) from e

    def policy(self, box, method="GET", body=None, key="", headers=None):
        return self.server.request(method, f"/sandboxes/{box}/proxy/18080/policy", body,
                                   key=key, headers=headers)

    def create(self, default="deny", rules=(), **fields):
        return self.server.create(networkPolicy={
            "defaultAction": default,
            "egress": [{"action": action, "target": target} for action, target in rules]}, **fields)

    def remove(self, box):
        status, _, body = self.server.request("DELETE", f"/v1/sandboxes/{box}")
        assert status == 204, (status, body)

    def egress_pid(self):
        found = [pid for pid in children(self.server.pid) if comm(pid) == "opensandbox-egr"]
        return found[0] if found else None

    def wait_for_egress(self, box, old=None):
        """Until a process other than `old` answers for the sandbox."""
        wait_for(lambda: self.egress_pid() not in (None, old), "another egress")
        wait_for(lambda: self.policy(box)[0] == 200, "its service")


def same(got, wanted):
    assert got == wanted, f"{got!r}, not {wanted!r}"


def no(got):
    assert isinstance(got, str) and got.startswith("no"), f"{got!r} passed"


NETLINK_NETFILTER, NFT_MSG_GETCHAIN, NLM_F_DUMP_REQUEST = 12, 10 << 8 | 4, 0x301
NFT_MSG_NEWCHAIN, NFT_MSG_DELCHAIN = 10 << 8 | 3, 10 << 8 | 5
NFT_MSG_NEWRULE, NFT_MSG_DELRULE = 10 << 8 | 6, 10 << 8 | 8
NFNL_MSG_BATCH_BEGIN, NFNL_MSG_BATCH_END, NLM_F_CREATE = 0x10, 0x11, 0x400
ALLOWED = [("allow", "*.allowed.test")]


def denies_by_default(w, tap):
    box = w.create(rules=[])
    slot = os.readlink(w.server.state / "ids" / box)
    # Those of a sandbox which was removed before go after the answer to its removal.
    tap.check("a sandbox with a policy has its chains, and they are the only ones",
              lambda: nft_only([f"sb{slot}", f"sb{slot}-denied"]))
    before = w.internet.arrivals()
    tap.check("deny-all: no name resolves", lambda: no(w.inside(box, "lookup('www.allowed.test')")))
    got = w.inside(box, """[tcp('203.0.113.99'), tcp('2001:db8:3::99'), udp('203.0.113.99'),
        udp('203.0.113.99', 5353), tcp('203.0.113.99', 443), tcp('203.0.113.99', 853)]""")
    tap.check("deny-all: no address is reached", lambda: [no(one) for one in got])
    tap.check("deny-all: no packet arrives outside", lambda: same(w.internet.arrivals(), before))
    tap.check("deny-all: GET shows it", lambda: same(w.policy(box)[2], {
        "status": "ok", "mode": "deny_all", "enforcementMode": "dns+nft",
        "policy": {"egress": [], "defaultAction": "deny"}}))
    w.remove(box)


def opens_by_name(w, tap):
    box = w.create(rules=ALLOWED + [("deny", "secret.allowed.test")])
    tap.check("an allowed name resolves in both families",
              lambda: same(w.inside(box, "lookup('www.allowed.test')"),
                           ["2001:db8:3::10", "203.0.113.10"]))
    got = w.inside(box, "[web('www.allowed.test'), web('api.allowed.test')]")
    tap.check("names below the wildcard are reached", lambda: same(
        [one.split(":")[0] != "no" and not one.startswith("no") for one in got], [True, True]))
    tap.check("the apex is not", lambda: no(w.inside(box, "lookup('allowed.test')")))
    tap.check("other names are not", lambda: no(w.inside(box, "lookup('other.test')")))
    tap.check("an address that was not learned is not",
              lambda: no(w.inside(box, "tcp('203.0.113.20')")))
    tap.check("a learned address is reached directly",
              lambda: same(w.inside(box, "tcp('203.0.113.11')"), "203.0.113.11"))
    tap.check("... but not at port 853, nor by UDP there",
              lambda: [no(one) for one in w.inside(
                  box, "[tcp('203.0.113.11', 853), udp('203.0.113.11', 853)]")])
    tap.check("an alias to a CDN resolves", lambda: same(
        w.inside(box, "web('cdn.allowed.test')"), "203.0.113.40"))
    w.remove(box)


def judges_dns(w, tap):
    box = w.create(rules=ALLOWED + [("deny", "denied.test")])
    cases = [
        ("TCP queries are answered", "ask('api.allowed.test', over='tcp')", (0, 1, 0)),
        ("any server that is asked is ours", "ask('api.allowed.test', server='203.0.113.99')",
         (0, 1, 0)),
        ("... also over IPv6", "ask('api.allowed.test', server='2001:db8:3::99')", (0, 1, 0)),
        ("... also over TCP and IPv6",
         "ask('api.allowed.test', server='2001:db8:3::99', over='tcp')", (0, 1, 0)),
        ("case does not matter", "ask('API.Allowed.TEST')", (0, 1, 0)),
        ("a denied name is NXDOMAIN", "ask('other.test')", (3, 0, 0)),
        ("... whatever the type", "[ask('other.test', k) for k in (2, 15, 16, 28, 255)]",
         [(3, 0, 0)] * 5),
        ("an alias of a denied name is refused", "ask('alias.allowed.test')", (3, 0, 0)),
        ("a name that leads to metadata is refused", "ask('metadata.allowed.test')", (3, 0, 0)),
        ("... to loopback", "ask('loop.allowed.test')", (3, 0, 0)),
        ("... to a private address", "ask('private.allowed.test')", (3, 0, 0)),
        ("... to a mapped one", "ask('mapped.allowed.test', 28)", (3, 0, 0)),
        ("a long answer is cut over UDP", "ask('big.allowed.test')", (0, 0, 1)),
        ("... and whole over TCP", "ask('big.allowed.test', over='tcp')", (0, 60, 0)),
        ("whole zones are refused", "ask('www.allowed.test', 252, over='tcp')", (5, 0, 0)),
        ("data is limited", "(ask('text.allowed.test', 16), "
         "sum(ask('text.allowed.test', 16)[0] == 5 for i in range(60)) > 20)", ((0, 1, 0), True)),
    ]
    for sentence, code, wanted in cases:
        tap.check(sentence, lambda code=code, wanted=wanted: same(w.inside(box, code), wanted))
    # The first waits for a resolver; the rest waits for it, and is denied at once.
    tap.check("hundreds of questions at once over TCP are answered in order", lambda: same(
        w.inside(box, "ask_at_once('first.allowed.test', 'x', 400)"), True))
    tap.check("... and thousands, though the client has little room for the answers", lambda: same(
        w.inside(box, "ask_at_once('first.allowed.test', 'x', 4000, room=4096)"), True))
    before = len(w.internet.queries())
    w.inside(box, "[ask('secret-%d.other.test' % i) for i in range(20)]")
    tap.check("a denied name never reaches a resolver",
              lambda: same(w.internet.queries()[before:], []))
    before = w.internet.queries().count("api.allowed.test")
    w.inside(box, "[ask('api.allowed.test') for i in range(20)]")
    tap.check("answers are cached",
              lambda: same(w.internet.queries().count("api.allowed.test") - before <= 1, True))
    w.remove(box)


def takes_addresses(w, tap):
    box = w.server.create(networkPolicy={"defaultAction": "deny", "egress": [
        {"action": "allow", "target": "203.0.113.0/27"},
        {"action": "deny", "target": "203.0.113.12"},
        {"action": "allow", "target": "2001:db8:3::10"},
        {"action": "allow", "target": "203.0.113.50", "protocol": "tcp", "ports": [443]},
        {"action": "allow", "target": "ports.test", "ports": [8443]}]})
    cases = [
        ("a network is allowed", "tcp('203.0.113.10')", "203.0.113.10"),
        ("an IPv6 address is", "tcp('2001:db8:3::10')", "2001:db8:3::10"),
        ("a port of an address is", "tcp('203.0.113.50', 443)", "203.0.113.50"),
        ("a port of a name is", "web('ports.test', 8443)", "203.0.113.50"),
        ("another port is not", "tcp('203.0.113.50', 80)", None),
        ("a denied address in it is not", "tcp('203.0.113.12')", None),
        ("its neighbour is not", "tcp('203.0.113.40')", None),
        ("another IPv6 address is not", "tcp('2001:db8:3::20')", None),
    ]
    for sentence, code, wanted in cases:
        if wanted is None:
            tap.check(sentence, lambda code=code: no(w.inside(box, code)))
        else:
            tap.check(sentence,
                      lambda code=code, wanted=wanted: same(w.inside(box, code, 5), wanted))
    w.remove(box)


def uses_credentials(w, tap):
    box = w.create("allow", [("allow", "api.allowed.test")], credentialProxy={"enabled": True})

    def vault(method="GET", body=None, path=""):
        return w.server.request(
            method, f"/sandboxes/{box}/proxy/18080/credential-vault{path}", body)

    def binding(name="b", host="api.allowed.test"):
        return {"name": name, "match": {"schemes": ["http"], "ports": [80], "hosts": [host]},
                "auth": {"type": "bearer", "credential": "key"}}

    key = {"name": "key", "source": {"value": "s3cr3t-of-the-owner"}}
    plain = w.inside(box, "headers('api.allowed.test')", 5)
    tap.check("without a vault nothing is added",
              lambda: same((plain[0], "Authorization" in plain[1]), (200, False)))
    tap.check("there is no vault at first", lambda: same(vault()[0], 404))
    tap.check("a host without a rule is refused", lambda: same(vault("POST", {
        "credentials": [key], "bindings": [binding(host="other.test")]})[0], 400))
    made = vault("POST", {"credentials": [key], "bindings": [binding()]})
    tap.check("a vault is created", lambda: same((made[0], made[2]["revision"]), (201, 1)))
    got = w.inside(box, "headers('api.allowed.test')", 5)
    tap.check("requests carry the credential, and echoes are redacted", lambda: same(
        "authorization: bearer [redacted]" in got[1].lower() and "s3cr3t" not in got[1], True))
    other = w.inside(box, "headers('other.test')", 5)
    tap.check("requests to other hosts do not", lambda: same("Authorization" in other[1], False))
    tap.check("a policy that uncovers the host is refused", lambda: same(
        w.policy(box, "DELETE", ["api.allowed.test"])[0], 400))
    tap.check("... and so is a reset; nothing of either is applied", lambda: same(
        (w.policy(box, "PUT", None)[0], w.policy(box, "PUT", {})[0],
         [rule["target"] for rule in w.policy(box)[2]["policy"]["egress"]],
         w.policy(box)[2]["policy"]["defaultAction"]), (400, 400, ["api.allowed.test"], "allow")))
    tap.check("bindings change live", lambda: same(
        (vault("PATCH", {"bindings": {"delete": ["b"]}})[2]["revision"],
         "Authorization" in w.inside(box, "headers('api.allowed.test')", 5)[1]), (2, False)))
    files = w.inside(box, "[open(os.environ[n]).read(28) for n in ('SSL_CERT_FILE', "
                          "'REQUESTS_CA_BUNDLE', 'NODE_EXTRA_CA_CERTS')]", 5)
    tap.check("the authority's certificate is inside", lambda: same(
        files[2], "-----BEGIN CERTIFICATE-----\n"))
    tls = w.inside(box, "headers('api.allowed.test', 'https')", 5)
    tap.check("programs trust it; a server without TLS is 502", lambda: same(tls[0], 502))
    tap.check("a vault is deleted", lambda: same((vault("DELETE")[0], vault()[0]), (204, 404)))
    w.remove(box)


def changes_live(w, tap):
    box = w.server.create()
    tap.check("without a policy, GET answers allow-all at once",
              lambda: same((w.policy(box)[0], w.policy(box)[2]["mode"]), (200, "allow_all")))
    tap.check("... and all is reached",
              lambda: same(w.inside(box, "tcp('203.0.113.99')", 5), "203.0.113.99"))
    put = w.policy(box, "PUT", {"defaultAction": "deny", "egress": [
        {"action": "allow", "target": "www.allowed.test"}]})
    tap.check("PUT is acknowledged", lambda: same(put[0::2], (200, {
        "status": "ok", "mode": "enforcing", "enforcementMode": "dns+nft"})))
    tap.check("... and in force", lambda: no(w.inside(box, "tcp('203.0.113.99')")))
    patch = w.policy(box, "PATCH", [{"action": "allow", "target": "other.test"},
                                    {"action": "deny", "target": "WWW.allowed.test"},
                                    {"action": "deny", "target": "other.test"}])
    tap.check("PATCH is acknowledged", lambda: same(patch[0], 200))
    tap.check("... new rules first, doubles dropped", lambda: same(
        [(rule["action"], rule["target"]) for rule in w.policy(box)[2]["policy"]["egress"]],
        [("allow", "other.test"), ("deny", "WWW.allowed.test")]))
    tap.check("... in force", lambda: (
        same(w.inside(box, "web('other.test')").startswith("no"), False),
        no(w.inside(box, "lookup('www.allowed.test')"))))
    delete = w.policy(box, "DELETE", ["OTHER.test", "nope.test"])
    tap.check("DELETE removes by target", lambda: same(
        (delete[0], len(w.policy(box)[2]["policy"]["egress"])), (200, 1)))
    tap.check("... and says when nothing matches", lambda: same(
        w.policy(box, "DELETE", ["nope.test"])[2]["reason"], "no matching targets found"))
    reset = w.policy(box, "POST", "")
    tap.check("an empty body is deny-all", lambda: same(reset[2], {
        "status": "ok", "mode": "deny_all", "reason": "policy reset to default deny-all"}))
    for sentence, method, body in [
            ("not JSON", "PUT", "{"), ("an unknown action", "PUT", {"defaultAction": "maybe"}),
            ("an empty target", "PATCH", [{"action": "allow", "target": " "}]),
            ("a target that is none", "PATCH", [{"action": "allow", "target": "http://x/"}]),
            ("an empty patch", "PATCH", []), ("an empty deletion", "DELETE", ""),
            ("ports that are none", "PATCH", [{"target": "x.test", "ports": [0]}])]:
        tap.check(f"400 for {sentence}", lambda method=method, body=body: same(
            w.policy(box, method, body)[0], 400))
    tap.check("405 for other methods", lambda: same(w.policy(box, "OPTIONS", None)[0] in (405, 204),
                                                    True))
    w.remove(box)


HOLD = """
import socket, time
s = socket.create_connection(("www.allowed.test", 8443))
s.settimeout(None)
s.sendall(b"ping"); s.recv(4)
open("/tmp/open", "w").close()
while True:
    time.sleep(0.02)
    s.sendall(b"more")
"""


def cuts_open_connections(w, tap):
    box = w.create(rules=ALLOWED)
    status, _, _ = w.server.request(
        "POST", f"/sandboxes/{box}/proxy/44772/command",
        {"command": f"python3 - <<'END'\n{HOLD}\nEND", "background": True})
    same(status, 200)

    def count():
        return w.internet.arrivals("203.0.113.10") + w.internet.arrivals("2001:db8:3::10")

    def moves():
        before = count()
        wait_for(lambda: count() > before, "traffic")

    tap.check("a connection is open and moves", moves)
    same(w.policy(box, "PATCH", [{"action": "allow", "target": "other.test"}])[0], 200)
    tap.check("a change that allows it leaves it alone", moves)
    same(w.policy(box, "PUT", {"egress": [{"action": "allow", "target": "other.test"}]})[0], 200)
    count()  # what was on its way
    before = count()
    same(w.inside(box, "web('other.test')").startswith("no"), False)  # time passes
    tap.check("a change that does not cuts it", lambda: same(count(), before))
    w.remove(box)


def answers_those_who_may(w, tap):
    box = w.create()
    status, _, body = w.server.request("GET", f"/v1/sandboxes/{box}/endpoints/18080")
    tap.check("the endpoint has the token", lambda: same(
        (status, "OPENSANDBOX-EGRESS-AUTH" in body["headers"]), (200, True)))
    headers = {"OPENSANDBOX-EGRESS-AUTH": body["headers"]["OPENSANDBOX-EGRESS-AUTH"]}
    tap.check("which opens it", lambda: same(w.policy(box, key=None, headers=headers)[0], 200))
    tap.check("nothing else does", lambda: same(
        [w.policy(box, key=None)[0], w.policy(box, key=None, headers={
            "OPENSANDBOX-EGRESS-AUTH": "wrong"})[0]], [401, 401]))
    tap.check("a bad policy is refused at create", lambda: same(
        w.server.request("POST", "/v1/sandboxes", {
            "image": {"uri": "host"}, "entrypoint": ["true"], "networkPolicy": {
                "egress": [{"action": "allow", "target": "not a name"}]},
            "resourceLimits": {"cpu": "1", "memory": "128Mi"}})[0], 400))
    w.inside(box, "lookup('other.test')")
    events = w.server.request("GET", f"/v1/sandboxes/{box}/diagnostics/events")[2]
    tap.check("diagnostics tell what was refused, and why", lambda: same(
        [word in str(events) for word in ("egress.deny", "other.test", "not allowed")], [True] * 3))
    began = time.monotonic()
    w.inside(box, "tcp('203.0.113.99')")  # its first packets are counted, and dropped
    status, _, got = w.server.request("GET", f"/sandboxes/{box}/proxy/18080/events")
    tap.check("events, bytes and connections can be asked for at port 18080", lambda: same(
        (status, {e["event"] for e in got["events"]} >= {"egress.deny"}, got["bytes"] >= 60,
         got["connections"] > 0), (200, True, True, True)))
    w.inside(box, "[tcp('2001:db8:3::99', 443), udp('203.0.113.99', 5353), "
                  "tcp('203.0.113.99')]")

    def dropped():
        got = w.server.request("GET", f"/sandboxes/{box}/proxy/18080/events")[2]["events"]
        return [e["target"] for e in got if e["reason"].startswith("address, port or protocol")]
    tap.check("what was tried without a name is an event", lambda: wait_for(
        lambda: {"203.0.113.99:80/tcp", "[2001:db8:3::99]:443/tcp", "203.0.113.99:5353/udp"} ==
        set(dropped()), "the events"))
    # Behind AGAIN_S of src/egress/denied.c an address is told of once more.
    tap.check("... one for each",
              lambda: time.monotonic() - began > 50 or same(len(dropped()), 3))
    text = str(w.server.request("GET", f"/sandboxes/{box}/proxy/18080/metrics")[2])
    tap.check("and the same for Prometheus", lambda: same(
        "opensandbox_egress_sandbox_bytes_total{sandbox=" in text.replace("\\", ""), True))
    w.remove(box)


def outlives_its_processes(w, tap):
    box = w.create(rules=ALLOWED)

    def open_():
        same(w.inside(box, "web('www.allowed.test')", 5).startswith("no"), False)

    def shut():
        no(w.inside(box, "tcp('203.0.113.99')"))

    same(w.policy(box, "PATCH", [{"action": "allow", "target": "other.test"}])[0], 200)
    old = w.egress_pid()
    os.kill(old, signal.SIGKILL)
    tap.check("closed while egress is down", shut)
    w.wait_for_egress(box, old)
    tap.check("open again after its kill -9", open_)
    tap.check("with the changed policy", lambda: same(
        len(w.policy(box)[2]["policy"]["egress"]), 2))
    w.server.kill9()
    w.server.start()
    tap.check("closed after a kill -9 of the server", shut)
    w.wait_for_egress(box)
    tap.check("open after it", open_)
    w.remove(box)


DENIED = ("203.0.113.99", "2001:db8:3::99")
CONTROL = ("203.0.113.50", "2001:db8:3::20")  # reached all the time: shows that the prober sends


def never_opens(w, tap):
    """A prober sends denied traffic all the time while processes are killed, and in the same turn
    allowed traffic, which must arrive after each kill."""
    box = w.create(rules=ALLOWED + [("allow", address) for address in CONTROL])
    code = textwrap.dedent(f"""
        import socket, time
        u = [(socket.socket(socket.AF_INET6 if ":" in a else socket.AF_INET, socket.SOCK_DGRAM), a)
             for a in {DENIED + CONTROL}]
        while True:
            for s, a in u:
                try: s.sendto(b"x", (a, 443))
                except OSError: pass
            time.sleep(0.001)
    """)
    status, _, _ = w.server.request("POST", f"/sandboxes/{box}/proxy/44772/command", {
        "command": f"python3 - <<'END'\n{code}\nEND", "background": True})
    same(status, 200)

    def probes():
        for address in CONTROL:
            before = w.internet.arrivals(address)
            wait_for(lambda before=before, address=address:
                     w.internet.arrivals(address) > before + 3, f"traffic to {address}")

    probes()
    for _ in range(5):
        old = w.egress_pid()
        os.kill(old, signal.SIGKILL)
        probes()
        wait_for(lambda old=old: w.egress_pid() not in (None, old), "another egress")
        patch = w.policy(box, "PATCH", [{"action": "allow", "target": "x.test"}])
        same(patch[0] in (200, 502), True)
    for _ in range(2):
        w.server.kill9()
        probes()
        w.server.start()
        w.wait_for_egress(box)
        probes()
    tap.check("no denied packet arrives, whatever is killed, while allowed ones do", lambda: same(
        sum(w.internet.arrivals(address) for address in DENIED), 0))
    w.remove(box)


def keeps_the_slot_of_rules_that_stay(w, tap):
    """A rule of somebody else jumps to a sandbox's chain, which then cannot be removed."""
    box = w.create(rules=ALLOWED)
    slot = os.readlink(w.server.state / "ids" / box)
    nft_hold(f"sb{slot}", True)
    w.remove(box)
    tap.check("rules that cannot be removed are told of", lambda: wait_for(
        lambda: "remove its rules" in w.server.log(), "the line"))
    other = w.server.create()
    tap.check("... and no other sandbox gets them", lambda: same(
        (os.readlink(w.server.state / "ids" / other) != slot,
         (w.server.state / "slots" / slot).is_dir()), (True, True)))
    w.remove(other)
    nft_hold(f"sb{slot}", False)
    w.server.kill9()
    w.server.start()
    tap.check("the next start removes them", lambda: nft_only([]))


def obeys_the_operator(w, tap):
    box = w.create(rules=[("allow", "denied.test"), ("allow", "203.0.113.0/24"),
                          ("deny", "other.test")])
    cases = [
        ("a name of always_deny", "lookup('denied.test')", False),
        ("an address of always_deny", "tcp('203.0.113.99')", False),
        ("a name of always_allow, though the policy denies it", "web('other.test')", True),
        ("an allowed address", "tcp('203.0.113.10', 443)", True),
        ("... by QUIC, which is blocked", "udp('203.0.113.10', 443)", False),
        ("port 443 of encrypted DNS", "tcp('203.0.113.50', 443)", False),
        ("its other ports", "tcp('203.0.113.50', 80)", True),
    ]
    for sentence, code, passes in cases:
        tap.check(f"{'passes' if passes else 'stops'}: {sentence}", lambda code=code, passes=passes:
                  same(str(w.inside(box, code, 5 if passes else 0.4)).startswith("no"), not passes))
    plain = w.server.create()
    tap.check("a sandbox without a policy obeys the lists, too", lambda: (
        no(w.inside(plain, "tcp('203.0.113.99')")),
        same(w.inside(plain, "tcp('203.0.113.10')", 5), "203.0.113.10")))
    w.remove(box)
    w.remove(plain)


def records_decisions(w, tap):
    """With audit.egress."""
    box = w.create(rules=ALLOWED)

    def decided():
        status, _, body = w.server.request("GET", "/v1/audit?method=EGRESS&limit=1000&after=0")
        assert status == 200, body
        return body["items"]

    def denied(name):
        return [e for e in decided() if e["route"] == "egress.deny" and name in e["target"]]

    w.inside(box, "lookup('first.denied.test')")
    w.inside(box, "web('www.allowed.test')", 5)
    tap.check("a name that is denied is in the record",
              lambda: wait_for(lambda: denied("first.denied.test"), "the entry"))
    entry = denied("first.denied.test")[0]
    tap.check("with the sandbox, its tenant and the outcome", lambda: same(
        (entry["principal"], entry["tenant"], entry["outcome"], entry["status"], entry["target"]),
        (f"sandbox:{box}", "default", "refused", 403, f"{box}/first.denied.test")))
    tap.check("what is allowed is not", lambda: same(
        [e for e in decided() if "allowed.test" in e["target"]], []))
    w.policy(box, "PATCH", [{"action": "deny", "target": "later.test"}])
    tap.check("so is a change of the policy", lambda: wait_for(
        lambda: [e for e in decided() if e["route"] == "policy.change"
                 and e["target"].startswith(box) and e["outcome"] == "success"], "the entry"))
    w.inside(box, "[ask('flood%d.test' % i, wait=0.2) for i in range(200)][:1]")
    w.inside(box, "__import__('time').sleep(1.2) or lookup('after.denied.test')")
    wait_for(lambda: denied("after.denied.test"), "the entry after the flood")
    told = len(denied("flood"))
    left = re.search(r"\((\d+) before are left out\)", str(decided()))
    tap.check("a flood is counted, not recorded",
              lambda: same((0 < told < 200, bool(left)), (True, True)))
    old = w.egress_pid()
    os.kill(old, signal.SIGKILL)
    w.wait_for_egress(box, old)
    w.inside(box, "lookup('second.denied.test')")
    tap.check("after egress was killed, decisions are recorded again",
              lambda: wait_for(lambda: denied("second.denied.test"), "the entry"))
    w.remove(box)


def attribute(kind, *parts):
    data = b"".join(part if isinstance(part, bytes) else struct.pack("!I", part) for part in parts)
    return (struct.pack("=HH", 4 + len(data), kind) + data).ljust((len(data) + 7) // 4 * 4, b"\0")


def text(kind, value):
    return attribute(kind, value.encode() + b"\0")


def nft_hold(chain, held):
    """Makes a chain with a jump to this one, or removes it."""
    table = re.search(rb"opensandbox-egress[-0-9a-z]*(?=\0)", nft_dump()).group().decode()
    nested = 1 << 15
    verdict = attribute(nested | 2, attribute(1, -3 & 0xffffffff), text(2, chain))  # NFT_JUMP
    jump = attribute(nested | 1, text(1, "immediate"), attribute(  # to the verdict's register
        nested | 2, attribute(1, 0), attribute(nested | 2, verdict)))
    name = [text(1, table), text(3, "held")], [text(1, table), text(2, "held")]
    steps = [(NFT_MSG_NEWCHAIN, name[0]),
             (NFT_MSG_NEWRULE, [*name[1], attribute(nested | 4, jump)])]
    if not held:
        steps = [(NFT_MSG_DELRULE, name[1]), (NFT_MSG_DELCHAIN, name[0])]
    messages = [(NFNL_MSG_BATCH_BEGIN, 1, struct.pack("=BB", 0, 0) + struct.pack("!H", 10)),
                *((kind, 5, b"\1\0\0\0" + b"".join(parts)) for kind, parts in steps),
                (NFNL_MSG_BATCH_END, 1, struct.pack("=BB", 0, 0) + struct.pack("!H", 10))]
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER) as sock:
        sock.settimeout(10)
        sock.send(b"".join(struct.pack("=IHHII", 16 + len(body), kind, flags | (
            NLM_F_CREATE if held and flags == 5 else 0), i, 0) + body
            for i, (kind, flags, body) in enumerate(messages)))
        for _ in steps:
            error = struct.unpack_from("=i", sock.recv(1 << 16), 16)[0]
            assert error == 0, os.strerror(-error)


def nft_left():
    """Names of the chains of sandboxes."""
    return sorted({name.decode() for name in re.findall(
        rb"(?<=\0)sb\d+(?:-denied)?(?=\0)", nft_dump())})


def nft_dump():
    """The chains in this namespace, by NFT_MSG_GETCHAIN. enter() made the namespace for this
    process alone, so that they are those of its own servers."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER) as sock:
        sock.settimeout(10)
        sock.send(struct.pack("=IHHIIBBH", 20, NFT_MSG_GETCHAIN, NLM_F_DUMP_REQUEST, 1, 0, 0, 0, 0))
        data = b""
        while True:
            part = sock.recv(1 << 16)
            data += part
            if struct.unpack_from("=H", part, 4)[0] in (2, 3) or b"\x03\0" == part[-16:-14]:
                break
    assert b"forward\0" in data, "the tables are not there"
    return data


def nft_only(wanted):
    """Waits until these are the chains, and shows those that are there instead."""
    with contextlib.suppress(AssertionError):
        wait_for(lambda: nft_left() == wanted, "the chains")
    same(nft_left(), wanted)


def main():
    programs = sys.argv[1:]
    skip_all(egress_world.why_not())
    egress_world.enter()
    tap = Tap()
    tests = [answers_those_who_may, denies_by_default, opens_by_name, judges_dns, takes_addresses,
             uses_credentials, changes_live, cuts_open_connections, outlives_its_processes,
             keeps_the_slot_of_rules_that_stay]
    with World(programs) as w:
        for test in tests:
            before = tap.count
            try:
                test(w, tap)
            except Exception as e:  # the next test still runs
                tap.check(f"{test.__name__} runs to its end", lambda e=e: (_ for _ in ()).throw(e))
            assert tap.count > before
        tap.check("nothing is left of removed sandboxes", lambda: nft_only([]))
    with World(programs) as w:
        never_opens(w, tap)
    with World(programs, {"egress": {"always_deny": ["denied.test", "203.0.113.99"],
                                     "always_allow": ["other.test"], "block_quic": True,
                                     "doh_blocklist": ["203.0.113.50"]}}) as w:
        obeys_the_operator(w, tap)
    with World(programs, {"audit": {"egress": True},
                          "egress": {"vault_on_restart": "sealed"}}) as w:  # one pipe more
        records_decisions(w, tap)
    return tap.end()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
