#!/usr/bin/env python3
"""test_quickstart.py OSB SERVER BROKER EXECD SANDBOXCTL - what new users paste, unmodified, against
a server started by tools/run without a configuration.

The clients are the official packages of PyPI. It must be run by a Python that has them; OSB is
their command line tool. TAP on standard output.
"""
import asyncio
import logging
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import timedelta

from code_interpreter import CodeInterpreter
from opensandbox import Sandbox
from opensandbox.exceptions import SandboxException
from opensandbox.models import WriteEntry

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE.parent / "tools"), str(HERE.parent / "integration")]

from server_process import SECONDS_MAX, ServerProcess, why_not  # noqa: E402
from tap import Tap, skip_all  # noqa: E402

IMAGE = "opensandbox/code-interpreter:v1.0.2"
REGISTRY = "sandbox-registry.cn-zhangjiakou.cr.aliyuncs.com"
SCRIPTS = ["/opt/opensandbox/code-interpreter.sh", "/opt/code-interpreter/code-interpreter.sh"]
READY = timedelta(seconds=SECONDS_MAX)  # the machine may do much else
COMMON = ["python:3.12", "node:22", "ubuntu", "debian:bookworm", "golang:1.24",
          "opensandbox/desktop", "docker.io/library/python:3.12", "mirror.example.com/library/node"]


class RunProcess(ServerProcess):
    """The server as `make run` starts it: by a copy of tools/run beside links to the programs."""

    def spawn(self):
        bindir = self.folder / "tree/build/bin"
        for path in (bindir, self.folder / "tree/tools", self.folder / "tree/deploy"):
            path.mkdir(parents=True, exist_ok=True)
        for name, program in (("opensandbox-server", self.program),
                              ("opensandbox-broker", self.broker.program),
                              ("execd", self.broker.execd)):
            (bindir / name).symlink_to(program)
        for name in ("tools/run", "deploy/config.toml"):
            shutil.copy(ROOT / name, self.folder / "tree" / name)
        with open(self.folder / "tree/deploy/config.toml", "a", encoding="utf-8") as config:
            config.write('[images]\npull_policy = "Never"\n')  # no test asks the world
        env = {name: value for name, value in os.environ.items()
               if name == "PATH" or name.endswith("SAN_OPTIONS")}
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [self.folder / "tree/tools/run", "--port", str(self.port), "--state", self.state],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True,
                env={**env, "HOME": str(self.folder)})


# --- the SDK ---


async def quick_start():
    """Call by call, with the arguments of the published quick start."""
    sandbox = await Sandbox.create(
        IMAGE, entrypoint=["/opt/opensandbox/code-interpreter.sh"],
        env={"PYTHON_VERSION": "3.11"}, timeout=timedelta(minutes=10), ready_timeout=READY)
    async with sandbox:
        run = await sandbox.commands.run("echo 'Hello OpenSandbox!'")
        assert [line.text for line in run.logs.stdout] == ["Hello OpenSandbox!"], run
        await sandbox.files.write_files(
            [WriteEntry(path="/tmp/hello.txt", data="Hello World", mode=644)])
        assert await sandbox.files.read_file("/tmp/hello.txt") == "Hello World"
        interpreter = await CodeInterpreter.create(sandbox)
        run = await interpreter.codes.run("import sys\nprint(sys.version)\n2 + 2")
        assert run.error is None and run.result[0].text == "4", run
        assert re.match(r"3\.\d+\.\d+", run.logs.stdout[0].text), run
        await sandbox.kill()


def the_published_quick_start_runs(*_):
    asyncio.run(quick_start())


