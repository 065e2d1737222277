#!/usr/bin/env python3
"""server.py [--cases FILE] [--port N] - plays the server's side of the conformance cases.

A runner of any language starts it, reads one line of JSON from its standard output, `{"control":
"http://127.0.0.1:PORT"}`, and drives it by HTTP; README.md describes the calls. Each session has a
listener of its own, on which the program under test finds the API server and its sandboxes. The
server compares what arrives with what the case expects, and what the runner reports with what the
case wants, so that a runner has no comparison of its own. It ends when its standard input does.

Standard library only, and PyYAML to read cases.yaml; a file of --cases may be JSON instead.
"""
import argparse
import datetime
import email.parser
import email.policy
import json
import os
import pathlib
import re
import socket
import socketserver
import struct
import sys
import threading
import time
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
HEAD_BYTES_MAX = 64 << 10
BODY_BYTES_MAX = 64 << 20
SECONDS_MAX = 60  # nothing here takes longer
CLOSE_SECONDS_MAX = 30  # for a client to close its connections; the wait ends when it has
LEFT_OPEN_SECONDS_MAX = 10  # the same for a published one, of which some never do
REASONS = {200: "OK", 201: "Created", 202: "Accepted", 204: "No Content", 206: "Partial Content",
           400: "Bad Request", 404: "Not Found", 409: "Conflict", 429: "Too Many Requests",
           500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable"}


# --- cases ---


def load_cases(path):
    """The cases by id, each with the document's defaults below it."""
    if path.suffix == ".json":
        document = json.loads(path.read_text(encoding="utf-8"))
    else:
        import yaml  # only here: the other form needs nothing but Python
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    cases = {}
    for case in document["cases"]:
        check_form(case)
        if case["id"] in cases:
            sys.exit(f"server.py: two cases are called {case['id']}")
        cases[case["id"]] = with_defaults(case, document)
    return cases


CASE_KEYS = {"id", "about", "modes", "tags", "config", "env", "given", "exchanges", "anytime",
             "steps", "order", "sets"}
STEP_KEYS = {"do", "with", "result", "error", "about"}


def check_form(case):
    """A misspelt key would be a case that tests nothing."""
    unknown = set(case) - CASE_KEYS
    for step in case.get("steps", []):
        unknown |= set(step) - STEP_KEYS
        if "do" not in step:
            unknown.add("(a step without do)")
    for exchange in case.get("exchanges", []) + case.get("anytime", []):
        unknown |= set(exchange) - {"expect", "answer", "times"}
    if unknown or not case.get("steps"):
        sys.exit(f"server.py: case {case.get('id')}: unknown or missing keys: {sorted(unknown)}")


def with_defaults(case, document):
    given = [document["sets"][name] for name in case.get("given", [])]
    out = {"modes": ["scripted"], "env": {}, "tags": [], **case}
    out["own"] = case.get("config", {})
    out["config"] = {**document.get("config", {}), **out["own"]}
    out["steps"] = sum((g.get("steps", []) for g in given), []) + case["steps"]
    out["exchanges"] = sum((g.get("exchanges", []) for g in given), []) + case.get("exchanges", [])
    out["anytime"] = sum((g.get("anytime", []) for g in given), []) + case.get("anytime", [])
    return out


def substitute(value, names):
    """Replaces ${name} in every string."""
    if isinstance(value, str):
        return re.sub(r"\$\{(\w+)\}", lambda m: str(names[m[1]]) if m[1] in names else m[0], value)
    if isinstance(value, list):
        return [substitute(v, names) for v in value]
    if isinstance(value, dict):
        return {substitute(k, names): substitute(v, names) for k, v in value.items()}
    return value


# --- comparing ---


def differences(want, got, at="", exact=True):
    """What is wrong with `got`, as sentences. `exact` refuses members that `want` does not name."""
    if isinstance(want, dict) and len(want) == 1 and next(iter(want)).startswith("$"):
        return special(*next(iter(want.items())), got, at)
    if isinstance(want, dict):
        if not isinstance(got, dict):
            return [f"{at or 'it'} is {short(got)}, not an object"]
        wrong = []
        for key, value in want.items():
            place = f"{at}.{key}" if at else key
            if value == {"$absent": True}:
                wrong += [f"{place} is {short(got[key])}, should be absent"] if key in got else []
            elif key not in got and value != {"$optional": True}:
                wrong.append(f"{place} is missing, should be {short(value)}")
            elif key in got:
                wrong += differences(value, got[key], place, exact)
        if exact:
            wrong += [f"{at}.{key}: {short(got[key])} is not expected" if at else
                      f"{key}: {short(got[key])} is not expected" for key in got if key not in want]
        return wrong
    if isinstance(want, list):
        if not isinstance(got, list):
            return [f"{at or 'it'} is {short(got)}, not a list"]
        if len(want) != len(got):
            return [f"{at or 'it'} has {len(got)} items, not {len(want)}: {short(got)}"]
        return sum((differences(w, g, f"{at}[{n}]", exact)
                    for n, (w, g) in enumerate(zip(want, got))), [])
    if isinstance(want, bool) != isinstance(got, bool) or want != got:
        return [f"{at or 'it'} is {short(got)}, not {short(want)}"]
    return []


def special(name, value, got, at):
    """A matcher: {"$any": true}, {"$match": "regex"}, {"$contains": text}, {"$in": [...]},
    {"$from_now_s": n}, {"$only": {...}}, {"$at_least": n}, {"$type": "string"}."""
    text = f"{at or 'it'} is {short(got)}"
    if name in ("$any", "$optional"):
        return []
    if name == "$match":
        ok = isinstance(got, str) and re.search(value, got, re.DOTALL)
        return [] if ok else [f"{text}, which {value} does not match"]
    if name == "$contains":
        ok = isinstance(got, (str, list)) and value in got
        return [] if ok else [f"{text}, without {short(value)}"]
    if name == "$in":
        return [] if got in value else [f"{text}, not one of {short(value)}"]
    if name == "$at_least":
        return [] if isinstance(got, (int, float)) and got >= value else [f"{text} < {value}"]
    if name == "$type":
        kinds = {"string": str, "number": (int, float), "bool": bool, "list": list, "object": dict}
        return [] if isinstance(got, kinds[value]) else [f"{text}, not a {value}"]
    if name == "$some":  # the members named, whatever else there is
        return differences(value, got, at, exact=False)
    if name == "$from_now_s":
        return from_now(value, got, text)
    return [f"{at}: unknown matcher {name}"]


def from_now(seconds, got, text):
    try:
        when = datetime.datetime.fromisoformat(got.replace("Z", "+00:00"))
        away = (when - datetime.datetime.now(datetime.timezone.utc)).total_seconds()
    except (AttributeError, TypeError, ValueError):
        return [f"{text}, not a time with its offset"]
    return [] if abs(away - seconds) < SECONDS_MAX else [f"{text}, which is in {away:.0f} s"]


def short(value):
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 300 else text[:300] + "..."


# --- requests ---


class Request:
    """One request as it came."""

    def __init__(self, method, target, headers, body):
        path, _, query = target.partition("?")
        self.method, self.path, self.headers, self.body = method, path, headers, body
        self.query = {}
        for name, value in urllib.parse.parse_qsl(query, keep_blank_values=True):
            self.query.setdefault(name, []).append(value)

    def header(self, name):
        found = [v for n, v in self.headers if n.lower() == name.lower()]
        return ", ".join(found) if found else None

    def describe(self):
        """As the control API shows it."""
        out = {"method": self.method, "path": self.path, "query": self.query,
               "headers": [[n, v] for n, v in self.headers]}
        kind = (self.header("Content-Type") or "").split(";")[0]
        if kind == "application/json":
            out["json"] = self.json()
        elif kind == "multipart/form-data":
            out["multipart"] = self.parts()
        elif self.body:
            out["text"] = self.body.decode("utf-8", "replace")
        return out

    def json(self):
        try:
            return json.loads(self.body)
        except ValueError:
            return {"not JSON": self.body.decode("utf-8", "replace")}

    def parts(self):
        """The parts of a form: name, filename, type, and the text or the JSON inside."""
        head = f"Content-Type: {self.header('Content-Type')}\r\n\r\n".encode()
        message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + self.body)
        parts = []
        for part in message.iter_parts():
            text = part.get_payload(decode=True).decode("utf-8", "replace")
            row = {"name": part.get_param("name", header="content-disposition"),
                   "filename": part.get_filename(), "type": part.get_content_type()}
            row["json" if row["type"] == "application/json" else "text"] = \
                json.loads(text) if row["type"] == "application/json" else text
            parts.append(row)
        return parts


