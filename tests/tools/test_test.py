#!/usr/bin/env python3
"""test_test.py - the test runner loses no failure, and runs the tests that were asked for."""
import json
import pathlib
import sys
import tempfile
from unittest import mock

import tap

tool = tap.load_tool("test")

# what, Meson's result, exit status, standard output, (passed, failed, skipped)
CASES = [
    ("counts every line", "OK", 0, "ok 1 - a\nok 2 - b\n1..2\n", (2, 0, 0)),
    ("accepts the plan first", "OK", 0, "1..2\nok 1 - a\nok 2 - b\n", (2, 0, 0)),
    ("counts failures", "FAIL", 1, "ok 1 - a\nnot ok 2 - b\n1..2\n", (1, 1, 0)),
    ("counts skips", "OK", 0, "ok 1 - a # SKIP no net\nok 2 - b\n1..2\n", (1, 0, 1)),
    ("counts a skipped program", "SKIP", 0, "1..0 # SKIP no node here\n", (0, 0, 1)),
    ("adds one for a crash", "ERROR", -11, "ok 1 - a\n", (1, 1, 0)),
    ("adds one for a crash after the plan", "ERROR", -6, "1..1\nok 1 - a\n", (1, 1, 0)),
    ("adds one for a time-out", "TIMEOUT", -15, "1..2\nok 1 - a\n", (1, 1, 0)),
    ("adds one for a missing plan", "ERROR", 0, "ok 1 - a\n", (1, 1, 0)),
    ("adds one for a short run", "ERROR", 0, "1..3\nok 1 - a\nok 2 - b\n", (2, 1, 0)),
    ("adds one for a long run", "ERROR", 0, "1..1\nok 1 - a\nok 2 - b\n", (2, 1, 0)),
    ("adds one for a bad exit", "FAIL", 1, "1..1\nok 1 - a\n", (1, 1, 0)),
    ("believes Meson over silence", "ERROR", 0, "1..1\nok 1 - a\n", (1, 1, 0)),
    ("takes no TAP as one test", "OK", 0, "hello\n", (1, 0, 0)),
    ("takes no TAP as one failure", "FAIL", 3, "hello\n", (0, 1, 0)),
    ("takes silence from TAP as a failure", "ERROR", 0, "", (0, 1, 0)),
    ("takes exit 77 as a skip", "SKIP", 77, "no root\n", (0, 0, 1)),
    ("is not fooled by prose", "OK", 0, "okay then\n# ok 1\n1..1\nok 1 - a\n", (1, 0, 0)),
]


def outcome(result, status, stdout):
    log = {"name": "x", "result": result, "returncode": status, "stdout": stdout}
    return tool.Outcome(pathlib.Path("native"), "unit", log)


def case(what, result, status, stdout, expected):
    def test():
        o = outcome(result, status, stdout)
        got = (o.passed, len(o.failures), len(o.skips))
        assert got == expected, f"{got}, not {expected}"

    test.__name__ = f"runner {what}"
    return test


def runner_reports_the_reason_of_a_skip():
    assert outcome("OK", 0, "ok 1 - a # SKIP no net\n1..1\n").skips == [("a", "no net")]
    assert outcome("OK", 0, "# SKIP no net\nok 1 - a # SKIP\n1..1\n").skips == [("a", "no net")]


# As Meson's intro-tests.json has them.
TESTS = [
    {"name": "net h1", "suite": ["opensandbox:unit"]},
    {"name": "execd copy", "suite": ["opensandbox:unit", "opensandbox:execd tree"]},
    {"name": "execd files", "suite": ["opensandbox:integration"]},
    {"name": "fuzz json", "suite": ["opensandbox:fuzz"]},
    {"name": "alone", "suite": []},
]

