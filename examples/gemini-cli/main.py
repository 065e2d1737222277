"""Gemini CLI in a sandbox: it writes a program, runs it, and tells what it printed."""
import asyncio
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shared"))
from assistant import Assistant, work  # noqa: E402

ASSISTANT = Assistant(
    name="Gemini CLI", program="gemini", key="GEMINI_API_KEY",
    install="npm install -g @google/gemini-cli@latest",
    prompt="gemini --yolo --skip-trust -p {prompt}",
    vendor="https://generativelanguage.googleapis.com", base_url="GEMINI_BASE_URL",
    url_variables=("GOOGLE_GEMINI_BASE_URL", "GEMINI_BASE_URL"), header="x-goog-api-key",
    files=lambda url: {"/root/.gemini/settings.json": json.dumps({
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False}, "telemetry": {"enabled": False}})},
    env={"GEMINI_MODEL": os.environ.get("GEMINI_MODEL", "gemini-2.5-flash"), "HOME": "/root"})

if __name__ == "__main__":
    asyncio.run(work(ASSISTANT))
