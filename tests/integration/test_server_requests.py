"""Requests that are wrong, or nearly right: which mistake is named, by which code and field.

Usage: test_server_requests.py SERVER BROKER EXECD SANDBOXCTL. TAP on standard output. Needs root.
"""
import contextlib
import json
import os
import pathlib
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from server_process import ServerProcess, why_not  # noqa: E402
from server_use import Gateway  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:5]]
SERVER = None  # one for all tests

BAD = "SANDBOX::INVALID_PARAMETER"
BAD_LABEL = {"metadata": {"not a label": ""}}
FORBIDDEN = {"volumes": [{"name": "v", "mountPath": "/v", "host": {"path": "/etc"}}]}


def post(**fields):
    """Status and body of a create; a field that is None is left out."""
    request = {"image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"],
               "timeout": 600, "resourceLimits": {}, **fields}
    status, _, body = SERVER.request(
        "POST", "/v1/sandboxes", {name: v for name, v in request.items() if v is not None})
    return status, body


def refused(code, word, status=400, **fields):
    got, body = post(**fields)
    assert (got, body["code"]) == (status, code) and word in body["message"], (got, body)


def taken(**fields):
    status, body = post(**fields)
    assert status == 202, body
    assert SERVER.request("DELETE", f"/v1/sandboxes/{body['id']}")[0] == 204
    return body


def mistakes_are_named_in_the_contracts_order():
    refused(BAD, "extensions.access.renew", **BAD_LABEL,
            extensions={"poolRef": "p", "access.renew.extend.seconds": "x"})
    refused("KUBERNETES::POOL_NOT_FOUND", "poolRef", status=404, **BAD_LABEL,
            extensions={"poolRef": "p"})
    refused("SNAPSHOT::NOT_FOUND", "snapshot", status=404, image=None, snapshotId="none",
            **BAD_LABEL)
    refused("SANDBOX::INVALID_METADATA_LABEL", "metadata", **BAD_LABEL,
            platform={"os": "plan9", "arch": "amd64"})
    refused(BAD, "platform.os", platform={"os": "windows", "arch": "amd64"}, **FORBIDDEN)
    refused(BAD, "lifecycle", lifecycle={"preStart": {"command": ["true"]}}, **FORBIDDEN)
    refused("VOLUME::HOST_PATH_NOT_ALLOWED", "volumes[0].host.path", image={"uri": "none"},
            **FORBIDDEN)
    refused(BAD, "image.uri", image={"uri": "no name: at all"})


def messages_name_the_field():
    for name, value in (("cpu", "100000"), ("memory", "2048Ti"), ("disk", "2048Ti"),
                        ("disk", "1Mi")):
        refused(BAD, f"resourceLimits.{name}: ", resourceLimits={name: value})
    for place in ("/proc/x", "/sys", "/dev/shm", "/a//b", "/usr"):
        refused("VOLUME::INVALID_MOUNT_PATH", "volumes[0].mountPath: ",
                volumes=[{"name": "v", "mountPath": place, "pvc": {"claimName": "c"}}])


def numbers_and_booleans_may_be_text():
    assert "expiresAt" in taken(timeout="100")
    taken(timeout=100.0, secureAccess="true", credentialProxy={"enabled": "no"})
    taken(resourceLimits=None, resource_limits={"cpu": "1"})
    refused(BAD, "timeout: ", timeout=True)  # a second
    refused(BAD, "networkPolicy", networkPolicy={
        "defaultAction": "Deny", "egress": [{"action": "Allow", "target": "a"}]})


