"""Tenants, keys and roles: who sees and does what, over every route; quotas under parallel creates.

Usage: test_tenants.py SERVER BROKER EXECD SANDBOXCTL. TAP on standard output. Needs root.
"""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import sys
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import route_rows  # noqa: E402
import tap  # noqa: E402
from server_process import ServerProcess, wait_for, why_not  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:5]]
SERVER = None
ROLES = ("read_only", "operator", "admin")
MARK = "planted-4e1f"  # in everything that another tenant owns
BOX = {"image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"], "timeout": 600,
       "resourceLimits": {"cpu": "500m", "memory": "128Mi"}}


def ask(method, path, body=None, key="", status=200, headers=None):
    """The answer's body; fails on another status."""
    got, _, answer = SERVER.request(method, path, body, key=key, headers=headers)
    assert got == status, (method, path, got, answer)
    return answer


def make_key(name, role, tenant=None, **fields):
    body = {"name": name, "role": role, **({"tenant": tenant} if tenant else {}), **fields}
    return ask("POST", "/v1/keys", body, status=201)


def make_tenant(name, **quota):
    return ask("POST", "/v1/tenants", {"name": name, "quota": quota}, status=201)


def create(key, status=202, **fields):
    return ask("POST", "/v1/sandboxes", {**BOX, **fields}, key=key, status=status)


def delete(sandbox):
    ask("DELETE", f"/v1/sandboxes/{sandbox}", status=204)


# --- keys ---


def a_key_is_shown_once_and_says_who_it_is():
    made = make_key("first", "operator", "default")
    assert made["key"].startswith("osbk_") and len(made["key"]) == 50, made
    shown = ask("GET", f"/v1/keys/{made['id']}")
    assert "key" not in shown and shown["name"] == "first" and shown["role"] == "operator", shown
    listed = ask("GET", "/v1/keys")["items"]
    assert [k["builtin"] for k in listed if k["id"] != made["id"]] == [True], listed
    who = ask("GET", "/v1/whoami", key=made["key"])
    assert who == {"principal": f"key:{made['id']}", "name": "first", "tenant": "default",
                   "allTenants": False, "role": "operator", "authentication": "api_key"}, who
    admin = ask("GET", "/v1/whoami")
    assert admin["role"] == "admin" and admin["allTenants"], admin
    ask("POST", "/v1/keys", {"name": "first", "role": "admin", "tenant": "default"}, status=409)
    ask("DELETE", f"/v1/keys/{made['id']}", status=204)
    ask("GET", "/v1/whoami", key=made["key"], status=401)
    ask("DELETE", f"/v1/keys/{made['id']}", status=404)


def the_store_has_no_key_itself():
    made = make_key("hashed", "read_only")
    secret = made["key"][-24:]
    for path in (SERVER.state / "server").rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path
    assert secret not in SERVER.log()
    ask("DELETE", f"/v1/keys/{made['id']}", status=204)


def a_key_expires_rotates_and_survives_a_restart():
    made = make_key("old", "operator")
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3))
    brief = make_key("brief", "operator", expiresAt=soon)
    assert ask("GET", "/v1/whoami", key=brief["key"])["expiresAt"].startswith(soon[:-1])
    turned = ask("POST", f"/v1/keys/{made['id']}/rotate", {"graceSeconds": 3600})
    assert turned["id"] == made["id"] and turned["key"] != made["key"], turned
    ask("GET", "/v1/whoami", key=made["key"])
    ask("GET", "/v1/whoami", key=turned["key"])
    SERVER.restart()
    ask("GET", "/v1/whoami", key=made["key"])
    assert ask("GET", "/v1/whoami", key=turned["key"])["name"] == "old"
    last = ask("POST", f"/v1/keys/{made['id']}/rotate")
    ask("GET", "/v1/whoami", key=turned["key"], status=401)
    ask("GET", "/v1/whoami", key=last["key"])
    wait_for(lambda: SERVER.request("GET", "/v1/whoami", key=brief["key"])[0] == 401,
             "the key to expire")
    for key in (made, brief):
        ask("DELETE", f"/v1/keys/{key['id']}", status=204)


