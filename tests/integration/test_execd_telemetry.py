"""What execd tells an OpenTelemetry collector, and what it does when there is none.

Usage: test_execd_telemetry.py EXECD. TAP on standard output.
"""
import contextlib
import os
import pathlib
import select
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from execd_client import Execd, Stream  # noqa: E402
from execd_process import children, wait_for  # noqa: E402
from otlp_receiver import Receiver  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
INTERVAL_MS = 200
BOUNDS = [0, 5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10000]
NODE_PORT = 4318
NOT_TAKEN = "the collector did not accept telemetry"
PINGS = 10


def settings(**more):
    return {"OTEL_METRIC_EXPORT_INTERVAL": str(INTERVAL_MS), **more}


def at(port, path=""):
    return f"http://127.0.0.1:{port}{path}"


@contextlib.contextmanager
def watched(options=(), headers=(), **env):
    """execd, and the collector it reports to."""
    with Receiver() as receiver, \
            Execd(PROGRAM, *options, headers=headers,
                  env=settings(OTEL_EXPORTER_OTLP_ENDPOINT=at(receiver.port), **env)) as execd:
        yield execd, receiver


def fresh(receiver):
    """An export that began after now."""
    seen = len(receiver.exports)
    wait_for(lambda: len(receiver.exports) >= seen + 2, "two more exports")
    return receiver.exports[-1]


def check_grows(figure, more, by):
    """A figure of the machine grows with what more() makes. Others use the machine, too, so it may
    take another try."""
    def grew():
        before = figure()
        with more():
            return figure() >= before + by
    wait_for(grew, f"a figure that grows by {by}")


def count_of(export, name, **wanted):
    found = export.metrics[name].of(**wanted) if name in export.metrics else []
    assert len(found) <= 1, found
    return found[0].value.count if found else 0


def log_of(execd):
    """What execd logged since this was last asked."""
    os.set_blocking(execd.process.stderr.fileno(), False)
    return (execd.process.stderr.read() or b"").decode()


def stream(execd, path, body):
    with Stream(execd.connect(), path, body) as found:
        assert found.status == 200, found.file.read1()
        return list(found.events())


def sends_protobuf_under_its_names():
    with watched(OPENSANDBOX_ID="sb-7", OTEL_RESOURCE_ATTRIBUTES="team=a%20b,service.name=mine",
                 OPENSANDBOX_EXECD_METRICS_EXTRA_ATTRS="zone=eu,broken,k=a=b",
                 OTEL_EXPORTER_OTLP_HEADERS="api-key=s%20t") as (execd, receiver):
        execd.get("/ping")
        export = fresh(receiver)
    assert export.path == "/v1/metrics", export.path
    assert export.headers["Content-Type"] == "application/x-protobuf", export.headers
    assert export.headers["Host"] == f"127.0.0.1:{receiver.port}", export.headers
    assert export.headers["api-key"] == "s t", export.headers
    name = export.resource.pop("service.name")
    assert name.startswith("opensandbox-execd-") and name[18:], name
    assert export.resource == {"sandbox_id": "sb-7", "team": "a b"}, export.resource
    assert export.scope == "opensandbox/execd", export.scope
    for metric in export.metrics.values():
        assert metric.points, export.metrics
        for point in metric.points:
            assert {"sandbox_id": "sb-7", "zone": "eu", "k": "a=b"}.items() \
                <= point.attributes.items(), point
            assert abs(point.now_ns - time.time_ns()) < 60e9, point
            assert (point.begin_ns == 0) == (metric.kind == "gauge"), point
            assert point.begin_ns < point.now_ns, point


def tells_of_requests():
    name = "execd.http.request.duration"
    with watched() as (execd, receiver):
        for _ in range(3):
            assert execd.get("/ping").status == 200
        for path in ("/command/status/x", "/code/contexts/x", "/pty/x", "/nothing",
                     "/proxy/1/x"):
            execd.get(path)
        execd.ask("DELETE", "/session/x")
        execd.ask("BREW", "/ping")
        export = fresh(receiver)
        metric = export.metrics[name]
        assert (metric.kind, metric.unit, metric.temporality) == ("histogram", "ms", 2), metric
        point, = metric.of(http_route="/ping", http_method="GET")
        assert point.attributes == {"http_method": "GET", "http_route": "/ping",
                                    "http_status_code": 200}, point
        value = point.value
        assert value.count == 3 and sum(value.buckets) == 3 and value.bounds == BOUNDS, value
        assert 0 <= value.min <= value.max <= value.sum < 60_000, value
        routes = {(p.attributes["http_method"], p.attributes["http_route"])
                  for p in metric.points}
        assert routes == {("GET", "/ping"), ("GET", "/command/status/:id"),
                          ("GET", "/code/contexts/:contextId"), ("GET", "/pty/:sessionId"),
                          ("GET", "unknown"), ("DELETE", "/session/:sessionId"),
                          ("_OTHER", "unknown")}, routes
        execd.get("/ping")
        later = fresh(receiver)
        again, = later.metrics[name].of(http_route="/ping", http_method="GET")
        assert again.value.count == 4 and again.begin_ns == point.begin_ns, again
        assert again.now_ns > point.now_ns, again


