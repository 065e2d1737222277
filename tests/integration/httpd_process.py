"""httpd_process.py - runs our test server; knows its address, memory, descriptors."""
import os
import pathlib
import signal
import subprocess


class Httpd:
    """with Httpd(program, "--option", "value") as server: ... ends it by SIGTERM, in good order."""

    def __init__(self, program, *options):
        self.process = subprocess.Popen([program, "127.0.0.1:0", *options], stdout=subprocess.PIPE)
        self.address = self.process.stdout.readline().decode().strip()
        host, port = self.address.rsplit(":", 1)
        self.endpoint = (host, int(port))
        # ASan keeps freed memory for a while, which says nothing about the program.
        self.sanitized = b"__asan_init" in pathlib.Path(program).read_bytes()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        assert status == 0, f"the server ended with {status}"

    def memory_kib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0])

    def check_growth(self, before_kib, kib_max):
        grown = self.memory_kib() - before_kib
        assert self.sanitized or grown < kib_max, f"the server grew by {grown} KiB"

    def descriptors(self):
        """What each open descriptor is: "socket", "pipe", "anon_inode", a path."""
        folder = f"/proc/{self.process.pid}/fd"
        return [os.readlink(f"{folder}/{fd}").split(":")[0] for fd in os.listdir(folder)]
