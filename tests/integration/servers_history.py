"""servers_history.py - could what clients of several servers saw be, if each sandbox were one?

A history has, for each sandbox, the operations of all clients with the time of their call and of
their answer. It is linearizable if there is one order of them, each at a moment between its call
and its answer, in which every answer is right. An operation whose answer was lost, or was a 5xx,
may have happened at any moment after its call, or never.

    history = History()
    call = history.begin("pause"); ...; history.end(sandbox, call, "ok")
    problem = check(history.of(sandbox))   # None = linearizable
"""
import dataclasses
import math
import random
import threading
import time
from http.client import HTTPException

RUNNING, PAUSED, STOPPING, GONE = "Running", "Paused", "Stopping", "gone"
REFUSED, UNKNOWN, OK = "refused", "unknown", "ok"
SEEN_MAX = 3_000_000


@dataclasses.dataclass
class Op:
    kind: str  # create, get, pause, resume, renew, remove (the first half of a delete), delete
    call: float
    answer: float = math.inf
    result: object = UNKNOWN  # of get: (state, expiry) or GONE
    value: str = ""  # of create and renew: the expiry
    after: object = None  # not before this one

    def __str__(self):
        return (f"{self.kind} {self.value} -> {self.result} "
                f"[{self.call:.3f}, {self.answer:.3f}]")


MOVES = {"pause": (RUNNING, PAUSED), "resume": (PAUSED, RUNNING)}


def apply(state, op):
    """The state after it, or None when its answer is wrong in this state."""
    now, expiry = state
    if op.kind == "create":
        return (RUNNING, op.value) if now is None else None
    if now is None:
        return None
    if op.result == GONE:
        return state if now == GONE else None
    if op.kind == "get":
        return state if op.result == state else None
    if op.kind == "remove":
        return (STOPPING, expiry) if now != GONE else state if op.result == UNKNOWN else None
    if op.kind == "delete":
        return (GONE, "") if now in (STOPPING, GONE) else None
    if op.kind == "renew":
        if now in (RUNNING, PAUSED):
            return (now, op.value) if op.result != REFUSED else None
        return state if op.result != OK else None
    begin, end = MOVES[op.kind]
    if now == begin:
        return (end, expiry) if op.result != REFUSED else None
    return state if op.result != OK and now != GONE or op.result == UNKNOWN else None


def is_read(op):
    return op.kind == "get" or op.result == GONE


def without_the_unseen(ops):
    """An unknown renewal whose expiry nobody saw may as well never have happened."""
    seen = {op.result[1] for op in ops if op.kind == "get" and op.result != GONE}
    return [op for op in ops
            if op.kind != "renew" or op.result != UNKNOWN or op.value in seen]


def check(ops):
    """None when the operations of one sandbox have an order; else the operations, as a text.

    A search over what may come next. A read that is right now is taken at once: that never hurts.
    Of unknown operations that are alike, the one that was called first is tried."""
    ops = without_the_unseen(sorted(ops, key=lambda op: op.call))
    needed = sum(1 << i for i, op in enumerate(ops) if op.answer < math.inf)
    index = {id(op): i for i, op in enumerate(ops)}
    seen, stack = set(), [(0, 0, (None, ""))]
    while stack:
        low, done, state = stack.pop()  # all below `low` is done, or unknown
        maybe, sure = [], []
        if done & needed == needed:
            return None
        while low < len(ops) and (done >> low & 1):
            low += 1
        i, first = low, math.inf
        while i < len(ops) and ops[i].call <= first:
            op = ops[i]
            if not done >> i & 1 and not (op.after and not done >> index[id(op.after)] & 1):
                after = apply(state, op)
                if after is not None and is_read(op):
                    done, i, first, maybe, sure = done | 1 << i, low, math.inf, [], []
                    if done & needed == needed:
                        return None
                    continue
                if after is not None and op.answer < math.inf:
                    sure.append((i, after))
                elif after is not None and after != state and not any(
                        (ops[j].kind, ops[j].value) == (op.kind, op.value) for j, _ in maybe):
                    maybe.append((i, after))
            if not done >> i & 1:
                first = min(first, op.answer)
            i += 1
        if (done, state) in seen:
            continue
        seen.add((done, state))
        assert len(seen) < SEEN_MAX, "too many orders to try: this history decides nothing"
        stack += [(low, done | 1 << i, after) for i, after in maybe + sure[::-1]]
    return "\n".join(map(str, ops))


