"""The drill of images and snapshots, short. tests/drill/images is the long one.

Usage: test_image_faults.py SERVER BROKER EXECD SANDBOXCTL UNPACK. TAP on standard output. Needs
root.
"""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import image_faults  # noqa: E402
import tap  # noqa: E402
from server_process import why_not  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:6]]
SEED, KILLS, STEPS = 1, 8, 2


def keeps_layers_whole_when_killed():
    print(f"# seed {SEED}: {image_faults.random_kills(PROGRAMS, SEED, KILLS)}")


def keeps_layers_whole_on_a_full_disk():
    print(f"# seed {SEED}: {image_faults.full_disks(PROGRAMS, SEED, STEPS)}")


TESTS = [
    keeps_layers_whole_when_killed,
    keeps_layers_whole_on_a_full_disk,
]


if __name__ == "__main__":
    tap.skip_all(why_not())
    sys.exit(tap.run_tests(TESTS))
