#!/usr/bin/env python3
"""test_examples.py PYTHON S3PYTHON MCPPYTHON MCP EXAMPLES SERVER BROKER EXECD SANDBOXCTL - the
examples that need no image of ours, against the real server with the image `host`, and what they
print. PYTHON has what our SDK needs, MCPPYTHON the package mcp, MCP is opensandbox-mcp, EXAMPLES
has the programs in C. The others are in tests/drill/examples. TAP on standard output. Needs
root."""
import contextlib
import json
import os
import pathlib
import shutil
import sys
import tempfile

from examples_run import LANGUAGES, LINES, ROOT, WORDS, Examples, has, trained
from s3_process import KEY_ID, KEY_SECRET, S3
from server_process import ServerProcess, wait_for, why_not

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
from tap import Skip, Tap, skip_all  # noqa: E402

PYTHON, S3_PYTHON, MCP_PYTHON, MCP = map(os.path.abspath, sys.argv[1:5])
C_EXAMPLES = pathlib.Path(sys.argv[5]).resolve()
PROGRAMS = sys.argv[6:10]
AGENTS = ROOT / "build/deps/assistants"
RL_PACKAGES = ROOT / "build/deps/rl"


def code_interpreter(e, _):
    text = e.run("code-interpreter/main.py", "python")
    has(text, "[result] {'language': 'python', 'sum': 4}")


def code_interpreter_from_a_pool(e, _):
    text = e.run("code-interpreter/main_use_pool.py")
    has(text, "TEST_ENV=test", "[result] {'language': 'python', 'sum': 4}")


def tree_search_by_forks(e, _):
    text = e.run("snapshots-forks/main.py")
    has(text, "start: 0 of 12 cases", "found: 12 of 12 cases", "after rollback: 12 of 12 cases")


def tree_search_that_is_interrupted_leaves_nothing(e, _):
    e.interrupt("snapshots-forks/main.py", "depth 1:")


def volumes_of_three_kinds(e, folder):
    path = folder / "volume"
    path.mkdir()
    if not e.s3:
        raise Skip("there is no s3fs, or no moto")
    e.s3.make("bucket")
    text = e.run("volumes/main.py", HOST_VOLUME_PATH=str(path), OSS_ENDPOINT=e.s3.endpoint,
                 OSS_BUCKET="bucket", OSS_ACCESS_KEY_ID=KEY_ID, OSS_ACCESS_KEY_SECRET=KEY_SECRET)
    assert e.s3.get("bucket", "greeting.txt") == b"through-the-bucket\n"
    has(text, "on the host: hello-from-sandbox", "subPath: data.csv",
        "two sandboxes: from-a write refused: True", "stayed: hello-from-named-volume",
        "reader: through-the-bucket write refused: True", "the key is seen inside: False")
    assert (path / "sandbox-greeting.txt").read_text(encoding="ascii") == "hello-from-sandbox\n"


def evaluation_of_fifty_tasks(e, folder):
    e.run("evaluation/main.py", "--parallel", "6", "--seconds", "10", "--report",
          folder / "report.json")
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert report["outcomes"] == {"resolved": 41, "not fixed": 4, "regression": 2,
                                  "patch does not apply": 2, "timed out": 1}, report["outcomes"]
    assert report["total"] == 50 and len(report["resolved_ids"]) == 41


def training_that_improves(e, folder):
    if not RL_PACKAGES.exists():
        raise Skip(f"{RL_PACKAGES} is missing; tools/deps test installs it")
    text = e.run("rl-training/main.py", "--timesteps", "9000", "--seed", "3", "--environment",
                 "own", "--into", folder, RL_PACKAGES=str(RL_PACKAGES.resolve()),
                 SANDBOX_IMAGE="host")
    has(text, "[stdout] environment: cartpole.py; 9000 steps, seed 3")
    trained(folder, timesteps=9000, factor=2.5)


def mcp_client_at_work(e, _):
    if not os.path.exists(MCP_PYTHON):
        raise Skip(f"{MCP_PYTHON} is missing; tools/deps test installs it")
    text = Examples(e.server, MCP_PYTHON).run("mcp/main.py", "--program", MCP)
    has(text, "state: Running", "colour: blue", "file: written", "read: print(137 * 42)",
        "product: 5754", "exit code: 3", "sandbox: killed")


