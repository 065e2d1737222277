"""Traces, metrics and logs of a real server and sandbox, at a real OpenTelemetry receiver.

Usage: test_tracing.py SERVER BROKER EXECD SANDBOXCTL COLLECTOR. TAP on standard output. Needs root.
"""
import contextlib
import gzip
import http.client
import http.server
import json
import os
import pathlib
import secrets
import sqlite3
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from otel_collector import Collector  # noqa: E402
from server_process import ServerProcess, wait_for, why_not  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:5]]
SERVER = COLLECTOR = None
PLANTED = {name: f"planted-{name}-5b1f0c93" for name in (
    "env", "command", "header", "query", "password", "file", "code")}
API_KEY = "planted-api-key-7e21a4d0"
BOX = {"image": {"uri": "host"}, "timeout": 600,
       "resourceLimits": {"cpu": "500m", "memory": "256Mi"}}

# What a sandbox's execd sends to: it keeps each body as a line of a file.
SINK = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/v1/traces":
            with open("/tmp/traces", "ab") as file:
                file.write(body + b"\\n")
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass
http.server.HTTPServer(("127.0.0.1", 4318), Handler).serve_forever()
"""


class Trace:
    """The client's span, of which the server is to make children."""

    def __init__(self, sampled=True, state=None):
        self.id, self.span = secrets.token_hex(16), secrets.token_hex(8)
        self.headers = {"traceparent": f"00-{self.id}-{self.span}-0{int(sampled)}"}
        if state:
            self.headers["tracestate"] = state

    def spans(self, names):
        """By name, once all of these names have arrived."""
        try:
            wait_for(lambda: set(names) <= {s["name"] for s in COLLECTOR.trace(self.id)}, "spans",
                     30)
        except AssertionError as late:
            there = [span["name"] for span in COLLECTOR.trace(self.id)]
            raise AssertionError(f"{set(names) - set(there)} missing among {there}") from late
        return {span["name"]: span for span in COLLECTOR.trace(self.id)}


def ask(method, path, body=None, status=200, **more):
    got, _, answer = SERVER.request(method, path, body, **more)
    assert got == status, (method, path, got, answer)
    return answer


def create(trace=None, **fields):
    made = ask("POST", "/v1/sandboxes", {**BOX, "entrypoint": ["python3", "-c", SINK], **fields},
               202, headers=trace.headers if trace else None)
    SERVER.wait_state(made["id"], "Running")
    return made["id"]


def box_path(box, rest, port=44772):
    return f"/sandboxes/{box}/proxy/{port}{rest}"


def run(box, command, trace=None):
    headers = {"Content-Type": "application/json", **(trace.headers if trace else {})}
    return ask("POST", box_path(box, "/command"), {"command": command}, headers=headers)


def pass_on(box):
    """Gives the collector what the sandbox's execd has sent."""
    status, _, body = SERVER.request("GET", box_path(box, "/files/download?path=/tmp/traces"))
    lines = body.splitlines() if status == 200 else []
    for line in lines:
        to = http.client.HTTPConnection("127.0.0.1", COLLECTOR.port, timeout=30)
        to.request("POST", "/v1/traces", line, {"Content-Type": "application/json"})
        assert to.getresponse().status == 200, line
        to.close()
    return b"".join(lines).decode()


def is_child(spans, name, parent):
    child, above = spans[name], spans[parent]
    assert child["parentSpanId"] == above["spanId"], (name, parent, child, above)
    assert int(child["startTimeUnixNano"]) >= int(above["startTimeUnixNano"]), (child, above)


# --- tests ---


def a_create_is_one_tree():
    trace = Trace()
    box = create(trace, env={"OTEL_SDK_DISABLED": "true"})
    spans = trace.spans(("POST /v1/sandboxes", "sandbox create", "plan", "store insert",
                         "runtime create", "broker spawn", "opensandbox-broker spawn",
                         "execd answers"))
    request = spans["POST /v1/sandboxes"]
    assert request["parentSpanId"] == trace.span, request
    assert request["kind"] == "server", request
    assert request["attributes"]["http.route"] == "/v1/sandboxes", request
    assert request["attributes"]["http.response.status_code"] == "202", request
    assert request["attributes"]["opensandbox.sandbox_id"] == box, request
    assert request["attributes"]["opensandbox.tenant"] == "default", request
    assert request["attributes"]["opensandbox.request_id"], request
    assert request["resource"]["service.name"] == "tested-server", request
    assert request["resource"]["deployment.environment"] == "a test", request
    is_child(spans, "sandbox create", "POST /v1/sandboxes")
    for step in ("plan", "store insert", "runtime create", "execd answers"):
        is_child(spans, step, "sandbox create")
    is_child(spans, "broker spawn", "runtime create")
    is_child(spans, "opensandbox-broker spawn", "broker spawn")
    inner, outer = spans["opensandbox-broker spawn"], spans["broker spawn"]
    assert int(inner["endTimeUnixNano"]) <= int(outer["endTimeUnixNano"]) + 10_000_000
    delete = Trace()
    ask("DELETE", f"/v1/sandboxes/{box}", status=204, headers=delete.headers)
    spans = delete.spans(("DELETE /v1/sandboxes/{sandboxId}", "sandbox delete", "broker remove"))
    is_child(spans, "sandbox delete", "DELETE /v1/sandboxes/{sandboxId}")
    assert spans["DELETE /v1/sandboxes/{sandboxId}"]["attributes"]["opensandbox.sandbox_id"] == box


