#!/usr/bin/env python3
"""test_kotlin_sdk.py SERVER BROKER EXECD SANDBOXCTL EGRESS - our Kotlin SDK: the shared cases
against the scripted server and the real one, faults, its own tests, and its examples.

Prints TAP.
"""
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SDK = ROOT / "sdks/kotlin"
sys.path[:0] = [str(HERE.parent / "tools"), str(HERE.parent / "integration")]

from server_process import ServerProcess, wait_for, why_not  # noqa: E402
from tap import Skip, Tap, skip_all  # noqa: E402

SECONDS_MAX = 900
JAVA = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"]
CLASS_OF_JAVA_8 = 52
EXAMPLES = {"quickstart.QuickStart": "Hello Sandbox!", "streaming.Streaming": "flow: stdout 3",
            "files.Files": "second", "codechart.CodeChart": "42", "pool.Pool": "from the pool",
            "egress.Egress": "ALLOW *.example.org", "vault.Vault": "revision 1"}


class Redis:
    """A Redis of its own, on a port that is free."""

    def __init__(self, folder):
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.port = sock.getsockname()[1]
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir",
             str(folder)], stdout=subprocess.DEVNULL)
        wait_for(self.answers, "Redis")

    def answers(self):
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", self.port)) == 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def fail(lines):
    raise AssertionError("\n".join(lines))


class Build:
    """What tools/build-kotlin made."""

    def __init__(self):
        done = subprocess.run([sys.executable, ROOT / "tools/build-kotlin"], check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS_MAX)
        assert done.returncode == 0, done.stderr[-6000:]
        self.folder = pathlib.Path(done.stdout.strip())
        self.classes = f"{self.folder}/tests/target/classes:{self.folder}/tests/target/lib/*"

    def run(self, name, *words, env):
        done = subprocess.run([*JAVA, "-cp", self.classes, name, *map(str, words)], check=False,
                              env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=SECONDS_MAX)
        return done.returncode, done.stdout

    def jars(self):
        return [path for path in self.folder.glob("*/target/*.jar")
                if not path.name.endswith("-sources.jar") and path.parent.parent.name != "tests"]

    def classes_are_of_java_8(self):
        assert len(self.jars()) == 3, self.jars()
        for jar in self.jars():
            with zipfile.ZipFile(jar) as archive:
                for name in archive.namelist():
                    if name.endswith(".class") and "META-INF" not in name:
                        version = struct.unpack(">H", archive.read(name)[6:8])[0]
                        assert version <= CLASS_OF_JAVA_8, f"{jar.name}: {name}: {version}"

    def versions_are_one(self):
        version = re.search("<revision>(.*)</revision>", (SDK / "pom.xml").read_text())[1]
        assert all(jar.name.endswith(f"-{version}.jar") for jar in self.jars()), self.jars()
        for path in self.folder.glob("*/target/.flattened-pom.xml"):
            assert "${revision}" not in path.read_text(), path
        jar = next(self.folder.glob("sandbox/target/sandbox-*[0-9].jar"))
        with zipfile.ZipFile(jar) as archive:
            properties = archive.read("opensandbox-sdk.properties").decode()
        assert properties.strip() == f"version={version}"


def ktlint_finds_nothing():
    jar = ROOT / "build/deps/ktlint/ktlint-cli-all.jar"
    if not jar.exists():
        raise Skip("build/deps has no ktlint")
    done = subprocess.run([*JAVA, "-jar", jar, "**/*.kt", "!**/target/**"], cwd=SDK, check=False,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stdout[-4000:]


def environment(**more):
    env = {name: value for name, value in os.environ.items()
           if not name.startswith("OPEN_SANDBOX_")}
    return dict(env, **more)


def own_tests(tap, build, env):
    _, text = build.run("com.alibaba.opensandbox.tests.MainKt", ROOT / "sdks/conformance", env=env)
    lines = text.splitlines()
    for at, line in enumerate(lines):
        found = re.match(r"(not )?ok \d+ - (.*)", line)
        if found:
            why = [more for more in lines[at + 1:at + 20] if more.startswith("#")]
            tap.check(found[2], lambda bad=found[1], why=why: fail(why) if bad else None)
    tap.check("all tests ran", lambda: None if re.search(r"^1\.\.\d+$", text, re.M)
              else fail([text[-4000:]]))


def example(build, name, wanted, env):
    package, file = name.split(".")
    status, text = build.run(f"examples.{package}.{file}Kt", env=env)
    assert status == 0 and wanted in text, text[-4000:]


def main():
    *programs, egress = sys.argv[1:]
    skip_all(why_not())
    tap = Tap()
    config = {"egress": {"program": os.path.abspath(egress)},
              "embedded.images": {"python:3.12": "host",
                                  "opensandbox/code-interpreter:v1.0.2": "host"}}
    tap.check("models are those of specs/", lambda: subprocess.run(
        [sys.executable, ROOT / "tools/sdkgen", "--check"], check=True))
    tap.check("ktlint finds nothing", ktlint_finds_nothing)
    builds = []
    tap.check("builds without a warning", lambda: builds.append(Build()))
    if not builds:
        return tap.end()
    tap.check("classes are of Java 8", builds[0].classes_are_of_java_8)
    tap.check("the version is that of pom.xml", builds[0].versions_are_one)
    with tempfile.TemporaryDirectory() as folder, Redis(folder) as redis, \
            ServerProcess(*map(os.path.abspath, programs), config=config) as server:
        env = environment(OPEN_SANDBOX_DOMAIN=server.domain, OPEN_SANDBOX_API_KEY=server.api_key,
                          OPEN_SANDBOX_TEST_REDIS=str(redis.port))
        own_tests(tap, builds[0], env)
        for name, wanted in EXAMPLES.items():
            tap.check(f"example: {name}", lambda name=name, wanted=wanted: example(
                builds[0], name, wanted, env))
        if tap.failed:
            print("# " + server.log()[-4000:].replace("\n", "\n# "))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
