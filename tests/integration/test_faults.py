"""The fault drill, short: a few kills and failures of each kind. tests/drill has the long one.

Usage: test_faults.py BROKER EXECD SANDBOXCTL FAULTY-BROKER. TAP on standard output. Needs root.
"""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import fault_phases  # noqa: E402
import tap  # noqa: E402
from broker_process import why_not  # noqa: E402

BROKER, EXECD, CTL, FAULTY = [os.path.abspath(path) for path in sys.argv[1:5]]
PROGRAMS = (BROKER, EXECD, CTL)
SEED, KILLS = 1, 25
STEPS = (2, 5, 11, 15, 19)  # groups, mounts, volumes, the user namespace, exec


def survives_random_kills():
    killed, calls = fault_phases.random_kills(PROGRAMS, SEED, KILLS)
    print(f"# seed {SEED}: {calls} calls, killed {killed}")


def tells_which_step_failed():
    print(f"# {fault_phases.failing_steps((FAULTY, EXECD, CTL), STEPS)}")


def survives_a_lack_of_processes():
    fault_phases.no_more_processes(PROGRAMS)


def survives_limits_that_cannot_be():
    fault_phases.refused_limits(PROGRAMS)


def survives_a_full_disk():
    fault_phases.full_disk(PROGRAMS)


if __name__ == "__main__":
    tap.skip_all(why_not())
    sys.exit(tap.run_tests([
        tells_which_step_failed,
        survives_a_lack_of_processes,
        survives_limits_that_cannot_be,
        survives_a_full_disk,
        survives_random_kills,
    ]))