def the_quick_start_of_the_readme_runs(*_):
    """The first block of Python, as a program of its own."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    program = re.search(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[1]
    assert IMAGE in program
    done = subprocess.run([sys.executable, "-"], input=program, text=True, capture_output=True,
                          timeout=SECONDS_MAX, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split("\n")
    assert lines[:2] == ["Hello OpenSandbox!", "Hello World"] and lines[2].startswith("3."), lines
    assert lines[-2:] == ["4", ""], lines


async def create_and_look(image, check):
    sandbox = await Sandbox.create(image, timeout=timedelta(minutes=10), ready_timeout=READY)
    async with sandbox:
        await check(sandbox)
        await sandbox.kill()


def both_script_paths_exist(*_):
    """Whatever registry the image's name begins with."""
    async def check(sandbox):
        run = await sandbox.commands.run("ls " + " ".join(SCRIPTS))
        assert sorted(line.text for line in run.logs.stdout) == sorted(SCRIPTS), run
        for path in SCRIPTS:
            run = await sandbox.commands.run(f". {path[:-3]}-env.sh python 3.11 && test -x {path}")
            assert run.exit_code == 0, run

    asyncio.run(create_and_look(f"{REGISTRY}/{IMAGE}", check))


def python_and_pip_exist_beside_python3_and_pip3(*_):
    """Pip is looked for only where the host has pip3."""
    async def check(sandbox):
        run = await sandbox.commands.run(
            "test \"$(python -c 'import sys; print(sys.version)')\" = "
            "\"$(python3 -c 'import sys; print(sys.version)')\" && "
            "{ ! command -v pip3 || pip --version; }")
        assert run.exit_code == 0, run

    asyncio.run(create_and_look("host", check))


def the_status_says_that_an_image_is_mapped(*_):
    async def of_host(sandbox):
        message = (await sandbox.get_info()).status.message
        assert "mapped" not in message, message

    for image in COMMON:
        async def check(sandbox, name=image):
            message = (await sandbox.get_info()).status.message
            assert f"image {name} is mapped to this host's /usr" in message, message
            assert "embedded.images" in message and "[" not in message, message

        asyncio.run(create_and_look(image, check))
    asyncio.run(create_and_look("host", of_host))


def the_log_says_it_once(server, *_):
    lines = [line for line in server.log().splitlines() if "get this host's /usr" in line]
    assert len(lines) == 1 and "python:*" in lines[0] and "opensandbox/*" in lines[0], lines


def other_names_are_refused(*_):
    """By a message that survives terminals which take [words] for markup."""
    try:
        asyncio.run(create_and_look("ghcr.io/someone/else:1", lambda sandbox: sandbox.is_healthy()))
    except SandboxException as error:
        assert "there is no image 'ghcr.io/someone/else:1'" in str(error), error
        assert "embedded.images" in str(error) and "[embedded" not in str(error), error
        return
    raise AssertionError("there is such an image")


# --- the command line tool ---


def the_command_line_runs(_, program):
    with tempfile.TemporaryDirectory(prefix="osb-cli-") as home:
        def osb(*words):
            done = subprocess.run([program, *words], text=True, capture_output=True, check=False,
                                  timeout=SECONDS_MAX, env={**os.environ, "HOME": home})
            assert done.returncode == 0, done
            return done.stdout

        made = osb("sandbox", "create", "--image", "python:3.12", "--timeout", "30m", "-o", "json")
        name = re.search(r'"id": "([^"]+)"', made)[1]
        assert osb("command", "run", name, "-o", "raw", "--", "python", "-c",
                   "print(1+1)") == "2\n"
        osb("sandbox", "kill", name)


TESTS = [
    the_published_quick_start_runs,
    the_quick_start_of_the_readme_runs,
    both_script_paths_exist,
    python_and_pip_exist_beside_python3_and_pip3,
    the_status_says_that_an_image_is_mapped,
    the_log_says_it_once,
    other_names_are_refused,
    the_command_line_runs,
]


def main():
    program, *programs = sys.argv[1:]
    skip_all(why_not())
    logging.disable(logging.CRITICAL)  # the SDK logs every exception it raises
    tap = Tap()
    with RunProcess(*programs) as server:
        os.environ.update({"OPEN_SANDBOX_DOMAIN": server.domain,
                           "OPEN_SANDBOX_API_KEY": server.api_key})
        for test in TESTS:
            tap.check(test.__name__, test, server, program)
        if tap.failed:
            print("# " + server.log()[-8000:].replace("\n", "\n# "))
    return tap.end()


sys.exit(main())
