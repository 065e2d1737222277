"""The server's fault drill, short. tests/drill has the long one.

Usage: test_server_faults.py SERVER BROKER EXECD SANDBOXCTL. TAP on standard output. Needs root.
"""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import server_faults  # noqa: E402
import tap  # noqa: E402
from server_process import why_not  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:5]]
SEED, KILLS = 1, 25


def keeps_its_word_when_killed():
    print(f"# seed {SEED}: {server_faults.random_kills(PROGRAMS, SEED, KILLS)}")


if __name__ == "__main__":
    tap.skip_all(why_not())
    sys.exit(tap.run_tests([keeps_its_word_when_killed]))
