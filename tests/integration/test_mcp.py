"""opensandbox-mcp as the official client in Python sees it, with a real server behind.

Usage: test_mcp.py stdio|http MCP SERVER BROKER EXECD SANDBOXCTL. TAP on standard output. Needs
root, and the package mcp.
"""
import asyncio
import base64
import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from mcp import Client, StdioServerParameters  # noqa: E402
from mcp.client.streamable_http import streamable_http_client  # noqa: E402
from mcp.shared._httpx_utils import create_mcp_http_client  # noqa: E402
from mcp.shared.exceptions import MCPError  # noqa: E402
from server_process import SECONDS_MAX, ServerProcess, wait_for, why_not  # noqa: E402

TRANSPORT = sys.argv[1]
MCP, *PROGRAMS = [os.path.abspath(path) for path in sys.argv[2:7]]
SERVER = None  # one for all
TOKEN = "a token of this test"
RESOURCE = {"cpu": "1", "memory": "256Mi"}
CONTRACT_TOOLS = """sandbox_create sandbox_connect sandbox_kill sandbox_get_info sandbox_list
sandbox_renew sandbox_get_metrics sandbox_healthcheck sandbox_get_endpoint command_run
command_interrupt file_read file_write file_delete file_search file_create_directories
file_delete_directories file_move file_replace_contents""".split()


# --- programs ---

def command(*more):
    return [MCP, "--domain", SERVER.domain, "--api-key", SERVER.api_key, *more]


class HttpProcess:
    """opensandbox-mcp over HTTP, on a port that it chose."""

    def __init__(self, *more, token=TOKEN):
        env = {**os.environ, "OPENSANDBOX_MCP_TOKEN": token}
        self.process = subprocess.Popen(
            command("--transport", "streamable-http", "--port", "0", *more),
            stderr=subprocess.PIPE, env=env, text=True)
        line = self.process.stderr.readline()
        found = re.search(r"http://([^/ ]+):(\d+)(/\S*)", line)
        assert found, line
        self.host, self.port, self.path = found[1], int(found[2]), found[3]
        self.url = found[0]

    def request(self, method, body=None, headers=None, token=TOKEN):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=SECONDS_MAX)
        headers = {"Content-Type": "application/json",
                   "Accept": "application/json, text/event-stream", **(headers or {})}
        if token:
            headers.setdefault("Authorization", f"Bearer {token}")
        try:
            connection.request(method, self.path, body=body, headers=headers)
            reply = connection.getresponse()
            return reply.status, reply.headers, reply.read()
        finally:
            connection.close()

    def stop(self, signo=signal.SIGTERM):
        self.process.send_signal(signo)
        status = self.process.wait(SECONDS_MAX)
        self.process.stderr.close()
        return status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.stop()


@contextlib.asynccontextmanager
async def http_client(process, **options):
    async with create_mcp_http_client(headers={"Authorization": f"Bearer {TOKEN}"}) as made:
        async with Client(streamable_http_client(process.url, http_client=made),
                          **options) as client:
            yield client


@contextlib.asynccontextmanager
async def connected(*more, **options):
    """A client of a process of its own."""
    options.setdefault("read_timeout_seconds", SECONDS_MAX)
    if TRANSPORT == "stdio":
        program, *args = command(*more)
        async with Client(StdioServerParameters(command=program, args=args), **options) as client:
            yield client
        return
    with HttpProcess(*more) as process:
        async with http_client(process, **options) as client:
            yield client


CALLED = set()  # tools that gave a result, or were refused by the server for a stated reason


async def call(client, tool, /, **arguments):
    """Its structured content; fails when it is an error."""
    CALLED.add(tool)
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content[0].text
    assert json.loads(result.content[0].text) == result.structured_content
    return result.structured_content


async def failure(client, tool, /, **arguments):
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result
    return result.content[0].text


async def make(client, **more):
    created = await call(client, "sandbox_create", image="host", resource=RESOURCE, **more)
    return created["sandbox_id"]


def alive():
    _, _, body = SERVER.request("GET", "/v1/sandboxes?pageSize=200")
    return {item["id"] for item in body["items"]
            if item["status"]["state"] not in ("Terminated", "Stopping")}


# --- tests ---

async def both_generations_of_the_protocol_list_the_tools():
    for mode, version in (("auto", "2026-07-28"), ("legacy", "2025-11-25")):
        async with connected(mode=mode) as client:
            assert client.protocol_version == version, client.protocol_version
            assert client.server_info.name == "OpenSandbox Sandbox"
            assert "sandbox_id" in client.instructions
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert not set(CONTRACT_TOOLS) - set(tools), set(CONTRACT_TOOLS) - set(tools)
            schema = tools["command_run"].input_schema
            assert schema["required"] == ["sandbox_id", "command"], schema
            assert schema["properties"]["background"]["default"] is False
            assert tools["file_read"].annotations.read_only_hint
            assert tools["sandbox_kill"].annotations.destructive_hint


