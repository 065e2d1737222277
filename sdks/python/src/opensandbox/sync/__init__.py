"""The sync client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opensandbox.sync.manager import SandboxManagerSync
    from opensandbox.sync.pool import SandboxPoolSync
    from opensandbox.sync.sandbox import SandboxSync

__all__ = ["SandboxManagerSync", "SandboxPoolSync", "SandboxSync"]

_HOMES = {
    "SandboxManagerSync": "opensandbox.sync.manager",
    "SandboxPoolSync": "opensandbox.sync.pool",
    "SandboxSync": "opensandbox.sync.sandbox",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'opensandbox.sync' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