def refuses_keys_that_make_no_sense():
    for body in ({"role": "admin"}, {"name": "x"}, {"name": "x", "role": "root"},
                 {"name": "", "role": "admin"}, {"name": "x" * 64, "role": "admin"},
                 {"name": "x", "role": "sandbox"}, {"name": "x", "role": "admin", "sandboxId": "y"},
                 {"name": "x", "role": "admin", "expiresAt": "2001-01-01T00:00:00Z"}):
        assert "code" in ask("POST", "/v1/keys", body, status=400), body
    ask("POST", "/v1/keys", {"name": "x", "role": "admin", "tenant": "nobody"}, status=404)
    builtin = ask("GET", "/v1/keys")["items"][0]
    assert ask("DELETE", f"/v1/keys/{builtin['id']}", status=409)["code"] == "KEY::BUILTIN"
    for name in ("", "A", "a--b", "x" * 41, "a_b", "-a"):
        ask("POST", "/v1/tenants", {"name": name}, status=400)
    for quota in ({"sandboxes": -1}, {"cpu": "much"}, {"memory": 5}, {"unknown": 1}):
        ask("POST", "/v1/tenants", {"name": "x", "quota": quota}, status=400)


def an_admin_of_a_tenant_stays_in_it():
    make_tenant("inner")
    admin = make_key("chief", "admin", "inner")["key"]
    own = ask("POST", "/v1/keys", {"name": "mate", "role": "admin"}, key=admin, status=201)
    assert own["tenant"] == "inner", own
    ask("POST", "/v1/keys", {"name": "m", "role": "admin", "tenant": "default"}, key=admin,
        status=404)
    ask("POST", "/v1/tenants", {"name": "more"}, key=admin, status=403)
    ask("PATCH", "/v1/tenants/inner", {"quota": {"sandboxes": None}}, key=admin, status=403)
    assert [t["name"] for t in ask("GET", "/v1/tenants", key=admin)["items"]] == ["inner"]
    listed = ask("GET", "/v1/keys", key=admin)["items"]
    assert {k["tenant"] for k in listed} == {"inner"} and len(listed) == 2, listed
    assert ask("DELETE", "/v1/tenants/inner", status=409)["code"] == "TENANT::IN_USE"
    for key in listed:
        ask("DELETE", f"/v1/keys/{key['id']}", status=204)
    ask("DELETE", "/v1/tenants/inner", status=204)
    ask("GET", "/v1/tenants/inner", status=404)


# --- every route, every role, another tenant's things ---


class World:
    """Two tenants. What `victim` owns is marked; `thief` has a key of each role."""

    def __init__(self):
        make_tenant("victim")
        make_tenant("thief")
        self.victim = make_key("victim", "admin", "victim")["key"]
        self.keys = {role: make_key(f"thief-{role}", role, "thief")["key"] for role in ROLES}
        self.box = create(self.victim, metadata={"name": MARK}, env={"V": MARK})["id"]
        self.victim_key = ask("POST", "/v1/keys", {"name": MARK, "role": "read_only"},
                              key=self.victim, status=201)["id"]
        ask("POST", "/v1/volumes", {"name": f"v-{MARK}"}, key=self.victim, status=201)
        ask("POST", "/v1/pools", {
            "name": f"p-{MARK}", "template": {**{k: BOX[k] for k in ("image", "entrypoint",
                                                                    "resourceLimits")}},
            "capacitySpec": {"bufferMax": 0, "bufferMin": 0, "poolMax": 1, "poolMin": 0}},
            key=self.victim, status=201)
        made = SERVER.request("POST", f"/v1/sandboxes/{self.box}/snapshots", {"name": MARK},
                              key=self.victim)
        self.snapshot = made[2]["id"] if made[0] == 202 else None

    def close(self):
        delete(self.box)
        ask("DELETE", f"/v1/volumes/v-{MARK}", key=self.victim, status=204)
        ask("DELETE", f"/v1/pools/p-{MARK}", key=self.victim, status=204)
        if self.snapshot:
            wait_for(lambda: SERVER.request("DELETE", f"/v1/snapshots/{self.snapshot}")[0] == 204,
                     "the snapshot to be deleted")

    def fill(self, path):
        """The path with what the victim owns."""
        for name, value in (("sandboxId", self.box), ("snapshotId", self.snapshot or MARK),
                            ("volumeName", f"v-{MARK}"), ("poolName", f"p-{MARK}"),
                            ("tenantName", "victim"), ("keyId", self.victim_key),
                            ("port", "44772"), ("image", "host")):
            path = path.replace("{%s}" % name, value)
        path = path.replace("*", "command").replace("{ticket}", "x" * 32)
        assert "{" not in path, f"nothing is known to fill in: {path}"
        return path


