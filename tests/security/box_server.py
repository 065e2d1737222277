"""box_server.py - attacks that need a whole server: one tenant's volume against another's.

The server is the test's alone and starts a broker of its own; see tests/integration.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
from server_process import ServerProcess  # noqa: E402 # of tests/integration, as the next
from server_use import Gateway  # noqa: E402

SECRET = "of-another-tenant"
# What a workload puts into its volume, and the subPath of the create that follows.
LINKS = {
    "up": "../victim", "deep": "../victim/inner", "file": "../victim/secret", "top": "..",
    "top/victim": "..", "up/inner": "../victim", "root": "/",
}


def volume(claim, sub_path=""):
    return {"name": "data", "mountPath": "/data", "subPath": sub_path,
            "pvc": {"claimName": claim, "createIfNotExists": True}}


def run_once(server, line, *volumes):
    """Runs a line in a sandbox of its own. What it printed."""
    name = server.create(volumes=list(volumes))
    with Gateway(server, name) as box:
        out = box.run(line)
    server.request("DELETE", f"/v1/sandboxes/{name}")
    return out


def shows_secret(server, sub_path):
    """Whether a sandbox gets to see the victim's files by a link in its own volume."""
    request = {"image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"], "timeout": 600,
               "resourceLimits": {}, "volumes": [volume("mine", sub_path)]}
    status, _, body = server.request("POST", "/v1/sandboxes", request)
    if status >= 400:
        return False
    server.wait_state(body["id"], "Running")
    with Gateway(server, body["id"]) as box:
        return SECRET in box.run("grep -rhs . /data | head -n 100; true")


def volume_links(server, broker, execd, sandboxctl):
    """The verdict: a workload replaces directories of its volume by links, the next create names
    them as subPath."""
    config = {"embedded": {"network": "none"}}
    with ServerProcess(server, broker, execd, sandboxctl, config=config) as process:
        run_once(process, f"mkdir /data/inner; echo {SECRET} | tee /data/secret > /data/inner/f",
                 volume("victim"))
        links = {path.split("/")[0]: target for path, target in LINKS.items()}
        run_once(process, "cd /data; " + "; ".join(f"ln -s {target} {name}"
                                                   for name, target in links.items()),
                 volume("mine"))
        shown = [path for path in LINKS if shows_secret(process, path)]
    if shown:
        return {"verdict": "OPEN", "detail": f"mounted by subPath {', '.join(shown)}"}
    return {"verdict": "BLOCKED", "detail": f"{len(LINKS)} links, none was followed"}
