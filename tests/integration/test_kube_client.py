#!/usr/bin/env python3
"""test_kube_client.py KUBEDO - the Kubernetes client against an API server by script: what real
ones do seldom. test_kube_cluster.py has what they do always."""
import http.server
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402

PATIENCE_S = 120
PODS = "/api/v1/namespaces/n/pods"


def pod(name, version):
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "n", "uid": name,
                                        "resourceVersion": str(version)}}


def status(code, reason, message="no", **more):
    return code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                  "reason": reason, "message": message, **more}


def event(kind, item):
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


class ApiServer:
    """Answers by `self.answer(request)`: (status, JSON[, headers]), or a function that writes to
    the connection itself. What was asked is in self.seen."""

    def __init__(self, answer):
        outer = self
        self.answer = answer
        self.seen = []
        self.over = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                self.text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                path, _, query = self.path.partition("?")
                self.query = dict(part.partition("=")[::2] for part in query.split("&"))
                outer.seen.append(types.SimpleNamespace(path=self.path, query=self.query,
                                                        headers=self.headers))
                reply = outer.answer(self, path)
                if callable(reply):
                    self.close_connection = True
                    reply(self)
                    return
                code, body, *headers = reply
                data = json.dumps(body).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                for name, value in (headers[0] if headers else {}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.handle_error = lambda *_: None  # clients go when they like
        self.http.daemon_threads = True
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.http.shutdown()
        self.http.server_close()

    def kubeconfig(self, folder, user=None):
        path = pathlib.Path(folder) / "config"
        path.write_text(json.dumps({
            "current-context": "x", "contexts": [{"name": "x", "context": {
                "cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {
                "server": f"http://127.0.0.1:{self.http.server_port}"}}],
            "users": [{"name": "u", "user": user or {}}]}))
        return str(path)


def chunked(handler, pieces, end=True):
    """Sends a stream; a function among the pieces is called, and waits."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    for piece in pieces:
        if callable(piece):
            piece()
        else:
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            handler.wfile.flush()
    if end:
        handler.wfile.write(b"0\r\n\r\n")


class Watch:
    """kubedo watch: its lines come by `expect`."""

    def __init__(self, program, kubeconfig, page=0, watch_s=30, silence_s=0):
        self.process = subprocess.Popen(
            [program, kubeconfig, "watch", "pods", "n", "", str(page), str(watch_s),
             str(silence_s)], stdout=subprocess.PIPE, text=True)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.strip())

    def expect(self, *wanted):
        got = [self.lines.get(timeout=PATIENCE_S) for _ in wanted]
        assert got == list(wanted), (got, wanted)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(PATIENCE_S)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        line = self.lines.get(timeout=PATIENCE_S)
        assert self.process.wait(PATIENCE_S) == 0
        return dict(word.split("=") for word in line.split()[1:] if "=" in word)


class Tests:
    def __init__(self, program):
        self.program = program

    def ask(self, server, how, *words, user=None, env=None):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [self.program, server.kubeconfig(folder, user), how, *words], text=True,
                capture_output=True, timeout=PATIENCE_S, check=False,
                env={**os.environ, **(env or {})})
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

    def get(self, server, how="call", **more):
        return self.ask(server, how, "get", "pods", "n", "a", "", "", "", **more)

    # --- requests ---

    def errors_have_their_kind(self):
        cases = [(status(404, "NotFound"), "ENOENT"), (status(409, "AlreadyExists"), "EEXIST"),
                 (status(409, "Conflict"), "ESTALE"), (status(403, "Forbidden"), "EACCES"),
                 (status(422, "Invalid"), "EINVAL"), (status(410, "Expired"), "ERESTART"),
                 ((400, {"not": "a status"}), "EINVAL")]
        for how in ("call", "block"):
            for reply, code in cases:
                with ApiServer(lambda handler, path, reply=reply: reply) as server:
                    answer = self.ask(server, how, "update", "pods", "n", "a", "", "", "", "{}")
                    assert answer["code"] == getattr(__import__("errno"), code), (answer, code)
                    assert answer["status"] == reply[0]
                    assert answer["reason"] == reply[1].get("reason", "")
                    assert len(server.seen) == 1

    def patches_have_their_types(self):
        names = {"merge": "application/merge-patch+json", "json": "application/json-patch+json",
                 "strategic": "application/strategic-merge-patch+json",
                 "apply": "application/apply-patch+yaml"}
        for name, type_ in names.items():
            with ApiServer(lambda handler, path: (200, pod("a", 2))) as server:
                answer = self.ask(server, "call", "patch", "pods", "n", "a", "status",
                                  "fieldManager=x", name, "{}")
                assert answer["object"]["metadata"]["name"] == "a"
                seen = server.seen[0]
                assert seen.path == f"{PODS}/a/status?fieldManager=x", seen.path
                assert seen.headers["Content-Type"] == type_

    def a_busy_server_is_asked_again_when_it_says(self):
        replies = [(*status(429, "TooManyRequests"), {"Retry-After": "1"}), (200, pod("a", 1))]
        with ApiServer(lambda handler, path: replies.pop(0)) as server:
            answer = self.ask(server, "call", "create", "pods", "n", "", "", "", "", "{}")
            assert answer["status"] == 200 and len(server.seen) == 2

    def a_busy_server_is_not_asked_for_ever(self):
        with ApiServer(lambda handler, path: (*status(429, "TooManyRequests"),
                                              {"Retry-After": "60"})) as server:
            answer = self.get(server, env={"KUBEDO_MS": "3000"})
            assert answer["status"] == 429 and len(server.seen) == 1

    def only_reads_are_repeated_after_a_fault(self):
        for verb, tries in (("get", 2), ("patch", 1)):
            replies = [status(500, "InternalError"), (200, pod("a", 1))]
            with ApiServer(lambda handler, path, replies=replies: replies.pop(0)) as server:
                self.ask(server, "call", verb, "pods", "n", "a", "", "", "merge", "{}")
                assert len(server.seen) == tries, verb

    def a_lost_answer_of_a_write_is_told(self):
        with ApiServer(lambda handler, path: lambda h: None) as server:
            answer = self.ask(server, "call", "patch", "pods", "n", "a", "", "", "merge", "{}")
            assert answer["code"] == 110 and len(server.seen) == 1, answer

    def a_silent_server_is_given_up(self):
        with ApiServer(lambda handler, path: lambda h: server.over.wait(PATIENCE_S)) as server:
            for how in ("call", "block"):
                answer = self.get(server, how, env={"KUBEDO_MS": "3000"})
                assert answer["code"] == 110, answer

    def a_missing_server_is_told(self):
        with ApiServer(lambda handler, path: (200, {})) as server:
            pass
        answer = self.get(server, env={"KUBEDO_MS": "1000"})
        assert answer["code"] == 16, answer

    def a_refused_token_is_read_again(self):
        with tempfile.TemporaryDirectory() as folder:
            token = pathlib.Path(folder, "token")
            token.write_text("old\n")

            def answer(handler, path):
                if handler.headers["Authorization"] == "Bearer new":
                    return 200, pod("a", 1)
                token.write_text("new\n")
                return status(401, "Unauthorized")

            with ApiServer(answer) as server:
                answer = self.get(server, user={"tokenFile": str(token)})
                assert answer["status"] == 200 and len(server.seen) == 2

    def a_plugin_is_asked_for_the_token(self):
        with tempfile.TemporaryDirectory() as folder:
            plugin = pathlib.Path(folder, "plugin")
            plugin.write_text('#!/bin/sh\necho \'{"status":{"token":"minted"}}\'\n')
            plugin.chmod(0o755)
            with ApiServer(lambda handler, path: (200, pod("a", 1))) as server:
                for how in ("call", "block"):
                    answer = self.get(server, how, user={"exec": {"command": str(plugin)}})
                    assert answer["status"] == 200
                    assert server.seen[-1].headers["Authorization"] == "Bearer minted"

    def names_cannot_leave_their_path(self):
        for name in ("..", "a/b", "a%2fb", ""):
            with ApiServer(lambda handler, path: (200, {})) as server:
                with tempfile.TemporaryDirectory() as folder:
                    done = subprocess.run(
                        [self.program, server.kubeconfig(folder), "call", "delete", "pods", "n",
                         name, "", "", ""], capture_output=True, timeout=PATIENCE_S, check=False)
                assert done.returncode == 1 and not server.seen, name

    # --- informers ---

    def watched(self, answer, **more):
        """A server, and a watch of its pods, as one context."""
        folder = tempfile.TemporaryDirectory()
        server = ApiServer(answer)

        class Both:
            def __enter__(both):
                server.__enter__()
                both.watch = Watch(self.program, server.kubeconfig(folder.name), **more)
                return server, both.watch

            def __exit__(both, *_):
                both.watch.__exit__()
                server.__exit__()
                folder.cleanup()

        return Both()

    @staticmethod
    def listed(version, *pods):
        return 200, {"kind": "PodList", "metadata": {"resourceVersion": str(version)},
                     "items": list(pods)}

    def a_list_comes_in_pages_and_a_watch_follows(self):
        def answer(handler, path):
            if "watch" in handler.query:
                return lambda h: chunked(h, [
                    event("ADDED", pod("c", 11)), event("MODIFIED", pod("a", 12))[:20],
                    event("MODIFIED", pod("a", 12))[20:], event("DELETED", pod("b", 13)),
                    lambda: server.over.wait(PATIENCE_S)])
            if "continue" not in handler.query:
                code, page = self.listed(10, pod("a", 1))
                page["metadata"]["continue"] = "more/of it"
                return code, page
            return self.listed(10, pod("b", 2))

        with self.watched(answer, page=1) as (server, watch):
            watch.expect("add n/a 1", "add n/b 2", "synced", "add n/c 11", "update n/a 12",
                         "delete n/b 13")
            assert server.seen[0].query == {"limit": "1"}, server.seen[0].query
            assert server.seen[1].query["continue"] == "more%2Fof%20it", server.seen[1].query
            query = server.seen[2].query
            assert query["resourceVersion"] == "10" and query["allowWatchBookmarks"] == "true"
            assert watch.end()["objects"] == "2"

    def an_ended_watch_goes_on_where_it_was(self):
        def answer(handler, path):
            if "watch" not in handler.query:
                return self.listed(10, pod("a", 1))
            version = handler.query["resourceVersion"]
            if version == "10":
                return lambda h: chunked(h, [event("BOOKMARK", {"metadata": {
                    "resourceVersion": "20"}})])
            assert version == "20", version
            return lambda h: chunked(h, [event("ADDED", pod("b", 21)),
                                         lambda: server.over.wait(PATIENCE_S)])

        with self.watched(answer) as (server, watch):
            watch.expect("add n/a 1", "synced", "add n/b 21")
            assert watch.end()["lists"] == "1"

    def what_is_too_old_is_listed_anew(self):
        def gone(h):
            chunked(h, [event("ERROR", status(410, "Expired")[1])])

        state = {"lists": 0}

        def answer(handler, path):
            if "watch" not in handler.query:
                state["lists"] += 1
                return self.listed(10, pod("a", 1), pod("b", 2)) if state["lists"] == 1 else \
                    self.listed(30, pod("b", 25), pod("c", 26))
            if handler.query["resourceVersion"] == "10":
                return gone
            return lambda h: server.over.wait(PATIENCE_S)

        with self.watched(answer) as (server, watch):
            watch.expect("add n/a 1", "add n/b 2", "synced", "update n/b 25", "add n/c 26",
                         "delete n/a 1")
            assert watch.end()["lists"] == "2"

    def a_refused_watch_is_listed_anew(self):
        state = {"lists": 0}

        def answer(handler, path):
            if "watch" not in handler.query:
                state["lists"] += 1
                return self.listed(10 * state["lists"], pod("a", state["lists"]))
            if handler.query["resourceVersion"] == "10":
                return status(410, "Gone")
            return lambda h: server.over.wait(PATIENCE_S)

        with self.watched(answer) as (server, watch):
            watch.expect("add n/a 1", "synced", "update n/a 2")

    def a_truncated_event_is_not_told_and_comes_again(self):
        def answer(handler, path):
            if "watch" not in handler.query:
                return self.listed(10)
            if len([seen for seen in server.seen if "watch" in seen.query]) == 1:
                return lambda h: chunked(h, [event("ADDED", pod("a", 11)),
                                             event("ADDED", pod("b", 12))[:30]], end=False)
            assert handler.query["resourceVersion"] == "11"
            return lambda h: chunked(h, [event("ADDED", pod("b", 12)),
                                         lambda: server.over.wait(PATIENCE_S)])

        with self.watched(answer) as (server, watch):
            watch.expect("synced", "add n/a 11", "add n/b 12")
            assert watch.end()["lists"] == "1"

    def a_silent_watch_is_cut(self):
        def answer(handler, path):
            if "watch" not in handler.query:
                return self.listed(10)
            if len([seen for seen in server.seen if "watch" in seen.query]) == 1:
                return lambda h: chunked(h, [event("ADDED", pod("a", 11)),
                                             lambda: server.over.wait(PATIENCE_S)])
            return lambda h: chunked(h, [event("ADDED", pod("b", 12)),
                                         lambda: server.over.wait(PATIENCE_S)])

        with self.watched(answer, silence_s=1) as (server, watch):
            watch.expect("synced", "add n/a 11", "add n/b 12")

    def nonsense_is_listed_anew(self):
        def answer(handler, path):
            watches = len([seen for seen in server.seen if "watch" in seen.query])
            if "watch" not in handler.query:
                return self.listed(10 + watches, pod("a", 10 + watches))
            if watches == 1:
                return lambda h: chunked(h, [b"<html>\n"])
            return lambda h: server.over.wait(PATIENCE_S)

        with self.watched(answer) as (server, watch):
            watch.expect("add n/a 10", "synced", "update n/a 11")

    def an_older_version_does_not_come_back(self):
        def answer(handler, path):
            if "watch" not in handler.query:
                return self.listed(10, pod("a", 9))
            return lambda h: chunked(h, [event("MODIFIED", pod("a", 5)),
                                         event("ADDED", pod("b", 11)),
                                         lambda: server.over.wait(PATIENCE_S)])

        with self.watched(answer) as (server, watch):
            watch.expect("add n/a 9", "synced", "add n/b 11")

    def a_list_that_fails_is_tried_again(self):
        def answer(handler, path):
            if "watch" in handler.query:
                return lambda h: server.over.wait(PATIENCE_S)
            return status(503, "ServiceUnavailable") if len(server.seen) < 3 else \
                self.listed(10, pod("a", 1))

        with self.watched(answer) as (server, watch):
            watch.expect("add n/a 1", "synced")


def main():
    tests, report = Tests(sys.argv[1]), tap.Tap()
    for name in [name for name in vars(Tests) if not name.startswith("_")]:
        if name not in ("ask", "get", "watched", "listed"):
            report.check(name.replace("_", " "), getattr(tests, name))
    sys.exit(report.end())


if __name__ == "__main__":
    main()