BODIES = {"/sandboxes": {**BOX, "snapshotId": None}, "/keys": {"name": "n", "role": "admin",
                                                              "tenant": "victim"},
          "/volumes": {}, "/pools": {}, "/tenants": {"name": "made"},
          "/pools/{poolName}": {"capacitySpec": {"bufferMin": 0, "bufferMax": 1, "poolMin": 0,
                                                 "poolMax": 1}}}


def every_route_has_a_row():
    assert len(route_rows.routes(PROGRAMS[0])) > 100
    every = route_rows.ROWS
    try:  # one that is missing is noticed
        route_rows.ROWS = every[:-1]
        route_rows.routes(PROGRAMS[0])
    except AssertionError as error:
        assert "without a row in route_rows.py: [('GET', '/')]" in str(error), error
    else:
        raise AssertionError("a route without a row passes")
    finally:
        route_rows.ROWS = every


def no_route_gives_what_another_tenant_owns():
    world = World()
    try:
        checked, wrong = 0, []
        for method, path, needs, kind in route_rows.requests(PROGRAMS[0]):
            bare = route_rows.bare(path)
            if kind in (route_rows.OPEN, route_rows.SHARED, route_rows.STREAM):
                continue  # /events has a test of its own
            for role, key in world.keys.items():
                body = BODIES.get(bare, {}) if method in ("POST", "PUT", "PATCH") else None
                if method == "POST" and bare == "/sandboxes":
                    body = {"snapshotId": world.snapshot or MARK, "resourceLimits": {}}
                status, _, answer = SERVER.request(method, world.fill(path), body, key=key)
                text = answer.decode("latin-1") if isinstance(answer, bytes) else json.dumps(answer)
                checked += 1
                if bare == "/audit" and status == 200:  # has what the thief itself asked for
                    assert {e["tenant"] for e in answer["items"]} == {"thief"}, answer
                    continue
                named = kind in (route_rows.NAMED, route_rows.TICKET)
                if (named and status not in (403, 404)) or status >= 500 or \
                        (not named and status == 202) or world.box in text.replace(
                            f"'{world.box}'", "") or (MARK in text and status < 300) or \
                        (needs and not route_rows.may(role, needs) and "/proxy/" not in path
                         and status != 403):
                    wrong.append((method, path, role, status, text[:200]))
        assert checked > 300, checked
        assert not wrong, "\n".join(map(str, wrong))
        # The same paths exist for their owner, so that the above can fail.
        assert ask("GET", f"/v1/sandboxes/{world.box}", key=world.victim)["id"] == world.box
        assert len(ask("GET", "/v1/volumes", key=world.victim)["items"]) == 1
        assert len(ask("GET", "/v1/pools", key=world.victim)["items"]) == 1
        assert ask("GET", "/v1/sandboxes", key=world.victim)["pagination"]["totalItems"] == 1
        assert ask("GET", "/v1/sandboxes", key=world.keys["admin"])["items"] == []
    finally:
        world.close()


NOBODYS = {"sandboxId": "00000000-0000-4000-8000-000000000000", "port": "44772", "image": "none:1",
           "snapshotId": "none", "volumeName": "none", "poolName": "none", "tenantName": "none",
           "keyId": "none", "ticket": "x" * 32}


