"""Claude Code or Codex on this machine works in a sandbox by the tools of opensandbox-mcp.

usage: assistant.py [claude|codex] [--program opensandbox-mcp]

The assistant makes a sandbox, writes a program in it, runs it, and ends the sandbox. Without a
key of the vendor in the environment the model is the scripted one. The assistant's settings are
in a directory of its own, which is removed; those of the user are neither read nor changed.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shared"))
from local_model import local_model  # noqa: E402

NAME = "opensandbox-sandbox"
SECONDS_MAX = 600
IMAGE = os.environ.get("SANDBOX_IMAGE", "host")
PROMPT = f"Make a sandbox of the image {IMAGE}, write /tmp/product.py in it, a program that " \
    "prints 137*42, run it there, end the sandbox, and tell what the program printed."
BOX = {"sandbox_id": "{field:sandbox_id}"}
SCRIPT = [
    {"call": "sandbox_create", "with": {"image": IMAGE, "metadata": {"made-by": "assistant"}}},
    {"call": "file_write", "with": {**BOX, "path": "/tmp/product.py",
                                    "content": "print('the product is', 137 * 42)\n"}},
    {"call": "command_run", "with": {**BOX, "command": "python3 /tmp/product.py"}},
    {"call": "sandbox_kill", "with": BOX},
    {"say": "The program printed: {field:text}"},
]


def claude(folder, program, model):
    """(command, environment): Claude Code with the tools of one MCP server allowed and no other."""
    env = {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
           # It goes on without tools of servers that do not answer in this time.
           "MCP_TIMEOUT": "300000", "MCP_TOOL_TIMEOUT": "300000",
           "MCP_CONNECTION_NONBLOCKING": "0"}
    if not os.environ.get("ANTHROPIC_AUTH_TOKEN"):
        env.update({"ANTHROPIC_BASE_URL": model, "ANTHROPIC_AUTH_TOKEN": "none",
                    "ANTHROPIC_MODEL": "claude_sonnet4"})
    servers = folder / "mcp.json"
    servers.write_text(json.dumps({"mcpServers": {NAME: {
        "command": program[0], "args": program[1:], "env": mcp_environment()}}}), encoding="utf-8")
    servers.chmod(0o600)
    return ["claude", "-p", PROMPT, "--strict-mcp-config", "--mcp-config", str(servers),
            "--allowedTools", f"mcp__{NAME}"], env


def codex(folder, program, model):
    """(command, environment): Codex, which finds its MCP servers in a file."""
    lines = [f"[mcp_servers.{NAME}]", f"command = {json.dumps(program[0])}",
             f"args = {json.dumps(program[1:])}", "tool_timeout_sec = 300",
             f"[mcp_servers.{NAME}.env]",
             *(f"{name} = {json.dumps(value)}" for name, value in mcp_environment().items())]
    words, env = [], {"CODEX_HOME": str(folder)}
    if not os.environ.get("OPENAI_API_KEY"):
        env["OPENAI_API_KEY"] = "none"
        words = ["-c", "model=gpt-4o-mini", "-c", "model_provider=example", "-c",
                 f'model_providers.example={{name="example",base_url="{model}/v1",'
                 'env_key="OPENAI_API_KEY",wire_api="responses"}']
    path = folder / "config.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    path.chmod(0o600)
    return ["codex", "exec", PROMPT, "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox", *words], env


def mcp_environment():
    return {"OPEN_SANDBOX_API_KEY": os.environ.get("SANDBOX_API_KEY", "")}


ASSISTANTS = {"claude": claude, "codex": codex}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("assistant", nargs="?", choices=ASSISTANTS, default="claude")
    parser.add_argument("--program", default="opensandbox-mcp")
    options = parser.parse_args()
    program = [shutil.which(options.program) or options.program, "--domain",
               os.environ.get("SANDBOX_DOMAIN", "localhost:8080")]
    with tempfile.TemporaryDirectory(prefix="mcp-example-") as name:
        folder = pathlib.Path(name)
        command, env = ASSISTANTS[options.assistant](folder, program, local_model(SCRIPT))
        done = subprocess.run(command, env={**os.environ, "HOME": name, **env}, cwd=name,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                              check=False, timeout=SECONDS_MAX)
    print(done.stdout.strip())
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
