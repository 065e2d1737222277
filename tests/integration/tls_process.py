"""tls_process.py - a server that speaks https, and certificates made for it by openssl.

    with tempfile.TemporaryDirectory() as name:
        authority = Authority(pathlib.Path(name))
        with TlsServer(authority, *programs) as server:
            server.request("GET", "/health")
"""
import http.client
import os
import ssl
import subprocess

from server_process import ServerProcess

SECONDS_MAX = 120
NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def openssl(*args, **more):
    return subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True,
                          timeout=SECONDS_MAX, **more).stdout


class Authority:
    """Issues certificates into a folder that every account may read."""

    def __init__(self, folder):
        self.folder = folder
        folder.chmod(0o755)
        self.ca = folder / "ca.pem"
        openssl("req", "-x509", *NEW_KEY, "-keyout", folder / "ca.key", "-out", self.ca,
                "-days", 2, "-subj", "/CN=test authority", "-addext", "keyUsage=keyCertSign")

    def issue(self, name, names="DNS:localhost,IP:127.0.0.1"):
        """Writes NAME.pem and NAME.key, in the place of older ones at once. The paths."""
        cert, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        openssl("req", "-x509", *NEW_KEY, "-keyout", f"{key}.new", "-out", f"{cert}.new",
                "-CA", self.ca, "-CAkey", self.folder / "ca.key", "-days", 2,
                "-subj", f"/CN={name}", "-addext", f"subjectAltName={names}",
                "-addext", "basicConstraints=CA:FALSE")
        for path in (cert, key):
            os.chmod(f"{path}.new", 0o644)
            os.rename(f"{path}.new", path)
        return cert, key

    def context(self, **versions):
        """What a client of Python needs to trust us. versions: minimum_version and the like."""
        context = ssl.create_default_context(cafile=self.ca)
        for name, value in versions.items():
            setattr(context, name, value)
        return context


class TlsServer(ServerProcess):
    def __init__(self, authority, *programs, config=None, env=None):
        self.authority = authority
        self.cert, self.key = authority.issue("server")
        config = {section: dict(keys) for section, keys in (config or {}).items()}
        config.setdefault("server", {}).update(tls_cert=str(self.cert), tls_key=str(self.key))
        self.context = authority.context()
        super().__init__(*programs, config=config, env=env)

    @property
    def url(self):
        return f"https://{self.domain}"

    def connection(self, timeout=SECONDS_MAX):
        return http.client.HTTPSConnection(self.host, self.port, timeout=timeout,
                                           context=self.context)
