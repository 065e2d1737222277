#!/usr/bin/env python3
"""test_osb_templates.py OURS - templates and files of requests: our osb and the original.

No server here builds templates, so a stub answers both and records what they send: the same exit
status, the same requests, and the same output under -o json. The original runs in this process,
that of its virtual environment: its start takes a second of every line.
"""
import http.server
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tools"), str(HERE.parent / "integration")]

from click.testing import CliRunner  # noqa: E402
from opensandbox_cli.main import cli  # noqa: E402
from tap import Tap  # noqa: E402

SECONDS_MAX = 60
ID = "11111111-2222-4333-8444-555555555555"
TEMPLATE = {
    "templateId": "tpl_1", "image": "python:3.12", "publish": "s3://bucket/publish",
    "format": "overlaybd", "status": {"phase": "Failed", "message": "no disk"},
    "createdAt": "2026-01-02T03:04:05Z", "updatedAt": "2026-01-02T03:04:06Z",
    "resourceLimits": {"cpu": "1"}, "metadata": {"made_by": "test"},
    "readiness": {"probe": "tcp://127.0.0.1:44772"},
}
STATE = {"revision": 4, "credentials": [{"name": "token", "sourceType": "inline", "revision": 4}],
         "bindings": [{"name": "api", "revision": 4, "match": {"hosts": ["api.example.com"]},
                       "auth": {"type": "bearer"}}]}
PAGE = {"page": 1, "pageSize": 20, "totalItems": 1, "totalPages": 1, "hasNextPage": False}
FILES = {
    "template.json": {"image": "python:3.12", "publish": "s3://b/p", "env": {"A": "1"},
                      "readiness": {"warmupSeconds": 5}},
    "no-publish.json": {"image": "python:3.12"},
    "unknown.json": {"image": "python:3.12", "publish": "s3://b/p", "imag": 1},
    "list.json": [1],
    "plain.json": {"image": "host"},
    "all.json": {"image": {"uri": "host"}, "timeout": 90, "resourceLimits": {"cpu": "2"},
                 "env": {"A": "1"}, "metadata": {"m": "1"}, "entrypoint": ["sleep", "5"],
                 "networkPolicy": {"defaultAction": "deny", "egress": []},
                 "credentialProxy": True, "secureAccess": True, "extensions": {"x": "y"}},
    "snapshot.json": {"snapshotId": "snap-1", "timeout": None},
    "of-template.json": {"templateId": "tpl_1", "timeout": 600, "metadata": {"m": "1"}},
    "of-template-env.json": {"templateId": "tpl_1", "timeout": 600, "env": {"A": "1"}},
    "of-template-endless.json": {"templateId": "tpl_1", "timeout": None},
    "of-template-silent.json": {"templateId": "tpl_1"},
    "two.json": {"image": "host", "snapshotId": "snap-1"},
    "none.json": {"timeout": 90},
    "timeout.json": {"image": "host", "timeout": "90"},
    "proxy.json": {"image": "host", "credentialProxy": True},
    "image.json": {"image": 7},
    "field.json": {"image": "host", "nonsense": 1},
    "policy.json": {"defaultAction": "deny", "egress": []},
}
VAULT = """# what goes where
credentials:
  - {name: token, source: {type: inline, value: 'it''s secret'}}
bindings:
  - name: api
    match:
      hosts: [api.example.com]
    auth: {type: bearer, credential: token}
"""
TEXTS = {
    "vault.yaml": VAULT,
    "vault-patch.yaml": "expected_revision: 3\ncredentials:\n  delete: [token]\n",
    "vault-patch-text.yaml": "expectedRevision: 'three'\n",
    "vault-patch-list.yaml": "credentials: [token]\n",
    "vault-list.yaml": "- secret\n",
    "vault-alone.yaml": "credentials: []\n",
    "vault-broken.yaml": "credentials: [secret\nbindings: {",
}
LINES = [
    "credential-vault create {id} --file {dir}/vault.yaml -o json",
    "credential-vault create {id} --file {dir}/vault-list.yaml",
    "credential-vault create {id} --file {dir}/vault-alone.yaml",
    "credential-vault create {id} --file {dir}/vault-broken.yaml",
    "credential-vault patch {id} --file {dir}/vault-patch.yaml -o json",
    "credential-vault patch {id} --file {dir}/vault-patch-text.yaml",
    "credential-vault patch {id} --file {dir}/vault-patch-list.yaml",
    "credential-vault get {id} -o json",
    "credential-vault delete {id} -o json",
    "credential-vault credential list {id} -o json",
    "credential-vault credential get {id} token -o json",
    "credential-vault binding list {id} -o json",
    "credential-vault binding get {id} api -o json",
    "template",
    "template create -i python:3.12 -o json",
    "template create -i python:3.12 -p s3://b/p -o json",
    "template create -i python:3.12 -p s3://b/p --resource cpu=2 --entrypoint sh -e A=1 -m b=2 "
    "--format native --readiness-probe cmd://true --warmup-seconds 0 -o json",
    "template create -i python:3.12 -p s3://b/p --format nonsense",
    "template create -i python:3.12 -p s3://b/p --warmup-seconds -1",
    "template create -f {dir}/template.json -o json",
    "template create -f {dir}/template.json --image x",
    "template create -f {dir}/no-publish.json",
    "template create -f {dir}/unknown.json",
    "template create -f {dir}/list.json",
    "template get tpl_1 -o json",
    "template get tpl_1",
    "template get tpl_0 -o json",
    "template get",
    "template list -o json",
    "template list -m a=1 -m b=x&y --page 2 --page-size 5 -o json",
    "template list",
    "template delete tpl_1 -o json",
    "template delete tpl_0",
    "sandbox create -f {dir}/plain.json -o json",
    "sandbox create -f {dir}/all.json -o json",
    "sandbox create -f {dir}/snapshot.json -o json",
    "sandbox create -f {dir}/of-template.json -o json",
    "sandbox create -f {dir}/of-template-env.json",
    "sandbox create -f {dir}/of-template-endless.json",
    "sandbox create -f {dir}/of-template-silent.json",
    "sandbox create -f {dir}/two.json",
    "sandbox create -f {dir}/none.json",
    "sandbox create -f {dir}/timeout.json",
    "sandbox create -f {dir}/proxy.json",
    "sandbox create -f {dir}/image.json",
    "sandbox create -f {dir}/field.json",
    "sandbox create -f {dir}/list.json",
    "sandbox create -f {dir}/plain.json -e A=1",
    "sandbox create --template tpl_1 -t 30m -m a=1 --extension x=y "
    "--network-policy-file {dir}/policy.json -o json",
    "sandbox create --template tpl_1",
    "sandbox create --template tpl_1 -t none",
    "sandbox create --template tpl_1 -t 30m -e A=1",
    "sandbox create --template tpl_1 -t 30m --snapshot-id s",
]


