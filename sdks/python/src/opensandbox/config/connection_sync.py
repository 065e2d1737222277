"""ConnectionConfigSync: how the sync client reaches a server."""

from __future__ import annotations

from typing import Any

from opensandbox.config.base import BaseConnectionConfig


class ConnectionConfigSync(BaseConnectionConfig):
    """Settings for SandboxSync, SandboxManagerSync and SandboxPoolSync.

    `transport` is an httpx.BaseTransport of your own, which the SDK never closes. Without it
    each sandbox and each manager has one connection pool, closed with it.
    """

    def new_owned_transport(
        self,
        *,
        max_connections: int | None = 100,
        max_keepalive_connections: int = 20,
        keepalive_expiry: float = 30.0,
    ) -> Any:
        """A new connection pool, which the caller closes."""
        from opensandbox._sync.io import new_transport

        return new_transport(max_connections, max_keepalive_connections, keepalive_expiry)

    def with_transport_if_missing(
        self,
        *,
        max_connections: int | None = 100,
        max_keepalive_connections: int = 20,
        keepalive_expiry: float = 30.0,
    ) -> ConnectionConfigSync:
        """This configuration, or a copy with a new connection pool if it has none."""
        if self.transport is not None:
            return self
        return self._with_transport(
            self.new_owned_transport(
                max_connections=max_connections,
                max_keepalive_connections=max_keepalive_connections,
                keepalive_expiry=keepalive_expiry,
            )
        )

    def close_transport_if_owned(self) -> None:
        """Closes the connection pool unless it is the caller's."""
        if self.transport is not None and self._owns_transport:
            self.transport.close()
