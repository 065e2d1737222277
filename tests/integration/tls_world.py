"""tls_world.py - servers with certificates in the small internet of egress_world.py.

    with TlsWorld(folder) as tls, World(programs, {"egress": {"ca_file": str(tls.ca)}}) as w:
        tls.start(w.internet)
        tls.requests      # what they got, as of small_internet.py
"""
import ssl
import threading

from egress_world import TLS_ADDRESSES
from small_internet import Server, in_netns
from tls_process import Authority

NAMES = ("DNS:secure.test,DNS:elsewhere.test,DNS:model.test,DNS:*.wild.test,DNS:api.openai.com,"
         "DNS:example.com")


class TlsWorld:
    def __init__(self, folder):
        self.authority = Authority(folder)
        self.ca = self.authority.ca
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*self.authority.issue("world", NAMES))
        self.requests, self.servers = [], []

    def start(self, internet):
        for address in TLS_ADDRESSES:
            server = in_netns(f"/proc/{internet.process.pid}/ns/net", Server, self, (address, 443),
                              self.context)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.servers.append(server)

    def take(self):
        """The requests since the last call."""
        taken, self.requests[:] = list(self.requests), []
        return taken

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.shutdown()
            server.server_close()