def segments(path):
    """The parts of a path: two spellings of the same percent-encoding are one."""
    return [urllib.parse.unquote(part) for part in path.split("/")]


# What a published SDK does with every sandbox, and ours do not: docs/sdks.md, "All languages".
EGRESS_LOOKUP = re.compile(r"/endpoints/18080$")
TELEMETRY = "/v1/metrics/events"
READY_MS_MAX = 1000  # they wait for it where ours notice a failure at once
KEY_HEADER = "OPEN-SANDBOX-API-KEY"


def without_defaults(body):
    """A request body without the nulls and the empty values that published SDKs send."""
    if not isinstance(body, dict):
        return body
    return {key: without_defaults(value) for key, value in body.items()
            if value is not None and value is not False and value != {}}


def compare(expect, request, published=False):
    """What is wrong with a request, as sentences."""
    wrong = []
    if request.method != expect["method"] or segments(request.path) != segments(expect["path"]):
        return [f"{request.method} {request.path} came, expected was "
                f"{expect['method']} {expect['path']}"]
    query = {name: [v if isinstance(v, dict) else str(v)
                    for v in (value if isinstance(value, list) else [value])]
             for name, value in expect.get("query", {}).items()}
    wrong += [f"query: {text}" for text in differences(query, request.query)]
    for name, value in expect.get("headers", {}).items():
        got = request.header(name)
        if published and value is None and name == KEY_HEADER:
            continue
        if value is None:
            wrong += [f"header {name} is {got!r} and should be absent"] if got is not None else []
        elif got is None:
            wrong.append(f"header {name} is missing")
        else:
            wrong += differences(value, got, f"header {name}")
    if "json" in expect:
        kind = (request.header("Content-Type") or "").split(";")[0]
        if kind != "application/json":
            wrong.append(f"Content-Type is {kind!r}, not application/json")
        body = request.json()
        wrong += differences(expect["json"], without_defaults(body)
                             if published and request.method == "POST" else body, "body")
    if "multipart" in expect:
        wrong += differences(expect["multipart"], request.parts(), "form", exact=False)
    if "text" in expect:
        wrong += differences(expect["text"], request.body.decode("utf-8", "replace"), "body")
    if expect.get("empty") and request.body not in (b"", b"{}"):
        wrong.append(f"a body of {len(request.body)} bytes came and none was expected")
    return wrong


