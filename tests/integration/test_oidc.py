"""Sign-in by OpenID Connect, with npm's oidc-provider: who gets in, and what a cookie is worth.

Usage: test_oidc.py MODULES SERVER BROKER EXECD SANDBOXCTL OSB. TAP on standard output. Needs root.
MODULES is the node_modules of tests/node/package.json.
"""
import base64
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import oidc_process  # noqa: E402
import postgres_process  # noqa: E402
import tap  # noqa: E402
from oidc_process import API, SECRET, Browser, Provider, access_token  # noqa: E402
from server_process import SECONDS_MAX, ServerProcess, wait_for, why_not  # noqa: E402
from servers_process import Servers  # noqa: E402

MODULES = sys.argv[1]
PROGRAMS = [os.path.abspath(path) for path in sys.argv[2:6]]
OSB = os.path.abspath(sys.argv[6])
SERVER = PROVIDER = None
CONSOLE = {"X-OpenSandbox-Console": "1"}
BOX = {"image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"], "timeout": 600,
       "resourceLimits": {"cpu": "500m", "memory": "128Mi"}}


def signed_in(user):
    """A browser of this user, signed in."""
    browser = Browser()
    at, status, _ = browser.log_in(f"{SERVER.url}/auth/login", user,
                                   stop=(f"{SERVER.url}/console",))
    assert at == f"{SERVER.url}/console/", (at, status)
    return browser


def refused(user):
    """How the console is told that this user does not get in."""
    browser = Browser()
    at, _, _ = browser.log_in(f"{SERVER.url}/auth/login", user, stop=(f"{SERVER.url}/console",))
    assert "osb_session" not in str(browser.cookies), browser.cookies
    return urllib.parse.parse_qs(urllib.parse.urlsplit(at).query)["signin"][0]


def api(browser, method, path, body=None, headers=None, console=True, server=None):
    """Status and answer of a request as the console sends it."""
    server = server or SERVER
    jar = browser.cookies[server.url]
    status, _, answer = server.request(
        method, path, body, key=None,
        headers={"Cookie": "; ".join(f"{k}={v}" for k, v in jar.items()),
                 **(CONSOLE if console else {}), **(headers or {})})
    return status, answer


def users_get_the_role_and_tenant_of_their_groups():
    seen = {}
    for user, role, tenant, everywhere in (("vera", "read_only", "team-a", False),
                                           ("otto", "operator", "team-a", False),
                                           ("ada", "admin", "team-a", False),
                                           ("sue", "admin", "default", True)):
        status, who = api(signed_in(user), "GET", "/v1/whoami")
        assert status == 200, who
        seen[user] = who.pop("principal")
        assert who == {"user": user, "tenant": tenant, "allTenants": everywhere, "role": role,
                       "authentication": "oidc"}, who
    assert len(set(seen.values())) == 4 and all(p.startswith("oidc:") for p in seen.values()), seen
    assert api(signed_in("otto"), "GET", "/v1/whoami")[1]["principal"] == seen["otto"]


def users_without_a_role_or_a_tenant_stay_out():
    assert refused("none") == "no_role"
    assert refused("lost") == "no_role"  # its tenant does not exist
    assert refused("nobody") == "declined"  # the provider knows no such user


def cookies_are_for_this_server_only_and_no_script():
    browser = signed_in("otto")
    session = [line for line in browser.set_cookies if line.startswith("osb_session=osbs_")]
    assert len(session) == 1, browser.set_cookies
    for part in ("; Path=/", "; HttpOnly", "; SameSite=Lax", "; Max-Age=3600"):
        assert part in session[0], session
    assert "Domain" not in session[0]
    status, told = api(browser, "GET", "/auth/session")
    assert (status, told["signedIn"], told["user"]) == (200, True, "otto"), told
    assert told["signIn"] == {"name": "Example", "path": "/auth/login",
                              "url": f"{SERVER.url}/auth/login"}, told
    browser.cookies[SERVER.url] = {}
    assert api(browser, "GET", "/v1/auth/session")[1] == {
        "signedIn": False, "signIn": told["signIn"]}


