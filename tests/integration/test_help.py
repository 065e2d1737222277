"""Every program that is built helps, tells its version, and refuses an option it does not know.

Usage: test_help.py PROGRAM... TAP on standard output.
"""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:]]
BUILT = pathlib.Path(__file__).resolve().parents[2] / "build/bin"
SECONDS_MAX = 120


def run(program, *words):
    return subprocess.run([program, *words], check=False, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, cwd="/", timeout=SECONDS_MAX,
                          env={"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"})


CASES = [  # options, status, where the text is, what it begins with or holds
    (("--help",), 0, "stdout", "usage: {name} "),
    (("-h",), 0, "stdout", "usage: {name} "),
    (("--version",), 0, "stdout", "{name} "),
    (("--no-such-option",), 2, "stderr", "--no-such-option"),
    (("--no-such-option",), 2, "stderr", "--help"),
]


# osb says what the published command line says (contract of the CLI).
TEXTS_OF_OSB = {"usage: {name} ": "osb - ", "{name} ": "opensandbox, version "}


def case(program, words, status, stream, text):
    name = os.path.basename(program)
    text = TEXTS_OF_OSB.get(text, text) if name == "osb" else text

    def test():
        done = run(program, *words)
        other = done.stderr if stream == "stdout" else done.stdout
        wanted, found = text.format(name=name), getattr(done, stream)
        assert done.returncode == status, done
        assert found.startswith(wanted) if status == 0 else wanted in found, done
        assert other == "", done

    test.__name__ = f"{name} {' '.join(words)} is status {status} and says {text.format(name=name)}"
    return test


def all_programs_are_here():
    if not BUILT.is_dir():
        raise tap.Skip("there is no build/bin")
    missing = {path.name for path in BUILT.iterdir()} - set(map(os.path.basename, PROGRAMS))
    assert not missing, f"programs without a test: {missing}"


if __name__ == "__main__":
    sys.exit(tap.run_tests([case(program, *row) for program in PROGRAMS for row in CASES] +
                           [all_programs_are_here]))