# --- the scripted server ---


class Session:
    """One run of one case: its listener, what was expected so far, what went wrong."""

    def __init__(self, case, mode, names, published=False):
        self.lock = threading.Lock()
        self.published = published
        self.mode, self.requests, self.problems = mode, [], []
        self.next, self.open, self.used = 0, 0, {}
        self.listener = None
        if mode == "scripted":
            self.listener = Listener(self)
            names = {"domain": self.listener.domain, "host": "127.0.0.1",
                     "port": self.listener.server_address[1], **names}
        self.names = names
        self.case = substitute(case, names)
        own = self.case.pop("own")  # what the case itself sets wins over the real server's
        self.case["config"] = {**self.case["config"], **names.get("config", {}), **own}
        if published:
            self.case["exchanges"] = [exchange for exchange in self.case["exchanges"] if
                                      not EGRESS_LOOKUP.search(exchange["expect"]["path"])]
            for step in (s for s in self.case["steps"] if s["do"].startswith("sandbox.")):
                for name in {"ready_timeout_ms", "timeout_ms"} & set(step.get("with") or {}):
                    step["with"][name] = min(step["with"][name], READY_MS_MAX)

    def choose(self, request):
        """The answer to a request. An unexpected one is answered with 599 and remembered."""
        if self.published and request.path == TELEMETRY:
            return {"status": 202}
        if self.published and EGRESS_LOOKUP.search(request.path):
            return {"json": {"endpoint": f"{self.names['domain']}/eg",
                             "headers": {"OPENSANDBOX-EGRESS-AUTH": "tok-2"}}}
        with self.lock:
            self.requests.append(request)
            expected = self.case["exchanges"]
            at = self.find(request, expected)
            if at is not None:
                exchange = expected[at]
                self.used[at] = self.used.get(at, 0) + 1
                while self.next < len(expected) and \
                        self.used.get(self.next, 0) >= expected[self.next].get("times", 1):
                    self.next += 1
                wrong = compare(exchange["expect"], request, self.published)
                self.problems += [f"request {len(self.requests)}, {request.method} "
                                  f"{request.path}: {text}" for text in wrong]
                return exchange["answer"]
            for exchange in self.case["anytime"]:
                expect = exchange["expect"]
                if expect["method"] == request.method and \
                        segments(expect["path"]) == segments(request.path):
                    wrong = compare(expect, request, self.published)
                    self.problems += [f"{request.method} {request.path}: {t}" for t in wrong]
                    return exchange["answer"]
            due = expected[self.next]["expect"] if self.next < len(expected) else None
            wanted = f"{due['method']} {due['path']}" if due else "nothing more"
            self.problems.append(f"request {len(self.requests)}: {request.method} {request.path} "
                                 f"came, expected was {wanted}")
            return {"status": 599, "json": {"code": "UNEXPECTED", "message": f"expected: {wanted}"}}

    def find(self, request, expected):
        """The exchange that a request belongs to: the next one, or with `order: any` the first
        unused one of its method and path."""
        def fits(n):
            expect = expected[n]["expect"]
            return (expect["method"] == request.method and
                    segments(expect["path"]) == segments(request.path))

        if self.case.get("order") == "any":
            free = [n for n in range(len(expected))
                    if self.used.get(n, 0) < expected[n].get("times", 1)]
            exact = [n for n in free if fits(n) and
                     not compare(expected[n]["expect"], request, self.published)]
            return next(iter(exact), next((n for n in free if fits(n)), None))
        return self.next if self.next < len(expected) and fits(self.next) else None

    def check(self, number, report):
        """Compares what a step gave with what the case wants. The problems found."""
        if not 0 <= number < len(self.case["steps"]):
            return [f"there is no step {number}"]
        step = self.case["steps"][number]
        if "error" in report and "error" not in step:
            wrong = [f"an error came: {short(report['error'])}"]
        elif "error" in step:
            wrong = differences(step["error"], report["error"], "error", exact=False) \
                if "error" in report else [f"no error came, but {short(report.get('result'))}"]
        else:
            wrong = differences(step["result"], report.get("result"), "result",
                                exact=not isinstance(step["result"], dict)) \
                if "result" in step else []
        with self.lock:
            wrong = [f"step {number} ({step['do']}): {text}" for text in wrong]
            self.problems += wrong
        return wrong

    def finish(self):
        """Ends the session; what was missing counts as a problem."""
        if self.listener:
            wait = LEFT_OPEN_SECONDS_MAX if self.published else CLOSE_SECONDS_MAX
            end = time.monotonic() + wait
            while self.open and time.monotonic() < end:
                time.sleep(0.005)
            self.listener.shutdown()
            self.listener.server_close()
        with self.lock:
            for n, exchange in enumerate(self.case["exchanges"] if self.listener else []):
                times, used = exchange.get("times", 1), self.used.get(n, 0)
                if used < times:
                    expect = exchange["expect"]
                    self.problems.append(f"{expect['method']} {expect['path']} came {used} times, "
                                         f"not {times}")
            return {"ok": not self.problems, "problems": self.problems,
                    "open_connections": self.open,
                    "requests": [request.describe() for request in self.requests]}