def every_route_takes_the_roles_that_it_should():
    """Each route with each role, a key of a sandbox and none, for things that are not there: a role
    that is too low is told so, one that is not is told something else."""
    box = create("")["id"]
    keys = {role: make_key(f"own-{role}", role, "default") for role in ROLES}
    guest = make_key("own-sandbox", "sandbox", sandboxId=box)
    wrong, checked = [], 0

    def told(key, method, path, body):
        nonlocal checked
        checked += 1
        status, _, answer = SERVER.request(method, path, body, key=key)
        return status, answer.get("code") if isinstance(answer, dict) else None

    try:
        for method, path, needs, kind in route_rows.requests(PROGRAMS[0]):
            filled = path.replace("*", "ping")
            for name, value in NOBODYS.items():
                filled = filled.replace("{%s}" % name, value)
            assert "{" not in filled, filled
            body = {} if method in ("POST", "PUT", "PATCH") else None
            if needs is None:
                got = told(None, method, filled, body)
                if got[0] in (401, 403) or got[0] >= 500:
                    wrong.append((method, path, "nobody", got))
                continue
            got = told(None, method, filled, body)
            if got[0] != 401:
                wrong.append((method, path, "nobody", got))
            for role in ROLES:
                refused = not route_rows.may(role, needs)
                if kind == route_rows.STREAM and not refused:
                    continue
                got = told(keys[role]["key"], method, filled, body)
                # The role counts for a sandbox that the key sees; another is not there.
                if "/proxy/" in path:
                    refused = refused and got != (404, "DOCKER::SANDBOX_NOT_FOUND")
                if (got == (403, "FORBIDDEN")) != refused or got[0] == 401 or got[0] >= 500:
                    wrong.append((method, path, role, got))
            got = told(guest["key"], method, filled, body)
            allowed = f"{method} {route_rows.bare(path)}" in route_rows.OF_SANDBOX or \
                "/proxy/" in path
            if (got == (403, "FORBIDDEN")) == allowed or got[0] >= 500 or \
                    (got[0] < 300 and route_rows.bare(path) != "/whoami"):
                wrong.append((method, path, "sandbox", got))
        assert not wrong, "\n".join(map(str, wrong))
        assert checked > 500, checked
        reader = keys["read_only"]["key"]
        for method, path in (("DELETE", ""), ("POST", "/pause"), ("GET", "/endpoints/44772"),
                             ("GET", "/proxy/44772/ping"), ("POST", "/proxy/44772/command")):
            refusal = ask(method, f"/v1/sandboxes/{box}{path}", {} if method == "POST" else None,
                          key=reader, status=403)
            assert refusal["code"] == "FORBIDDEN", refusal
        ask("GET", f"/v1/sandboxes/{box}", key=reader)
        ask("GET", f"/v1/sandboxes/{box}/proxy/44772/ping", key=keys["operator"]["key"])
    finally:
        delete(box)
        for key in (*keys.values(), guest):
            ask("DELETE", f"/v1/keys/{key['id']}", status=204)


def a_token_of_a_sandbox_opens_that_sandbox_only():
    first, second = create("")["id"], create("")["id"]
    scoped = make_key("guest", "sandbox", sandboxId=first)
    assert scoped["tenant"] == "default" and scoped["sandboxId"] == first, scoped
    endpoint = ask("GET", f"/v1/sandboxes/{first}/endpoints/44772")
    token = endpoint["headers"]["OpenSandbox-Secure-Access"]
    try:
        for key, headers in ((scoped["key"], {}), (None, {"OpenSandbox-Secure-Access": token})):
            ask("GET", f"/v1/sandboxes/{first}/proxy/44772/ping", key=key, headers=headers)
            status = SERVER.request("GET", f"/v1/sandboxes/{second}/proxy/44772/ping", key=key,
                                    headers=headers)[0]
            assert status in (401, 404), status
        ask("GET", f"/v1/sandboxes/{first}", key=scoped["key"])
        ask("GET", f"/v1/sandboxes/{second}", key=scoped["key"], status=404)
        for method, path in (("GET", "/v1/sandboxes"), ("POST", "/v1/sandboxes"),
                             ("DELETE", f"/v1/sandboxes/{first}"), ("GET", "/v1/keys"),
                             ("POST", f"/v1/sandboxes/{first}/fork"), ("GET", "/v1/volumes")):
            ask(method, path, key=scoped["key"], status=403)
        for path in ("/v1/sandboxes", f"/v1/sandboxes/{first}"):
            ask("GET", path, key=token, status=401)
    finally:
        delete(first)
        delete(second)
        ask("DELETE", f"/v1/keys/{scoped['id']}", status=204)


def volumes_of_tenants_have_names_of_their_own():
    make_tenant("left")
    make_tenant("right")
    left, right = (make_key(f"k-{name}", "operator", name)["key"] for name in ("left", "right"))
    for key in (left, right, ""):
        ask("POST", "/v1/volumes", {"name": "data"}, key=key, status=201)
        ask("POST", "/v1/volumes", {"name": "data"}, key=key, status=409)
    assert [v["name"] for v in ask("GET", "/v1/volumes", key=left)["items"]] == ["data"]
    assert {v["name"] for v in ask("GET", "/v1/volumes")["items"]} == \
        {"data", "t--left--data", "t--right--data"}
    ask("GET", "/v1/volumes/t--right--data", key=left, status=404)
    mount = [{"name": "v", "mountPath": "/data", "pvc": {"claimName": "t--right--data"}}]
    assert create(left, 400, volumes=mount)["code"] == "VOLUME::INVALID_PVC_NAME"
    box = create(left, volumes=[{**mount[0], "pvc": {"claimName": "data"}}])["id"]
    SERVER.wait_state(box, "Running")
    assert ask("GET", "/v1/volumes/data", key=left)["usedBy"] == [box]
    assert ask("GET", "/v1/volumes/data", key=right)["usedBy"] == []
    assert create(left, 403, volumes=[{"name": "h", "mountPath": "/h", "host": {"path": "/tmp"}}])[
        "code"] == "FORBIDDEN"
    delete(box)
    for key in (left, right, ""):
        ask("DELETE", "/v1/volumes/data", key=key, status=204)


