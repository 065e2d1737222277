"""The sync sandbox."""

from opensandbox._sync.sandbox import SandboxSync

__all__ = ["SandboxSync"]
