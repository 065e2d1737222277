"""schemathesis_hooks.py - what schemathesis_run.py adds to schemathesis: checks, bodies, counts.

Loaded by schemathesis itself, by the name in SCHEMATHESIS_HOOKS. OSB_COUNT names the file to count
requests in, OSB_ERRORS the catalogue of error codes, OSB_SANDBOX, if set, a sandbox that is there.
"""
import atexit
import collections
import json
import os
import pathlib
import re
import urllib.request
import zlib

import schemathesis
import yaml

ALIVE_MAX = 8  # sandboxes that a run leaves standing while it goes on
ALLOWED_5XX = {"gateway": (501, 502, 503)}  # by tag: nothing listens inside, or nothing runs
MAY_BE_BUSY = "/ready"  # that says 503 when its store takes seconds, as on a busy disk
PULL_FAILED = b'"DOCKER::SANDBOX_IMAGE_PULL_FAILED"'  # no registry is there to ask
KEY_HEADER = "OPEN-SANDBOX-API-KEY"
PLAIN_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")

schemathesis.serializer.alias("application/x-tar", "application/octet-stream")
catalogue = yaml.safe_load(pathlib.Path(os.environ["OSB_ERRORS"]).read_text(encoding="utf-8"))
counts = collections.Counter()
alive = collections.deque()


def tag_of(case):
    return (case.operation.tags or ["none"])[0]


def documented(case, status):
    """The answer as the document has it, or None; `default` is none in particular."""
    answers = case.operation.definition.raw["responses"]
    return answers.get(str(status))


@schemathesis.check
def no_failure_of_ours(ctx, response, case):
    """A 5xx is right only where the document lists it, or where a program inside the sandbox sent
    it."""
    status = response.status_code
    if status < 500:
        return
    assert documented(case, status), f"{status} is not documented"
    if status == 503 and case.operation.path.endswith(MAY_BE_BUSY):
        return
    if status == 500 and PULL_FAILED in response.content:
        return
    assert status in ALLOWED_5XX.get(tag_of(case), (501,)), f"{status} must not happen"


def is_json(response):
    return any("json" in value for value in response.headers.get("content-type") or ())


@schemathesis.check
def code_is_documented(ctx, response, case):
    """An error's code is one of those listed for its status, and of the catalogue."""
    answer = documented(case, response.status_code)
    if response.status_code < 400 or not answer or case.method.upper() == "HEAD":
        return
    if tag_of(case) == "gateway" and not is_json(response):
        return  # the answer of a program inside, with a body of its own
    body = json.loads(response.content)
    code = body.get("code")
    if tag_of(case) == "gateway" and code not in answer.get("x-codes", []):
        return  # the same
    assert code in catalogue, f"{code} is not in the catalogue"
    assert code in answer.get("x-codes", []), \
        f"{code} is not listed for status {response.status_code}"
    assert isinstance(body.get("message"), str) and body["message"], "no message"


@schemathesis.check
def request_id_comes_back(ctx, response, case):
    sent = {name.lower(): value for name, value in (case.headers or {}).items()}
    wanted = sent.get("x-request-id")
    got = response.headers.get("x-request-id")
    assert got and got[0], "no X-Request-ID"
    if isinstance(wanted, str) and PLAIN_ID.fullmatch(wanted):
        assert got[0] == wanted, f"X-Request-ID {got[0]!r}, not {wanted!r}"


def one_in(count, value):
    """The same for the same value."""
    return zlib.crc32(json.dumps(value, sort_keys=True, default=str).encode()) % count == 0


@schemathesis.hook
def before_call(ctx, case, kwargs):
    """Every second sandbox is one that is there, and stays: others would mostly be 404."""
    parameters, standing = case.path_parameters or {}, os.environ.get("OSB_SANDBOX")
    if not standing or "sandboxId" not in parameters:
        return
    if case.operation.definition.raw.get("operationId") == "deleteSandbox":
        if parameters["sandboxId"] == standing:  # it was seen in a list
            parameters["sandboxId"] = "gone"
    elif one_in(2, [parameters, case.query, counts.total()]):
        parameters["sandboxId"] = standing


@schemathesis.hook
def map_body(ctx, body):
    """Every second sandbox is one that can be made: random images and programs would all fail."""
    if ctx.operation.definition.raw.get("operationId") != "createSandbox" \
            or not isinstance(body, dict) or not isinstance(body.get("image"), dict) \
            or one_in(2, body):
        return body
    kept = {name: body[name] for name in ("metadata", "timeout", "env") if name in body}
    return {**kept, "image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"],
            "resourceLimits": {}}


def delete_sandbox(url, key):
    request = urllib.request.Request(url, method="DELETE", headers={KEY_HEADER: key})
    try:
        urllib.request.urlopen(request, timeout=30).close()
    except urllib.error.HTTPError as error:
        error.close()  # it is gone, as a case deleted it


@schemathesis.hook
def after_call(ctx, case, response):
    """Counts, and keeps no more than a few sandboxes."""
    counts[tag_of(case)] += 1
    counts[f"{case.operation.label} {response.status_code}"] += 1
    operation = case.operation.definition.raw.get("operationId")
    if operation == "createSandbox" and response.status_code == 202:
        base = response.request.url.split("?")[0]
        alive.append((f"{base}/{json.loads(response.content)['id']}",
                      response.request.headers[KEY_HEADER]))
    while len(alive) > ALIVE_MAX:
        delete_sandbox(*alive.popleft())


@atexit.register
def write_counts():
    pathlib.Path(os.environ["OSB_COUNT"]).write_text(json.dumps(counts))
