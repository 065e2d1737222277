#!/usr/bin/env python3
"""run.py [OPTION...] [NAME...] - tests on a stock kernel with cgroup v2, in QEMU.

Boots Debian's cloud kernel with cgroup v2 only, runs what the table `programs` lists (or of it what
has a NAME in its own) and prints one TAP stream for all of it, the plan last. The VM has no network
and sees no directory of the host; emulation (TCG) needs neither KVM nor privileges.
"""
import argparse
import os
import pathlib
import platform
import re
import shutil
import sys
import time

sys.dont_write_bytecode = True
import image  # pylint: disable=wrong-import-position
import machine  # pylint: disable=wrong-import-position

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
KERNEL = ROOT / "build/deps/vm"
WORK = ROOT / "build/vm"
CPU = "max,la57=off"  # emulation of five-level page tables costs time
# On a busy host the emulated timer misses the moment at which the kernel tests it: it would panic.
COMMAND_LINE = ("console=ttyS0 quiet loglevel=4 panic=-1 oops=panic cgroup_no_v1=all "
                "mitigations=off audit=0 no_timer_check rdinit=/init")
RESULT = re.compile(r"(not ok|ok)\b[ \t]*\d*[ \t]*(?:- )?(.*)")
PLAN = re.compile(r"1\.\.(\d+)(?:\s*# *skip\S*\s*(.*))?", re.IGNORECASE)


class Tree:
    """This tree as the VM sees it: build directories may be elsewhere on the host."""

    def __init__(self, builds):
        self.builds = builds  # "native" and "musl": their directories

    def on_host(self, path):
        """The directory a path of the table is relative to, and the rest of the path."""
        if os.path.isabs(path):
            return pathlib.Path("/"), path[1:]
        for name, directory in self.builds.items():
            if path.startswith(f"build/{name}/"):
                return directory, path[len(f"build/{name}/"):]
        return ROOT, path

    def find(self, pattern):
        """(path on the host, path in the table) of all that the pattern matches."""
        base, rest = self.on_host(pattern)
        prefix = pattern[:len(pattern) - len(rest)]
        found = [(path, prefix + str(path.relative_to(base))) for path in sorted(base.glob(rest))
                 if not path.name.endswith(".p")]
        if not found:
            raise image.ImageError(f"there is no {base / rest}")
        return found


class Job:
    """One program of the table."""

    def __init__(self, group, seconds, source, path, arguments):
        self.group, self.seconds = group, int(seconds)
        self.source, self.path, self.arguments = source, path, arguments
        build = re.match(r"build/(\w+)/", path)
        self.name = " ".join([*(build.groups() if build else ()), os.path.basename(path),
                              *arguments, *(["in a group"] if group == "own" else [])])

    def guest_line(self, number):
        return f"{number} {self.group} {self.seconds} {' '.join([self.path, *self.arguments])}\n"


def read_programs(table, tree):
    """The jobs of the table, and (path on the host, path in the table) of what they need."""
    jobs, needed = [], []
    for line in image.listed(table):
        kind, *words = line.split()
        if kind == "with":
            needed += [found for word in words for found in tree.find(word)]
        elif kind in ("root", "own") and len(words) >= 2 and words[0].isdigit():
            jobs += [Job(kind, words[0], source, path, words[2:])
                     for source, path in tree.find(words[1])]
        else:
            raise image.ImageError(f"{table}: not understood: {line}")
    return jobs, needed