def tells_of_refused_tokens():
    with watched(options=("--access-token", "t")) as (execd, receiver):
        assert execd.get("/metrics").status == 401
        assert count_of(fresh(receiver), "execd.http.request.duration", http_route="/metrics",
                        http_status_code=401) == 1
        assert execd.ask("GET", "/files/info?path=/", headers=()).status == 401
        assert "execd.filesystem.operations.duration" not in fresh(receiver).metrics


def tells_of_executions():
    name = "execd.execution.duration"
    with watched() as (execd, receiver):
        assert name not in fresh(receiver).metrics
        execd.run("sleep 0.3")
        execd.run("exit 3")
        ran = execd.run("true", background=True)
        execd.wait_ended(ran.id)
        session = execd.ask("POST", "/session", {}).json()["session_id"]
        stream(execd, f"/session/{session}/run", {"command": "true"})
        stream(execd, f"/session/{session}/run", {"command": "false"})
        stream(execd, "/code", {"code": "1 + 1", "context": {"language": "python"}})
        stream(execd, "/code", {"code": "1 / 0", "context": {"language": "python"}})
        export = fresh(receiver)
    metric = export.metrics[name]
    assert (metric.kind, metric.unit, metric.temporality) == ("histogram", "ms", 2), metric
    counts = {(p.attributes["operation"], p.attributes["result"]): p.value.count
              for p in metric.points}
    assert counts == {("run_command", "success"): 2, ("run_command", "failure"): 1,
                      ("run_in_session", "success"): 1, ("run_in_session", "failure"): 1,
                      ("run_code", "success"): 1, ("run_code", "failure"): 1}, counts
    point, = metric.of(operation="run_command", result="success")
    assert point.value.max >= 290 and point.value.min <= point.value.max, point
    assert set(point.attributes) == {"operation", "result"}, point


def upload(execd, path):
    parts = [('metadata"; filename="m', f'{{"path":"{path}"}}'), ('file"; filename="f', "text")]
    body = "".join(f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n'
                   for name, text in parts) + "--b--\r\n"
    return execd.ask("POST", "/files/upload", body.encode(),
                     ["Content-Type: multipart/form-data; boundary=b"])


def tells_of_files():
    with watched() as (execd, receiver):
        folder = execd.folder / "work"
        file, moved = folder / "a", folder / "b"
        asked = [("POST", "/directories", {str(folder): {"mode": 755}}, "mkdir"),
                 (None, None, None, "upload"),
                 ("GET", f"/files/info?path={file}", None, "info"),
                 ("POST", "/files/permissions", {str(file): {"mode": 600}}, "chmod"),
                 ("POST", "/files/mv", [{"src": str(file), "dest": str(moved)}], "rename"),
                 ("GET", f"/files/search?path={folder}&pattern=*", None, "search"),
                 ("POST", "/files/replace", {str(moved): {"old": "text", "new": "x"}}, "replace"),
                 ("GET", f"/files/download?path={moved}", None, "download"),
                 ("GET", f"/directories/list?path={folder}", None, "listdir"),
                 ("DELETE", f"/files?path={moved}", None, "delete"),
                 ("DELETE", f"/directories?path={folder}", None, "rmdir")]
        for method, path, body, operation in asked:
            reply = execd.ask(method, path, body) if method else upload(execd, file)
            assert reply.status == 200, (operation, reply)
        assert execd.get(f"/files/info?path={file}").status == 404
        export = fresh(receiver)
    metric = export.metrics["execd.filesystem.operations.duration"]
    assert (metric.kind, metric.unit, metric.temporality) == ("histogram", "ms", 2), metric
    counts = {(p.attributes["operation"], p.attributes["result"]): p.value.count
              for p in metric.points}
    assert counts == {**{(row[-1], "success"): 1 for row in asked}, ("info", "failure"): 1}, counts


