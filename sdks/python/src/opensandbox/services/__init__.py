"""The services of a sandbox, for annotations."""

from opensandbox._async.commands import Commands
from opensandbox._async.egress import Egress
from opensandbox._async.egress import Egress as CredentialVault
from opensandbox._async.files import Filesystem
from opensandbox._async.isolated import IsolationService, IsolationSession
from opensandbox._async.lifecycle import Diagnostics, Sandboxes
from opensandbox._async.metrics import Metrics

__all__ = [
    "Commands",
    "CredentialVault",
    "Diagnostics",
    "Egress",
    "Filesystem",
    "IsolationService",
    "IsolationSession",
    "Metrics",
    "Sandboxes",
]