def a_command_is_one_tree_down_to_execd():
    born = Trace()
    box = create(born, env={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318",
                            "OTEL_BSP_SCHEDULE_DELAY": "100", "OPENSANDBOX_ID": "of-the-box"})
    trace = Trace(state="vendor=opaque")
    run(box, f"echo {PLANTED['command']}", trace)
    files = Trace()
    ask("GET", box_path(box, "/files/info?path=/tmp/" + PLANTED["file"]), status=404,
        headers=files.headers)

    def sent():
        return trace.id in pass_on(box) and files.id in pass_on(box)

    wait_for(sent, "spans of execd", 30)
    route = "POST /sandboxes/{sandboxId}/proxy/{port}/*"
    spans = trace.spans((route, "gateway forward", "POST /command", "run_command"))
    assert spans[route]["parentSpanId"] == trace.span, spans
    is_child(spans, "gateway forward", route)
    is_child(spans, "POST /command", "gateway forward")
    is_child(spans, "run_command", "POST /command")
    assert spans["POST /command"]["resource"]["sandbox_id"] == "of-the-box", spans
    assert spans["POST /command"]["attributes"]["http.response.status_code"] == "200", spans
    spans = files.spans(("GET /files/info",))
    assert spans["GET /files/info"]["attributes"]["operation"] == "info", spans
    spans = born.spans(("runtime create", "GET /ping"))
    is_child(spans, "GET /ping", "runtime create")
    unsampled = Trace(sampled=False)
    run(box, "true", unsampled)
    later = Trace()
    run(box, "true", later)
    wait_for(lambda: later.id in pass_on(box), "spans of the last command", 30)
    assert unsampled.id not in COLLECTOR.text()


def headers_are_passed_on_as_the_recommendation_says():
    box = create(env={"OTEL_SDK_DISABLED": "true"}, entrypoint=["python3", "-c", """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = repr([(k.lower(), v) for k, v in self.headers.items() if k.lower()[:5] == "trace"])
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())
    def log_message(self, *_):
        pass
http.server.HTTPServer(("127.0.0.1", 8000), Handler).serve_forever()
"""])

    def seen(headers):
        def answered():
            return SERVER.request("GET", box_path(box, "/", 8000))[0] == 200

        wait_for(answered, "the program inside")
        body = SERVER.request("GET", box_path(box, "/", 8000), headers=headers)[2]
        return dict(eval(body, {}))  # pylint: disable=eval-used

    trace = Trace(state="a=1,b=2")
    got = seen(trace.headers)
    forward = trace.spans(("gateway forward",))["gateway forward"]
    assert got == {"traceparent": f"00-{trace.id}-{forward['spanId']}-01",
                   "tracestate": "a=1,b=2"}, got
    unsampled = Trace(sampled=False, state="a=1")
    assert seen(unsampled.headers) == unsampled.headers
    assert COLLECTOR.trace(unsampled.id) == []
    for bad in ({"traceparent": "00-" + "0" * 32 + "-b7ad6b7169203331-01", "tracestate": "a=1"},
                {"traceparent": trace.headers["traceparent"].upper(), "tracestate": "a=1"},
                {"tracestate": "a=1"}):
        got = seen(bad)
        assert "tracestate" not in got and got["traceparent"] != bad.get("traceparent"), got
        assert got["traceparent"][:35] != trace.headers["traceparent"][:35], got
    assert "tracestate" not in seen({**trace.headers, "tracestate": "Upper=1"})


