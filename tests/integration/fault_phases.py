"""fault_phases.py - makes every part around sandboxes fail, and checks what is left. Each phase
starts a broker of its own, injects failures, and then checks that every sandbox is in its reported
state and that a sweep leaves nothing. Shared by test_faults.py and tests/drill.
"""
import contextlib
import itertools
import os
import pathlib
import random
import re
import signal
import subprocess
import tempfile
import threading
import time

import tap
from broker_process import Broker, comm, is_alive, wait_for

MIB = 1 << 20
CALL_SECONDS_MAX = 150  # longer than any client waits for its broker
STEPS = 19
NAMES_PER_CALLER = 3
DISK_BYTES = 8 * MIB
# Errors that a caller may get while processes are being killed. Any other error is a finding.
EXPECTED = re.compile(
    r"talk to the broker|connect to the broker|there is (a|no) sandbox|has ended"
    r"|it was removed already|signal sandbox|No such process|Address already in use"
    r"|the child ended without a report"
    r"|the sandbox ended at once|ping:")


class Caller(threading.Thread):
    """Creates, pauses, resumes, pings and ends sandboxes, one call at a time."""

    def __init__(self, broker, number, rng):
        super().__init__(daemon=True)
        self.broker, self.random = broker, rng
        self.fresh = (f"c{number}-{i}" for i in itertools.count())
        self.names = [next(self.fresh) for _ in range(NAMES_PER_CALLER)]
        self.sure = {}  # name: its state, as far as it is known
        self.begun = {}  # name: when we asked for the one that has it now
        self.stopping = False
        self.process = None  # of the call that is under way
        self.calls, self.findings = 0, []

    def call(self, *words):
        """True, False, or None when the call was cut short and its outcome is unknown."""
        self.process = subprocess.Popen(self.broker.ctl_command(*words), stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        try:
            _, text = self.process.communicate(timeout=CALL_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.findings.append(f"{words[:2]} took {CALL_SECONDS_MAX} s")
            return None
        self.calls += 1
        status = self.process.returncode
        if status > 0 and not EXPECTED.search(text):
            self.findings.append(f"{' '.join(map(str, words))}: {text.strip()}")
        if status < 0 or "the broker" in text:
            return None
        return status == 0

    def act(self, name):
        verb = self.random.choice(("create", "create", "pause", "resume", "remove", "kill", "ping"))
        begin = time.monotonic()
        if verb == "create":
            net = self.random.choice(("none", "none", "bridge"))
            done = self.call("create", "--net", net, name, "--", "sleep", "1000")
        else:
            done = self.call(verb, name)
        if done is None or verb in ("remove", "kill"):
            self.sure.pop(name, None)
        elif done and verb != "ping":
            self.sure[name] = "paused" if verb == "pause" else "running"
        if done and verb == "create":
            self.begun[name] = begin
        if done is None and verb not in ("create", "ping"):  # it may come at any time now
            self.call("remove", name)
            self.names[self.names.index(name)] = next(self.fresh)

    def run(self):
        while not self.stopping:
            self.act(self.random.choice(self.names))


class Killer:
    """Picks a victim, anywhere between caller and sandbox."""

    def __init__(self, broker, callers, rng):
        self.broker, self.callers, self.random = broker, callers, rng
        self.killed = {}
        self.ended = {}  # name of a sandbox: when a process of its execd was killed

    def victims(self):
        calls = [c.process.pid for c in self.callers if c.process and c.process.poll() is None]
        execds = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and comm(pid) == "execd"
                  and self.broker.group in cgroups_of(pid)]
        return {"caller": calls, "worker": self.broker.workers(), "execd": execds,
                "first process": [self.broker.process.pid]}

    def names_of(self, pid):
        """Of the sandbox it belongs to, which has one before it has processes."""
        slots = set(re.findall(self.broker.group + r"/(\d+)/", cgroups_of(pid)))
        for link in (self.broker.state / "ids").iterdir():
            with contextlib.suppress(OSError):  # removed since
                if os.readlink(link) in slots:
                    yield link.name

    def strike(self):
        kind = self.random.choice(("caller", "caller", "worker", "worker", "worker", "execd",
                                   "first process"))
        pids = self.victims()[kind]
        if not pids:
            return
        victim = self.random.choice(pids)
        if kind == "execd":
            self.ended.update((name, time.monotonic()) for name in self.names_of(victim))
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
            self.killed[kind] = self.killed.get(kind, 0) + 1
        if kind == "first process":
            self.broker.process.wait()
            self.broker.start()


def cgroups_of(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii")
    return ""


# --- what must hold ---


def must_answer(broker, sandbox):
    """The sandbox must answer or end: a caller that died may have sent a signal while it was
    paused."""
    wait_for(lambda: broker.ctl("ping", sandbox.id).stdout == "pong\n" or not is_alive(sandbox.pid),
             f"{sandbox.id}, {sandbox.state}, to answer or to end")


def reports(broker):
    """The list of sandboxes, once all states in it are right: some may still be ending."""
    listed = []

    def agrees():
        listed[:] = broker.list()
        return all(is_alive(s.pid) == (s.state != "dead") for s in listed)
    wait_for(agrees, "reports that are true")
    return listed


def check_reports(broker):
    """Every sandbox is in the state it is reported in, and nothing runs that is not reported."""
    reported = reports(broker)
    for sandbox in reported:
        if sandbox.state == "running":
            must_answer(broker, sandbox)
        if sandbox.state == "paused":
            broker.ctl("resume", sandbox.id)  # may fail when it is about to end
            must_answer(broker, sandbox)
    slots = {str(s.slot) for s in reported}

    def strangers():
        ahead = slots_ahead(broker)
        return [path for path in broker.groups()
                if path.rstrip("/").rsplit("/", 1)[1] not in slots | set(ahead)]
    wait_for(lambda: not strangers(), "the end of groups that belong to no sandbox")
    names = set(os.listdir(broker.state / "ids"))
    assert names == {s.id for s in reported}, f"names {names} of {[s.id for s in reported]}"
    return reported


def slots_ahead(broker):
    """Slots that a living broker has made ahead: their parked children are its own."""
    found = set()
    for pid in broker.processes():
        found |= set(re.findall(broker.group + r"/(\d+)/", cgroups_of(pid)))
    return found


def check_clean(broker, rng):
    """Some sandboxes are removed by name, the rest dies with everything else: nothing is left."""
    for sandbox in broker.list():
        if rng.random() < 0.5:
            broker.ok("remove", sandbox.id)
    doomed = [s.pid for s in broker.list()]
    broker.stop(rng.choice((signal.SIGTERM, signal.SIGKILL)))
    for pid in doomed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not any(map(is_alive, doomed)), "the end of all sandboxes")
    broker.sweep()
    broker.must_be_clean()


# --- phases ---


def random_kills(programs, seed, kills, callers=4):
    """Sends SIGKILL at random moments of concurrent traffic. Returns how often each kind of process
    was killed, and the number of calls."""
    rng = random.Random(seed)
    with Broker(*programs, workers=2) as broker:
        broker.ok("run", "--net", "bridge", "first", "--", "true")
        threads = [Caller(broker, i, random.Random(rng.random())) for i in range(callers)]
        killer = Killer(broker, threads, rng)
        for thread in threads:
            thread.start()
        try:
            while sum(killer.killed.values()) < kills:
                time.sleep(rng.random() * 0.15)
                killer.strike()
        finally:
            for thread in threads:
                thread.stopping = True
            for thread in threads:
                thread.join(CALL_SECONDS_MAX + 10)
        findings = [text for thread in threads for text in thread.findings]
        assert not findings, "; ".join(findings[:5]) + "\n" + broker.log()[-2000:]
        broker.ok("sweep")
        wait_for(lambda: len(broker.workers()) == 2, "both workers")
        broker.stop()  # so that workers finish the requests of killed callers
        broker.start()
        reported = {s.id: s.state for s in check_reports(broker)}
        check_promises(threads, killer.ended, reported)
        check_clean(broker, rng)
        return killer.killed, sum(thread.calls for thread in threads)


def check_promises(threads, ended, reported):
    """Every sandbox that a caller was told it has exists, unless its PID 1 was killed (and perhaps
    swept)."""
    for thread in threads:
        for name, state in thread.sure.items():
            killed = ended.get(name, 0) > thread.begun.get(name, 0)
            assert reported.get(name) in ((None, "dead", state) if killed else (state,)), \
                f"{name}: {reported.get(name)}, not {state}"


def failing_steps(programs, steps):
    """Every step of a create fails once: the error names the step, and nothing is left."""
    words = []
    for step in steps:
        with Broker(*programs, workers=1, env={"OSB_FAULT_STEP": str(step)}) as broker:
            for ahead in (0, 2):
                broker.ok("fill", ahead)
                done = broker.ctl("create", "x", "--", "sleep", "1000")
                assert done.returncode == 1 and "injected" in done.stderr, (step, done.stderr)
            words.append(done.stderr.split(": ")[2])
            assert broker.list() == [] and os.listdir(broker.state / "ids") == []
            broker.stop()
            broker.must_be_clean()
    return words


def no_more_processes(programs):
    """The kernel refuses to make processes; later it does not."""
    parent = pathlib.Path("/sys/fs/cgroup/pids")
    if not (parent / "cgroup.procs").exists():
        raise tap.Skip("no pids hierarchy of its own to put the broker in")
    group = parent / f"osb-faults-{os.getpid()}"
    group.mkdir()
    try:
        with Broker(*programs, workers=2) as broker:
            for pid in broker.processes():
                (group / "cgroup.procs").write_text(str(pid))
            (group / "pids.max").write_text("3")
            done = broker.ctl("create", "x", "--", "true")
            assert done.returncode == 1 and "Resource temporarily" in done.stderr, done
            (group / "pids.max").write_text("1")
            broker.kill_worker()
            wait_for(lambda: "cannot start a worker" in broker.log(), "a worker that cannot start")
            (group / "pids.max").write_text("max")
            wait_for(lambda: len(broker.workers()) == 2, "it to start after all")
            broker.ok("run", "x", "--", "true")
            broker.stop()
            broker.must_be_clean()
    finally:
        group.rmdir()


def refused_limits(programs):
    """Limits the kernel does not take, or that leave no room to live."""
    with Broker(*programs) as broker:
        for options in (["--memory", 1], ["--cpu", 1], ["--pids", 1], ["--files", 1],
                        ["--memory", (1 << 64) - 1], ["--tmp", 1]):
            done = broker.ctl("run", *options, "x", "--", "true")
            assert done.returncode in (0, 137) or done.stderr.strip(), (options, done)
            broker.ctl("remove", "x")
            assert broker.list() == [], options
            wait_for(lambda: os.listdir(broker.state / "slots") == [], "the cleaner")
        broker.stop()
        broker.must_be_clean()


@contextlib.contextmanager
def small_disk():
    with tempfile.TemporaryDirectory(prefix="osb-disk-") as folder:
        options = f"size={DISK_BYTES},mode=711"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
        try:
            yield pathlib.Path(folder)
        finally:
            wait_for(lambda: subprocess.run(["umount", folder], check=False).returncode == 0,
                     "the small disk to be unused")


def full_disk(programs):
    """The state directory's file system is full: errors name the reason, and the broker goes on."""
    with small_disk() as folder, Broker(*programs, folder=folder) as broker:
        done = broker.ctl("create", "old", "--", "sh", "-c", "cat /dev/zero >/file; sleep 1000")
        if "map the ids of a layer: Invalid argument" in done.stderr:
            broker.stop()
            raise tap.Skip("this kernel maps no ids on tmpfs, which the small disk is")
        assert done.returncode == 0, done.stderr
        wait_for(lambda: os.statvfs(folder).f_bavail == 0, "a full disk")
        assert broker.pings("old") and broker.sandbox("old").state == "running"
        done = [broker.ctl("create", f"new-{i}", "--", "sleep", "1000") for i in range(5)]
        assert all(d.returncode == 1 and "No space left" in d.stderr for d in done), done
        assert [s.id for s in broker.list()] == ["old"]
        broker.ok("pause", "old")
        assert broker.sandbox("old").state == "paused"
        broker.ok("remove", "old")
        wait_for(lambda: os.statvfs(folder).f_bavail * 2 > os.statvfs(folder).f_blocks,
                 "the cleaner, which erases the files of what was removed")
        broker.ok("run", "new", "--", "true")
        broker.stop()
        broker.must_be_clean()
