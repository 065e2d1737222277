#!/usr/bin/env python3
"""run.py - the isolation battery: the same probes on the bare host, in Docker and in our sandbox.

  run.py --probe PATH [--host] [--docker]
         [--ours --broker PATH --execd PATH --sandboxctl PATH --server PATH]
         [--out docs/isolation.md] [--json PATH]

--host    a positive control: root of the host, in namespaces of its own so that nothing it opens
          stays. A probe that finds no open door there would find none anywhere.
--docker  a plain `docker run`; needs Debian's docker.io and busybox-static. Starts its own dockerd
          in network and mount namespaces of its own, with its own directories, and stops it.
--ours    our sandboxes, with limits as one would set them for untrusted code; likewise
          with a broker of its own. Needs busybox-static.

Exit status 1 when a probe of ours got through. Needs root.
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
something this host lacks (a file, a device), or cannot be seen from there. `docker` is Docker
Engine {docker_version}, a plain `docker run` as root with its defaults: no limits were asked for,
which is why exhaustion is open there. `ours` is a sandbox on the bridge, as root inside, with
limits ({limits}) and a neighbour. Linux {kernel}.
"""


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
    verdicts = ("BLOCKED", "CONTAINED", "OPEN", "N/A")
    lines += ["| | probes | " + " | ".join(verdicts) + " |", "|---|---:|---:|---:|---:|---:|"]
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
    for program in ("--broker", "--execd", "--sandboxctl", "--server"):
        parser.add_argument(program, type=os.path.abspath)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    if args.ours and not (args.broker and args.execd and args.sandboxctl and args.server):
        parser.error("--ours needs --broker, --execd, --sandboxctl and --server")
    return args


def run_columns(args, probe, probes, work):
    columns = {}
    secret = work / "secret"
    secret.write_text(secrets.token_hex(16) + "\n")
    if args.host:
        columns["host"] = run_host(probe, probes, secret)
    if args.docker:
        with Docker(work, probe) as docker:
            columns["docker"] = docker.run(probes, secret)
    if args.ours:
        with Ours(work, probe, args.broker, args.execd, args.sandboxctl, args.server) as ours:
            columns["ours"] = ours.run(probes, secret)
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
    through = [n for n, r in columns.get("ours", {}).items() if r["verdict"] == "OPEN"]
    if through:
        raise SystemExit(f"run.py: got through: {', '.join(through)}")


if __name__ == "__main__":
    main()
