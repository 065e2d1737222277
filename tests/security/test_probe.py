#!/usr/bin/env python3
"""test_probe.py PROBE - the battery itself: every probe is listed and explained, and can succeed.

As root outside a sandbox, a probe of each kind must report OPEN; otherwise a BLOCKED elsewhere
would mean nothing. TAP on standard output.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import battery  # noqa: E402 # beside this file, as the next
import run  # noqa: E402
import tap  # noqa: E402

PROBE = sys.argv[1]
OPEN_ON_A_HOST = (
    "secret-direct", "secret-proc1-root", "mount-tmpfs", "mount-bind", "fsopen", "open-tree",
    "setuid-program", "core-pattern", "panic-on-oom", "drop-caches", "userns-unshare",
    "userns-clone", "userns-clone3", "netns", "hostname", "reboot", "acct", "swapon",
    "socket-packet", "socket-netfilter", "bounding-set", "no-new-privs",
)


def has_enough_probes_each_explained():
    probes = battery.probe_list(PROBE)
    assert len(probes) >= 80, len(probes)
    assert len({p["name"] for p in probes}) == len(probes), "names must differ"
    assert {p["group"] for p in probes} == set(battery.GROUPS)
    assert all(len(p["why"]) > 5 for p in probes)


def refuses_a_name_it_does_not_know():
    done = subprocess.run([PROBE, "no-such-probe"], capture_output=True, check=False)
    assert done.returncode == 2
    assert b"usage" in done.stderr


def finds_no_limit_where_there_is_none():
    found, _ = battery.run_probes([PROBE], {"memory-mib": 1}, ["memory-bomb"])
    assert found["memory-bomb"]["verdict"] == "OPEN", found


def sees_open_doors_on_a_bare_host():
    with tempfile.NamedTemporaryFile() as secret:
        secret.write(b"secret\n")
        secret.flush()
        results = run.run_host(PROBE, battery.probe_list(PROBE), secret.name)
    closed = {name: results[name] for name in OPEN_ON_A_HOST if results[name]["verdict"] != "OPEN"}
    assert not closed, closed


def leaves_nothing_behind():
    left = [p for p in os.listdir("/") if p.startswith("probe-")]
    assert not left, left


TESTS = [has_enough_probes_each_explained, refuses_a_name_it_does_not_know,
         finds_no_limit_where_there_is_none]
if os.geteuid() == 0:
    TESTS += [sees_open_doors_on_a_bare_host, leaves_nothing_behind]
if __name__ == "__main__":
    sys.exit(tap.run_tests(TESTS))
