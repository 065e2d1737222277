#!/usr/bin/env python3
"""test_egress_bypass.py SERVER BROKER EXECD SANDBOXCTL EGRESS - ways around a policy, tried from
inside. The policy allows *.allowed.test and nothing else; 203.0.113.99 and its IPv6 neighbour are
denied. Each probe says how it failed; in the end nothing has arrived there. A second sandbox
without a policy is the control: it gets through where a probe is meant to show a way."""
import sys

import egress_world
from test_egress import ALLOWED, World, no, same

from tap import Tap, skip_all  # test_egress has set the path

MORE = """
import ctypes, errno
GOAL, GOAL6 = "203.0.113.99", "2001:db8:3::99"
GATE = next(socket.inet_ntoa(bytes.fromhex(line.split()[2])[::-1])
            for line in open("/proc/net/route") if line.split()[1:2] == ["00000000"])
def tried(function):
    try:
        return "yes %r" % (function(),)
    except OSError as e:
        return "no " + (errno.errorcode.get(e.errno, "") or type(e).__name__)
def exchange(family, kind, proto, to, data=b"x", options=(), source=None):
    with socket.socket(family, kind, proto) as s:
        for level, name, value in options:
            s.setsockopt(level, name, value)
        if source:
            s.bind(source)
        s.connect(to)
        s.send(data)
        return s.recv(64)
def raw(query, server="192.0.2.53", over="udp", parts=1):
    with socket.socket(I4, D if over == "udp" else S) as s:
        s.settimeout(3)
        s.connect((server, 53))
        if over == "udp":
            s.send(query)
        else:
            whole = struct.pack("!H", len(query)) + query
            step = -(-len(whole) // parts)
            for at in range(0, len(whole), step):
                s.sendall(whole[at:at + step])
        r = s.recv(512) if over == "udp" else s.recv(514)[2:]
        if r[3] & 15 or not struct.unpack("!H", r[6:8])[0]:
            raise OSError(errno.EACCES, "refused")
        return r[3] & 15
def question(name, kind=1, klass=1, flags=0x0100, count=1, tail=b""):
    labels = name if isinstance(name, list) else [l.encode() for l in name.split(".")]
    return struct.pack("!HHHHHH", 9, flags, count, 0, 0, 0) + b"".join(
        bytes([len(l)]) + l for l in labels) + b"\\0" + struct.pack("!HH", kind, klass) + tail
I4, I6, D, S = socket.AF_INET, socket.AF_INET6, socket.SOCK_DGRAM, socket.SOCK_STREAM
T4, T6 = lambda p: (GOAL, p), lambda p: (GOAL6, p)
GET = b"GET / HTTP/1.0\\r\\n\\r\\n"
"""

