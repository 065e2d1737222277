#!/usr/bin/env python3
"""test_sdk_c_examples.py BUILD SERVER BROKER EXECD SANDBOXCTL - libopensandbox as a stranger
uses it: installed, compiled by the line of its README, run under valgrind; and what it says when
the server goes away."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tools")]

from server_process import ServerProcess, why_not  # noqa: E402
from tap import ROOT, Skip, Tap, skip_all  # noqa: E402

README = (ROOT / "sdks/c/README.md").read_text(encoding="utf-8")
EXAMPLES = ROOT / "sdks/c/examples"
SECONDS_MAX = 300


def block(language):
    """The first block of that language in the README."""
    return re.search(rf"```{language}\n(.*?)```", README, re.DOTALL)[1]


class World:
    """The library installed below a directory of its own, and an environment to compile with it."""

    def __init__(self, build, folder, server):
        subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--tags",
                        "sdk,devel", "--destdir", folder], check=True)
        self.folder, self.server = pathlib.Path(folder), server
        config = next(self.folder.rglob("opensandbox.pc"))
        self.env = {**os.environ, "PKG_CONFIG_PATH": str(config.parent),
                    "PKG_CONFIG_SYSROOT_DIR": folder,
                    "LD_LIBRARY_PATH": str(config.parent.parent),
                    "OPEN_SANDBOX_DOMAIN": server.domain,
                    "OPEN_SANDBOX_API_KEY": server.api_key or ""}

    def run(self, command, **more):
        return subprocess.run(command, cwd=self.folder, env=self.env, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS_MAX,
                              **more)

    def compile(self, name, *options):
        done = self.run(["sh", "-c", f"cc -Wall -Wextra -Werror -o {name} {EXAMPLES}/{name}.c "
                         f"$(pkg-config --cflags --libs opensandbox) {' '.join(options)}"])
        assert done.returncode == 0, done.stderr
        return f"./{name}"

    def valgrind(self, *command):
        if not shutil.which("valgrind"):
            raise Skip("no valgrind")
        return self.run(["valgrind", "--quiet", "--leak-check=full", "--show-leak-kinds=all",
                         "--errors-for-leak-kinds=all", "--error-exitcode=99", "--max-stackframe=2"
                         "0000000", *command])


def the_line_of_the_readme_compiles_its_program(world):
    (world.folder / "hello.c").write_text(block("c"), encoding="utf-8")
    done = world.run(["sh", "-ec", block("sh")])
    assert done.returncode == 0, done.stderr
    done = world.run(["./hello"])
    assert (done.returncode, done.stdout) == (0, "hello\n"), (done.stdout, done.stderr)


def the_program_of_the_readme_is_the_example(_):
    example = (EXAMPLES / "hello.c").read_text(encoding="utf-8")
    assert block("c") == example.split("*/\n", 1)[1]


def it_links_statically(world):
    lib = world.env["LD_LIBRARY_PATH"]
    done = world.run(["sh", "-ec", f"cc -o fixed {EXAMPLES}/hello.c "
                      f"$(pkg-config --cflags opensandbox) {lib}/libopensandbox.a "
                      "$(pkg-config --libs openssl) -pthread"])
    assert done.returncode == 0, done.stderr
    done = world.run(["./fixed"])
    assert (done.returncode, done.stdout) == (0, "hello\n"), (done.stdout, done.stderr)


def hello_leaks_nothing(world):
    done = world.valgrind(world.compile("hello"))
    assert (done.returncode, done.stdout) == (0, "hello\n"), (done.returncode, done.stderr)


def streams_leak_nothing(world):
    program = world.compile("stream")
    done = world.valgrind(program, "seq 1 1000; echo oops >&2; exit 3")
    assert done.returncode == 3, (done.returncode, done.stderr)
    assert done.stdout.split() == [str(n) for n in range(1, 1001)]
    assert "oops" in done.stderr


def tasks_leak_nothing(world):
    done = world.valgrind(world.compile("many"), "6")
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert sorted(done.stdout.splitlines()) == [f"number {n}" for n in range(6)]


def examples_pass_the_sanitizers(world):
    """AddressSanitizer, its search for leaks, and UBSan, with the library linked in."""
    lib = world.env["LD_LIBRARY_PATH"]
    world.env["ASAN_OPTIONS"] = "detect_leaks=1:exitcode=99"
    for name, words, status in (("hello", [], 0), ("stream", ["seq 1 9; exit 3"], 3),
                                ("many", ["3"], 0)):
        done = world.run(["sh", "-c", "cc -g -fsanitize=address,undefined -fno-sanitize-recover "
                          f"-o checked {EXAMPLES}/{name}.c $(pkg-config --cflags opensandbox) "
                          f"{lib}/libopensandbox.a $(pkg-config --libs openssl) -pthread"])
        assert done.returncode == 0, done.stderr
        done = world.run(["./checked", *words])
        # Of tasks it warns that it does not follow swapcontext(), and goes on.
        assert done.returncode == status and "ERROR" not in done.stderr, (name, done.stderr)


def a_server_that_is_not_there_is_named(world):
    env = {**world.env, "OPEN_SANDBOX_DOMAIN": "127.0.0.1:1"}
    done = subprocess.run([world.compile("stream"), "true"], cwd=world.folder, env=env, text=True,
                          check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 125
    assert "127.0.0.1:1" in done.stderr and "is the server running" in done.stderr, done.stderr


def a_server_that_dies_ends_the_stream(world):
    """Last, as it takes the server along."""
    with subprocess.Popen(["valgrind", "--quiet", "--leak-check=full", "--error-exitcode=99",
                           world.compile("stream"), "echo begun; sleep 100"],
                          cwd=world.folder, env=world.env, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == "begun\n"
        world.server.kill9()
        _, errors = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 125, (process.returncode, errors)
    assert "broke its answer off" in errors, errors
    world.server.start()


def main():
    build, *programs = sys.argv[1:]
    skip_all(why_not())
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder, ServerProcess(*programs) as server:
        world = World(build, folder, server)
        for test in (the_line_of_the_readme_compiles_its_program,
                     the_program_of_the_readme_is_the_example, it_links_statically,
                     hello_leaks_nothing, streams_leak_nothing, tasks_leak_nothing,
                     examples_pass_the_sanitizers, a_server_that_is_not_there_is_named,
                     a_server_that_dies_ends_the_stream):
            tap.check(test.__name__, test, world)
    return tap.end()


sys.exit(main())