def metrics_are_the_rows_of_the_page():
    wait_for(lambda: "opensandbox_http_requests_total" in COLLECTOR.metrics(), "metrics", 30)
    text = ask("GET", "/metrics").decode()
    page = {line.split()[2]: line.split()[3] for line in text.splitlines()
            if line.startswith("# TYPE ")}
    names = {"gauge": "gauge", "counter": "sum", "histogram": "histogram"}

    def same():
        sent = COLLECTOR.metrics()
        return set(sent) == set(page) and all(names[page[name]] in sent[name] for name in page)

    wait_for(same, "all rows", 30)
    creates = next(iter(COLLECTOR.metrics()["opensandbox_sandbox_create_duration_seconds"]
                        ["histogram"]["dataPoints"]))
    assert int(creates["count"]) == sum(map(int, creates["bucketCounts"])) > 0, creates
    assert len(creates["bucketCounts"]) == len(creates["explicitBounds"]) + 1, creates
    posts = [p for p in COLLECTOR.metrics()["opensandbox_http_requests_total"]["sum"]["dataPoints"]
             if {a["key"]: a["value"]["stringValue"] for a in p["attributes"]} ==
             {"route": "/v1/sandboxes", "method": "POST", "status": "2xx"}]
    assert len(posts) == 1 and int(posts[0]["asInt"]) > 0, posts
    assert 'opensandbox_telemetry_items_total{signal="traces",outcome="dropped"} 0' in text, text


def logs_have_the_ids_of_traces():
    trace = Trace()
    box = create(trace, env={"OTEL_SDK_DISABLED": "true"})
    spans = trace.spans(("POST /v1/sandboxes", "sandbox create"))

    def of_trace():
        return {row["body"]["stringValue"]: row for row in COLLECTOR.logs()
                if row.get("traceId") == trace.id}

    wait_for(lambda: {"sandbox created", "request"} <= set(of_trace()), "log records", 30)
    rows = of_trace()
    assert rows["request"]["spanId"] == spans["POST /v1/sandboxes"]["spanId"], rows
    assert rows["sandbox created"]["spanId"] == spans["sandbox create"]["spanId"], rows
    assert rows["sandbox created"]["attributes"]["sandbox"] == box, rows
    assert rows["sandbox created"]["severityText"] == "INFO", rows
    assert f"trace_id={trace.id}" in SERVER.log()
    ask("DELETE", f"/v1/sandboxes/{box}", status=204)


def nothing_secret_is_sent_logged_or_stored():
    trace = Trace()
    box = create(trace, env={"PASSWORD": PLANTED["env"],
                             "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318",
                             "OTEL_EXPORTER_OTLP_HEADERS": "x-key=" + PLANTED["password"],
                             "OTEL_BSP_SCHEDULE_DELAY": "100"})
    run(box, f"true {PLANTED['command']}", trace)
    ask("POST", box_path(box, "/code"), {"code": f"true {PLANTED['code']}",
                                         "context": {"language": "bash"}},
        headers={"Content-Type": "application/json", **trace.headers})
    ask("GET", f"/v1/sandboxes?metadata=a%3D{PLANTED['query']}",
        headers={**trace.headers, "X-Custom": PLANTED["header"], "Cookie": PLANTED["header"]})
    ask("GET", box_path(box, f"/files/info?path=/{PLANTED['file']}"), status=404,
        headers={**trace.headers, "X-Custom": PLANTED["header"]})
    ask("GET", "/v1/sandboxes", status=401, key=PLANTED["password"], headers=trace.headers)
    wait_for(lambda: "run_command" in pass_on(box), "spans of execd", 30)
    trace.spans(("GET /v1/sandboxes", "run_command", "POST /command"))
    ask("DELETE", f"/v1/sandboxes/{box}", status=204, headers=trace.headers)
    trace.spans(("sandbox delete",))
    wait_for(lambda: any(row.get("traceId") == trace.id for row in COLLECTOR.logs()), "logs", 30)
    state = SERVER.state / "server"
    places = {"telemetry": COLLECTOR.text(), "log": SERVER.log()}
    for path in [*state.rglob("*.jsonl"), *state.glob("*.db*")]:
        places[path.name] = path.read_bytes().decode("latin-1")
    with contextlib.closing(sqlite3.connect(next(state.glob("*.db")))) as store:
        places["dump"] = "\n".join(store.iterdump())
    assert any(name.endswith(".jsonl") for name in places), places.keys()
    for where, text in places.items():
        found = [name for name, secret in PLANTED.items() if secret in text]
        assert not found and API_KEY not in text, (where, found)
        assert where != "telemetry" or trace.id in text


class Refusing(http.server.ThreadingHTTPServer):
    """Answers by `answers`, then 200; keeps what came."""

    daemon_threads = True

    def __init__(self):
        self.answers, self.got, self.hang = [], [], threading.Event()
        self.hang.set()
        super().__init__(("127.0.0.1", 0), Refuser)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Refuser(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.headers["Content-Encoding"] == "gzip", self.headers
        self.server.hang.wait(60)
        status, more = self.server.answers.pop(0) if self.server.answers else (200, {})
        self.server.got.append((time.monotonic(), status, self.path, dict(self.headers),
                                json.loads(gzip.decompress(body))))
        with contextlib.suppress(OSError):
            self.send_response(status)
            for name, value in more.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def log_message(self, *_):
        pass


def figures(server):
    text = server.request("GET", "/metrics")[2].decode()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines()
            if line.startswith("opensandbox_telemetry")}


