#!/usr/bin/env python3
"""test_go_sdk.py SERVER BROKER EXECD SANDBOXCTL EGRESS - our Go SDK: its generated models, its unit
tests, the shared cases against the scripted and the real server, its tests against the real server,
broker and execd, and its examples in a module that has the SDK from elsewhere. Prints TAP."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "integration"))

from server_process import ServerProcess, why_not  # noqa: E402

GO_MINOR_MIN = 19
STATICCHECK = ROOT / "build/deps/staticcheck/bin/staticcheck"
MODULE = "github.com/alibaba/OpenSandbox/sdks/sandbox/go"
SAID = {  # what each example prints, or a part of it
    "code": "sum: 91\nchart.svg has",
    "egress": "allow pypi.org\nallow *.example.org\n",
    "files": "line 2: second\n/tmp/copy/lines.txt 19\n",
    "pool": "from the pool\n",
    "quickstart": "Hello OpenSandbox!\n",
    "streaming": "line 1\nline 2\nline 3\n",
    "vault": "revision 1 has 1 credential\n",
}


def go_is_too_old():
    version = subprocess.run(["go", "version"], check=True, stdout=subprocess.PIPE,
                             text=True).stdout
    found = re.search(r"go1\.(\d+)", version)
    return f"needs Go 1.{GO_MINOR_MIN}, here is {version.strip()}" \
        if not found or int(found[1]) < GO_MINOR_MIN else ""


class Tap:
    """One TAP line for each test that `go test -json` reports."""

    def __init__(self):
        self.number = self.failed = 0
        self.output = {}

    def result(self, ok, name, skip=""):
        self.number += 1
        self.failed += not ok
        reason = f" # SKIP {skip}" if skip else ""
        print(f"{'ok' if ok else 'not ok'} {self.number} - {name}{reason}", flush=True)

    def event(self, line):
        try:
            event = json.loads(line)
        except ValueError:
            print(f"# {line}")
            return
        name, action = event.get("Test"), event["Action"]
        if action == "output":
            self.output.setdefault(name, []).append(event["Output"])
        elif name and ("/" not in name or name.startswith("TestCases")) and \
                action in ("pass", "fail", "skip"):
            if action == "fail":
                print("# " + "".join(self.output.get(name, [])).replace("\n", "\n# "))
            lines = "".join(self.output.get(name, [])).splitlines()
            self.result(action != "fail", name, lines[-2].strip() if action == "skip" else "")

    def run(self, *arguments, env=None):
        done = subprocess.run(["go", "test", "-json", "-count=1", *arguments, "."],
                              cwd=ROOT / "sdks/go", env=dict(os.environ, **(env or {})),
                              check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True)
        failed = self.failed
        for line in done.stdout.splitlines():
            self.event(line)
        if done.returncode != 0 and self.failed == failed:
            self.result(False, f"go test {' '.join(arguments)}: exit status {done.returncode}")
            print("# " + done.stdout[-4000:].replace("\n", "\n# "))


def examples(tap, folder, env):
    """Each example, as the program of a user whose module requires the SDK."""
    shutil.copytree(ROOT / "sdks/go", folder / "sdk")
    user = folder / "user"
    shutil.move(folder / "sdk/examples", user)
    (user / "go.mod").write_text(f"module example.org/user\n\ngo 1.{GO_MINOR_MIN}\n\n"
                                 f"require {MODULE} v1.1.0\n\nreplace {MODULE} => ../sdk\n")
    tap.result(sorted(SAID) == sorted(p.name for p in user.iterdir() if p.is_dir()),
               "every example has its output")
    for name, wanted in SAID.items():
        done = subprocess.run(["go", "run", f"./{name}"], cwd=user, check=False, text=True,
                              env=dict(os.environ, GOFLAGS="-buildvcs=false", GOPROXY="off", **env),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        tap.result(done.returncode == 0 and wanted in done.stdout, f"example {name}")
        if done.returncode != 0 or wanted not in done.stdout:
            print("# " + done.stdout[-2000:].replace("\n", "\n# "))


def main():
    reason = why_not() or go_is_too_old()
    if reason:
        print(f"1..0 # SKIP {reason}")
        return 0
    tap = Tap()
    checks = {"models are those of specs/": [sys.executable, ROOT / "tools/sdkgen", "--check"],
              "go vet": ["go", "vet", "./..."],
              "staticcheck": [STATICCHECK, "./..."]}
    for name, command in checks.items():
        if command[0] == STATICCHECK and not STATICCHECK.exists():
            tap.result(True, name, "build/deps has no staticcheck")
            continue
        done = subprocess.run(command, cwd=ROOT / "sdks/go", check=False, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        tap.result(done.returncode == 0, name)
        if done.returncode != 0:
            print("# " + done.stdout.replace("\n", "\n# "))
    form = subprocess.run(["gofmt", "-l", "."], cwd=ROOT / "sdks/go", check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    tap.result(not form, "gofmt")
    *programs, egress = map(os.path.abspath, sys.argv[1:])
    config = {"egress": {"program": egress},
              "embedded.images": {"python:*": "host", "opensandbox/*": "host"}}
    with tempfile.TemporaryDirectory(prefix="osb-go-") as folder, \
            ServerProcess(*programs, config=config) as server:
        env = {"OPEN_SANDBOX_DOMAIN": server.domain, "OPEN_SANDBOX_API_KEY": server.api_key}
        tap.run(env=env)
        examples(tap, pathlib.Path(folder), env)
        if tap.failed:
            print("# " + server.log()[-4000:].replace("\n", "\n# "))
    print(f"1..{tap.number}")
    return 1 if tap.failed else 0


sys.exit(main())
