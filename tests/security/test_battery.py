#!/usr/bin/env python3
"""test_battery.py PROBE BROKER EXECD SANDBOXCTL SERVER - every attack, tried in our own sandboxes.

Each probe is one line of TAP; it passes when it was BLOCKED or CONTAINED. What could not be tried
fails, too: the world around the sandbox is the test's own and lacks nothing.
"""
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
import battery  # noqa: E402 # beside this file, as the next
import box_ours  # noqa: E402


def main():
    programs = [str(pathlib.Path(p).resolve()) for p in sys.argv[1:]]
    why = box_ours.missing(programs)
    if why:
        print(f"1..0 # SKIP {why}")
        return 0
    probes = battery.probe_list(programs[0])
    with tempfile.TemporaryDirectory(prefix="osb-battery-") as directory:
        secret = pathlib.Path(directory, "secret")
        secret.write_text("of the host\n", encoding="utf-8")
        with box_ours.Ours(directory, *programs) as ours:
            results = ours.run(probes, secret)
    probes += battery.OUTSIDE
    passed = 0
    for number, probe in enumerate(probes, 1):
        result = results[probe["name"]]
        good = result["verdict"] in ("BLOCKED", "CONTAINED")
        passed += good
        print(f"{'ok' if good else 'not ok'} {number} - {probe['name']}: {result['verdict']}, "
              f"{result['detail'].replace('#', '')}")
    print(f"1..{len(probes)}")
    return 0 if passed == len(probes) else 1


if __name__ == "__main__":
    sys.exit(main())