def tells_of_the_system():
    wanted = {"execd.system.process.count": ("gauge", ""),
              "execd.system.cpu.usage": ("gauge", "%"),
              "execd.system.memory.usage_bytes": ("gauge", "By"),
              "execd.system.network.io.bytes": ("sum", "By"),
              "execd.system.network.connections.active": ("gauge", "")}
    with watched() as (execd, receiver):
        metrics = fresh(receiver).metrics
        assert {name: (metrics[name].kind, metrics[name].unit) for name in wanted} == wanted
        traffic = metrics["execd.system.network.io.bytes"]
        assert traffic.temporality == 2 and traffic.monotonic, traffic
        assert [p.attributes for p in traffic.points] == [{"direction": "in"},
                                                          {"direction": "out"}], traffic
        active = metrics["execd.system.network.connections.active"]
        assert [p.attributes for p in active.points] == [{"protocol": "tcp"},
                                                         {"protocol": "udp"}], active
        cpu, = metrics["execd.system.cpu.usage"].points
        assert isinstance(cpu.value, float) and 0 <= cpu.value <= 100, cpu
        memory, = metrics["execd.system.memory.usage_bytes"].points
        assert isinstance(memory.value, int) and memory.value > 0, memory

        @contextlib.contextmanager
        def more():
            with execd.stream("for i in $(seq 30); do sleep 600 & done; echo on; wait") as many:
                many.output()
                yield

        check_grows(lambda: fresh(receiver).metrics["execd.system.process.count"].points[0].value,
                    more, 20)


def counts_connections():
    with watched() as (_, receiver), socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)

        def figure(protocol):
            metric = fresh(receiver).metrics["execd.system.network.connections.active"]
            return metric.of(protocol=protocol)[0].value

        @contextlib.contextmanager
        def more():
            with contextlib.ExitStack() as all_of:
                for _ in range(40):
                    all_of.enter_context(socket.create_connection(listener.getsockname()))
                    udp = all_of.enter_context(socket.socket(type=socket.SOCK_DGRAM))
                    udp.bind(("127.0.0.1", 0))
                yield
            while select.select([listener], [], [], 0)[0]:
                listener.accept()[0].close()

        check_grows(lambda: figure("tcp"), more, 60)  # 80 ends of connections
        check_grows(lambda: figure("udp"), more, 30)


def keeps_its_interval():
    with watched() as (_, receiver):
        wait_for(lambda: len(receiver.exports) >= 6, "six exports")
        times = [export.at for export in receiver.exports]
    gaps = [1000 * (b - a) for a, b in zip(times, times[1:])]
    assert sum(gaps) / len(gaps) >= 0.75 * INTERVAL_MS, gaps  # the first may have come late


def sends_each_minute_by_default():
    with Receiver() as receiver, \
            Execd(PROGRAM, env={"OTEL_EXPORTER_OTLP_ENDPOINT": at(receiver.port)}) as execd:
        wait_for(lambda: "every_ms=60000" in log_of(execd), "what it says")
        time.sleep(1)
        assert not receiver.exports


