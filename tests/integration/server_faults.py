"""server_faults.py - kills a server under load, and holds it to what it had answered.

Every client keeps a ledger of its sandboxes: for each property the values it may have. An answer
leaves one; a request that broke off leaves the one before and the one asked for. After a start the
server must show values of the ledger, the runtime must agree with the server, and nothing may be
left of what is gone. Shared by test_server_faults.py and tests/drill.
"""
import contextlib
import datetime
import http.client
import json
import os
import random
import signal
import threading
import time
import urllib.parse

from broker_process import children, comm, is_alive
from fault_phases import cgroups_of
from server_process import SECONDS_MAX, ServerProcess, wait_for

SANDBOXES_PER_CLIENT = 5
LONG_SECONDS = 3600
LIVE = {"Running", "Paused"}
BROKEN = (OSError, http.client.HTTPException)


def stamp(seconds_ahead):
    """A time as the API writes it, to the microsecond; never a whole second, which it shortens."""
    when = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds_ahead)
    if when.microsecond == 0:
        when = when.replace(microsecond=1)
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds_of(text):
    """A time of the API, as time.time() counts."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class Record:
    """One sandbox, as its client knows it: the values each property may have."""

    def __init__(self, tag, volume):
        self.tag, self.volume, self.id = tag, volume, None
        self.may = {"n": {"0"}, "state": set(LIVE | {"Failed"}), "expires": set()}
        self.may_be_gone = True

    def sure(self, **values):
        for name, value in values.items():
            self.may[name] = {value}

    @property
    def state(self):
        return next(iter(self.may["state"])) if len(self.may["state"]) == 1 else None

    def see(self, body):
        """Takes over what the server shows. What is wrong with it, or None."""
        metadata = body.get("metadata", {})
        shown = {"n": metadata.get("n"), "state": body["status"]["state"],
                 "expires": body.get("expiresAt")}
        wrong = [f"{name} is {shown[name]}, not {sorted(may)}" for name, may in self.may.items()
                 if may and shown[name] not in may]
        if metadata.get("n") != metadata.get("m"):
            wrong.append(f"half a patch: {metadata}")
        self.id = body["id"]
        self.sure(**shown)
        self.may_be_gone = False
        return f"{self.id} ({self.tag}): {'; '.join(wrong)}; {body['status']}" if wrong else None

    def must_be_gone(self, ready_at):
        """Whether its time was over, for sure, before the server that was ready then began."""
        return bool(self.may["expires"]) and max(map(seconds_of, self.may["expires"])) < ready_at

    def gone_is_fine(self):
        return self.may_be_gone or any(seconds_of(t) <= time.time() for t in self.may["expires"])


class Client:
    """Sends one request at a time, for sandboxes that no other client uses."""

    def __init__(self, server, number, rng):
        self.server, self.number, self.random = server, number, rng
        self.records, self.deleted, self.findings = [], [], []
        self.made, self.calls, self.stopping, self.broker_dies = 0, 0, False, False
        self.connection = None

    # --- one request ---

    def ask(self, method, path, body=None):
        """Status and body; None when the outcome is unknown."""
        if self.connection is None:
            self.connection = http.client.HTTPConnection(
                self.server.host, self.server.port, timeout=SECONDS_MAX)
        headers = {"OPEN-SANDBOX-API-KEY": self.key}
        if body is not None:
            body, headers["Content-Type"] = json.dumps(body), "application/json"
        try:
            self.connection.request(method, path, body=body, headers=headers)
            reply = self.connection.getresponse()
            data = reply.read()
        except BROKEN as error:
            if isinstance(error, TimeoutError):
                self.findings.append(f"{method} {path} took {SECONDS_MAX} s")
            self.hang_up()
            return None, None
        self.calls += 1
        if reply.status >= 500:
            if not self.broker_dies:
                self.findings.append(f"{method} {path}: {reply.status} {data[:300]}")
            return None, None
        return reply.status, json.loads(data) if data else {}

    def hang_up(self):
        if self.connection:
            self.connection.close()
        self.connection = None
        self.stopping = True

    def expect(self, wanted, method, record, verb, body=None):
        """True when the request was carried out, False when that is unknown."""
        path = f"/v1/sandboxes/{record.id}{verb}"
        status, answer = self.ask(method, path, body)
        if status is None:
            return False
        if status == wanted:
            return True
        self.findings.append(f"{method} {path}: {status} {answer}, with {record.may}")
        return False

    # --- what it does ---

    def create(self):
        self.made += 1
        tag = f"c{self.number}-{self.made}"
        volume = f"v{tag}" if self.random.random() < 0.4 else None
        record = Record(tag, volume)
        body = {"image": {"uri": "host"}, "entrypoint": ["sleep", "1000000"], "timeout": 60,
                "resourceLimits": {"cpu": "1", "memory": "256Mi"},
                "metadata": {"tag": tag, "n": "0", "m": "0"}}
        if volume:
            body["volumes"] = [{"name": "data", "mountPath": "/data", "pvc": {
                "claimName": volume, "deleteOnSandboxTermination": True}}]
        self.records.append(record)
        status, answer = self.ask("POST", "/v1/sandboxes", body)
        if status is None:
            return
        if status != 202:
            self.findings.append(f"create: {status} {answer}")
            self.records.remove(record)
            return
        record.id, record.may_be_gone = answer["id"], False
        record.sure(expires=answer["expiresAt"])
        if answer["status"]["state"] == "Pending":
            answer = self.wait_created(record)
        if answer:
            self.created(record, answer["status"])

    def wait_created(self, record):
        while True:
            status, answer = self.ask("GET", f"/v1/sandboxes/{record.id}")
            if status is None:
                return None
            if answer["status"]["state"] != "Pending":
                return answer
            time.sleep(0.01)

    def created(self, record, status):
        if status["state"] == "Running":
            record.sure(state="Running")
            self.renew(record, stamp(LONG_SECONDS))
        elif not self.broker_dies:
            self.findings.append(f"create: {status}")

    def patch(self, record):
        n = str(int(max(record.may["n"], key=int)) + 1)
        record.may["n"].add(n)
        if self.expect(200, "PATCH", record, "/metadata", {"n": n, "m": n}):
            record.sure(n=n)

    def renew(self, record, when=None):
        when = when or stamp(LONG_SECONDS + self.random.random())
        record.may["expires"].add(when)
        if self.expect(200, "POST", record, "/renew-expiration", {"expiresAt": when}):
            record.sure(expires=when)

    def pause_or_resume(self, record):
        verb, state = ("/resume", "Running") if record.state == "Paused" else ("/pause", "Paused")
        record.may["state"].add(state)
        if self.expect(202, "POST", record, verb):
            record.sure(state=state)

    def delete(self, record):
        record.may_be_gone = True
        if self.expect(204, "DELETE", record, ""):
            self.records.remove(record)
            self.deleted.append(record)

    def doom(self, record):
        """Sets an expiry in the near future, after which the client does not use the sandbox again.
        When that time has passed before the server reads the request, nothing changes."""
        before, soon = record.may["expires"], stamp(self.random.choice((0.3, 1, 2, 3)))
        record.may["expires"] = before | {soon}
        path = f"/v1/sandboxes/{record.id}/renew-expiration"
        status, answer = self.ask("POST", path, {"expiresAt": soon})
        if status == 200:
            record.sure(expires=soon)
        elif status == 400:
            record.may["expires"] = before
        elif status is not None:
            self.findings.append(f"POST {path}: {status} {answer}, with {record.may}")

    def act(self):
        known = [r for r in self.records if r.id and not r.may_be_gone
                 and min(map(seconds_of, r.may["expires"])) > time.time() + 30]
        if len(known) < 2 or (len(known) < SANDBOXES_PER_CLIENT and self.random.random() < 0.3):
            self.create()
            return
        record = self.random.choice(known)
        if record.state not in LIVE:
            self.delete(record)
            return
        self.random.choice((self.patch, self.patch, self.renew, self.pause_or_resume,
                            self.pause_or_resume, self.delete, self.doom))(record)

    def run(self):
        while not self.stopping:
            self.act()

    def start(self):
        self.key = self.server.api_key
        self.stopping = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def join(self):
        self.stopping = True
        self.thread.join(2 * SECONDS_MAX)
        assert not self.thread.is_alive(), "a client hangs"
        self.hang_up()


# --- what must hold ---


def listed(server):
    """All sandboxes the server has, by their id."""
    found, page = {}, 1
    while True:
        status, _, body = server.request("GET", f"/v1/sandboxes?pageSize=200&page={page}")
        assert status == 200, body
        found.update({item["id"]: item for item in body["items"]})
        if not body["pagination"]["hasNextPage"]:
            return found
        page += 1


def check_ledgers(clients, shown, ready_at):
    """Checks that the server shows what clients were told, and updates their ledgers from it."""
    by_tag = {}
    for item in shown.values():
        by_tag.setdefault(item["metadata"]["tag"], []).append(item)
    for client in clients:
        for record in list(client.records):
            items = by_tag.pop(record.tag, [])
            assert len(items) <= 1, f"one request made {len(items)} sandboxes: {items}"
            if not items:
                assert record.gone_is_fine(), f"{record.id} is lost; it may be {record.may}"
                client.records.remove(record)
                client.deleted.append(record)
                continue
            assert record.id in (None, items[0]["id"]), (record.id, items)
            if items[0]["status"]["state"] == "Stopping" and record.gone_is_fine():
                continue
            wrong = record.see(items[0])
            assert not wrong, wrong
            assert not record.must_be_gone(ready_at), \
                f"{record.id} expired {ready_at - seconds_of(items[0]['expiresAt']):.1f} s " \
                f"before the server was ready, and is there: {items[0]}"
    assert not by_tag, f"sandboxes that were deleted, or that no client created: {by_tag}"


def broker_processes(server):
    """First process and workers of the server's broker, then the children they have parked."""
    tops = [pid for pid in children(server.pid) if comm(pid).startswith("opensandbox-br")]
    workers = [pid for top in tops for pid in children(top)]
    return tops, workers, [pid for worker in workers for pid in children(worker)]


