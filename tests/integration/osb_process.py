"""osb_process.py - runs osb against a server of a test, also on a terminal of its own."""
import fcntl
import json
import os
import pathlib
import pty
import select
import struct
import subprocess
import termios
import time

import pyte
from server_process import SECONDS_MAX


class Osb:
    def __init__(self, program, server, home):
        self.program, self.home = os.path.abspath(program), pathlib.Path(home)
        self.env = {"PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8", "TERM": "xterm",
                    "OPEN_SANDBOX_DOMAIN": server.domain, "OPEN_SANDBOX_API_KEY": server.api_key}

    def run(self, *words, stdin="", env=None):
        return subprocess.run([self.program, *words], input=stdin, text=True, capture_output=True,
                              check=False, timeout=SECONDS_MAX, env={**self.env, **(env or {})})

    def ok(self, *words, **more):
        done = self.run(*words, **more)
        assert done.returncode == 0, f"{words}: {done}"
        return done.stdout

    def json(self, *words):
        return json.loads(self.ok("-o", "json", *words))

    def ids(self):
        return {item["id"] for item in self.json("sandbox", "list")["items"]}


class Screen:
    """osb on a terminal of its own, seen through an emulator."""

    def __init__(self, osb, *words, columns=80, rows=24):
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(osb.program, [osb.program, *words], osb.env)
        self.resize(columns, rows)

    def resize(self, columns, rows):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)

    def type(self, text):
        os.write(self.fd, text.encode())

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the program ended
            return False
        self.stream.feed(data)
        return bool(data)

    def wait(self, text):
        end = time.monotonic() + SECONDS_MAX
        while not any(text in line for line in self.screen.display):
            shown = "\n".join(self.screen.display)
            assert time.monotonic() < end, f"no {text!r} on\n{shown}"
            assert self.read(0.1) or any(text in line for line in self.screen.display), shown

    def end(self):
        end = time.monotonic() + SECONDS_MAX
        while self.read(0.1):
            assert time.monotonic() < end, "it does not end"
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.fd)
        return status
