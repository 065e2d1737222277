"""battery.py - runs probes through any command that reaches a sandbox, and evaluates their
reports."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

GROUPS = {
    "runtime": "Descriptors, links, mounts and roots",
    "files": "Files of /proc, /sys, /dev and cgroups",
    "calls": "System calls and capabilities",
    "neighbours": "Neighbours",
    "network": "Network",
    "exhaustion": "Exhaustion",
}
PORT = 7391
METADATA = "169.254.169.254"
LOG_FLOOD_BYTES = 32 << 20
LOG_BYTES_MAX = 16 << 20
GROUP_TIMEOUT_S = 900
HELD_BODIES, HELD_BODY_BYTES = 40, 16 << 20
# Judged from outside of the sandbox, not by the probe program.
OUTSIDE = [
    {"group": "exhaustion", "name": "log-flood",
     "why": "the host's disk, through what the runtime keeps of our output"},
    {"group": "exhaustion", "name": "fork-bomb-default",
     "why": "processes of all, with no limit of them asked for; and outlives its removal"},
    {"group": "exhaustion", "name": "held-bodies",
     "why": "execd's memory, by request bodies that it must hold: without execd the sandbox ends"},
    {"group": "neighbours", "name": "volume-links",
     "why": "files of another tenant, by links in our volume that a subPath names"},
    {"group": "runtime", "name": "host-root-tampering",
     "why": "a local user of the host plants files in sandboxes to come"},
]


def probe_list(probe):
    lines = subprocess.run([probe, "--list"], check=True, capture_output=True, text=True).stdout
    return [dict(zip(("group", "name", "why"), line.split("\t"))) for line in lines.splitlines()]


def run_probes(prefix, settings, args):
    """Runs probes by a command prefix: {name: result}. What left no line was killed or broke."""
    command = prefix() if callable(prefix) else prefix
    command = command + [f"--{name}={value}" for name, value in settings.items()] + args
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=GROUP_TIMEOUT_S, start_new_session=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return {r["name"]: r for r in map(json.loads, lines)}, done


def run_all(prefix, settings, probes, groups):
    """A sandbox per group; exhaustion has one per probe, as each may end all of its sandbox."""
    results = {}
    for group in groups:
        names = [p["name"] for p in probes if p["group"] == group]
        if group != "exhaustion":
            found, done = run_probes(prefix, settings, [f"--group={group}"])
            for name in names:
                results[name] = found.get(name) or {
                    "verdict": "N/A", "detail": f"no result: {done.stderr.strip()[-120:]}"}
            continue
        for name in names:
            found, done = run_probes(prefix, settings, [name])
            killed = done.returncode in (137, -signal.SIGKILL)
            results[name] = found.get(name) or {
                "verdict": "CONTAINED" if killed else "N/A",
                "detail": "all of its processes were killed" if killed else
                          f"no result: {done.stderr.strip()[-120:]}"}
    return results


def judge_log(size):
    verdict = "OPEN" if size > LOG_BYTES_MAX else "CONTAINED"
    return {"verdict": verdict, "detail": f"{LOG_FLOOD_BYTES >> 20} MiB written, "
                                          f"{size / (1 << 20):.1f} MiB kept on the host"}


TAMPERER = """
import os, sys
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
for path in sys.stdin.read().split("\\0"):
    if path and os.access(path, os.W_OK | os.X_OK):
        print(path)
"""


def judge_tampering(top):
    """The directories below `top` in which the local user `nobody` can create files."""
    paths, tempting = [], 0
    for path, _, _, directory in os.fwalk(top):
        paths.append(path)
        tempting += os.fstat(directory).st_mode & 0o002 != 0
    if not tempting:
        return {"verdict": "N/A", "detail": "there is no world-writable directory"}
    done = subprocess.run([sys.executable, "-c", TAMPERER], input="\0".join(paths), check=True,
                          capture_output=True, text=True)
    found = [os.path.relpath(path, top) for path in done.stdout.splitlines()]
    if found:
        return {"verdict": "OPEN", "detail": f"can write to {', '.join(found[:4])}"}
    return {"verdict": "BLOCKED", "detail": f"{len(paths)} directories, {tempting} of them "
                                            "world-writable by their mode, but out of reach"}


def judge_bomb(peak, limit, left):
    verdict = "OPEN" if peak > limit or left else "CONTAINED"
    return {"verdict": verdict,
            "detail": f"{peak} processes, {'some' if left else 'none'} of them after the removal"}


def judge_bodies(statuses, alive):
    told = ", ".join(f"{statuses.count(s)} answered {s}" if s else f"{statuses.count(s)} cut"
                     for s in sorted(set(statuses)))
    return {"verdict": "CONTAINED" if alive and 200 in statuses else "OPEN",
            "detail": f"{HELD_BODIES} bodies of {HELD_BODY_BYTES >> 20} MiB held: {told}; the "
                      f"sandbox {'runs on' if alive else 'ended'}"}


def wait_for(what, ready, why=str, seconds=60):
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            raise SystemExit(f"battery: {what} did not come up within {seconds} s\n{why()}")
        time.sleep(0.05)


def stop(process, seconds=60):
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def make_root(root, probe):
    """A root file system with the probe and a shell."""
    root = pathlib.Path(root)
    for name in ("bin", "tmp", "etc"):
        (root / name).mkdir(parents=True)
    shutil.copy(probe, root / "probe")
    shutil.copy(shutil.which("busybox"), root / "bin/busybox")
    (root / "bin/sh").symlink_to("busybox")


LISTENER = """
import socket, sys, time
held = []
for spec in sys.argv[1:]:
    address, port = spec.rsplit(",", 1)
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if ":" in address:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    s.bind((address, int(port)))
    s.listen()
    held.append(s)
print("ready", flush=True)
time.sleep(3600)
"""


def listen(pid, *specs):
    """Listens at "address,port" in a process's network namespace; the listener's process."""
    listener = subprocess.Popen(["nsenter", f"--net=/proc/{pid}/ns/net", sys.executable, "-c",
                                 LISTENER, *specs], stdout=subprocess.PIPE, text=True)
    if listener.stdout.readline() != "ready\n":
        raise SystemExit(f"battery: cannot listen at {specs}")
    return listener
