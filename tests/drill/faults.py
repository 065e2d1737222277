#!/usr/bin/env python3
"""The fault drill, long: hundreds of SIGKILLs at random moments, and every failure we can inject.

usage: faults.py [--seed N] [--kills N] [--rounds N]. Run `make` before; needs root. The seed
determines which process is killed when; what it was doing then depends on the kernel's scheduler,
so a failure may need several runs to occur again.
"""
import argparse
import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
for part in ("integration", "tools"):
    sys.path.insert(0, str(ROOT / "tests" / part))
sys.dont_write_bytecode = True
import fault_phases  # noqa: E402
import tap  # noqa: E402
from broker_process import why_not  # noqa: E402

NATIVE = ROOT / "build/native"
EXECD, CTL = str(ROOT / "build/musl/src/execd/execd"), str(NATIVE / "tests/tools/sandboxctl")
PROGRAMS = (str(NATIVE / "src/broker/opensandbox-broker"), EXECD, CTL)
FAULTY = (str(NATIVE / "tests/tools/opensandbox-broker-faults"), EXECD, CTL)


def phases(args):
    """(name, function without arguments) of everything that is to go wrong."""
    yield "failing steps", lambda: fault_phases.failing_steps(
        FAULTY, range(1, fault_phases.STEPS + 1))
    yield "no more processes", lambda: fault_phases.no_more_processes(PROGRAMS)
    yield "refused limits", lambda: fault_phases.refused_limits(PROGRAMS)
    yield "full disk", lambda: fault_phases.full_disk(PROGRAMS)
    for i in range(args.rounds):
        seed = args.seed + i
        yield f"random kills, seed {seed}", lambda seed=seed: fault_phases.random_kills(
            PROGRAMS, seed, args.kills // args.rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=20260101)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=6)
    args = parser.parse_args()
    reason = why_not()
    if reason or not all(map(os.path.exists, PROGRAMS + FAULTY)):
        print(f"faults: not run: {reason or 'build the programs before'}")
        return 1
    failed = 0
    for name, run in phases(args):
        begin = time.monotonic()
        try:
            result = run()
        except tap.Skip as why:
            result = f"skipped: {why}"
        except Exception as error:  # the other phases have something to tell as well
            result, failed = f"FAILED: {type(error).__name__}: {error}", failed + 1
        print(f"{name}: {result} ({time.monotonic() - begin:.1f} s)", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
