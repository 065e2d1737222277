#!/usr/bin/env python3
"""test_gateway.py GATEWAYD - which credentials open a sandbox, and what the gateway forwards. The
sandbox is a script on a unix socket that keeps the exact bytes of each request. TAP on standard
output.
"""
import base64
import contextlib
import json
import re
import socket
import sys
import tempfile

from gateway_process import (ID, KEY, TOKEN, WITH_KEY, WITH_TOKEN, Gateway, ask_for, gateway_to,
                             path_to)
from http_backend import OK, answer
from http_messages import REFUSED, SMUGGLED
from httplib import Tap, request, wait_for

UNKNOWN = "00000000-0000-4000-8000-000000000000"
METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "PROPFIND", "get",
           "M-SEARCH"]
HANDSHAKE = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
             "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
OFFERS = f"opensandbox.v1, opensandbox.token.{TOKEN}"
AS_SENT = "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: test"
PREFIX = f"X-Forwarded-Prefix: {path_to(8000)}"


def fails_with(response, status, code):
    body = json.loads(response.body)
    assert (response.status, body["code"]) == (status, code), (response.status, body)
    assert set(body) == {"code", "message"} and body["message"], body
    assert response.get("X-Request-ID"), response.rows
    return body["message"]


# --- credentials ---


def header_lets_in(header, status, code):
    with gateway_to(answer(OK)) as (backend, gateway):
        r = gateway.ask(request("GET", path_to(8000, "/x"), *header))
        if status == 200:
            assert (r.status, r.body) == (200, b"ok"), (r.status, r.body)
            assert len(backend.requests) == 1
        else:
            fails_with(r, status, code)
            assert backend.begun == 0, "a stranger was let in"


CREDENTIALS = [  # sentence, headers, status, code
    ("the API key", [WITH_KEY], 200, None),
    ("the API key under another spelling of its header", [WITH_KEY.lower().replace(
        KEY.lower(), KEY)], 200, None),
    ("the token", [WITH_TOKEN], 200, None),
    ("the token as execd's", [f"X-EXECD-ACCESS-TOKEN: {TOKEN}"], 200, None),
    ("the API key as execd's token", [f"X-EXECD-ACCESS-TOKEN: {KEY}"], 200, None),
    ("the token as a subprotocol", [f"Sec-WebSocket-Protocol: {OFFERS}"], 200, None),
    ("a wrong token as a subprotocol",
     ["Sec-WebSocket-Protocol: opensandbox.v1,opensandbox.token.wrong"], 401, "INVALID_API_KEY"),
    ("an API key as a subprotocol",
     [f"Sec-WebSocket-Protocol: opensandbox.token.{KEY}"], 401, "INVALID_API_KEY"),
    ("a right key beside a wrong token as a subprotocol",
     [WITH_KEY, "Sec-WebSocket-Protocol: opensandbox.token.wrong"], 401, "INVALID_API_KEY"),
    ("a subprotocol that is no token", ["Sec-WebSocket-Protocol: chat"], 401, "MISSING_API_KEY"),
    ("a signed route", [f"OpenSandbox-Ingress-To: signed-{ID}-8000"], 200, None),
    ("a right token beside a wrong key", ["OPEN-SANDBOX-API-KEY: wrong", WITH_TOKEN], 200, None),
    ("a right token beside execd's own", ["X-EXECD-ACCESS-TOKEN: tok", WITH_TOKEN], 200, None),
    ("a right key beside a wrong token",
     ["OpenSandbox-Secure-Access: wrong", WITH_KEY], 401, "INVALID_API_KEY"),
    ("a right key before a wrong token",
     [WITH_KEY, "OpenSandbox-Secure-Access: wrong"], 401, "INVALID_API_KEY"),
    ("a right key beside an empty token",
     [WITH_KEY, "OpenSandbox-Secure-Access:"], 401, "MISSING_API_KEY"),
    ("a right token beside a wrong one",
     [WITH_TOKEN, "OpenSandbox-Secure-Access: wrong"], 401, "INVALID_API_KEY"),
    ("a signed route beside a wrong token",
     [f"OpenSandbox-Ingress-To: signed-{ID}-8000", "OpenSandbox-Secure-Access: wrong"], 401,
     "INVALID_API_KEY"),
    ("execd's own token alone", ["X-EXECD-ACCESS-TOKEN: tok"], 401, "INVALID_API_KEY"),
    ("no credential", [], 401, "MISSING_API_KEY"),
    ("an empty key", ["OPEN-SANDBOX-API-KEY:"], 401, "MISSING_API_KEY"),
    ("an empty token", ["OpenSandbox-Secure-Access:"], 401, "MISSING_API_KEY"),
    ("a wrong key", ["OPEN-SANDBOX-API-KEY: wrong"], 401, "INVALID_API_KEY"),
    ("a wrong token", ["OpenSandbox-Secure-Access: wrong"], 401, "INVALID_API_KEY"),
    ("the beginning of the token", [WITH_TOKEN[:-1]], 401, "INVALID_API_KEY"),
    ("more than the token", [WITH_TOKEN + "6"], 401, "INVALID_API_KEY"),
    ("the token in another case", [WITH_TOKEN.lower()], 401, "INVALID_API_KEY"),
    ("the token in the header of the key", [f"OPEN-SANDBOX-API-KEY: {TOKEN}"], 401,
     "INVALID_API_KEY"),
    ("the key in the header of the token", [f"OpenSandbox-Secure-Access: {KEY}"], 401,
     "INVALID_API_KEY"),
    ("a route signed for another port", [f"OpenSandbox-Ingress-To: signed-{ID}-8001"], 401,
     "INVALID_API_KEY"),
    ("a route signed for another sandbox", [f"OpenSandbox-Ingress-To: signed-{UNKNOWN}-8000"], 401,
     "INVALID_API_KEY"),
    ("the key as a bearer", [f"Authorization: Bearer {KEY}"], 401, "MISSING_API_KEY"),
    ("the key as a cookie", [f"Cookie: OPEN-SANDBOX-API-KEY={KEY}"], 401, "MISSING_API_KEY"),
]


