"""An agent of Google's Agent Development Kit whose tools act in a sandbox.

The model is Gemini with GOOGLE_API_KEY, else the scripted one. Needs: pip install google-adk
"""
import asyncio
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shared"))
from local_model import local_model  # noqa: E402
from opensandbox_example import connection, image  # noqa: E402
from sandbox_tools import PROMPT, SCRIPT, tools  # noqa: E402

if not os.environ.get("GOOGLE_API_KEY"):
    os.environ.update({"GOOGLE_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": local_model(SCRIPT)})

from google.adk.agents import Agent  # noqa: E402
from google.adk.runners import InMemoryRunner  # noqa: E402
from google.genai import types  # noqa: E402
from opensandbox import Sandbox  # noqa: E402

NAME = "opensandbox_adk"


async def main():
    sandbox = await Sandbox.create(image("opensandbox/code-interpreter:latest"),
                                   connection_config=connection())
    try:
        agent = Agent(name=NAME, instruction="Work in the sandbox.",
                      model=os.environ.get("GOOGLE_ADK_MODEL", "gemini-2.5-flash"),
                      tools=list(tools(sandbox, print)))
        runner = InMemoryRunner(agent=agent, app_name=NAME)
        session = await runner.session_service.create_session(app_name=NAME, user_id="user")
        message = types.Content(role="user", parts=[types.Part(text=PROMPT)])
        async for event in runner.run_async(user_id="user", session_id=session.id,
                                            new_message=message):
            for part in event.content.parts if event.content else []:
                if part.text and event.is_final_response():
                    print("agent:", part.text.strip())
    finally:
        await sandbox.destroy()


if __name__ == "__main__":
    asyncio.run(main())
