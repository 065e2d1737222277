#!/usr/bin/env python3
"""test_build.py - the builder compiles no more often than it must, with and without --werror."""
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import tap

CLEAN = "int main(void) { return 0; }\n"
WARNS = "int main(void) { int unused; return 0; }\n"


class Project:
    """A program of one file, in place of ours."""

    def __init__(self, root):
        self.root, self.said = root, ""
        (root / "meson.build").write_text("project('p', 'c')\n"
                                          "executable('p', 'p.c', install: true)\n")
        self.write(CLEAN)

    def write(self, text):
        (self.root / "p.c").write_text(text)

    def build(self, *options):
        """Whether it could be built. `said` is what it printed."""
        code = ("import pathlib, sys, tap; tool = tap.load_tool('build'); "
                "tool.ROOT = pathlib.Path(sys.argv.pop(1)); tool.main()")
        argv = [sys.executable, "-c", code, str(self.root), *options, "native"]
        done = subprocess.run(argv, cwd=pathlib.Path(__file__).parent, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        self.said = done.stdout
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


def a_log_keeps_the_compiler_off_the_terminal(made):
    log = made.root / "log"
    made.write(WARNS.replace("unused", "unused = 1"))
    assert made.build(f"--log={log}")
    assert made.said == "configuring build/native\nbuilding build/native\n", made.said
    assert re.search(r"\[\d+/\d+\] ", log.read_text(encoding="utf-8"))


def a_log_is_shown_when_the_build_fails(made):
    made.write("int main(void) { return missing; }\n")
    assert not made.build(f"--log={made.root}/log")
    assert "missing" in made.said and "building build/native failed" in made.said, made.said


def make_asks_for_root_before_it_builds(made):
    """There is nothing else in that directory: make would fail at the next step."""
    if os.geteuid() != 0:
        raise tap.Skip("only root can become another user")
    shutil.copy(tap.ROOT / "Makefile", made.root)
    made.root.chmod(0o755)
    for target in ("demo", "run"):
        done = subprocess.run(["make", "-C", made.root, target], user=65534, group=65534,
                              extra_groups=[], capture_output=True, text=True, check=False,
                              env={"PATH": os.environ["PATH"]})
        assert done.returncode != 0 and f"sudo make {target}" in done.stderr, done
        assert "tools/" not in done.stderr + done.stdout, done


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
        a_log_keeps_the_compiler_off_the_terminal,
        a_log_is_shown_when_the_build_fails,
        make_asks_for_root_before_it_builds,
        make_takes_0_for_no,
    ], project))
