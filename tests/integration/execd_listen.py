"""execd_listen.py - execd as an ordinary process on a TCP port, and a client of its routes."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import urllib.parse

from execd_process import SECONDS_MAX, status_of


class Answer:
    def __init__(self, reply, body):
        self.status, self.body, self.headers = reply.status, body, reply.headers

    def json(self):
        assert self.headers["Content-Type"] == "application/json; charset=utf-8", self.headers
        return json.loads(self.body)

    def check_empty(self):
        assert self.status == 200 and self.body == b"", (self.status, self.body)
        assert self.headers["Content-Length"] == "0", self.headers
        assert self.headers["Content-Type"] is None, self.headers

    def check_error(self, status, code, message=None):
        assert self.status == status, (self.status, self.body)
        error = self.json()
        assert list(error) == ["code", "message"] and error["code"] == code, error
        if message is not None:
            assert error["message"] == message, f"{error['message']!r}, not {message!r}"


class Execd:
    """with Execd(program) as execd: listening, with a folder of its own as HOME and TMPDIR, as a
    user of this number (and groups) or as ours. options: text, "{home}" is the folder that is
    HOME."""

    def __init__(self, program, env=None, user=None, options=(), listen="127.0.0.1:0", groups=()):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="execd-files-")).resolve()
        (self.folder / "tmp").mkdir()
        self.home = self.folder / "home"
        self.home.mkdir()
        if user is not None:
            for folder in (self.folder, self.folder / "tmp", self.home):
                os.chown(folder, user, user)
            # a user without access to /root can run the copy
            program = shutil.copy(program, self.folder)
        self.process = subprocess.Popen(
            [program, "--listen", listen,
             *(option.format(home=self.home) for option in options),
             "--", "tail", "-f", "/dev/null"],
            cwd=self.home, stderr=subprocess.PIPE, text=True, umask=0o022, user=user, group=user,
            extra_groups=None if user is None else groups,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home),
                 "TMPDIR": str(self.folder / "tmp"), **(env or {})})
        line = self.process.stderr.readline()
        self.port = int(re.search(r"address=\S*:(\d+)", line)[1])

    def __enter__(self):
        self.ask("GET", "/ping")  # wait until it has opened everything it needs, not only its port
        return self

    def __exit__(self, *_):
        self.process.terminate()
        rest = self.process.communicate(timeout=SECONDS_MAX)[1]
        shutil.rmtree(self.folder)
        assert "Sanitizer" not in rest and "runtime error" not in rest, rest

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS_MAX)

    def ask(self, method, path, body=None, query=(), headers=None, client=None):
        """query: pairs; values may be text, bytes or paths."""
        text = urllib.parse.urlencode([(key, os.fsencode(value) if isinstance(value, pathlib.Path)
                                        else value) for key, value in query])
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        client = client or self.connect()
        client.request(method, path + ("?" + text if text else ""), body, headers or {})
        reply = client.getresponse()
        return Answer(reply, reply.read())

    def rss_kib(self):
        return int(status_of(self.process.pid, "VmRSS").split()[0])

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def descriptor_links(self):
        """The targets of its open descriptors, as the kernel shows them."""
        folder = f"/proc/{self.process.pid}/fd"
        links = []
        for fd in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):  # closed since it was listed
                links.append(os.readlink(f"{folder}/{fd}"))
        return links
