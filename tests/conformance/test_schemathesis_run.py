#!/usr/bin/env python3
"""test_schemathesis_run.py SPEC.json - the checker finds what is wrong, and only that.

Runs it on a stand-in that keeps to the document, then on one fault after the other.
"""
import contextlib
import io
import json
import pathlib
import sys
import tempfile

import schemathesis_run
import stand_in
import tap  # found by schemathesis_run

CASES = 24  # enough to meet each operation
LINKED_CASES = 100  # enough to make something, and to come back to it
LINKED_PATHS = ("/v1/sandboxes", "/v1/sandboxes/{sandboxId}")


def linked(spec, folder):
    """A document of few operations: among all of them, a few cases may never come back to an id."""
    document = json.loads(pathlib.Path(spec).read_text(encoding="utf-8"))
    document["paths"] = {path: document["paths"][path] for path in LINKED_PATHS}
    operations = [operation for item in document["paths"].values()
                  for operation in item.values() if "operationId" in operation]
    known = {operation["operationId"] for operation in operations}
    for operation in operations:
        for answer in operation["responses"].values():
            if "links" in answer:
                answer["links"] = {name: link for name, link in answer["links"].items()
                                   if link.get("operationId") in known}
    reduced = pathlib.Path(folder, "spec.json")
    reduced.write_text(json.dumps(document), encoding="utf-8")
    return str(reduced)


def judge(spec, fault, groups):
    """(exit status, what was printed, sandboxes left) of the checker on a stand-in."""
    if groups == ("links",):
        with tempfile.TemporaryDirectory() as folder:
            return judge_cases(linked(spec, folder), fault, groups, LINKED_CASES)
    return judge_cases(spec, fault, groups, CASES)


def judge_cases(spec, fault, groups, cases):
    options = [option for group in groups for option in ("--group", group)]
    printed = io.StringIO()
    with stand_in.StandIn(fault) as server, contextlib.redirect_stdout(printed):
        status = schemathesis_run.run(schemathesis_run.parse_args(
            [spec, server.url, server.api_key, "--cases", str(cases), *options]))
        left = len(server.sandboxes)
    return status, printed.getvalue(), left


def finds_nothing_where_nothing_is(spec):
    status, printed, left = judge(spec, None, ())
    assert status == 0, printed
    assert printed.count("\nok ") + printed.startswith("ok ") >= 8, printed
    assert left == 0, f"{left} sandboxes left"


def finds(spec, fault, group, word):
    status, printed, _ = judge(spec, fault, (group,))
    assert status == 1 and "not ok 1" in printed, printed
    assert word in printed, f"no '{word}' in\n{printed}"


def refuses_to_be_content_with_few_cases(spec):
    """A group that makes no requests is no success."""
    status, printed, _ = judge(spec, None, ("no-such-group",))
    assert status == 1, printed


if __name__ == "__main__":
    document = sys.argv[1]
    checks = tap.Tap()
    checks.check("finds nothing where nothing is wrong", finds_nothing_where_nothing_is, document)
    for name, (where, what) in stand_in.FAULTS.items():
        checks.check(f"finds {name}", finds, document, name, where, what)
    checks.check("refuses to be content with few cases", refuses_to_be_content_with_few_cases,
                 document)
    sys.exit(checks.end())