# name: code that returns "yes ..." when it got through
PROBES = {
    **{f"TCP to the address, port {p}": f"tried(lambda: exchange(I4, S, 0, T4({p}), GET))"
       for p in (80, 443, 853, 8443)},
    **{f"TCP over IPv6, port {p}": f"tried(lambda: exchange(I6, S, 0, T6({p}), GET))"
       for p in (80, 443, 853, 8443)},
    **{f"UDP, port {p}": f"tried(lambda: exchange(I4, D, 0, T4({p})))" for p in (443, 853, 5353)},
    **{f"UDP over IPv6, port {p}": f"tried(lambda: exchange(I6, D, 0, T6({p})))"
       for p in (443, 853, 5353)},
    **{f"the address as {text}": f"tried(lambda: exchange(I4, S, 0, ({text!r}, 80), GET))"
       for text in ("3405803875", "0xcb007163", "0313.0.0161.0143", "203.0.29027",
                    "203.0.113.099")},
    **{f"the address in the IPv6 form {text}":
       f"tried(lambda: exchange(I6, S, 0, ({text!r}, 80), GET))"
       for text in ("::ffff:203.0.113.99", "::203.0.113.99", "64:ff9b::cb00:7163",
                    "2002:cb00:7163::1")},
    "its name": "tried(lambda: exchange(I4, S, 0, ('other.test', 80), GET))",
    "its name with a final dot": "tried(lambda: exchange(I4, S, 0, ('other.test.', 80), GET))",
    "a name below an allowed suffix in text only":
    "tried(lambda: raw(question('notallowed.test')))",
    "an allowed name as a prefix": "tried(lambda: raw(question('www.allowed.test.other.test')))",
    "a label with a dot in it":
    "tried(lambda: raw(question([b'x', b'www.allowed', b'other', b'test'])))",
    "a label with a NUL in it": "tried(lambda: raw(question([b'other\\0', b'allowed', b'tes'])))",
    "DNS of another server": "tried(lambda: raw(question('other.test'), '203.0.113.99'))",
    "DNS of the resolver itself": "tried(lambda: raw(question('other.test'), '198.51.100.2'))",
    "DNS over TCP": "tried(lambda: raw(question('other.test'), over='tcp'))",
    "DNS over TCP in pieces": "tried(lambda: raw(question('other.test'), over='tcp', parts=5))",
    "DNS of another class": "tried(lambda: raw(question('other.test', klass=3)))",
    "DNS of any type": "tried(lambda: raw(question('www.allowed.test', kind=255)))",
    "DNS NOTIFY": "tried(lambda: raw(question('other.test', flags=0x2000)))",
    "DNS UPDATE": "tried(lambda: raw(question('other.test', flags=0x2800)))",
    "two questions, the first allowed": "tried(lambda: raw(question('www.allowed.test', count=2, "
    "tail=question('other.test')[12:])))",
    "a zone transfer": "tried(lambda: raw(question('allowed.test', kind=252), over='tcp'))",
    "a name of the address": "tried(lambda: raw(question('99.113.0.203.in-addr.arpa', kind=12)))",
    "an alias to a denied name": "tried(lambda: raw(question('alias.allowed.test')))",
    "rebinding to metadata": "tried(lambda: raw(question('metadata.allowed.test')))",
    "rebinding to loopback": "tried(lambda: raw(question('loop.allowed.test')))",
    "rebinding to a private address": "tried(lambda: raw(question('private.allowed.test')))",
    "rebinding to a mapped address": "tried(lambda: raw(question('mapped.allowed.test', kind=28)))",
    "long labels": "'yes' if sum(tried(lambda: raw(question('%058d.allowed.test' % i))) != "
    "'no EACCES' for i in range(5)) else 'no: not found, all of them'",
    "DNS at port 5353": "tried(lambda: exchange(I4, D, 0, T4(5353), question('other.test')))",
    "DoT at a learned address": "tried(lambda: exchange(I4, S, 0, ('203.0.113.11', 853), GET))",
    "QUIC-like UDP 853 at a learned address":
    "tried(lambda: exchange(I4, D, 0, ('203.0.113.11', 853)))",
    "ping": "tried(lambda: exchange(I4, D, 1, (GOAL, 0), bytes([8, 0, 0, 0, 0, 1, 0, 1])))",
    "ping of a learned address":
    "tried(lambda: exchange(I4, D, 1, ('203.0.113.11', 0), bytes([8, 0, 0, 0, 0, 1, 0, 1])))",
    "ping over IPv6":
    "tried(lambda: exchange(I6, D, 58, (GOAL6, 0), bytes([128, 0, 0, 0, 0, 1, 0, 1])))",
    "a raw socket": "tried(lambda: exchange(I4, socket.SOCK_RAW, 255, (GOAL, 0)))",
    "a raw socket of ICMP": "tried(lambda: exchange(I4, socket.SOCK_RAW, 1, (GOAL, 0)))",
    "a packet socket": "tried(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))",
    "SCTP": "tried(lambda: exchange(I4, S, 132, T4(80)))",
    "UDP-Lite": "tried(lambda: exchange(I4, D, 136, T4(443)))",
    "DCCP": "tried(lambda: exchange(I4, 6, 33, T4(443)))",
    "MPTCP": "tried(lambda: exchange(I4, S, 262, T4(80), GET))",
    "a firewall mark": "tried(lambda: exchange(I4, D, 0, T4(443), options=[(1, 36, 1)]))",
    "a bound device": "tried(lambda: exchange(I4, D, 0, T4(443), options=[(1, 25, b'eth0')]))",
    "transparent binding to a foreign address":
    "tried(lambda: exchange(I4, D, 0, T4(443), options=[(0, 19, 1)], source=('203.0.113.10', 0)))",
    "free binding to a foreign address":
    "tried(lambda: exchange(I4, D, 0, T4(443), options=[(0, 15, 1)], source=('10.231.0.200', 0)))",
    "IP options, a source route": "tried(lambda: exchange(I4, D, 0, T4(443), "
    "options=[(0, 4, bytes([131, 7, 4, 203, 0, 113, 11, 0]))]))",
    "a low TTL and type of service":
    "tried(lambda: exchange(I4, D, 0, T4(443), options=[(0, 2, 64), (0, 1, 0xb8)]))",
    "fragments": "tried(lambda: exchange(I4, D, 0, T4(443), b'x' * 9000))",
    "TCP fast open": "tried(lambda: (lambda s: (s.sendto(GET, 0x20000000, T4(80)), s.recv(9)))"
    "(socket.socket(I4, S)))",
    "the proxy's port on the bridge, UDP":
    "tried(lambda: exchange(I4, D, 0, (GATE, 15353), question('www.allowed.test')))",
    "the proxy's port on the bridge, TCP": "tried(lambda: exchange(I4, S, 0, (GATE, 15353)))",
    "the interceptor's port": "tried(lambda: exchange(I4, S, 0, (GATE, 18081)))",
    "the host's address": "tried(lambda: exchange(I4, S, 0, ('198.51.100.1', 80)))",
    "metadata": "tried(lambda: exchange(I4, S, 0, ('169.254.169.254', 80), GET))",
    "broadcast": "tried(lambda: exchange(I4, D, 0, ('255.255.255.255', 443), options=[(1, 6, 1)]))",
    "multicast": "tried(lambda: exchange(I4, D, 0, ('224.0.0.251', 5353)))",
    "its own policy by port 18080": "tried(lambda: exchange(I4, S, 0, ('127.0.0.1', 18080), GET))",
    "a new network namespace": "'yes' if ctypes.CDLL(None).unshare(0x40000000) == 0 else 'no'",
    "a new user and network namespace":
    "'yes' if ctypes.CDLL(None).unshare(0x50000000) == 0 else 'no'",
    "another route": "'no' if os.system('ip route add 203.0.113.99 dev lo 2>/dev/null') else 'yes'",
    "another address":
    "'no' if os.system('ip addr add 203.0.113.10 dev eth0 2>/dev/null') else 'yes'",
    "other rules": "'no' if os.system('nft flush ruleset 2>/dev/null') else 'yes'",
    "a sysctl": "tried(lambda: open('/proc/sys/net/ipv4/ip_forward', 'w').write('1'))",
    "another user": "(lambda pid: 'yes' if os.waitpid(pid, 0)[1] == 0 else 'no')(os.fork() or "
    "(os.setuid(10042), "
    "os._exit(0 if tried(lambda: exchange(I4, D, 0, T4(443)))[0] == 'y' else 1)))",
}


