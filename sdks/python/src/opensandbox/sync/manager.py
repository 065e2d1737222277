"""The sync manager."""

from opensandbox._sync.manager import SandboxManagerSync

__all__ = ["SandboxManagerSync"]
