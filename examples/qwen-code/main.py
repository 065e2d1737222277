"""Qwen Code in a sandbox: it writes a program, runs it, and tells what it printed."""
import asyncio
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shared"))
from assistant import Assistant, work  # noqa: E402

MODEL_NAME = os.environ.get("MODEL_NAME", "qwen3-coder-plus")


def settings(url):
    """An OpenAI-compatible provider that takes its key from API_KEY."""
    return {"/tmp/work/.qwen/settings.json": json.dumps({
        "modelProviders": {"openai": [{"id": MODEL_NAME, "name": MODEL_NAME, "baseUrl": url,
                                       "envKey": "API_KEY"}]},
        "security": {"auth": {"selectedType": "openai"}}, "model": {"name": MODEL_NAME},
        "privacy": {"usageStatisticsEnabled": False}, "telemetry": {"enabled": False}})}


ASSISTANT = Assistant(
    name="Qwen Code", program="qwen", key="API_KEY",
    install="npm install -g @qwen-code/qwen-code@latest",
    prompt="qwen --yolo -p {prompt}",
    vendor="https://dashscope.aliyuncs.com/compatible-mode/v1", base_url="BASE_URL",
    url_path="/v1", files=settings, env={"HOME": "/root"})

if __name__ == "__main__":
    asyncio.run(work(ASSISTANT))
