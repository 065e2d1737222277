#!/usr/bin/env python3
"""test_secrets.py SERVER BROKER EXECD SANDBOXCTL EGRESS OSB - secretEnv: programs inside use a
secret that they never hold. Through the real server, in a small internet of namespaces."""
import base64
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile

import egress_world
from server_process import SECONDS_MAX
from test_egress import World, same
from tls_world import TlsWorld

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
from tap import Tap, skip_all  # noqa: E402

SECRET = "s3cr3t-of-the-owner-42"
FIELD = {"API_KEY": {"value": SECRET, "hosts": ["secure.test"]}}


def shell(w, box, command):
    """Exit status and output of a shell command inside."""
    return w.inside(box, f"""(lambda p: (p.returncode, p.stdout + p.stderr))(
        __import__('subprocess').run({command!r}, shell=True, capture_output=True, text=True,
                                     timeout=60))""", 5)


def header_of(request, name):
    return [value for key, value in request["headers"] if key.lower() == name.lower()]


def puts_secrets_in(w, tls, tap):
    box = w.server.create(secretEnv=FIELD)
    inside = w.inside(box, "dict(os.environ)")
    tap.check("the variable has a placeholder",
              lambda: same((inside["API_KEY"][:11], len(inside["API_KEY"])), ("osb_secret_", 39)))
    tap.check("the value is not among them", lambda: same(SECRET in str(inside), False))
    curl = "curl -sS --max-time 30 "
    got = shell(w, box, curl + "-H \"Authorization: Bearer $API_KEY\" https://secure.test/a")
    sent = tls.take()
    tap.check("a header carries the value", lambda: same(
        [header_of(r, "Authorization") for r in sent], [[f"Bearer {SECRET}"]]))
    tap.check("what echoes it is redacted",
              lambda: same((got[0], SECRET in got[1], "xxx" in got[1] or "*" in got[1]
                            or "REDACTED" in got[1]), (0, False, True)))
    shell(w, box, curl + "-u \"user:$API_KEY\" https://secure.test/b")
    basic = "Basic " + base64.b64encode(f"user:{SECRET}".encode()).decode()
    tap.check("a password of basic authentication does", lambda: same(
        header_of(tls.take()[0], "Authorization"), [basic]))
    shell(w, box, curl + "\"https://secure.test/c?key=$API_KEY\"")
    tap.check("a query does", lambda: same(tls.take()[0]["target"], f"/c?key={SECRET}"))
    shell(w, box, curl + "-H 'Content-Type: application/json' "
          "-d \"{\\\"key\\\":\\\"$API_KEY\\\"}\" https://secure.test/d")
    tap.check("a JSON body does", lambda: same(tls.take()[0]["body"], f'{{"key":"{SECRET}"}}'))
    w.remove(box)


def refuses_elsewhere(w, tls, tap):
    box = w.server.create(secretEnv=FIELD)
    curl = "curl -s -o /dev/null -w '%{http_code}' --max-time 30 -H \"X-Key: $API_KEY\" "
    tap.check("another host over https is refused",
              lambda: same(shell(w, box, curl + "https://elsewhere.test/"), (0, "403")))
    tap.check("another host over http is refused",
              lambda: same(shell(w, box, curl + "http://other.test/"), (0, "403")))
    tap.check("its own host without TLS is refused",
              lambda: same(shell(w, box, curl + "http://secure.test/"), (0, "403")))
    tap.check("a body to another host is refused", lambda: same(shell(
        w, box, "curl -s -o /dev/null -w '%{http_code}' -d \"$API_KEY\" https://elsewhere.test/")
        [1] in ("403", "502", "000"), True))
    tap.check("none of them arrived", lambda: same(
        [r for r in tls.take() if "osb_secret_" in str(r) or SECRET in str(r)], []))
    without = shell(w, box, "curl -s -o /dev/null -w '%{http_code}' https://elsewhere.test/")
    tap.check("requests without the placeholder pass", lambda: same(without, (0, "200")))
    events = str(w.server.request("GET", f"/v1/sandboxes/{box}/diagnostics/events")[2])
    tap.check("diagnostics tell what was tried", lambda: same(
        ("elsewhere.test" in events, "placeholder" in events, SECRET in events),
        (True, True, False)))
    w.remove(box)


