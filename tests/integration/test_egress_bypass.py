#!/usr/bin/env python3
"""test_egress_bypass.py SERVER BROKER EXECD SANDBOXCTL EGRESS - ways around a policy, tried from
inside. The policy allows *.allowed.test and nothing else; 203.0.113.99 and its IPv6 neighbour are
denied. Each probe says how it failed; in the end nothing has arrived there. A second sandbox has
TLS interception, and may talk to secure.test alone. A third, without a policy, is the control: it
gets through where a probe is meant to show a way. tests/drill/egress-control tries the same in
plain Docker."""
import os
import pathlib
import signal
import sys
import tempfile

import egress_world
from broker_process import wait_for
from egress_probes import CAUGHT, CAUGHT_PROBES, MORE, PROBES
from test_egress import ALLOWED, World, no, same
from tls_world import TlsWorld

from tap import Tap, skip_all  # test_egress has set the path

DENIED = ("203.0.113.99", "2001:db8:3::99")
AT_ONCE = 12
SANITIZED = any(b"__asan_init" in pathlib.Path(path).read_bytes() for path in sys.argv[5:6])
NAMES, MEMORY_KIB_MAX = 10_000, 16 << 10
# Questions for so many names, 32 of them under way.
MANY_NAMES = """
def many(count):
    with socket.socket(I4, D) as s:
        s.settimeout(20)
        s.connect((NAMESERVER, 53))
        for i in range(count + 32):
            if i < count:
                s.send(question("n%d.wild.allowed.test" % i))
            if i >= 32 and s.recv(512)[3] & 15:
                return "refused"
    return "answered"
"""


def after(setup, code):
    """`code`, evaluated where `setup` ran before."""
    return f"(exec({setup!r}, globals()), {code})[1]"


def try_all(w, tap, box, setup, probes, wait=0.4, each="map"):
    """`each` calls functions: one after the other, or as POOL.map in threads."""
    names = list(probes)
    for at in range(0, len(names), AT_ONCE):
        part = names[at:at + AT_ONCE]
        code = ", ".join(f"lambda: {probes[n]}" for n in part)
        got = w.inside(box, after(setup, f"list({each}(lambda f: f(), [{code}]))"), wait)
        for name, result in zip(part, got):
            tap.check(f"{name}: {result}", lambda result=result: no(result))


def relay(w):
    """A sandbox without a policy that answers at port 8099; its address."""
    box = w.server.create()
    status, _, body = w.server.request("POST", f"/sandboxes/{box}/proxy/44772/command", {
        "command": "exec python3 -m http.server 8099", "background": True})
    assert status == 200, body
    wait_for(lambda: not w.inside(box, "tcp('127.0.0.1', 8099)", 5).startswith("no "),
             "the neighbour listens")
    return box, w.inside(box, "(lambda s: (s.connect(('203.0.113.1', 9)), s.getsockname()[0])[1])("
                         "socket.socket(socket.AF_INET, socket.SOCK_DGRAM))")


def rss_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))


def hangs(w, tap, box):
    """The engine does not answer; rules do without it."""
    pid = w.egress_pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        got = w.inside(box, "[tcp('203.0.113.99'), udp('203.0.113.99'), "
                       "tcp('2001:db8:3::99'), lookup('other.test')]")
    finally:
        os.kill(pid, signal.SIGCONT)
    for name, result in zip(("TCP", "UDP", "TCP over IPv6", "a name"), got):
        tap.check(f"while the engine hangs, {name}: {result}", lambda result=result: no(result))
    wait_for(lambda: w.inside(box, "web('api.allowed.test')", 5) == "203.0.113.11", "the engine")


def many_names(w, tap, box):
    before = rss_kib(w.egress_pid())
    got = w.inside(box, after(MORE + MANY_NAMES, f"many({NAMES})"))
    grown = rss_kib(w.egress_pid()) - before
    tap.check(f"{NAMES} names: {got}, {grown} KiB more", lambda: same(
        (got, SANITIZED or grown < MEMORY_KIB_MAX), ("answered", True)))
    tap.check("a denied address is closed after them", lambda: no(
        w.inside(box, "tcp('203.0.113.99')")))


def intercepted(w, tls, tap):
    box = w.create(rules=[("allow", "secure.test")], credentialProxy={"enabled": True})
    setup = MORE + CAUGHT
    same(w.inside(box, "lookup('secure.test')", 5), ["203.0.113.60"])  # else the address is closed
    lawful = "[served(lambda: f('secure.test')) for f in (lambda h: tls(h, request(h)), " \
        "lambda h: plain(request(h)))]"
    tap.check("what the policy allows", lambda: same(
        [one[:3] for one in w.inside(box, after(setup, lawful), 5)], ["yes", "yes"]))
    tls.take()
    try_all(w, tap, box, setup, CAUGHT_PROBES, 5, "POOL.map")
    tap.check("no server got a request for another name", lambda: same(
        {r["host"] for r in tls.take()} - {"secure.test"}, set()))


def main():
    programs = sys.argv[1:]
    skip_all(egress_world.why_not())
    egress_world.enter()
    tap = Tap()
    with tempfile.TemporaryDirectory(prefix="osb-bypass-") as name, \
            TlsWorld(pathlib.Path(name)) as tls, \
            World(programs, {"egress": {"ca_file": str(tls.ca)}}) as w:
        tls.start(w.internet)
        box = w.create(rules=ALLOWED + [("deny", "denied.test")])
        control, neighbour = relay(w)
        same(w.inside(box, "web('api.allowed.test')"), "203.0.113.11")
        setup = MORE + f"NEIGHBOUR = {neighbour!r}\n"
        try_all(w, tap, box, setup, PROBES)
        hangs(w, tap, box)
        tap.check("nothing arrived at what is denied", lambda: same(
            [w.internet.arrivals(a) for a in DENIED], [0, 0]))
        tap.check("the resolver was asked for allowed names only", lambda: same(
            {n for n in w.internet.queries() if not n.endswith(".allowed.test")}, set()))
        many_names(w, tap, box)
        intercepted(w, tls, tap)
        got = w.inside(control, after(setup, "[" + ", ".join(PROBES[name] for name in (
            "TCP to the address, port 80", "UDP, port 443", "the address as 3405803875",
            "fragments")) + "]"), 5)
        tap.check("the control gets through", lambda: same(
            [one.startswith("yes") for one in got], [True] * 4))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
