#!/usr/bin/env python3
"""scripted.py [--host ADDRESS] [--port N] [--script FILE] [--key KEY] - a model that follows a
script.

It speaks the APIs of four vendors, streamed or not, so that real assistants and agent
frameworks can work against it without an account, and always do the same:

  POST /v1/messages                       Anthropic Messages
  POST /v1/responses, /responses          OpenAI Responses
  POST /v1/chat/completions               OpenAI chat (Moonshot, DashScope, ...)
  POST /v1beta/models/M:generateContent   Gemini, and :streamGenerateContent

A script is a JSON list of steps. The number of tool results in a conversation tells which one
is next:

  {"write": "/path", "text": "..."}   the file is written, by the client's tool for that
  {"run": "command"}                  the command is run by the tool that runs commands
  {"read": "/path"}                   the file is read
  {"call": "tool", "with": {...}}     any other tool, by its name or the end of it
  {"say": "text"}                     the answer; {result} in it is the last result of a tool
  {field:NAME} in the last two        the last member NAME in what tools have answered as JSON

Which tool that is and how its parameters are called is taken from the tools that the client
offers. A request without tools (clients ask for titles and the like) gets "ok". Only Python's
standard library is used. With --key requests without it are refused, and GET /requests lists
what was asked, without bodies.
"""
import argparse
import http.server
import json
import re
import sys
import threading
import time

BODY_BYTES_MAX = 32 << 20
REQUESTS_MAX = 1000
DEFAULT_SCRIPT = [
    {"write": "/tmp/answer.py", "text": "print(1 + 1)\n"},
    {"run": "python3 /tmp/answer.py"},
    {"say": "The program printed {result}"},
]
# What a step may be done with: words in the tool's name, in the order of preference.
TOOLS = {
    "write": ("write", "create", "apply_patch"),
    "run": ("bash", "run_shell_command", "run_in_sandbox", "exec_command", "shell", "command"),
    "read": ("read_file", "read"),
}
PARAMETERS = {
    "path": ("file_path", "path", "filePath", "absolute_path", "filename"),
    "text": ("content", "text", "file_text", "contents"),
    "command": ("command", "cmd", "commands", "script"),
}


class Tool:
    """A tool of the client: its name and the schema of its parameters."""

    def __init__(self, name, schema, group=None):
        self.name, self.schema, self.group = name, schema or {}, group

    def parameter(self, kind):
        known = self.schema.get("properties", {})
        for name in PARAMETERS[kind]:
            if name in known:
                return name, known[name]
        raise LookupError(f"tool {self.name} has no parameter for the {kind}: {list(known)}")

    def arguments(self, **values):
        made = {}
        for kind, value in values.items():
            name, schema = self.parameter(kind)
            made[name] = ["bash", "-lc", value] if schema.get("type") == "array" else value
        for name in self.schema.get("required", []):  # a description, a reason
            if name not in made:
                kind = self.schema["properties"].get(name, {}).get("type")
                usual = {"boolean": False, "integer": 60, "number": 60}
                made[name] = usual.get(kind, "as scripted")
        return made


def find_tool(tools, kind):
    for word in TOOLS[kind]:
        for tool in tools:
            if word in tool.name.lower() and (kind != "write" or "todo" not in tool.name.lower()):
                return tool
    return None


def shell_write(path, text):
    return f"mkdir -p \"$(dirname '{path}')\" && cat >'{path}' <<'SCRIPTED_END'\n{text}SCRIPTED_END"


def filled(value, results):
    """A text of a step with its {field:NAME} replaced."""
    def last(found):
        member = r'"' + re.escape(found[1]) + r'\\*"\s*:\s*\\*"([^"\\]+)'
        values = re.findall(member, "\n".join(results))
        if not values:
            raise LookupError(f"no result has {found[1]}")
        return values[-1]

    return re.sub(r"\{field:(\w+)\}", last, value) if isinstance(value, str) else value


