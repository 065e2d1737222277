"""Settings that the async and the sync client share."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator

from opensandbox._version import __version__
from opensandbox.transport.retry import RetryPolicy

_Self = TypeVar("_Self", bound="BaseConnectionConfig")
_TRUE = {"1", "true", "yes", "on"}


class BaseConnectionConfig(BaseModel):
    """Settings of a connection. What is not given comes from the environment:
    OPEN_SANDBOX_DOMAIN, OPEN_SANDBOX_API_KEY, OPEN_SANDBOX_PROTOCOL,
    OPEN_SANDBOX_USE_SERVER_PROXY and OPEN_SANDBOX_REQUEST_TIMEOUT (seconds)."""

    model_config = ConfigDict(arbitrary_types_allowed=True, defer_build=True)

    _ENV_API_KEY: ClassVar[str] = "OPEN_SANDBOX_API_KEY"
    _ENV_DOMAIN: ClassVar[str] = "OPEN_SANDBOX_DOMAIN"
    _DEFAULT_DOMAIN: ClassVar[str] = "localhost:8080"
    _API_VERSION: ClassVar[str] = "v1"

    _owns_transport: bool = PrivateAttr(default=True)
    _shared: Any = PrivateAttr(default=None)

    api_key: str | None = Field(default=None, repr=False)
    domain: str | None = None
    protocol: str = Field(
        default_factory=lambda: os.getenv("OPEN_SANDBOX_PROTOCOL", "").strip() or "http",
        validate_default=True,
    )
    request_timeout: timedelta = Field(
        default_factory=lambda: timedelta(
            seconds=float(os.getenv("OPEN_SANDBOX_REQUEST_TIMEOUT", "").strip() or 30)
        ),
        validate_default=True,
    )
    debug: bool = False
    user_agent: str = f"OpenSandbox-Python-SDK/{__version__}"
    headers: dict[str, str] = Field(default_factory=dict)
    follow_redirects: bool = False
    event_hooks: dict[str, list[Any]] = Field(default_factory=dict)
    transport: Any = None
    retry_policy: RetryPolicy = Field(default_factory=RetryPolicy)
    use_server_proxy: bool = Field(
        default_factory=lambda: os.getenv("OPEN_SANDBOX_USE_SERVER_PROXY", "").strip().lower()
        in _TRUE
    )
    endpoint_cache_ttl: timedelta = timedelta(seconds=600)
    endpoint_cache_size: int = 1024
    endpoint_cache_disabled: bool = False
    disable_metrics: bool = True
    enable_tracing: bool = False
    stream_idle_timeout: timedelta | None = timedelta(seconds=30)
    """How long a stream may be silent, without even a ping, before it counts as broken."""

    def model_post_init(self, context: Any, /) -> None:
        self._owns_transport = self.transport is None

    @property
    def owns_transport(self) -> bool:
        """Whether this SDK made the transport, and closes it."""
        return self._owns_transport

    @field_validator("protocol")
    @classmethod
    def _check_protocol(cls, value: str) -> str:
        value = value.lower()
        if value not in ("http", "https"):
            raise ValueError(f"protocol must be 'http' or 'https', not {value!r}")
        return value

    @field_validator("request_timeout")
    @classmethod
    def _check_timeout(cls, value: timedelta) -> timedelta:
        if value.total_seconds() <= 0:
            raise ValueError(f"request_timeout must be positive, not {value}")
        return value

    def get_api_key(self) -> str:
        """The key, or an empty string: then none is sent."""
        return self.api_key if self.api_key is not None else os.getenv(self._ENV_API_KEY, "")

    def get_domain(self) -> str:
        """The domain as it was given, perhaps with a scheme and a path."""
        return self.domain or os.getenv(self._ENV_DOMAIN, "").strip() or self._DEFAULT_DOMAIN

    def get_protocol(self) -> str:
        """The scheme of all requests: that of the domain, if it has one."""
        scheme, found, _ = self.get_domain().partition("://")
        return scheme.lower() if found else self.protocol

    def get_base_url(self) -> str:
        """Where the lifecycle API is."""
        domain = self.get_domain()
        rest = domain.partition("://")[2] or domain
        rest = rest.rstrip("/").removesuffix("/" + self._API_VERSION).rstrip("/")
        return f"{self.get_protocol()}://{rest}/{self._API_VERSION}"

    def endpoint_url(self, endpoint: str) -> str:
        """The URL of an endpoint, which has no scheme of its own."""
        endpoint = endpoint.rstrip("/")
        return endpoint if "://" in endpoint else f"{self.get_protocol()}://{endpoint}"

    def _with_transport(self: _Self, transport: Any) -> _Self:
        config = self.model_copy(update={"transport": transport})
        config._owns_transport = True
        return config