def a_collector_that_refuses_holds_up_nobody():
    refusing = Refusing()
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{refusing.server_address[1]}/in/",
           "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none",
           "OTEL_BSP_SCHEDULE_DELAY": "50", "OTEL_SERVICE_NAME": "by-environment",
           "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20x,x-more=1",
           "OTEL_EXPORTER_OTLP_TIMEOUT": "1000",
           "OTEL_TRACES_SAMPLER": "parentbased_always_off", "OTEL_TRACES_SAMPLER_ARG": " "}
    first, dropped = (f'opensandbox_telemetry_{name}' for name in (
        'items_total{signal="traces",outcome="sent"}',
        'items_total{signal="traces",outcome="dropped"}'))
    failures = 'opensandbox_telemetry_failures_total{signal="traces"}'
    refusing.answers = [(503, {}), (429, {"Retry-After": "2"})]
    with ServerProcess(*PROGRAMS, env=env) as server:
        server.request("GET", "/v1/sandboxes")
        assert not refusing.got, "a request without a parent is not to be sampled"
        server.request("GET", "/v1/sandboxes", headers=Trace().headers)
        wait_for(lambda: len(refusing.got) == 3, "three tries", 30)
        times = [row[0] for row in refusing.got]
        assert times[1] - times[0] > 0.9 and times[2] - times[1] > 1.9, times
        assert len({json.dumps(row[4]) for row in refusing.got}) == 1, "the batch is the same"
        _, _, path, headers, body = refusing.got[2]
        assert path == "/in/v1/traces", path
        assert headers["authorization"] == "Bearer x" and headers["x-more"] == "1", headers
        assert {"key": "service.name", "value": {"stringValue": "by-environment"}} in \
            body["resourceSpans"][0]["resource"]["attributes"], body
        wait_for(lambda: figures(server)[first] == 1, "the count of what was sent", 30)
        assert figures(server)[failures] == 2 and figures(server)[dropped] == 0, figures(server)
        refusing.answers = [(400, {})]  # no second try
        server.request("GET", "/v1/sandboxes", headers=Trace().headers)
        wait_for(lambda: figures(server)[dropped] == 1, "the count of what was dropped", 30)
        assert len(refusing.got) == 4, refusing.got
        refusing.hang.clear()  # it answers nothing
        begin = time.monotonic()
        for _ in range(50):
            server.request("GET", "/v1/sandboxes", headers=Trace().headers)
        assert time.monotonic() - begin < 10
        wait_for(lambda: figures(server)[failures] >= 4, "the time limit of an export", 30)
        refusing.hang.set()
        wait_for(lambda: figures(server)[first] == 51, "the rest", 30)
        last = Trace()
        server.request("GET", "/v1/sandboxes", headers=last.headers)
        server.stop()
        assert last.id in json.dumps([row[4] for row in refusing.got]), "not sent at the end"
    refusing.shutdown()
    refusing.server_close()


def nothing_is_sent_unless_it_is_asked_for():
    refusing = Refusing()
    url = f"http://127.0.0.1:{refusing.server_address[1]}"
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_SDK_DISABLED": "TRUE"}
    with ServerProcess(*PROGRAMS, config={"telemetry": {"delay_ms": 10}}, env=env) as server:
        for _ in range(5):
            server.request("GET", "/v1/sandboxes", headers=Trace().headers)
        assert figures(server) == {}
    assert refusing.got == []
    refusing.shutdown()
    refusing.server_close()


def main():
    global SERVER, COLLECTOR
    tap.skip_all(why_not())
    with contextlib.ExitStack() as stack:
        COLLECTOR = stack.enter_context(Collector(os.path.abspath(sys.argv[5])))
        SERVER = stack.enter_context(ServerProcess(*PROGRAMS, config={
            "server": {"api_key": API_KEY},
            "audit": {"data_plane": True},
            "telemetry": {"endpoint": COLLECTOR.url, "delay_ms": 50, "metric_interval_ms": 300,
                          "service_name": "tested-server",
                          "resource_attributes": "deployment.environment=a%20test"}}))
        return tap.run_tests([
            a_create_is_one_tree,
            a_command_is_one_tree_down_to_execd,
            headers_are_passed_on_as_the_recommendation_says,
            metrics_are_the_rows_of_the_page,
            logs_have_the_ids_of_traces,
            nothing_secret_is_sent_logged_or_stored,
            a_collector_that_refuses_holds_up_nobody,
            nothing_is_sent_unless_it_is_asked_for,
        ])


if __name__ == "__main__":
    sys.exit(main())
