"""lib.py - what every benchmark needs: a record of the machine, the spread of figures, children
that end.

A benchmark is bench/<name>/run, see README.md:

    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
    import lib

    with lib.Bench("http") as bench:
        port = bench.free_port()
        server = bench.start(["build/bin/x", "--port", str(port)])
        bench.wait_port(port)
        bench.row("ours", requests_per_s=[...one number per repetition...])
"""
import atexit
import json
import os
import pathlib
import platform
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time

SHM, SHM_FREE_BYTES = "/dev/shm", 4 << 30
# Not on a disk, whose journal would be part of what is measured. TMPDIR overrides it.
if os.path.isdir(SHM) and shutil.disk_usage(SHM).free > SHM_FREE_BYTES:
    os.environ.setdefault("TMPDIR", SHM)
ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "bench"
STOP_SECONDS_MAX = 5
BUSY_LOAD_PER_CORE = 0.5  # a load above this before we start makes the figures doubtful


def machine():
    """What the figures were measured on."""
    model = "unknown"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.lower().startswith(("model name", "cpu model")):
            model = line.split(":", 1)[1].strip()
            break
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "kernel": platform.release(),
            "arch": platform.machine()}


def load_average():
    return round(os.getloadavg()[0], 2)


def spread(values):
    """Repeated runs as min, median and max; one number alone would claim too much."""
    return {"min": min(values), "median": statistics.median(values), "max": max(values),
            "runs": len(values)}


def rss_bytes(pid):
    """Resident memory of a process, from the kernel's own account."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0  # a process that has exited has no memory


def program(name):
    """Path of one of our programs, or of one on this machine; None when there is none."""
    ours = ROOT / "build" / "bin" / name
    if ours.exists():
        return str(ours)
    return shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")


class Bench:
    """One run of one benchmark: collects rows, prints them as a table, writes them as JSON."""

    def __init__(self, name):
        self.name = name
        self.rows = {}
        self.notes = []
        self.results = {}
        self.children = []
        self.load_before = load_average()
        self.started = time.time()
        atexit.register(self.stop_all)
        # A benchmark that is told to end takes its children with it.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        self.stop_all()
        if failure is None:
            self.finish()

    def start(self, command, **popen):
        """Starts a child in a session of its own, so that its own children end with it."""
        popen.setdefault("stdout", subprocess.DEVNULL)
        child = subprocess.Popen(command, cwd=ROOT, start_new_session=True, **popen)
        self.children.append(child)
        return child

    def stop(self, child):
        """Ends one child: asked first, forced after a while. Fine when it has ended already."""
        for sig in (signal.SIGTERM, signal.SIGKILL):
            if child.poll() is None:
                os.killpg(child.pid, sig)  # not reaped yet, so the number is still its own
            try:
                child.wait(STOP_SECONDS_MAX)
                break
            except subprocess.TimeoutExpired:
                continue
        if child in self.children:
            self.children.remove(child)

    def stop_all(self):
        for child in list(self.children):
            self.stop(child)

    @staticmethod
    def free_port():
        """A TCP port of 127.0.0.1 without a listener at this moment."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return probe.getsockname()[1]

    @staticmethod
    def wait_port(port, seconds_max=10):
        """Waits until a process accepts connections on the port."""
        deadline = time.monotonic() + seconds_max
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError as error:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"no process listens on port {port}") from error
                time.sleep(0.01)

    def row(self, who, **figures):
        """Figures of one contestant: figure=[a number per repetition], or one number."""
        self.rows.setdefault(who, {}).update({
            name: spread(value if isinstance(value, (list, tuple)) else [value])
            for name, value in figures.items()})

    def result(self, **figures):
        """The figures the benchmark is about: top-level keys of the JSON."""
        self.results.update({name: round(value, 3) for name, value in figures.items()})

    def note(self, text):
        """Something a reader of the figures must know."""
        self.notes.append(text)

    def finish(self):
        """Prints the table, and the JSON as the last line; writes build/bench/<name>.json."""
        load_after = load_average()
        busy = self.load_before > BUSY_LOAD_PER_CORE * machine()["cores"]
        if busy:
            self.note(f"the machine was busy before the run (load {self.load_before})")
        record = {"bench": self.name, "time": int(self.started), "machine": machine(),
                  "load": {"before": self.load_before, "after": load_after}, **self.results,
                  "rows": self.rows, "notes": self.notes}
        print(f"{'':20} {'figure':24} {'min':>12} {'median':>12} {'max':>12}  runs")
        for who, figures in self.rows.items():
            for figure, s in figures.items():
                print(f"{who:20} {figure:24} {s['min']:12.6g} {s['median']:12.6g} {s['max']:12.6g}"
                      f"  {s['runs']:4}")
        for name, value in self.results.items():
            print(f"{name:45} {value:12.6g}")
        for note in self.notes:
            print(f"note: {note}")
        RESULTS.mkdir(parents=True, exist_ok=True)
        text = json.dumps(record)
        (RESULTS / f"{self.name}.json").write_text(text + "\n")
        print(text)
