#!/usr/bin/env python3
"""test_test.py - the test runner loses no failure."""
import pathlib
import sys

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


if __name__ == "__main__":
    sys.exit(tap.run_tests([*(case(*row) for row in CASES), runner_reports_the_reason_of_a_skip]))
