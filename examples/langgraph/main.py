"""A LangGraph graph whose nodes work in a sandbox: create, prepare, run, inspect, cleanup.

The model is Anthropic's with ANTHROPIC_AUTH_TOKEN or ANTHROPIC_API_KEY, else the scripted one.
Needs: pip install langgraph langchain-anthropic
"""
import asyncio
import os
import pathlib
import sys
from typing import Any, TypedDict

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shared"))
from local_model import local_model  # noqa: E402
from opensandbox_example import connection, image  # noqa: E402

from langchain_anthropic import ChatAnthropic  # noqa: E402
from langgraph.graph import END, START, StateGraph  # noqa: E402
from opensandbox import Sandbox  # noqa: E402

COMMANDS = ("python3 /tmp/math.py", "python /tmp/math.py")


class State(TypedDict, total=False):
    made: Any  # a list that main() has as well, of sandboxes to end
    sandbox: Any
    attempts: int
    output: str
    failed: bool
    notes: str
    summary: str


async def create(state: State) -> State:
    sandbox = await Sandbox.create(image("opensandbox/code-interpreter:latest"),
                                   connection_config=connection())
    state["made"].append(sandbox)
    return {"sandbox": sandbox, "attempts": 0}


async def prepare(state: State) -> State:
    files = state["sandbox"].files
    await files.write_file("/tmp/math.py", "print(137 * 42)\n")
    await files.write_file("/tmp/notes.txt", "137 * 42 was computed in a sandbox.\n")
    return {}


async def run(state: State) -> State:
    done = await state["sandbox"].commands.run(COMMANDS[min(state["attempts"], 1)])
    return {"attempts": state["attempts"] + 1, "output": done.text, "failed": bool(done.exit_code)}


def after_run(state: State) -> str:
    return "run" if state["failed"] and state["attempts"] < 2 else "inspect"


def model():
    key = os.environ.get("ANTHROPIC_AUTH_TOKEN") or os.environ.get("ANTHROPIC_API_KEY")
    if key:
        return ChatAnthropic(model=os.environ.get("ANTHROPIC_MODEL", "claude-3-5-sonnet-latest"),
                             api_key=key, base_url=os.environ.get("ANTHROPIC_BASE_URL"))
    url = local_model([{"say": "The sandbox computed 137 * 42 and kept a note of it."}])
    return ChatAnthropic(model="scripted", api_key="none", base_url=url)


async def inspect(state: State) -> State:
    notes = await state["sandbox"].files.read_file("/tmp/notes.txt")
    said = await model().ainvoke(
        f"One sentence on this: the program printed {state['output']}; notes: {notes}")
    return {"notes": notes, "summary": str(said.content)}


async def cleanup(state: State) -> State:
    while state["made"]:
        await state["made"].pop().destroy()
    return {}


async def main():
    graph = StateGraph(State)
    for node in (create, prepare, run, inspect, cleanup):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "create")
    graph.add_edge("create", "prepare")
    graph.add_edge("prepare", "run")
    graph.add_conditional_edges("run", after_run, ["run", "inspect"])
    graph.add_edge("inspect", "cleanup")
    graph.add_edge("cleanup", END)
    made = []
    try:
        state = await graph.compile().ainvoke({"made": made})
    finally:
        await cleanup({"made": made})  # what a graph that failed has left
    print("output:", state["output"])
    print("notes:", state["notes"].strip())
    print("summary:", state["summary"])


if __name__ == "__main__":
    asyncio.run(main())