def check_runtime(server, shown):
    """The runtime has what the server shows, in that state, and nothing else."""
    running = {s.id: s for s in server.broker.list()}
    states = {"Running": "running", "Paused": "paused"}
    for name, item in shown.items():
        state = item["status"]["state"]
        assert state in LIVE | {"Failed"}, f"{name} is {item['status']}"
        if state in LIVE:
            have = running.pop(name, None)
            assert have and have.state == states[state] and is_alive(have.pid), \
                f"{name}: {item['status']}, but the runtime says {have and have.state}"
        else:
            assert name not in running, f"{name} failed, and is {running[name].state}"
    assert not running, f"orphans: {[(s.id, s.state) for s in running.values()]}"


def lost_groups(server):
    """Groups of no sandbox and no slot made ahead."""
    slots = {str(s.slot) for s in server.broker.list()}
    ahead = " ".join(cgroups_of(pid) for pids in broker_processes(server) for pid in pids)
    named = [(path, path.rstrip("/").rsplit("/", 1)[1]) for path in server.broker.groups()]
    return [path for path, slot in named
            if slot not in slots and f"{server.broker.group}/{slot}/" not in ahead]


def check_leftovers(server, shown, clients):
    """No directories, groups and volumes of sandboxes that are gone."""
    data = server.state / "server"
    live = {name for name, item in shown.items() if item["status"]["state"] != "Failed"}
    found = [f"directory {name}" for name in os.listdir(data / "sandboxes") if name not in live]
    kept = {r.volume for c in clients for r in c.records if r.id in live}
    found += [f"volume {name}" for name in os.listdir(data / "volumes") if name not in kept]
    assert not found, f"left behind: {found[:5]}"
    wait_for(lambda: not lost_groups(server), "the cleaner")


