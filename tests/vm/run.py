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
import selectors
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import image  # pylint: disable=wrong-import-position

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
KERNEL = ROOT / "build/deps/vm"
WORK = ROOT / "build/vm"
SECONDS = 2400  # it takes some six minutes on an idle machine
CONSOLE_LINES = 40
QEMU_SECONDS = 60  # from its last word to its end
LINE_BYTES_MAX = 65536
# On a busy host the emulated timer misses the moment at which the kernel tests it: it would panic.
COMMAND_LINE = ("console=ttyS0 quiet loglevel=4 panic=-1 oops=panic cgroup_no_v1=all "
                "mitigations=off audit=0 no_timer_check rdinit=/init")
RESULT = re.compile(r"(not ok|ok)\b[ \t]*\d*[ \t]*(?:- )?(.*)")
PLAN = re.compile(r"1\.\.(\d+)(?:\s*# *skip\S*\s*(.*))?", re.IGNORECASE)
USUAL = re.compile(r"Memory cgroup out of memory|reboot: Power down")  # when all is well, too
COMPLAINT = re.compile(r"BUG:|Oops|WARNING:|Kernel panic|Call Trace|vm: ")


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
        self.job = None  # the one that runs now
        self.reported = 0  # jobs that came to their end
        self.done = False
        self.started = time.monotonic()

    def say(self, text):
        print(text, file=self.out, flush=True)

    def result(self, ok, text):
        self.number += 1
        self.failed += not ok
        self.say(f"{'ok' if ok else 'not ok'} {self.number} - {text}")

    def line(self, text):
        words = text.split()
        if words[:1] == ["@boot"] and len(words) == 3:
            self.say(f"# Linux {words[2]} ran its first test after {self.elapsed():.1f} s "
                     f"({words[1]} s by the guest's clock)")
        elif words[:1] == ["@begin"] and len(words) == 2:
            self.begin(self.jobs[int(words[1])])
        elif words[:1] == ["@end"] and len(words) == 3 and self.job:
            self.end(words[2])
        elif words == ["@done"]:
            self.done = True
        elif self.job:
            self.job_line(text)
        elif text:
            self.say(f"# {text}")

    def elapsed(self):
        return time.monotonic() - self.started

    def begin(self, job):
        self.job = job
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
        self.job = None
        self.reported += 1

    def finish(self, why):
        """`why` the VM stopped, empty when it was switched off. Returns the exit status."""
        if self.job:
            self.result(False, f"{self.job.name}: {why or 'the VM stopped'}")
        elif why or not self.done or self.reported != len(self.jobs):
            self.result(False, f"the VM: {why or 'stopped'} after {self.reported} of "
                               f"{len(self.jobs)} programs")
        self.say(f"# {len(self.jobs)} programs in {self.elapsed():.1f} s, boot and all")
        self.say(f"1..{self.number}")
        return 1 if self.failed else 0


def qemu_command(kernel, initramfs, disk, console):
    return ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2",
            "-m", "2048", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-kernel", kernel.image, "-initrd", initramfs, "-append", COMMAND_LINE,
            "-drive", f"file={disk},format=raw,if=virtio,cache=unsafe",
            "-serial", f"file:{console}", "-serial", "stdio"]


def lines_until(process, deadline):
    """Yields the guest's lines; ends with the process, raises TimeoutError at the deadline."""
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(max(0, deadline - time.monotonic())):
                raise TimeoutError
            data = os.read(process.stdout.fileno(), 65536)
            *lines, rest = (rest + data).split(b"\n")
            if not data or len(rest) > LINE_BYTES_MAX:
                lines, rest = [*lines, rest], b""
            for line in lines:
                yield line.decode(errors="replace").rstrip("\r")
            if not data:
                return


def boot(command, report, seconds):
    """Runs the VM to its end. Returns why it stopped, empty when it switched itself off."""
    with subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE) as qemu:
        try:
            for line in lines_until(qemu, time.monotonic() + seconds):
                report.line(line)
            qemu.wait(QEMU_SECONDS)
        except (TimeoutError, subprocess.TimeoutExpired):
            return f"not done after {seconds} s"
        finally:
            if qemu.poll() is None:
                qemu.kill()
    return "" if report.done else f"ended early, QEMU's exit status is {qemu.returncode}"


def panic(console):
    """The kernel's last message, or nothing."""
    said = console.read_text(errors="replace") if console.exists() else ""
    return next(iter(re.findall(r"Kernel panic - .*", said)), "")


def show_console(console, failed):
    """What the kernel said: all of its last words after a failure, else only complaints."""
    lines = console.read_text(errors="replace").splitlines() if console.exists() else []
    lines = [line for line in lines if line.strip() and not USUAL.search(line)]
    if not failed:
        lines = [line for line in lines if COMPLAINT.search(line)]
    for line in lines[-CONSOLE_LINES:]:
        print(f"# console: {line.strip()}")


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


def prepare(jobs, needed):
    """Makes both images; returns the command that boots them, and where the console goes."""
    busybox, console = shutil.which("busybox"), WORK / "console.log"
    WORK.mkdir(parents=True, exist_ok=True)
    console.unlink(missing_ok=True)
    kernel = image.Kernel(KERNEL)
    disk = image.Disk(WORK, busybox)
    for source, path in needed + [(job.source, job.path) for job in jobs]:
        disk.add(source, None if os.path.isabs(path) else f"opensandbox/{path}")
    disk.add(HERE / "guest", "opensandbox/guest")
    (disk.root / "opensandbox/jobs").write_text(
        "".join(job.guest_line(number) for number, job in enumerate(jobs)))
    initramfs = image.make_initramfs(kernel, WORK, busybox)
    return qemu_command(kernel, initramfs, disk.make(), console), console


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--native", type=pathlib.Path, default=ROOT / "build/native")
    parser.add_argument("--musl", type=pathlib.Path, default=ROOT / "build/musl")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="for all of it")
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
        command, console = prepare(jobs, needed)
    except image.ImageError as problem:
        sys.exit(f"vm: {problem}")
    report = Report(jobs)
    why = boot(command, report, args.seconds)
    status = report.finish(panic(console) or why)
    show_console(console, status)
    return status


if __name__ == "__main__":
    sys.exit(main())
