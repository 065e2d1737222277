"""machine.py - runs jobs in a VM, and boots another VM when one hangs.

The guest sends a byte of PULSES for each of its CPUs every two seconds. A CPU without a pulse is
the emulator's failure, not that of the program under test: the VM is killed, and the program runs
once more in a fresh VM. A program that exceeds its limit while the CPUs run has failed; the
programs after it run in a fresh VM. All limits are kept by the host's clock.
"""
import dataclasses
import os
import re
import selectors
import subprocess
import time

PULSES = b"\x05\x06"  # control characters that no test prints, so they may stand inside a line
LINE_BYTES_MAX = 65536
CONSOLE_LINES = 40
USUAL = re.compile(r"Memory cgroup out of memory|reboot: Power down")  # when all is well, too
COMPLAINT = re.compile(r"BUG:|Oops|WARNING:|Kernel panic|Call Trace|vm: ")

# How a VM ended.
DONE, FROZEN, OVERDUE, ENDED, LATE = "done", "frozen", "overdue", "ended", "late"


@dataclasses.dataclass
class Limits:
    """Seconds, but for the last."""
    total: float = 2400  # for all VMs together
    boot: float = 240  # until the guest's first line
    silence: float = 120  # of one CPU
    grace: float = 60  # beyond the limit of a program, which the guest keeps first
    off: float = 60  # from the guest's last line to the end of QEMU
    more_boots: int = 2


class Pulse:
    """When each CPU was last known to run."""

    def __init__(self, limits):
        self.limits = limits
        self.started = time.monotonic()
        self.seen = {}

    def booted(self):
        self.seen = dict.fromkeys(PULSES, time.monotonic())

    def take(self, data):
        """Notes the pulses in the data; returns the data without them."""
        if self.seen:
            self.seen.update((byte, time.monotonic()) for byte in set(data) & set(PULSES))
        return data.translate(None, PULSES)

    def deadline(self):
        if not self.seen:
            return self.started + self.limits.boot, (
                FROZEN, f"the VM did not boot in {self.limits.boot:g} s")
        cpu = min(range(len(PULSES)), key=lambda i: self.seen[PULSES[i]])
        return self.seen[PULSES[cpu]] + self.limits.silence, (
            FROZEN, f"the emulator froze: no pulse of CPU {cpu} for {self.limits.silence:g} s")


class Machine:
    """One VM. `deadline` is the end of all VMs."""

    def __init__(self, command, report, limits, deadline):
        self.report, self.limits = report, limits
        self.pulse = Pulse(limits)
        self.rest = b""
        self.late = deadline, (LATE, f"not done after {limits.total:g} s")
        self.qemu = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE)

    def run(self):
        """Returns (how it ended, why), `why` empty when the guest switched it off."""
        with self.qemu:
            try:
                return self.read_all()
            finally:
                if self.qemu.poll() is None:
                    self.qemu.kill()

    def read_all(self):
        with selectors.DefaultSelector() as selector:
            selector.register(self.qemu.stdout, selectors.EVENT_READ)
            while True:
                deadline, verdict = self.next_deadline()
                if not selector.select(max(0, deadline - time.monotonic())):
                    return verdict
                data = os.read(self.qemu.stdout.fileno(), 65536)
                self.read_lines(data)
                if not data:
                    return self.end()

    def next_deadline(self):
        """The next moment at which something is wrong, and what would be wrong then."""
        deadlines = [self.late]
        if self.report.done:
            deadlines.append((time.monotonic() + self.limits.off, (ENDED, "QEMU does not end")))
        else:
            deadlines.append(self.pulse.deadline())
        job = self.report.job
        if job:
            deadlines.append((self.report.began + job.seconds + self.limits.grace,
                              (OVERDUE, f"not done after {job.seconds} s")))
        return min(deadlines)

    def read_lines(self, data):
        *lines, self.rest = (self.rest + self.pulse.take(data)).split(b"\n")
        if not data or len(self.rest) > LINE_BYTES_MAX:
            lines, self.rest = [*lines, self.rest], b""
        for line in lines:
            self.report.line(line.decode(errors="replace").rstrip("\r"))
            if line.startswith(b"@boot "):
                self.pulse.booted()

    def end(self):
        try:
            self.qemu.wait(self.limits.off)
        except subprocess.TimeoutExpired:
            return ENDED, "QEMU does not end"
        if self.report.done:
            return DONE, ""
        return ENDED, f"the VM ended early, QEMU's exit status is {self.qemu.returncode}"


def panic(console):
    """The kernel's last message, or nothing."""
    said = console.read_text(errors="replace") if console.exists() else ""
    return next(iter(re.findall(r"Kernel panic - .*", said)), "")


def show_console(console, failed, say):
    """What the kernel said: all of its last words after a failure, else only complaints."""
    lines = console.read_text(errors="replace").splitlines() if console.exists() else []
    lines = [line for line in lines if line.strip() and not USUAL.search(line)]
    if not failed:
        lines = [line for line in lines if COMPLAINT.search(line)]
    for line in lines[-CONSOLE_LINES:]:
        say(f"# console: {line.strip()}")


def run_jobs(report, prepare, limits):
    """Runs all jobs of the report. `prepare(numbers)` makes the images of a VM that runs the jobs
    with these numbers, and returns the command and the path of its console. Returns the exit
    status."""
    deadline = time.monotonic() + limits.total
    frozen = set()  # jobs under which a VM froze; a job that does it again has failed
    why = ""
    for boots in range(1 + limits.more_boots):
        report.boots()
        command, console = prepare(report.left())
        how, why = Machine(command, report, limits, deadline).run()
        why = panic(console) or why if how == ENDED else why
        show_console(console, why or report.failed, report.say)
        job = report.running
        if how == FROZEN and job not in frozen and boots < limits.more_boots:
            frozen.add(job)
            report.once_more(why)
        elif job is not None:
            report.fail_job(why)
        elif how != FROZEN:
            break  # all done, too late, or a VM that ends without a program to blame
        if how == LATE or not report.left():
            break
    return report.finish(why)
