"""npm's oidc-provider as a process, and a user of it without a browser."""
import http.client
import json
import os
import pathlib
import re
import subprocess
import ssl
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
SECONDS_MAX = 30
API = "https://opensandbox.example/api"
SECRET = "planted-client-secret"
ACCOUNTS = {  # what their tokens say
    "vera": {"preferred_username": "vera", "groups": ["viewers", "team-a"]},
    "otto": {"preferred_username": "otto", "groups": ["makers", "team-a"]},
    "ada": {"preferred_username": "ada", "groups": ["chiefs", "team-a"]},
    "sue": {"preferred_username": "sue", "groups": ["owners"]},
    "none": {"preferred_username": "none", "groups": ["strangers", "team-a"]},
    "lost": {"preferred_username": "lost", "groups": ["makers", "team-gone"]},
}


def why_not(modules):
    """None, or why there is no provider."""
    if not (pathlib.Path(modules) / "oidc-provider/package.json").exists():
        return "oidc-provider is not installed"
    return None


def client(redirect, **fields):
    return {"client_id": "opensandbox", "client_secret": SECRET,
            "redirect_uris": [redirect], "grant_types": ["authorization_code"],
            "response_types": ["code"], "id_token_signed_response_alg": "RS256", **fields}


def config(provider, server, **fields):
    """Sections for a server whose users are those of ACCOUNTS."""
    return {
        "auth.oidc": {"issuer": provider.issuer, "name": "Example", "client_id": "opensandbox",
                      "client_secret": SECRET, "public_url": server.url, "session_seconds": 3600,
                      **fields},
        "auth.oidc.roles": {"viewers": "read_only", "makers": "operator", "chiefs": "admin",
                            "owners": "service_admin"},
        "auth.oidc.tenants": {"team-gone": "gone", "team-a": "team-a"},
    }


class Provider:
    """A provider with these clients, over TLS when `tls` is (certificate, key) files."""

    def __init__(self, modules, clients, tls=None, accounts=None):
        env = {**os.environ, "MODULE": os.path.abspath(f"{modules}/oidc-provider/lib/index.js"),
               "CLIENTS": json.dumps(clients), "ACCOUNTS": json.dumps(accounts or ACCOUNTS)}
        if tls:
            env.update(CERT=str(tls[0]), KEY=str(tls[1]))
        self.process = subprocess.Popen(["node", HERE / "oidc_provider.mjs"], env=env, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL)
        self.issuer = self.process.stdout.readline().strip()
        assert self.issuer.startswith("http"), "the provider does not start"

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            pipe.close()


class Browser:
    """Follows redirects with cookies, without a cache or scripts: as much of a browser as a sign-in
    needs. It sends to each origin the cookies of that origin only."""

    def __init__(self):
        self.cookies = {}  # origin: {name: value}
        self.set_cookies = []  # as they came

    def ask(self, url, body=None, headers=None, method=None):
        """One request: status, headers, body."""
        to = urllib.parse.urlsplit(url)
        origin = f"{to.scheme}://{to.netloc}"
        jar = self.cookies.setdefault(origin, {})
        if to.scheme == "https":
            connection = http.client.HTTPSConnection(to.netloc, timeout=SECONDS_MAX,
                                                     context=ssl._create_unverified_context())
        else:
            connection = http.client.HTTPConnection(to.netloc, timeout=SECONDS_MAX)
        headers = dict(headers or {})
        if jar:
            headers["Cookie"] = "; ".join(f"{k}={v}" for k, v in jar.items())
        if body is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        target = to.path + (f"?{to.query}" if to.query else "")
        try:
            connection.request(method or ("GET" if body is None else "POST"), target or "/",
                               body=body, headers=headers)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        for line in answer.headers.get_all("Set-Cookie") or []:
            self.set_cookies.append(line)
            name, value = line.split(";")[0].split("=", 1)
            if value and "1970" not in line:
                jar[name] = value
            else:
                jar.pop(name, None)
        return answer.status, answer.headers, data

    def go(self, url, stop=(), body=None):
        """Follows redirects until there is none, or to an address that begins with one of `stop`:
        (address, status, body)."""
        for _ in range(20):
            if any(url.startswith(one) for one in stop):
                return url, None, b""
            status, headers, data = self.ask(url, body)
            if status not in (301, 302, 303, 307):
                return url, status, data
            url, body = urllib.parse.urljoin(url, headers["Location"]), None
        raise AssertionError("redirects without an end")

    def log_in(self, url, user, stop=()):
        """Goes to the provider by `url`, enters `user`, and follows the way back."""
        at, status, data = self.go(url, stop)
        if b"<form" not in data:
            return at, status, data
        assert status == 200, (at, status, data)
        return self.go(at, stop, body=urllib.parse.urlencode({"user": user, "do": "enter"}))


def access_token(provider, user, redirect="http://127.0.0.1:1/cb"):
    """A JWT of the audience API, by the public client `cli`."""
    import base64
    import hashlib
    verifier = "v" * 43
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
    browser = Browser()
    at, _, _ = browser.log_in(f"{provider.issuer}/auth?" + urllib.parse.urlencode({
        "client_id": "cli", "response_type": "code", "redirect_uri": redirect, "scope": "openid",
        "code_challenge": challenge.decode(), "code_challenge_method": "S256"}), user,
        stop=(redirect,))
    code = re.search(r"[?&]code=([^&]+)", at)
    assert code, at
    status, _, data = browser.ask(f"{provider.issuer}/token", urllib.parse.urlencode({
        "grant_type": "authorization_code", "code": urllib.parse.unquote(code[1]),
        "redirect_uri": redirect, "client_id": "cli", "code_verifier": verifier}))
    assert status == 200, data
    return json.loads(data)["access_token"]
