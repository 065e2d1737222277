"""docker_faults.py - kills at random moments while clients use the docker runtime, and what must
hold afterwards: no container without a sandbox, no sandbox that is lost, no state that is not so.

A round: clients create, pause, resume, stop, start and delete at the same time; at a random moment
the server is killed, or the engine, or the engine is stopped for a while or its disk is full, or a
container is removed behind the server's back. Then all is started again, and compared.
"""
import contextlib
import errno
import http.client
import json
import os
import random
import signal
import threading
import time

from server_process import wait_for

REQUEST = {"entrypoint": ["sleep", "1000000"], "timeout": 3600,
           "resourceLimits": {"cpu": "1", "memory": "64Mi"}}
POLICY = {"defaultAction": "deny", "egress": []}
CLIENTS = 3
SIDECAR_FOR = "opensandbox.io/egress-sidecar-for"
AS_THE_ENGINE_SAYS = {"running": "Running", "paused": "Paused", "exited": "Failed"}


class Load:
    """Clients that go on until stop(). With policies, every other sandbox has a sidecar."""

    def __init__(self, server, image, seed, policies):
        self.server, self.image, self.policies = server, image, policies
        self.over = threading.Event()
        self.deleted, self.lock = set(), threading.Lock()
        self.acts = 0
        self.threads = [threading.Thread(target=self.run, args=(seed * 100 + i,))
                        for i in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def ask(self, method, path, body=None):
        """None when the server is not there, or breaks off."""
        with contextlib.suppress(OSError, http.client.HTTPException, json.JSONDecodeError):
            self.acts += 1
            return self.server.request(method, "/v1" + path, body, timeout=60)
        return None

    def run(self, seed):
        chance, mine = random.Random(seed), []
        while not self.over.is_set():
            act = chance.choice(("create", "create", "pause", "resume", "stop", "start", "delete"))
            if act == "create" and len(mine) < 3:
                more = {"networkPolicy": POLICY} if self.policies and chance.random() < 0.5 else {}
                more["persistent"] = chance.random() < 0.5
                answer = self.ask("POST", "/sandboxes",
                                  {**REQUEST, "image": {"uri": self.image}, **more})
                if answer and answer[0] == 202:
                    mine.append(answer[2]["id"])
            elif mine and act == "delete":
                answer = self.ask("DELETE", f"/sandboxes/{mine[0]}")
                if answer and answer[0] == 204:
                    with self.lock:
                        self.deleted.add(mine.pop(0))
            elif mine:
                self.ask("POST", f"/sandboxes/{mine[-1]}/{act}")
            time.sleep(0.005)

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join()


def kill_server(server, engine, chance):
    server.kill9()


def kill_engine(server, engine, chance):
    engine.stop(signal.SIGKILL)
    time.sleep(chance.uniform(0, 0.3))
    engine.start()


def stop_engine(server, engine, chance):
    engine.process.send_signal(signal.SIGSTOP)
    time.sleep(chance.uniform(0.1, 2))
    engine.process.send_signal(signal.SIGCONT)


def remove_container(server, engine, chance):
    containers = server.containers()
    if containers:
        engine.request("DELETE", f"/containers/{chance.choice(containers)['Id']}?force=1")


def stop_engine_long(server, engine, chance):
    engine.process.send_signal(signal.SIGSTOP)
    time.sleep(30)
    engine.process.send_signal(signal.SIGCONT)


def fill_disk(server, engine, chance):
    """Needs an engine with a disk of its own."""
    filler = engine.folder / "data" / "filler"
    with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 20))
    try:
        name = engine.folder / "data" / "probe"
        name.write_bytes(bytes(1 << 20))
        raise AssertionError("the disk is not full")
    except OSError as e:
        assert e.errno == errno.ENOSPC, e
    finally:
        time.sleep(chance.uniform(0.5, 3))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        os.unlink(filler)


FAULTS = (kill_server,) * 6 + (stop_engine, remove_container, remove_container, kill_engine)
# Those of the drill: how often each.
DRILL = {kill_server: 100, kill_engine: 8, stop_engine: 8, stop_engine_long: 1, fill_disk: 5,
         remove_container: 10}


def disagreements(server):
    """What the server says against what the engine says; [] once they agree."""
    items = {}
    page = 1
    while True:
        body = server.request("GET", f"/v1/sandboxes?page={page}&pageSize=100")[2]
        items.update({item["id"]: "Stopped" if item["status"]["reason"] == "STOPPED" else
                      item["status"]["state"] for item in body["items"]})
        if not body["pagination"]["hasNextPage"]:
            break
        page += 1
    all_of_them = server.containers()
    containers = {c["Labels"]["opensandbox.io/id"]: c["State"] for c in all_of_them
                  if "opensandbox.io/id" in c["Labels"]}
    sidecars = {c["Labels"][SIDECAR_FOR] for c in all_of_them if SIDECAR_FOR in c["Labels"]}
    wrong = [("orphan", name) for name in sidecars | set(containers) if name not in items]
    for name, state in items.items():
        there = containers.get(name)
        if there is None and state not in ("Failed", "Terminated"):
            wrong.append(("lost", name, state))
        elif there in AS_THE_ENGINE_SAYS and state != AS_THE_ENGINE_SAYS[there] and \
                not (there == "exited" and state in ("Terminated", "Stopped")):
            wrong.append(("false", name, state, there))
        elif state in ("Pending", "Stopping", "Pausing", "Resuming"):
            wrong.append(("half done", name, state))
    return wrong


def round_of(server, engine, image, seed, policies=False, fault=None):
    """One fault, by chance where none is given; returns its name."""
    chance = random.Random(seed)
    fault = fault or chance.choice(FAULTS)
    load = Load(server, image, seed, policies)
    time.sleep(chance.uniform(0.05, 1.2))
    try:
        fault(server, engine, chance)
    finally:
        load.stop()
    if server.process.poll() is not None:
        server.start()
    wait_for(lambda: not disagreements(server), f"agreement after {fault.__name__}, seed {seed}")
    back = [name for name in load.deleted
            if server.request("GET", f"/v1/sandboxes/{name}")[0] != 404]
    assert not back, f"deleted, and there again: {back}"
    for item in server.request("GET", "/v1/sandboxes?pageSize=100")[2]["items"]:
        status, _, body = server.request("DELETE", f"/v1/sandboxes/{item['id']}")
        assert status in (204, 404), (status, body)
    wait_for(lambda: not server.containers(), "the end of all containers")
    return fault.__name__
