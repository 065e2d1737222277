"""egress_faults.py - kills egress, broker and server under a policy, at random moments.

Probers inside send denied traffic all the time, in both IP versions, and traffic to an address
that a rule allows, which proves that they send. None of the former may arrive. After a kill the
policy is one that a client asked for, and in force. Shared by test_egress_faults.py and
tests/drill.
"""
import collections
import os
import random
import signal
import textwrap
import threading
import time

from broker_process import comm, wait_for
from server_faults import broker_processes
from test_egress import World, nft_only

DENIED, CONTROL = ("203.0.113.99", "2001:db8:3::99"), "203.0.113.12"
PROBER = textwrap.dedent(f"""
    import socket, time
    u = [socket.socket(f, socket.SOCK_DGRAM) for f in (socket.AF_INET, socket.AF_INET6)]
    while True:
        for s, a in ((u[0], "{DENIED[0]}"), (u[1], "{DENIED[1]}"), (u[0], "{CONTROL}")):
            try: s.sendto(b"x", (a, 443))
            except OSError: pass
        time.sleep(0.002)
""")


class Changer(threading.Thread):
    """Patches the policies until told to stop, and knows what may be in force."""

    def __init__(self, w, boxes, seed):
        super().__init__(daemon=True)
        self.w, self.boxes, self.random, self.ending = w, boxes, random.Random(seed), False
        self.changes = 0

    def run(self):
        n = 0
        while not self.ending:
            n += 1
            box = self.random.choice(self.boxes)
            try:
                status = self.w.policy(box, "PATCH", [
                    {"action": "allow", "target": f"n{n % 50}.test"}])[0]
                self.changes += status == 200
            except Exception:  # a server that is dead or starts answers nothing
                time.sleep(0.02)


def strike(w, victim):
    """Ends a process by SIGKILL, and waits until there is another."""
    tops, workers, _ = broker_processes(w.server)
    workers = [pid for pid in workers if comm(pid).startswith("opensandbox-br")]  # no sandboxes
    if victim == "server":
        w.server.kill9()
        w.server.start()
    elif victim == "broker":
        for pid in tops + workers:
            os.kill(pid, signal.SIGKILL)
        w.server.process.wait(240)  # it does not go on without its broker
        w.server.start()
    else:
        old = w.egress_pid()
        target = old if victim == "egress" else (workers or [None])[0]
        if target:
            os.kill(target, signal.SIGKILL)
        if victim == "egress" and old:
            wait_for(lambda: w.egress_pid() not in (None, old), "another egress")


def settled(w, box):
    """The policy is shown, an allowed name leads to its address, a denied address does not open."""
    wait_for(lambda: w.policy(box)[0] == 200, "the policy is shown", 60)
    wait_for(lambda: not w.inside(box, "web('www.allowed.test')", 5).startswith("no"),
             "an allowed name opens")
    targets = {rule["target"] for rule in w.policy(box)[2]["policy"]["egress"]}
    assert {"*.allowed.test", CONTROL} <= targets, targets
    assert w.inside(box, "tcp('203.0.113.99')").startswith("no"), "a denied address opened"


def arrived(w):
    return sum(w.internet.arrivals(address) for address in DENIED)


def random_kills(programs, seed, kills, boxes=2):
    """Returns what was killed how often. `programs` as of test_egress.py."""
    rng = random.Random(seed)
    struck = collections.Counter()
    with World(programs) as w:
        ids = [w.create(rules=[("allow", "*.allowed.test"), ("allow", CONTROL)])
               for _ in range(boxes)]
        for box in ids:
            status = w.server.request("POST", f"/sandboxes/{box}/proxy/44772/command", {
                "command": f"python3 - <<'END'\n{PROBER}\nEND", "background": True})[0]
            assert status == 200, status
        wait_for(lambda: w.internet.arrivals(CONTROL) > 10, "the probers send")
        changer = Changer(w, ids, seed)
        changer.start()
        for n in range(kills):
            time.sleep(rng.random() * 0.15)  # the moment of the kill is what is random here
            victim = rng.choice(("egress",) * 6 + ("worker",) * 2 + ("broker", "server"))
            before = w.internet.arrivals(CONTROL)
            strike(w, victim)
            struck[victim] += 1
            assert arrived(w) == 0, f"{arrived(w)} denied packets arrived by kill {n}, of {victim}"
            if n % 20 == 19 or n == kills - 1:
                for box in ids:
                    settled(w, box)
                wait_for(lambda before=before: w.internet.arrivals(CONTROL) > before,
                         "the probers still send")
        changer.ending = True
        changer.join(60)
        for box in ids:
            w.remove(box)
        nft_only([])
        assert arrived(w) == 0, f"{arrived(w)} denied packets arrived"
        assert changer.changes > 0, "no policy was changed"
        return {**struck, "changes": changer.changes, "control": w.internet.arrivals(CONTROL)}
