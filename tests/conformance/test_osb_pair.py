#!/usr/bin/env python3
"""test_osb_pair.py OURS THEIRS SERVER BROKER EXECD SANDBOXCTL - the same command lines to our osb
and to the original one, against one server: the same exit status, and the same shape under -o json.

What `config show` shows must be the same, not only of the same shape, and each reads the settings
that the other wrote. A row is a command line and, where we differ on purpose, why. {box} is a
sandbox that both see, {command} a background command that ended in it, {dir} a local directory of
the program.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tools"), str(HERE.parent / "integration")]

from server_process import SECONDS_MAX, ServerProcess, why_not  # noqa: E402
from tap import Tap, skip_all  # noqa: E402

UNKNOWN = "00000000-0000-4000-8000-000000000000"
STATUS, SHAPE = "status", "shape"  # what differs

# (command line, None or (what differs, why))
LINES = [
    ("--version", None),
    ("--help", None),
    ("-h", None),
    ("sandbox", None),
    ("sandbox --help", None),
    ("sandbox create --help", None),
    ("command", None),
    ("command session", None),
    ("file", None),
    ("egress", None),
    ("diagnostics", None),
    ("devops", None),
    ("config", None),
    ("nonsense", None),
    ("sandbox nonsense", None),
    ("--nonsense", None),
    ("sandbox list --nonsense", None),
    ("sandbox list -o nonsense", None),
    ("sandbox list -o json extra", None),
    ("--protocol ftp sandbox list", None),
    ("--request-timeout x sandbox list", None),
    ("--request-timeout 20 sandbox list -o json", None),
    ("--use-server-proxy sandbox list -o json", None),
    ("--no-use-server-proxy sandbox list -o json", None),
    ("sandbox list", None),
    ("sandbox list -o JSON", None),
    ("sandbox list -o yaml", None),
    ("sandbox list -s running -o json", None),
    ("sandbox list -s Paused -s Running -o json", None),
    ("sandbox list -s nonsense", None),
    ("sandbox list -m pair=yes -o json", None),
    ("sandbox list -m nonsense", None),
    ("sandbox list --page 1 --page-size 1 -o json", None),
    ("sandbox list --page 0", None),
    ("sandbox list --page x", None),
    ("sandbox get", None),
    ("sandbox get {box}", None),
    ("sandbox get {box} -o json", None),
    ("sandbox get {box} -o yaml", None),
    ("sandbox get {box} {box}", None),
    (f"sandbox get {UNKNOWN}", None),
    (f"sandbox kill {UNKNOWN}", None),
    ("sandbox kill", None),
    ("sandbox create --image", None),
    ("sandbox create", None),
    ("sandbox create --image host --image-auth-username u", None),
    ("sandbox create --image host -e nonsense", None),
    ("sandbox create --image host --credential-proxy", None),
    ("sandbox create --image host --network-policy-file /nowhere", None),
    ("sandbox create --image host -t 5m -o json", None),
    ("sandbox create --image host -t none -o json", None),
    ("sandbox create --image host -m a=1 -e B=2 --resource cpu=1 --resource memory=256Mi -o json",
     None),
    ("sandbox renew {box} -o json", None),
    ("sandbox renew {box} -t 1h30m -o json", None),
    ("sandbox renew {box} -t nonsense", None),
    ("sandbox endpoint {box} -p 8000 -o json", None),
    ("sandbox endpoint {box} -p 0", None),
    ("sandbox endpoint {box}", None),
    ("sandbox health {box}", None),
    ("sandbox health {box} -o json", None),
    ("sandbox metrics {box} -o json", None),
    ("sandbox metrics {box}", None),
    ("sandbox pause {box} -o json", None),
    ("sandbox health {box} -o json", (STATUS, "a sandbox that does not answer is a failure")),
    ("sandbox resume {box} -o json", None),
    ("command run {box}", None),
    ("command run {box} -- echo hello", None),
    ("command run {box} -- true", None),
    ("command run {box} -- sh -c 'exit 3'", (STATUS, "the status of the command is ours")),
    ("command run {box} -t 1s -- sleep 30", (STATUS, "124 says that the time was up")),
    ("command run {box} -o json -- true", None),
    ("command run {box} -o raw -- true", None),
    ("command run {box} -d -o json -- true", None),
    ("command run {box} -d -o raw -- true", None),
    ("command run {box} -t nonsense -- true", None),
    ("command status {box} {command} -o json", None),
    ("command status {box} nonsense", None),
    ("command logs {box} {command} -o json", None),
    ("command logs {box} {command} -o raw", None),
    ("command logs {box} {command} --cursor x", None),
    ("command session create {box} -o json", None),
    ("command session delete {box} nonsense", None),
    ("file write {box} /tmp/pair -c text -o json", None),
    ("file write {box} /tmp/pair -c text --mode 0o644", None),
    ("file cat {box} /tmp/pair", None),
    ("file cat {box} /nowhere", None),
    ("file cat {box} /tmp/pair -o json", None),
    ("file info {box} /tmp/pair -o json", None),
    ("file info {box} /nowhere", None),
    ("file search {box} /tmp -p pair -o json", None),
    ("file search {box} /tmp", None),
    ("file mkdir {box} /tmp/made --mode 750 -o json", None),
    ("file upload {box} /nowhere /tmp/x", None),
    ("file upload {box} {dir}/local /tmp/up -o json", None),
    ("file download {box} /tmp/up {dir}/new/down -o json", None),
    ("file mv {box} /tmp/up /tmp/moved -o json", None),
    ("file chmod {box} /tmp/pair --mode 600 -o json", None),
    ("file chmod {box} /tmp/pair", None),
    ("file replace {box} /tmp/pair --old text --new word -o json", None),
    ("file replace {box} /tmp/pair --old text", None),
    ("file rm {box} /tmp/pair -o json", None),
    ("file rmdir {box} /tmp/made -o json", None),
    ("egress patch {box}", None),
    ("egress patch {box} --rule nonsense", None),
    ("egress patch {box} --rule maybe=x", None),
    ("diagnostics logs {box}", None),
    ("diagnostics logs {box} -s container", None),
    ("diagnostics logs {box} -s container -o json", None),
    ("diagnostics events {box} -s lifecycle -o json", None),
    ("devops inspect {box}", None),
    ("devops logs {box} -n 5", None),
    ("devops events {box} -l 5", None),
    ("devops summary {box}", None),
    (f"devops summary {UNKNOWN}", None),
    ("snapshot list -o json", None),
    (f"snapshot get {UNKNOWN}", None),
    ("skills", None),
    ("skills list", None),
    ("skills list -o json", None),
    ("skills show", None),
    ("skills show nonsense", None),
    ("skills show network-egress", None),
    ("skills show network-egress -o json", None),
    ("skills show sandbox-lifecycle -o json", None),
    ("skills install", None),
    ("skills install network-egress", None),
    ("skills install network-egress -t claude", None),
    ("skills install network-egress --scope global", None),
    ("skills install -t claude --scope global", None),
    ("skills install nonsense -t claude --scope global", None),
    ("skills install network-egress -t nonsense --scope global", None),
    ("skills install network-egress --all-builtins -t claude --scope global", None),
    ("skills install network-egress -t all --scope global -o json", None),
    ("skills install network-egress -t ALL --scope GLOBAL -f -o json", None),
    ("skills install --all-builtins -t cline --scope global -o json", None),
    ("skills uninstall", None),
    ("skills uninstall -t claude --scope global -o json", None),
    ("skills uninstall network-egress -t all --scope global -o json", None),
    ("skills uninstall network-egress -t all --scope global", None),
    ("--config {dir}/c.toml config show -o json", None),
    ("--config {dir}/c.toml config set connection.domain x", None),
    ("--config {dir}/c.toml config init -o json", None),
    ("--config {dir}/c.toml config init", None),
    ("--config {dir}/c.toml config init --force", None),
    ("--config {dir}/c.toml config set connection.domain other:1 -o json", None),
    ("--config {dir}/c.toml config set connection.request_timeout 7", None),
    ("--config {dir}/c.toml config set nonsense x", None),
    ("--config {dir}/c.toml config show -o json", None),
    ("--config {dir}/c.toml --domain flag:1 config show -o json", None),
]


def words_of(line, **names):
    """Words by blanks; 'a b' is one."""
    parts = line.format(**names).split("'")
    words = []
    for i, part in enumerate(parts):
        words += [part] if i % 2 else part.split()
    return words


def shape(value):
    if isinstance(value, dict):
        return {key: shape(item) for key, item in sorted(value.items())}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return "value"


class Program:
    def __init__(self, path, server, folder):
        self.path, self.folder = path, pathlib.Path(folder)
        self.folder.mkdir()
        (self.folder / "local").write_text("local\n", encoding="ascii")
        self.env = {"PATH": os.environ["PATH"], "HOME": folder, "LANG": "C.UTF-8",
                    "OPEN_SANDBOX_DOMAIN": server.domain, "OPEN_SANDBOX_API_KEY": server.api_key}
        self.box = json.loads(self.run(["sandbox", "create", "--image", "host", "-m", "pair=yes",
                                        "-o", "json"]).stdout)["id"]
        done = self.run(["command", "run", self.box, "-d", "-o", "json", "--", "echo", "one"])
        self.command = json.loads(done.stdout)["execution_id"]

    def run(self, words):
        return subprocess.run([self.path, "--no-color", *words], stdin=subprocess.DEVNULL,
                              text=True, capture_output=True, check=False, timeout=SECONDS_MAX,
                              env=self.env)

    def line(self, line):
        return self.run(words_of(line, box=self.box, command=self.command, dir=self.folder))


def compare(line, difference, ours, theirs):
    mine, other = ours.line(line), theirs.line(line)
    what = difference[0] if difference else None
    said = f"{mine.returncode} {mine.stdout}{mine.stderr}\n--- theirs\n" \
           f"{other.returncode} {other.stdout}{other.stderr}"
    assert (mine.returncode == other.returncode) == (what != STATUS), said
    if "-o json" in line.lower() and mine.returncode == other.returncode == 0:
        assert (shape(json.loads(mine.stdout)) == shape(json.loads(other.stdout))) == \
            (what != SHAPE), said
        if "config show" in line:
            assert settings(mine, ours) == settings(other, theirs), said


def settings(done, program):
    assert done.returncode == 0, done
    return json.loads(done.stdout.replace(str(program.folder), "{dir}"))


def each_reads_the_settings_of_the_other(ours, theirs):
    for program in (ours, theirs):  # the environment would count more than the file
        program.env = {name: value for name, value in program.env.items()
                       if not name.startswith("OPEN_SANDBOX_")}
    for writer in (ours, theirs):
        writer.run(["--config", f"{writer.folder}/c.toml", "config", "init", "--force"])
        for field, value in (("connection.api_key", "the-key"), ("output.color", "false"),
                             ("connection.domain", "there:1"), ("connection.protocol", "https"),
                             ("connection.use_server_proxy", "true"), ("defaults.timeout", "5m")):
            writer.run(["--config", f"{writer.folder}/c.toml", "config", "set", field, value])
        shown = [settings(reader.run(["--config", f"{writer.folder}/c.toml", "config", "show", "-o",
                                      "json"]), writer) for reader in (ours, theirs)]
        assert shown[0] == shown[1] and shown[0]["domain"] == "there:1", shown


def main():
    ours, theirs, *programs = sys.argv[1:]
    skip_all(why_not())
    tap = Tap()
    with ServerProcess(*programs) as server, \
            tempfile.TemporaryDirectory(prefix="osb-pair-") as folder:
        pair = (Program(ours, server, f"{folder}/ours"),
                Program(theirs, server, f"{folder}/theirs"))
        for line, difference in LINES:
            name = line + (f" (differs: {difference[1]})" if difference else "")
            tap.check(name.replace("#", ""), compare, line, difference, *pair)
        tap.check("each reads the settings of the other", each_reads_the_settings_of_the_other,
                  *pair)
    return tap.end()


sys.exit(main())
