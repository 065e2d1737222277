"""What destroys pools."""

from opensandbox.pool import SandboxPoolManager, SandboxPoolManagerAsync, SandboxPoolManagerSync

__all__ = ["SandboxPoolManager", "SandboxPoolManagerAsync", "SandboxPoolManagerSync"]
