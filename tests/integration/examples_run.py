"""examples_run.py - runs an example as its README says, and gives what it printed.

    world = Examples(server, python)
    text = world.run("code-interpreter/main.py", "python")
"""
import html
import json
import os
import pathlib
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import threading
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/tools"))
from tap import Skip  # noqa: E402

DEPS = ROOT / "build/deps"
SECONDS_MAX = 600
# What is there in TypeScript, Go and C too, with which words, and what it prints with the image
# `host`, which has no other language than Python for sure.
LANGUAGES = ("code-interpreter", "snapshots-forks", "volumes")
WORDS = {"code-interpreter": ["python"]}
LINES = {
    "code-interpreter": ["=== python ===", "[stdout] Hello from Python 3.",
                         "[result] {'language': 'python', 'sum': 4}"],
    "snapshots-forks": ["start: 1 of 5 cases", "forks: 2 5 1, took 1",
                        "after rollback: 5 of 5 cases"],
    "volumes": ["read: hello-from-named-volume", "write refused: true"],
}
TO_JAVASCRIPT = """
const ts = require(process.argv[1]), fs = require("fs");
fs.writeFileSync(process.argv[3], ts.transpileModule(fs.readFileSync(process.argv[2], "utf8"),
    {compilerOptions: {module: "esnext", target: "es2022"}}).outputText)
"""


class Examples:
    """`folder` is one for programs that are compiled, `c_programs` where those in C are."""

    def __init__(self, server, python, folder=None, c_programs=ROOT / "build/native/examples",
                 **env):
        self.server, self.python = server, str(python)
        self.folder, self.c_programs = folder, c_programs
        # Nothing of the user who runs the tests: neither keys of vendors nor other servers.
        self.env = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR", "HOME")
                    if name in os.environ}
        self.env.update({"SANDBOX_DOMAIN": server.domain, "SANDBOX_API_KEY": server.api_key or "",
                         "PYTHONDONTWRITEBYTECODE": "1", **env})

    def run_words(self, words, seconds=SECONDS_MAX, **env):
        """What any command prints in this environment; an exception when it fails."""
        before = self.there()
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                              check=False, timeout=seconds, env={**self.env, **env}, cwd="/")
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        self.nothing_stays(words, before)
        return done.stdout

    def there(self):
        """What the server has that examples make, of the kinds that its runtime has."""
        found = set()
        for kind in ("sandboxes", "snapshots", "pools", "volumes"):
            status, _, body = self.server.request("GET", f"/v1/{kind}?pageSize=200")
            rows = body if isinstance(body, list) else body["items"] if status == 200 else []
            found |= {(kind, row.get("id") or row["name"]) for row in rows}
        return found

    def nothing_stays(self, words, before):
        """Fails when the server still has anything that it did not have before."""
        left = self.there() - before
        assert not left, f"{words} leaves behind: {sorted(left)}"

    def interrupt(self, name, line):
        """Runs an example, sends it SIGINT once it printed a line that begins so, and waits for
        its end."""
        words, before = [self.python, ROOT / "examples" / name], self.there()
        with subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, cwd="/",
                              env={**self.env, "PYTHONUNBUFFERED": "1"}) as process:
            give_up = threading.Timer(SECONDS_MAX, process.kill)
            give_up.start()
            try:
                seen = next((row for row in process.stdout if row.startswith(line)), None)
                process.send_signal(signal.SIGINT)
                text, errors = process.communicate()
            finally:
                give_up.cancel()
                process.kill()
        assert seen and process.returncode, f"{name}: {process.returncode}\n{text}\n{errors}"
        self.nothing_stays(words, before)

    def run(self, name, *words, seconds=SECONDS_MAX, **env):
        text = self.run_words([self.python, ROOT / "examples" / name, *words], seconds, **env)
        if folder := os.environ.get("EXAMPLE_PICTURES"):
            picture = name.removesuffix(".py").replace("/", "-") + ".svg"
            pathlib.Path(folder, picture).write_text(terminal(f"python3 examples/{name}", text),
                                                     encoding="utf-8")
        return text


    def run_in(self, language, name, *words, **env):
        """What an example prints in another language than Python."""
        return self.run_words([*getattr(self, f"{language}_words")(name), *words], **env)

    def c_words(self, name):
        return [self.c_programs / f"example-{name}"]

    def go_words(self, name):
        program = pathlib.Path(self.folder, f"example-{name}-go")
        if not shutil.which("go"):
            raise Skip("there is no go; tools/deps test installs it")
        call(["go", "build", "-o", program, f"./{name}/go"], cwd=ROOT / "examples",
             env={**os.environ, "GOPROXY": "off", "GOFLAGS": "-buildvcs=false"})
        return [program]

    @staticmethod
    def typescript_words(name):
        compiler = DEPS / "js/node_modules/typescript"
        if not compiler.exists():
            raise Skip(f"{compiler} is missing; tools/deps test installs it")
        folder = pathlib.Path(call([ROOT / "tools/build-js"]).strip())
        program = folder / f"example-{name}.mjs"
        call(["node", "-e", TO_JAVASCRIPT, compiler, ROOT / f"examples/{name}/typescript/main.ts",
              program])
        return ["node", program]


