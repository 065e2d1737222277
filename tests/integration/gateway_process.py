"""gateway_process.py - gatewayd before one sandbox, whose execd is a script on a unix socket."""
import contextlib
import json
import sys
import tempfile

from http_backend import Backend
from httplib import Server, request

PROGRAM = sys.argv[1]
ID = "5bcf5cf1-bd21-437a-be5a-0872b1dc0e4e"
KEY = "key-of-the-server"
TOKEN = "AbCdEfGhIjKlMnOpQrStUvWxYz012345"
WITH_KEY = f"OPEN-SANDBOX-API-KEY: {KEY}"
WITH_TOKEN = f"OpenSandbox-Secure-Access: {TOKEN}"


def path_to(port, rest="", sandbox=ID, prefix="/v1"):
    return f"{prefix}/sandboxes/{sandbox}/proxy/{port}{rest}"


def ask_for(method, rest, *headers, port=44772, **options):
    """A request with a credential."""
    return request(method, path_to(port, rest), WITH_TOKEN, *headers, **options)


class Gateway(Server):
    """Knows one sandbox with a token, and the addresses of others that are given as options."""

    def __init__(self, address, *options, key=KEY):
        super().__init__(PROGRAM, *(("--key", key) if key else ()),
                         "--sandbox", f"{ID}={address}", "--token", TOKEN, *options)

    def is_well(self):
        assert self.process.poll() is None, f"the gateway died: {self.process.returncode}"
        assert self.ask(request("GET", "/health")).status == 200, "the gateway does not answer"

    def stats(self):
        return json.loads(self.ask(request("GET", "/stats", WITH_KEY)).body)


@contextlib.contextmanager
def gateway_to(script, *options, key=KEY):
    with tempfile.TemporaryDirectory() as folder, \
            Backend(script, f"{folder}/execd.sock") as backend, \
            Gateway(backend.address, *options, key=key) as gateway:
        yield backend, gateway