def a_cookie_alone_or_from_another_page_is_worth_nothing():
    browser = signed_in("otto")
    assert api(browser, "GET", "/v1/sandboxes")[0] == 200
    assert api(browser, "GET", "/v1/sandboxes", headers={"Sec-Fetch-Site": "same-origin",
                                                         "Origin": SERVER.url})[0] == 200
    for headers, console in (({}, False), ({"Sec-Fetch-Site": "cross-site"}, True),
                             ({"Sec-Fetch-Site": "same-site"}, True),
                             ({"Sec-Fetch-Site": "none"}, True),
                             ({"Origin": "https://evil.example"}, True), ({"Origin": "null"}, True),
                             ({"Origin": f"http://8080-x.localhost:{SERVER.port}"}, True)):
        for method, path in (("GET", "/v1/sandboxes"), ("POST", "/v1/sandboxes"),
                             ("POST", "/auth/logout")):
            status, answer = api(browser, method, path, {} if method == "POST" else None,
                                 headers=headers, console=console)
            assert (status, answer["code"]) == (401, "MISSING_API_KEY"), (headers, path, answer)
    # A page of another origin may ask whether it may send the header, but never with cookies.
    status, headers, _ = SERVER.request("OPTIONS", "/v1/sandboxes", key=None, headers={
        "Origin": "https://evil.example", "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "x-opensandbox-console"})
    assert status == 200 and "Access-Control-Allow-Credentials" not in headers, headers
    assert api(browser, "GET", "/v1/whoami")[0] == 200  # and is still signed in


def a_session_ends_by_logging_out():
    browser, other = signed_in("otto"), signed_in("otto")
    old = dict(browser.cookies[SERVER.url])
    status, _ = api(browser, "POST", "/auth/logout")
    assert status == 204
    assert api(browser, "GET", "/v1/whoami")[0] == 401
    browser.cookies[SERVER.url] = old
    assert api(browser, "GET", "/v1/whoami")[0] == 401
    assert api(other, "GET", "/v1/whoami")[0] == 200
    for value in ("osbs_", "osbs_" + "A" * 43, "x", ""):
        other.cookies[SERVER.url] = {"osb_session": value}
        assert api(other, "GET", "/v1/whoami")[0] == 401, value


def an_answer_of_the_provider_counts_for_the_browser_that_asked():
    browser, victim = Browser(), Browser()
    at, _, _ = browser.log_in(f"{SERVER.url}/auth/login", "otto",
                              stop=(f"{SERVER.url}/auth/callback",))
    assert "code=" in at and "state=" in at, at
    victim.ask(f"{SERVER.url}/auth/login")  # has begun one of its own
    for one, url in ((victim, at), (Browser(), at), (browser, at.replace("state=", "state=x")),
                     (browser, f"{SERVER.url}/auth/callback"),
                     (browser, f"{SERVER.url}/auth/callback?code=x&state=%")):
        cookies = json.dumps(one.cookies)
        where, _, _ = one.go(url, stop=(f"{SERVER.url}/console",))
        assert where.endswith("?signin=expired"), where
        assert "osb_session" not in str(one.cookies)
        one.cookies = json.loads(cookies)
    where, _, _ = browser.go(at.replace("iss=", "iss=https%3A%2F%2Fevil.example"),
                             stop=(f"{SERVER.url}/console",))
    assert where.endswith("?signin=failed"), where
    where, _, _ = browser.go(at, stop=(f"{SERVER.url}/console",))
    assert where == f"{SERVER.url}/console/", where
    # A code counts once: the provider refuses it.
    again = Browser()
    again.cookies = json.loads(cookies)
    where, _, _ = again.go(at, stop=(f"{SERVER.url}/console",))
    assert where.endswith("?signin=failed"), where


def a_token_of_another_sign_in_is_refused():
    PROVIDER.tell("lie")
    try:
        assert refused("otto") == "failed"
    finally:
        PROVIDER.tell("speak")
    assert "the token was made for another sign-in" in SERVER.log()
    signed_in("otto")


def new_keys_of_the_provider_are_read_once_and_not_more_often():
    forged = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
              for part in ({"alg": "RS256", "kid": "unknown"}, {"sub": "x"})]
    before = int(PROVIDER.tell("count /jwks"))
    for _ in range(20):
        status, _, answer = SERVER.request("GET", "/v1/whoami", key=None, headers={
            "Authorization": f"Bearer {forged[0]}.{forged[1]}.AAAA"})
        assert (status, answer["code"]) == (401, "INVALID_API_KEY"), answer
    assert int(PROVIDER.tell("count /jwks")) - before <= 1
    SERVER.restart()  # it reads the keys of before
    wait_for(lambda: int(PROVIDER.tell("count /jwks")) > before, "the keys to be read")
    PROVIDER.tell("rotate")
    read = int(PROVIDER.tell("count /jwks"))
    # Within 30 s of the last reading the new key is not looked for.
    assert refused("otto") == "failed"
    assert int(PROVIDER.tell("count /jwks")) == read
    SERVER.restart()
    assert api(signed_in("otto"), "GET", "/v1/whoami")[0] == 200


def access_tokens_open_the_api():
    token = access_token(PROVIDER, "otto")
    header = {"Authorization": f"Bearer {token}"}
    status, _, who = SERVER.request("GET", "/v1/whoami", key=None, headers=header)
    assert status == 200 and who["user"] == "otto" and who["role"] == "operator", who
    assert who["principal"] == api(signed_in("otto"), "GET", "/v1/whoami")[1]["principal"]
    head, claims, signature = token.split(".")
    for wrong in (f"{head}.{claims}.{signature[:-8]}AAAAAAAA", f"{head}.{claims}.",
                  f"{head}.{claims}", "x", "." * 5, "A" * 17000):
        status, _, answer = SERVER.request("GET", "/v1/whoami", key=None,
                                           headers={"Authorization": f"Bearer {wrong}"[:15000]})
        assert (status, answer["code"]) == (401, "INVALID_API_KEY"), (wrong[:40], answer)
    status, _, answer = SERVER.request(
        "GET", "/v1/whoami", key=None,
        headers={"Authorization": f"Bearer {access_token(PROVIDER, 'none')}"})
    assert status == 401 and "auth.oidc.roles" in answer["message"], answer


def every_route_refuses_users_of_another_tenant():
    """The walk of test_tenants.py with users who signed in: principals that a cookie found."""
    status, _, made = SERVER.request("POST", "/v1/keys", {"name": "victim", "role": "admin",
                                                          "tenant": "team-b"})
    assert status == 201, made
    victim = made["key"]
    status, _, box = SERVER.request("POST", "/v1/sandboxes",
                                    {**BOX, "metadata": {"m": "planted-77"}}, key=victim)
    assert status == 202, box
    thieves = {user: signed_in(user) for user in ("vera", "otto", "ada")}
    listed = subprocess.run([PROGRAMS[0], "--print-routes"], check=True, stdout=subprocess.PIPE,
                            text=True).stdout
    checked, wrong = 0, []
    for row in listed.splitlines():
        method, path = row.split(" ", 1)
        if "{" not in path or "{image}" in path or "{ticket}" in path:
            continue
        named = path.replace("{sandboxId}", box["id"]).replace("{keyId}", made["id"]) \
            .replace("{tenantName}", "team-b").replace("{port}", "44772").replace("*", "command") \
            .replace("{snapshotId}", "x").replace("{volumeName}", "x").replace("{poolName}", "x")
        for one in ("GET", "POST") if method == "*" else (method,):
            body = {"capacitySpec": {"bufferMin": 0, "bufferMax": 1, "poolMin": 0, "poolMax": 1}} \
                if one in ("POST", "PUT", "PATCH") else None
            for user, thief in thieves.items():
                status, answer = api(thief, one, named, body)
                checked += 1
                if status not in (403, 404) or "planted-77" in str(answer):
                    wrong.append((one, named, user, status, answer))
    assert checked > 150 and not wrong, (checked, wrong)
    for user, thief in thieves.items():
        assert api(thief, "GET", "/v1/sandboxes")[1]["items"] == [], user
        status, answer = api(thief, "POST", "/v1/tenants", {"name": "more"})
        assert (status, answer["code"]) == (403, "FORBIDDEN"), answer
    assert api(thieves["vera"], "POST", "/v1/sandboxes", BOX)[0] == 403
    assert api(thieves["otto"], "POST", "/v1/pools", {})[0] == 403
    assert api(signed_in("sue"), "GET", f"/v1/sandboxes/{box['id']}")[0] == 200
    SERVER.request("DELETE", f"/v1/sandboxes/{box['id']}")


def a_sandbox_is_opened_by_the_session_and_never_sees_it():
    maker, viewer = signed_in("otto"), signed_in("vera")
    status, box = api(maker, "POST", "/v1/sandboxes", BOX)
    assert status == 202, box
    assert box["metadata"]["access.owner"] == "otto" and box["metadata"]["access.team"] == "team-a"
    SERVER.wait_state(box["id"], "Running")
    inside = f"/v1/sandboxes/{box['id']}/proxy/44772"
    try:
        assert api(maker, "GET", f"{inside}/ping")[0] == 200
        status, answer = api(viewer, "GET", f"{inside}/ping")
        assert (status, answer["code"]) == (403, "FORBIDDEN"), answer
        assert api(maker, "GET", f"{inside}/ping", console=False)[0] == 401
        assert api(maker, "GET", f"{inside}/ping",
                   headers={"Sec-Fetch-Site": "same-site"})[0] == 401
        program = ("import http.server as h\n"
                   "class H(h.BaseHTTPRequestHandler):\n"
                   " def do_GET(s):\n"
                   "  s.send_response(200)\n  s.end_headers()\n"
                   "  s.wfile.write(str(s.headers).encode())\n"
                   "h.HTTPServer(('127.0.0.1', 8000), H).serve_forever()\n")
        status, said = api(maker, "POST", f"{inside}/command",
                           {"command": f"exec python3 -c \"{program}\"", "background": True})
        assert status == 200, said

        def seen():
            return api(maker, "GET", f"/v1/sandboxes/{box['id']}/proxy/8000/")

        wait_for(lambda: seen()[0] == 200, "the program inside")
        headers = seen()[1].decode()
        assert "X-OpenSandbox-Console" in headers, headers  # these are those of our request
        assert "osbs_" not in headers and "Cookie" not in headers, headers
    finally:
        api(maker, "DELETE", f"/v1/sandboxes/{box['id']}")


def a_session_opens_sandboxes_of_other_servers():
    """Of two servers on one database; the user signs in at the one that does not hold it."""
    with Servers(PROGRAMS, ["holder", "asked"]) as servers:
        holder, asked = servers["holder"], servers["asked"]
        clients = [oidc_process.client(f"{asked.url}/auth/callback")]
        with Provider(MODULES, clients) as provider:
            asked.stop()
            asked.config.update(oidc_process.config(provider, asked))
            asked.start()
            assert asked.request("POST", "/v1/tenants", {"name": "team-a"})[0] == 201
            browser = Browser()
            browser.log_in(f"{asked.url}/auth/login", "otto", stop=(f"{asked.url}/console",))
            name = holder.create()
            ping = f"/v1/sandboxes/{name}/proxy/44772/ping"
            assert api(browser, "GET", ping, server=asked)[0] == 404  # of another tenant
            status, _, key = asked.request("POST", "/v1/keys", {
                "name": "k", "role": "operator", "tenant": "team-a"})
            assert status == 201, key
            wait_for(lambda: holder.request("GET", "/v1/whoami", key=key["key"])[0] == 200, "it")
            status, _, box = holder.request("POST", "/v1/sandboxes", BOX, key=key["key"])
            assert status == 202, box
            holder.wait_state(box["id"], "Running")
            ping = f"/v1/sandboxes/{box['id']}/proxy/44772/ping"
            assert api(browser, "GET", ping, server=asked)[0] == 200
            assert api(browser, "GET", ping, console=False, server=asked)[0] == 401
            assert api(browser, "GET", ping, headers={"Sec-Fetch-Site": "same-site"},
                       server=asked)[0] == 401


def osb(folder, *words, check=True):
    done = subprocess.run([OSB, "--config", f"{folder}/osb.toml", *words], capture_output=True,
                          text=True, check=False, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL,
                          env={"PATH": os.environ["PATH"], "HOME": str(folder)})
    assert not check or done.returncode == 0, (words, done.stdout, done.stderr)
    return done


def log_in_by_browser(folder, user):
    """osb login --browser, and a browser that does what it is told: osb's exit status, what it
    said, and what the browser saw last."""
    with subprocess.Popen([OSB, "--config", f"{folder}/osb.toml", "login", "--browser",
                           SERVER.domain], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, stdin=subprocess.DEVNULL,
                          env={"PATH": os.environ["PATH"], "HOME": str(folder)}) as process:
        try:
            url = ""
            while not url.startswith("http"):
                url = process.stderr.readline()
                assert url, "it says no address"
                url = url.strip()
            back = f"http://127.0.0.1:{urllib.parse.parse_qs(url.split('?')[1])['port'][0]}/"
            browser = Browser()
            at, status, _ = browser.log_in(url, user, stop=(back, f"{SERVER.url}/console"))
            if not at.startswith(back):
                process.send_signal(signal.SIGTERM)
                return process.wait(SECONDS_MAX), process.stdout.read(), (at, status)
            assert "osb_session" not in str(browser.cookies), browser.cookies
            assert browser.ask(back + "favicon.ico")[0] == 404
            status, _, page = browser.ask(at)
            assert status == 200 and b"can be closed" in page, page
            out, _ = process.communicate(timeout=SECONDS_MAX)
            return process.returncode, out, (at, status)
        finally:
            process.kill()


def keys_of(user):
    return [k for k in SERVER.request("GET", "/v1/keys")[2]["items"] if k.get("user") == user]


def osb_signs_in_by_a_browser():
    with tempfile.TemporaryDirectory() as folder:
        status, out, (at, _) = log_in_by_browser(folder, "otto")
        assert status == 0 and "Logged in as otto, role operator, tenant team-a" in out, out
        stored = pathlib.Path(folder, "osb.toml").read_text(encoding="utf-8")
        key = re.search(r'api_key = "(osbk_[^"]+)"', stored)
        who = json.loads(osb(folder, "whoami", "-o", "json").stdout)
        assert (who["user"], who["role"], who["tenant"]) == ("otto", "operator", "team-a"), who
        assert who["expires_at"] > time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), who
        made = json.loads(osb(folder, "sandbox", "create", "--image", "host", "-o", "json").stdout)
        shown = SERVER.request("GET", f"/v1/sandboxes/{made['id']}")[2]
        assert shown["metadata"]["access.owner"] == "otto", shown
        assert osb(folder, "command", "run", made["id"], "--", "echo", "hi").stdout.strip() == "hi"
        osb(folder, "sandbox", "kill", made["id"])
        # The code is worth nothing any more, nor was it without osb's secret.
        code = urllib.parse.parse_qs(urllib.parse.urlsplit(at).query)["code"][0]
        for body in ({"code": code, "verifier": "v" * 43}, {"code": "x", "verifier": "v" * 43},
                     {"code": code.split(".")[0], "verifier": "v" * 43}):
            got, _, answer = SERVER.request("POST", "/v1/auth/token", body, key=None)
            assert (got, answer["code"]) == (401, "INVALID_API_KEY"), answer
        assert SERVER.request("GET", "/v1/whoami", key=code)[0] == 401
        # Once more: the key of before is replaced, here and at the server.
        assert log_in_by_browser(folder, "otto")[0] == 0
        assert SERVER.request("GET", "/v1/whoami", key=key[1])[0] == 401
        keys = keys_of("otto")
        assert len(keys) == 1 and keys[0]["name"].startswith("otto@"), keys
        SERVER.restart()  # it is a key of the store, not a session
        assert json.loads(osb(folder, "whoami", "-o", "json").stdout)["user"] == "otto"
        rows = SERVER.request("GET", "/v1/audit?route=/v1/auth/token&limit=50")[2]["items"]
        assert [(e["user"], e["status"]) for e in rows if e["status"] == 201] == [("otto", 201)] * 2
        assert any(e["status"] == 401 for e in rows), rows
        status, _, (at, _) = log_in_by_browser(folder, "none")  # no group of it has a role
        assert status == 1 and "signin=no_role" in at, (status, at)
        assert json.loads(osb(folder, "whoami", "-o", "json").stdout)["user"] == "otto"
        SERVER.request("DELETE", f"/v1/keys/{keys[0]['id']}")