async def a_sandbox_lives_from_create_to_kill():
    async with connected() as client:
        heard = []

        async def on_progress(progress, total, message):
            heard.append((progress, total))

        result = await client.call_tool(
            "sandbox_create", {"image": "host", "resource": RESOURCE, "env": {"COLOUR": "blue"},
                               "metadata": {"ownName": "yes"}}, progress_callback=on_progress)
        assert not result.is_error, result
        box, info = (result.structured_content[key] for key in ("sandbox_id", "info"))
        assert [part for part, _ in heard] == [0.1, 0.3, 0.8, 1.0], heard
        assert info["status"]["state"] == "Running" and info["image"] == {"image": "host"}, info
        assert info["metadata"]["ownName"] == "yes" and "expires_at" in info, info

        assert (await call(client, "sandbox_get_info", sandbox_id=box))["id"] == box
        page = await call(client, "sandbox_list",
                          filter={"states": ["Running"], "metadata": {"ownName": "yes"}})
        assert [item["id"] for item in page["sandbox_infos"]] == [box], page
        assert page["pagination"]["total_items"] == 1, page
        renewed = await call(client, "sandbox_renew", sandbox_id=box, timeout_seconds=1000)
        assert renewed["expires_at"] > info["expires_at"]
        metrics = await call(client, "sandbox_get_metrics", sandbox_id=box)
        assert metrics["cpu_count"] >= 1 and metrics["memory_total_in_mib"] > 0, metrics
        assert await call(client, "sandbox_healthcheck", sandbox_id=box) == {
            "sandbox_id": box, "healthy": True}
        endpoint = await call(client, "sandbox_get_endpoint", sandbox_id=box, port=8000)
        assert endpoint["endpoint"] and isinstance(endpoint["headers"], dict)
        assert (await call(client, "sandbox_pause", sandbox_id=box))["status"] == "pausing"
        while (await call(client, "sandbox_get_info", sandbox_id=box)
               )["status"]["state"] != "Paused":
            await asyncio.sleep(0.02)
        assert (await call(client, "sandbox_resume", sandbox_id=box))["status"] == "resuming"
        while (await call(client, "sandbox_get_info", sandbox_id=box)
               )["status"]["state"] != "Running":
            await asyncio.sleep(0.02)
        ran = await call(client, "command_run", sandbox_id=box, command="echo $COLOUR")
        assert ran["logs"]["stdout"][0]["text"] == "blue", ran
        assert await call(client, "sandbox_kill", sandbox_id=box) == {"status": "killed"}
        wait_for(lambda: box not in alive(), "the end of the sandbox")


async def commands_run_fail_and_go_to_the_background():
    async with connected() as client:
        box = await make(client)
        ran = await call(client, "command_run", sandbox_id=box, working_directory="/tmp",
                         command="pwd; echo oops >&2; exit 3")
        assert ran["exit_code"] == 3 and ran["error"]["name"], ran
        assert [line["text"] for line in ran["logs"]["stdout"]] == ["/tmp"], ran
        assert ran["logs"]["stderr"][0]["text"] == "oops" and ran["logs"]["stderr"][0]["is_error"]
        assert ran["complete"]["execution_time_in_millis"] >= 0 and ran["result"] == []
        late = await call(client, "command_run", sandbox_id=box, command="sleep 100",
                          timeout_seconds=0.2)
        assert late["error"], late

        started = await call(client, "command_run", sandbox_id=box, background=True,
                             command="echo begun; sleep 1000")
        name = started["id"]
        seen, cursor = "", 0
        while "begun\n" not in seen:
            logs = await call(client, "command_logs", sandbox_id=box, execution_id=name,
                              cursor=cursor)
            seen, cursor = seen + logs["content"], logs["cursor"]
        assert (await call(client, "command_status", sandbox_id=box, execution_id=name))["running"]
        assert await call(client, "command_interrupt", sandbox_id=box, execution_id=name) == {
            "status": "interrupted"}
        while (await call(client, "command_status", sandbox_id=box, execution_id=name))["running"]:
            await asyncio.sleep(0.02)


