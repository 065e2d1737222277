"""egress_probes.py - ways around a network policy, as Python code that runs inside: shared by
test_egress_bypass.py and tests/drill/egress-control, which tries them in plain Docker, too."""

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
NAMESERVER = "192.0.2.53"  # not there: whatever answers has caught the question on its way
def raw(query, server=None, over="udp", parts=1):
    server = server or NAMESERVER
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
def flips():
    # Whether a name whose first answer was public leads to a private address a moment later.
    raw(question("flip.allowed.test"))
    for _ in range(4):
        with socket.socket(I4, D) as s:
            s.settimeout(3)
            s.connect((NAMESERVER, 53))
            s.send(question("flip.allowed.test"))
            if socket.inet_aton("10.9.9.9") in s.recv(512):
                return "10.9.9.9"
    raise OSError(errno.EACCES, "refused")
def bound():
    # A denied name, with the ports of the proxies taken in here before.
    held = []
    for kind in (D, S):
        for port in (53, 15353, 18080, 18081):
            held.append(socket.socket(I4, kind))
            held[-1].bind(("0.0.0.0", port))
    return raw(question("other.test"))
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
    "rebinding after a public answer with TTL 0": "tried(flips)",
    "the ports of the proxies, bound first": "tried(bound)",
    "a neighbour as a relay": "tried(lambda: exchange(I4, S, 0, (NEIGHBOUR, 8099), GET))",
    "a DNS message of 60,000 bytes":
    "tried(lambda: raw(question('other.test', tail=bytes(60000)), over='tcp'))",
    "a DNS datagram of 9,000 bytes": "tried(lambda: raw(question('other.test', tail=bytes(9000))))",
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

