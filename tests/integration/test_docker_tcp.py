#!/usr/bin/env python3
"""test_docker_tcp.py SERVER BROKER EXECD SANDBOXCTL EGRESS - the docker runtime on an engine at a
TCP address, with TLS on both sides and without, whose containers are reached by published ports;
its disk is one that keeps limits: btrfs."""
import contextlib
import pathlib
import shutil
import socket
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))

from docker_process import DockerEngine, DockerServer, why_not  # noqa: E402
from server_process import wait_for  # noqa: E402
from server_use import Gateway  # noqa: E402
from tap import Tap, skip_all  # noqa: E402
from tls_process import Authority  # noqa: E402

*PROGRAMS, EGRESS = sys.argv[1:]
IMAGE, SIDECAR, DISK_BYTES = "small:1", "opensandbox/egress:test", 1 << 30
MIB = 1 << 20
ENGINE = SERVER = None


class TcpServer(DockerServer):
    """A server that knows the engine by `docker`, a section of its configuration; the test looks
    at the engine by its socket."""

    def __init__(self, docker):
        super().__init__(*PROGRAMS, engine=ENGINE, config={
            "docker": {"network_mode": "bridge", **docker},
            "egress": {"image": SIDECAR, "mode": "dns+nft"}})


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def create(server=None, status=202, **fields):
    got, _, body = (server or SERVER).request("POST", "/v1/sandboxes", {
        "image": {"uri": IMAGE}, "entrypoint": ["sleep", "1000000"], "timeout": 600,
        "resourceLimits": {"cpu": "1", "memory": "128Mi"}, **fields})
    assert got == status, (got, body)
    if got == 202:
        (server or SERVER).wait_state(body["id"], "Running")
    return body.get("id") or body


@contextlib.contextmanager
def sandbox(server=None, **fields):
    name = create(server, **fields)
    try:
        yield name
    finally:
        status, _, body = (server or SERVER).request("DELETE", f"/v1/sandboxes/{name}")
        assert status == 204, (status, body)


def run(name, line, server=None):
    with Gateway(server or SERVER, name) as gateway:
        return gateway.run(line)


def state(name):
    return SERVER.request("GET", f"/v1/sandboxes/{name}")[2]["status"]["state"]


def works_by_published_ports():
    with sandbox() as name:
        assert run(name, "echo here") == "here"
        run(name, "mkdir -p /tmp/www && echo page > /tmp/www/a && httpd -p 8123 -h /tmp/www")
        with Gateway(SERVER, name, 8123) as gateway:
            assert gateway.ask("GET", "/a") == b"page\n"
        SERVER.restart()
        assert run(name, "echo again") == "again"
        ENGINE.request("POST", f"/containers/sandbox-{name}/kill")
        wait_for(lambda: state(name) == "Failed", "the event of its end, over TLS", 20)


def the_control_of_a_sidecar_is_reached_by_its_port():
    with sandbox(networkPolicy={"defaultAction": "deny", "egress": []},
                 credentialProxy={"enabled": True}) as name:
        _, _, where = SERVER.request("GET", f"/v1/sandboxes/{name}/endpoints/18080"
                                     "?use_server_proxy=true")
        target = "/" + where["endpoint"].partition("/")[2]

        def control(method, path, body=None):
            return SERVER.request(method, target + path, body, headers=where["headers"], key=None)
        status, _, body = control("GET", "/policy")
        assert status == 200 and body["policy"]["defaultAction"] == "deny", (status, body)
        # Its secrets would cross a network in the clear.
        assert control("POST", "/credential-vault", {"credentials": [], "bindings": []})[0] == 426
        assert run(name, "echo in") == "in"


def limits_of_disk_are_kept():
    def write(name, mib):
        return run(name, f"dd if=/dev/zero of=/big bs=1M count={mib} conv=fsync >/dev/null 2>&1 && "
                         "echo fits || echo full")
    with sandbox(resourceLimits={"cpu": "1", "memory": "256Mi", "disk": "64Mi"}) as name:
        assert (write(name, 16), write(name, 128)) == ("fits", "full")
        text = SERVER.request("GET", f"/v1/sandboxes/{name}/diagnostics/inspect")[2]
        text = text if isinstance(text, str) else text.decode()
        assert f"{64 * MIB} bytes, by storage driver btrfs" in text, text
    with sandbox() as name:
        assert write(name, 128) == "fits"


def an_engine_that_does_not_know_us_is_an_error(docker, words):
    server = TcpServer(docker)
    try:
        server.spawn()
        assert server.process.wait(60) != 0, "it started"
        assert any(word in server.log() for word in words), server.log()[-2000:]
    finally:
        server.remove()


def main():
    global ENGINE, SERVER
    skip_all(why_not() or (None if shutil.which("mkfs.btrfs") else
                           "mkfs.btrfs is not installed (make test installs btrfs-progs)"))
    tap = Tap()
    with tempfile.TemporaryDirectory(prefix="osb-docker-tls-") as folder:
        authority, other = (Authority(path) for path in (pathlib.Path(folder, "ours"),
                                                         pathlib.Path(folder, "other"))
                            if path.mkdir() is None)
        pathlib.Path(folder).chmod(0o755)
        for one in (authority, other):  # as Docker names them
            cert, key = one.issue("client")
            shutil.copy(cert, one.folder / "cert.pem")
            shutil.copy(key, one.folder / "key.pem")
        cert, key = authority.issue("engine")
        tls, plain = free_port(), free_port()
        ENGINE = DockerEngine(("-H", f"tcp://127.0.0.1:{tls}", "--tlsverify", "--tlscacert",
                               str(authority.ca), "--tlscert", str(cert), "--tlskey", str(key)),
                              disk=("btrfs", DISK_BYTES))
        at = {"host": f"tcp://127.0.0.1:{tls}", "cert_path": str(authority.folder)}
        with ENGINE:
            ENGINE.import_busybox(IMAGE)
            ENGINE.import_egress(EGRESS, SIDECAR)
            with TcpServer(at) as SERVER:
                for test in (works_by_published_ports,
                             the_control_of_a_sidecar_is_reached_by_its_port,
                             limits_of_disk_are_kept):
                    tap.check(test.__name__, test)
                if tap.failed:
                    print("# " + SERVER.log()[-6000:].replace("\n", "\n# "))
            for name, docker, words in (
                    ("a certificate of another authority is refused",
                     {**at, "cert_path": str(other.folder)}, ("certificate",)),
                    ("an engine that wants TLS is not asked without it",
                     {"host": at["host"]}, ("HTTP request to an HTTPS server",))):
                tap.check(name, an_engine_that_does_not_know_us_is_an_error, docker, words)
            ENGINE.stop()
            ENGINE.options = ("-H", f"tcp://127.0.0.1:{plain}", "--tls=false")
            ENGINE.start()
            with TcpServer({"host": f"tcp://127.0.0.1:{plain}"}) as SERVER:
                tap.check("the same without TLS", works_by_published_ports)
    return tap.end()


sys.exit(main())
