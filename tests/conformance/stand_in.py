"""stand_in.py - a small HTTP server that keeps to specs/lifecycle.yaml, or breaks it as told.

For test_schemathesis_run.py: a checker that finds nothing must be seen to find something. FAULTS
lists what it can do wrong; each is a way in which a real server could disagree with its document.
"""
import http.server
import json
import re
import threading
import urllib.parse
import uuid

KEY = "stand-in-key"
TIME = "2026-07-01T09:30:00Z"
FAULTS = {  # name: (group that must notice, word in the report)
    "a failure": ("snapshots", "must not happen"),
    "an undocumented status": ("pools", "Undocumented status code"),
    "a body that breaks its schema": ("meta", "Response violates schema"),
    "another content type": ("diagnostics", "Undocumented Content-Type"),
    "a code that is not listed": ("snapshots", "is not listed for status"),
    "a lost request id": ("meta", "no X-Request-ID"),
    "an id that stops working": ("links", "must not happen"),
}
BODIES = {"POST", "PUT", "PATCH"}


class Refusal(Exception):
    """An error as the API tells it."""

    def __init__(self, status, code):
        super().__init__(status, code)
        self.status, self.code = status, code


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # head and body in one packet

    def log_message(self, *_):
        pass

    def answer(self, status, kind=None, body=b"", headers=()):
        fault = self.server.fault
        self.send_response(status)
        if fault != "a lost request id":
            self.send_header("X-Request-ID", self.headers.get("X-Request-ID", "").strip() or "1")
        for name, value in headers:
            self.send_header(name, value)
        if kind:
            self.send_header("Content-Type", kind)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def json(self, status, value, headers=()):
        self.answer(status, "application/json", json.dumps(value).encode(), headers)

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urllib.parse.urlsplit(self.path).path.removeprefix("/v1")
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query,
                                      keep_blank_values=True)
        try:
            self.route(path, query, body)
        except Refusal as refusal:
            self.json(refusal.status, {"code": refusal.code, "message": "no"},
                      [("Allow", "GET")] if refusal.status == 405 else [])

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = handle_any
    do_TRACE = handle_any

    def route(self, path, query, body):
        """The first pattern that fits answers; a path of another method is 405."""
        found = False
        for method, pattern, public, handler in ROUTES:
            match = re.fullmatch(pattern, path)
            found = found or bool(match)
            if match and method in (self.command, "*"):
                if not public and self.headers.get("OPEN-SANDBOX-API-KEY") != KEY:
                    raise Refusal(401, "INVALID_API_KEY")
                handler(self, match, query, body)
                return
        raise Refusal(405, "METHOD_NOT_ALLOWED") if found else Refusal(404, "NOT_FOUND")

    # --- handlers ---

    def parsed(self, body, required=True):
        try:
            value = json.loads(body) if body or required else None
        except ValueError:
            raise Refusal(400, "SANDBOX::INVALID_PARAMETER") from None
        if required and not isinstance(value, dict):
            raise Refusal(400, "SANDBOX::INVALID_PARAMETER")
        return value

    def sandbox(self, match):
        key = urllib.parse.unquote(match[1])
        if key not in self.server.sandboxes:
            raise Refusal(404, "DOCKER::SANDBOX_NOT_FOUND")
        if self.server.fault == "an id that stops working":
            raise Refusal(500, "GENERAL::UNKNOWN_ERROR")
        return self.server.sandboxes[key]

    def text(self, match, query, body):
        self.sandbox(match)
        self.answer(200, "text/plain; charset=utf-8", b"text\n")

    def diagnosis(self, match, query, body):
        if self.server.fault == "another content type":
            self.answer(200, "text/csv", b"a,b\n")
            return
        self.text(match, query, body)

    def create(self, match, query, body):
        wish = self.parsed(body)
        if wish.get("image") != {"uri": "host"} or not isinstance(wish.get("entrypoint"), list):
            raise Refusal(400, "SANDBOX::INVALID_PARAMETER")
        own = {"id": str(uuid.uuid4()), "status": {"state": "Running"}, "createdAt": TIME,
               "entrypoint": ["tail"]}
        self.server.sandboxes[own["id"]] = own
        self.json(202, own)

    def listing(self, match, query, body):
        for name, top in (("page", 10**9), ("pageSize", 200)):
            for value in query.get(name, []):
                if not re.fullmatch("[0-9]+", value) or not 1 <= int(value[:12]) <= top:
                    raise Refusal(400, "SANDBOX::INVALID_PARAMETER")
        items = list(self.server.sandboxes.values()) if match[1] == "sandboxes" else []
        self.json(200, {"items": items, "pagination": {
            "page": 1, "pageSize": 200, "totalItems": len(items), "totalPages": 1,
            "hasNextPage": False}})

    def show(self, match, query, body):
        if self.command == "PATCH":
            self.parsed(body)
        self.json(200, self.sandbox(match))

    def delete(self, match, query, body):
        if not self.server.sandboxes.pop(urllib.parse.unquote(match[1]), None):
            raise Refusal(404, "DOCKER::SANDBOX_NOT_FOUND")
        self.answer(204)

    def freeze(self, match, query, body):
        self.sandbox(match)
        self.answer(202)

    def renew(self, match, query, body):
        self.parsed(body)
        self.sandbox(match)
        self.json(200, {"expiresAt": TIME})

    def endpoint(self, match, query, body):
        self.sandbox(match)
        self.json(200, {"endpoint": "127.0.0.1:1"})

    def no_snapshot(self, match, query, body):
        if self.server.fault == "a failure" and self.command == "DELETE":
            raise Refusal(500, "GENERAL::UNKNOWN_ERROR")
        if self.server.fault == "a code that is not listed":
            raise Refusal(404, "FILE_NOT_FOUND")
        raise Refusal(404, "SNAPSHOT::NOT_FOUND")

    def take_snapshot(self, match, query, body):
        self.parsed(body, required=False)
        self.sandbox(match)
        raise Refusal(501, "SNAPSHOT::NOT_IMPLEMENTED")

    def no_pool(self, match, query, body):
        if self.command in BODIES:
            self.parsed(body)
        if self.server.fault == "an undocumented status":
            raise Refusal(418, "GENERAL::UNKNOWN_ERROR")
        raise Refusal(501, "KUBERNETES::POOL_NOT_SUPPORTED")

    def proxy(self, match, query, body):
        self.sandbox(match)
        raise Refusal(502, "GENERAL::UNKNOWN_ERROR")

    def events(self, match, query, body):
        self.answer(204)

    def health(self, match, query, body):
        wrong = self.server.fault == "a body that breaks its schema"
        self.json(200, {"status": 1 if wrong else {"/ready": "ready"}.get(match[0], "healthy")})

    def session(self, match, query, body):
        self.json(200, {"signedIn": False})

    def version(self, match, query, body):
        self.json(200, {"version": "0.1.0"})

    def metrics(self, match, query, body):
        self.answer(200, "text/plain; version=0.0.4", b"up 1\n")

    def openapi(self, match, query, body):
        self.json(200, {"openapi": "3.1.0", "info": {}, "paths": {}})

    def root(self, match, query, body):
        self.answer(302, headers=[("Location", "/docs")])

    def docs(self, match, query, body):
        self.answer(200, "text/html; charset=utf-8", b"<!DOCTYPE html>")


