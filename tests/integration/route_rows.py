"""Every route of the server, the role that it needs, and what it says of what another tenant owns.

A route without a row here fails the tests of tenants: who may ask for it has to be decided.
"""
import subprocess

READ, OPERATE, ADMIN = "read_only", "operator", "admin"
ALL = "admin of all tenants"
METERS = "read_only of all tenants"
ROLES = (READ, OPERATE, ADMIN)

OPEN = "open"  # needs no key, and says nothing of tenants
NAMED = "named"  # names a thing: 404 or 403 for all but its tenant
OWN = "own"  # lists or makes things of the one who asks
SHARED = "shared"  # belongs to no tenant
STREAM = "stream"  # does not end
TICKET = "ticket"  # a ticket in the path opens it, no key

# (methods, path, the role it needs or None, kind); those with a role, and /version, also under /v1.
ROWS = (
    ("POST GET DELETE", "/sandboxes", {"GET": READ, "*": OPERATE}, OWN),
    ("GET DELETE", "/sandboxes/{sandboxId}", {"GET": READ, "*": OPERATE}, NAMED),
    ("PATCH", "/sandboxes/{sandboxId}/metadata", OPERATE, NAMED),
    ("POST", "/sandboxes/{sandboxId}/pause", OPERATE, NAMED),
    ("POST", "/sandboxes/{sandboxId}/resume", OPERATE, NAMED),
    ("POST", "/sandboxes/{sandboxId}/renew-expiration", OPERATE, NAMED),
    ("POST", "/sandboxes/{sandboxId}/fork", OPERATE, NAMED),
    ("POST", "/sandboxes/{sandboxId}/rollback", OPERATE, NAMED),
    ("POST", "/sandboxes/{sandboxId}/stop", OPERATE, NAMED),
    ("POST", "/sandboxes/{sandboxId}/start", OPERATE, NAMED),
    ("GET", "/sandboxes/{sandboxId}/endpoints/{port}", OPERATE, NAMED),
    ("POST", "/sandboxes/{sandboxId}/previews/{port}", OPERATE, NAMED),
    ("POST", "/sandboxes/{sandboxId}/snapshots", OPERATE, NAMED),
    ("GET", "/sandboxes/{sandboxId}/diagnostics/logs", READ, NAMED),
    ("GET", "/sandboxes/{sandboxId}/diagnostics/events", READ, NAMED),
    ("GET", "/sandboxes/{sandboxId}/diagnostics/inspect", READ, NAMED),
    ("GET", "/sandboxes/{sandboxId}/diagnostics/summary", READ, NAMED),
    ("*", "/sandboxes/{sandboxId}/proxy/{port}", OPERATE, NAMED),
    ("*", "/sandboxes/{sandboxId}/proxy/{port}/*", OPERATE, NAMED),
    ("GET", "/snapshots", READ, OWN),
    ("GET DELETE", "/snapshots/{snapshotId}", {"GET": READ, "*": OPERATE}, NAMED),
    ("GET", "/images", READ, SHARED),
    ("POST", "/images/pull", OPERATE, SHARED),
    ("POST", "/images/import", ALL, SHARED),
    ("POST", "/images/prune", ALL, SHARED),
    ("GET DELETE", "/images/{image}", {"GET": READ, "*": ALL}, SHARED),
    ("GET", "/images/{image}/export", ALL, SHARED),
    ("GET POST", "/volumes", {"GET": READ, "*": OPERATE}, OWN),
    ("GET DELETE", "/volumes/{volumeName}", {"GET": READ, "*": OPERATE}, NAMED),
    ("GET POST", "/pools", {"GET": READ, "*": ADMIN}, OWN),
    ("GET PUT DELETE", "/pools/{poolName}", {"GET": READ, "*": ADMIN}, NAMED),
    ("GET", "/whoami", READ, OWN),
    ("GET POST", "/tenants", {"GET": READ, "*": ALL}, OWN),
    ("GET PATCH DELETE", "/tenants/{tenantName}", {"GET": READ, "*": ALL}, NAMED),
    ("GET POST", "/keys", ADMIN, OWN),
    ("GET DELETE", "/keys/{keyId}", ADMIN, NAMED),
    ("POST", "/keys/{keyId}/rotate", ADMIN, NAMED),
    ("GET", "/audit", ADMIN, OWN),
    ("GET", "/events", READ, STREAM),
    ("POST", "/metrics/events", READ, SHARED),
    ("GET", "/metrics", METERS, SHARED),
    ("*", "/preview/{ticket}", None, TICKET),
    ("*", "/preview/{ticket}/*", None, TICKET),
    ("GET", "/version", None, OPEN),
    ("GET", "/health", None, OPEN),
    ("GET", "/ready", None, OPEN),
    ("GET", "/openapi.json", None, OPEN),
    ("GET", "/docs", None, OPEN),
    ("GET", "/redoc", None, OPEN),
    ("GET", "/auth/session", None, OPEN),
    ("GET", "/auth/login", None, OPEN),
    ("GET", "/auth/callback", None, OPEN),
    ("POST", "/auth/logout", None, OPEN),
    ("POST", "/auth/token", None, OPEN),
    ("GET", "/console", None, OPEN),
    ("GET", "/console/*", None, OPEN),
    ("GET", "/", None, OPEN),
)
# What a key of one sandbox may ask for, of that sandbox.
OF_SANDBOX = ("GET /sandboxes/{sandboxId}", "GET /sandboxes/{sandboxId}/endpoints/{port}",
              "POST /sandboxes/{sandboxId}/previews/{port}", "GET /whoami",
              *(f"GET /sandboxes/{{sandboxId}}/diagnostics/{part}"
                for part in ("logs", "events", "inspect", "summary")))


def rows():
    """{(method, path): (role, kind)}; the method "*" is any."""
    found = {}
    for methods, path, role, kind in ROWS:
        for method in methods.split():
            needs = role.get(method, role["*"]) if isinstance(role, dict) else role
            assert (method, path) not in found, (method, path)
            found[method, path] = (needs, kind)
    return found


def bare(path):
    return path[3:] if path.startswith("/v1/") else path


def routes(server):
    """Of the program: (method, path, role, kind) of each row of its table; fails when the rows
    here are others."""
    printed = subprocess.run([server, "--print-routes"], check=True, stdout=subprocess.PIPE,
                             text=True).stdout
    known = rows()
    listed = [tuple(line.split(" ", 1)) for line in printed.splitlines()]
    there = {(method, bare(path)) for method, path in listed}
    assert there == known.keys(), (
        f"without a row in route_rows.py: {sorted(there - known.keys())}; "
        f"with a row but no route: {sorted(known.keys() - there)}")
    return [(method, path, *known[method, bare(path)]) for method, path in listed]


def requests(server):
    """The same, with the methods that are tried for "*"."""
    for method, path, role, kind in routes(server):
        for one in ("GET", "POST", "DELETE") if method == "*" else (method,):
            yield one, path, role, kind


def may(role, needs):
    """Whether a key of one tenant with this role may ask for a route that needs that one."""
    return needs in ROLES[:ROLES.index(role) + 1]