def takes_the_more_special_endpoint_as_it_is():
    with Receiver() as receiver:
        for path, wanted in (("/in?x=1", "/in?x=1"), ("", "/")):
            env = settings(OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=at(receiver.port, path),
                           OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1", HOST_IP="127.0.0.1")
            with Execd(PROGRAM, env=env):
                assert fresh(receiver).path == wanted
        env = settings(OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=" ",
                       OTEL_EXPORTER_OTLP_ENDPOINT=at(receiver.port, "/base/"))
        with Execd(PROGRAM, env=env):
            assert fresh(receiver).path == "/base/v1/metrics"


def finds_the_node():
    address = f"127.{os.getpid() >> 16 & 255}.{os.getpid() >> 8 & 255}.{os.getpid() & 255 | 2}"
    with Receiver((address, NODE_PORT)) as receiver, \
            Execd(PROGRAM, env=settings(HOST_IP=address)):
        export = fresh(receiver)
        assert export.path == "/v1/metrics", export
        assert export.headers["Host"] == f"{address}:{NODE_PORT}", export.headers


def looks_a_name_up():
    with Receiver() as receiver:
        env = settings(OTEL_EXPORTER_OTLP_ENDPOINT=f"http://localhost:{receiver.port}")
        with Execd(PROGRAM, env=env) as execd:
            assert fresh(receiver).headers["Host"] == f"localhost:{receiver.port}"
            wait_for(lambda: not children(execd.process.pid), "the end of the lookup")


def goes_on_without_a_name():
    env = settings(OTEL_EXPORTER_OTLP_ENDPOINT="http://no-such-name.invalid:4318")
    with Execd(PROGRAM, env=env) as execd:
        text = ""

        def warned():
            nonlocal text
            text += log_of(execd)
            return NOT_TAKEN in text

        wait_for(warned, "a warning")
        assert execd.run("echo on").of("stdout") == ["on"]


def descriptors(execd):
    return len(os.listdir(f"/proc/{execd.process.pid}/fd"))


def check_unharmed(execd, seconds, warning=""):
    """Works on, says the warning if there is one, and keeps nothing. Returns what was logged."""
    for _ in range(3):
        assert execd.run("echo on").of("stdout") == ["on"]
    before = descriptors(execd)
    end, text = time.monotonic() + seconds, ""
    for _ in range(PINGS):
        assert execd.get("/ping").status == 200

    def said():
        nonlocal text
        assert execd.get("/ping").status == 200
        text += log_of(execd)
        return time.monotonic() >= end and warning in text

    wait_for(said, warning)
    assert execd.run("echo on").of("stdout") == ["on"]
    wait_for(lambda: descriptors(execd) <= before + 3, "its descriptors to be closed")
    return text + log_of(execd)


def looks_a_name_up_again_and_keeps_nothing():
    """After each failure it does, for the collector may have moved."""
    with Receiver() as receiver:
        receiver.answer = b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"
        env = settings(OTEL_EXPORTER_OTLP_ENDPOINT=f"http://localhost:{receiver.port}")
        with Execd(PROGRAM, env=env) as execd:
            fresh(receiver)
            before = descriptors(execd)
            seen = len(receiver.exports)
            wait_for(lambda: len(receiver.exports) >= seen + 10, "ten more lookups")
            wait_for(lambda: descriptors(execd) <= before + 3, "its descriptors to be closed")


def goes_on_without_a_collector():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # without a listener
        env = settings(OTEL_EXPORTER_OTLP_ENDPOINT=at(taken.getsockname()[1]))
        with Execd(PROGRAM, env=env) as execd:
            text = check_unharmed(execd, 10 * INTERVAL_MS / 1000, NOT_TAKEN)
    assert text.count(NOT_TAKEN) == 1, text


def goes_on_with_one_that_says_nothing():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        env = settings(OTEL_EXPORTER_OTLP_ENDPOINT=at(listener.getsockname()[1]))
        with Execd(PROGRAM, env=env) as execd:
            text = check_unharmed(execd, 13, NOT_TAKEN)
    assert text.count(NOT_TAKEN) == 1, text


def goes_on_with_one_that_answers_nonsense():
    answers = [b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", b"?\r\n\r\n",
               b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n" + bytes(999999)]
    for answer in answers:
        with watched() as (execd, receiver):
            receiver.answer, good = answer, receiver.answer
            text = check_unharmed(execd, 6 * INTERVAL_MS / 1000, NOT_TAKEN)
            assert text.count(NOT_TAKEN) == 1, text
            receiver.answer = good
            pings = count_of(fresh(receiver), "execd.http.request.duration", http_route="/ping",
                             http_method="GET")
            assert pings >= PINGS, "what was not taken is part of the next"


def says_that_there_is_no_tls():
    env = settings(OTEL_EXPORTER_OTLP_ENDPOINT="https://127.0.0.1:4318/?key=secret")
    with Execd(PROGRAM, env=env) as execd:
        text = check_unharmed(execd, 3 * INTERVAL_MS / 1000)
    assert "execd has no TLS" in text and "secret" not in text, text
    for signal in ("metrics", "traces"):
        assert text.count(f"telemetry is off signal={signal}") == 1, text
    assert text.count("telemetry") == 2, text


def is_off_unless_asked_for():
    for env in ({}, {"OTEL_EXPORTER_OTLP_ENDPOINT": " "},
                {"HOST_IP": "127.0.0.1", "OTEL_SDK_DISABLED": "true"}):
        with Execd(PROGRAM, env=settings(**env)) as execd:
            text = check_unharmed(execd, 2 * INTERVAL_MS / 1000)
            assert "telemetry" not in text, text


def leaves_commands_alone():
    with watched() as (execd, receiver):
        fresh(receiver)
        found = execd.run("echo $OTEL_EXPORTER_OTLP_ENDPOINT; ls /proc/self/fd | wc -l")
        assert found.of("stdout") == [at(receiver.port), "4"], found.events


TESTS = [sends_protobuf_under_its_names, tells_of_requests, tells_of_refused_tokens,
         tells_of_executions, tells_of_files, tells_of_the_system, counts_connections,
         keeps_its_interval, sends_each_minute_by_default,
         takes_the_more_special_endpoint_as_it_is, finds_the_node, looks_a_name_up,
         looks_a_name_up_again_and_keeps_nothing, goes_on_without_a_name,
         goes_on_without_a_collector, goes_on_with_one_that_says_nothing,
         goes_on_with_one_that_answers_nonsense, says_that_there_is_no_tls,
         is_off_unless_asked_for, leaves_commands_alone]

if __name__ == "__main__":
    sys.exit(tap.run_tests(TESTS))
