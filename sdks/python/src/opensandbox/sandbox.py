"""The async sandbox."""

from opensandbox._async.sandbox import Sandbox

__all__ = ["Sandbox"]
