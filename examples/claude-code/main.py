"""Claude Code in a sandbox: it writes a program, runs it, and tells what it printed."""
import asyncio
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shared"))
from assistant import Assistant, work  # noqa: E402

ASSISTANT = Assistant(
    name="Claude Code", program="claude", key="ANTHROPIC_AUTH_TOKEN",
    install="npm i -g @anthropic-ai/claude-code@latest",
    prompt="claude -p {prompt} --dangerously-skip-permissions",
    vendor="https://api.anthropic.com", base_url="ANTHROPIC_BASE_URL",
    url_variables=("ANTHROPIC_BASE_URL",),
    env={"ANTHROPIC_MODEL": os.environ.get("ANTHROPIC_MODEL", "claude_sonnet4"), "IS_SANDBOX": "1",
         "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"})

if __name__ == "__main__":
    asyncio.run(work(ASSISTANT))
