"""jupyter_server_config.py - Jupyter's server behind a proxy that takes a path away.

`--ServerApp.base_url` is the path below which a browser sees the server. A gateway takes that path
away and says so by X-Forwarded-Prefix; it is put back here, before a handler is looked for. A
request without the header, as at a host of its own, has the path already.
"""
from jupyter_server import serverapp


class Application(serverapp.ServerWebApplication):
    def find_handler(self, request, **more):
        prefix = request.headers.get("X-Forwarded-Prefix", "")
        if prefix and not request.path.startswith(prefix):
            request.path, request.uri = prefix + request.path, prefix + request.uri
        return super().find_handler(request, **more)


serverapp.ServerWebApplication = Application
