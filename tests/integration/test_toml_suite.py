#!/usr/bin/env python3
"""Runs every TOML 1.0 decoder test of the public toml-test suite; one TAP line per test.

usage: test_toml_suite.py DECODER TOML_TEST
"""
import json
import subprocess
import sys

TESTS_MIN = 600  # a suite that shrank to nothing must not pass


def expected_names(toml_test):
    """The suite's own list of tests; a valid test is a .toml and a .json."""
    listing = subprocess.run([toml_test, "list", "-toml", "1.0"], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    return {line[:-len(".toml")] for line in listing.split() if line.endswith(".toml")}


def run_suite(toml_test, decoder):
    """Name -> failure text, empty for a pass."""
    command = [toml_test, "test", "-decoder", decoder, "-toml", "1.0", "-timeout", "60s",
               "-v", "-json"]
    report = json.loads(subprocess.run(command, stdout=subprocess.PIPE).stdout)
    return {test["path"]: test["failure"] or ("skipped" if test["skipped"] else "")
            for test in report["tests"]}


def main():
    decoder, toml_test = sys.argv[1:3]
    expected = expected_names(toml_test)
    results = run_suite(toml_test, decoder)
    failed = 0
    for number, name in enumerate(sorted(expected | results.keys()), 1):
        failure = results.get(name, "was not run")
        failed += bool(failure)
        print(f"{'not ok' if failure else 'ok'} {number} - {name}")
        for line in failure.strip().splitlines():
            print(f"# {line}")
    enough = len(expected) >= TESTS_MIN
    number = len(expected | results.keys()) + 1
    print(f"{'ok' if enough else 'not ok'} {number} - the suite has at least {TESTS_MIN} tests")
    print(f"1..{number}")
    return 1 if failed or not enough else 0


if __name__ == "__main__":
    sys.exit(main())
