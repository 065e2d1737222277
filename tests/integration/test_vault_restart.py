#!/usr/bin/env python3
"""test_vault_restart.py SERVER BROKER EXECD SANDBOXCTL EGRESS - what becomes of credential vaults
and values of secretEnv when egress or the server is killed: sealed and used again, or lost and
reported. Through the real server, in a small internet of namespaces."""
import os
import pathlib
import re
import signal
import sys
import tempfile

import egress_world
from broker_process import wait_for
from test_egress import World, same
from test_secrets import FIELD, SECRET, files_with, header_of, shell
from tls_world import TlsWorld

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
from tap import Tap, skip_all  # noqa: E402

VALUE, TOKEN = "v4lue-of-the-vault-77", "PLACE-OF-THE-TOKEN"
VAULT = {
    "credentials": [{"name": "key", "source": {"value": VALUE}}],
    "bindings": [
        {"name": "bearer", "match": {"hosts": ["secure.test"], "paths": ["/bearer"]},
         "auth": {"type": "bearer", "credential": "key"}},
        {"name": "token", "match": {"hosts": ["secure.test"], "paths": ["/token"]},
         "auth": {"type": "passthrough", "substitutions": [
             {"credential": "key", "placeholder": TOKEN, "in": ["header"]}]}},
        {"name": "pinned", "match": {"hosts": ["pinned.test"], "schemes": ["http"], "ports": [80]},
         "auth": {"type": "bearer", "credential": "key"}}]}
POLICY = {"defaultAction": "allow", "egress": [{"action": "allow", "target": "secure.test"},
                                               {"action": "allow", "target": "pinned.test"}]}
CURL = "curl -s -o /dev/null -w '%{http_code}' --max-time 30 "


class Box:
    """A sandbox with a secret in its environment and a vault."""

    def __init__(self, w, tls, **fields):
        self.w, self.tls = w, tls
        self.id = w.server.create(secretEnv=FIELD, networkPolicy=POLICY,
                                  credentialProxy={"enabled": True}, **fields)
        made = self.vault("POST", VAULT)
        assert made[0] == 201, made
        made = self.vault("PATCH", {"expectedRevision": 1})
        assert made[0] == 200, made

    def vault(self, method="GET", body=None):
        return self.w.server.request(method, f"/sandboxes/{self.id}/proxy/18080/credential-vault",
                                     body)

    def file(self):
        return next(self.w.server.folder.rglob(f"sandboxes/{self.id}/egress-vault"))

    def get(self, path, header=""):
        """Status, and what the server got: None when nothing arrived."""
        self.tls.take()
        status = shell(self.w, self.id, f"{CURL} {header} https://secure.test{path}")[1]
        sent = self.tls.take()
        return status, sent[0] if sent else None

    def uses(self):
        """What a request by each way carried."""
        env = self.get("/env", "-H \"X-Key: $API_KEY\"")
        token = self.get("/token", f"-H 'X-Token: {TOKEN}'")
        bearer = self.get("/bearer")
        return [(status, header_of(sent, name) if sent else None) for (status, sent), name in
                ((env, "X-Key"), (token, "X-Token"), (bearer, "Authorization"))]

    def events(self):
        return str(self.w.server.request(
            "GET", f"/v1/sandboxes/{self.id}/diagnostics/events")[2])

    def metric(self, name):
        text = self.w.server.request(
            "GET", f"/sandboxes/{self.id}/proxy/18080/metrics")[2]
        text = text.decode() if isinstance(text, bytes) else str(text)
        found = re.search(rf"\w*{name}\{{[^}}]*\}} (\d+)", text)
        return int(found[1]) if found else None


USED = [("200", [SECRET]), ("200", [VALUE]), ("200", [f"Bearer {VALUE}"])]
# A binding without a placeholder has nothing that could be told from other requests.
LOST = [("403", None), ("403", None), ("200", [])]


