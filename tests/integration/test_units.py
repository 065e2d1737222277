#!/usr/bin/env python3
"""test_units.py SERVER BROKER EXECD SANDBOXCTL UNIT... - the command lines of the systemd units.

Runs what the units of deploy/ run, without systemd: the broker by its own command lines, the server
as another user without privileges, in a mount namespace in which all but its directory is read-only
and /tmp is its own, as ProtectSystem=strict and PrivateTmp=yes make it. /var/lib/opensandbox is a
directory of this test. Images of `dir:` must work as README.md says. TAP on standard output.
"""
import contextlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from broker_process import Broker
from server_process import SECONDS_MAX, ServerProcess, toml, why_not

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402

STATE = "/var/lib/opensandbox"  # of the units
UID = 61700
INSIDE = "OPENSANDBOX_TEST_UNITS"  # set in the mount namespace
# What the server's unit asks systemd for.
CONFINE = """
mount --bind "$1" "$1" && mount -o remount,bind,ro / && mount -t tmpfs tmpfs /tmp && shift &&
exec setpriv --reuid {uid} --regid {uid} --clear-groups --no-new-privs --bounding-set=-all \
    --inh-caps=-all "$@"
"""


def commands(text, name):
    """The words of every line `name=`, as systemd reads them: lines may go on, $$ is a $."""
    lines = re.findall(rf"^{name}=((?:.*\\\n)*.*)$", text, re.MULTILINE)
    return [[word.replace("$$", "$") for word in shlex.split(line.replace("\\\n", " "))]
            for line in lines]


class Units(ServerProcess):
    """Both services."""

    def __init__(self, programs, units):
        super().__init__(*programs)
        # Not in /tmp, which the service has for itself.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="osb-units-", dir="/var/tmp"))
        self.broker = Broker(self.broker.program, self.broker.execd, self.broker.ctl_program,
                             folder=self.folder)
        self.state = self.broker.state
        self.config_path, self.log_path = self.folder / "config.toml", self.folder / "server.log"
        self.units = {path.name: path.read_text(encoding="utf-8") for path in units}
        self.images = {"inside:*": self.state / "images/box", "srv:*": self.folder / "srv/box",
                       "other:*": self.folder / "other"}

    def run_words(self, words):
        """With our programs and our directory in place of the installed ones."""
        installed = {"opensandbox-server": self.program, "opensandbox-broker": self.broker.program,
                     "execd": self.broker.execd}
        return [installed.get(pathlib.Path(word).name, word).replace(STATE, str(self.state))
                if word.startswith("/") else word.replace(STATE, str(self.state))
                for word in words]

    def make_box(self, path):
        """A root that has busybox."""
        (path / "bin").mkdir(parents=True)
        shutil.copy(shutil.which("busybox"), path / "bin/busybox")
        for name in ("sh", "sleep", "tail"):
            (path / "bin" / name).symlink_to("busybox")

    def start_broker(self):
        text = self.units["opensandbox-broker.service"]
        for words in commands(text, "ExecStartPre"):
            subprocess.run(self.run_words(words), check=True)
        for path in self.images.values():
            self.make_box(path)
        for path in (self.folder, self.folder / "srv"):
            path.chmod(0o755)
        # What README.md has in /etc/opensandbox/broker.env.
        env = {**os.environ, "OPENSANDBOX_BROKER_ARGS": f"--allow {self.folder}/srv "
               f"--state {self.state} --workers 2"}
        with open(self.broker.log_path, "ab") as log:
            self.broker.process = subprocess.Popen(
                self.run_words(commands(text, "ExecStart")[0]), env=env, stdout=log, stderr=log,
                start_new_session=True)

    def spawn(self):
        self.start_broker()
        self.config_path.write_text(toml({
            "server": {"host": self.host, "port": self.port, "state": str(self.state)},
            "runtime": {"ready": 2},
            "embedded.images": {name: f"dir:{path}" for name, path in self.images.items()},
        }), encoding="utf-8")
        env = {"PATH": os.environ["PATH"], "SANDBOX_CONFIG_PATH": str(self.config_path)}
        text = self.units["opensandbox-server.service"]
        (check,), (start,) = commands(text, "ExecStartPre"), commands(text, "ExecStart")
        confine = ["unshare", "--mount", "sh", "-c", CONFINE.format(uid=UID), "sh",
                   self.state / "server"]
        with open(self.log_path, "ab") as log:
            subprocess.run([*confine, *self.run_words(check)], env=env, stdout=log, stderr=log,
                           check=True)
            self.process = subprocess.Popen(
                [*confine, *self.run_words(start)], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, cwd="/", env=env, start_new_session=True)

    def remove(self):
        with contextlib.suppress(AssertionError):
            self.stop()
        self.reserved.close()
        if self.broker.process:
            self.broker.__exit__()
        shutil.rmtree(self.folder)


def runs(server, image):
    name = server.create(image)
    status, _, body = server.request("POST", f"/v1/sandboxes/{name}/proxy/44772/command",
                                     {"command": "/bin/busybox echo it runs"})
    assert status == 200 and "it runs" in str(body), (status, body)
    server.request("DELETE", f"/v1/sandboxes/{name}")


def is_refused(server, image):
    """By the broker, which says why."""
    request = {"image": {"uri": image}, "entrypoint": ["sleep", "600"],
               "resourceLimits": {"cpu": "1", "memory": "64Mi"}, "timeout": 600}
    status, _, body = server.request("POST", "/v1/sandboxes", request)
    if status == 202:
        body = server.wait_state(body["id"], "Failed")
    assert "is not below a directory that this broker allows" in str(body), (status, body)


@contextlib.contextmanager
def account():
    """The account of the sysusers file, in this mount namespace only."""
    rows = {"/etc/passwd": f"opensandbox:x:{UID}:{UID}::{STATE}:/usr/sbin/nologin\n",
            "/etc/group": f"opensandbox:x:{UID}:\n"}
    with tempfile.TemporaryDirectory(prefix="osb-account-") as folder:
        for place, row in rows.items():
            path = pathlib.Path(folder, pathlib.Path(place).name)
            text = pathlib.Path(place).read_text(encoding="utf-8")
            path.write_text(row + re.sub(r"^opensandbox:.*\n", "", text, flags=re.MULTILINE),
                            encoding="utf-8")
            subprocess.run(["mount", "--bind", path, place], check=True)
        yield


def main():
    tap.skip_all(why_not() or (None if shutil.which("busybox") else "there is no busybox"))
    if not os.environ.get(INSIDE):
        os.environ[INSIDE] = "1"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])
    programs, units = sys.argv[1:5], [pathlib.Path(path) for path in sys.argv[5:]]
    checks = tap.Tap()
    with account(), Units(programs, units) as server:
        checks.check("an image below /var/lib/opensandbox/images runs", runs, server, "inside:1")
        checks.check("an image in a directory that broker.env allows runs", runs, server, "srv:1")
        checks.check("an image elsewhere is refused, with the reason", is_refused, server,
                     "other:1")
        if checks.failed:
            print("# " + (server.log() + server.broker.log())[-8000:].replace("\n", "\n# "))
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
