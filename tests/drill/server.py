#!/usr/bin/env python3
"""The server's drill, long: hundreds of SIGKILLs under load, then minutes of ordinary use.

usage: server.py [--seed N] [--kills N] [--rounds N] [--minutes N]. Run `make` before; needs root.
The seed determines which process is killed when and which requests clients send; what was under way
then depends on the kernel's scheduler, so a failure may need several runs to occur again.
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
import server_faults  # noqa: E402
import server_soak  # noqa: E402
from server_process import why_not  # noqa: E402

NATIVE = ROOT / "build/native"
PROGRAMS = (str(NATIVE / "src/server/opensandbox-server"),
            str(NATIVE / "src/broker/opensandbox-broker"),
            str(ROOT / "build/musl/src/execd/execd"), str(NATIVE / "tests/tools/sandboxctl"))


def phases(args):
    """(name, function without arguments)"""
    for i in range(args.rounds):
        seed = args.seed + i
        yield f"random kills, seed {seed}", lambda seed=seed: server_faults.random_kills(
            PROGRAMS, seed, -(-args.kills // args.rounds))
    yield f"soak, {args.minutes:g} minutes", lambda: server_soak.soak(PROGRAMS, args.minutes * 60)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=20260201)
    parser.add_argument("--kills", type=int, default=240)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--minutes", type=float, default=10)
    args = parser.parse_args()
    reason = why_not()
    if reason or not all(map(os.path.exists, PROGRAMS)):
        print(f"server: not run: {reason or 'build the programs before'}")
        return 1
    failed = 0
    for name, run in phases(args):
        begin = time.monotonic()
        try:
            result = run()
        except Exception as error:  # the other phases have something to tell as well
            result, failed = f"FAILED: {type(error).__name__}: {error}", failed + 1
        print(f"{name}: {result} ({time.monotonic() - begin:.1f} s)", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
