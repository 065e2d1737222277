"""The sync pool."""

from opensandbox._sync.pool import SandboxPoolManagerSync, SandboxPoolSync

__all__ = ["SandboxPoolManagerSync", "SandboxPoolSync"]
