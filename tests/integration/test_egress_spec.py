#!/usr/bin/env python3
"""test_egress_spec.py SERVER BROKER EXECD SANDBOXCTL EGRESS - specs/egress.yaml is what port 18080
answers: paths, methods, statuses and bodies. Needs openapi-spec-validator."""
import json
import pathlib
import sys

import egress_world
import jsonschema
import openapi_spec_validator
import yaml
from test_egress import World, same

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
from tap import ROOT, Tap, skip_all  # noqa: E402

SPEC = yaml.safe_load((ROOT / "specs/egress.yaml").read_text(encoding="utf-8"))
METHODS = ("get", "put", "post", "patch", "delete")
# Cannot be made to happen from outside: the kernel refuses, memory is out, a client without TLS.
NOT_PROVOKED = {"426", "500", "503"}
KEY = {"name": "k", "source": {"value": "s3cr3t-of-the-owner"}}
BIND = {"name": "b", "match": {"hosts": ["api.allowed.test"]},
        "auth": {"type": "bearer", "credential": "k"}}
RULE = {"action": "allow", "target": "other.test"}
# With vault: a sandbox with a credential proxy; without: one without. In order.
REQUESTS = [
    ("with", "get", "/healthz", None, 200),
    ("with", "get", "/policy", None, 200),
    ("with", "put", "/policy", {"defaultAction": "allow", "egress": [
        {"action": "allow", "target": "api.allowed.test"}]}, 200),
    ("with", "put", "/policy", {"defaultAction": "maybe"}, 400),
    ("without", "post", "/policy", {"defaultAction": "deny"}, 200),
    ("without", "post", "/policy", {"egress": [{"action": "allow", "target": ""}]}, 400),
    ("without", "put", "/policy", {"egress": [{**RULE, "methods": ["GET"]}]}, 400),
    ("with", "patch", "/policy", [{**RULE, "methods": ["GET"], "paths": ["/v1/*"]}], 200),
    ("with", "patch", "/policy", [{**RULE, "paths": ["v1"]}], 400),
    ("with", "patch", "/policy", [], 400),
    ("with", "delete", "/policy", ["other.test"], 200),
    ("with", "delete", "/policy", {}, 400),
    *[("without", method, "/policy", [RULE] * 9 if method == "patch" else
       ["x" * 2000000] if method == "delete" else {"egress": [
           {"action": "allow", "target": f"{i}.test"} for i in range(9)]}, 413)
      for method in ("put", "post", "delete")],
    ("without", "patch", "/policy", [{"action": "allow", "target": f"{i}.test"} for i in range(9)],
     413),
    ("with", "get", "/credential-vault", None, 404),
    ("with", "get", "/credential-vault/credentials", None, 404),
    ("with", "get", "/credential-vault/bindings", None, 404),
    ("with", "patch", "/credential-vault", {}, 404),
    ("with", "delete", "/credential-vault", None, 404),
    ("without", "post", "/credential-vault", {"credentials": [KEY], "bindings": []}, 412),
    ("without", "patch", "/credential-vault", {}, 412),
    ("without", "delete", "/credential-vault", None, 412),
    ("with", "post", "/credential-vault", {"credentials": KEY}, 400),
    ("with", "post", "/credential-vault", {"credentials": [KEY], "bindings": [BIND]}, 201),
    ("with", "post", "/credential-vault", {"credentials": [KEY], "bindings": [BIND]}, 409),
    ("with", "get", "/credential-vault", None, 200),
    ("with", "get", "/credential-vault/credentials", None, 200),
    ("with", "get", "/credential-vault/credentials/k", None, 200),
    ("with", "get", "/credential-vault/credentials/x", None, 404),
    ("with", "get", "/credential-vault/bindings", None, 200),
    ("with", "get", "/credential-vault/bindings/b", None, 200),
    ("with", "get", "/credential-vault/bindings/x", None, 404),
    ("with", "patch", "/credential-vault", {"expectedRevision": 7}, 409),
    ("with", "patch", "/credential-vault", {"credentials": {"delete": ["k"]}}, 400),
    ("with", "patch", "/credential-vault", {"bindings": {"delete": ["b"]}}, 200),
    ("with", "delete", "/credential-vault", None, 204),
]


