"""Codex in a sandbox: it writes a program, runs it, and tells what it printed."""
import asyncio
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shared"))
from assistant import Assistant, work  # noqa: E402

ASSISTANT = Assistant(
    name="Codex", program="codex", key="OPENAI_API_KEY",
    install="npm install -g @openai/codex@latest",
    # The sandbox is around Codex, which therefore needs none of its own.
    prompt="codex exec {prompt} --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox "
           "-c model=$OPENAI_MODEL -c model_provider=example "
           "-c 'model_providers.example={{name=\"example\",base_url=\"{url}\","
           "env_key=\"OPENAI_API_KEY\",wire_api=\"responses\"}}'",
    vendor="https://api.openai.com/v1", base_url="OPENAI_BASE_URL",
    url_variables=("OPENAI_BASE_URL",), url_path="/v1",
    env={"OPENAI_MODEL": os.environ.get("OPENAI_MODEL", "gpt-4o-mini")})

if __name__ == "__main__":
    asyncio.run(work(ASSISTANT))
