#!/usr/bin/env python3
"""box_served.py - the battery in sandboxes of a server: a column for each runtime beside ours.

    box_served.py RUNTIME --probe PATH --secret PATH --out JSON [--runsc PATH]
                  --server PATH --broker PATH --execd PATH --sandboxctl PATH
    box_served.py --in CREATE-JSON ARGUMENT...

The first runs all probes on RUNTIME, in network and mount namespaces of its own, and writes the
results. The second is what it reaches a sandbox by: it creates one by the request in CREATE-JSON
(environment BATTERY_URL and BATTERY_KEY), runs /probe there through execd, as a workload is run,
prints what that printed and removes the sandbox.
"""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import sys
import time
import types

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "integration"), str(HERE.parent / "tools")]
sys.dont_write_bytecode = True
import battery  # noqa: E402 # beside this file
import docker_process  # noqa: E402 # of tests/integration, as the next two
from server_process import ServerProcess, wait_for  # noqa: E402
from server_use import Gateway  # noqa: E402

IMAGE = "battery:1"
MIB = 1 << 20
LIMITS = {"cpu": "500m", "memory": "256Mi", "disk": "32Mi"}
CPU_MILLICORES, PIDS = 500, 128
KILLED = 137
ENDED = ("Failed", "Terminated")
RUNTIMES = ("embedded+gvisor", "docker", "docker+gvisor")


def request_of(*entrypoint, without=""):
    return {"image": {"uri": IMAGE}, "entrypoint": list(entrypoint), "timeout": 3600,
            "resourceLimits": {name: limit for name, limit in LIMITS.items() if name != without}}


# --- one sandbox, for one run of the probe program ---

class Client:
    """A server's API as tests/integration/server_use.py wants it, by its address alone."""

    def __init__(self, domain, key):
        self.host, _, port = domain.partition(":")
        self.port, self.key = int(port), key

    def connection(self, timeout=600):
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def request(self, method, path, body=None):
        connection = self.connection()
        with contextlib.closing(connection):
            connection.request(method, path, body and json.dumps(body),
                               {"OPEN-SANDBOX-API-KEY": self.key,
                                "Content-Type": "application/json"})
            reply = connection.getresponse()
            data = reply.read()
            return reply.status, None, json.loads(data) if data else None

    def state(self, name):
        return self.request("GET", f"/v1/sandboxes/{name}")[2]["status"]["state"]


def events(reply):
    """Those of a command, as far as they came."""
    text = b""
    with contextlib.suppress(OSError, http.client.HTTPException):
        while part := reply.read1(1 << 16):
            text += part
    for part in text.split(b"\n\n"):
        with contextlib.suppress(json.JSONDecodeError):
            yield json.loads(part)


def run_inside(client, name, line):
    """What a line printed, and its exit status; None when execd did not live to tell."""
    with Gateway(types.SimpleNamespace(request=client.request, host=client.host, port=client.port,
                                       connection=lambda _: client.connection()), name) as gateway:
        told = list(events(gateway.start(line)))
    out = "\n".join(e["text"] for e in told if e["type"] == "stdout")
    last = told[-1] if told else {"type": ""}
    if last["type"] == "error":
        status = last["error"]["evalue"]
        return out, KILLED if status in ("-1", "137") else 1
    return out, 0 if last["type"] == "execution_complete" else None


def main_inside(request, *words):
    client = Client(os.environ["BATTERY_URL"], os.environ["BATTERY_KEY"])
    status, _, made = client.request("POST", "/v1/sandboxes", json.loads(request))
    assert status == 202, (status, made)
    name = made["id"]
    try:
        wait_for(lambda: client.state(name) in ("Running", *ENDED), "a sandbox")
        quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
        out, status = run_inside(client, name, f"exec /probe {quoted}")
        print(out, flush=True)
        if status is not None:
            return status
        end = time.monotonic() + 10
        while client.state(name) not in ENDED and time.monotonic() < end:
            time.sleep(0.1)
        return KILLED if client.state(name) in ENDED else 1
    finally:
        client.request("DELETE", f"/v1/sandboxes/{name}")


# --- a column ---