def template_of(path):
    for part in ("credentials", "bindings"):
        prefix = f"/credential-vault/{part}/"
        if path.startswith(prefix):
            return prefix + "{name}"
    return path


def fits(operation, status, headers, body):
    """Whether the document has this answer, and its body fits."""
    answer = operation["responses"].get(str(status))
    assert answer, f"{status} is not documented: {body!r}"
    if "content" not in answer:
        assert not body, body
        return
    kind = headers["Content-Type"].partition(";")[0]
    assert kind in answer["content"], f"{status} as {kind}"
    schema = {"allOf": [answer["content"][kind]["schema"]], "components": SPEC["components"]}
    value = body.decode() if isinstance(body, bytes) else body
    jsonschema.Draft202012Validator(schema).validate(value)


def check_requests(w, tap, boxes):
    seen = set()
    for box, method, path, body, wanted in REQUESTS:
        place = template_of(path)
        operation = SPEC["paths"][place][method]
        status, headers, answer = w.server.request(
            method.upper(), f"/sandboxes/{boxes[box]}/proxy/18080{path}",
            None if body is None else json.dumps(body))
        seen.add((place, method, str(status)))

        def judge(a=(status, headers, answer), o=operation, s=wanted):
            same(a[0], s)
            fits(o, *a)
            assert "s3cr3t" not in str(a[2])
        tap.check(f"{method.upper()} {path}, {box} a proxy, is {wanted}", judge)
    return seen


def check_strangers(w, tap, box, seen):
    """Every operation asks for a credential."""
    for path, item in SPEC["paths"].items():
        for method in METHODS:
            if method not in item:
                continue
            for id_, key, wanted in ((box, None, 401), ("none", "", 404)):
                if str(wanted) not in item[method]["responses"]:
                    continue
                got = w.server.request(method.upper(), f"/sandboxes/{id_}/proxy/18080" +
                                       path.replace("{name}", "x"), key=key)
                seen.add((path, method, str(got[0])))
                tap.check(f"{method.upper()} {path} is {wanted} for "
                          + ("strangers" if key is None else "no sandbox"),
                          lambda g=got, o=item[method], s=wanted: (same(g[0], s), fits(o, *g)))


def check_methods(w, tap, box):
    for path, item in SPEC["paths"].items():
        if path == "/healthz":
            continue  # any method
        documented = {m.upper() for m in METHODS if m in item}
        for method in (m.upper() for m in METHODS):
            if method in documented:
                continue
            status, headers, _ = w.server.request(
                method, f"/sandboxes/{box}/proxy/18080" + path.replace("{name}", "x"), "{}")
            allowed = set(headers.get("Allow", "").replace(" ", "").split(","))
            tap.check(f"{method} {path} is 405, with what the document has",
                      lambda a=(status, allowed), d=documented: same(a, (405, d)))


def main():
    programs = sys.argv[1:]
    skip_all(egress_world.why_not())
    egress_world.enter()
    tap = Tap()
    tap.check("the document is valid", lambda: openapi_spec_validator.validate(SPEC))
    with World(programs, {"egress": {"max_rules": 8}}) as w:
        boxes = {"with": w.create("allow", [("allow", "api.allowed.test")],
                                  credentialProxy={"enabled": True}),
                 "without": w.create("allow")}
        seen = check_requests(w, tap, boxes)
        check_strangers(w, tap, boxes["with"], seen)
        check_methods(w, tap, boxes["with"])
    documented = {(path, method, status) for path, item in SPEC["paths"].items()
                  for method in METHODS if method in item for status in item[method]["responses"]}
    tap.check("every documented status was seen", lambda: same(
        sorted(row for row in documented - seen if row[2] not in NOT_PROVOKED), []))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