async def files_are_written_read_and_changed():
    async with connected() as client:
        box = await make(client)

        async def use(tool, **arguments):
            return await call(client, tool, sandbox_id=box, **arguments)

        assert await use("file_create_directories", entries=[{"path": "/tmp/d", "mode": 700}]) == {
            "status": "created"}
        text = "one\ntwo \u00fc\n"
        assert await use("file_write", path="/tmp/d/a.txt", content=text, mode=640) == {
            "status": "written"}
        assert await use("file_read", path="/tmp/d/a.txt") == {
            "path": "/tmp/d/a.txt", "content": text}
        assert (await use("file_read", path="/tmp/d/a.txt", range_header="bytes=0-2")
                )["content"] == "one"
        raw = bytes(range(256))
        await use("file_write", path="/tmp/d/b.bin", content=base64.b64encode(raw).decode(),
                  encoding="base64")
        assert base64.b64decode((await use("file_read", path="/tmp/d/b.bin", encoding="base64")
                                 )["content"]) == raw
        found = (await use("file_search", path="/tmp/d", pattern="*.txt"))["result"]
        assert [entry["path"] for entry in found] == ["/tmp/d/a.txt"], found
        assert found[0]["mode"] == 640 and "modified_at" in found[0], found
        assert len((await use("file_list", path="/tmp/d"))["result"]) == 2
        assert (await use("file_replace_contents", entries=[
            {"path": "/tmp/d/a.txt", "old_content": "one", "new_content": "three"}]))["result"] == [
                {"path": "/tmp/d/a.txt", "replaced_count": 1}]
        assert await use("file_move", entries=[
            {"source": "/tmp/d/a.txt", "destination": "/tmp/d/c.txt"}]) == {"status": "moved"}
        assert (await use("file_read", path="/tmp/d/c.txt"))["content"].startswith("three\n")
        assert await use("file_delete", paths=["/tmp/d/c.txt"]) == {"status": "deleted"}
        assert await use("file_delete_directories", paths=["/tmp/d"]) == {"status": "deleted"}
        assert "base64" in await failure(client, "file_read", sandbox_id=box, path="/bin/sh")
        assert await failure(client, "file_read", sandbox_id=box, path="/tmp/d/c.txt")


async def code_runs_and_remembers():
    async with connected() as client:
        box = await make(client)
        made = await call(client, "code_context_create", sandbox_id=box, language="python")
        context = made["context_id"]
        await call(client, "code_run", sandbox_id=box, context_id=context, code="x = 20")
        ran = await call(client, "code_run", sandbox_id=box, context_id=context,
                         code="print('hello')\nx + 1")
        assert ran["logs"]["stdout"][0]["text"].strip() == "hello", ran
        assert "21" in json.dumps(ran["result"]), ran
        ran = await call(client, "code_run", sandbox_id=box, context_id=context, code="1/0")
        assert ran["error"]["name"] == "ZeroDivisionError" and ran["error"]["traceback"], ran
        pixel = base64.b64encode(b"\x89PNG\r\n").decode()
        result = await client.call_tool("code_run", {
            "sandbox_id": box, "context_id": context,
            "code": f"class P:\n  def _repr_png_(self):\n    import base64\n"
                    f"    return base64.b64decode('{pixel}')\nP()"})
        images = [item for item in result.content if item.type == "image"]
        assert [(item.mime_type, item.data) for item in images] == [("image/png", pixel)], result
        assert pixel not in result.content[0].text
        await call(client, "code_context_delete", sandbox_id=box, context_id=context)


async def mistakes_are_answered_with_what_would_be_right():
    async with connected() as client:
        box = await make(client)
        assert "sandbox_connect" in await failure(client, "command_run", sandbox_id="nobody",
                                                  command="true")
        assert "NOT_FOUND" in await failure(client, "sandbox_get_info", sandbox_id="nobody")
        assert "NOT_FOUND" in await failure(client, "sandbox_kill", sandbox_id="nobody")
        assert await failure(client, "command_run", sandbox_id="nobody", command="true",
                             connect_if_missing=True)
        assert "auth_password" in await failure(client, "sandbox_create", image="host",
                                                auth_username="me")
        assert "image" in await failure(client, "sandbox_create")
        assert "'command' is missing" in await failure(client, "command_run", sandbox_id=box)
        assert "expected a string" in await failure(client, "command_run", sandbox_id=box,
                                                    command=7)
        assert "comand" in await failure(client, "command_run", sandbox_id=box, comand="true")
        assert "1 to 65535" in await failure(client, "sandbox_get_endpoint", sandbox_id=box,
                                             port=70000)
        for name, arguments in (("no_such_tool", {}), ):
            try:
                await client.call_tool(name, arguments)
                raise AssertionError("it was found")
            except MCPError as e:
                assert e.code == -32602, e
        try:
            await client.read_resource("opensandbox://outputs/none")
            raise AssertionError("it was found")
        except MCPError as e:
            assert e.code == -32002, e


