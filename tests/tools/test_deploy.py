#!/usr/bin/env python3
"""test_deploy.py UNIT... - the files of deploy/ fit the programs they are about.

UNIT are the configured service files. TAP on standard output.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import tap

ROOT = tap.ROOT
UNITS = [pathlib.Path(path) for path in sys.argv[1:]]


def unit(name):
    return next(path for path in UNITS if path.name == name).read_text(encoding="utf-8")


def settings(text, name):
    """Words of every line that sets it."""
    return [word for line in re.findall(rf"^{name}=(.*)$", text, re.MULTILINE)
            for word in line.split()]


def the_broker_keeps_what_it_asks_for():
    """Capabilities of the unit are those of the table, no more and no fewer."""
    source = (ROOT / "src/broker/confine.c").read_text(encoding="utf-8")
    table = re.search(r"needed\[\] = \{(.*?)^\};", source, re.DOTALL | re.MULTILINE)[1]
    needed = set(re.findall(r"\{(CAP_\w+),", table))
    assert "CAP_SYS_ADMIN" in needed, "the table was not found"
    kept = set(settings(unit("opensandbox-broker.service"), "CapabilityBoundingSet"))
    assert kept == needed | {"CAP_SYS_RESOURCE"}, kept ^ needed


def the_server_has_no_privilege():
    text = unit("opensandbox-server.service")
    assert settings(text, "User") == ["opensandbox"]
    assert settings(text, "CapabilityBoundingSet") == []
    assert settings(text, "NoNewPrivileges") == ["yes"]


def the_account_is_the_one_the_units_name():
    text = (ROOT / "deploy/systemd/opensandbox.conf").read_text(encoding="utf-8")
    header = (ROOT / "src/server/config/config.h").read_text(encoding="utf-8")
    number = re.search(r"CONFIG_ID_DEFAULT = (\d+)", header)[1]
    assert re.search(rf"^u opensandbox {number} ", text, re.MULTILINE)


class Installation:
    """tools/install for the build that the units are of, with a DESTDIR of its own."""

    def __init__(self, scratch):
        build = UNITS[0].resolve().parent.parent
        options = json.loads((build / "meson-info/intro-buildoptions.json").read_text())
        self.prefix = next(o["value"] for o in options if o["name"] == "prefix")
        self.scratch, self.destdir = scratch, scratch / "dest"
        self.root = pathlib.Path(f"{self.destdir}{self.prefix}")
        (scratch / "build").mkdir()
        for flavour in ("native", "musl"):
            (scratch / "build" / flavour).symlink_to(build)

    def run(self, *options):
        code = ("import pathlib, sys, tap; tool = tap.load_tool('install'); "
                "tool.ROOT = pathlib.Path(sys.argv.pop(1)); tool.main()")
        return subprocess.run(
            [sys.executable, "-c", code, self.scratch, f"--destdir={self.destdir}",
             f"--prefix={self.prefix}", *options], cwd=pathlib.Path(__file__).parent,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240, check=False)

    def files(self):
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*")}


def uninstall_removes_what_install_put_there():
    """And nothing of others, also when something was installed twice."""
    with tempfile.TemporaryDirectory() as scratch:
        made = Installation(pathlib.Path(scratch).resolve())
        (made.root / "share/opensandbox").mkdir(parents=True)
        (made.root / "share/opensandbox/mine").touch()
        before = made.files()
        for _ in range(2):
            done = made.run()
            assert done.returncode == 0, done.stdout
        for name in ("sbin/opensandbox-server", "lib/systemd/system/opensandbox-broker.service",
                     "share/doc/opensandbox/docs/config.md", "share/doc/opensandbox/README.md",
                     "share/opensandbox/images/code-interpreter/build",
                     "share/opensandbox/config.toml"):
            assert (made.root / name).is_file(), name
        assert os.access(made.root / "share/opensandbox/images/code-interpreter/build", os.X_OK)
        done = made.run("--remove")
        assert done.returncode == 0 and made.files() == before, made.files() ^ before
        done = made.run("--remove")
        assert done.returncode == 1 and "nothing is installed" in done.stdout, done.stdout


def install_says_what_to_do_next():
    """The same lines as README.md has them."""
    tool = tap.load_tool("install")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = [line for line in tool.next_steps("/usr/local").splitlines()
             if line.startswith("  ")]
    assert len(lines) == 4, lines
    for line in lines:
        assert f"\n{line.strip()}" in readme, line
    assert "/var/lib/opensandbox/server/api_key" in tool.NEXT


def systemd_understands_the_units():
    """Programs and accounts that are not installed here are replaced by some that are."""
    if not shutil.which("systemd-analyze"):
        raise tap.Skip("there is no systemd-analyze")
    with tempfile.TemporaryDirectory() as scratch:
        paths = []
        for path in UNITS:
            text = re.sub(r"/\S+/(opensandbox-\w+|execd)\b", "/bin/true",
                          path.read_text(encoding="utf-8"))
            text = re.sub(r"^(User|Group)=.*$", r"\1=root", text, flags=re.MULTILINE)
            paths.append(pathlib.Path(scratch, path.name))
            paths[-1].write_text(text, encoding="utf-8")
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no",
                               *paths], check=False, capture_output=True, text=True, timeout=240)
    complaints = [line for line in done.stderr.splitlines() if "opensandbox" in line]
    assert not complaints, "\n".join(complaints)


if __name__ == "__main__":
    sys.exit(tap.run_tests([
        the_broker_keeps_what_it_asks_for,
        the_server_has_no_privilege,
        the_account_is_the_one_the_units_name,
        uninstall_removes_what_install_put_there,
        install_says_what_to_do_next,
        systemd_understands_the_units,
    ]))
