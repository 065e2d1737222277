"""The store of a sync pool in this process."""

from opensandbox._sync.stores import InMemoryPoolStateStore

__all__ = ["InMemoryPoolStateStore"]