def act(step, tools, results=()):
    """(name, arguments) of the tool call that does a step."""
    if "call" in step:
        names = [tool.name for tool in tools]
        wanted = step["call"] if step["call"] in names else next(
            (name for name in names if name.endswith(f"_{step['call']}")), step["call"])
        if wanted not in names:
            raise LookupError(f"no tool {wanted}: there are {names}")
        return wanted, {name: filled(value, results)
                        for name, value in step.get("with", {}).items()}
    if "write" in step:
        tool = find_tool(tools, "write")
        try:
            if tool:
                return tool.name, tool.arguments(path=step["write"], text=step["text"])
        except LookupError:
            pass  # a tool for patches: the shell does it
        step = {"run": shell_write(step["write"], step["text"])}
    kind = "run" if "run" in step else "read"
    tool = find_tool(tools, kind)
    if not tool and kind == "read":
        kind, step, tool = "run", {"run": f"cat '{step['read']}'"}, find_tool(tools, "run")
    if not tool:
        raise LookupError(f"no tool for {step}: there are {[t.name for t in tools]}")
    if kind == "run":
        return tool.name, tool.arguments(command=step["run"])
    return tool.name, tool.arguments(path=step["read"])


class Turn:
    """What the model answers: a text, or a call of a tool."""

    def __init__(self, script, tools, results):
        self.tools = tools
        self.text, self.call = "ok", None
        # Frameworks ask once more after each answer to a user: steps go on behind what was said.
        if not tools and not any("say" in step for step in script[:1]):
            return
        position = min(len(results), len(script) - 1)
        step = script[position]
        if "say" in step:
            last = results[-1].strip() if results else ""
            self.text = filled(step["say"], results).replace("{result}", last)
        else:
            self.call = act(step, tools, results)


