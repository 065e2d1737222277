#!/usr/bin/env python3
"""test_our_python_package.py SERVER BROKER EXECD SANDBOXCTL EGRESS - the wheels of our Python SDK:
made, installed into an environment without our sources, and used for every example. TAP."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SDK = ROOT / "sdks/python"
sys.path[:0] = [str(HERE.parent / "tools"), str(HERE.parent / "integration")]

import egress_world  # noqa: E402
from server_process import SECONDS_MAX, ServerProcess  # noqa: E402
from tap import Tap, skip_all  # noqa: E402

CONFIG = {"embedded.images": {"python:*": "host", "opensandbox/*": "host"}}
SAID = {  # what each example prints, or a part of it
    "quickstart.py": "42\nHello World\n",
    "streaming.py": "line 1\nline 2\nline 3\napple\npear\n",
    "files.py": "1000000\nb'\\x00\\x00\\x00\\x00'\ndata.bin\n1000000\n",
    "code_chart.py": "7 bars\n",
    "pool.py": "from the pool\n",
    "egress.py": "deny ['*.example.org', 'pypi.org']\n",
    "vault.py": "1 ['token']\n",
}


class Package:
    """A folder with both wheels installed. What they need comes from the Python that runs this."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.site = self.folder / "site"

    def run(self, *command, **more):
        env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        env.update(more)
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env,
                              cwd=self.folder, timeout=SECONDS_MAX)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def wheels_are_made(self):
        shutil.copytree(SDK, self.folder / "sdk", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("sdk", "sdk/code-interpreter"):
            self.run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-index",
                     "--no-build-isolation", "-w", "wheels", f"./{name}")
        made = sorted(path.name for path in (self.folder / "wheels").iterdir())
        assert [name.split("-")[0] for name in made] == [
            "opensandbox", "opensandbox_code_interpreter"], made
        versions = {name.split("-")[1] for name in made}
        assert len(versions) == 1, f"one version for both: {made}"

    def wheels_are_installed(self):
        shutil.rmtree(self.folder / "sdk")
        wheels = [str(path) for path in (self.folder / "wheels").iterdir()]
        self.run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index",
                 "--target", str(self.site), *wheels)
        text = self.run(sys.executable, "-c",
                        "import opensandbox, code_interpreter; from opensandbox import Sandbox; "
                        "print(opensandbox.__file__, opensandbox.__version__)",
                        PYTHONPATH=str(self.site))
        assert text.startswith(str(self.site)), text
        assert (self.site / "opensandbox/py.typed").exists()
        assert (self.site / "code_interpreter/py.typed").exists()

    def example_runs(self, path, server):
        text = self.run(sys.executable, str(path), PYTHONPATH=str(self.site),
                        OPEN_SANDBOX_DOMAIN=server.domain, OPEN_SANDBOX_API_KEY=server.api_key)
        assert SAID[path.name] in text, text


def main():
    *programs, egress = sys.argv[1:]
    skip_all(egress_world.why_not())
    egress_world.enter()
    config = {"egress": {"program": os.path.abspath(egress), "upstreams": [egress_world.RESOLVER]},
              "embedded": {"dns": [egress_world.RESOLVER]}, **CONFIG}
    tap = Tap()
    with tempfile.TemporaryDirectory(prefix="osb-wheel-") as folder, egress_world.Internet(), \
            ServerProcess(*programs, config=config) as server:
        package = Package(folder)
        tap.check("wheels_are_made", package.wheels_are_made)
        tap.check("wheels_are_installed", package.wheels_are_installed)
        examples = sorted((SDK / "examples").glob("*.py"))
        tap.check("every_example_has_its_output", lambda: sorted(SAID) == [
            path.name for path in examples] or 1 / 0)
        for path in examples:
            tap.check(f"example {path.name}", package.example_runs, path, server)
        if tap.failed:
            print("# " + server.log()[-3000:].replace("\n", "\n# "))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