def switch(*rows):
    text = "".join(f"{row}\r\n" for row in rows)
    return ("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            f"{text}\r\n").encode()


def a_browser_opens_a_websocket_by_a_subprotocol():
    for offers, passed, accepted, wanted in (
            (OFFERS, None, [], "opensandbox.v1"),
            (f"chat, {OFFERS}, binary", "chat, binary", ["Sec-WebSocket-Protocol: binary"],
             "binary")):
        with gateway_to(answer(switch(*accepted))) as (backend, gateway):
            r = gateway.ask(request("GET", path_to(8000, "/ws"), *HANDSHAKE,
                                    f"Sec-WebSocket-Protocol: {offers}"))
            assert r.status == 101, (r.status, r.body)
            assert r.get("Sec-WebSocket-Protocol") == wanted, r.rows
            sent = backend.requests[0]
            found = re.findall(r"(?i)^sec-websocket-protocol: (.*?)\r$", sent, re.M)
            assert found == ([passed] if passed else []), sent
            assert TOKEN not in sent, sent


def a_ticket_opens_one_port_in_an_origin_of_its_own():
    reply = (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: a=b\r\nClear-Site-Data: *\r\n"
             b"Content-Security-Policy: default-src *\r\n\r\nok")
    with gateway_to(answer(reply)) as (backend, gateway):
        r = gateway.ask(request("GET", "/preview/ticket-8000/a/b?c=d", "Cookie: x=y"))
        assert (r.status, r.body) == (200, b"ok"), (r.status, r.body)
        policies = [v for n, v in r.rows if n.lower() == "content-security-policy"]
        assert len(policies) == 2 and policies[1].startswith("sandbox "), policies
        assert "allow-same-origin" not in policies[1], policies
        assert r.get("Referrer-Policy") == "no-referrer", r.rows
        assert not r.get("Set-Cookie") and not r.get("Clear-Site-Data"), r.rows
        sent = backend.requests[0]
        assert sent.startswith("GET /proxy/8000/a/b?c=d HTTP/1.1\r\n"), sent
        assert "x=y" not in sent, sent
    with gateway_to(answer(OK)) as (backend, gateway):
        fails_with(gateway.ask(request("GET", "/preview/another/", WITH_KEY)), 404, "NOT_FOUND")
        assert backend.begun == 0, "a stranger was let in"


def strangers_cannot_tell_which_sandboxes_exist():
    def seen(gateway, sandbox, *headers):
        r = gateway.ask(request("GET", path_to(8000, "/", sandbox), *headers))
        assert r.status == 401, r.status
        rows = [row for row in r.rows if row[0] not in ("X-Request-ID", "Date")]
        return rows, r.body

    with gateway_to(answer(OK), "--sandbox", "paused=unix:/nowhere", "--refusal", "no") as (
            backend, gateway):
        for headers in ([], [WITH_TOKEN[:-1]], ["OPEN-SANDBOX-API-KEY: x"],
                        ["OpenSandbox-Secure-Access: " + "0" * 32]):
            answers = [seen(gateway, sandbox, *headers) for sandbox in (ID, UNKNOWN, "paused")]
            assert answers[0] == answers[1] == answers[2], answers
        for port in ("x", "0", "70000", "18080", "44772"):  # nor what there is to find out
            fails_with(gateway.ask(request("GET", path_to(port))), 401, "MISSING_API_KEY")
        assert backend.begun == 0
        assert gateway.stats()["refused"] == 17, gateway.stats()


def a_token_opens_its_own_sandbox_only():
    with gateway_to(answer(OK), "--sandbox", "other=unix:/nowhere", "--token", "o" * 32,
                    "--sandbox", "tokenless=unix:/nowhere") as (_, gateway):
        for sandbox in ("other", "tokenless", UNKNOWN):
            r = gateway.ask(request("GET", path_to(80, "/", sandbox), WITH_TOKEN))
            fails_with(r, 401, "INVALID_API_KEY")


def an_open_gateway_requires_no_credential():
    with gateway_to(answer(OK), "--open", "1") as (backend, gateway):
        assert gateway.ask(request("GET", path_to(8000))).status == 200
        assert gateway.ask(request("GET", path_to(8000), "OpenSandbox-Secure-Access: x")
                           ).status == 200
        assert "Secure-Access" not in backend.requests[1]
        fails_with(gateway.ask(request("GET", path_to(8000, sandbox=UNKNOWN))), 404,
                   "DOCKER::SANDBOX_NOT_FOUND")
        fails_with(gateway.ask(request("GET", "/stats")), 401, "MISSING_API_KEY")  # as before


def a_secure_sandbox_is_never_open():
    """With secureAccess an open gateway requires a credential, too, whether the server has keys or
    not."""
    for key in (KEY, None):
        with gateway_to(answer(OK), "--secure", "1", "--open", "1", key=key) as (backend, gateway):
            paths = [path_to(port, "/x", prefix=prefix) for port in (8000, 44772)
                     for prefix in ("", "/v1")]
            for path in paths:
                for headers in ((), HANDSHAKE):
                    r = gateway.ask(request("GET", path, *headers))
                    fails_with(r, 401, "MISSING_API_KEY")
                    for wrong in ("OpenSandbox-Secure-Access: wrong", "X-EXECD-ACCESS-TOKEN: wrong",
                                  "OPEN-SANDBOX-API-KEY: wrong", "OpenSandbox-Ingress-To: wrong"):
                        r = gateway.ask(request("GET", path, wrong, *headers))
                        fails_with(r, 401, "INVALID_API_KEY")
            assert backend.begun == 0, "a stranger was let in"
            for right in (WITH_TOKEN, f"X-EXECD-ACCESS-TOKEN: {TOKEN}",
                          f"OpenSandbox-Ingress-To: signed-{ID}-8000"):
                r = gateway.ask(request("GET", paths[0], right))
                assert (r.status, r.body) == (200, b"ok"), (right, r.status, r.body)
                assert TOKEN not in str(backend.requests[-1]), "the token went inside"


def no_credential_reaches_the_sandbox():
    secrets = [WITH_KEY, WITH_TOKEN, f"X-EXECD-ACCESS-TOKEN: {KEY}",
               f"x-execd-access-token: {TOKEN}", f"OPENSANDBOX-INGRESS-TO: signed-{ID}-8000",
               f"OpenSandbox-Ingress-To: signed-{ID}-8000", WITH_KEY.upper(),
               "OPEN-SANDBOX-API-KEY: 2", f"Authorization: Bearer {KEY}",
               f"authorization: bearer   {TOKEN}", f"OPENSANDBOX-EGRESS-AUTH: {KEY}",
               f"X-Mine: {KEY}", f"X-Request-ID: {KEY}", f"X-Forwarded-For: {KEY}",
               f"X-Forwarded-Host: {KEY}", f"Cookie: {TOKEN}"]
    with gateway_to(answer(OK)) as (backend, gateway):
        for port in (8000, 44772):
            for method in ("GET", "POST"):
                assert gateway.ask(request(method, path_to(port), *secrets)).status == 200
            head = request("GET", path_to(port), *secrets, *HANDSHAKE)
            assert gateway.ask(head).status == 200
        assert len(backend.requests) == 6
        for asked in backend.requests:
            for secret in (KEY, TOKEN, KEY.upper(), "signed-", "execd-access", "api-key"):
                assert secret.lower() not in asked.lower(), asked


def basic(text, altchars=None):
    return base64.b64encode(text.encode(), altchars).decode()


def no_credential_reaches_the_sandbox_inside_of_a_value():
    odd = "~~?" + KEY  # its base64 differs in the two alphabets
    rows = [f"Cookie: k={KEY}", f"Cookie: a=b; k={TOKEN}; c=d", f"Authorization: Bearer\t{KEY}",
            f"Authorization: Bearer{KEY}", f"Authorization: Token token={TOKEN}",
            f'X-Mine: "{KEY}"', f"X-Mine: {KEY}, other", f"X-Mine: other,{KEY}", f"X-Mine: {KEY}s",
            f"X-EXECD-ACCESS-TOKEN: Bearer {KEY}", f"X-Forwarded-For: {KEY}, 10.0.0.1",
            f"Authorization: Basic {basic('u:' + KEY)}", f"X-Mine: basic\t{basic(TOKEN + ':')}",
            f"Authorization: BASIC   {basic('u:' + KEY).rstrip('=')}",
            f"Authorization: Basic {basic(odd)}", f"Authorization: Basic {basic(odd, b'-_')}",
            f"Authorization: Basic {basic('u:' + KEY)}, Bearer x"]
    with gateway_to(answer(OK)) as (backend, gateway):
        for row in rows:
            for port in (8000, 44772):
                assert gateway.ask(request("GET", path_to(port), WITH_KEY, "X-Left: 1", row)
                                   ).status == 200
                seen = backend.requests[-1].split("\r\n")
                more = [PREFIX] if port == 8000 else []
                assert seen[2:] == ["X-Left: 1", *AS_SENT.split("\r\n"), *more], (row, seen)
        head = (f"GET {path_to(8000)} HTTP/1.1\r\nHost: {KEY}.example\r\n{WITH_KEY}\r\n\r\n")
        assert gateway.ask(head.encode()).status == 200
        assert KEY not in backend.requests[-1], backend.requests[-1]


def a_short_key_is_taken_out_as_a_word_only():
    kept = ["Accept: a/b", "X-Mine: abc", "X-Mine: b-abc", "Cookie: b=ab_c", "X-Mine: abcabc",
            f"Authorization: Basic {basic('u:xabc')}"]
    gone = ["X-Mine: ab", "Cookie: k=ab", "Authorization: Bearer\tab", 'X-Mine: "ab"',
            "X-Mine: ab, other", f"Authorization: Basic {basic('u:ab')}"]
    with gateway_to(answer(OK), key="ab") as (backend, gateway):
        head = request("GET", path_to(8000), "OPEN-SANDBOX-API-KEY: ab", *gone, *kept)
        assert gateway.ask(head).status == 200
        seen = backend.requests[-1].split("\r\n")
        assert seen[2:] == kept + [*AS_SENT.split("\r\n"), PREFIX], seen


def what_only_looks_like_a_credential_passes():
    rows = ["X-EXECD-ACCESS-TOKEN: tok", "Authorization: Bearer tok", "Authorization: Basic eDp5",
            "Authorization: Basic", "Authorization: Basic %", f"Cookie: {KEY[1:]}",
            "Authorization: Bearer", f"X-Mine: {KEY[:-1]}",
            f"x-execd-access-token: {TOKEN.lower()}"]
    with gateway_to(answer(OK)) as (backend, gateway):
        for headers in ([WITH_TOKEN, *rows], [*rows, WITH_KEY],
                        [*rows, f"X-EXECD-ACCESS-TOKEN: {KEY}"]):
            port = 8000 if WITH_KEY in headers else 44772
            assert gateway.ask(request("GET", path_to(port), *headers)).status == 200
            seen = backend.requests[-1].split("\r\n")
            more = [PREFIX] if port == 8000 else []
            assert seen[2:] == rows + AS_SENT.split("\r\n") + more, seen


# --- where to ---


def refusals_name_their_reason():
    with gateway_to(answer(OK), "--sandbox", "paused=unix:/nowhere",
                    "--refusal", "the sandbox is paused") as (backend, gateway):
        for port in ("x", "0", "65536", "-1", "8000x", "+80", "80.5", "%38%30", "99999999999999"):
            r = gateway.ask(request("GET", path_to(port, "/a"), WITH_KEY))
            fails_with(r, 400, "DOCKER::INVALID_PORT")
        for sandbox in (UNKNOWN, "..", "%2e%2e", ID.upper(), ID + "x", "x" * 3000):
            r = gateway.ask(request("GET", path_to(80, "/", sandbox), WITH_KEY))
            fails_with(r, 404, "DOCKER::SANDBOX_NOT_FOUND")
        for port in (44772, 8000):
            r = gateway.ask(request("GET", path_to(port, "/", "paused"), WITH_KEY))
            assert fails_with(r, 503, "DOCKER::SANDBOX_NOT_RUNNING") == "the sandbox is paused"
        r = gateway.ask(ask_for("GET", "/policy", port=18080))
        fails_with(r, 501, "SANDBOX::API_NOT_SUPPORTED")
        assert backend.begun == 0
        assert gateway.stats()["accesses"] == 0
        gateway.ask(ask_for("GET", "/"))
        assert gateway.stats()["accesses"] == 1


def a_closed_port_is_a_502_without_details():
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as dead:
        dead.bind(f"{folder}/dead.sock")
        for name in ("none", "dead"):
            with Gateway(f"unix:{folder}/{name}.sock") as gateway:
                message = fails_with(gateway.ask(ask_for("GET", "/")), 502,
                                     "GENERAL::UNKNOWN_ERROR")
                assert folder not in message and ".sock" not in message, message
                r = gateway.ask(ask_for("POST", "/", body=b"x" * 1000))
                fails_with(r, 502, "GENERAL::UNKNOWN_ERROR")
                assert gateway.stats()["failed"] == 2


def no_answer_is_a_502():
    def script(conn):
        if "garbage" in conn.read_head():
            conn.send(b"garbage\r\n\r\n")
            conn.take_rest()

    with gateway_to(script) as (_, gateway):
        for what in ("/end", "/garbage"):
            message = fails_with(gateway.ask(ask_for("POST", what)), 502, "GENERAL::UNKNOWN_ERROR")
            assert ".sock" not in message, message


def half_a_handshake_is_refused():
    connection, upgrade, version, key = HANDSHAKE
    broken = [  # method, headers
        ("GET", [upgrade]),
        ("GET", [upgrade, version, key]),
        ("GET", [upgrade, version, key, "Connection: close"]),
        ("GET", [connection, upgrade, version]),
        ("GET", [connection, upgrade, version, "Sec-WebSocket-Key: short"]),
        ("GET", [connection, "Upgrade: WebSocket", version]),
        ("GET", [connection, "Upgrade: h2c, websocket", version]),
        ("POST", HANDSHAKE),
        ("GET", [*HANDSHAKE, "Content-Length: 1"]),
    ]
    with gateway_to(answer(OK)) as (backend, gateway):
        for method, headers in broken:
            body = b"x" if "Content-Length: 1" in headers else b""
            r = gateway.ask(ask_for(method, "/ws", *headers) + body)
            fails_with(r, 400, "GENERAL::UNKNOWN_ERROR")
        fails_with(gateway.ask(request("GET", path_to(80), upgrade)), 401, "MISSING_API_KEY")
        fails_with(gateway.ask(request("GET", path_to(80, "", UNKNOWN), upgrade, WITH_KEY)), 404,
                   "DOCKER::SANDBOX_NOT_FOUND")
        assert backend.begun == 0
        assert gateway.ask(ask_for("GET", "/ws", *HANDSHAKE)).status == 200
        assert gateway.ask(ask_for("GET", "/ws", connection, "Upgrade: other")).status == 200
        assert len(backend.requests) == 2


TARGETS = [  # port, what stands behind it, what the sandbox is asked for
    (44772, "", "/"),
    (44772, "/", "/"),
    (44772, "?", "/?"),
    (44772, "?a=b", "/?a=b"),
    (44772, "/ping", "/ping"),
    (44772, "/files/download?path=%2Ftmp%2Fa+b&x", "/files/download?path=%2Ftmp%2Fa+b&x"),
    (44772, "//a//b", "//a//b"),
    (8000, "", "/proxy/8000/"),
    (8000, "/", "/proxy/8000/"),
    (8000, "?a=%20&a=+&b=/?", "/proxy/8000/?a=%20&a=+&b=/?"),
    (8000, "/a%2Fb%2f/c%20d/%e4/?", "/proxy/8000/a%2Fb%2f/c%20d/%e4/?"),
    (8000, "/a;b=c/(d)/'e'/@:!$&*,=~", "/proxy/8000/a;b=c/(d)/'e'/@:!$&*,=~"),
    ("008000", "/a", "/proxy/8000/a"),
    (1, "/a", "/proxy/1/a"),
    (65535, "/a", "/proxy/65535/a"),
    (8000, "/../../x", "/proxy/8000/../../x"),
    (8000, "/../44772/command", "/proxy/8000/../44772/command"),
    (8000, "/%2e%2e/%2E%2e/x", "/proxy/8000/%2e%2e/%2E%2e/x"),
    (8000, "/../../../../other/proxy/80/", "/proxy/8000/../../../../other/proxy/80/"),
    (8000, "/" + "a" * 8000, "/proxy/8000/" + "a" * 8000),
]


def targets_stay_as_they_were_sent():
    with gateway_to(answer(OK), "--sandbox", "other=unix:/nowhere") as (backend, gateway):
        with gateway.connect() as c:
            for port, rest, _ in TARGETS:
                assert c.ask(ask_for("GET", rest, port=port)).status == 200, (port, rest)
            for prefix in ("", "http://elsewhere:1", "http://elsewhere/v1"):
                c.ask(request("GET", path_to(80, "/q?r", prefix=prefix), WITH_KEY))
        asked = [head.split(" ")[1] for head in backend.requests]
        assert asked[:len(TARGETS)] == [target for *_, target in TARGETS], asked
        assert asked[len(TARGETS):] == ["/proxy/80/q?r"] * 3, asked
        assert backend.requests[-1].split("\r\n")[1] == "Host: elsewhere", backend.requests[-1]


# --- in whose name ---


def requests_pass_to_the_byte():
    sent = ("Accept: */*\r\nX-One: 1\r\nCookie: a=b; c=d\r\nx-one:2\r\n"
            "Authorization: Basic eDp5\r\nX-Empty:\r\nCookie: e=f\r\n"
            "X-Latin: \xe9\xff\r\nUser-Agent: me/1 (a; b)\r\n"
            "Accept-Encoding: zstd\r\nOrigin: https://page.example\r\nX-Request-ID: mine\r\n"
            "Range: bytes=0-1\r\nIf-None-Match: \"a\", \"b\"\r\n")
    hop = ("Connection: close, X-Mine\r\nX-Mine: 1\r\nKeep-Alive: 3\r\nTE: trailers\r\n"
           "Proxy-Connection: x\r\nProxy-Authorization: y\r\nTrailer: z\r\nUpgrade: h2c\r\n")
    wanted = sent.replace("x-one:2", "x-one: 2").replace("X-Empty:", "X-Empty: ")
    head = f"GET {path_to(8000, '/%2F?q')} HTTP/1.1\r\nHost: public.name:81\r\n{WITH_TOKEN}\r\n"
    with gateway_to(answer(OK)) as (backend, gateway):
        assert gateway.ask((head + sent + hop + "\r\n").encode("latin-1")).status == 200
        assert backend.requests == [
            f"GET /proxy/8000/%2F?q HTTP/1.1\r\nHost: public.name:81\r\n{wanted}"
            + AS_SENT[:-4] + f"public.name:81\r\n{PREFIX}"], backend.requests


def all_methods_pass():
    text = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    with gateway_to(answer(text)) as (backend, gateway), gateway.connect() as c:
        for method in METHODS:
            assert c.ask(ask_for(method, "/m"), no_body=method == "HEAD").status == 200, method
        assert [head.split(" ")[0] for head in backend.requests] == METHODS
        assert backend.begun == 1, "the connection was not kept"


def forwarded_headers_are_right():
    with gateway_to(answer(OK)) as (backend, gateway):
        def seen(*headers):
            assert gateway.ask(ask_for("GET", "/", *headers)).status == 200
            return sorted(row for row in backend.requests[-1].split("\r\n")
                          if row.lower().startswith("x-forwarded"))

        assert seen() == sorted(AS_SENT.split("\r\n"))
        assert seen("x-forwarded-for: 192.0.2.1", "X-Forwarded-For: 192.0.2.2, 192.0.2.3",
                    "x-forwarded-proto: https", "X-FORWARDED-HOST: front.example") == [
            "X-FORWARDED-HOST: front.example",
            "X-Forwarded-For: 192.0.2.1, 192.0.2.2, 192.0.2.3, 127.0.0.1",
            "x-forwarded-proto: https"]
        assert seen(*HANDSHAKE) == sorted(AS_SENT.split("\r\n"))
        # The client cannot have them taken away.
        assert seen("Connection: X-Forwarded-For, X-Forwarded-Host") == sorted(
            AS_SENT.split("\r\n"))


def applications_learn_their_prefix():
    with gateway_to(answer(OK)) as (backend, gateway):
        def prefix(*headers, port=8000):
            assert gateway.ask(ask_for("GET", "/a?b", *headers, port=port)).status == 200
            return [row.partition(": ")[2] for row in backend.requests[-1].split("\r\n")
                    if row.lower().startswith("x-forwarded-prefix")]

        assert prefix() == [f"/v1/sandboxes/{ID}/proxy/8000"]
        assert prefix("X-Forwarded-Prefix: /front") == ["/front"], "a proxy in front knows better"
        assert prefix(port=44772) == [], "execd is ours"


# --- a host for each port ---

HOST = f"8000-{ID}.localhost:81"


def at_host(path, *headers, method="GET", host=HOST):
    rows = [f"{method} {path} HTTP/1.1", f"Host: {host}", *headers, "", ""]
    return "\r\n".join(rows).encode()


def hosts_lead_to_ports():
    with gateway_to(answer(OK), "--domain", "localhost") as (backend, gateway):
        r = gateway.ask(at_host("/a/b?c=%2F", WITH_TOKEN))
        assert (r.status, r.body) == (200, b"ok"), (r.status, r.body)
        assert backend.requests[-1].split("\r\n")[0] == "GET /proxy/8000/a/b?c=%2F HTTP/1.1"
        assert f"Host: {HOST}" in backend.requests[-1], "the application sees its own name"
        assert "X-Forwarded-Prefix" not in backend.requests[-1]
        assert gateway.ask(at_host("/health", WITH_TOKEN)).body == b"ok", "the application's path"
        fails_with(gateway.ask(at_host("/")), 401, "MISSING_API_KEY")
        fails_with(gateway.ask(at_host("/", host=f"8000-{UNKNOWN}.localhost")), 401,
                   "MISSING_API_KEY")
        assert gateway.ask(at_host("/health", host="localhost")).status == 200
    with gateway_to(answer(OK)) as (backend, gateway):
        assert gateway.ask(at_host("/health", WITH_TOKEN)).body != b"ok", "without a domain: none"


def browsers_sign_in_by_an_address():
    with gateway_to(answer(OK), "--domain", "localhost") as (backend, gateway):
        for access in (TOKEN, f"signed-{ID}-8000"):
            r = gateway.ask(at_host(f"/x?a=1&opensandbox_access={access}&b=2"))
            assert (r.status, r.get("Location")) == (303, "/x?a=1&b=2"), (r.status, r.rows)
            cookie = r.get("Set-Cookie")
            assert cookie == f"opensandbox_access={access}; Path=/; HttpOnly; SameSite=Lax", cookie
            pair = cookie.partition(";")[0]
            r = gateway.ask(at_host("/x?a=1", f"Cookie: mine=1; {pair}"))
            assert r.status == 200, (r.status, r.body)
            assert "Cookie: mine=1\r\n" in backend.requests[-1] + "\r\n", backend.requests[-1]
            assert access not in backend.requests[-1], "the application sees the credential"
        begun = len(backend.requests)
        for access in ("wrong", KEY, f"signed-{ID}-8001", f"signed-{UNKNOWN}-8000"):
            fails_with(gateway.ask(at_host(f"/?opensandbox_access={access}")), 401,
                       "INVALID_API_KEY")
            fails_with(gateway.ask(at_host("/", f"Cookie: opensandbox_access={access}")), 401,
                       "INVALID_API_KEY")
        assert len(backend.requests) == begun


def a_cookie_is_for_its_own_pages():
    with gateway_to(answer(OK), "--domain", "localhost") as (backend, gateway):
        cookie = f"Cookie: opensandbox_access={TOKEN}"
        assert gateway.ask(at_host("/", cookie, f"Origin: http://{HOST}")).status == 200
        for origin in (f"http://8001-{ID}.localhost:81", "http://localhost:81", "null"):
            fails_with(gateway.ask(at_host("/", cookie, f"Origin: {origin}", method="POST")), 401,
                       "MISSING_API_KEY")
        # Below a path all sandboxes are one origin: there a cookie is no credential.
        fails_with(gateway.ask(request("GET", path_to(8000, "/"), cookie)), 401, "MISSING_API_KEY")
        assert len(backend.requests) == 1


def answers_pass_to_the_byte():
    head = (b"HTTP/1.1 299 Odd  reason\r\nDate: then\r\nServer: app\r\nSet-Cookie: a=1; Path=/\r\n"
            b"X-b: \xc3\xa9\r\nSet-Cookie: b=2\r\nset-cookie: c=3\r\nContent-Type: text/x\r\n"
            b"Content-Encoding: gzip\r\nLocation: /proxy/else?%2F\r\nETag: \"x\"\r\n")
    hop = b"Connection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 3\r\nProxy-Authenticate: Basic\r\n"
    own = b"X-Request-ID: theirs\r\nx-request-id: theirs too\r\n"
    tail = b"Content-Length: 4\r\n"
    with gateway_to(answer(head + hop + own + tail + b"\r\n\x1f\x8b\x00\xff")) as (_, gateway), \
            gateway.connect() as c:
        c.send(ask_for("GET", "/", "X-Request-ID: mine"))
        assert c.take_until(b"\r\n\r\n") == head + tail + b"X-Request-ID: mine"
        assert c.take(4) == b"\x1f\x8b\x00\xff"


def cookies_are_not_remembered():
    with gateway_to(answer(b"HTTP/1.1 200 OK\r\nSet-Cookie: s=1\r\nContent-Length: 0\r\n\r\n")) as (
            backend, gateway):
        for _ in range(3):
            assert gateway.ask(ask_for("GET", "/")).get("Set-Cookie") == "s=1"
        assert not [head for head in backend.requests if "ookie" in head], backend.requests


def every_answer_has_an_id():
    with gateway_to(answer(OK)) as (_, gateway):
        assert gateway.ask(request("GET", "/health", "X-Request-ID:   a b  ")).get(
            "X-Request-ID") == "a b"
        for data in (request("GET", "/health"),
                     request("GET", "/health", "X-Request-ID: " + "x" * 129),
                     request("GET", "/none"), request("GET", "/none", WITH_KEY),
                     request("DELETE", "/health", WITH_KEY), ask_for("GET", "/"),
                     request("OPTIONS", "*"), b"not http\r\n\r\n", b"GET /health HTTP/2.0\r\n\r\n",
                     b"GET /health HTTP/1.1\r\n\r\n",
                     ask_for("POST", "/", "Transfer-Encoding: chunked") + b"zz\r\n"):
            r = gateway.ask(data)
            assert re.fullmatch("[0-9a-f]{32}", r.get("X-Request-ID") or ""), (data, r.rows)
        ids = {gateway.ask(request("GET", "/health")).get("X-Request-ID") for _ in range(20)}
        assert len(ids) == 20


def browsers_of_any_origin_may_read():
    origin = "Origin: https://page.example"
    own = b"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: https://own.example\r\n" \
          b"Vary: Accept\r\nContent-Length: 0\r\n\r\n"
    with gateway_to(answer(OK)) as (backend, gateway):
        preflight = ("Access-Control-Request-Method: PUT",
                     "Access-Control-Request-Headers: opensandbox-secure-access")
        r = gateway.ask(request("OPTIONS", path_to(8000), origin, *preflight))
        assert (r.status, r.body, r.get("Access-Control-Allow-Headers")) == \
            (200, b"OK", "opensandbox-secure-access"), (r.status, r.rows)
        assert r.get("Access-Control-Allow-Origin") == "https://page.example"
        assert backend.begun == 0
        for data in (ask_for("GET", "/", origin), ask_for("OPTIONS", "/", origin),
                     request("GET", path_to(80), origin), request("GET", "/health", origin)):
            r = gateway.ask(data)
            assert r.get("Access-Control-Allow-Origin") == "https://page.example", (data, r.rows)
            assert r.get("Vary") == "Origin" and not r.get("Access-Control-Allow-Credentials")
        assert not gateway.ask(ask_for("GET", "/")).get("Vary")
    with gateway_to(answer(own)) as (_, gateway):  # the app has a say of its own
        r = gateway.ask(ask_for("GET", "/", origin))
        assert r.get("Access-Control-Allow-Origin") == "https://own.example", r.rows
        assert r.get("Vary") == "Accept", r.rows


# --- against smugglers ---


def smuggled(_, data, status):
    """What is no request ends the connection, and what hides behind it never arrives."""
    target = path_to(8000).encode()
    for path in (b"/echo", b"/json", b"/upload"):
        data = data.replace(b" " + path + b" ", b" " + target + b" ")
    data = data.replace(b"\r\n", b"\r\n" + WITH_KEY.encode() + b"\r\n", 1)
    hidden = SMUGGLED.replace(b"/json", target)
    arrived = []

    def script(conn):
        with contextlib.suppress(EOFError):
            while True:
                conn.receive()
        arrived.append(conn.inbox)

    with gateway_to(script) as (backend, gateway), gateway.connect() as c:
        with contextlib.suppress(ConnectionError):
            c.send(data + hidden)
        r = c.response()
        assert r.status in (status, 400), f"status {r.status}: {r.body!r}"
        c.wait_closed()
        wait_for(lambda: backend.ended == backend.begun)
        assert not [text for text in arrived if b"smuggled" in text], arrived
        gateway.is_well()


def a_backend_cannot_smuggle():
    """Answers whose end could be read in two ways, to a client that goes on asking."""
    body = b"HTTP/1.1 200 OK\r\nX-Evil: 1\r\n\r\n".ljust(40, b"x")
    head = b"HTTP/1.1 200 OK\r\nConnection: Content-Length\r\nContent-Length: 40\r\n\r\n"
    with gateway_to(answer(head + body)) as (_, gateway), gateway.connect() as c:
        for _ in range(2):
            r = c.ask(ask_for("GET", "/"))
            assert r.get("Content-Length") == "40" and r.body == body, (r.rows, r.body)
    text = b"HTTP/1.1 204 No Content\r\nContent-Length: 9\r\nX-A: b\r\n\r\n"
    with gateway_to(answer(text)) as (_, gateway), gateway.connect() as c:
        for _ in range(2):
            r = c.ask(ask_for("GET", "/"))
            assert (r.status, r.get("Content-Length"), r.get("X-A")) == (204, None, "b")


CHECKS = [
    ("strangers cannot tell which sandboxes exist", strangers_cannot_tell_which_sandboxes_exist),
    ("a browser opens a WebSocket by a subprotocol",
     a_browser_opens_a_websocket_by_a_subprotocol),
    ("a ticket opens one port, in an origin of its own",
     a_ticket_opens_one_port_in_an_origin_of_its_own),
    ("a token opens its own sandbox only", a_token_opens_its_own_sandbox_only),
    ("a gateway that is open by config asks nobody", an_open_gateway_requires_no_credential),
    ("a sandbox with secureAccess is never open", a_secure_sandbox_is_never_open),
    ("no credential reaches the sandbox", no_credential_reaches_the_sandbox),
    ("no credential reaches the sandbox inside of a value",
     no_credential_reaches_the_sandbox_inside_of_a_value),
    ("a short key is taken out as a word only", a_short_key_is_taken_out_as_a_word_only),
    ("what only looks like a credential passes", what_only_looks_like_a_credential_passes),
    ("half a WebSocket handshake is refused", half_a_handshake_is_refused),
    ("refusals name their reason", refusals_name_their_reason),
    ("a dead sandbox is a 502 that tells no addresses", a_closed_port_is_a_502_without_details),
    ("a sandbox that does not answer is a 502", no_answer_is_a_502),
    ("path and query stay as they were sent", targets_stay_as_they_were_sent),
    ("a request passes to the byte", requests_pass_to_the_byte),
    ("all methods pass, unknown ones too", all_methods_pass),
    ("applications learn their prefix", applications_learn_their_prefix),
    ("hosts lead to ports", hosts_lead_to_ports),
    ("browsers sign in by an address", browsers_sign_in_by_an_address),
    ("a cookie is for its own pages", a_cookie_is_for_its_own_pages),
    ("X-Forwarded headers are right", forwarded_headers_are_right),
    ("an answer passes to the byte", answers_pass_to_the_byte),
    ("cookies are not remembered", cookies_are_not_remembered),
    ("every answer has an id", every_answer_has_an_id),
    ("browsers of any origin may read, if the app has no other wish",
     browsers_of_any_origin_may_read),
    ("a backend cannot smuggle answers", a_backend_cannot_smuggle),
]


def main():
    tap = Tap()
    for sentence, headers, status, code in CREDENTIALS:
        verb = "opens" if status == 200 else "does not open"
        tap.check(f"{sentence} {verb} the gate", header_lets_in, headers, status, code)
    for sentence, run in CHECKS:
        tap.check(sentence, run)
    for row in REFUSED:
        tap.check(f"nothing is smuggled behind {row[0]}", smuggled, *row)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
