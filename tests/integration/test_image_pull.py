#!/usr/bin/env python3
"""Pulls from Debian's docker-registry, filled by skopeo: plain, by password, by token, over TLS."""
import base64
import contextlib
import hashlib
import http.server
import json
import pathlib
import shutil
import ssl
import subprocess
import sys
import tempfile
import urllib.request

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from registry_process import (HTPASSWD, SECONDS_MAX, Registry, TokenIssuer,  # noqa: E402
                              make_layout, serving, tunnel_handler)
from tls_process import Authority  # noqa: E402

PULLCTL = sys.argv[1]
HOST = "127.0.0.1:9"  # nobody must ask there


class World:
    """A folder, a layout to push, and directories to pull into."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.layout = LAYOUT
        self.into = self.new_dir("blobs")

    def new_dir(self, name):
        path = self.folder / name
        path.mkdir()
        return path

    def registry(self, **options):
        return Registry(self.folder / "registry", **options)

    def htpasswd(self):
        path = self.folder / "htpasswd"
        path.write_text(HTPASSWD)
        return f"htpasswd:\n  realm: test\n  path: {path}"

    def pull(self, name, *options, into=None):
        """Exit status 0 and the words of the line, or the whole line."""
        done = subprocess.run([PULLCTL, f"--dir={into or self.into}", *options, name],
                              capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        assert done.returncode in (0, 1), done.stdout + done.stderr
        assert done.stdout.count("\n") == 1, done.stdout + done.stderr
        return done.stdout.strip()

    def pull_well(self, name, *options, **more):
        line = self.pull(name, *options, **more)
        assert line.startswith("ok sha256:"), line
        return line.split()[1:]

    def check_blobs(self, into=None):
        """Every blob is what its name says, and no part is left. Their number."""
        names = [path for path in (into or self.into).iterdir() if path.name != "images"]
        for path in names:
            assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name, path
        return len(names)


@contextlib.contextmanager
def world():
    with tempfile.TemporaryDirectory() as folder:
        yield World(folder)


def says(line, *words):
    for word in words:
        assert word in line, line


def pulls_what_skopeo_pushed(w):
    with w.registry() as registry:
        registry.push(w.layout, "me/app:1")
        manifest, received, was = w.pull_well(f"{registry.host}/me/app:1")
        assert was == "new" and int(received) > 3 << 20
        assert w.check_blobs() == 4  # two layers, a configuration, a manifest
        index = json.loads((w.layout / "index.json").read_text())
        assert manifest == index["manifests"][0]["digest"]
        assert w.pull_well(f"{registry.host}/me/app:1")[1:] == ["0", "present"]
        assert w.pull_well(f"{registry.host}/me/app:1", "--policy=always")[1:] == ["0", "new"]
        assert w.pull_well(f"{registry.host}/me/app@{manifest}", into=w.new_dir("2"))[0] == manifest


def pulls_docker_manifests(w):
    with w.registry() as registry:
        registry.push(w.layout, "me/app:docker", "--format", "v2s2")
        w.pull_well(f"{registry.host}/me/app:docker")
        assert w.check_blobs() == 4


def pulls_layers_packed_by_zstd(w):
    with w.registry() as registry:
        registry.push(w.layout, "me/app:zstd", "--dest-compress", "--dest-compress-format=zstd")
        manifest = w.pull_well(f"{registry.host}/me/app:zstd")[0]
        assert (w.into / manifest.split(":")[1]).read_text().count("layer.v1.tar+zstd") == 2
        w.check_blobs()


def names_what_is_not_there(w):
    with w.registry() as registry:
        registry.push(w.layout, "me/app:1")
        says(w.pull(f"{registry.host}/me/app:2"), "not found: ", registry.host, "404",
             "manifest unknown")
        says(w.pull(f"{registry.host}/me/none:1"), "not found: ", "me/none")
        says(w.pull(f"{registry.host}/me/app@sha256:{'0' * 64}"), "not found: ")
        assert w.check_blobs() == 0
    says(w.pull(f"{registry.host}/me/app:1"), "unreachable: ", registry.host)
    # "no host", or "unreachable" where no resolver answers.
    says(w.pull("no-such-host.invalid/me/app:1"), "no-such-host.invalid")


def put_index(registry, platform):
    """Lists the image `me/app:1` under the tag `list`, for a platform."""
    url = f"http://{registry.host}/v2/me/app/manifests/"
    kind = "application/vnd.oci.image.manifest.v1+json"
    with urllib.request.urlopen(urllib.request.Request(f"{url}1", headers={"Accept": kind}),
                                timeout=SECONDS_MAX) as answer:
        text = answer.read()
    entry = {"mediaType": kind, "size": len(text),
             "digest": "sha256:" + hashlib.sha256(text).hexdigest(), "platform": platform}
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
             "manifests": [entry]}
    request = urllib.request.Request(f"{url}list", json.dumps(index).encode(), method="PUT",
                                     headers={"Content-Type": index["mediaType"]})
    with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
        assert answer.status == 201


def takes_its_platform_from_an_index(w):
    with w.registry() as registry:
        registry.push(w.layout, "me/app:1")
        machine = json.loads(subprocess.run(["skopeo", "inspect", f"oci:{w.layout}:app"],
                                            capture_output=True, check=True,
                                            timeout=SECONDS_MAX).stdout)["Architecture"]
        put_index(registry, {"os": "linux", "architecture": machine})
        w.pull_well(f"{registry.host}/me/app:list")
        says(w.pull(f"{registry.host}/me/app:list", "--platform=linux/s390x"),
             "no platform: ", "not made for linux/s390x", f"there are linux/{machine}")


def asks_by_password(w):
    with w.registry(auth=w.htpasswd()) as registry:
        registry.push(w.layout, "me/app:1", "--dest-creds=me:pw")
        name = f"{registry.host}/me/app:1"
        says(w.pull(name), "unauthorized: ", registry.host, "no credentials were given")
        says(w.pull(name, "--user=me", "--password=wrong"), "unauthorized: ", "401")
        w.pull_well(name, "--user=me", "--password=pw")
        assert w.check_blobs() == 4


def asks_by_a_credentials_file(w):
    with w.registry(auth=w.htpasswd()) as registry:
        registry.push(w.layout, "me/app:1", "--dest-creds=me:pw")
        name, path = f"{registry.host}/me/app:1", w.folder / "config.json"
        path.write_text(json.dumps({"auths": {registry.host: {
            "auth": base64.b64encode(b"me:pw").decode()}}}))
        w.pull_well(name, f"--credentials={path}")
        path.write_text(json.dumps({"credsStore": "desktop"}))
        says(w.pull(name, f"--credentials={path}", "--policy=always"), "unsupported: ", "desktop")
        path.write_text("not JSON")
        says(w.pull(name, f"--credentials={path}", "--policy=always"), "invalid: ",
             "the credentials file")


def asks_by_token(w):
    issuer = TokenIssuer(w.folder)
    with serving(issuer.handler()) as tokens:
        with w.registry(auth=issuer.auth(tokens.server_port)) as registry:
            registry.push(w.layout, "me/app:1", "--dest-creds=me:pw")
            name = f"{registry.host}/me/app:1"
            says(w.pull(name), "unauthorized: ", "no credentials were given")
            says(w.pull(name, "--user=me", "--password=no"), "unauthorized: ", "wrong password")
            issuer.asked.clear()
            w.pull_well(name, "--user=me", "--password=pw")
            assert [scope for scope, _ in issuer.asked] == ["repository:me/app:pull"], issuer.asked
            assert w.check_blobs() == 4


def speaks_tls_with_an_authority_of_its_own(w):
    authority = Authority(w.new_dir("ca"))
    with w.registry(tls=authority.issue("registry")) as registry:
        registry.push(w.layout, "me/app:1")
        name, rule = f"{registry.host}/me/app:1", f"--tls={registry.host}"
        w.pull_well(name, rule, f"--ca={authority.ca}")
        says(w.pull(name, rule, "--policy=always"), "certificate", registry.host)
        w.pull_well(name, f"--skip-verify={registry.host}", "--policy=always")
        says(w.pull(name, "--policy=always"), registry.host)  # http to a port of https


def refuses_a_certificate_of_another_name(w):
    authority = Authority(w.new_dir("ca"))
    with w.registry(tls=authority.issue("registry", "DNS:other.test")) as registry:
        says(w.pull(f"{registry.host}/me/app:1", f"--tls={registry.host}",
                    f"--ca={authority.ca}"), "certificate", registry.host)


def is_not_led_from_https_to_http(w):
    """By a redirect, or for a token."""
    authority = Authority(w.new_dir("ca"))

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            by_token = "/token/" in self.path
            self.send_response(401 if by_token else 307)
            self.send_header("WWW-Authenticate" if by_token else "Location",
                             f'Bearer realm="http://{HOST}/t"' if by_token else f"http://{HOST}/x")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with serving(Handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.issue("registry"))
        server.socket = context.wrap_socket(server.socket, server_side=True)
        host = f"localhost:{server.server_port}"
        options = (f"--tls={host}", f"--ca={authority.ca}", "--user=me", "--password=pw")
        says(w.pull(f"{host}/me/app:1", *options), "bad answer: ", "redirects to http", host)
        says(w.pull(f"{host}/token/app:1", *options), "bad answer: ", "a token over http", host)


def tunnels_through_a_proxy(w):
    authority, seen = Authority(w.new_dir("ca")), []
    with w.registry(tls=authority.issue("registry", "DNS:far.test")) as registry:
        registry.push(w.layout, "me/app:1")
        with serving(tunnel_handler(registry.port, seen)) as proxy:
            w.pull_well("far.test:5000/me/app:1", f"--ca={authority.ca}",
                        f"--https-proxy=http://localhost:{proxy.server_port}")
    assert len(seen) == 4 and set(seen) == {"far.test:5000"}, seen
    assert w.check_blobs() == 4


def prefers_a_mirror_and_can_do_without(w):
    with w.registry() as registry:
        registry.push(w.layout, "me/app:1")
        mirror = f"--mirror=far.invalid=http://{registry.host}"
        w.pull_well("far.invalid/me/app:1", mirror)
        dead = f"--mirror={registry.host}=http://127.0.0.1:1"
        w.pull_well(f"{registry.host}/me/app:1", dead, f"--plain={registry.host}",
                    into=w.new_dir("2"))


def resumes_a_layer(w):
    with w.registry() as registry:
        registry.push(w.layout, "me/app:1")
        name = f"{registry.host}/me/app:1"
        whole = int(w.pull_well(name)[1])
        again = w.new_dir("again")
        layer = max(w.into.iterdir(), key=lambda path: path.stat().st_size)
        (again / f"{layer.name}.part").write_bytes(layer.read_bytes()[:2 << 20])
        assert int(w.pull_well(name, into=again)[1]) == whole - (2 << 20)
        w.check_blobs(again)
        wrong = w.new_dir("wrong")
        (wrong / f"{layer.name}.part").write_bytes(bytes(2 << 20))
        w.pull_well(name, into=wrong)
        w.check_blobs(wrong)


tap.skip_all(next((f"no {name} (make test installs it)" for name in
                   ("docker-registry", "skopeo", "umoci", "openssl", "busybox")
                   if not shutil.which(name)), None))
with tempfile.TemporaryDirectory() as made:
    LAYOUT = make_layout(pathlib.Path(made))
    sys.exit(tap.run_tests([
        pulls_what_skopeo_pushed, pulls_docker_manifests, pulls_layers_packed_by_zstd,
        names_what_is_not_there, takes_its_platform_from_an_index, asks_by_password,
        asks_by_a_credentials_file, asks_by_token, speaks_tls_with_an_authority_of_its_own,
        refuses_a_certificate_of_another_name, is_not_led_from_https_to_http,
        tunnels_through_a_proxy,
        prefers_a_mirror_and_can_do_without, resumes_a_layer], world))
