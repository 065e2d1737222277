"""kube_chaos.py - kills operator, server, API server and kubelet at random moments under traffic,
and looks for pods given twice or dirty, lost sandboxes, leaks and times to live not kept.

    run(world, seed, moments)  # a text that says what happened, or AssertionError

`world` has what is killed and used: cluster, operator (operator_process), server (server_process),
space (operator_process.Namespace), template and pool of pods, `node`: whether pods really run.
"""
import contextlib
import http.client
import math
import random
import threading
import time

from operator_process import allocated_of, wait_for
from server_use import Gateway

PATIENCE_S = 240
POD_MAX = 16
BATCHES = "batchsandboxes"
# What a request meets while its other end is dead, or has just started.
BROKEN = (OSError, http.client.HTTPException, AssertionError, ValueError)


class Book:
    """What must be true; threads share it."""

    def __init__(self):
        self.lock = threading.Lock()
        self.live = {}    # name of what must exist: when it ends
        self.users = {}   # name of a pod of the pool: uid of the one sandbox that ever had it
        self.wrong = []
        self.made = self.answered = self.used = 0

    def keep(self, name, until=math.inf):
        with self.lock:
            self.live[name] = until

    def drop(self, name):
        with self.lock:
            self.live.pop(name, None)

    def look(self, sandboxes, expected, asked_at):
        """Compares a list of sandboxes with what had to exist before and after it was made."""
        names, owners = {s["metadata"]["name"] for s in sandboxes}, {}
        for sandbox in sandboxes:
            name, uid = sandbox["metadata"]["name"], sandbox["metadata"]["uid"]
            for pod in allocated_of(sandbox) if sandbox["spec"].get("poolRef") else ():
                if pod in owners:
                    self.wrong.append(f"{pod} belongs to {owners[pod]} and {name}")
                owners[pod] = name
                if self.users.setdefault(pod, uid) != uid:
                    self.wrong.append(f"{name} got {pod}, which another has used")
        with self.lock:
            for name, until in expected.items():
                if name not in names and name in self.live and asked_at < until:
                    self.wrong.append(f"{name} is gone {until - asked_at:.1f} s before its end")
                    del self.live[name]


class Watcher(threading.Thread):
    """Looks at all sandboxes, again and again."""

    def __init__(self, world, book):
        super().__init__(daemon=True)
        self.world, self.book, self.stopped, self.looks = world, book, threading.Event(), 0

    def run(self):
        while not self.stopped.wait(0.1):
            with contextlib.suppress(*BROKEN):
                with self.book.lock:
                    expected = dict(self.book.live)
                found, now = self.world.space.list(BATCHES), time.time()
                # Clocks are one, and whole seconds are what an operator may cut off.
                self.book.look(found, expected, now + 1)
                self.looks += 1


class Traffic(threading.Thread):
    """Makes sandboxes of one kind and deletes some of them; the rest ends at its time."""

    def __init__(self, world, book, seed, make):
        super().__init__(daemon=True)
        self.world, self.book, self.make = world, book, make
        self.rng, self.stopped, self.live = random.Random(seed), threading.Event(), []
        self.name = make.__name__

    def run(self):
        while not self.stopped.wait(self.rng.uniform(0.02, 0.3)):
            with contextlib.suppress(*BROKEN):
                if len(self.live) < 4 and self.rng.random() < 0.6:
                    self.book.made += 1
                    name = self.make(self, f"{self.name}-{self.book.made}")
                    self.live += [name] if name else []
                elif self.live:
                    self.delete(self.live.pop(self.rng.randrange(len(self.live))))

    def delete(self, name):
        self.book.drop(name)
        for _ in range(50):  # whatever is dead now
            with contextlib.suppress(*BROKEN):
                self.world.space.delete(BATCHES, name)
                return
            time.sleep(0.2)


def pooled(traffic, name):
    """By the API of the cluster; without an answer it may exist and is deleted all the same."""
    traffic.live.append(name)
    traffic.world.space.pooled(name, "busy", traffic.rng.choice((1, 1, 2)))
    traffic.book.keep(name)
    return None


def batch(traffic, name):
    traffic.live.append(name)
    traffic.world.space.create(BATCHES, name, {
        "replicas": traffic.rng.choice((1, 2, 3)), "template": traffic.world.template})
    traffic.book.keep(name)
    return None


def short(traffic, name):
    """Nobody deletes it: it ends at its time, not before."""
    end = int(time.time()) + traffic.rng.randrange(2, 8)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end))
    traffic.world.space.pooled(name, "busy", expireTime=stamp)
    traffic.book.keep(name, end)
    return None


def served(traffic, name):
    """By our server, as clients do; its id is its name. One whose create was not answered may live
    all the same, and would keep its pod."""
    if traffic.rng.random() < 0.3:
        for one in listed(traffic.world.server) - set(traffic.live):
            traffic.world.server.request("DELETE", f"/v1/sandboxes/{one}")
    request = {"timeout": 3600, "extensions": {"poolRef": "busy"}, "metadata": {"by": name}}
    if traffic.world.node:
        request["env"] = {"BY": name}  # a task, which starts execd
    status, _, body = traffic.world.server.request("POST", "/v1/sandboxes", request, timeout=180)
    if status != 202:
        return None
    traffic.book.answered += 1
    traffic.book.keep(body["id"])
    if traffic.world.node:
        with contextlib.suppress(*BROKEN):
            use(traffic, body["id"])
    return body["id"]