def claude_code_at_work(e, _):
    if not (AGENTS / "node_modules/.bin/claude").exists():
        raise Skip(f"{AGENTS} is missing; tools/deps drill installs it")
    text = e.run("claude-code/main.py", AGENTS_PATH=str(AGENTS.resolve()), SANDBOX_IMAGE="host")
    has(text, "[stdout] I wrote answer.py and ran it. It printed: 1 + 1 = 2",
        "answer.py: print('1 + 1 =', 1 + 1)")


APP = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = repr(dict(self.headers)).encode()
        self.send_response(302 if self.path == "/" else 200)
        if self.path == "/":
            self.send_header("Location", "/login")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.HTTPServer(("127.0.0.1", 8000), Handler).serve_forever()
"""


def application_with_absolute_links_at_its_own_host(e, _):
    box = e.server.create(entrypoint=["python3", "-c", APP])

    def ask(host, path, **headers):
        connection = e.server.connection()
        connection.request("GET", path, headers={"Host": host, **headers})
        reply = connection.getresponse()
        return reply.status, reply.headers, reply.read().decode()

    try:
        _, _, found = e.server.request("GET", f"/v1/sandboxes/{box}/endpoints/8000?by_host=1")
        host, token = found["endpoint"], found["headers"]["OpenSandbox-Secure-Access"]
        assert host == f"8000-{box}.localhost:{e.server.port}", found
        wait_for(lambda: ask(host, "/x", **found["headers"])[0] == 200, "the application")
        status, headers, _ = ask(host, f"/?opensandbox_access={token}")
        assert (status, headers["Location"]) == (303, "/"), (status, headers)
        cookie = headers["Set-Cookie"].partition(";")[0]
        status, headers, _ = ask(host, "/", Cookie=cookie)
        assert (status, headers["Location"]) == (302, "/login"), (status, headers)
        status, _, seen = ask(host, headers["Location"], Cookie=f"{cookie}; mine=1")
        assert status == 200 and "mine=1" in seen and token not in seen, seen
        assert ask(host, "/login")[0] == 401
        _, _, seen = e.server.request("GET", f"/sandboxes/{box}/proxy/8000/x")
        assert f"'X-Forwarded-Prefix': '/sandboxes/{box}/proxy/8000'" in seen.decode(), seen
    finally:
        e.server.request("DELETE", f"/v1/sandboxes/{box}")


def page_of_a_browser_by_path_and_by_host(e, _):
    if not shutil.which("chromium"):
        raise Skip("there is no chromium; tools/deps test installs it")
    text = e.run_words([PYTHON, ROOT / "tests/integration/page_use.py"])
    has(text, *(line for how in ("path", "host") for line in
                (f"by {how}: from the sandbox: word7", f"by {how}: a PNG of its size: True")))


def the_same_in(language, e):
    for name in LANGUAGES:
        has(e.run_in(language, name, *WORDS.get(name, []), SANDBOX_IMAGE="host"), *LINES[name])


def the_same_in_c(e, _):
    the_same_in("c", e)


def the_same_in_go(e, _):
    the_same_in("go", e)


def the_same_in_typescript(e, _):
    the_same_in("typescript", e)


TESTS = (code_interpreter, code_interpreter_from_a_pool, tree_search_by_forks,
         tree_search_that_is_interrupted_leaves_nothing,
         volumes_of_three_kinds, evaluation_of_fifty_tasks, training_that_improves,
         mcp_client_at_work, claude_code_at_work, the_same_in_c,
         the_same_in_go, the_same_in_typescript,
         application_with_absolute_links_at_its_own_host, page_of_a_browser_by_path_and_by_host)


def main():
    skip_all(why_not())
    tap = Tap()
    with contextlib.ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="osb-examples-"))
        s3 = stack.enter_context(S3(S3_PYTHON)) if os.path.exists(S3_PYTHON) and \
            shutil.which("s3fs") else None
        folder = pathlib.Path(name).resolve()
        folder.chmod(0o755)
        config = {"embedded.images": {"opensandbox/code-interpreter:*": "host"},
                  "storage": {"allowed_host_paths": [str(folder), str(AGENTS.resolve()),
                                                     str(RL_PACKAGES.resolve())],
                              "ossfs_endpoints": [s3.address] if s3 else []}}
        server = stack.enter_context(ServerProcess(*PROGRAMS, config=config))
        examples = Examples(server, PYTHON, folder, C_EXAMPLES)
        examples.s3 = s3
        for test in TESTS:
            tap.check(test.__name__.replace("_", " "), test, examples, folder)
        if tap.failed:
            print("# " + server.log()[-6000:].replace("\n", "\n# "))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