SANDBOX = "/sandboxes/([^/]+)"
ROUTES = [  # method, pattern, whether without a key, handler
    ("POST", "/sandboxes", False, Handler.create),
    ("GET", "/(sandboxes)", False, Handler.listing),
    ("GET", SANDBOX, False, Handler.show),
    ("DELETE", SANDBOX, False, Handler.delete),
    ("PATCH", f"{SANDBOX}/metadata", False, Handler.show),
    ("POST", f"{SANDBOX}/(?:pause|resume)", False, Handler.freeze),
    ("POST", f"{SANDBOX}/renew-expiration", False, Handler.renew),
    ("GET", f"{SANDBOX}/endpoints/[^/]+", False, Handler.endpoint),
    ("*", f"{SANDBOX}/proxy/[^/]+(?:/.*)?", False, Handler.proxy),
    ("POST", f"{SANDBOX}/snapshots", False, Handler.take_snapshot),
    ("GET", "/(snapshots)", False, Handler.listing),
    ("GET", "/snapshots/[^/]+", False, Handler.no_snapshot),
    ("DELETE", "/snapshots/[^/]+", False, Handler.no_snapshot),
    ("GET", f"{SANDBOX}/diagnostics/(?:logs|events)", False, Handler.diagnosis),
    ("GET", f"{SANDBOX}/diagnostics/(?:inspect|summary)", False, Handler.text),
    ("POST", "/pools", False, Handler.no_pool),
    ("GET", "/pools", False, Handler.no_pool),
    ("GET", "/pools/[^/]+", False, Handler.no_pool),
    ("PUT", "/pools/[^/]+", False, Handler.no_pool),
    ("DELETE", "/pools/[^/]+", False, Handler.no_pool),
    ("POST", "/metrics/events", False, Handler.events),
    ("GET", "/health|/ready", True, Handler.health),
    ("GET", "/version", True, Handler.version),
    ("GET", "/auth/session", True, Handler.session),
    ("GET", "/metrics", False, Handler.metrics),
    ("GET", "/openapi.json", True, Handler.openapi),
    ("GET", "/docs|/redoc", True, Handler.docs),
    ("GET", "/", True, Handler.root),
]


class StandIn(http.server.ThreadingHTTPServer):
    """Listens on a free port of 127.0.0.1 while the context lasts."""

    daemon_threads = True

    def __init__(self, fault=None):
        assert fault is None or fault in FAULTS, fault
        super().__init__(("127.0.0.1", 0), Handler)
        self.fault = fault
        self.sandboxes = {}
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.api_key = KEY

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()