def much_may_be_handed_over():
    name = SERVER.create(env={f"V{i}": "" for i in range(4000)},
                         entrypoint=["sleep", *["1"] * 1023],
                         metadata={f"k{i}": "v" * 63 for i in range(512)})
    with Gateway(SERVER, name) as box:
        assert box.run("env | grep -c '^V[0-9]'") == "4000"
    _, _, body = SERVER.request("PATCH", f"/v1/sandboxes/{name}/metadata", {"k0": None, "new": ""})
    assert len(body["metadata"]) == 512 and "k0" not in body["metadata"]
    assert SERVER.request("DELETE", f"/v1/sandboxes/{name}")[0] == 204
    name = SERVER.create(env={"V": "x" * 131069, "W": "y" * 60000})  # what execve(2) takes in one
    with Gateway(SERVER, name) as box:
        assert box.run("echo ${#V} ${#W}") == "131069 60000"
    assert SERVER.request("DELETE", f"/v1/sandboxes/{name}")[0] == 204
    refused("DOCKER::INVALID_ENTRYPOINT", "entrypoint: more than 1024 arguments, more than 131071 "
            "bytes in one or 196608 in all", entrypoint=["sleep", "x" * 131072])
    limits = ("env: more than this runtime can hand over: 4096 variables, 131071 bytes each, and "
              "196608 with the entrypoint")
    refused(BAD, limits, env={"V": "x" * 131070})
    refused(BAD, limits, env={"V": "x" * 131069, "W": "x" * 70000})
    refused(BAD, "metadata: expected at most 512", metadata={f"k{i}": "" for i in range(513)})


def a_slash_at_the_end_is_taken_off():
    for method, path in (("GET", "sandboxes"), ("POST", "sandboxes"), ("GET", "snapshots"),
                         ("GET", "pools"), ("POST", "pools")):
        for prefix in ("", "/v1"):
            for query in ("", "?page=2&x=%2F"):
                status, headers, _ = SERVER.request(
                    method, f"{prefix}/{path}/{query}", {} if method == "POST" else None)
                wanted = f"{prefix}/{path}{query}"
                assert (status, headers["Location"]) == (307, wanted), (status, headers["Location"])
    _, headers, _ = SERVER.request("GET", "/v1/sandboxes/",
                                   headers={"X-Forwarded-Proto": "https", "Host": "box.example"})
    assert headers["Location"] == "/v1/sandboxes", headers["Location"]
    assert SERVER.request("GET", "/v1/sandboxes/", key=None)[0] == 401
    for path in ("//", "/v1/sandboxes//", "/v1/none/", "/v1/", "//v1/sandboxes/",
                 "//box.example/v1/sandboxes/"):
        assert SERVER.request("GET", path)[0] == 404, path


def has_ipv6():
    with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


def endpoints_are_reachable_without_a_host_header():
    hosts = {"0.0.0.0": "127.0.0.1", "::": "127.0.0.1", "::1": "[::1]"}
    for listens, found in hosts.items():
        if ":" in listens and not has_ipv6():
            continue
        server = ServerProcess(*PROGRAMS, config={"server": {"host": listens}})
        server.host = "::1" if listens == "::1" else "127.0.0.1"
        with server:
            path = f"/v1/sandboxes/{server.create()}/endpoints/80"
            with socket.create_connection((server.host, server.port)) as sock:
                sock.sendall(f"GET {path} HTTP/1.0\r\n"
                             f"OPEN-SANDBOX-API-KEY: {server.api_key}\r\n\r\n".encode())
                body = b"".join(iter(lambda s=sock: s.recv(4096), b"")).split(b"\r\n\r\n")[1]
            endpoint = json.loads(body)["endpoint"]
            assert endpoint.startswith(f"{found}:{server.port}/"), endpoint


def endpoints_are_whole_or_refused():
    path = f"/v1/sandboxes/{SERVER.create()}/endpoints/80"
    for length in (255, 900):
        status, _, body = SERVER.request("GET", path, headers={"Host": "a" * length})
        assert status == 200 and body["endpoint"].startswith("a" * length + "/sandboxes/"), body
    for length in (1000, 5000):
        status, _, body = SERVER.request("GET", path, headers={"Host": "a" * length})
        assert (status, body["code"]) == (400, "SANDBOX::INVALID_PARAMETER"), body
        assert "Host" in body["message"], body


if __name__ == "__main__":
    tap.skip_all(why_not())
    with ServerProcess(*PROGRAMS) as SERVER:
        result = tap.run_tests([
            mistakes_are_named_in_the_contracts_order,
            messages_name_the_field,
            numbers_and_booleans_may_be_text,
            much_may_be_handed_over,
            a_slash_at_the_end_is_taken_off,
            endpoints_are_reachable_without_a_host_header,
            endpoints_are_whole_or_refused,
        ])
    sys.exit(result)