# Per tool, arguments without which it would be right, and what the answer says. {box} is a sandbox.
MISTAKES = {
    "sandbox_connect": ({"sandbox_id": "nobody"}, "NOT_FOUND"),
    "sandbox_renew": ({"sandbox_id": "nobody", "timeout_seconds": 9}, "NOT_FOUND"),
    "sandbox_list": ({"filter": {"page": 0}}, "page"),
    "sandbox_get_metrics": ({"sandbox_id": "nobody"}, "registry"),
    "sandbox_healthcheck": ({"sandbox_id": "nobody"}, "registry"),
    "sandbox_pause": ({"sandbox_id": "nobody"}, "NOT_FOUND"),
    "sandbox_resume": ({"sandbox_id": "{box}"}, "SANDBOX_NOT_PAUSED"),
    "sandbox_fork": ({"sandbox_id": "{box}", "count": 101}, "1 to 100"),
    "sandbox_rollback": ({"sandbox_id": "{box}", "snapshot_id": "none"}, "SNAPSHOT"),
    "command_interrupt": ({"sandbox_id": "{box}", "execution_id": "none"}, "no such session"),
    "command_status": ({"sandbox_id": "{box}", "execution_id": "none"}, "none"),
    "command_logs": ({"sandbox_id": "{box}", "execution_id": "none"}, "none"),
    "code_run": ({"sandbox_id": "{box}", "code": "1", "language": "latin"}, "latin"),
    "code_context_create": ({"sandbox_id": "{box}", "language": "latin"}, "latin"),
    "code_context_delete": ({"sandbox_id": "{box}", "context_id": "none"}, "none"),
    "code_interrupt": ({"sandbox_id": "{box}", "context_id": "none"}, "no such session"),
    "file_write": ({"sandbox_id": "{box}", "path": "/proc/x", "content": ""}, "/proc/x"),
    "file_list": ({"sandbox_id": "{box}", "path": "/nowhere"}, "/nowhere"),
    "file_search": ({"sandbox_id": "{box}", "path": "/nowhere", "pattern": "*"}, "/nowhere"),
    "file_delete": ({"sandbox_id": "{box}", "paths": [7]}, "string"),
    "file_move": ({"sandbox_id": "{box}", "entries": [{"source": "/nowhere",
                                                       "destination": "/tmp/x"}]}, "/nowhere"),
    "file_replace_contents": ({"sandbox_id": "{box}", "entries": [
        {"path": "/nowhere", "old_content": "a", "new_content": "b"}]}, "/nowhere"),
    "file_create_directories": ({"sandbox_id": "{box}", "entries": [{"path": "/tmp/d",
                                                                     "mode": 999}]}, "mode"),
    "file_delete_directories": ({"sandbox_id": "{box}", "paths": "/tmp"}, "list"),
    "egress_patch": ({"sandbox_id": "{box}", "rules": [{"action": "maybe", "target": "x"}]},
                     "allow or deny"),
    "egress_delete": ({"sandbox_id": "{box}", "targets": []}, "at least one"),
    "snapshot_create": ({"sandbox_id": "nobody"}, "NOT_FOUND"),
    "snapshot_get": ({"snapshot_id": "none"}, "NOT_FOUND"),
    "snapshot_list": ({"page": 0}, "1 to"),
    "snapshot_delete": ({"snapshot_id": "none"}, "NOT_FOUND"),
    "output_read": ({"uri": "opensandbox://outputs/none"}, "no such output"),
}


async def each_tool_says_what_was_wrong():
    async with connected() as client:
        box, wrong = await make(client), []
        for tool, (arguments, text) in MISTAKES.items():
            arguments = {key: box if value == "{box}" else value
                         for key, value in arguments.items()}
            result = await client.call_tool(tool, arguments)
            if not result.is_error or text not in result.content[0].text:
                wrong.append((tool, text, result.content[0].text))
        assert not wrong, wrong


