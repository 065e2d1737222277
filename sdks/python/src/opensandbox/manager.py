"""The async manager."""

from opensandbox._async.manager import SandboxManager

__all__ = ["SandboxManager"]
