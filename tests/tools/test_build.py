#!/usr/bin/env python3
"""test_build.py - the builder compiles no more often than it must, with and without --werror."""
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile

import tap

CLEAN = "int main(void) { return 0; }\n"
WARNS = "int main(void) { int unused; return 0; }\n"


class Project:
    """A program of one file, in place of ours."""

    def __init__(self, root):
        self.root = root
        (root / "meson.build").write_text("project('p', 'c')\n"
                                          "executable('p', 'p.c', install: true)\n")
        self.write(CLEAN)

    def write(self, text):
        (self.root / "p.c").write_text(text)

    def build(self, *options):
        """Whether it could be built."""
        code = ("import pathlib, sys, tap; tool = tap.load_tool('build'); "
                "tool.ROOT = pathlib.Path(sys.argv.pop(1)); tool.main()")
        argv = [sys.executable, "-c", code, str(self.root), *options, "native"]
        done = subprocess.run(argv, cwd=pathlib.Path(__file__).parent, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        print("# " + done.stdout.strip().replace("\n", "\n# "))
        return done.returncode == 0

    def compiled(self):
        return next((self.root / "build/native").rglob("p.c.o")).stat().st_mtime_ns


@contextlib.contextmanager
def project():
    with tempfile.TemporaryDirectory() as folder:
        yield Project(pathlib.Path(folder).resolve())


def nothing_is_compiled_twice(made):
    for options in ((), ("--werror",)):
        assert made.build(*options)
        before = made.compiled()
        assert made.build(*options)
        assert made.compiled() == before


def werror_can_be_asked_for_later(made):
    made.write(WARNS)
    assert made.build()
    marker = made.root / "build/native/marker"
    marker.touch()
    assert not made.build("--werror")
    assert marker.exists(), "the directory was set up afresh"


def a_warning_ends_no_build_that_did_not_ask_for_it(made):
    assert made.build("--werror")
    made.write(WARNS)
    assert made.build()
    assert not made.build("--werror")
    assert made.build()


def another_prefix_is_another_directory(made):
    assert made.build()
    marker = made.root / "build/native/marker"
    marker.touch()
    assert made.build("--prefix=/opt/p") and not marker.exists()


def make_takes_0_for_no(_):
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    for value, expected in (("", False), ("0", False), ("1", True)):
        done = subprocess.run(["make", "--dry-run", f"WERROR={value}", "all"], cwd=tap.ROOT,
                              env=env, capture_output=True, text=True, check=True)
        assert ("--werror" in done.stdout) == expected, (value, done.stdout)


if __name__ == "__main__":
    sys.exit(tap.run_tests([
        nothing_is_compiled_twice,
        werror_can_be_asked_for_later,
        a_warning_ends_no_build_that_did_not_ask_for_it,
        another_prefix_is_another_directory,
        make_takes_0_for_no,
    ], project))
