"""Kimi CLI in a sandbox: it writes a program, runs it, and tells what it printed."""
import asyncio
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shared"))
from assistant import Assistant, work  # noqa: E402

ASSISTANT = Assistant(
    name="Kimi CLI", program="kimi", key="KIMI_API_KEY",
    install="pip install kimi-cli==1.51.0",  # 1.52 only tells of its successor
    prompt="kimi --quiet --yolo -p {prompt}",
    vendor="https://api.moonshot.ai/v1", base_url="KIMI_BASE_URL",
    url_variables=("KIMI_BASE_URL",), url_path="/v1",
    env={"HOME": "/root", "KIMI_MODEL_NAME": os.environ.get("KIMI_MODEL_NAME", "kimi-k2.5"),
         "KIMI_CLI_NO_AUTO_UPDATE": "1"})

if __name__ == "__main__":
    asyncio.run(work(ASSISTANT))
