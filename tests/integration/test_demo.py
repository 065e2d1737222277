#!/usr/bin/env python3
"""test_demo.py SERVER BROKER EXECD API_TOUR - what `make demo` and `make run` start and leave.

Runs tools/demo and tools/run from a tree of their own, made of links, in which programs may be
replaced by others, or be led by a script that tells and waits. TAP on standard output.
"""
import contextlib
import glob
import hashlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

from broker_process import Broker, is_alive
from server_process import SECONDS_MAX, reserve_port, wait_for, why_not

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402

PROGRAMS = ("opensandbox-server", "opensandbox-broker", "execd", "api_tour")
STEPS = ["start a server", "create a sandbox", "ask for the endpoint", "run echo", "run python3",
         "write /tmp/letter.txt", "read /tmp/letter.txt", "delete the sandbox",
         "from asking for a sandbox", "stop the server"]
# Creates a sandbox and leaves it, as a tour does that was killed.
LEAVES_A_SANDBOX = """#!/usr/bin/env python3
import os, sys, urllib.request
body = b'{"image":{"uri":"host"},"entrypoint":["tail","-f","/dev/null"],' \\
       b'"resourceLimits":{"cpu":"1","memory":"64Mi"},"timeout":600}'
headers = {"OPEN-SANDBOX-API-KEY": os.environ["OPEN_SANDBOX_API_KEY"],
           "Content-Type": "application/json"}
request = urllib.request.Request(sys.argv[1] + "/v1/sandboxes", data=body, headers=headers)
print("made", urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request).status)
sys.exit(7)
"""


# Before the programs of the same names: says what the server was started with; waits for a file.
LEADERS = {
    "opensandbox-server": 'printf "%s\\n" "$@" >"$tree/new" && mv "$tree/new" "$tree/words"',
    "api_tour": 'until [ -e "$tree/go" ]; do sleep 0.05; done',
}