# The same for a sandbox with interception whose policy allows secure.test alone. Code returns "yes
# ..." when a server answered something that it should not have been asked.
CAUGHT = """
import concurrent.futures, ssl
POOL = concurrent.futures.ThreadPoolExecutor(16)
HERE, THERE, CONTEXT = "203.0.113.60", "203.0.113.61", ssl._create_unverified_context()
def everything(s):
    data = b""
    try:
        while part := s.recv(65536):
            data += part
    except OSError as e:
        data += b"" if data else type(e).__name__.encode()
    return data
def plain(data, port=80, address=HERE):
    with socket.create_connection((address, port)) as s:
        s.settimeout(1)
        s.sendall(data)
        return everything(s)
def tls(name, data, address=HERE, alpn=None):
    context = ssl._create_unverified_context()
    if alpn:
        context.set_alpn_protocols(alpn)
    with socket.create_connection((address, 443)) as s:
        s.settimeout(5)
        with context.wrap_socket(s, server_hostname=name) as t:
            t.settimeout(1)
            t.sendall(data)
            return everything(t)
def hello(name, extra=b"", split=0):
    # The first flight of a client, with more extensions, or cut into two records.
    out = ssl.MemoryBIO()
    client = CONTEXT.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    body = bytearray(out.read()[5:])
    at = 38 + 1 + body[38]
    at += 2 + int.from_bytes(body[at:at + 2], "big")
    at += 1 + body[at]
    body[at:at + 2] = (int.from_bytes(body[at:at + 2], "big") + len(extra)).to_bytes(2, "big")
    body += extra
    body[1:4] = (len(body) - 4).to_bytes(3, "big")
    parts = [bytes(body[:split]), bytes(body[split:])] if split else [bytes(body)]
    return b"".join(b"\\x16\\x03\\x01" + len(p).to_bytes(2, "big") + p for p in parts)
def served(function, count=1):
    try:
        data = function()
    except OSError as e:
        return "no " + type(e).__name__
    hits = data.count(b"HTTP/1.1 200") + data.count(b"HTTP/1.0 200")
    hits += data.count(b"Host: elsewhere.test")  # of a server that is an echo
    return ("yes " if hits >= count else "no ") + repr(data[:32])
def shaken(data, address=HERE):
    # A handshake that a server goes on with: its first record is a ServerHello.
    try:
        got = plain(data, 443, address)
    except OSError as e:
        return "no " + type(e).__name__
    return ("yes " if got[:1] == b"\\x16" else "no ") + repr(got[:12])
def request(host, line="GET / HTTP/1.1", *more, body=b""):
    rows = [line, *(["Host: " + host] if host else []), *more]
    return ("\\r\\n".join(rows) + "\\r\\n\\r\\n").encode() + body
ECH = b"\\xfe\\x0d\\x00\\x20" + b"secure.test".ljust(32, b"\\0")
"""
CAUGHT_PROBES = {
    "SNI of a denied name":
    "served(lambda: tls('elsewhere.test', request('elsewhere.test'), THERE))",
    "SNI of a denied name at an allowed address":
    "served(lambda: tls('elsewhere.test', request('elsewhere.test')))",
    "SNI of an allowed name at a denied address":
    "served(lambda: tls('secure.test', request('secure.test'), THERE))",
    "domain fronting: another Host than SNI":
    "served(lambda: tls('secure.test', request('elsewhere.test')))",
    "another Host with a port": "served(lambda: tls('secure.test', request('elsewhere.test:443')))",
    "two Hosts": "served(lambda: tls('secure.test', request('secure.test', 'GET / HTTP/1.1', "
    "'Host: elsewhere.test')))",
    "no Host": "served(lambda: tls('secure.test', request('', 'GET / HTTP/1.1')))",
    "an absolute target": "served(lambda: tls('secure.test', request('secure.test', "
    "'GET https://elsewhere.test/ HTTP/1.1')))",
    "a Host with a space before the colon": "served(lambda: tls('secure.test', request('', "
    "'GET / HTTP/1.1', 'Host : elsewhere.test')))",
    "a folded Host": "served(lambda: tls('secure.test', request('', 'GET / HTTP/1.1', "
    "'Host: secure.test', ' elsewhere.test')))",
    "no SNI": "served(lambda: tls(None, request('elsewhere.test'), THERE))",
    "no SNI, an unknown extension with an allowed name": "shaken(hello(None, ECH), THERE)",
    "SNI of a denied name, an unknown extension with an allowed one":
    "shaken(hello('elsewhere.test', ECH), THERE)",
    "a second server_name": "shaken(hello('secure.test', "
    "b'\\0\\0\\0\\x13\\0\\x11\\0\\0\\x0eelsewhere.test'), THERE)",
    "SNI of a denied name in two records": "shaken(hello('elsewhere.test', split=60), THERE)",
    "SNI that is an address": "served(lambda: tls('203.0.113.61', request('203.0.113.61'), THERE))",
    "ALPN h2": "served(lambda: tls('secure.test', b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n', "
    "alpn=['h2']))",
    "ssh at port 443": "served(lambda: plain(b'SSH-2.0-x\\r\\n', 443))",
    "plain HTTP at port 443": "served(lambda: plain(request('elsewhere.test'), 443, THERE))",
    "a request behind an allowed one": "served(lambda: tls('secure.test', request('secure.test') "
    "+ request('elsewhere.test')), 2)",
    "a request behind an allowed one, plain": "served(lambda: plain(request('secure.test') "
    "+ request('elsewhere.test')), 2)",
    "plain HTTP, a denied Host": "served(lambda: plain(request('elsewhere.test')))",
    "plain HTTP, a denied address": "served(lambda: plain(request('secure.test'), 80, THERE))",
    "plain HTTP, an absolute target": "served(lambda: plain(request('secure.test', "
    "'GET http://elsewhere.test/ HTTP/1.1')))",
    "CONNECT": "served(lambda: plain(request('elsewhere.test:443', "
    "'CONNECT elsewhere.test:443 HTTP/1.1')))",
    "CONNECT over TLS": "served(lambda: tls('secure.test', request('elsewhere.test:443', "
    "'CONNECT elsewhere.test:443 HTTP/1.1')))",
    "Upgrade to h2c": "'yes' if b' 101 ' in plain(request('secure.test', 'GET / HTTP/1.1', "
    "'Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABk')) else 'no'",
    "bytes behind an Upgrade that was not taken": "served(lambda: plain(request('secure.test', "
    "'GET / HTTP/1.1', 'Connection: Upgrade', 'Upgrade: x') + request('elsewhere.test')), 2)",
    "the HTTP/2 preface": "served(lambda: plain(b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n'))",
    "HTTP/0.9": "served(lambda: plain(b'GET /\\r\\n'))",
    "Content-Length and chunked": "served(lambda: plain(request('secure.test', 'POST / HTTP/1.1', "
    "'Content-Length: 4', 'Transfer-Encoding: chunked', body=b'0\\r\\n\\r\\n' + "
    "request('elsewhere.test'))))",
    "two Content-Lengths": "served(lambda: plain(request('secure.test', 'POST / HTTP/1.1', "
    "'Content-Length: 0', 'Content-Length: 44', body=request('elsewhere.test'))))",
    "chunked, but not last": "served(lambda: plain(request('secure.test', 'POST / HTTP/1.1', "
    "'Transfer-Encoding: chunked, identity', body=b'0\\r\\n\\r\\n' + request('elsewhere.test'))))",
    "a chunk size with a prefix": "served(lambda: plain(request('secure.test', 'POST / HTTP/1.1', "
    "'Transfer-Encoding: chunked', body=b'0x0\\r\\n\\r\\n' + request('elsewhere.test'))))",
    "lines that end in LF alone":
    "served(lambda: plain(b'GET / HTTP/1.1\\nHost: secure.test\\n\\n' "
    "+ request('elsewhere.test')), 2)",
    "a NUL in the Host": "served(lambda: plain(request('secure.test\\0.elsewhere.test')))",
}