def check_data_plane(server, shown, rng):
    """A running sandbox answers, with the token it was created with."""
    running = [name for name, item in shown.items() if item["status"]["state"] == "Running"
               and seconds_of(item["expiresAt"]) > time.time() + 30]
    if not running:
        return
    name = rng.choice(sorted(running))
    status, _, body = server.request("GET", f"/v1/sandboxes/{name}/endpoints/44772")
    assert status == 200, body
    path = urllib.parse.urlsplit("http://" + body["endpoint"]).path + "/ping"
    status, _, answer = server.request("GET", path, headers=body["headers"], key=None)
    assert status == 200, f"{name} runs, and says {status} {answer}"


def check(server, clients, rng, ready_at):
    findings = [text for client in clients for text in client.findings]
    assert not findings, "; ".join(findings[:5])
    shown = listed(server)
    check_ledgers(clients, shown, ready_at)
    end = time.monotonic() + SECONDS_MAX
    while True:
        try:
            shown = listed(server)
            check_runtime(server, shown)
            check_leftovers(server, shown, clients)
            break
        except AssertionError:  # what expires while we look is gone in one view, not in the other
            if time.monotonic() > end:
                raise
        time.sleep(0.1)
    check_data_plane(server, shown, rng)


def check_expiry(server, clients):
    """All expired sandboxes vanish soon, from the server and from the runtime."""
    doomed = [r for c in clients for r in c.records
              if max(map(seconds_of, r.may["expires"])) < time.time() + 30]
    names = {r.id for r in doomed}

    def are_gone():
        return not names & set(listed(server)) and not names & {s.id for s in server.broker.list()}

    wait_for(are_gone, f"the end of {len(doomed)} sandboxes whose time is over")
    for client in clients:
        client.records = [r for r in client.records if r not in doomed]
    return len(doomed)


