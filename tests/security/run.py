#!/usr/bin/env python3
"""run.py - the isolation battery: the same probes on the bare host, in plain Docker and in our
sandboxes, a column for each runtime.

  run.py --probe PATH [--host] [--docker]
         [--ours [--served RUNTIME]... [--runsc PATH]
          --broker PATH --execd PATH --sandboxctl PATH --server PATH]
         [--from JSON]... [--out docs/isolation.md] [--json PATH]

--host    a positive control: root of the host, in namespaces of its own so that nothing it opens
          stays. A probe that finds no open door there would find none anywhere.
--docker  a plain `docker run`; needs Debian's docker.io and busybox-static. Starts its own dockerd
          in network and mount namespaces of its own, with its own directories, and stops it.
--ours    our sandboxes on the embedded runtime, with limits as one would set them for untrusted
          code; likewise with a broker of its own. Needs busybox-static.
--served  the same in sandboxes of a server on another runtime: box_served.py has their names.
--from    columns of an earlier run, which wrote them by --json.

Exit status 1 when a probe got through on the embedded runtime. Needs root.
"""
import argparse
import json
import os
import pathlib
import secrets
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import battery  # noqa: E402 # beside this file, as the following
from box_docker import Docker  # noqa: E402
from box_ours import LIMITS, MIB, Ours  # noqa: E402
from box_served import RUNTIMES  # noqa: E402

HOST_GROUPS = ("runtime", "files", "calls")


def run_host(probe, probes, secret):
    prefix = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--net",
              "--uts", "--ipc", probe]
    return battery.run_all(prefix, {"secret-path": secret}, probes, HOST_GROUPS)


def count(results):
    tally = {}
    for r in results.values():
        tally[r["verdict"]] = tally.get(r["verdict"], 0) + 1
    return tally


def cell(result):
    if not result:
        return "–"
    detail = result["detail"].replace("|", "\\|")
    mark = f"**{result['verdict']}**" if result["verdict"] == "OPEN" else result["verdict"]
    return f"{mark}: {detail}"


HEAD = """# The isolation battery

Attacks tried from inside, one row each; written by `tests/security/run.py`, not by hand. BLOCKED:
refused. CONTAINED: allowed, without effect outside. **OPEN**: got through. N/A: could not be tried,
for the reason given. No probe does harm where it succeeds: it stops at the open door.

`host` is the positive control: root of the host, without a sandbox; what is not OPEN there needs
something this host lacks (a file, a device), or cannot be seen from there. `docker run` is Docker
Engine {docker_version}, a plain `docker run` as root with its defaults: no limits were asked for,
which is why exhaustion is open there. The others are sandboxes, as root inside, with a neighbour
and limits: `embedded` on the bridge, with
{limits};
the others made by a server, with memory 256 MiB, cpu 500, disk 32 MiB, and on Docker pids 128.
Linux {kernel}.

GUEST, with gVisor: allowed by the kernel that gVisor puts in between, in its own state; the host's
kernel is not asked. A probe that reaches a file, a process, a service or a resource of the host is
OPEN there as elsewhere. [docs/runtimes.md](runtimes.md#what-the-battery-finds) says what the OPEN
ones of Docker mean.
"""

# Of gVisor's kernel: what a probe of these groups reaches is in it, but for the names.
GUEST_GROUPS = ("runtime", "files", "calls")
NEVER_GUEST = ("secret-", "upper-by-path", "terminals")
GUEST_NAMES = ("fd-exhaustion", "pty-exhaustion", "aio-exhaustion", "inode-fill-shm", "uid-range",
               "link-flags")


def mark_guest(probes, results):
    for p in probes:
        result, name = results.get(p["name"]), p["name"]
        if result and result["verdict"] == "OPEN" and (
                name in GUEST_NAMES or
                p["group"] in GUEST_GROUPS and not name.startswith(NEVER_GUEST)):
            result["verdict"] = "GUEST"
    return results



def docker_version():
    if not shutil.which("dockerd"):
        return "(not run)"
    text = subprocess.run(["dockerd", "--version"], capture_output=True, text=True, check=True)
    return text.stdout.split()[2].rstrip(",")