class Stub(http.server.BaseHTTPRequestHandler):
    """A server with one template; what it was asked is in the list `seen`."""
    protocol_version = "HTTP/1.1"
    seen = []

    def answer(self, status, value=None):
        body = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle_any(self):
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size) or b"null")
        url = urllib.parse.urlsplit(self.path)
        path = url.path.removeprefix("/v1")
        # Of these, how often and when is no matter; the last is what the original tells of itself.
        if "/endpoints/" not in path and path not in ("/ping", "/metrics/events"):
            self.seen.append((self.command, path, urllib.parse.parse_qs(url.query), usual(body)))
        if path == "/templates":
            new = {**TEMPLATE, "status": {"phase": "Pending"}}
            page = {"items": [TEMPLATE], "pagination": PAGE}
            self.answer(*((201, new) if self.command == "POST" else (200, page)))
        elif path == "/templates/tpl_1":
            self.answer(*((204,) if self.command == "DELETE" else (200, TEMPLATE)))
        elif path == "/sandboxes":
            self.answer(202, {"id": ID, "status": {"state": "Running"}, "entrypoint": ["x"],
                              "createdAt": "2026-01-02T03:04:05Z"})
        elif path == "/credential-vault":
            self.answer(*((204,) if self.command == "DELETE" else (200, STATE)))
        elif path in ("/credential-vault/credentials", "/credential-vault/bindings"):
            self.answer(200, {"revision": 4, (name := path.split("/")[-1]): STATE[name]})
        elif path in ("/credential-vault/credentials/token", "/credential-vault/bindings/api"):
            self.answer(200, STATE[path.split("/")[2]][0])
        elif "/endpoints/" in path:
            self.answer(200, {"endpoint": "127.0.0.1:%d" % self.server.server_port})
        elif path == "/ping":
            self.answer(200)
        else:
            self.answer(404, {"code": "NOT_FOUND", "message": "there is none"})

    do_GET = do_POST = do_PATCH = do_DELETE = handle_any

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        pass


def usual(body):
    """Without members that say what their absence says."""
    if not isinstance(body, dict):
        return body
    return {key: usual(value) for key, value in body.items()
            if value is not None and (key, value) != ("secureAccess", False)}


def ours(program, words, env):
    done = subprocess.run([program, *words], text=True, stdin=subprocess.DEVNULL, check=False,
                          capture_output=True, timeout=SECONDS_MAX, env=env)
    return done.returncode, done.stdout, done.stderr


def theirs(words, env):
    done = CliRunner().invoke(cli, words, env=env)
    return done.exit_code, done.stdout, done.stderr


def run(program, line, folder, port):
    """The exit status, the output if it is JSON, and the requests; and all that was printed."""
    Stub.seen.clear()
    env = {"PATH": os.environ["PATH"], "HOME": folder, "LANG": "C.UTF-8",
           "OPEN_SANDBOX_DOMAIN": f"127.0.0.1:{port}", "OPEN_SANDBOX_API_KEY": "key"}
    words = ["--no-color", *line.format(dir=folder, id=ID).split()]
    status, out, err = ours(program, words, env) if program else theirs(words, env)
    shown = json.loads(out) if "-o json" in line and status == 0 else None
    return {"status": status, "shown": shown, "asked": list(Stub.seen)}, out + err


def compare(line, program, folder, port):
    mine, my_text = run(program, line, folder, port)
    other, other_text = run(None, line, folder, port)
    assert "secret" not in my_text, my_text
    assert mine == other, f"{mine}\n{my_text}\n--- theirs\n{other}\n{other_text}"


def main():
    program, = sys.argv[1:]
    tap = Tap()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(prefix="osb-templates-") as folder:
        for name, value in FILES.items():
            (pathlib.Path(folder) / name).write_text(json.dumps(value), encoding="ascii")
        for name, value in TEXTS.items():
            (pathlib.Path(folder) / name).write_text(value, encoding="ascii")
        for line in LINES:
            tap.check(line, compare, line, program, folder, server.server_port)
    server.shutdown()
    return tap.end()


sys.exit(main())
