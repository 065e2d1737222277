#!/usr/bin/env python3
"""test_egress_guide.py SERVER BROKER EXECD SANDBOXCTL EGRESS OSB PYTHON - runs every command of
docs/guides/egress.md, and its program by PYTHON, in a small internet of namespaces that has the
names they use."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import egress_world
from server_process import SECONDS_MAX
from test_egress import World, same
from test_secrets import header_of
from tls_world import TlsWorld

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/tools"))
from tap import Tap, skip_all  # noqa: E402

KEY = "sk-of-the-owner-that-nobody-inside-reads"
# What the output of each block must and must not have.
EXPECTED = [
    (["pypi.org: 200", "example.com: refused"], []),
    (["example.com: 200", "files.pythonhosted.org"], ["example.com"]),  # ... in what is shown last
    (["inside: osb_secret_", "a secret's placeholder to a host it is not for"], [KEY]),
    (["egress.deny", "example.com", "placeholder", "vault.use", "api.openai.com",
      "sandbox_denied_total"], [KEY]),
]


def blocks(language="sh"):
    text = (ROOT / "docs/guides/egress.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run_program(w, python):
    program, = blocks("python")
    assert '"python:3.12"' in program
    done = subprocess.run(
        [python, "-c", program.replace("python:3.12", "host")], text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS_MAX,
        env={**os.environ, "OPEN_SANDBOX_DOMAIN": w.server.domain, "OPENAI_API_KEY": KEY,
             "OPEN_SANDBOX_API_KEY": w.server.api_key, "PYTHONDONTWRITEBYTECODE": "1",
             "PYTHONPATH": str(ROOT / "sdks/python/src")})
    assert done.returncode == 0, done.stdout
    wanted, unwanted = EXPECTED[2]
    same(([s for s in wanted if s not in done.stdout], [s for s in unwanted if s in done.stdout]),
         ([], []))


def run(w, osb, folder):
    """Output of each block, all in one shell."""
    (folder / "bin").mkdir()
    (folder / "bin/osb").symlink_to(osb)
    script = "".join(f"{block}\necho; echo '=== end of a block'\n" for block in blocks())
    env = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "HOME": str(folder),
           "OPEN_SANDBOX_DOMAIN": w.server.domain, "OPEN_SANDBOX_API_KEY": w.server.api_key,
           "OPENAI_API_KEY": KEY}
    subprocess.run([osb, "config", "init"], env=env, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([osb, "config", "set", "defaults.image", "host"], env=env, check=True,
                   stdout=subprocess.DEVNULL)
    done = subprocess.run(["sh", "-euc", script], env=env, cwd=folder, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stdout
    return done.stdout.split("=== end of a block\n")[:-1]


def main():
    *programs, osb, python = sys.argv[1:]
    osb = os.path.abspath(osb)
    skip_all(egress_world.why_not())
    egress_world.enter()
    tap = Tap()
    with tempfile.TemporaryDirectory(prefix="osb-guide-") as name:
        folder = pathlib.Path(name)
        with TlsWorld(folder) as tls, World(programs, {"egress": {"ca_file": str(tls.ca)}}) as w:
            tls.start(w.internet)
            output = []
            tap.check("every command works", lambda: output.extend(run(w, osb, folder)))
            tap.check("all blocks are known here", lambda: same(len(output), len(EXPECTED)))
            for n, (text, (wanted, unwanted)) in enumerate(zip(output, EXPECTED), 1):
                tap.check(f"block {n} shows what the guide says",
                          lambda t=text, a=wanted, b=unwanted:
                          same(([s for s in a if s not in t],
                                [s for s in b if s in t.rpartition("Rules deleted")[2]]), ([], [])))
            tap.check("what was refused is counted", lambda: same(
                re.findall(r"sandbox_denied_total\{.*\} (\d+)", output[-1]), ["1"]))
            tap.check("the key arrived at its host, and nothing at the other", lambda: same(
                [(header_of(r, "Host"), header_of(r, "Authorization")) for r in tls.take()],
                [(["api.openai.com"], [f"Bearer {KEY}"])]))
            tap.check("the program works", lambda: run_program(w, python))
            tap.check("with the key at its host only", lambda: same(
                [(header_of(r, "Host"), header_of(r, "Authorization")) for r in tls.take()],
                [(["api.openai.com"], [f"Bearer {KEY}"])]))
            left = w.server.request("GET", "/v1/sandboxes")[2]["items"]
            tap.check("no sandbox is left", lambda: same(left, []))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