# --- lists ---


def listed(key, query=""):
    """All pages of a list: ids, newest first; the counts must fit."""
    found, page = [], 1
    while True:
        body = ask("GET", f"/v1/sandboxes?pageSize=7&page={page}{query}", key=key)
        found += [(box["id"], box["status"]["state"], box.get("metadata") or {})
                  for box in body["items"]]
        if not body["pagination"]["hasNextPage"]:
            assert body["pagination"]["totalItems"] == len(found), (query, body["pagination"])
            return found
        page += 1


def lists_are_filtered_as_a_look_at_each_would_do():
    choose = random.Random(20)
    for name in ("one", "two"):
        make_tenant(name)
    keys = {name: make_key(f"lister-{name}", "admin", name)["key"] for name in ("one", "two")}
    ask("POST", "/v1/pools", {
        "name": "claimed", "template": {k: BOX[k] for k in ("image", "entrypoint",
                                                            "resourceLimits")},
        "capacitySpec": {"bufferMax": 1, "bufferMin": 1, "poolMax": 9, "poolMin": 1}},
        key=keys["one"], status=201)
    labels = [{}, {"team": "a"}, {"team": "b"}, {"team": "a", "n": "1"}, {"n": "1"}]
    filters = ["&metadata=team%3Da", "&metadata=team%3Db", "&metadata=n%3D1",
               "&metadata=team%3Da%26n%3D1", "&metadata=team%3Dnone", "&state=Paused",
               "&state=Running&metadata=team%3Da", "&state=Paused&metadata=team%3Da%26n%3D1",
               "&state=Nothing", ""]
    boxes = []

    def step():
        what = choose.random()
        tenant = choose.choice(("one", "two"))
        if what < 0.45 or len(boxes) < 4:
            fields = {"extensions": {"poolRef": "claimed"}, "image": None, "entrypoint": None,
                      "resourceLimits": {}} if tenant == "one" and what < 0.15 else {}
            body = {**BOX, "metadata": choose.choice(labels), **fields}
            made = ask("POST", "/v1/sandboxes", {k: v for k, v in body.items() if v is not None},
                       key=keys[tenant], status=202)["id"]
            SERVER.wait_state(made, "Running")
            boxes.append(made)
            return
        box = choose.choice(boxes)
        path = f"/v1/sandboxes/{box}"
        if what < 0.65:
            old = ask("GET", path).get("metadata") or {}
            ask("PATCH", path + "/metadata", {**dict.fromkeys(old), **choose.choice(labels)})
        elif what < 0.85:
            paused = ask("GET", path)["status"]["state"] == "Paused"
            ask("POST", path + ("/resume" if paused else "/pause"), status=202)
        else:
            boxes.remove(box)
            delete(box)

    def compare():
        for key in ("", *keys.values()):
            everything = listed(key)
            for query in filters:
                wanted = dict(urllib.parse.parse_qsl(query))
                pairs = dict(urllib.parse.parse_qsl(wanted.get("metadata", "")))
                expected = [box for box in everything
                            if wanted.get("state") in (None, box[1])
                            and pairs.items() <= box[2].items()]
                assert listed(key, query) == expected, (query, expected)

    for _ in range(6):
        for _ in range(8):
            step()
        compare()
        created = [ask("GET", f"/v1/sandboxes/{box[0]}")["createdAt"] for box in listed("")]
        assert created == sorted(created, reverse=True), created
    assert {box[0] for box in listed("")} == set(boxes)
    SERVER.restart()
    compare()
    for box in boxes:
        delete(box)
    ask("DELETE", "/v1/pools/claimed", key=keys["one"], status=204)
    assert listed("") == [] and listed("", filters[0]) == []


# --- quotas ---


