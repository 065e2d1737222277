"""An agent of the OpenAI Agents SDK whose tools act in a sandbox.

The model is OpenAI's with OPENAI_API_KEY, else the scripted one. Needs: pip install openai-agents
"""
import asyncio
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shared"))
from local_model import local_model  # noqa: E402
from opensandbox_example import connection, image  # noqa: E402
from sandbox_tools import PROMPT, SCRIPT, tools  # noqa: E402

from agents import (Agent, OpenAIResponsesModel, Runner, function_tool,  # noqa: E402
                    set_tracing_disabled)
from openai import AsyncOpenAI  # noqa: E402
from opensandbox import Sandbox  # noqa: E402


def model():
    key = os.environ.get("OPENAI_API_KEY")
    url = os.environ.get("OPENAI_BASE_URL") if key else f"{local_model(SCRIPT)}/v1"
    return OpenAIResponsesModel(model=os.environ.get("OPENAI_MODEL", "gpt-4o-mini"),
                                openai_client=AsyncOpenAI(api_key=key or "none", base_url=url))


async def main():
    set_tracing_disabled(True)
    sandbox = await Sandbox.create(image("opensandbox/code-interpreter:latest"),
                                   connection_config=connection())
    try:
        agent = Agent(name="opensandbox", instructions="Work in the sandbox.", model=model(),
                      tools=[function_tool(tool) for tool in tools(sandbox, print)])
        result = await Runner.run(agent, PROMPT)
        print("agent:", result.final_output.strip())
    finally:
        await sandbox.destroy()


if __name__ == "__main__":
    asyncio.run(main())
