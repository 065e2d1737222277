"""Playwright in a sandbox: a page, its title and text, and a full-page screenshot that comes back.

TARGET_URL (https://example.com) is the page, PLAYWRIGHT_SCREENSHOT (screenshot.png) the file.
"""
import asyncio
import os
import pathlib
import sys
from datetime import timedelta

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shared"))
from opensandbox_example import connection, image, show  # noqa: E402

from opensandbox import Sandbox  # noqa: E402

PICTURE = "/home/playwright/screenshot.png"
SCRIPT = f"""
import os
from playwright.sync_api import sync_playwright

with sync_playwright() as p:
    browser = p.chromium.launch(args=["--no-sandbox"])
    page = browser.new_page(viewport={{"width": 1280, "height": 800}})
    page.goto(os.environ["TARGET_URL"], wait_until="load", timeout=60000)
    page.screenshot(path="{PICTURE}", full_page=True)
    print("title:", page.title())
    print("text:", page.inner_text("body")[:300])
    browser.close()
"""


async def main():
    sandbox = await Sandbox.create(
        image("opensandbox/playwright:latest"), timeout=timedelta(minutes=10),
        resource={"cpu": "2", "memory": "2Gi"},
        env={"TARGET_URL": os.environ.get("TARGET_URL", "https://example.com"),
             "PLAYWRIGHT_BROWSERS_PATH": "/ms-playwright"},
        connection_config=connection())
    try:
        done = show(await sandbox.commands.run(f"/opt/venv/bin/python - <<'END'\n{SCRIPT}\nEND"))
        if done.exit_code:
            raise RuntimeError(f"playwright ended with {done.exit_code}")
        picture = pathlib.Path(os.environ.get("PLAYWRIGHT_SCREENSHOT", "screenshot.png"))
        picture.write_bytes(await sandbox.files.read_bytes(PICTURE))
        print(f"screenshot: {picture}, {picture.stat().st_size} bytes")
    finally:
        await sandbox.destroy()


if __name__ == "__main__":
    asyncio.run(main())