def main():
    programs = sys.argv[1:]
    skip_all(egress_world.why_not())
    egress_world.enter()
    tap = Tap()
    with World(programs) as w:
        box, control = w.create(rules=ALLOWED + [("deny", "denied.test")]), \
            w.server.create()
        same(w.inside(box, "web('api.allowed.test')"), "203.0.113.11")
        names = list(PROBES)
        for at in range(0, len(names), 12):
            part = names[at:at + 12]
            code = "(exec(" + repr(MORE) + ", globals()), [" + \
                ", ".join(PROBES[name] for name in part) + "])[1]"
            got = w.inside(box, code)
            for name, result in zip(part, got):
                tap.check(f"{name}: {result}", lambda result=result: no(result))
        tap.check("nothing arrived at what is denied", lambda: same(
            [w.internet.arrivals(a) for a in ("203.0.113.99", "2001:db8:3::99")], [0, 0]))
        tap.check("the resolver was asked for allowed names only", lambda: same(
            {n for n in w.internet.queries() if not n.endswith(".allowed.test")}, set()))
        got = w.inside(control, "(exec(" + repr(MORE) + ", globals()), [" + ", ".join(
            PROBES[name] for name in ("TCP to the address, port 80", "UDP, port 443",
                                      "the address as 3405803875", "fragments")) + "])[1]", 5)
        tap.check("the control gets through", lambda: same(
            [one.startswith("yes") for one in got], [True] * 4))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