class Column:
    """A server with sandboxes of one runtime, and a neighbour."""

    def __init__(self, args, work):
        self.args, self.work = args, work
        self.gvisor = "gvisor" in args.runtime
        self.docker = args.runtime.startswith("docker")
        self.stack = contextlib.ExitStack()
        self.engine = self.server = None

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.start(stack)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def start(self, stack):
        root, args = self.work / "root", self.args
        battery.make_root(root, args.probe)
        secure = {"secure_runtime": {"type": "gvisor"}} if self.gvisor else {}
        programs = (args.server, args.broker, args.execd, args.sandboxctl)
        if self.docker:
            runtimes = {"runsc": (args.runsc, *docker_process.RUNSC_OPTIONS)}
            self.engine = stack.enter_context(docker_process.DockerEngine(
                runtimes=runtimes if self.gvisor else None))
            self.engine.import_root(root, IMAGE)
            if self.gvisor:
                secure["secure_runtime"]["docker_runtime"] = "runsc"
            config = {**secure, "docker": {"pids_limit": PIDS}}
            self.server = stack.enter_context(docker_process.DockerServer(
                *programs, config=config, engine=self.engine))
        else:
            config = {**secure, "embedded.runtimes": {"gvisor": args.runsc},
                      "embedded.images": {IMAGE: f"dir:{root}"}}
            self.server = stack.enter_context(ServerProcess(*programs, config=config))
        os.environ.update(BATTERY_URL=self.server.domain, BATTERY_KEY=self.server.api_key)

    @staticmethod
    def prefix(*entrypoint):
        body = request_of(*(entrypoint or ("/bin/busybox", "sleep", "3600")))
        return [sys.executable, __file__, "--in", json.dumps(body)]

    def create(self, *entrypoint):
        """Without a limit of disk, so that its files have a path on the host."""
        status, _, made = self.server.request("POST", "/v1/sandboxes",
                                              request_of(*entrypoint, without="disk"))
        assert status == 202, made
        self.server.wait_state(made["id"], "Running")
        return made["id"]

    def run_line(self, name, line):
        with Gateway(self.server, name) as gateway:
            return gateway.run(line)

    def neighbour(self):
        """Its address, a pid of it and a file of it, as the host sees them."""
        name = self.create("/probe", f"--neighbour={battery.PORT}")
        if self.docker:
            facts = self.engine.inspect(name)
            return {"neighbour-ip": facts["NetworkSettings"]["IPAddress"],
                    "neighbour-pid": facts["State"]["Pid"],
                    "neighbour-path": facts["GraphDriver"]["Data"]["UpperDir"] + "/neighbour-file"}
        shown = self.run_line(name, "/bin/busybox cat /etc/hosts")
        addresses = [line.split()[0] for line in shown.splitlines() if "sandbox-" in line]
        uppers = list(self.server.state.glob("slots/*/upper/neighbour-file"))
        return {"neighbour-ip" + "6" * (":" in address): address for address in addresses} | {
            "neighbour-pid": os.getpid(), "neighbour-path": uppers[0]}

    def gateway(self):
        """The host's addresses on the bridge of sandboxes."""
        if self.docker:
            return {"host-ip": self.engine.network + ".1"}
        links = json.loads(docker_process.run("ip", "-j", "addr", "show", "type", "bridge"))
        return {"host-ip" + "6" * (":" in a["local"]): a["local"] for link in links
                for a in link.get("addr_info", []) if a["scope"] == "global"}

    def settings(self):
        return {"secret-path": self.args.secret, "metadata-ip": battery.METADATA,
                "host-port": battery.PORT, "neighbour-port": battery.PORT,
                "cpu-millicores": CPU_MILLICORES, **self.gateway(), **self.neighbour()}

    def run(self, probes):
        settings = self.settings()
        listener = battery.listen(os.getpid(), f"0.0.0.0,{battery.PORT}",
                                  f"{battery.METADATA},80")
        try:
            results = battery.run_all(self.prefix(), settings, probes, battery.GROUPS)
            holder = self.create("/probe", "--hold-inotify=600")
            results |= battery.run_probes(self.prefix(), settings, ["inotify-starved"])[0]
            results |= self.again(settings, results)
            self.server.request("DELETE", f"/v1/sandboxes/{holder}")
        finally:
            battery.stop(listener)
        return results

    def again(self, settings, results):
        """Those that came after one of their group which ended the sandbox, each in its own."""
        found = {}
        for name, result in results.items():
            if not result["detail"].startswith("no result"):
                continue
            alone, done = battery.run_probes(self.prefix(), settings, [name])
            if done.returncode == KILLED:
                found[name] = {"verdict": "CONTAINED", "detail": "it ended its own sandbox"}
            found |= alone
        return found


def main_column(args):
    docker_process.run("ip", "link", "set", "lo", "up")
    docker_process.run("ip", "addr", "add", f"{battery.METADATA}/32", "dev", "lo")
    work = pathlib.Path(args.out).parent / args.runtime.replace("+", "-")
    work.mkdir()
    work.chmod(0o755)
    with Column(args, work) as column:
        results = column.run(battery.probe_list(args.probe))
    pathlib.Path(args.out).write_text(json.dumps(results), encoding="utf-8")
    return 0


def main():
    if sys.argv[1] == "--in":
        return main_inside(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runtime", choices=RUNTIMES)
    for name in ("probe", "secret", "out", "runsc", "server", "broker", "execd", "sandboxctl"):
        parser.add_argument("--" + name, type=os.path.abspath, required=name != "runsc")
    return main_column(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