def limits_text():
    amounts = {name: f"{value // MIB} MiB" if value >= MIB else str(value)
               for name, value in LIMITS.items()}
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items())


def report(probes, columns):
    kernel = ".".join(os.uname().release.split(".")[:2])
    lines = [HEAD.format(docker_version=docker_version(), kernel=kernel, limits=limits_text())]
    verdicts = ("BLOCKED", "CONTAINED", "GUEST", "OPEN", "N/A")
    lines += ["| | probes | " + " | ".join(verdicts) + " |", "|---|" + "---:|" * 6]
    for name, results in columns.items():
        tally = count(results)
        counts = " | ".join(str(tally.get(v, 0)) for v in verdicts)
        lines.append(f"| {name} | {len(results)} | {counts} |")
    for group, title in battery.GROUPS.items():
        lines += ["", f"## {title}", "", "| probe | why it matters | " + " | ".join(columns) + " |",
                  "|---|---|" + "---|" * len(columns)]
        for p in probes:
            if p["group"] == group:
                cells = " | ".join(cell(r.get(p["name"])) for r in columns.values())
                lines.append(f"| `{p['name']}` | {p['why']} | {cells} |")
    return "\n".join(lines) + "\n"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--probe", required=True)
    parser.add_argument("--host", action="store_true")
    parser.add_argument("--docker", action="store_true")
    parser.add_argument("--ours", action="store_true")
    parser.add_argument("--served", action="append", default=[], choices=RUNTIMES)
    for program in ("--broker", "--execd", "--sandboxctl", "--server", "--runsc"):
        parser.add_argument(program, type=os.path.abspath)
    parser.add_argument("--from", dest="earlier", action="append", default=[], type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    programs = (args.broker, args.execd, args.sandboxctl, args.server)
    if (args.ours or args.served) and not all(programs):
        parser.error("--ours and --served need --broker, --execd, --sandboxctl and --server")
    return args


def run_served(args, runtime, probe, probes, work):
    """In a process of its own, as it changes its namespaces."""
    out = work / f"{runtime}.json"
    programs = [f"--{name}={getattr(args, name)}" for name in
                ("server", "broker", "execd", "sandboxctl", "runsc") if getattr(args, name)]
    subprocess.run(["unshare", "--net", "--mount", sys.executable,
                    str(pathlib.Path(__file__).resolve().parent / "box_served.py"), runtime,
                    f"--probe={probe}", f"--secret={work / 'secret'}", f"--out={out}", *programs],
                   check=True, stdin=subprocess.DEVNULL)
    results = json.loads(out.read_text())
    return mark_guest(probes, results) if "gvisor" in runtime else results


def run_columns(args, probe, probes, work):
    columns = {name: results for path in args.earlier
               for name, results in json.loads(path.read_text()).items()}
    secret = work / "secret"
    secret.write_text(secrets.token_hex(16) + "\n")
    if args.host:
        columns["host"] = run_host(probe, probes, secret)
    if args.docker:
        with Docker(work, probe) as docker:
            columns["docker run"] = docker.run(probes, secret)
    if args.ours:
        with Ours(work, probe, args.broker, args.execd, args.sandboxctl, args.server) as ours:
            columns["embedded"] = ours.run(probes, secret)
    for runtime in args.served:
        columns[runtime] = run_served(args, runtime, probe, probes, work)
    return columns


def main():
    args = parse_arguments()
    if os.geteuid() != 0:
        raise SystemExit("run.py: needs root")
    probe = os.path.abspath(args.probe)
    probes = battery.probe_list(probe)
    with tempfile.TemporaryDirectory(prefix="osb-battery-") as directory:
        columns = run_columns(args, probe, probes, pathlib.Path(directory))
    for name, results in columns.items():
        print(name, count(results))
    if args.json:
        args.json.write_text(json.dumps(columns, indent=1) + "\n")
    if args.out:
        args.out.parent.mkdir(exist_ok=True)
        args.out.write_text(report(probes + battery.OUTSIDE, columns))
    through = [n for n, r in columns.get("embedded", {}).items() if r["verdict"] == "OPEN"]
    if through:
        raise SystemExit(f"run.py: got through: {', '.join(through)}")


if __name__ == "__main__":
    main()
