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
# The root is the last word but one of mmdebstrap's. All else is done in it, by unshare and chroot.
STUBS = {
    "apt-get": NOTE,
    "id": "echo 0\n",
    "mmdebstrap": NOTE + 'while [ $# -gt 2 ]; do shift; done\n'
                  'mkdir -p "$1/etc" "$1/proc" "$1/var/tmp" "$1/usr/local/lib"\n',
    "unshare": NOTE,
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
    for name in ("cat", "chmod", "cksum", "cut", "date", "dirname", "du", "find", "install",
                 "mkdir", "mktemp", "mv", "rm", "sh", "tail", "test", "tr"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    (made.stubs / "mmdebstrap").rename(made.folder / "mmdebstrap")
    made.stub("apt-get", NOTE +
              f'case "$*" in *install*) mv {made.folder}/mmdebstrap "$STUBS" ;; esac\n')
    done = made.run(path=tools)
    assert done.returncode == 0, done.stderr
    install = [line for line in made.calls().splitlines()
               if "apt-get" in line and "install" in line]
    assert len(install) == 1 and install[0].endswith(" mmdebstrap"), made.calls()


def without_apt_it_names_what_is_missing(made):
    tools = made.folder / "tools"
    tools.mkdir()
    for name in ("cat", "chmod", "cksum", "date", "dirname", "mkdir", "mktemp", "rm", "sh", "tail",
                 "test"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    for name in ("apt-get", "mmdebstrap"):
        (made.stubs / name).unlink()
    done = made.run(path=tools)
    assert done.returncode == 1 and "mmdebstrap" in done.stderr, done.stderr
    assert "apt-get" in done.stderr, done.stderr
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


VERSIONS = {"opt/python/versions": ("3.9.1", "3.10.8", "3.14.3"), "opt/node": ("v22.2.0",),
            "opt/go": ("1.24.11", "1.25.5"),
            "usr/lib/jvm": ("java-17-openjdk-amd64", "java-21-openjdk-amd64")}


class Versions:
    """env.sh with places below a directory, and what a shell that sources it says."""

    def __init__(self, folder):
        self.folder, text = folder, (SCRIPT.parent / "env.sh").read_text(encoding="utf-8")
        for place, names in VERSIONS.items():
            text = text.replace(f"/{place}/", f"{folder}/{place}/")
            for name in names:
                (folder / place / name / "bin").mkdir(parents=True)
        text = text.replace("place=/opt/python/", f"place={folder}/opt/python/")
        (folder / "usr/lib/jvm/java-1.21.0-openjdk-amd64").symlink_to("java-21-openjdk-amd64")
        self.script, self.envs, self.rc = folder / "env.sh", folder / "envs", folder / "bashrc"
        self.script.write_text(text, encoding="utf-8")

    def shell(self, text):
        return subprocess.run(
            ["bash", "-euc", text.replace("@", f"source {self.script}")], capture_output=True,
            text=True, check=False, timeout=60, env={
                "PATH": "/usr/bin:/bin", "EXECD_ENVS": str(self.envs), "BASHRC_FILE": str(self.rc)})


def a_version_is_chosen_by_its_beginning(made):
    v = Versions(made.folder)
    v.envs.write_text("LD_LIBRARY_PATH=/x\nPATH=/old\n", encoding="ascii")
    done = v.shell("@; @ python 3.10; @ go 1.24; @ go; @ java 17; @ node 22; @ python 3.9; "
                   "echo $PATH; echo $JAVA_HOME; echo $GOROOT")
    assert done.returncode == 0 and not done.stderr, done
    *listed, path, java, go = done.stdout.splitlines()
    assert listed == ["python: 3.9.1 3.10.8 3.14.3", "java: 17 21", "node: 22.2.0",
                      "go: 1.24.11 1.25.5"], listed
    top = v.folder
    assert path == (f"{top}/opt/python/versions/3.9.1/bin:{top}/opt/node/v22.2.0/bin:"
                    f"{top}/usr/lib/jvm/java-17-openjdk-amd64/bin:{top}/opt/go/1.25.5/bin:"
                    "/usr/bin:/bin"), path
    assert (java, go) == (f"{top}/usr/lib/jvm/java-17-openjdk-amd64", f"{top}/opt/go/1.25.5")
    # What execd reads, and later shells: the last choice of each, and nothing of others is lost.
    lines = v.envs.read_text(encoding="ascii").splitlines()
    assert sorted(line.partition("=")[0] for line in lines) == sorted((
        "LD_LIBRARY_PATH", "PATH", "CODE_INTERPRETER_PATH", "JAVA_HOME", "GOROOT")), lines
    assert f"PATH={path}" in lines and "LD_LIBRARY_PATH=/x" in lines, lines
    assert len(v.rc.read_text(encoding="ascii").splitlines()) == 4
    done = v.shell(f". {v.rc}; echo $JAVA_HOME; echo $PATH")
    assert done.stdout.startswith(java) and "/3.9.1/bin" in done.stdout, done


def a_version_that_is_not_there_is_refused(made):
    v = Versions(made.folder)
    for words in ("python 3.1", "python 4", "java 8", "node 2"):
        done = v.shell(f"@ {words}")
        assert done.returncode == 1 and f"there is no {words}; there is" in done.stderr, done
    assert not v.envs.exists() and not v.rc.exists()


PRINTED = {"python3": "Python 3.12.1", "java": 'openjdk version "1.8.0_442"', "node": "v22.2.0",
           "go": "go version go1.25.5 linux/amd64"}


def it_is_ready_with_the_versions_that_are_named(made):
    """ready.sh with programs that print these; one is found by the file for later commands."""
    first, later, envs = made.folder / "first", made.folder / "later", made.folder / "envs"
    for place in (first, later):
        place.mkdir()
        for name, text in PRINTED.items():
            text = text.replace("3.12.1", "3.14.3") if place == first else text
            (place / name).write_text(f"#!/bin/sh\necho '{text}'\n", encoding="utf-8")
            (place / name).chmod(0o755)
    wanted = {"PYTHON_VERSION": "3.12", "JAVA_VERSION": "8", "NODE_VERSION": "v22.2",
              "GO_VERSION": "1.25.5"}

    def ready(**env):
        return subprocess.run(["sh", SCRIPT.parent / "ready.sh"], capture_output=True, text=True,
                              check=False, timeout=60, env={
                                  "PATH": f"{first}:/usr/bin:/bin", "EXECD_ENVS": str(envs), **env})

    done = ready(**wanted)
    assert done.returncode and done.stderr == "python is 3.14.3, not 3.12\n", done
    envs.write_text(f"A=b\nPATH={later}:/usr/bin:/bin\n", encoding="utf-8")
    assert ready(**wanted).returncode == 0 and ready().returncode == 0, ready(**wanted)
    for name, other in (("JAVA", "1"), ("NODE", "2"), ("GO", "1.25.50"), ("PYTHON", "3.1")):
        done = ready(**{**wanted, f"{name}_VERSION": other})
        assert done.returncode and f", not {other}\n" in done.stderr, done
    (later / "go").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    done = ready(**wanted)
    assert done.returncode and "there is no go" in done.stderr, done


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
        a_version_is_chosen_by_its_beginning,
        a_version_that_is_not_there_is_refused,
        it_is_ready_with_the_versions_that_are_named,
    ], build))
