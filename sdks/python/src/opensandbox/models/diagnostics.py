"""What a server knows of a sandbox's troubles."""

from __future__ import annotations

from datetime import datetime

from opensandbox.models._base import Model, wire


class DiagnosticContent(Model):
    """Text, or where it can be fetched."""

    sandbox_id: str = wire("sandboxId", "sandbox_id")
    kind: str
    scope: str
    delivery: str
    content_type: str = wire("contentType", "content_type")
    truncated: bool
    content: str | None = None
    content_url: str | None = wire("contentUrl", "content_url", default=None)
    content_length: int | None = wire("contentLength", "content_length", default=None)
    expires_at: datetime | None = wire("expiresAt", "expires_at", default=None)
    warnings: list[str] | None = None
