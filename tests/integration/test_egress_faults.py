#!/usr/bin/env python3
"""test_egress_faults.py SERVER BROKER EXECD SANDBOXCTL EGRESS - a few random kills under a policy;
tests/drill/egress does hundreds."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import egress_faults  # noqa: E402
import egress_world  # noqa: E402
from tap import Tap, skip_all  # noqa: E402

SEED, KILLS = 20261118, 12


def main():
    skip_all(egress_world.why_not())
    egress_world.enter()
    tap = Tap()
    tap.check(f"no denied packet arrives in {KILLS} kills, and policies are in force afterwards",
              lambda: print("#", egress_faults.random_kills(sys.argv[1:], SEED, KILLS, 1)))
    sys.exit(tap.end())


if __name__ == "__main__":
    main()
