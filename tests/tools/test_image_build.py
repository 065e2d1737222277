#!/usr/bin/env python3
"""test_image_build.py - images/code-interpreter/build, with stubs for all that needs the network.

The stubs stand first in PATH and note how they were called. TAP on standard output.
"""
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import tap

SCRIPT = tap.ROOT / "images/code-interpreter/build"
HOST_BUNDLE = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
VARIABLES = ("PIP_CERT", "NODE_EXTRA_CA_CERTS", "https_proxy")
NOTE = 'echo "$0 $*" >>"$STUBS/../calls"\n' + "".join(
    f'echo "{name}=${{{name}-}}" >>"$STUBS/../calls"\n' for name in VARIABLES) + \
    'test -z "${PIP_CERT-}" || cat "$PIP_CERT" >"$STUBS/../trusted"\n'
# The root is the last word but one of mmdebstrap's, and the one behind --prefix of npm's.
STUBS = {
    "apt-get": NOTE,
    "id": "echo 0\n",
    "mmdebstrap": NOTE + 'while [ $# -gt 2 ]; do shift; done\n'
                  'mkdir -p "$1/etc" "$1/proc" "$1/var/tmp" "$1/usr/local/lib"\n',
    "npm": NOTE + 'mkdir -p "$4/lib/node_modules"\n',
    "python3": NOTE + 'case "$*" in *download*) while [ "$1" != --dest ]; do shift; done\n'
               '    mkdir -p "$2" ;; esac\n',
    "unshare": 'case "$*" in *libc_ver*) echo 36 ;; *version_info*) echo 3.11 ;; esac\n',
}


class Build:
    """The script in a directory of its own, with its stubs."""

    def __init__(self, folder):
        self.folder, self.stubs, self.target = folder, folder / "stubs", folder / "root"
        self.stubs.mkdir()
        for name, text in STUBS.items():
            self.stub(name, text)

    def stub(self, name, text):
        path = self.stubs / name
        path.write_text(f'#!/bin/sh\nSTUBS="{self.stubs}"\n{text}', encoding="utf-8")
        path.chmod(0o755)

    def run(self, *options, path="", **env):
        clean = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        return subprocess.run(
            [SCRIPT, *options, self.target], capture_output=True, text=True, timeout=240,
            check=False, env={**clean, "PATH": f"{self.stubs}:{path or os.environ['PATH']}", **env})

    def calls(self):
        return (self.folder / "calls").read_text(encoding="utf-8")


@contextlib.contextmanager
def build():
    if not HOST_BUNDLE.exists():
        raise tap.Skip("there is no package ca-certificates")
    with tempfile.TemporaryDirectory(prefix="osb-image-") as folder:
        yield Build(pathlib.Path(folder).resolve())


def it_makes_a_root_and_says_how_long_that_took(made):
    done = made.run()
    assert done.returncode == 0, done.stderr
    assert re.search(r"MB in \d+ min \d+ s$", done.stderr, re.MULTILINE), done.stderr
    for place in ("opt/opensandbox", "opt/code-interpreter"):
        for name in ("code-interpreter.sh", "code-interpreter-env.sh"):
            assert os.access(made.target / place / name, os.X_OK), (place, name)
    assert ",python-is-python3," in made.calls()
    assert sorted(p.name for p in made.folder.iterdir() if p.name.startswith("root")) == ["root"]
    done = made.run()
    assert done.returncode == 0 and "up to date" in done.stderr, done.stderr


def it_installs_what_is_missing(made):
    """apt-get of the stubs brings what the other stubs are."""
    tools = made.folder / "tools"
    tools.mkdir()
    for name in ("cat", "chmod", "cksum", "cut", "date", "dirname", "du", "env", "find", "mkdir",
                 "mktemp", "mv", "rm", "sh", "tail", "test", "tr", "uname"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    for name in ("mmdebstrap", "npm"):
        (made.stubs / name).rename(made.folder / name)
    made.stub("apt-get", NOTE + f'case "$*" in *install*) mv {made.folder}/mmdebstrap '
              f'{made.folder}/npm "$STUBS" ;; esac\n')
    done = made.run(path=tools)
    assert done.returncode == 0, done.stderr
    install = [line for line in made.calls().splitlines()
               if "apt-get" in line and "install" in line]
    assert len(install) == 1 and " mmdebstrap npm" in install[0], made.calls()
    assert "python3-pip" not in install[0], install


def without_apt_it_names_what_is_missing(made):
    tools = made.folder / "tools"
    tools.mkdir()
    for name in ("cat", "chmod", "cksum", "date", "dirname", "mkdir", "mktemp", "rm", "sh", "tail",
                 "test"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    for name in ("apt-get", "npm"):
        (made.stubs / name).unlink()
    done = made.run(path=tools)
    assert done.returncode == 1 and "npm" in done.stderr and "apt-get" in done.stderr, done.stderr
    assert not made.target.exists()


def a_private_authority_and_a_proxy_reach_all_that_fetches(made):
    authority = made.folder / "authority.pem"
    authority.write_text("a private authority\n", encoding="utf-8")
    done = made.run("--ca", authority, https_proxy="http://proxy.example.com:3128")
    assert done.returncode == 0, done.stderr
    calls = made.calls()
    fetchers = [line for line in calls.splitlines() if "stubs/" in line]
    bundles = {line.partition("=")[2] for line in calls.splitlines()
               if line.startswith(("PIP_CERT=", "NODE_EXTRA"))} - {""}
    assert len(bundles) == 1 and f'Acquire::https::CAInfo "{bundles.pop()}"' in calls, calls
    assert calls.count("https_proxy=http://proxy.example.com:3128") == len(fetchers) > 3, calls
    trusted = (made.folder / "trusted").read_text(encoding="utf-8")
    assert trusted == HOST_BUNDLE.read_text(encoding="utf-8") + "a private authority\n"


def a_missing_authority_file_is_reported(made):
    done = made.run("--ca", "/nowhere.pem")
    assert done.returncode == 1 and "--ca /nowhere.pem" in done.stderr, done.stderr


if __name__ == "__main__":
    sys.exit(tap.run_tests([
        it_makes_a_root_and_says_how_long_that_took,
        it_installs_what_is_missing,
        without_apt_it_names_what_is_missing,
        a_private_authority_and_a_proxy_reach_all_that_fetches,
        a_missing_authority_file_is_reported,
    ], build))
