"""examples_run.py - runs an example as its README says, and gives what it printed.

    world = Examples(server, python)
    text = world.run("code-interpreter/main.py", "python")
"""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SECONDS_MAX = 600


class Examples:
    def __init__(self, server, python, **env):
        self.server, self.python = server, str(python)
        # Nothing of the user who runs the tests: neither keys of vendors nor other servers.
        self.env = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR", "HOME")
                    if name in os.environ}
        self.env.update({"SANDBOX_DOMAIN": server.domain, "SANDBOX_API_KEY": server.api_key or "",
                         "PYTHONDONTWRITEBYTECODE": "1", **env})

    def run_words(self, words, seconds=SECONDS_MAX, **env):
        """What any command prints in this environment; an exception when it fails."""
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                              check=False, timeout=seconds, env={**self.env, **env}, cwd="/")
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        left = self.server.request("GET", "/v1/sandboxes?pageSize=200")[2]["items"]
        assert not left, f"{words} leaves sandboxes behind: {[row['id'] for row in left]}"
        return done.stdout

    def run(self, name, *words, seconds=SECONDS_MAX, **env):
        return self.run_words([self.python, ROOT / "examples" / name, *words], seconds, **env)


def has(text, *lines):
    """Fails unless each is a line of the text."""
    there = [line.strip() for line in text.splitlines()]
    missing = [line for line in lines if line not in there]
    assert not missing, f"missing {missing} in:\n{text}"
