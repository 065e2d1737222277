#!/usr/bin/env python3
"""test_js_client.py SERVER BROKER EXECD SANDBOXCTL EGRESS - our JavaScript SDK: built, packed and
installed as its users do it; the tests of the official SDK, unmodified, with ours in its place; the
cases of sdks/conformance; faults. Prints TAP."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TESTS = ROOT / "tests/sdk/js"
sys.path[:0] = [str(HERE.parent / "integration"), str(HERE.parent / "tools")]

from server_process import ServerProcess, why_not  # noqa: E402
from tap import skip_all  # noqa: E402

NODE_MAJOR_MIN = 18
# Those of egress and the vault need a network; run_*.mjs have their calls.
EXAMPLES = {"streaming.mjs": "terminal: 40 120", "files.mjs": "large.bin has 6553600 bytes",
            "code.mjs": "chart.png has a picture", "pool.mjs": "STOPPED"}
SECONDS_MAX = 600


def node_is_too_old():
    version = subprocess.run(["node", "--version"], check=True, stdout=subprocess.PIPE,
                             text=True).stdout
    return f"needs Node {NODE_MAJOR_MIN}, here is {version.strip()}" \
        if int(version.lstrip("v").split(".")[0]) < NODE_MAJOR_MIN else ""


class Tap:
    """Results of our own, and those of programs that print TAP."""

    def __init__(self):
        self.number = self.failed = 0

    def result(self, passed, name, output=""):
        self.number += 1
        self.failed += not passed
        print(f"{'ok' if passed else 'not ok'} {self.number} - {name}", flush=True)
        if not passed and output:
            print("# " + output[-6000:].replace("\n", "\n# "), flush=True)

    def run(self, name, command, **options):
        """One result: whether the command succeeds. Returns what it printed."""
        done = subprocess.run(list(map(str, command)), check=False, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX, **options)
        self.result(done.returncode == 0, name, done.stdout)
        return done.stdout

    def relay(self, name, command, **options):
        """The results of a program that prints TAP."""
        failed, number = self.failed, self.number
        with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True,
                              **options) as child:
            for line in child.stdout:
                found = re.match(r"(ok|not ok) \d+(?: - )?(.*)", line.rstrip())
                if found:
                    self.result(found[1] == "ok", f"{name}: {found[2]}")
                elif not re.match(r"1\.\.\d", line):
                    print(line, end="", flush=True)
            status = child.wait(SECONDS_MAX)
        if number == self.number or (status != 0) != (failed != self.failed):
            self.result(False, f"{name}: exit status {status}, {self.number - number} results")


def packed(tap, built, server, where):
    """The tarballs, in a directory of their own, run the quick start."""
    out = tap.run("npm pack makes the tarballs", ["npm", "pack", "--silent", "--pack-destination",
                                                  where, "./sandbox", "./code-interpreter"],
                  cwd=built)
    tarballs = [str(where / name) for name in re.findall(r"^\S+\.tgz$", out, re.MULTILINE)]
    (where / "package.json").write_text('{"private": true}')
    tap.run("the tarballs install without anything else",
            ["npm", "install", "--offline", "--no-audit", "--no-fund", *tarballs], cwd=where)
    env = dict(os.environ, IMAGE="host", OPEN_SANDBOX_DOMAIN=server.domain,
               OPEN_SANDBOX_API_KEY=server.api_key)
    for name in ("quickstart.mjs", "quickstart.cjs"):
        (where / name).write_bytes((ROOT / "sdks/javascript/examples" / name).read_bytes())
        out = tap.run(f"the quick start runs: {name}", ["node", name], cwd=where, env=env)
        tap.result("Hello Sandbox! 0" in out, f"and says hello: {name}", out)
    for name, said in EXAMPLES.items():
        (where / name).write_bytes((ROOT / "sdks/javascript/examples" / name).read_bytes())
        out = tap.run(f"the example runs: {name}", ["node", name], cwd=where, env=env)
        tap.result(said in out, f"and says what it should: {name}", out)


def main():
    skip_all(why_not() or node_is_too_old())
    *programs, egress = map(os.path.abspath, sys.argv[1:])
    tap = Tap()
    tap.run("models are those of specs/", [sys.executable, ROOT / "tools/sdkgen", "--check"])
    tap.run("the version is the same everywhere", ["node", "build.mjs", "--check"],
            cwd=ROOT / "sdks/javascript")
    out = tap.run("it compiles, strictly", [sys.executable, ROOT / "tools/build-js"])
    if not tap.failed:
        built = pathlib.Path(out.splitlines()[-1])
        entry = built / "sandbox/dist/index.js"
        tap.run("eslint finds nothing", ["npx", "eslint", ".", "--max-warnings", "0"], cwd=built)
        tap.relay("as the official SDK",
                  [sys.executable, HERE / "test_js_sdk.py", entry, *programs])
        tap.relay("network policies", [sys.executable, HERE / "test_egress_sdk.py", entry,
                                       *programs, egress])
        with ServerProcess(*programs) as server, tempfile.TemporaryDirectory() as where:
            packed(tap, built, server, pathlib.Path(where))
            env = dict(os.environ, OPENSANDBOX_JS=str(built), OPEN_SANDBOX_DOMAIN=server.domain,
                       OPEN_SANDBOX_API_KEY=server.api_key)
            for program in sorted(TESTS.glob("run_*.mjs")):
                tap.relay(program.stem[4:], ["node", program], env=env)
            if tap.failed:
                print("# " + server.log()[-4000:].replace("\n", "\n# "))
    print(f"1..{tap.number}")
    return 1 if tap.failed else 0


sys.exit(main())