def call(words, **how):
    """What a compiler prints; an exception with all of it when it fails."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          check=False, timeout=SECONDS_MAX, **how)
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


LINES_MAX, COLUMNS_MAX = 24, 104


def terminal(command, text):
    """A picture of a terminal with a command and what it printed, as SVG. What a program in the
    sandbox wrote to its standard error, such as warnings of assistants, is left out."""
    lines = [line[:COLUMNS_MAX - 1] + "…" if len(line) > COLUMNS_MAX else line
             for line in text.strip().splitlines() if not line.startswith("[stderr]")]
    if len(lines) > LINES_MAX:
        lines = [*lines[:LINES_MAX - 1], "…"]
    width, height = COLUMNS_MAX * 8 + 32, (len(lines) + 1) * 18 + 28
    rows = [f'<text x="16" y="{32 + 18 * i}" fill="{"#8fd18f" if i == 0 else "#e6e6e6"}">'
            f"{html.escape(line)}</text>" for i, line in enumerate([f"$ {command}", *lines])]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="13" '
            'xml:space="preserve">\n'
            f'<rect width="{width}" height="{height}" rx="8" fill="#1e2430"/>\n' +
            "\n".join(rows) + "\n</svg>\n")


def has(text, *lines):
    """Fails unless each is a line of the text."""
    there = [line.strip() for line in text.splitlines()]
    missing = [line for line in lines if line not in there]
    assert not missing, f"missing {missing} in:\n{text}"


PNG_HEAD = b"\x89PNG\r\n\x1a\n"


def pixels(data):
    """(width, height, the colours' indices) of a PNG with a palette and no filters; its checksums
    are checked."""
    assert data.startswith(PNG_HEAD), data[:8]
    parts, at = {}, len(PNG_HEAD)
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8:at + 8 + size]
        assert struct.unpack_from(">I", data, at + 8 + size)[0] == zlib.crc32(kind + body), kind
        parts[kind], at = body, at + 12 + size
    width, height, *_ = struct.unpack(">IIBBBBB", parts[b"IHDR"])
    rows = zlib.decompress(parts[b"IDAT"])
    assert len(rows) == height * (width + 1) and b"IEND" in parts
    return width, height, b"".join(rows[y * (width + 1) + 1:(y + 1) * (width + 1)]
                                   for y in range(height))


def trained(folder, timesteps, factor, episodes=20):
    """What examples/rl-training brought to the folder: fails unless the mean return of the last
    episodes is `factor` times that of the first, and the curve is a picture. The summary."""
    summary = json.loads((folder / "training_summary.json").read_text(encoding="ascii"))
    returns = summary["returns"]
    assert summary["timesteps"] == timesteps and len(returns) >= 3 * episodes, summary
    assert timesteps - 500 <= sum(returns) <= timesteps, sum(returns)
    first, last = (statistics.fmean(part) for part in (returns[:episodes], returns[-episodes:]))
    assert last > factor * first, f"mean return of the first {first}, of the last {last}"
    assert summary["mean_reward"] > factor * first, summary["mean_reward"]
    width, height, picture = pixels((folder / "learning_curve.png").read_bytes())
    assert (width, height) == (640, 360) and picture.count(2) > 600, "there is no curve"
    assert (folder / "cartpole_dqn.npz").read_bytes().startswith(b"PK")
    return summary
