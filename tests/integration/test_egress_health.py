#!/usr/bin/env python3
"""test_egress_health.py SERVER BROKER EXECD SANDBOXCTL EGRESS - how the server tells of its egress
control: metrics, /ready and /health while it is hung or dead, and the webhook for denied names."""
import http.client
import http.server
import os
import re
import signal
import sys
import threading

import egress_world
from broker_process import wait_for
from server_process import SECONDS_MAX
from test_egress import ALLOWED, World, no, same
from test_egress_sidecar import Hook

from tap import Tap, skip_all  # test_egress has set the path

KILLS_MAX = 8  # each makes the next start wait twice as long


def figures(w):
    status, _, body = w.server.request("GET", "/metrics")
    assert status == 200, body
    return {name: int(value) for name, value in re.findall(
        r"^opensandbox_egress_(\w+) (\d+)$", body.decode(), re.MULTILINE)}


def counts(w, box, tap):
    before = figures(w)
    w.inside(box, "[lookup('denied.test'), web('www.allowed.test')]", 5)
    after = figures(w)
    tap.check("/metrics of the server has the figures of egress", lambda: same(
        (after["up"], after["sandboxes"], after["policy_denied_total"] > 0,
         after["dns_queries_total"] > before["dns_queries_total"], after["vaults_lost_total"]),
        (1, 1, True, True, 0)))


def streams(w, box, tap):
    """Server-sent events through the gateway, each when it happens."""
    connection = http.client.HTTPConnection(w.server.domain, timeout=SECONDS_MAX)
    connection.request("GET", f"/sandboxes/{box}/proxy/18080/events/stream",
                       headers={"OPEN-SANDBOX-API-KEY": w.server.api_key})
    answer = connection.getresponse()
    same((answer.status, answer.getheader("Content-Type")), (200, "text/event-stream"))
    w.inside(box, "lookup('streamed.denied.test')", 5)
    tap.check("an event is streamed when it happens", lambda: same(
        next(line for line in answer if b"streamed.denied.test" in line)[:5], b"data:"))
    connection.close()


def ready(w):
    status, _, body = w.server.request("GET", "/ready")
    return status, str(body)


def tells_when_hung(w, box, tap):
    wait_for(lambda: ready(w)[0] == 200, "readiness")
    pid = w.egress_pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        tap.check("/ready is 503 while it hangs, and says why", lambda: wait_for(
            lambda: ready(w)[0] == 503 and "opensandbox-egress does not answer" in ready(w)[1],
            "the refusal"))
        tap.check("/metrics says that it is down", lambda: wait_for(
            lambda: figures(w) == {"up": 0}, "its figures"))
        tap.check("nothing is open meanwhile", lambda: no(w.inside(box, "tcp('203.0.113.99')")))
    finally:
        os.kill(pid, signal.SIGCONT)
    tap.check("/ready is 200 again afterwards", lambda: wait_for(
        lambda: ready(w)[0] == 200, "readiness"))


def message(w):
    return w.server.request("GET", "/health")[2].get("message", "")


def tells_when_dead(w, box, tap):
    """The pause before a new start grows with each kill, until /health is seen in it."""
    said = ""
    for _ in range(KILLS_MAX):
        pid = w.egress_pid()
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda pid=pid: message(w) or w.egress_pid() not in (None, pid), "either")
        said = said or message(w)
        w.wait_for_egress(box, pid)
        if said:
            break
    tap.check("/health tells while it is dead", lambda: same(
        "opensandbox-egress does not answer" in said, True))
    tap.check("... and no more when it serves", lambda: same(message(w), ""))


def main():
    programs = sys.argv[1:]
    skip_all(egress_world.why_not())
    egress_world.enter()
    tap = Tap()
    hook = http.server.HTTPServer(("127.0.0.1", 0), Hook)
    hook.got = []
    threading.Thread(target=hook.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{hook.server_port}/hook"
    with World(programs, {"egress": {"deny_webhook": url}}) as w:
        box = w.create(rules=ALLOWED)
        counts(w, box, tap)
        tap.check("a denied name is reported to the webhook, and again after its error", lambda: (
            wait_for(lambda: len(hook.got) >= 2, "two requests"),
            same([(row["hostname"], row["source"], row["sandboxId"]) for _, row in hook.got[:2]],
                 [("denied.test", "opensandbox-egress", box)] * 2)))
        streams(w, box, tap)
        tells_when_hung(w, box, tap)
        tells_when_dead(w, box, tap)
    hook.shutdown()
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
