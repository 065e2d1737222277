"""The async pool."""

from opensandbox._async.pool import SandboxPoolAsync
from opensandbox.pool import AsyncSandboxPool

__all__ = ["AsyncSandboxPool", "SandboxPoolAsync"]