def files_with(folder, text):
    found = []
    for root, _, names in os.walk(folder):
        for name in names:
            path = pathlib.Path(root) / name
            with contextlib.suppress(FileNotFoundError):  # a removed sandbox goes meanwhile
                if path.is_file() and not path.is_symlink() and text.encode() in path.read_bytes():
                    found.append(str(path))
    return found


def never_tells(w, _, tap):
    box = w.server.create(secretEnv=FIELD, persistent=True)
    _, _, shown = w.server.request("GET", f"/v1/sandboxes/{box}")
    tap.check("GET shows names and hosts only",
              lambda: same(shown["secretEnv"], {"API_KEY": {"hosts": ["secure.test"]}}))
    answers = [str(w.server.request("GET", path)[2]) for path in (
        "/v1/sandboxes", f"/v1/sandboxes/{box}/diagnostics/inspect",
        f"/v1/sandboxes/{box}/diagnostics/summary", f"/v1/sandboxes/{box}/diagnostics/logs",
        f"/sandboxes/{box}/proxy/18080/policy", "/metrics")]
    tap.check("no answer has the value", lambda: same([SECRET in a for a in answers],
                                                      [False] * len(answers)))
    tap.check("inspect names the secret and its hosts",
              lambda: same("API_KEY for secure.test" in answers[1], True))
    status, _, snapshot = w.server.request("POST", f"/v1/sandboxes/{box}/snapshots", {})
    tap.check("a snapshot is made", lambda: same(status // 100, 2))
    tap.check("no file of the server has the value: store, state, log, snapshot",
              lambda: same(files_with(w.server.folder, SECRET), []))
    tap.check("the vault's API does not show it", lambda: same(w.server.request(
        "GET", f"/sandboxes/{box}/proxy/18080/credential-vault")[0], 404))
    w.server.request("DELETE", f"/v1/snapshots/{snapshot.get('id')}")
    w.remove(box)


def goes_on(w, tls, tap):
    """Through stop and start, forks, and changes of the policy."""
    box = w.server.create(secretEnv=FIELD, persistent=True)
    tls.take()
    ask = "curl -s -o /dev/null -w '%{http_code}' -H \"X-Key: $API_KEY\" https://secure.test/"
    first = w.inside(box, "os.environ['API_KEY']")

    def works(where):
        got = shell(w, where, ask)
        return got[1], [header_of(r, "X-Key") for r in tls.take()]

    tap.check("it works", lambda: same(works(box), ("200", [[SECRET]])))
    status, _, made = w.server.request("POST", f"/v1/sandboxes/{box}/fork", {"count": 1})
    assert status // 100 == 2, (status, made)
    fork = (made.get("items") or made.get("sandboxes") or [made])[0]["id"]
    w.server.wait_state(fork, "Running")
    tap.check("a fork has the same placeholder, and it works", lambda: same(
        (w.inside(fork, "os.environ['API_KEY']"), works(fork)), (first, ("200", [[SECRET]]))))
    w.remove(fork)
    assert w.server.request("POST", f"/v1/sandboxes/{box}/stop")[0] // 100 == 2
    w.server.wait_state(box, "Paused")
    assert w.server.request("POST", f"/v1/sandboxes/{box}/start")[0] // 100 == 2
    w.server.wait_state(box, "Running")
    tap.check("so has it after stop and start", lambda: same(
        (w.inside(box, "os.environ['API_KEY']"), works(box)), (first, ("200", [[SECRET]]))))
    tap.check("a policy that uncovers its host is refused", lambda: same(
        w.policy(box, "DELETE", ["secure.test"])[0], 400))
    w.remove(box)


def judges_requests(w, _, tap):
    def create(field, **more):
        status, _, body = w.server.request("POST", "/v1/sandboxes", {
            "image": {"uri": "host"}, "entrypoint": ["sleep", "9"], "resourceLimits": {},
            "secretEnv": field, **more})
        return status, str(body)

    good = {"value": SECRET, "hosts": ["secure.test"]}
    deny = {"defaultAction": "deny", "egress": [{"action": "allow", "target": "other.test"}]}
    for what, field, more in (
            ("no object", [], {}), ("no hosts", {"A": {"value": "x"}}, {}),
            ("empty hosts", {"A": {"value": "x", "hosts": []}}, {}),
            ("no value", {"A": {"hosts": ["secure.test"]}}, {}),
            ("an empty value", {"A": {"value": "", "hosts": ["secure.test"]}}, {}),
            ("a line break", {"A": {"value": SECRET + "\n", "hosts": ["secure.test"]}}, {}),
            ("no name of a variable", {"A-B": good}, {}),
            ("no host", {"A": {"value": SECRET, "hosts": ["http://secure.test/"]}}, {}),
            ("an address", {"A": {"value": SECRET, "hosts": ["203.0.113.60"]}}, {}),
            ("another field", {"A": {**good, "x": 1}}, {}),
            ("the same variable in env", {"A": good}, {"env": {"A": "b"}}),
            ("a host without a rule", {"A": good}, {"networkPolicy": deny}),
            ("too many", {f"A{i}": good for i in range(17)}, {}),
            ("a pool", {"A": good}, {"extensions": {"poolRef": "p"}})):
        tap.check(f"{what} is refused, and not repeated", lambda f=field, m=more: same(
            (lambda r: (r[0], SECRET in r[1]))(create(f, **m)), (400, False)))
    allow = {"defaultAction": "deny", "egress": [{"action": "allow", "target": "*.test"}]}
    box = w.server.create(secretEnv={"A": good}, networkPolicy=allow)
    tap.check("a wildcard rule covers a host",
              lambda: same(w.inside(box, "os.environ['A']")[:11], "osb_secret_"))
    w.remove(box)


def serves_osb(w, tls, tap, osb, folder):
    key = folder / "key"
    key.write_text(SECRET + "\n", encoding="utf-8")
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "OPEN_SANDBOX_DOMAIN": w.server.domain,
           "OPEN_SANDBOX_API_KEY": w.server.api_key, "API_KEY": SECRET}

    def run(*words):
        return subprocess.run([osb, *words], env=env, text=True, capture_output=True, check=False,
                              timeout=SECONDS_MAX)

    inside = ["--", "sh", "-c", "curl -s -o /dev/null -H \"X-Key: $API_KEY\" https://secure.test/"
              " && echo $API_KEY"]
    for what, text in (("the environment", "API_KEY@secure.test"),
                       ("a file", f"API_KEY={key}@secure.test,elsewhere.test")):
        done = run("run", "--rm", "--image", "host", "--secret", text, *inside)
        tap.check(f"osb run --secret takes it from {what}", lambda d=done: same(
            (d.returncode, d.stdout[:11], [header_of(r, "X-Key") for r in tls.take()]),
            (0, "osb_secret_", [[SECRET]])))
    for text in ("API_KEY", "@secure.test", "NOT_SET@secure.test", "API_KEY=@secure.test",
                 "API_KEY=/nowhere@secure.test"):
        done = run("run", "--rm", "--image", "host", "--secret", text, *inside)
        tap.check(f"--secret {text} is refused", lambda d=done: same(
            (d.returncode != 0, SECRET in d.stdout + d.stderr), (True, False)))


def main():
    *programs, osb = sys.argv[1:]
    osb = os.path.abspath(osb)
    skip_all(egress_world.why_not())
    egress_world.enter()
    tap = Tap()
    with tempfile.TemporaryDirectory(prefix="osb-secrets-") as name:
        folder = pathlib.Path(name)
        with TlsWorld(folder) as tls, World(programs, {"egress": {"ca_file": str(tls.ca)}}) as w:
            tls.start(w.internet)
            for test in (puts_secrets_in, refuses_elsewhere, never_tells, goes_on,
                         judges_requests):
                try:
                    test(w, tls, tap)
                except Exception as e:  # the next test still runs
                    tap.check(f"{test.__name__} runs to its end",
                              lambda e=e: (_ for _ in ()).throw(e))
            serves_osb(w, tls, tap, osb, folder)
            tap.check("the log does not have the value",
                      lambda: same(SECRET in w.server.log(), False))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
