"""The server's soak, short: seconds of use leave no descriptor open. tests/drill has the long one.

Usage: test_server_soak.py SERVER BROKER EXECD SANDBOXCTL SLACK-MIB. TAP on standard
output. Needs root.
"""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import server_soak  # noqa: E402
import tap  # noqa: E402
from server_process import why_not  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:5]]
SLACK_KIB = int(sys.argv[5]) << 10
SECONDS = 15


def stays_as_large_as_it_was():
    rounds, weights = server_soak.before_and_after(PROGRAMS, SECONDS, SLACK_KIB)
    print(f"# {rounds} rounds; (KiB, descriptors) and KiB grown: {weights}")


if __name__ == "__main__":
    tap.skip_all(why_not())
    sys.exit(tap.run_tests([stays_as_large_as_it_was]))
