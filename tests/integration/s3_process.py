"""s3_process.py - moto's S3 server on loopback, and a client that needs no library.

    with S3(python) as s3:
        s3.make("bucket")
        s3.put("bucket", "a/b", b"text")

It takes any key. With `refuses` it takes none: moto then asks its own IAM, which knows nobody.
"""
import http.client
import os
import pathlib
import signal
import socket
import subprocess
import tempfile

from broker_process import wait_for

KEY_ID, KEY_SECRET = "test-id", "test-secret-Zm9v"


class S3:
    def __init__(self, python, refuses=False):
        self.folder = tempfile.TemporaryDirectory(prefix="osb-s3-")
        self.log_path = pathlib.Path(self.folder.name) / "log"
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.port = sock.getsockname()[1]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [python, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True,
                env={"PATH": os.environ["PATH"], "HOME": self.folder.name,
                     **({"INITIAL_NO_AUTH_ACTION_COUNT": "0"} if refuses else {})})

    def __enter__(self):
        wait_for(lambda: self.process.poll() is not None or self.answers(), "the S3 server", 120)
        assert self.process.poll() is None, self.log()
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    def log(self):
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def answers(self):
        try:
            return self.ask("GET", "/")[0] < 500
        except OSError:
            return False

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    @property
    def endpoint(self):
        return f"http://{self.address}"

    def ask(self, method, path, body=None, headers=None):
        """moto looks only at the service that a signature names."""
        scope = "a/20260101/us-east-1/s3/aws4_request"
        given = {"Authorization": f"AWS4-HMAC-SHA256 Credential={scope}"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body=body, headers={**given, **(headers or {})})
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def make(self, bucket):
        status, text = self.ask("PUT", f"/{bucket}")
        assert status == 200, text

    def put(self, bucket, key, data):
        status, text = self.ask("PUT", f"/{bucket}/{key}", data)
        assert status == 200, text

    def get(self, bucket, key):
        """Its bytes; None when there is no such object."""
        status, data = self.ask("GET", f"/{bucket}/{key}")
        return data if status == 200 else None
