"""server_use.py - uses a sandbox as its owner does: commands and files, by way of the gateway."""
import json
import urllib.parse

SECONDS_MAX = 60
BOUNDARY = "osb-boundary-7d1"


class Gateway:
    """A connection to execd of one sandbox, with the token that its endpoint told."""

    def __init__(self, server, sandbox_id, port=44772):
        status, _, body = server.request("GET", f"/v1/sandboxes/{sandbox_id}/endpoints/{port}"
                                         "?use_server_proxy=true")
        assert status == 200, (status, body)
        url = urllib.parse.urlsplit("http://" + body["endpoint"])
        self.prefix, self.headers = url.path, body.get("headers", {})
        assert (url.hostname, url.port) == (server.host, server.port), body
        self.connection = server.connection(SECONDS_MAX)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def send(self, method, path, body=None, kind="application/json"):
        """The response, whose body is still to be read."""
        self.connection.request(method, self.prefix + path, body=body,
                                headers={"Content-Type": kind, **self.headers})
        return self.connection.getresponse()

    def ask(self, method, path, body=None, kind="application/json"):
        """The body of an answer that is 200."""
        reply = self.send(method, path, body, kind)
        data = reply.read()
        assert reply.status == 200, (method, path, reply.status, data[:500])
        return data

    def start(self, line, **fields):
        """The response of a command, to be read as it goes."""
        return self.send("POST", "/command", json.dumps({"command": line, **fields}))

    def run(self, line, **fields):
        """What a command printed to standard output, once it ended well."""
        return self.printed(self.start(line, **fields))

    @staticmethod
    def printed(reply):
        events = [json.loads(part) for part in reply.read().split(b"\n\n") if part.strip()]
        assert reply.status == 200 and events[-1]["type"] == "execution_complete", events
        return "\n".join(event["text"] for event in events if event["type"] == "stdout")

    def call(self, method, path, body=None):
        """Status and body of any answer."""
        reply = self.send(method, path, body and json.dumps(body))
        return reply.status, reply.read()

    def upload(self, path, data):
        metadata = json.dumps({"path": path, "mode": 644})
        parts = b""
        for name, content in (("metadata", metadata.encode()), ("file", data)):
            parts += (f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"; '
                      f'filename="{name}"\r\n\r\n').encode() + content + b"\r\n"
        self.ask("POST", "/files/upload", parts + f"--{BOUNDARY}--\r\n".encode(),
                 f"multipart/form-data; boundary={BOUNDARY}")

    def download(self, path):
        return self.ask("GET", "/files/download?" + urllib.parse.urlencode({"path": path}))