class Reader:
    """Reads requests from a connection: HTTP/1.1 with lengths and chunks."""

    def __init__(self, sock):
        self.file = sock.makefile("rb")

    def request(self):
        line = self.file.readline(HEAD_BYTES_MAX)
        if not line.strip():
            return None
        method, target, _ = line.decode("latin-1").split(" ", 2)
        headers = []
        while True:
            line = self.file.readline(HEAD_BYTES_MAX).decode("latin-1")
            if line in ("\r\n", "\n", ""):
                break
            name, _, value = line.partition(":")
            headers.append((name.strip(), value.strip()))
        request = Request(method, target, headers, b"")
        request.body = self.body(request)
        return request

    def body(self, request):
        if "chunked" in (request.header("Transfer-Encoding") or ""):
            pieces = []
            while True:
                size = int(self.file.readline(HEAD_BYTES_MAX).split(b";")[0], 16)
                pieces.append(self.file.read(size))
                self.file.readline(HEAD_BYTES_MAX)
                if size == 0 or sum(map(len, pieces)) > BODY_BYTES_MAX:
                    return b"".join(pieces)
        return self.file.read(min(int(request.header("Content-Length") or 0), BODY_BYTES_MAX))


class Handler(socketserver.BaseRequestHandler):
    """One connection of the program under test."""

    def handle(self):
        session = self.server.session
        self.request.settimeout(SECONDS_MAX)
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with session.lock:
            session.open += 1
        reader = Reader(self.request)
        try:
            while True:
                request = reader.request()
                if request is None or not self.answer(session.choose(request)):
                    return
        except (OSError, ValueError):
            pass  # the other side went away, which some cases want
        finally:
            with session.lock:
                session.open -= 1

    def answer(self, answer):
        """Sends an answer; whether the connection goes on."""
        if answer.get("delay_ms"):
            time.sleep(answer["delay_ms"] / 1000)
        if answer.get("reset"):
            return self.reset()
        if answer.get("close"):
            return False
        if "events" in answer:
            return self.stream(answer)
        status = answer.get("status", 200)
        body, kind = b"", None
        if "json" in answer:
            body, kind = json.dumps(answer["json"]).encode(), "application/json"
        elif "text" in answer:
            body, kind = answer["text"].encode(), "text/plain; charset=utf-8"
        elif "bytes_hex" in answer:
            body, kind = bytes.fromhex(answer["bytes_hex"]), "application/octet-stream"
        elif "repeat" in answer:
            body = answer["repeat"]["text"].encode() * answer["repeat"]["times"]
            kind = "application/octet-stream"
        headers = {"Content-Length": str(len(body))} if status != 204 else {}
        headers.update({"Content-Type": kind} if kind else {})
        headers.update(answer.get("headers", {}))
        self.head(status, headers)
        cut = answer.get("cut_after")
        self.request.sendall(body if cut is None else body[:cut])
        return cut is None

    def head(self, status, headers):
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.request.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    def chunk(self, data):
        self.request.sendall(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def stream(self, answer):
        """A stream of events, and then one of the ends that a stream can have."""
        self.head(answer.get("status", 200), {"Content-Type": "text/event-stream",
                                              "Transfer-Encoding": "chunked",
                                              **answer.get("headers", {})})
        for event in answer["events"]:
            if isinstance(event, dict) and "$pause_ms" in event:
                time.sleep(event["$pause_ms"] / 1000)
                continue
            text = event if isinstance(event, str) else json.dumps(event) + "\n\n"
            self.chunk(text.encode())
        end = answer.get("end", "clean")
        if end == "clean":
            self.request.sendall(b"0\r\n\r\n")
            return True
        if end == "reset":
            return self.reset()
        if end == "hang":  # until the other side gives up
            self.request.settimeout(SECONDS_MAX)
            self.request.recv(1)
        return False  # "cut": without the last chunk

    def reset(self):
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False


class Listener(socketserver.ThreadingTCPServer):
    """What the program under test takes for a server and its sandboxes."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, session):
        super().__init__(("127.0.0.1", 0), Handler)
        self.session = session
        self.domain = f"127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()


# --- the control API ---


class Control(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port, cases):
        super().__init__(("127.0.0.1", port), ControlHandler)
        self.cases, self.sessions, self.lock = cases, {}, threading.Lock()

    def call(self, method, path, body):
        """Status and answer of a call of the runner."""
        words = [urllib.parse.unquote(word) for word in path.partition("?")[0].split("/") if word]
        if method == "GET" and words == ["cases"]:
            return 200, {"cases": [{key: case[key] for key in ("id", "modes", "tags")}
                                   for case in self.cases.values()]}
        if method == "GET" and words[:1] == ["cases"] and words[1:] and words[1] in self.cases:
            return 200, self.cases[words[1]]
        if method == "POST" and words == ["sessions"]:
            return self.start(body or {})
        if len(words) >= 2 and words[0] == "sessions" and words[1] in self.sessions:
            return self.in_session(method, words[2:], self.sessions[words[1]], body)
        return 404, {"code": "NOT_FOUND", "message": f"there is no {method} {path} here"}

    def start(self, body):
        if body.get("case") not in self.cases:
            return 404, {"code": "NOT_FOUND", "message": f"there is no case {body.get('case')!r}"}
        case, mode = self.cases[body["case"]], body.get("mode", "scripted")
        if mode not in case["modes"]:
            return 400, {"code": "WRONG_MODE", "message": f"its modes are {case['modes']}"}
        session = Session(case, mode, body.get("names", {}), body.get("published", False))
        with self.lock:
            name = str(len(self.sessions) + 1)
            self.sessions[name] = session
        return 201, {"session": name, "domain": session.names.get("domain"), "case": session.case}

    def in_session(self, method, words, session, body):
        if method == "POST" and len(words) == 2 and words[0] == "steps" and words[1].isdigit():
            wrong = session.check(int(words[1]), body or {})
            return 200, {"ok": not wrong, "problems": wrong}
        if method == "GET" and words == ["requests"]:
            with session.lock:
                return 200, {"requests": [r.describe() for r in session.requests]}
        if method == "POST" and words == ["finish"]:
            return 200, session.finish()
        return 404, {"code": "NOT_FOUND", "message": "steps/N, requests or finish"}


class ControlHandler(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.settimeout(SECONDS_MAX * 10)
        reader = Reader(self.request)
        while True:
            try:
                request = reader.request()
            except (OSError, ValueError):
                return
            if request is None:
                return
            try:
                body = json.loads(request.body) if request.body else None
                status, answer = self.server.call(request.method, request.path, body)
            except (ValueError, KeyError, TypeError) as error:
                status, answer = 400, {"code": "BAD_CALL", "message": repr(error)}
            data = json.dumps(answer, ensure_ascii=False, default=str).encode()
            self.request.sendall(
                f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() +
                data)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=pathlib.Path, default=HERE / "cases.yaml")
    parser.add_argument("--port", type=int, default=0, help="of the control API; 0: any free one")
    parser.add_argument("--dump", action="store_true", help="print the cases as JSON and end")
    args = parser.parse_args()
    cases = load_cases(args.cases)
    if args.dump:
        print(json.dumps({"cases": list(cases.values())}, ensure_ascii=False, indent=1))
        return
    control = Control(args.port, cases)
    threading.Thread(target=control.serve_forever, daemon=True).start()
    print(json.dumps({"control": f"http://127.0.0.1:{control.server_address[1]}",
                      "cases": len(cases)}), flush=True)
    while os.read(0, 4096):  # the runner's end is ours
        pass


if __name__ == "__main__":
    main()
