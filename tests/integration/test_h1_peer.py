"""Our HTTP/1.1 parser against h11, a second one: what both accept they must read alike.

Usage: test_h1_peer.py H1_PARSE-PROGRAM. TAP on standard output. We may refuse more than h11 does;
where we accept what it refuses, a rule below must say why.
"""
import collections
import json
import random
import struct
import subprocess
import sys

import h11

GENERATED = 2000

CHUNKED = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"

HAND_PICKED = [
    b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    b"GET http://o:1/p?q HTTP/1.1\r\nHost: h\r\n\r\nGET /next",
    b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
    b"CONNECT o:443 HTTP/1.1\r\nHost: o:443\r\n\r\nnot HTTP",
    b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhell",
    b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 007\r\n\r\n1234567",
    CHUNKED.replace(b"ch", b"Ch") + b"\r\n3;x\r\nabc\r\n0\r\nA: b\r\n\r\nX",
    CHUNKED + b"\r\n1 ;x\r\na\r\n0\r\n\r\n",
    CHUNKED + b"\r\n0\r\nContent-Length: x\r\n\r\n",
    CHUNKED + b"Content-Length: 3\r\n\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3, 3\r\n\r\nabc",
    b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +3\r\n\r\nabc",
    b"GET / HTTP/1.1\nHost: h\n\n",
    b"GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
    b"\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
    b"GET /\xc3\xa9 HTTP/1.1\r\nHost: h\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: h\r\nX: \xc3\xa9\tb\r\nY:\r\nZ: \r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]


def is_after_empty_lines(message):
    """RFC 9112 2.2: a server should skip an empty line before the request line. h11 does not."""
    return message.startswith(b"\r\n")


def has_blank_before_extension(message):
    """RFC 9112 7.1.1 allows blanks around the ';' of a chunk extension. h11 does not."""
    return any(b" ;" in line or b"\t;" in line for line in message.split(b"\r\n"))


def has_framing_field_in_trailer(message):
    """h11 judges Content-Length and Transfer-Encoding in trailers. We drop trailers unread."""
    trailer = message.lower().rpartition(b"\r\n0")[2]
    return b"content-length" in trailer or b"transfer-encoding" in trailer


EXCEPTIONS = [is_after_empty_lines, has_blank_before_extension, has_framing_field_in_trailer]


def ours(program, messages):
    stdin = b"".join(struct.pack(">I", len(m)) + m for m in messages)
    out = subprocess.run([program], input=stdin, stdout=subprocess.PIPE, check=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def theirs(message):
    """The same object as h1_parse prints, from h11."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(message)
    body = b""
    try:
        request = connection.next_event()
        if request is h11.NEED_DATA:
            return {"error": "AGAIN"}
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                return {"error": "AGAIN"}
            if isinstance(event, h11.EndOfMessage):
                break
            body += event.data
    except h11.RemoteProtocolError as refusal:
        return {"error": str(refusal)}
    return {
        "method": request.method.hex(),
        "target": request.target.hex(),
        "minor": int(request.http_version[2:]),
        "headers": [[name.hex(), value.hex()] for name, value in request.headers.raw_items()],
        "body": body.hex(),
        "used": len(message) - len(connection.trailing_data[0]),
    }


def normalised(request):
    """h11 gives the value of Transfer-Encoding in small letters."""
    headers = []
    for name, value in request["headers"]:
        if bytes.fromhex(name).lower() == b"transfer-encoding":
            value = bytes.fromhex(value).lower().hex()
        headers.append([name, value])
    return {**request, "headers": headers}


def judge(message, our, their):
    """'same', 'stricter', 'refused' or 'excepted'; anything else is a failure in words."""
    if "error" not in our and "error" not in their:
        return "same" if normalised(our) == their else f"read differently: {our} {their}"
    if "error" not in our:
        if any(rule(message) for rule in EXCEPTIONS):
            return "excepted"
        return f"accepted by us, refused by h11: {their['error']}"
    if "error" not in their:
        return "stricter" if our["error"] != "AGAIN" else "complete for h11, incomplete for us"
    return "refused"


def random_chunks(rng):
    out = b""
    for _ in range(rng.randrange(4)):
        data = bytes(rng.choices(b"abc\r\n0;:", k=rng.randrange(1, 20)))
        size = rng.choice([b"%x", b"%X", b"0%x"]) % len(data)
        out += size + rng.choice([b"", b"", b";a", b";a=\"b\"", b" ;a"]) + b"\r\n" + data + b"\r\n"
    return out + b"0\r\n" + rng.choice([b"", b"", b"T: u\r\n", b"T:\r\nU: \tv\r\n"]) + b"\r\n"


def random_request(rng):
    method = rng.choice([b"GET", b"GET", b"POST", b"PUT", b"DELETE", b"PURGE", b"OPTIONS"])
    target = rng.choice([b"/", b"/a/b?c=d", b"/%20;x=1?", b"http://o/p", b"https://[::1]:1?q"])
    headers = [b"Host: " + rng.choice([b"h", b"localhost:8080", b"[::1]:80", b"a-b.c"])]
    headers += rng.sample([
        b"Accept: */*", b"User-Agent:  x y\tz ", b"X-Empty:", b"Cookie: a=b; c=d",
        b"A!#$%&'*+-.^_`|~: 1", b"Connection: keep-alive", b"Connection: close",
        b"Expect: 100-continue", b"Via: 1, \xff2",
    ], rng.randrange(5))
    body = b""
    kind = rng.randrange(3)
    if kind == 1:
        body = bytes(rng.choices(b"abc\r\n", k=rng.randrange(12)))
        headers.append(b"Content-Length: %d" % len(body))
    elif kind == 2:
        body = random_chunks(rng)
        headers.append(rng.choice([b"Transfer-Encoding: chunked", b"transfer-encoding:CHUNKED\t"]))
    rng.shuffle(headers)
    head = b"\r\n".join([method + b" " + target + b" HTTP/1.1"] + headers) + b"\r\n\r\n"
    return head + body + rng.choice([b"", b"", b"GET /next HTTP/1.1\r\n"])


HOT = [b"\r", b"\n", b"\r\n", b"\0", b" ", b"\t", b"\x0b", b"\x0c", b":", b",", b";", b"#", b"\x7f",
       b"\x80", b"0", b"f", b"-", b"+", b"chunked", b"Content-Length: 3\r\n",
       b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: identity\r\n", b"Host: i\r\n",
       b" x\r\n", b"HTTP/1.0"]


def mutated(rng, message):
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        at = rng.randrange(len(message) + 1)
        if rng.random() < 0.4:  # line beginnings and ends are where parsers differ
            at = rng.choice([i for i, c in enumerate(message) if c in b"\r\n: "] or [0])
        cut = rng.choice([0, 0, 1, 1, 2, 8])
        message = message[:at] + rng.choice(HOT + [b""] * 8) + message[at + cut:]
    return message


def check(number, title, program, messages, same_min):
    """Prints one TAP line; True when it is 'ok'."""
    counts = collections.Counter()
    for message, our in zip(messages, ours(program, messages), strict=True):
        verdict = judge(message, our, theirs(message))
        if verdict not in ("same", "stricter", "refused", "excepted"):
            print(f"# {message!r}\n#   {verdict}")
            verdict = "wrong"
        counts[verdict] += 1
    ok = not counts["wrong"] and counts["same"] >= same_min
    print(f"{'ok' if ok else 'not ok'} {number} - {title}: " +
          ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    return ok


def main():
    rng = random.Random(9112)
    program = sys.argv[1]
    generated = [random_request(rng) for _ in range(GENERATED)]
    print("1..3")
    ok = check(1, "hand-picked requests", program, HAND_PICKED, 8)
    ok &= check(2, "generated requests", program, generated, GENERATED // 2)
    mutants = [mutated(rng, message) for message in generated]
    ok &= check(3, "mutated requests", program, mutants, GENERATED // 4)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