class Tree:
    """tools/, deploy/ and build/bin/ as a checkout has them. The tour waits for go()."""

    def __init__(self, programs, replaced=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="osb-demo-", dir="/tmp"))
        self.folder.chmod(0o755)
        (self.folder / "build/bin/led").mkdir(parents=True)
        (self.folder / "tools").mkdir()
        (self.folder / "deploy").mkdir()
        for name in ("tools/demo", "tools/run", "deploy/config.toml"):
            shutil.copy(tap.ROOT / name, self.folder / name)
        for name, path in zip(PROGRAMS, programs):
            self.put(name, path, (replaced or {}).get(name))

    def put(self, name, path, text):
        """The program, or a text in its place; behind its leader, if it has one."""
        places = [self.folder / "build/bin" / name, self.folder / "build/bin/led" / name]
        for place in places:
            if text:
                place.write_text(text, encoding="utf-8")
                place.chmod(0o755)
            else:
                place.symlink_to(os.path.abspath(path))
        if name in LEADERS:
            places[0].unlink()
            places[0].write_text(f"#!/bin/sh\ntree='{self.folder}'\n{LEADERS[name]}\n"
                                 f'exec "{places[1]}" "$@"\n', encoding="utf-8")
            places[0].chmod(0o755)

    def go(self):
        (self.folder / "go").touch()

    def state(self):
        """The directory that the demo gave its server."""
        path = self.folder / "words"
        wait_for(path.exists, "the demo's server")
        words = path.read_text(encoding="utf-8").splitlines()
        return pathlib.Path(words[words.index("--state") + 1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def start(self, *command, **more):
        return subprocess.Popen([*command, self.folder / "tools/demo"], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, start_new_session=True, **more)


def leftovers(state):
    """All that a server with this state directory may leave behind."""
    digest = hashlib.sha256(str(state).encode()).hexdigest()
    found = glob.glob(f"/sys/fs/cgroup/**/opensandbox-{digest[:8]}", recursive=True)
    found += glob.glob(f"/sys/class/net/osb{digest[:6]}*")
    found += [str(state.parent)] if state.parent.exists() else []
    for path in glob.glob("/proc/[0-9]*"):
        with contextlib.suppress(OSError):
            command = pathlib.Path(path, "cmdline").read_bytes().decode(errors="replace")
            mounts = pathlib.Path(path, "mountinfo").read_text(encoding="utf-8", errors="replace")
            if (str(state) in command or f"{state}/" in mounts) and is_alive(path.split("/")[2]):
                found.append(f"process {path} {command}")
    return found


def must_be_gone(state):
    end = time.monotonic() + SECONDS_MAX  # the kernel takes a moment for a network namespace
    while leftovers(state) and time.monotonic() < end:
        time.sleep(0.1)
    assert not leftovers(state), leftovers(state)


def finish(tree, process):
    """Status and output, once nothing is left."""
    output, _ = process.communicate(timeout=SECONDS_MAX)
    must_be_gone(tree.state())
    return process.returncode, output


def check_steps(status, output):
    assert status == 0, output
    times = re.findall(r"^ *(\d+\.\d) ms  (.*)$", output, re.MULTILINE)
    assert len(times) == len(STEPS), output
    for (ms, what), step in zip(times, STEPS):
        assert what.startswith(step) and float(ms) >= 0, output
    for line in ("Hello from a sandbox", "332833500", "Dear sandbox, this came over HTTP."):
        assert f"             {line}\n" in output, output
    after = output[output.index("stop the server"):].splitlines()[1:]
    assert len(after) == 5 and "make run" in after[2] and "README.md" in after[4], output


def it_shows_a_sandbox_and_leaves_nothing(programs):
    with Tree(programs) as tree:
        process = tree.start()
        assert leftovers(tree.state()), "while it runs there is something to be found"
        tree.go()
        check_steps(*finish(tree, process))


def it_needs_no_network(programs):
    with Tree(programs) as tree:
        process = tree.start("unshare", "--net", "sh", "-c",
                             'ip link set lo up && exec "$0"')
        tree.go()
        check_steps(*finish(tree, process))


def a_signal_ends_it_cleanly(programs, signo, kill):
    with Tree(programs) as tree:
        process = tree.start()
        tree.go()
        line = process.stdout.readline()
        while "create a sandbox" not in line:
            assert line, "it ended before it created a sandbox"
            line = process.stdout.readline()
        kill(process.pid, signo)
        finish(tree, process)


def a_signal_at_the_start_ends_it_cleanly(programs):
    with Tree(programs) as tree:
        process = tree.start()
        tree.state()
        os.killpg(process.pid, signal.SIGINT)
        status, output = finish(tree, process)
        assert status != 0 and "delete the sandbox" not in output, output


def a_sandbox_left_by_the_tour_goes_too(programs):
    with Tree(programs, {"api_tour": LEAVES_A_SANDBOX}) as tree:
        process = tree.start()
        tree.go()
        status, output = finish(tree, process)
        assert status == 7 and "made 202" in output, output


def a_server_that_does_not_start_is_reported(programs):
    with Tree(programs, {"opensandbox-server": "#!/bin/sh\necho no room >&2\nexit 1\n"}) as tree:
        process = tree.start()
        output, _ = process.communicate(timeout=SECONDS_MAX)
        assert process.returncode == 1 and "no room" in output and "Traceback" not in output, output


def a_broker_that_does_not_start_is_reported(programs):
    """It also is what cleans up, and must not hide the first failure by a second one."""
    with Tree(programs, {"opensandbox-broker": "#!/bin/sh\necho no luck >&2\nexit 1\n"}) as tree:
        process = tree.start()
        output, _ = process.communicate(timeout=SECONDS_MAX)
        assert process.returncode == 1 and "did not start" in output, output
        assert "the sweep failed" in output and "Traceback" not in output, output


def a_sandbox_that_fails_is_reported(programs):
    """In a chroot the kernel makes no user namespaces."""
    with Tree(programs) as tree:
        process = tree.start("unshare", "--mount", "sh", "-c",
                             'mount --rbind / /mnt && exec chroot /mnt "$0"')
        tree.go()
        status, output = finish(tree, process)
        assert status == 1 and "no sandbox can start: " in output, output
        assert "user namespace" in output, output


def without_root_it_says_what_to_do(programs):
    with Tree(programs) as tree:
        for name in ("demo", "run"):
            done = subprocess.run([tree.folder / "tools" / name], user=65534, group=65534,
                                  extra_groups=[], cwd="/", capture_output=True, text=True,
                                  timeout=SECONDS_MAX, check=False)
            assert done.returncode == 1 and f"sudo make {name}" in done.stderr, done


def run_shows_address_and_key(programs):
    with Tree(programs) as tree, reserve_port() as reserved:
        state, port = tree.folder / "st", reserved.getsockname()[1]
        process = subprocess.Popen(
            [tree.folder / "tools/run", "--port", str(port), "--state", state],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
            env={"PATH": os.environ["PATH"], "HOME": str(tree.folder)})
        shown = "".join(process.stdout.readline() for _ in range(3))
        address = re.search(r"address +(\S+)", shown)[1]
        key = re.search(r"key +(\S+)", shown)[1]
        request = urllib.request.Request(address + "/v1/sandboxes",
                                         headers={"OPEN-SANDBOX-API-KEY": key})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=SECONDS_MAX) as reply:
            assert reply.status == 200
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(SECONDS_MAX) == 0
        process.stdout.close()
        Broker(programs[1], programs[2], "", folder=tree.folder).sweep()


def main():
    programs = sys.argv[1:]
    tap.skip_all(why_not())
    checks = tap.Tap()
    checks.check("make demo shows a sandbox and leaves nothing",
                 it_shows_a_sandbox_and_leaves_nothing, programs)
    checks.check("it needs no network", it_needs_no_network, programs)
    checks.check("Ctrl-C ends it cleanly", a_signal_ends_it_cleanly, programs, signal.SIGINT,
                 os.killpg)
    checks.check("so does SIGTERM to it alone", a_signal_ends_it_cleanly, programs, signal.SIGTERM,
                 os.kill)
    checks.check("so does a Ctrl-C at the start", a_signal_at_the_start_ends_it_cleanly, programs)
    checks.check("a sandbox that the tour left goes, too", a_sandbox_left_by_the_tour_goes_too,
                 programs)
    checks.check("a server that does not start is reported",
                 a_server_that_does_not_start_is_reported,
                 programs)
    checks.check("so is a broker", a_broker_that_does_not_start_is_reported, programs)
    checks.check("a sandbox that fails is reported with the reason",
                 a_sandbox_that_fails_is_reported,
                 programs)
    checks.check("without root it says what to do", without_root_it_says_what_to_do, programs)
    checks.check("make run shows address and key", run_shows_address_and_key, programs)
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