async def rules_of_egress_are_read_and_changed_where_there_is_an_engine():
    async with connected() as client:
        result = await client.call_tool("sandbox_create", {
            "image": "host", "resource": RESOURCE, "network_policy": {
                "defaultAction": "deny", "egress": [{"action": "allow", "target": "a.test"}]}})
        CALLED.update(("egress_get", "egress_patch", "egress_delete"))
        if result.is_error:  # a server without an engine refuses such a sandbox
            assert "networkPolicy" in result.content[0].text, result
            box = await make(client)
            rule = {"action": "allow", "target": "b.test"}
            for tool, more in (("egress_get", {}), ("egress_patch", {"rules": [rule]}),
                               ("egress_delete", {"targets": ["a.test"]})):
                said = await failure(client, tool, sandbox_id=box, **more)
                assert "the server has no egress engine" in said, said
            return
        box = result.structured_content["sandbox_id"]
        policy = await call(client, "egress_get", sandbox_id=box)
        assert policy["default_action"] == "deny", policy
        assert policy["egress"] == [{"action": "allow", "target": "a.test"}], policy
        assert await call(client, "egress_patch", sandbox_id=box, rules=[
            {"action": "deny", "target": "b.test"}]) == {"status": "patched"}
        assert await call(client, "egress_delete", sandbox_id=box, targets=["a.test"]) == {
            "status": "deleted"}
        policy = await call(client, "egress_get", sandbox_id=box)
        assert policy["egress"] == [{"action": "deny", "target": "b.test"}], policy


async def code_that_runs_is_interrupted():
    async with connected() as client:
        box = await make(client)
        context = (await call(client, "code_context_create", sandbox_id=box, language="python")
                   )["context_id"]
        begun = asyncio.Event()

        async def on_progress(*_):
            begun.set()

        waiting = asyncio.create_task(client.call_tool("code_run", {
            "sandbox_id": box, "context_id": context,
            "code": "import time\nprint('begun', flush=True)\ntime.sleep(1000)"},
            progress_callback=on_progress))
        await asyncio.wait_for(begun.wait(), SECONDS_MAX)
        await call(client, "code_interrupt", sandbox_id=box, context_id=context)
        ran = (await waiting).structured_content
        assert ran["error"]["name"] == "KeyboardInterrupt", ran


# A client in a process of its own: SANDBOX URL TOKEN, or SANDBOX "" "" PROGRAM ARGUMENT...
VICTIM = """
import asyncio, contextlib, sys
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

async def on_progress(*_):
    print("runs", flush=True)

async def main():
    box, url, token, *command = sys.argv[1:]
    async with contextlib.AsyncExitStack() as stack:
        made = await stack.enter_async_context(create_mcp_http_client(
            headers={"Authorization": f"Bearer {token}"}))
        way = streamable_http_client(url, http_client=made) if url else \\
            StdioServerParameters(command=command[0], args=command[1:])
        client = await stack.enter_async_context(Client(way))
        await client.call_tool("command_run", {
            "sandbox_id": box, "connect_if_missing": True,
            "command": "echo begun; exec sleep 87654"}, progress_callback=on_progress)

asyncio.run(main())
"""


async def a_client_that_is_killed_stops_what_it_ran():
    name = SERVER.create()
    with contextlib.ExitStack() as stack:
        stack.callback(SERVER.request, "DELETE", f"/v1/sandboxes/{name}")
        if TRANSPORT == "stdio":
            way = ["", "", *command()]
        else:
            process = stack.enter_context(HttpProcess())
            way = [process.url, TOKEN]
        victim = stack.enter_context(subprocess.Popen(
            [sys.executable, "-c", VICTIM, name, *way], stdout=subprocess.PIPE, text=True))
        assert victim.stdout.readline() == "runs\n"
        victim.kill()
        async with connected() as client:
            while (await call(client, "command_run", sandbox_id=name, connect_if_missing=True,
                              command="cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | "
                                      "grep -q 'sleep [8]7654'"))["exit_code"] == 0:
                await asyncio.sleep(0.05)
        if TRANSPORT == "http":  # it serves others as before
            async with http_client(process) as client:
                assert (await call(client, "sandbox_healthcheck", sandbox_id=name))["healthy"]


async def every_tool_was_called():
    """The last: what the tests above called is all there is."""
    async with connected() as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert tools == CALLED, tools ^ CALLED
        assert tools - set(MISTAKES) == {  # of these, mistakes are tested elsewhere
            "sandbox_create", "sandbox_kill", "sandbox_get_info", "sandbox_get_endpoint",
            "command_run", "file_read", "egress_get"}, tools - set(MISTAKES)


async def one_process_connects_to_the_sandbox_of_another():
    name = SERVER.create()
    async with connected() as client:
        assert "registry" in await failure(client, "sandbox_healthcheck", sandbox_id=name)
        assert (await call(client, "command_run", sandbox_id=name, command="echo hi",
                           connect_if_missing=True))["exit_code"] == 0
        assert (await call(client, "sandbox_healthcheck", sandbox_id=name))["healthy"]
        assert (await call(client, "sandbox_connect", sandbox_id=name))["sandbox_id"] == name
    assert name in alive(), "it was not ours to delete"
    SERVER.request("DELETE", f"/v1/sandboxes/{name}")