# suites, names, what is run of TESTS
SELECTIONS = [
    ([], [], ["net h1", "execd copy", "execd files", "fuzz json", "alone"]),
    (["unit", "fuzz"], [], ["net h1", "execd copy", "fuzz json"]),
    ([], ["execd"], ["execd copy", "execd files"]),
    ([], ["execd tree"], ["execd copy"]),
    ([], ["h1", "files"], ["net h1", "execd files"]),
    (["unit"], ["execd"], ["execd copy"]),
    (["unit"], ["files"], []),
    (["nothing"], [], []),
]


def runner_selects_by_suite_and_name():
    for suites, names, expected in SELECTIONS:
        got = [test["name"] for test in tool.selected(TESTS, suites, names)]
        assert got == expected, f"{suites}, {names}: {got}"


def run_directory(suites, names):
    """The names that Meson gets (None: it was not called), and the outcomes. This Meson runs all it
    is asked for except "execd copy"."""
    def meson(_directory, _slow, chosen):
        asked.append(chosen)
        return [{"name": name, "result": "OK", "returncode": 0, "stdout": "ok 1 - a\n1..1\n"}
                for name in chosen or [test["name"] for test in TESTS] if name != "execd copy"]

    asked = []
    with tempfile.TemporaryDirectory() as scratch, mock.patch.object(tool, "run_meson", meson):
        info = pathlib.Path(scratch, "meson-info")
        info.mkdir()
        (info / "intro-tests.json").write_text(json.dumps(TESTS))
        outcomes = tool.run_directory(pathlib.Path(scratch), 1, suites, names)
    return asked[0] if asked else None, outcomes


def runner_asks_meson_for_the_selected_tests_only():
    asked, outcomes = run_directory(["fuzz"], [])
    assert asked == ["fuzz json"] and [o.passed for o in outcomes] == [1], (asked, outcomes)
    asked, outcomes = run_directory([], [])
    assert asked == [] and sum(o.passed for o in outcomes) == 4, (asked, outcomes)
    assert run_directory(["nothing"], []) == (None, [])


def runner_counts_a_selected_test_that_did_not_run_as_a_failure():
    for suites in ([], ["unit"]):
        failed = [o.where.split(": ")[1] for o in run_directory(suites, [])[1] if o.failures]
        assert failed == ["execd copy"], failed
    assert not any(o.failures for o in run_directory(["fuzz"], [])[1])


def settle(first, second):
    """(failures, unsteady names) when programs end by `first`, and by `second` when run again."""
    def meson(_directory, _slow, names, *_options):
        asked.append(names)
        return [{"name": name, **ends[second[name]]} for name in names]

    ends = {True: {"result": "OK", "returncode": 0, "stdout": "ok 1 - a\n1..1\n"},
            False: {"result": "FAIL", "returncode": 1, "stdout": "not ok 1 - a\n1..1\n"}}
    asked, native = [], pathlib.Path("native")
    outcomes = [tool.Outcome(native, "unit", {"name": name, **ends[good]})
                for name, good in first.items()]
    with mock.patch.object(tool, "run_meson", meson):
        settled, unsteady = tool.settle([(native, outcomes)], 1)
    return asked, sum(len(o.failures) for o in settled), [o.name for o in unsteady]


def runner_runs_failed_programs_once_more():
    assert settle({"a": True}, {}) == ([], 0, [])
    assert settle({"a": True, "b": False}, {"b": True}) == ([["b"]], 0, ["b"])
    assert settle({"a": False, "b": False}, {"a": False, "b": True}) == ([["a", "b"]], 1, ["b"])


def runner_does_not_repeat_many_failures():
    many = {f"p{n}": False for n in range(tool.AGAIN_MAX + 1)}
    assert settle(many, many) == ([], len(many), [])


if __name__ == "__main__":
    sys.exit(tap.run_tests([
        *(case(*row) for row in CASES),
        runner_reports_the_reason_of_a_skip,
        runner_selects_by_suite_and_name,
        runner_asks_meson_for_the_selected_tests_only,
        runner_counts_a_selected_test_that_did_not_run_as_a_failure,
        runner_runs_failed_programs_once_more,
        runner_does_not_repeat_many_failures,
    ]))