def kill_egress(w, box):
    old = w.egress_pid()
    os.kill(old, signal.SIGKILL)
    w.wait_for_egress(box.id, old)


def kill_server(w, box):
    w.server.kill9()
    w.server.start()
    w.wait_for_egress(box.id)


def survives_sealed(w, tls, tap):
    box = Box(w, tls)
    placeholder = w.inside(box.id, "os.environ['API_KEY']")
    tap.check("sealed: all is used at first", lambda: same(box.uses(), USED))
    for what, kill in (("egress", kill_egress), ("the server", kill_server)):
        kill(w, box)
        tap.check(f"sealed: all is used again after a kill -9 of {what}",
                  lambda: same(box.uses(), USED))
        tap.check("... at its revision", lambda: same(
            (box.vault()[0], box.vault()[2]["revision"]), (200, 2)))
    tap.check("sealed: nothing is reported as lost", lambda: same(
        ("vault.lost" in box.events(), box.metric("sandbox_vaults_lost_total")), (False, 0)))
    changed = box.vault("PATCH", {"expectedRevision": 2, "bindings": {"delete": ["bearer"]}})
    kill_egress(w, box)
    tap.check("sealed: the last change counts", lambda: same(
        (changed[0], box.vault()[2]["revision"], box.get("/bearer")[1] is not None,
         header_of(box.get("/bearer")[1], "Authorization")), (200, 3, True, [])))
    for value in (SECRET, VALUE):
        tap.check("sealed: no file of the server has the value", lambda value=value: same(
            files_with(w.server.folder, value), []))
    tap.check("sealed: only its account reads the file",
              lambda: same(box.file().stat().st_mode & 0o777, 0o600))
    same(box.vault("DELETE")[0], 204)
    kill_egress(w, box)
    tap.check("sealed: a deleted vault stays deleted, the environment's secret is used", lambda:
              same((box.vault()[0], "lost" in str(box.vault()[2]),
                    box.get("/env", "-H \"X-Key: $API_KEY\"")[0]), (404, False, "200")))
    tap.check("the placeholder is the same", lambda: same(
        w.inside(box.id, "os.environ['API_KEY']"), placeholder))
    file = box.file()
    w.remove(box.id)
    tap.check("sealed: nothing is left of a removed sandbox",
              lambda: wait_for(lambda: not file.exists(), "its file to go"))


def reports(tap, box, mode):
    status, _, text = box.vault()
    tap.check(f"{mode}: GET of the vault says that it is lost", lambda: same(
        (status, "credential vault not found" in str(text), "lost" in str(text)),
        (404, True, True)))
    tap.check(f"{mode}: an event in the diagnostics tells it",
              lambda: same("vault.lost" in box.events(), True))
    tap.check(f"{mode}: a metric tells it",
              lambda: same(box.metric("sandbox_vaults_lost_total"), 1))
    tap.check(f"{mode}: the log tells it",
              lambda: same("a credential vault is lost" in box.w.server.log(), True))
    tap.check(f"{mode}: requests with placeholders are refused, and do not arrive",
              lambda: same(box.uses(), LOST))
    tap.check(f"{mode}: a body with one does not arrive", lambda: same(
        (box.get("/body", "-d \"$API_KEY\"")[0] in ("403", "502", "000"),
         [r for r in box.tls.requests if "osb_secret_" in str(r)]), (True, [])))
    tap.check(f"{mode}: ... nor to other hosts", lambda: same(shell(
        box.w, box.id, CURL + "-H \"X-Key: $API_KEY\" https://elsewhere.test/")[1], "403"))
    tap.check(f"{mode}: refusals say why", lambda: same(
        "placeholder was lost" in box.events(), True))