async def long_output_is_cut_and_linked():
    line = "x" * 99
    async with connected() as client:
        box = await make(client)
        result = await client.call_tool("command_run", {
            "sandbox_id": box, "command": f"for i in $(seq 10000); do echo {line}; done; echo end"})
        ran = result.structured_content
        texts = [entry["text"] for entry in ran["logs"]["stdout"]]
        assert texts[0] == line and texts[-1] == "end", texts[-3:]
        assert any("bytes left out" in text for text in texts)
        assert ran["truncated"] and len(result.content[0].text) < 150_000
        (link,) = [item for item in result.content if item.type == "resource_link"]
        assert link.size == 10000 * 100 + 4, link
        (whole,) = (await client.read_resource(str(link.uri))).contents
        assert whole.text == (line + "\n") * 10000 + "end\n"
        (part,) = (await client.read_resource(f"{link.uri}?offset=1000000&length=3")).contents
        assert part.text == "end"
        read = await call(client, "output_read", uri=str(link.uri), offset=999_999, length=4)
        assert read == {"content": "\nend", "next_offset": 1_000_003, "total_bytes": 1_000_004}
        assert len((await client.list_resources(cache_mode="bypass")).resources) == 1
        await call(client, "command_run", sandbox_id=box,
                   command="head -c 1000000 /dev/zero | tr '\\0' y > /tmp/big")
        result = await client.call_tool("file_read", {"sandbox_id": box, "path": "/tmp/big"})
        assert len(result.structured_content["content"]) == 65536
        assert result.structured_content["total_bytes"] == 1_000_000
        ran = await call(client, "command_run", sandbox_id=box, command="cat /tmp/big")
        assert ran["truncated"] and len(json.dumps(ran)) < 100_000


async def twenty_calls_run_side_by_side():
    async with connected() as client:
        box = await make(client)
        # Each waits for all others: one after the other they would not end.
        script = ("mkdir -p /tmp/meet; touch /tmp/meet/$I; "
                  "while [ $(ls /tmp/meet | wc -l) -lt 20 ]; do sleep 0.05; done; echo met $I")
        all_ran = await asyncio.gather(*[
            call(client, "command_run", sandbox_id=box, command=script, env={"I": str(i)})
            for i in range(20)])
        assert [ran["logs"]["stdout"][0]["text"] for ran in all_ran] == [
            f"met {i}" for i in range(20)]


async def a_cancelled_call_ends_its_command():
    for mode in ("auto", "legacy"):
        async with connected(mode=mode) as client:
            box = await make(client)
            begun = asyncio.Event()

            async def on_progress(*_):
                begun.set()

            waiting = asyncio.create_task(client.call_tool(
                "command_run", {"sandbox_id": box, "command": "echo begun; exec sleep 98765"},
                progress_callback=on_progress))
            await asyncio.wait_for(begun.wait(), SECONDS_MAX)
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waiting
            while "98765" in json.dumps((await call(
                    client, "command_run", sandbox_id=box,
                    command="cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o 'sleep [9]8765'"
                            " || true"))["logs"]["stdout"]):
                await asyncio.sleep(0.05)


async def sandboxes_are_deleted_at_the_end_unless_kept():
    async with connected() as client:
        box = await make(client)
    wait_for(lambda: box not in alive(), "the end of the sandbox")
    async with connected("--keep") as client:
        box = await make(client)
    assert box in alive()
    SERVER.request("DELETE", f"/v1/sandboxes/{box}")


async def snapshots_and_forks_have_the_files_of_a_sandbox():
    async with connected() as client:
        box = await make(client)
        await call(client, "file_write", sandbox_id=box, path="/opt/kept", content="kept")
        snapshot = (await call(client, "snapshot_create", sandbox_id=box, name="one"))["id"]
        while (await call(client, "snapshot_get", snapshot_id=snapshot)
               )["status"]["state"] != "Ready":
            await asyncio.sleep(0.02)
        for tool in ("snapshot_create", "sandbox_fork"):  # the server is asked, and has no gVisor
            assert "memory" in await failure(client, tool, sandbox_id=box, memory=True)
        listed = await call(client, "snapshot_list", sandbox_id=box)
        assert [item["id"] for item in listed["items"]] == [snapshot], listed
        made = await call(client, "sandbox_create", snapshot_id=snapshot, resource=RESOURCE)
        forked = await call(client, "sandbox_fork", sandbox_id=box, count=2)
        copies = [made["sandbox_id"], *[item["id"] for item in forked["items"]]]
        assert len(copies) == 3, copies
        for copy in copies:
            await call(client, "sandbox_connect", sandbox_id=copy)
            assert (await call(client, "file_read", sandbox_id=copy, path="/opt/kept")
                    )["content"] == "kept"
        for copy in copies:
            await call(client, "sandbox_kill", sandbox_id=copy)
        await call(client, "file_write", sandbox_id=box, path="/opt/kept", content="changed")
        assert await call(client, "sandbox_rollback", sandbox_id=box, snapshot_id=snapshot) == {
            "status": "rolling back"}
        while True:  # until it is back
            read = await client.call_tool("file_read", {"sandbox_id": box, "path": "/opt/kept"})
            if not read.is_error and read.structured_content["content"] == "kept":
                break
            await asyncio.sleep(0.02)
        assert await call(client, "snapshot_delete", snapshot_id=snapshot) == {"status": "deleted"}