def a_code_is_for_the_secret_that_it_was_begun_with():
    def challenge(secret):
        digest = hashlib.sha256(secret.encode()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()

    def code_for(secret, browser=None):
        at, _, _ = (browser or Browser()).log_in(
            f"{SERVER.url}/auth/login?port=1&challenge={challenge(secret)}", "vera",
            stop=("http://127.0.0.1:1/",))
        return urllib.parse.parse_qs(urllib.parse.urlsplit(at).query)["code"][0]

    def redeem(code, verifier, **more):
        body = {"code": code, "verifier": verifier, **more}
        return SERVER.request("POST", "/v1/auth/token", body, key=None)

    mine, thieves = "m" * 43, "t" * 43
    code = code_for(mine)
    assert redeem(code, thieves)[0] == 401
    secret, tag = code.split(".")
    assert redeem(f"{secret}.{code_for(thieves).split('.')[1]}", thieves)[0] == 401
    assert redeem(f"{secret}.{tag[:-1]}{'A' if tag[-1] != 'A' else 'B'}", mine)[0] == 401
    status, _, made = redeem(code, mine, host="a b\u00e9")
    assert status == 201 and made["role"] == "read_only" and made["user"] == "vera", made
    assert made["name"].startswith("vera@a_b__ ("), made
    assert redeem(code, mine)[0] == 401
    for i in range(20):  # of one user there are few
        assert redeem(code_for(mine), mine, host=f"h{i}")[0] == 201, i
    keys = keys_of("vera")
    assert len(keys) == 16, len(keys)
    for key in keys:
        SERVER.request("DELETE", f"/v1/keys/{key['id']}")
    # Where nobody asked for a code, the browser gets a session, as ever.
    browser = Browser()
    code_for(mine, browser)
    at, _, _ = browser.log_in(f"{SERVER.url}/auth/login", "vera", stop=(f"{SERVER.url}/console",))
    assert at == f"{SERVER.url}/console/" and "osb_session" in str(browser.cookies), at
    for query in ("port=0", "port=x&challenge=" + "c" * 43, "port=80", "port=80&challenge=short",
                  "port=70000&challenge=" + "c" * 43, "port=80&challenge=" + "%2f" * 43):
        assert SERVER.request("GET", f"/auth/login?{query}", key=None)[0] == 400, query
    for body in ({}, {"code": "x"}, {"code": "x", "verifier": "short"}, {"code": 1}, []):
        assert SERVER.request("POST", "/v1/auth/token", body, key=None)[0] == 400, body


def signing_in_and_out_is_in_the_audit_record():
    admin = signed_in("ada")
    who = api(admin, "GET", "/v1/whoami")[1]
    api(admin, "POST", "/auth/logout")
    admin = signed_in("ada")
    status, page = api(admin, "GET", f"/v1/audit?principal={who['principal']}&limit=100")
    assert status == 200, page
    rows = [(e["method"], e["route"], e["status"], e["user"], e["tenant"], e["role"])
            for e in page["items"]]
    for row in (("GET", "/auth/callback", 303), ("POST", "/auth/logout", 204),
                ("GET", "/v1/whoami", 200)):
        assert (*row, "ada", "team-a", "admin") in rows, rows


def nothing_secret_is_written():
    browser = signed_in("otto")
    token = access_token(PROVIDER, "otto")
    SERVER.request("GET", "/v1/whoami", key=None, headers={"Authorization": f"Bearer {token}"})
    session = browser.cookies[SERVER.url]["osb_session"]
    written = SERVER.log().encode()
    for path in (SERVER.state / "server").rglob("*"):
        if path.is_file():
            written += path.read_bytes()
    for secret in (session, session[5:30], SECRET, token, token.split(".")[2][:40], "code="):
        assert secret.encode() not in written, secret[:12]
    shown = subprocess.run([PROGRAMS[0], "--config", SERVER.config_path, "--print-config"],
                           check=True, stdout=subprocess.PIPE, text=True).stdout
    assert SECRET not in shown and "client_secret" in shown, shown


def a_silent_provider_costs_a_user_ten_seconds_and_the_api_nothing():
    SERVER.restart()
    PROVIDER.tell("mute")
    try:
        SERVER.restart()
        assert SERVER.request("GET", "/v1/sandboxes")[0] == 200
        where, _, _ = Browser().go(f"{SERVER.url}/auth/login", stop=(f"{SERVER.url}/console",))
        assert where.endswith("?signin=unavailable"), where
    finally:
        PROVIDER.tell("speak")
    assert api(signed_in("otto"), "GET", "/v1/whoami")[0] == 200


def other_algorithms_sign_in_and_shared_secrets_do_not():
    """Each with a client of its own at the provider: ES256 and EdDSA are taken, HS256 is not."""
    for client, fine in (("es", True), ("ed", True), ("hs", False)):
        SERVER.config["auth.oidc"]["client_id"] = client
        SERVER.restart()
        if fine:
            assert api(signed_in("otto"), "GET", "/v1/whoami")[0] == 200, client
        else:
            assert refused("otto") == "failed", client
    SERVER.config["auth.oidc"]["client_id"] = "opensandbox"
    SERVER.restart()


def without_a_key_of_its_own_the_server_stays_closed():
    """A server that may be open to all is not when users sign in."""
    config = {**SERVER.config, "server": {"api_key": ""}}
    with ServerProcess(*PROGRAMS, config=config,
                       env={"OPENSANDBOX_INSECURE_SERVER": "YES"}) as other:
        assert other.request("GET", "/v1/sandboxes", key=None)[0] == 401
        assert other.request("GET", "/v1/sandboxes/x/proxy/80/", key=None)[0] == 401


def configurations_that_make_no_sense_are_refused():
    right = SERVER.config["auth.oidc"]
    for change, word in (({"issuer": "http://idp.example"}, "issuer"),
                         ({"issuer": ""}, "issuer"), ({"client_id": ""}, "client_id"),
                         ({"public_url": ""}, "public_url"),
                         ({"public_url": "http://127.evil.example"}, "public_url"),
                         ({"public_url": "https://a.example/x"}, "public_url"),
                         ({"public_url": "https://a.example:443"}, "public_url"),
                         ({"scopes": ["profile"]}, "scopes"),
                         ({"client_secret_file": "/etc/hostname"}, "client_secret")):
        check(word, {"auth.oidc": {**right, **change}})
    check("roles", {"auth.oidc": right, "auth.oidc.roles": {"g": "root"}})
    check("roles", {"auth.oidc": right}, roles=False)
    check("auth.mode", {"auth.oidc": right, "auth": {"mode": "api_key_and_user"}})


def check(word, sections, roles=True):
    from server_process import toml
    if roles:
        sections.setdefault("auth.oidc.roles", {"g": "admin"})
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(toml(sections))
        file.flush()
        done = subprocess.run([PROGRAMS[0], "--config", file.name, "--check"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
    assert done.returncode != 0 and "auth.oidc" in done.stdout and word in done.stdout, \
        (word, done.returncode, done.stdout)


def certificate(folder):
    """A provider's, and of the authority that the server is told to trust: itself."""
    cert, key = folder / "idp.pem", folder / "idp.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", cert, "-days", "2",
                    "-subj", "/CN=idp", "-addext", "subjectAltName=IP:127.0.0.1"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    cert.chmod(0o644)
    return cert, key


def main():
    global SERVER, PROVIDER
    tap.skip_all(why_not() or oidc_process.why_not(MODULES))
    SERVER = ServerProcess(*PROGRAMS)
    cert = certificate(SERVER.folder)
    redirect = f"{SERVER.url}/auth/callback"
    clients = [oidc_process.client(redirect),
               oidc_process.client(redirect, client_id="es", id_token_signed_response_alg="ES256"),
               oidc_process.client(redirect, client_id="ed", id_token_signed_response_alg="EdDSA",
                                   token_endpoint_auth_method="client_secret_basic"),
               oidc_process.client(redirect, client_id="hs", id_token_signed_response_alg="HS256"),
               oidc_process.client("http://127.0.0.1:1/cb", client_id="cli", client_secret=None,
                                   application_type="native", token_endpoint_auth_method="none")]
    for one in clients:
        if one["client_secret"] is None:
            del one["client_secret"]
    with Provider(MODULES, clients, tls=cert) as PROVIDER:
        SERVER.config.update(oidc_process.config(PROVIDER, SERVER, ca_file=str(cert[0]),
                                                 api_audience=API))
        with SERVER:
            for tenant in ("team-a", "team-b"):
                assert SERVER.request("POST", "/v1/tenants", {"name": tenant})[0] == 201
            return tap.run_tests([
                users_get_the_role_and_tenant_of_their_groups,
                users_without_a_role_or_a_tenant_stay_out,
                cookies_are_for_this_server_only_and_no_script,
                a_cookie_alone_or_from_another_page_is_worth_nothing,
                a_session_ends_by_logging_out,
                an_answer_of_the_provider_counts_for_the_browser_that_asked,
                a_token_of_another_sign_in_is_refused,
                access_tokens_open_the_api,
                every_route_refuses_users_of_another_tenant,
                a_sandbox_is_opened_by_the_session_and_never_sees_it,
                *([] if postgres_process.why_not()
                  else [a_session_opens_sandboxes_of_other_servers]),
                osb_signs_in_by_a_browser,
                a_code_is_for_the_secret_that_it_was_begun_with,
                signing_in_and_out_is_in_the_audit_record,
                nothing_secret_is_written,
                other_algorithms_sign_in_and_shared_secrets_do_not,
                new_keys_of_the_provider_are_read_once_and_not_more_often,
                a_silent_provider_costs_a_user_ten_seconds_and_the_api_nothing,
                without_a_key_of_its_own_the_server_stays_closed,
                configurations_that_make_no_sense_are_refused,
            ])


if __name__ == "__main__":
    sys.exit(main())