def does_not_open_what_was_changed(w, tls, tap):
    box, other = Box(w, tls), Box(w, tls)
    data = bytearray(box.file().read_bytes())
    data[-1] ^= 1
    box.file().write_bytes(data)
    kill_egress(w, box)
    reports(tap, box, "damaged")
    tap.check("damaged: another sandbox is not concerned", lambda: same(other.uses(), USED))
    box.file().write_bytes(other.file().read_bytes())
    kill_egress(w, box)
    tap.check("a vault of another sandbox does not open", lambda: same(box.uses(), LOST))
    w.remove(box.id)
    w.remove(other.id)


def is_lost(w, tls, tap):
    box = Box(w, tls, persistent=True)
    placeholder = w.inside(box.id, "os.environ['API_KEY']")
    tap.check("lost: all is used at first", lambda: same(box.uses(), USED))
    kill_egress(w, box)
    reports(tap, box, "lost")
    same(box.vault("POST", VAULT)[0], 201)
    tap.check("lost: a new vault is used; the environment's secret stays lost",
              lambda: same(box.uses(), LOST[:1] + USED[1:]))
    kill_server(w, box)
    reports(tap, box, "lost with the server")
    same(box.vault("DELETE")[0], 204)
    tap.check("lost: DELETE ends the report for the vault", lambda: same(
        (box.vault()[0], "lost" in str(box.vault()[2])), (404, False)))
    status, _, body = w.server.request("POST", f"/v1/sandboxes/{box.id}/fork", {"count": 1})
    tap.check("lost: a fork is refused, with the reason", lambda: same(
        (status // 100, "are lost" in str(body)), (5, True)))
    assert w.server.request("POST", f"/v1/sandboxes/{box.id}/stop")[0] // 100 == 2
    w.server.wait_state(box.id, "Paused")
    assert w.server.request("POST", f"/v1/sandboxes/{box.id}/start")[0] // 100 == 2
    w.server.wait_state(box.id, "Running")
    tap.check("lost: a start again has the same placeholder, and is refused", lambda: same(
        (w.inside(box.id, "os.environ['API_KEY']"), box.uses()[0]), (placeholder, LOST[0])))
    w.remove(box.id)


def pinned(w, tls, tap, injects):
    """A name that no resolver knows, pinned to an address inside."""
    box = Box(w, tls)
    same(shell(w, box.id, "getent hosts pinned.test")[0] != 0, True)
    got = shell(w, box.id, "curl -s --max-time 30 --resolve pinned.test:80:203.0.113.20 "
                "http://pinned.test/headers -w '%{http_code}'")[1]
    want = (True, False) if injects else (False, True)
    tap.check(f"plain HTTP to a pinned name {'carries' if injects else 'gets no'} credential",
              lambda: same(("Authorization" in got, got.endswith("403")), want))
    w.remove(box.id)


def run(programs, tls, tap, keys, tests):
    with World(programs, {"egress": {"ca_file": str(tls.ca), **keys}}) as w:
        tls.start(w.internet)
        for test in tests:
            try:
                test(w, tls, tap)
            except Exception as e:  # the next test still runs
                tap.check(f"{test.__name__} runs to its end", lambda e=e: (_ for _ in ()).throw(e))
        for value in (SECRET, VALUE):
            tap.check("no file and no log has the value", lambda value=value: same(
                (files_with(w.server.folder, value), value in w.server.log()), ([], False)))


def main():
    programs = sys.argv[1:]
    skip_all(egress_world.why_not())
    egress_world.enter()
    tap = Tap()
    with tempfile.TemporaryDirectory(prefix="osb-vaults-") as name:
        with TlsWorld(pathlib.Path(name)) as tls:
            run(programs, tls, tap, {"vault_on_restart": "sealed", "http_credentials": "resolved"},
                [survives_sealed, does_not_open_what_was_changed,
                 lambda w, t, p: pinned(w, t, p, False)])
        with TlsWorld(pathlib.Path(name)) as tls:
            run(programs, tls, tap, {}, [is_lost, lambda w, t, p: pinned(w, t, p, True)])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