TESTS = [
    snapshots_and_forks_have_the_files_of_a_sandbox,
    both_generations_of_the_protocol_list_the_tools,
    a_sandbox_lives_from_create_to_kill,
    commands_run_fail_and_go_to_the_background,
    files_are_written_read_and_changed,
    code_runs_and_remembers,
    mistakes_are_answered_with_what_would_be_right,
    one_process_connects_to_the_sandbox_of_another,
    long_output_is_cut_and_linked,
    twenty_calls_run_side_by_side,
    a_cancelled_call_ends_its_command,
    sandboxes_are_deleted_at_the_end_unless_kept,
    each_tool_says_what_was_wrong,
    rules_of_egress_are_read_and_changed_where_there_is_an_engine,
    code_that_runs_is_interrupted,
    a_client_that_is_killed_stops_what_it_ran,
    every_tool_was_called,
]


# --- of one transport only ---

def talk(process, *messages):
    for message in messages:
        process.stdin.write(message + "\n")
    process.stdin.flush()


def message(number, method, **params):
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


async def a_client_that_is_killed_leaves_no_sandbox():
    """Its end of the pipe closes while one call runs and another creates."""
    process = subprocess.Popen(command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    before = alive()
    talk(process, message(1, "tools/call", name="sandbox_create",
                          arguments={"image": "host", "resource": RESOURCE}))
    box = json.loads(process.stdout.readline())["result"]["structuredContent"]["sandbox_id"]
    talk(process,
         message(2, "tools/call", name="command_run",
                 arguments={"sandbox_id": box, "command": "sleep 1000"}),
         message(3, "tools/call", name="sandbox_create",
                 arguments={"image": "host", "resource": RESOURCE}))
    process.stdin.close()
    process.stdout.close()
    assert process.wait(SECONDS_MAX) == 0
    wait_for(lambda: alive() <= before, "the end of its sandboxes")


async def lines_that_are_no_requests_get_the_right_errors():
    process = subprocess.Popen(command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for line, code in (("{", -32700), ("[]", -32600), ("7", -32600), ('{"id":1}', -32600),
                       ('{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
                       ('{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32602),
                       (message(1, "no/such/method"), -32601),
                       (message(1, "tools/call"), -32602),
                       (message(1, "tools/call", name="x"), -32602),
                       (message(1, "logging/setLevel", level="loud"), -32602),
                       (message(1, "initialize"), -32602),
                       ("{" + " " * (17 << 20) + "}", -32700)):
        talk(process, line)
        answer = json.loads(process.stdout.readline())
        assert answer["error"]["code"] == code, (line[:80], answer)
    talk(process, '{"jsonrpc":"2.0","method":"notifications/nothing"}', "",
         '{"jsonrpc":"2.0","id":5,"result":{}}', message(6, "ping"))
    assert json.loads(process.stdout.readline()) == {"jsonrpc": "2.0", "id": 6, "result": {}}
    process.stdin.close()
    assert process.wait(SECONDS_MAX) == 0
    process.stdout.close()


def command_lines_that_are_wrong_say_so():
    for args, text in ((["--transport", "smoke"], "streamable-http"), (["--port", "x"], "65535"),
                       (["--nothing"], "unknown option"), (["--domain"], "needs a value")):
        ran = subprocess.run([MCP, *args], capture_output=True, text=True, check=False)
        assert ran.returncode == 2 and text in ran.stderr, ran
    ran = subprocess.run([MCP, "--help"], capture_output=True, text=True, check=True)
    assert "--transport" in ran.stdout


STDIO_TESTS = [a_client_that_is_killed_leaves_no_sandbox,
               lines_that_are_no_requests_get_the_right_errors,
               command_lines_that_are_wrong_say_so]


def begin_session(process):
    status, headers, body = process.request("POST", message(
        1, "initialize", protocolVersion="2025-06-18", capabilities={},
        clientInfo={"name": "test", "version": "1"}))
    assert status == 200 and json.loads(body)["result"]["protocolVersion"] == "2025-06-18", body
    return {"Mcp-Session-Id": headers["Mcp-Session-Id"]}


def only_who_has_the_token_may_call():
    with HttpProcess() as process:
        for token in (None, "wrong", TOKEN + "x"):
            status, headers, _ = process.request("POST", message(1, "ping"), token=token)
            assert status == 401 and headers["WWW-Authenticate"] == "Bearer", (token, status)
        begin_session(process)
    ran = subprocess.run(command("--transport", "streamable-http", "--host", "0.0.0.0"),
                         capture_output=True, text=True, check=False, timeout=SECONDS_MAX)
    assert ran.returncode == 1 and "--token" in ran.stderr, ran


def web_pages_of_elsewhere_are_refused():
    with HttpProcess("--allow-origin", "https://page.test", token="") as process:
        def status(**headers):
            return process.request("POST", message(1, "ping"), headers=headers, token=None)[0]

        assert status(Origin="http://evil.test") == 403
        assert status(Origin="http://localhost.evil.test") == 403
        assert status(Origin="null") == 403
        assert status(Host="evil.test:8000") == 403
        for origin in ("http://localhost:3000", "https://page.test", "http://127.0.0.1"):
            assert status(Origin=origin) == 400, "it wants a session, so it let the page in"


def messages_and_sessions_that_are_wrong_get_the_right_status():
    with HttpProcess() as process:
        session = begin_session(process)
        status, _, body = process.request("POST", "{", headers=session)
        assert status == 400 and json.loads(body)["error"]["code"] == -32700, body
        assert process.request("POST", message(1, "ping"))[0] == 400
        assert process.request("POST", message(1, "ping"), {"Mcp-Session-Id": "x"})[0] == 404
        assert process.request("POST", message(1, "ping"), {
            **session, "MCP-Protocol-Version": "1999-01-01"})[0] == 400
        status, _, body = process.request("POST", message(7, "no/such"), session)
        assert status == 200 and json.loads(body)["error"]["code"] == -32601, body
        note = '{"jsonrpc":"2.0","method":"notifications/initialized"}'
        assert process.request("POST", note, session)[0] == 202
        assert process.request("GET", headers=session)[0] == 405
        status, headers, body = process.request(
            "POST", message(8, "tools/call", name="sandbox_list"),
            {**session, "Accept": "application/json"})
        assert headers.get_content_type() == "application/json", headers
        assert json.loads(body)["result"]["isError"] is False, body
        new = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
        status, _, body = process.request("POST", message(9, "ping", _meta=new))
        assert status == 400 and json.loads(body)["error"]["code"] == -32020, body
        assert process.request("DELETE", headers=session)[0] == 204
        assert process.request("POST", message(1, "ping"), session)[0] == 404
        assert process.request("DELETE", headers=session)[0] == 404


def a_client_that_is_gone_leaves_nothing_after_the_end():
    before = alive()
    with HttpProcess() as process:
        session = begin_session(process)
        _, _, body = process.request(
            "POST", message(1, "tools/call", name="sandbox_create",
                            arguments={"image": "host", "resource": RESOURCE}),
            {**session, "Accept": "application/json"})
        box = json.loads(body)["result"]["structuredContent"]["sandbox_id"]
        connection = http.client.HTTPConnection(process.host, process.port, timeout=SECONDS_MAX)
        connection.request("POST", process.path, message(
            2, "tools/call", name="command_run",
            arguments={"sandbox_id": box, "command": "sleep 1000"}), {
                **session, "Authorization": f"Bearer {TOKEN}", "Accept": "text/event-stream"})
        assert connection.getresponse().status == 200  # so it runs
        connection.close()
        assert process.stop() == 0
    wait_for(lambda: alive() <= before, "the end of its sandboxes")


HTTP_TESTS = [only_who_has_the_token_may_call, web_pages_of_elsewhere_are_refused,
              messages_and_sessions_that_are_wrong_get_the_right_status,
              a_client_that_is_gone_leaves_nothing_after_the_end]


def main():
    global SERVER
    tap.skip_all(why_not())
    made = tap.Tap()
    with ServerProcess(*PROGRAMS) as SERVER:
        for test in TESTS + (STDIO_TESTS if TRANSPORT == "stdio" else HTTP_TESTS):
            is_async = asyncio.iscoroutinefunction(test)
            made.check(test.__name__, lambda test=test, is_async=is_async: (
                asyncio.run(asyncio.wait_for(test(), 3 * SECONDS_MAX)) if is_async else test()))
    return made.end()


if __name__ == "__main__":
    sys.exit(main())
