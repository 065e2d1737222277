#!/usr/bin/env python3
"""test_osb_tmux.py OSB SERVER BROKER EXECD SANDBOXCTL - osb in a terminal as people use it: a shell
in tmux, in which osb shell, vim, osb top and others run. Every step waits for what the screen
shows."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tools")]

from osb_process import Osb  # noqa: E402
from server_process import SECONDS_MAX, ServerProcess, why_not  # noqa: E402
from tap import Tap, skip_all  # noqa: E402

PROMPT = r"^here>\s*\Z"  # the last line of the screen, alone


class Tmux:
    """A tmux server of its own with one window; ends with the block."""

    def __init__(self, folder, env):
        self.socket = str(pathlib.Path(folder) / "tmux")
        self.env = {**env, "TERM": "xterm-256color", "TMUX": ""}

    def call(self, *words):
        return subprocess.run(["tmux", "-f", "/dev/null", "-S", self.socket, *words], text=True,
                              env=self.env, stdin=subprocess.DEVNULL, capture_output=True,
                              check=True, timeout=SECONDS_MAX).stdout

    def __enter__(self):
        self.call("new-session", "-d", "-x", "80", "-y", "24", "sh")
        try:
            self.line("PS1='he''re> '; clear")
            self.wait(PROMPT)
            return self
        except BaseException:
            self.call("kill-server")
            raise

    def __exit__(self, *_):
        self.call("kill-server")

    def type(self, text):
        self.call("send-keys", "-l", text)

    def keys(self, *names):
        self.call("send-keys", *names)

    def line(self, text):
        self.type(text)
        self.keys("Enter")

    def resize(self, columns, rows):
        self.call("resize-window", "-x", str(columns), "-y", str(rows))

    def screen(self):
        return self.call("capture-pane", "-p")

    def wait(self, pattern):
        """Until the screen matches; the match."""
        end = time.monotonic() + SECONDS_MAX
        while not (found := re.search(pattern, shown := self.screen(), re.MULTILINE)):
            assert time.monotonic() < end, f"no {pattern!r} on\n{shown}"
            time.sleep(0.05)  # the clock only paces the looks
        return found


def shell_has_the_size_of_the_window(tmux, osb, box):
    tmux.line(f"{osb.program} shell {box}; echo status=$?")
    tmux.line("PS1='in''side> '")
    tmux.wait(r"^inside>\s*\Z")
    tmux.line("stty size")
    tmux.wait("^24 80$")
    tmux.resize(100, 30)
    tmux.line("until [ \"$(stty size)\" = '30 100' ]; do :; done; echo now-$(stty size)")
    tmux.wait("^now-30 100$")


def control_c_reaches_the_command(tmux, _osb, _box):
    tmux.line("echo be''gun; sleep 1000")
    tmux.wait("^begun$")
    tmux.keys("C-c")
    tmux.line("echo after-$?")
    tmux.wait("^after-130$")


def control_z_stops_it(tmux, _osb, _box):
    tmux.line("echo run''ning; sleep 1000")
    tmux.wait("^running$")
    tmux.keys("C-z")
    tmux.wait("Stopped")
    tmux.line("kill %1; wait; echo go''ne")
    tmux.wait("^gone$")


def vim_answer(tmux):
    """The size that vim shows; None when there is none: it draws anew, without its message, when
    the window changes."""
    end = time.monotonic() + 2
    while time.monotonic() < end:
        if found := re.search(r"is-(\d+x\d+)", tmux.screen()):
            return found.group(1)
        time.sleep(0.05)  # the clock only paces the looks
    return None


def vim_draws_and_saves(tmux, osb, box):
    # Without questions to the terminal: vim may take its answers for keys among those typed.
    tmux.line("vim -u NONE -N --cmd 'set t_RV= t_u7= t_RF= t_RB= t_RC= t_RS=' /tmp/letter")
    tmux.wait(r"^~$")
    tmux.type("ihello from vim")
    tmux.wait("^hello from vim$")
    tmux.wait("-- INSERT --")
    tmux.keys("Escape")
    tmux.resize(90, 26)
    end = time.monotonic() + SECONDS_MAX
    size = None
    while size != "90x26":  # vim may be asked before the new size reaches it
        assert time.monotonic() < end, f"vim has {size}"
        tmux.type(":echo 'is-' . &columns . 'x' . &lines")
        tmux.keys("Enter")
        size = vim_answer(tmux)
    tmux.type(":wq")
    tmux.keys("Enter")
    tmux.wait(r"^inside>\s*\Z")
    assert osb.ok("file", "cat", box, "/tmp/letter") == "hello from vim\n"


def detaches_and_comes_back(tmux, osb, box):
    # A shell of its own: what vim asked the terminal would be asked and answered again.
    tmux.line("exit")
    tmux.wait("^status=0$")
    tmux.resize(160, 26)  # one line for what it says
    tmux.line(f"clear; {osb.program} shell {box}; echo status=$?")
    tmux.line("PS1='in''side> '")
    tmux.wait(r"^inside>\s*\Z")
    tmux.line("clear; KEPT=in-the-shell; (sleep 0.2; echo la''ter) & wait; echo left")
    tmux.wait("^left$")
    tmux.keys("C-p", "C-q")
    command = tmux.wait(r"detached; osb (shell \S+ --attach \S+)\s+comes back").group(1)
    tmux.wait("^status=0$")
    tmux.line(f"clear; {osb.program} {command}; echo status=$?")
    tmux.wait("^left$")  # what it showed comes again
    tmux.line("echo [$KEPT]")
    tmux.wait(r"^\[in-the-shell\]$")
    tmux.line("exit 7")
    tmux.wait("^status=7$")
    tmux.wait(PROMPT)


def the_terminal_is_as_it_was(tmux, _osb, _box):
    tmux.line("stty -a | grep -o ' [-]*echo ' ; stty -a | grep -o ' [-]*icanon '; echo mo''des")
    tmux.wait(r"^ echo\s*$[\s\S]*^ icanon\s*$[\s\S]*^modes$")


def top_is_live_and_ends(tmux, osb, box):
    tmux.resize(120, 30)
    tmux.line(f"clear; {osb.program} top; echo status=$?")
    tmux.wait(f"^{box} ")
    tmux.wait(r"^ID +IMAGE +CPU %")
    other = osb.json("sandbox", "create", "--image", "host")["id"]
    tmux.wait(f"^{other} ")  # appears without a key
    osb.ok("sandbox", "kill", other)
    end = time.monotonic() + SECONDS_MAX
    while other in tmux.screen():
        assert time.monotonic() < end, tmux.screen()
    tmux.keys("C-c")
    tmux.wait("status=0$")
    tmux.wait(PROMPT)


def run_with_a_terminal_removes_its_sandbox(tmux, osb, box):
    before = osb.ids()
    tmux.line(f"clear; {osb.program} run --rm -it --image host -- "
              "sh -c 'tty && read x && exit $x'; "
              "echo status=$?")
    tmux.wait(r"/dev/pts/\d+$")
    tmux.line("5")
    tmux.wait("^status=5$")
    assert osb.ids() == before and box in before


TESTS = [
    shell_has_the_size_of_the_window,
    control_c_reaches_the_command,
    control_z_stops_it,
    vim_draws_and_saves,
    detaches_and_comes_back,
    the_terminal_is_as_it_was,
    top_is_live_and_ends,
    run_with_a_terminal_removes_its_sandbox,
]


def main():
    program, *programs = sys.argv[1:]
    skip_all(why_not())
    tap = Tap()
    with ServerProcess(*programs) as server, tempfile.TemporaryDirectory(prefix="osb-") as home:
        osb = Osb(program, server, home)
        box = osb.json("sandbox", "create", "--image", "host")["id"]
        with Tmux(home, {**osb.env, "PATH": os.environ["PATH"]}) as tmux:
            for test in TESTS:
                tap.check(test.__name__, test, tmux, osb, box)
        osb.ok("sandbox", "kill", *osb.ids())
    return tap.end()


sys.exit(main())