def flat(value):
    """All text in a piece of a message."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(filter(None, map(flat, value)))
    if isinstance(value, dict):
        return flat(value.get("text") or value.get("output") or value.get("content") or
                    value.get("result") or value.get("error") or "")
    return ""


# --- the vendors: each reads a request, and writes a turn as (event, data) ---


class Anthropic:
    @staticmethod
    def read(body, _path):
        tools = [Tool(t["name"], t.get("input_schema")) for t in body.get("tools", [])
                 if "name" in t]
        results = [flat(part.get("content")) for message in body.get("messages", [])
                   if isinstance(message.get("content"), list)
                   for part in message["content"] if part.get("type") == "tool_result"]
        return tools, results, bool(body.get("stream"))

    @staticmethod
    def whole(turn, body):
        block = {"type": "text", "text": turn.text}
        if turn.call:
            block = {"type": "tool_use", "id": fresh("toolu"), "name": turn.call[0],
                     "input": turn.call[1]}
        return {"id": fresh("msg"), "type": "message", "role": "assistant",
                "model": body.get("model", "scripted"), "content": [block], "stop_sequence": None,
                "stop_reason": "tool_use" if turn.call else "end_turn",
                "usage": {"input_tokens": 10, "output_tokens": 10}}

    @classmethod
    def events(cls, turn, body):
        message = cls.whole(turn, body)
        block, reason = message["content"][0], message["stop_reason"]
        empty = {**block, **({"input": {}} if turn.call else {"text": ""})}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])} \
            if turn.call else {"type": "text_delta", "text": turn.text}
        for event in (
                {"type": "message_start", "message": {**message, "content": [],
                                                      "stop_reason": None}},
                {"type": "content_block_start", "index": 0, "content_block": empty},
                {"type": "content_block_delta", "index": 0, "delta": delta},
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None},
                 "usage": {"output_tokens": 10}},
                {"type": "message_stop"}):
            yield event["type"], event


class Responses:
    @staticmethod
    def read(body, _path):
        # Codex offers the tools of an MCP server as a namespace of functions.
        rows = [(row, group.get("name") if "tools" in group else None)
                for group in body.get("tools", []) for row in group.get("tools", [group])]
        tools = [Tool(row["name"], row.get("parameters"), group) for row, group in rows
                 if row.get("type") == "function"]
        items = body.get("input", [])
        results = [flat(item.get("output")) for item in items if isinstance(item, dict) and
                   item.get("type", "").endswith("_call_output")] if isinstance(items, list) else []
        return tools, [output_of(text) for text in results], bool(body.get("stream"))

    @staticmethod
    def whole(turn, body):
        item = {"type": "message", "id": fresh("msg"), "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": turn.text, "annotations": []}]}
        if turn.call:
            item = {"type": "function_call", "id": fresh("fc"), "call_id": fresh("call"),
                    "name": turn.call[0], "arguments": json.dumps(turn.call[1]),
                    "status": "completed"}
            group = next((tool.group for tool in turn.tools if tool.name == turn.call[0]), None)
            item.update({"namespace": group} if group else {})
        return {"id": fresh("resp"), "object": "response", "created_at": int(time.time()),
                "status": "completed", "model": body.get("model", "scripted"), "output": [item],
                "parallel_tool_calls": False, "tool_choice": "auto", "tools": [], "error": None,
                "incomplete_details": None, "instructions": None, "metadata": {},
                "usage": {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0},
                          "output_tokens": 10, "output_tokens_details": {"reasoning_tokens": 0},
                          "total_tokens": 20}}

    @classmethod
    def events(cls, turn, body):
        response = cls.whole(turn, body)
        item = response["output"][0]
        begun = {**response, "status": "in_progress", "output": []}
        rows = [{"type": "response.created", "response": begun},
                {"type": "response.output_item.added", "output_index": 0,
                 "item": {**item, "status": "in_progress"}}]
        if not turn.call:
            rows.append({"type": "response.output_text.delta", "output_index": 0,
                         "content_index": 0, "item_id": item["id"], "delta": turn.text})
        rows += [{"type": "response.output_item.done", "output_index": 0, "item": item},
                 {"type": "response.completed", "response": response}]
        for number, event in enumerate(rows):
            yield event["type"], {**event, "sequence_number": number}


def output_of(text):
    """What a command printed, of an answer that also tells its status."""
    try:
        value = json.loads(text)
        return (flat(value) if isinstance(value, dict) else "") or text
    except ValueError:
        return text.rpartition("Output:\n")[2]


class Chat:
    @staticmethod
    def read(body, _path):
        tools = [Tool(t["function"]["name"], t["function"].get("parameters"))
                 for t in body.get("tools") or [] if t.get("type") == "function"]
        results = [printed(flat(message.get("content"))) for message in body.get("messages", [])
                   if message.get("role") == "tool"]
        return tools, results, bool(body.get("stream"))

    @staticmethod
    def message(turn):
        if not turn.call:
            return {"role": "assistant", "content": turn.text}
        function = {"name": turn.call[0], "arguments": json.dumps(turn.call[1])}
        return {"role": "assistant", "content": None, "tool_calls": [
            {"index": 0, "id": fresh("call"), "type": "function", "function": function}]}

    @classmethod
    def whole(cls, turn, body, kind="chat.completion", field="message"):
        return {"id": fresh("chatcmpl"), "object": kind, "created": int(time.time()),
                "model": body.get("model", "scripted"),
                "usage": {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20},
                "choices": [{"index": 0, field: cls.message(turn), "logprobs": None,
                             "finish_reason": "tool_calls" if turn.call else "stop"}]}

    @classmethod
    def events(cls, turn, body):
        whole = cls.whole(turn, body, "chat.completion.chunk", "delta")
        first = {**whole, "choices": [{**whole["choices"][0], "finish_reason": None}]}
        last = {**whole, "choices": [{**whole["choices"][0], "delta": {}}]}
        for row in (first, last):
            yield None, row
        yield None, "[DONE]"


class Gemini:
    @staticmethod
    def read(body, path):
        tools = [Tool(f["name"], lower_types(
                     f.get("parametersJsonSchema") or f.get("parameters_json_schema") or
                     f.get("parameters")))
                 for group in body.get("tools") or []
                 for f in group.get("functionDeclarations", [])]
        results = [flat(part["functionResponse"].get("response"))
                   for content in body.get("contents", []) for part in content.get("parts", [])
                   if "functionResponse" in part]
        return tools, [printed(text) for text in results], "stream" in path

    @staticmethod
    def whole(turn, _body):
        part = {"functionCall": {"name": turn.call[0], "args": turn.call[1]}} if turn.call else \
            {"text": turn.text}
        return {"candidates": [{"content": {"role": "model", "parts": [part]},
                                "finishReason": "STOP", "index": 0}],
                "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 10,
                                  "totalTokenCount": 20}, "modelVersion": "scripted"}

    @classmethod
    def events(cls, turn, body):
        yield None, cls.whole(turn, body)


def lower_types(schema):
    """Gemini writes types in capitals."""
    if isinstance(schema, dict):
        return {key: value.lower() if key == "type" and isinstance(value, str) else
                lower_types(value) for key, value in schema.items()}
    return [lower_types(value) for value in schema] if isinstance(schema, list) else schema


def printed(text):
    """What a command printed, of a report with its directory, output, status and so on."""
    text = re.sub(r"<system>.*?</system>\s*", "", text, flags=re.DOTALL)  # Kimi's, before it
    found = re.search(r"^(?:Output|Stdout): (.*?)"
                      r"^(?:Error|Stderr|Exit Code|Signal|Background|Process)\b",
                      text + "\nExit Code", re.DOTALL | re.MULTILINE)
    return found[1] if found else text


VENDORS = (
    (re.compile(r"^(?:/v1)?/messages$"), Anthropic),
    (re.compile(r"^(?:/v1)?/responses$"), Responses),
    (re.compile(r"^(?:/v1)?/chat/completions$"), Chat),
    (re.compile(r"^/v1(?:beta|alpha)?/models/[^/]+:(?:stream)?[gG]enerateContent$"), Gemini),
)
_counter = iter(range(1, 1 << 60))


def fresh(prefix):
    return f"{prefix}_{next(_counter):06d}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 600

    def log_message(self, *_):
        pass

    def reply(self, value, status=200):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def stream(self, events):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for name, data in events:
            text = (f"event: {name}\n" if name else "") + \
                f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(text.encode()), text.encode()))
        self.wfile.write(b"0\r\n\r\n")

    def given_key(self):
        for name in ("x-api-key", "x-goog-api-key", "api-key"):
            if self.headers.get(name):
                return self.headers[name]
        return self.headers.get("Authorization", "").removeprefix("Bearer ")

    def read_body(self):
        if self.headers.get("Transfer-Encoding", "") == "chunked":
            data = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                if len(data) + size > BODY_BYTES_MAX:
                    raise ValueError("the body is too large")
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return data
        size = int(self.headers.get("Content-Length") or 0)
        if size > BODY_BYTES_MAX:
            raise ValueError("the body is too large")
        return self.rfile.read(size)

    def do_HEAD(self):
        self.reply({})

    def do_GET(self):
        path = self.path.partition("?")[0]
        if path == "/requests":
            self.reply(list(self.server.requests))
        elif path.endswith("/models"):
            self.reply({"object": "list", "data": [{"id": "scripted", "object": "model",
                                                    "created": 0, "owned_by": "example"}]})
        else:
            self.reply({"status": "ok"})

    def do_POST(self):
        path = re.sub(r"^/+", "/", self.path.partition("?")[0])
        try:
            body = json.loads(self.read_body() or b"{}")
        except ValueError as error:
            self.reply({"error": {"message": f"the body is not JSON: {error}"}}, 400)
            return
        vendor = next((kind for pattern, kind in VENDORS if pattern.match(path)), None)
        self.note(path, vendor, body)
        if self.server.key and self.given_key() != self.server.key:
            self.reply({"type": "error", "error": {"type": "authentication_error", "code": 401,
                                                   "message": "wrong key"}}, 401)
        elif path.endswith(("count_tokens", "countTokens")):
            self.reply({"input_tokens": 10, "totalTokens": 10})
        elif not vendor:
            self.reply({})  # telemetry and the like
        else:
            self.answer(vendor, body)

    def note(self, path, vendor, body):
        tools, results, stream = vendor.read(body, path) if vendor else ([], [], False)
        with self.server.lock:
            self.server.requests.append({
                "path": path, "key": self.given_key()[:200], "stream": stream,
                "tools": [tool.name for tool in tools], "results": [r[:2000] for r in results]})
            del self.server.requests[:-REQUESTS_MAX]

    def answer(self, vendor, body):
        tools, results, stream = vendor.read(body, self.path)
        try:
            turn = Turn(self.server.script, tools, results)
        except LookupError as error:
            print(f"scripted: {error}", file=sys.stderr, flush=True)
            self.reply({"error": {"message": str(error), "code": 400, "type": "script"}}, 400)
            return
        if stream:
            self.stream(vendor.events(turn, body))
        else:
            self.reply(vendor.whole(turn, body))


class Model(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address, script=None, key=None):
        super().__init__(address, Handler)
        self.script, self.key = script or DEFAULT_SCRIPT, key
        self.requests, self.lock = [], threading.Lock()


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--host", default="127.0.0.1")
    p.add_argument("--port", type=int, default=8765)
    p.add_argument("--script", help="a file with steps, in JSON")
    p.add_argument("--key", help="the API key that requests must carry")
    o = p.parse_args()
    script = None
    if o.script:
        with open(o.script, encoding="utf-8") as file:
            script = json.load(file)
    model = Model((o.host, o.port), script, o.key)
    print(f"scripted: listening on {o.host}:{model.server_port}", flush=True)
    model.serve_forever()


if __name__ == "__main__":
    main()