# --- the run ---


class Killer:
    """Ends the server, its broker, or a worker of that."""

    def __init__(self, server, rng):
        self.server, self.random = server, rng
        self.killed, self.slowest_start = {}, 0.0

    def strike(self, pids, kind):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.killed[kind] = self.killed.get(kind, 0) + 1

    def end_server(self, kind):
        helpers = children(self.server.pid)
        self.strike([self.server.pid], kind)
        self.server.process.wait()
        if self.random.random() < 0.5:  # else the next one meets what is left of it
            wait_for(lambda: not any(map(is_alive, helpers)), "the end of the broker")

    def begin(self):
        """Starts another server, which is sometimes killed before it is ready. Returns when it
        began to start."""
        while self.random.random() < 0.25:
            self.server.start(wait=False)
            time.sleep(self.random.random() * 0.3)
            self.end_server("server that starts")
        begin = time.time()
        self.server.start()
        self.slowest_start = max(self.slowest_start, time.time() - begin)
        return begin

    def count(self):
        return self.killed.get("server", 0) + self.killed.get("server that starts", 0)


def round_of_kills(server, clients, killer, rng):
    """Runs load and kills a process in the middle. Returns when the next server began to start."""
    victim = rng.choice(("server",) * 8 + ("broker", "worker"))
    for client in clients:
        client.broker_dies = victim == "broker"
        client.start()
    time.sleep(rng.random() * 0.5)
    if victim == "worker":
        killer.strike(broker_processes(server)[1][:1], "worker")
        time.sleep(rng.random() * 0.2)
    if victim == "broker":
        tops, workers, _ = broker_processes(server)
        killer.strike(tops + workers, "broker")
        status = server.process.wait(SECONDS_MAX)
        assert status == 1, f"the server ended with {status} as its broker was lost"
    else:
        killer.end_server("server")
    for client in clients:
        client.join()
    return killer.begin()


def random_kills(programs, seed, kills, clients=4):
    """`programs`: server, broker, execd, sandboxctl. Returns how often each process was killed, and
    the requests."""
    rng = random.Random(seed)
    with ServerProcess(*programs, config={"log": {"level": "DEBUG"}}) as server:
        clients = [Client(server, i, random.Random(rng.random())) for i in range(clients)]
        killer = Killer(server, rng)
        try:
            while killer.count() < kills:
                begin = round_of_kills(server, clients, killer, rng)
                check(server, clients, rng, begin)
            expired = check_expiry(server, clients)
            check(server, clients, rng, 0)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{server.log()[-6000:]}") from error
        return {"killed": killer.killed, "calls": sum(c.calls for c in clients),
                "sandboxes": sum(c.made for c in clients), "expired at the end": expired,
                "slowest start": f"{killer.slowest_start:.2f} s"}