def use(traffic, name):
    """Leaves a mark in the sandbox; one of another is a pod that was not clean."""
    with Gateway(traffic.world.server, name) as gateway:
        found = gateway.run("ls /root; echo mine >/root/mark")
    traffic.book.used += 1
    if found:
        traffic.book.wrong.append(f"{name} found {found!r}")


class Killer:
    """Who dies, and how it comes back."""

    def __init__(self, world, rng):
        self.world, self.rng, self.count = world, rng, {}
        self.ways = {"operator": (10, self.operator), "server": (5, self.server),
                     "kube-apiserver": (2, self.part), "kube-controller-manager": (1, self.part)}
        if world.node:
            self.ways["kubelet"] = (4, self.part)

    def operator(self, _):
        self.world.operator.kill()
        self.world.operator.start()

    def server(self, _):
        self.world.server.kill9()
        self.world.server.spawn()

    def part(self, name):
        self.world.cluster.revive(name, self.rng.uniform(0, 1))

    def kill_one(self):
        names = list(self.ways)
        name, = self.rng.choices(names, [self.ways[n][0] for n in names])
        self.ways[name][1](name)
        self.count[name] = self.count.get(name, 0) + 1

    def look_after(self):
        """What ended because the API server was away is started again, as a kubelet does."""
        for name, (_, way) in self.ways.items():
            if way == self.part and not self.world.cluster.is_alive(name):
                self.world.cluster.revive(name)
        if self.world.operator.process.poll() is not None:
            self.world.operator.start()
        if self.world.server.process.poll() is not None:
            self.world.server.spawn()


def run(world, seed, moments):
    rng, book = random.Random(seed), Book()
    killer, watcher = Killer(world, rng), Watcher(world, book)
    traffic = [Traffic(world, book, f"{seed}-{make.__name__}", make)
               for make in (pooled, batch, short, served)]
    for thread in (watcher, *traffic):
        thread.start()
    for _ in range(moments):
        time.sleep(rng.uniform(0.1, 1.5))
        killer.look_after()
        killer.kill_one()
    for thread in traffic:
        thread.stopped.set()
    for thread in traffic:
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), f"{thread.name} hangs"
    settle(world, book, killer)
    watcher.stopped.set()
    watcher.join(PATIENCE_S)
    assert not book.wrong, book.wrong[:5]
    assert book.made > moments and book.answered and watcher.looks > moments, "no traffic"
    return (f"{book.made} made, {book.answered} by the server, {book.used} of them used, "
            f"{len(book.users)} pods given, {watcher.looks} looks, killed: {killer.count}")


def settle(world, book, killer):
    """With nobody killed any more: what should run runs, and what is deleted leaves nothing."""
    def calm():
        killer.look_after()
        with contextlib.suppress(*BROKEN):
            return world.operator.is_ready() and world.server.is_ready() and \
                world.space.list(BATCHES) is not None
        return False
    wait_for("all programs", calm, PATIENCE_S)
    wait_for("the end of those whose time is over", lambda: not [
        s for s in world.space.list(BATCHES) if s["spec"].get("expireTime", "9") < time.strftime(
            "%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 2))], PATIENCE_S)
    with book.lock:
        staying = [name for name, until in book.live.items() if until == math.inf]
    end_all(world, book, staying[:POD_MAX // 4])
    for name in staying[:POD_MAX // 4]:
        world.space.wait_phase(name, seconds=PATIENCE_S)
    end_all(world, book)
    wait_for("an idle pool", lambda: (s := world.space.status("pools", "busy")).get("allocated")
             == 0 and s["total"] == s["available"] == len(world.space.list("pods")), PATIENCE_S)
    assert world.operator.figure("opensandbox_operator_duplicate_claims_total") == 0


def listed(server):
    """What the server shows."""
    status, _, body = server.request("GET", "/v1/sandboxes?pageSize=200")
    assert status == 200, (status, body)
    return {item["id"] for item in body["items"]}


def end_all(world, book, but=()):
    """All that the server shows by the server, the rest by the cluster."""
    def unknown():
        known = listed(world.server)
        return [s["metadata"]["name"] for s in world.space.list(BATCHES)
                if "opensandbox.io/id" in s["metadata"].get("labels", {}) and
                s["metadata"]["name"] not in known and "deletionTimestamp" not in s["metadata"]]

    def left():
        return {s["metadata"]["name"] for s in world.space.list(BATCHES)} - set(but)
    wait_for("the server to know all that it made", lambda: not unknown(), PATIENCE_S)
    served_ones = listed(world.server)
    for name in served_ones - set(but):
        book.drop(name)
        world.server.request("DELETE", f"/v1/sandboxes/{name}")
    for name in left() - served_ones:
        book.drop(name)
        world.space.delete(BATCHES, name)
    wait_for("the end of all sandboxes", lambda: not left(), PATIENCE_S)
    wait_for("an empty list of the server", lambda: not listed(world.server) - set(but),
             PATIENCE_S)
