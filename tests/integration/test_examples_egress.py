#!/usr/bin/env python3
"""test_examples_egress.py PYTHON SERVER BROKER EXECD SANDBOXCTL EGRESS [ASSISTANT...] - the
example of egress and the credential vault, and assistants (claude-code) with their keys in the
vault, in a small internet of namespaces: the vendor is a scripted model behind TLS. TAP on standard
output. Needs root."""
import os
import pathlib
import sys
import tempfile
import threading

import egress_world
from egress_world import MODEL_ADDRESS
from examples_run import ROOT, Examples, has
from small_internet import in_netns
from test_egress import World
from tls_world import TlsWorld

sys.path[:0] = [str(ROOT / "tests/tools"), str(ROOT / "examples/model"),
                str(ROOT / "examples/shared")]
from scripted import Model  # noqa: E402
from tap import Skip, Tap, skip_all  # noqa: E402

PYTHON = os.path.abspath(sys.argv[1])
AGENTS = ROOT / "build/deps/assistants"
KEY = "sk-of-the-vendor-81f0"
WORK = "/tmp/work"
SCRIPT = [{"write": f"{WORK}/answer.py", "text": "print('1 + 1 =', 1 + 1)\n"},
          {"run": f"python3 {WORK}/answer.py"}, {"say": "It printed: {result}"}]


def egress_and_vault(e, tls, _):
    text = e.run("egress-vault/main.py", EXAMPLE_HOST="secure.test", OTHER_HOST="elsewhere.test",
                 EXAMPLE_SECRET=KEY)
    has(text, "secure.test: 200", "elsewhere.test: 000", "secure.test with the vault: 200",
        "the secret is inside: False", "elsewhere.test when it is allowed: 200",
        "elsewhere.test again: 000")
    sent = [row for row in tls.take() if row["target"] == "/with-the-vault"]
    assert [value for name, value in sent[0]["headers"] if name.lower() == "authorization"] == \
        [f"Bearer {KEY}"], sent


# example: program, variables of the key and of another address of the vendor, path of that address
ASSISTANTS = {
    "claude-code": ("claude", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", ""),
    "codex-cli": ("codex", "OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1"),
    "gemini-cli": ("gemini", "GEMINI_API_KEY", "GEMINI_BASE_URL", ""),
    "qwen-code": ("qwen", "API_KEY", "BASE_URL", "/v1"),
}


def assistant_with_its_key_in_the_vault(e, tls, internet, name):
    program, key, address, path = ASSISTANTS[name]
    if not (AGENTS / "node_modules/.bin" / program).exists():
        raise Skip(f"{AGENTS} is missing; tools/deps drill installs it")
    model = in_netns(f"/proc/{internet.process.pid}/ns/net", Model, (MODEL_ADDRESS, 443),
                     SCRIPT, KEY)
    model.socket = tls.context.wrap_socket(model.socket, server_side=True,
                                           do_handshake_on_connect=False)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    url = f"https://model.test{path}"
    try:
        text = e.run(f"{name}/main.py", AGENTS_PATH=str(AGENTS.resolve()), SANDBOX_IMAGE="host",
                     **{key: KEY, address: url})
    finally:
        model.shutdown()
        model.server_close()
    assert f": model at {url}\n" in text, text
    has(text, "[stdout] It printed: 1 + 1 = 2", "the key is seen inside: False",
        "answer.py: print('1 + 1 =', 1 + 1)")
    assert model.requests and {row["key"] for row in model.requests} == {KEY}, model.requests


def main():
    skip_all(egress_world.why_not())
    tap = Tap()
    egress_world.enter()
    with tempfile.TemporaryDirectory(prefix="osb-examples-") as folder:
        pathlib.Path(folder).chmod(0o755)
        with TlsWorld(pathlib.Path(folder)) as tls, World(sys.argv[2:7], {
                "egress": {"ca_file": str(tls.ca)},
                "storage": {"allowed_host_paths": [str(AGENTS.resolve())]}}) as w:
            tls.start(w.internet)
            examples = Examples(w.server, PYTHON)
            tap.check("egress and vault", egress_and_vault, examples, tls, w.internet)
            for name in sys.argv[7:] or ("claude-code",):
                tap.check(f"{name} with its key in the vault", assistant_with_its_key_in_the_vault,
                          examples, tls, w.internet, name)
            if tap.failed:
                print("# " + w.server.log()[-6000:].replace("\n", "\n# "))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