class Report:
    """Reads what the guest says, prints one TAP stream."""

    def __init__(self, jobs, out=sys.stdout):
        self.jobs, self.out = jobs, out
        self.number = self.failed = 0
        self.running = self.job = None  # the number of the job that runs now, and that job
        self.reported = set()  # numbers of jobs that came to their end
        self.done = False
        self.started = self.booted = time.monotonic()

    def say(self, text):
        print(text, file=self.out, flush=True)

    def result(self, ok, text):
        self.number += 1
        self.failed += not ok
        self.say(f"{'ok' if ok else 'not ok'} {self.number} - {text}")

    def left(self):
        """Numbers of the jobs that have no result yet."""
        return [number for number in range(len(self.jobs)) if number not in self.reported]

    def boots(self):
        """Another VM begins."""
        self.booted = time.monotonic()
        self.running = self.job = None
        self.done = False

    def line(self, text):
        words = text.split()
        if words[:1] == ["@boot"] and len(words) == 3:
            self.say(f"# Linux {words[2]} ran its first test after {self.elapsed():.1f} s "
                     f"({words[1]} s by the guest's clock)")
        elif words[:1] == ["@begin"] and len(words) == 2:
            self.begin(int(words[1]))
        elif words[:1] == ["@end"] and len(words) == 3 and self.job:
            self.end(words[2])
        elif words == ["@done"]:
            self.done = True
        elif self.job:
            self.job_line(text)
        elif text:
            self.say(f"# {text}")

    def elapsed(self):
        return time.monotonic() - self.booted

    def begin(self, number):
        self.running, self.job = number, self.jobs[number]
        self.seen = self.failed_here = 0
        self.planned = None
        self.began = time.monotonic()

    def job_line(self, text):
        result, plan = RESULT.fullmatch(text), PLAN.fullmatch(text)
        if result:
            self.seen += 1
            self.failed_here += result[1] == "not ok"
            self.result(result[1] == "ok", f"{self.job.name}: {result[2]}")
        elif plan:
            self.planned = int(plan[1])
            if plan[2]:
                self.result(True, f"{self.job.name} # SKIP {plan[2]}")
        elif text:
            self.say(text if text.startswith("#") else f"# {self.job.name}: {text}")

    def end(self, status):
        """A program that ends as it should not fails once more, so that nothing gets lost."""
        if self.planned is None or self.planned != self.seen:
            self.result(False, f"{self.job.name}: planned {self.planned}, ran {self.seen}, "
                               f"exit status {status}")
        elif status == "leftovers" or (status != "0" and not self.failed_here):
            self.result(False, f"{self.job.name}: exit status {status}")
        self.say(f"# {self.job.name}: {time.monotonic() - self.began:.1f} s")
        self.close()

    def close(self):
        self.reported.add(self.running)
        self.running = self.job = None

    def once_more(self, why):
        """The VM is of no use any more, and the job that ran, if one did, is not to blame."""
        who = f"{self.job.name}: " if self.job else ""
        self.say(f"# {who}{why}; programs left for a fresh VM: {len(self.left())}")
        self.running = self.job = None
        self.done = not self.left()

    def fail_job(self, why):
        """The VM ended because of the job that ran."""
        self.result(False, f"{self.job.name}: {why}")
        self.close()

    def finish(self, why):
        """`why` the last VM stopped, empty when it was switched off. Returns the exit status."""
        if self.job:
            self.fail_job(why or "the VM stopped")
        if self.left() or not (self.done or self.failed):
            self.result(False, f"the VM: {why or 'stopped'} after {len(self.reported)} of "
                               f"{len(self.jobs)} programs")
        self.say(f"# {len(self.jobs)} programs in {time.monotonic() - self.started:.1f} s, "
                 "boot and all")
        self.say(f"1..{self.number}")
        return 1 if self.failed else 0


def qemu_command(kernel, initramfs, disk, console):
    return ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", CPU, "-smp", "2",
            "-m", "2048", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-kernel", kernel.image, "-initrd", initramfs, "-append", COMMAND_LINE,
            "-drive", f"file={disk},format=raw,if=virtio,cache=unsafe",
            "-serial", f"file:{console}", "-serial", "stdio"]


def skip_reason(builds):
    """What this machine lacks, and which command installs it."""
    if platform.machine() != "x86_64":
        return f"the VM is x86_64, this is {platform.machine()}"
    for program in ("qemu-system-x86_64", "busybox", "cpio", "mkfs.ext4"):
        if not shutil.which(program):
            return f"no {program} (make test-vm installs it)"
    if not (KERNEL / "boot").is_dir():
        return "no kernel below build/deps (make test-vm fetches it)"
    for path in builds.values():
        if not path.is_dir():
            return f"no {os.path.relpath(path, ROOT)} (make builds it)"
    return ""


class Images:
    """What the VM boots from. Each VM has a disk of its own, with the jobs it is to run."""

    def __init__(self, jobs, needed):
        self.jobs, busybox = jobs, shutil.which("busybox")
        WORK.mkdir(parents=True, exist_ok=True)
        self.kernel = image.Kernel(KERNEL)
        self.disk = image.Disk(WORK, busybox)
        for source, path in needed + [(job.source, job.path) for job in jobs]:
            self.disk.add(source, None if os.path.isabs(path) else f"opensandbox/{path}")
        self.disk.add(HERE / "guest", "opensandbox/guest")
        self.initramfs = image.make_initramfs(self.kernel, WORK, busybox)

    def prepare(self, numbers):
        """The command that boots a VM for these jobs, and where its console goes."""
        console = WORK / "console.log"
        console.unlink(missing_ok=True)
        (self.disk.root / "opensandbox/jobs").write_text(
            "".join(self.jobs[number].guest_line(number) for number in numbers))
        return qemu_command(self.kernel, self.initramfs, self.disk.make(), console), console


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--native", type=pathlib.Path, default=ROOT / "build/native")
    parser.add_argument("--musl", type=pathlib.Path, default=ROOT / "build/musl")
    parser.add_argument("--seconds", type=int, default=machine.Limits.total, help="for all of it")
    parser.add_argument("--must-run", action="store_true", help="fail where it could skip")
    parser.add_argument("--table", type=pathlib.Path, default=HERE / "programs")
    parser.add_argument("names", nargs="*", help="run only these: parts of names, as test_cgroup")
    args = parser.parse_args()
    builds = {"native": args.native.resolve(), "musl": args.musl.resolve()}
    os.environ["PATH"] += os.pathsep + "/usr/sbin" + os.pathsep + "/sbin"

    missing = skip_reason(builds)
    if missing:
        print(f"1..0 # SKIP {missing}")
        return 1 if args.must_run else 0
    try:
        jobs, needed = read_programs(args.table, Tree(builds))
        if args.names:
            jobs = [job for job in jobs if any(name in job.name for name in args.names)]
        if not jobs:
            raise image.ImageError("no program has that in its name")
        images = Images(jobs, needed)
        return machine.run_jobs(Report(jobs), images.prepare, machine.Limits(total=args.seconds))
    except image.ImageError as problem:
        sys.exit(f"vm: {problem}")


if __name__ == "__main__":
    sys.exit(main())