class History:
    """Operations by sandbox; for several threads."""

    def __init__(self):
        self.ops, self.lock = {}, threading.Lock()

    def add(self, name, *ops):
        with self.lock:
            self.ops.setdefault(name, []).extend(ops)

    def problems(self):
        return {name: problem for name, ops in self.ops.items() if (problem := check(ops))}

    def count(self):
        return sum(map(len, self.ops.values()))


# --- clients ---


def stamp(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


REQUEST = {"image": {"uri": "host"}, "entrypoint": ["sleep", "1000000"], "timeout": 3600,
           "resourceLimits": {"memory": "64Mi"}}


class Clients:
    """Threads that use sandboxes through servers chosen at random, and write down what they saw."""

    def __init__(self, servers, seed, sandboxes=6, threads=3, pause_s=0.04):
        self.servers, self.history = servers, History()
        self.random = random.Random(seed)
        self.pause_s = pause_s
        self.live, self.lock = [], threading.Lock()
        self.made, self.away = set(), 0
        self.stopped, self.errors = False, []
        for _ in range(sandboxes):
            self.create(self.random.choice(servers))
        assert len(self.live) == sandboxes, "servers without faults create sandboxes"
        self.threads = [threading.Thread(target=self.run, args=(self.random.random(),))
                        for _ in range(threads)]
        for thread in self.threads:
            thread.start()

    def ask(self, server, method, path, body=None):
        """Status and body; None when nothing was sent, status 0 when the answer was lost."""
        try:
            status, _, body = server.request(method, path, body, timeout=30)
        except ConnectionRefusedError:
            return None
        except (OSError, HTTPException):
            return 0, None
        return status, body

    def create(self, server):
        call = time.monotonic()
        answer = self.ask(server, "POST", "/v1/sandboxes", REQUEST)
        if not answer or answer[0] != 202:
            return
        name, end = answer[1]["id"], time.monotonic() + 60
        self.made.add(name)
        while time.monotonic() < end and not self.stopped:
            seen = self.ask(server, "GET", f"/v1/sandboxes/{name}")
            if seen and seen[0] == 200:
                state, away = seen[1]["status"]["state"], seen[1]["status"]["reason"]
                if state == RUNNING and away != "SERVER_AWAY":
                    self.history.add(name, Op("create", call, time.monotonic(), OK,
                                              seen[1]["expiresAt"]))
                    with self.lock:
                        self.live.append(name)
                    return
                if state in ("Failed", "Terminated"):
                    return  # its server was killed while it made it
            elif seen and seen[0] == 404:
                raise AssertionError(f"{name}: created, and not there")
            time.sleep(0.05)

    def run(self, seed):
        choose = random.Random(seed)
        try:
            while not self.stopped:
                self.step(choose)
                time.sleep(self.pause_s)
        except Exception as error:  # the main thread tells of it
            self.errors.append(error)

    def step(self, choose):
        server = choose.choice(self.servers)
        kind = choose.choices(["get", "pause", "resume", "renew", "delete"],
                              [48, 17, 17, 14, 4])[0]
        with self.lock:
            name = choose.choice(self.live) if self.live else None
            if kind == "delete" and name:
                self.live.remove(name)
        if name:
            getattr(self, kind)(server, name)
        if not name or kind == "delete":
            self.create(choose.choice(self.servers))

    def get(self, server, name):
        op = Op("get", time.monotonic())
        answer = self.ask(server, "GET", f"/v1/sandboxes/{name}")
        op.answer = time.monotonic()
        if not answer or answer[0] not in (200, 404):
            return
        if answer[0] == 404:
            op.result = GONE
        elif answer[1]["status"]["reason"] == "SERVER_AWAY":
            self.away += 1  # it says that it is only the last state that was stored
            return
        else:
            op.result = (answer[1]["status"]["state"], answer[1]["expiresAt"])
        self.history.add(name, op)

    def change(self, server, name, op, method, path, body=None):
        answer = self.ask(server, method, f"/v1/sandboxes/{name}{path}", body)
        if answer is None:
            return
        status = answer[0]
        if 200 <= status < 300:
            op.result = OK
        elif status == 409:
            op.result = REFUSED
        elif status == 404:
            op.result = GONE
        elif status and status < 500:
            raise AssertionError((op.kind, answer))
        if op.result != UNKNOWN:
            op.answer = time.monotonic()
        self.history.add(name, op)

    def pause(self, server, name):
        self.change(server, name, Op("pause", time.monotonic()), "POST", "/pause")

    def resume(self, server, name):
        self.change(server, name, Op("resume", time.monotonic()), "POST", "/resume")

    def renew(self, server, name):
        until = stamp(3600 + self.random.randrange(100000))
        self.change(server, name, Op("renew", time.monotonic(), value=until), "POST",
                    "/renew-expiration", {"expiresAt": until})

    def delete(self, server, name):
        op = Op("delete", time.monotonic())
        first = Op("remove", op.call)
        op.after = first
        self.change(server, name, op, "DELETE", "")
        if op.result == GONE:
            op.kind, op.after = "get", None
        else:
            first.answer, first.result = op.answer, op.result
            self.history.add(name, first)

    def stop(self):
        self.stopped = True
        for thread in self.threads:
            thread.join()
        if self.errors:
            raise self.errors[0]


# --- faults ---


def faults(servers, names, choose, moments):
    """Kills servers, cuts their ways to the database, and those of other servers to them, at random
    moments; counts by kind."""
    done = {"kill": 0, "cut": 0, **({"apart": 0} if servers.doors else {})}
    for _ in range(moments):
        time.sleep(choose.uniform(0.05, 0.8))
        name, kind = choose.choice(names), choose.choice(list(done))
        if kind == "kill":
            servers[name].kill9()
            time.sleep(choose.choice([0, 0, choose.uniform(0, 4)]))
            servers[name].start()
        else:
            way = servers.way(name) if kind == "cut" else servers.door(name)
            way.cut()
            time.sleep(choose.choice([0.01, choose.uniform(0, 0.5), choose.uniform(0, 5)]))
            way.mend()
        done[kind] += 1
    return done


def settle(servers, names, seconds=60):
    """Until every server answers for the sandboxes of all."""
    end = time.monotonic() + seconds
    for name in names:
        while True:
            status, _, body = servers[name].request("GET", "/v1/sandboxes?pageSize=200")
            if status == 200 and all(item["status"]["reason"] != "SERVER_AWAY"
                                     for item in body["items"]):
                break
            assert time.monotonic() < end, (name, status, body)
            time.sleep(0.1)


def expire_all(clients, servers, names):
    """Gives each sandbox that is left 4 s, and sees it end then: not before, and not twice."""
    for name in clients.live:
        until = stamp(4)
        end = time.time() + 60
        while True:
            status, _, body = servers[names[0]].request(
                "POST", f"/v1/sandboxes/{name}/renew-expiration", {"expiresAt": until})
            if status == 200:
                break
            assert status >= 500 and time.time() < end, (name, status, body)
            until = stamp(4)
        clients.expiries[name] = until
    for name, until in clients.expiries.items():
        end = time.time() + 90
        while servers[names[-1]].request("GET", f"/v1/sandboxes/{name}")[0] != 404:
            assert time.time() < end, f"{name} did not expire"
            time.sleep(0.1)
        assert time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time())) >= until, name


def run(servers, names, seed, moments, **options):
    """Clients under faults; the history must be linearizable, and nothing lost or left."""
    clients = Clients([servers[name] for name in names], seed, **options)
    clients.expiries = {}
    try:
        done = faults(servers, names, random.Random(seed + 1), moments)
        settle(servers, names)
        time.sleep(0.3)
    finally:
        clients.stop()
    problems = clients.history.problems()
    assert not problems, "not linearizable:\n" + "\n\n".join(
        f"{name}\n{text}" for name, text in problems.items())
    for name in clients.live:  # acknowledged, never deleted: it must be there, at every server
        for server in names:
            status, _, body = servers[server].request("GET", f"/v1/sandboxes/{name}")
            assert status == 200, (name, server, status, body)
    count = len(clients.live)
    expire_all(clients, servers, names)
    for item in servers[names[0]].request("GET", "/v1/sandboxes?pageSize=200")[2]["items"]:
        servers[names[-1]].request("DELETE", f"/v1/sandboxes/{item['id']}")
    return {**done, "operations": clients.history.count(), "sandboxes": len(clients.made),
            "left": count, "away": clients.away}