def parallel_creates(key, count):
    def one(_):
        status, _, body = SERVER.request("POST", "/v1/sandboxes", BOX, key=key)
        return status, body.get("code"), body.get("id")

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def quotas_hold_under_100_parallel_creates():
    make_tenant("small", sandboxes=5)
    key = make_key("small", "operator", "small")["key"]
    got = parallel_creates(key, 100)
    made = [box for status, _, box in got if status == 202]
    assert len(made) == 5, got
    assert {(status, code) for status, code, _ in got if status != 202} == \
        {(403, "QUOTA_EXCEEDED")}, got
    usage = ask("GET", "/v1/tenants/small")["usage"]
    assert usage == {"sandboxes": 5, "cpuMillicores": 2500, "memoryBytes": 5 * 128 << 20,
                     "diskBytes": 0}, usage
    delete(made[0])
    again = create(key)["id"]
    create(key, 403)
    SERVER.restart()
    create(key, 403)
    for box in made[1:] + [again]:
        delete(box)
    assert ask("GET", "/v1/tenants/small")["usage"]["sandboxes"] == 0


def amounts_and_rates_are_bounded():
    make_tenant("tight", memory="300Mi", cpu="2", createsPerMinute=3)
    key = make_key("tight", "operator", "tight")["key"]
    first, second = create(key)["id"], create(key)["id"]
    refusal = create(key, 403)
    assert refusal["code"] == "QUOTA_EXCEEDED" and "memory" not in refusal["message"][:6], refusal
    ask("PATCH", "/v1/tenants/tight", {"quota": {"memory": None}})
    third = create(key)["id"]
    assert create(key, 429)["code"] == "RATE_LIMITED"
    ask("PATCH", "/v1/tenants/tight", {"quota": {"requestsPerSecond": 5}})
    statuses = [SERVER.request("GET", "/v1/sandboxes", key=key)[0] for _ in range(60)]
    assert statuses[0] == 200 and 429 in statuses, statuses
    for box in (first, second, third):
        delete(box)


# --- a trusted proxy ---


def a_trusted_proxy_names_users():
    config = {"auth": {"mode": "api_key_and_user"}, "server": {"api_key": "proxy-key"}}
    with ServerProcess(*PROGRAMS, config=config) as server:
        def by(user=None, team=None, roles=None, path="/v1/whoami", method="GET", body=None):
            headers = {name: value for name, value in (
                ("X-OpenSandbox-User", user), ("X-OpenSandbox-Team", team),
                ("X-OpenSandbox-Roles", roles)) if value}
            status, _, answer = server.request(method, path, body, headers=headers)
            return status, answer

        for who in ((None, "default", "operator"), ("ann", "default", None),
                    ("ann", None, "operator"), ("ann", "default", "king")):
            status, answer = by(*who)
            assert (status, answer["code"]) == (401, "MISSING_USER"), (who, answer)
        status, answer = by("ann", "nowhere", "operator")
        assert (status, answer["code"]) == (403, "FORBIDDEN"), answer
        status, answer = by("ann", None, "service_admin")
        assert status == 200 and answer["allTenants"], answer
        status, answer = by("ann", None, "service_admin", "/v1/tenants", "POST", {"name": "red"})
        assert status == 201, answer
        status, answer = by("bob", "red", "read_only, operator")
        assert (answer["user"], answer["tenant"], answer["role"], answer["allTenants"]) == \
            ("bob", "red", "operator", False), answer
        status, answer = by("bob", "red", "operator", "/v1/sandboxes", "POST", BOX)
        assert status == 202, answer
        assert answer["metadata"] == {"access.owner": "bob", "access.team": "red"}, answer
        box = f"/v1/sandboxes/{answer['id']}"
        assert by("eve", "default", "operator", box)[0] == 404
        assert by("eve", "red", "read_only", box, "DELETE")[0] == 403
        assert by("eve", "red", "operator", box, "DELETE")[0] == 204


def main():
    global SERVER
    tap.skip_all(why_not())
    with contextlib.ExitStack() as stack:
        SERVER = stack.enter_context(ServerProcess(*PROGRAMS))
        return tap.run_tests([
            a_key_is_shown_once_and_says_who_it_is,
            the_store_has_no_key_itself,
            a_key_expires_rotates_and_survives_a_restart,
            refuses_keys_that_make_no_sense,
            an_admin_of_a_tenant_stays_in_it,
            every_route_has_a_row,
            no_route_gives_what_another_tenant_owns,
            every_route_takes_the_roles_that_it_should,
            a_token_of_a_sandbox_opens_that_sandbox_only,
            volumes_of_tenants_have_names_of_their_own,
            lists_are_filtered_as_a_look_at_each_would_do,
            quotas_hold_under_100_parallel_creates,
            amounts_and_rates_are_bounded,
            a_trusted_proxy_names_users,
        ])


if __name__ == "__main__":
    sys.exit(main())
