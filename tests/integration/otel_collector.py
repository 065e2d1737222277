"""otel_collector.py - the receiver of the OpenTelemetry collector (tests/go/collector), and what it
received.

    with Collector(program) as collector:
        ... http://127.0.0.1:<collector.port> ...
        collector.spans()
"""
import json
import subprocess
import threading

from server_process import reserve_port, wait_for

SPAN_KINDS = {1: "internal", 2: "server", 3: "client"}


def plain(attributes):
    """{key: value} of OTLP's list."""
    return {row["key"]: next(iter(row["value"].values()), None) for row in attributes}


class Collector:
    def __init__(self, program):
        self.reserved = reserve_port()
        self.port = self.reserved.getsockname()[1]
        self.lines, self.lock = [], threading.Lock()
        self.process = subprocess.Popen(
            [program, f"127.0.0.1:{self.port}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, encoding="utf-8")
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            with self.lock:
                self.lines.append(line)

    def __enter__(self):
        wait_for(lambda: self.process.poll() is not None or "ready {}\n" in self.text(),
                 "the collector")
        assert self.process.poll() is None, "the collector did not start"
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(30)
        self.reserved.close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def text(self):
        """All that was received."""
        with self.lock:
            return "".join(self.lines)

    def of(self, kind):
        with self.lock:
            lines = list(self.lines)
        return [json.loads(line.split(" ", 1)[1]) for line in lines if line.startswith(kind + " ")]

    def spans(self):
        """Each with its resource, and with attributes as a dict."""
        found = []
        for body in self.of("traces"):
            for part in body["resourceSpans"]:
                resource = plain(part["resource"]["attributes"])
                found += [{**span, "resource": resource,
                           "kind": SPAN_KINDS[span["kind"]],
                           "attributes": plain(span.get("attributes", []))}
                          for scope in part["scopeSpans"] for span in scope["spans"]]
        return found

    def trace(self, trace_id):
        return [span for span in self.spans() if span["traceId"] == trace_id]

    def metrics(self):
        """The newest of each name."""
        return {metric["name"]: metric for body in self.of("metrics")
                for part in body["resourceMetrics"] for scope in part["scopeMetrics"]
                for metric in scope["metrics"]}

    def logs(self):
        return [{**row, "attributes": plain(row.get("attributes", []))}
                for body in self.of("logs") for part in body["resourceLogs"]
                for scope in part["scopeLogs"] for row in scope["logRecords"]]
