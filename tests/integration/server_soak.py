"""server_soak.py - makes, uses and deletes sandboxes for a while, and measures the memory of the
programs.

Memory and descriptors of server and broker must be flat: shared by test_server_soak.py, where what
was before and what is after is compared, and tests/drill, where minutes of samples are, too.
"""
import os
import pathlib
import re
import statistics
import threading
import time

from server_faults import broker_processes
from server_process import ServerProcess, wait_for
from server_use import Gateway

SAMPLE_SECONDS = 1
WARM_UP_ROUNDS = 40
FILE_BYTES = 100_000
GROWTH_KIB_MAX = 1024
GROWTH_SHARE_MAX = 0.05
GROWTH_FDS_MAX = 24  # connections to the broker, made as needed, and slots made ahead for them


class User(threading.Thread):
    """One round after the other: create, run, upload, download, delete."""

    def __init__(self, server, end, rounds_max):
        super().__init__(daemon=True)
        self.server, self.end, self.rounds_max = server, end, rounds_max
        self.rounds, self.error = 0, None

    def round(self):
        data = os.urandom(FILE_BYTES)
        name = self.server.create()
        with Gateway(self.server, name) as box:
            assert box.run("echo $((6 * 7))") == "42"
            box.upload("/tmp/data", data)
            assert box.download("/tmp/data") == data
        status, _, body = self.server.request("DELETE", f"/v1/sandboxes/{name}")
        assert status == 204, body

    def run(self):
        try:
            while time.monotonic() < self.end and self.rounds < self.rounds_max:
                self.round()
                self.rounds += 1
        except Exception as error:  # raised again by join()
            self.error = error


def use(server, users, seconds, rounds_max=1 << 30, each_second=lambda: None):
    """Rounds done by several users at a time."""
    end = time.monotonic() + seconds
    threads = [User(server, end, rounds_max) for _ in range(users)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        time.sleep(SAMPLE_SECONDS)
        each_second()
    for thread in threads:
        if thread.error:
            raise thread.error
    return sum(thread.rounds for thread in threads)


def programs_of(server):
    """{name: pid} of the processes that must not grow."""
    tops, workers, _ = broker_processes(server)
    assert len(tops) == 1 and workers, (tops, workers)
    found = {"server": server.pid, "broker": tops[0]}
    found.update({f"worker {i}": pid for i, pid in enumerate(sorted(workers))})
    return found


def weigh(pid):
    """Resident KiB and number of descriptors."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    resident = int(re.search(r"VmRSS:\s+(\d+)", text).group(1))
    return resident, len(os.listdir(f"/proc/{pid}/fd"))


def slope_per_minute(samples):
    """Theil and Sen: the median of the slopes between all pairs, which outliers do not move."""
    thin = samples[::max(len(samples) // 120, 1)]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for i, a in enumerate(thin) for b in thin[i + 1:]]
    return statistics.median(slopes) * 60 if slopes else 0.0


def must_be_flat(name, what, samples, begin, growth_max):
    """The second minute against the last one, by their medians. A line that says so."""
    def median(first, last):
        return statistics.median(v for t, v in samples if first <= t - begin <= last)

    length = samples[-1][0] - begin
    minute = min(60, length / 4)
    early, late = median(minute, 2 * minute), median(length - minute, length)
    line = f"{name}: {what} {early:g} -> {late:g}, {slope_per_minute(samples):+.2f} per minute"
    assert late - early <= growth_max(early), f"{line}: it grows"
    return line


def must_be_over(server):
    """Nothing of all the sandboxes is left, and the server has none."""
    _, _, body = server.request("GET", "/v1/sandboxes")
    assert body["pagination"]["totalItems"] == 0, body
    assert server.broker.list() == []
    for name in ("sandboxes", "volumes"):
        assert os.listdir(server.state / "server" / name) == [], name


def soak(programs, seconds, users=2):
    """`programs`: server, broker, execd, sandboxctl. Rounds, and how each program did."""
    with ServerProcess(*programs) as server:
        pids = programs_of(server)
        use(server, users, seconds, WARM_UP_ROUNDS)
        before = settled(pids)
        samples = {name: [] for name in pids}
        begin = time.monotonic()

        def sample():
            for name, pid in pids.items():
                samples[name].append((time.monotonic(), *weigh(pid)))

        rounds = use(server, users, seconds, each_second=sample)
        lines = [f"{rounds} rounds"]
        for name, rows in samples.items():
            lines.append(must_be_flat(
                name, "KiB", [(t, kib) for t, kib, _ in rows], begin,
                lambda early: max(GROWTH_KIB_MAX, early * GROWTH_SHARE_MAX)))
            lines.append(must_be_flat(
                name, "descriptors", [(t, fds) for t, _, fds in rows], begin,
                lambda _: GROWTH_FDS_MAX))
        must_keep_no_fds(pids, before)
        must_be_over(server)
        return "; ".join(lines)


def before_and_after(programs, seconds, growth_kib_max, users=2):
    """The same, short: no more after than before, when all is quiet."""
    with ServerProcess(*programs) as server:
        pids = programs_of(server)
        use(server, users, seconds, WARM_UP_ROUNDS)
        before = settled(pids)
        rounds = use(server, users, seconds)
        must_keep_no_fds(pids, before)
        grown = [b[0] - a[0] for a, b in zip(before, settled(pids))]
        for name, (kib, _), more in zip(pids, before, grown):
            assert more <= growth_kib_max, \
                f"{name} grew by {more} KiB from {kib} in {rounds} rounds"
        must_be_over(server)
        return rounds, dict(zip(pids, zip(before, grown)))


def must_keep_no_fds(pids, before):
    """Of hundreds of sandboxes; a few more or less are in the nature of what is made ahead."""
    wait_for(lambda: all(now[1] <= then[1] + GROWTH_FDS_MAX
                         for now, then in zip(settled(pids), before)),
             f"no more descriptors than before: {before}, not {settled(pids)}")


def settled(pids):
    """Weights, once idle connections and what is made ahead are where they stay."""
    time.sleep(0.5)
    return [weigh(pid) for pid in pids.values()]
