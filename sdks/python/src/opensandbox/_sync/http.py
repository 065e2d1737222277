# Written by tools/unasync from _async/http.py. DO NOT EDIT.
"""HTTP: one client per sandbox or manager, retries, errors, streams."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Callable, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from opensandbox._sync import io
from opensandbox._sync.io import Stream
from opensandbox._core.errors import api_error, retry_after_seconds
from opensandbox._core.endpoints import EndpointCache
from opensandbox._core.events import EventReader
from opensandbox._core.failures import cause_of, is_pre_send
from opensandbox._core.lazy import LazyModule
from opensandbox._core.tracing import Span, Tracing
from opensandbox.config.connection_sync import ConnectionConfigSync
from opensandbox.exceptions import (
    SandboxApiException,
    SandboxConnectionException,
    SandboxException,
    SandboxInternalException,
    SandboxTimeoutException,
)
from opensandbox.transport import unwrap_retry_transport
from opensandbox.transport.retry import RetryCause, RetryEvent, announce, is_idempotent_method

if TYPE_CHECKING:
    import httpx
else:
    httpx = LazyModule("httpx")

logger = logging.getLogger("opensandbox")

API_KEY_HEADER = "OPEN-SANDBOX-API-KEY"
SECRET_PREFIXES = ("open-sandbox-", "opensandbox-", "x-execd-")
UNLIMITED = -1.0
IN_PROGRESS = "IDEMPOTENCY::IN_PROGRESS"  # an earlier try of a create with a key is under way


class Link:
    """The HTTP client of a sandbox or a manager: one connection pool for all its services."""

    def __init__(self, config: ConnectionConfigSync) -> None:
        self.given = config
        self.config = config.with_transport_if_missing()
        # A wrapper that repeats requests gives its policy, so that they are not repeated twice.
        transport = unwrap_retry_transport(self.config.transport)
        wrapped = transport is not self.config.transport
        self.retry_policy = self.config.transport.policy if wrapped else config.retry_policy
        self.tracing = Tracing(config.enable_tracing)
        self.endpoints = EndpointCache(
            config.endpoint_cache_ttl, config.endpoint_cache_size, config.endpoint_cache_disabled
        )
        hooks = {name: list(functions) for name, functions in config.event_hooks.items()}
        if config.follow_redirects:
            hooks.setdefault("request", []).append(io.request_hook(_strip_secrets))
        self.client = io.new_client(transport, hooks, config.follow_redirects)
        self.closed = False

    def api(self) -> Http:
        """The lifecycle API, which alone gets the API key."""
        key = self.config.get_api_key()
        headers = {**self.config.headers, **({API_KEY_HEADER: key} if key else {})}
        return Http(self, self.config.get_base_url(), headers)

    def endpoint(self, address: str, headers: Mapping[str, str]) -> Http:
        """A port of a sandbox. What the caller set as a key for the API is not sent there."""
        own = {k: v for k, v in self.config.headers.items() if k.upper() != API_KEY_HEADER}
        return Http(self, self.config.endpoint_url(address), {**own, **headers})

    def close(self) -> None:
        if not self.closed and self.config.owns_transport:
            self.closed = True
            self.client.close()


def _strip_secrets(request: httpx.Request) -> None:
    """A redirect to another origin gets none of our tokens."""
    origin = (request.url.scheme, request.url.host, request.url.port)
    if request.extensions.get("opensandbox_origin", origin) != origin:
        for name in list(request.headers):
            if name.lower().startswith(SECRET_PREFIXES):
                del request.headers[name]


class Http:
    """Requests to one address."""

    def __init__(self, link: Link, base_url: str, headers: Mapping[str, str]) -> None:
        self.link = link
        self.base_url = base_url.rstrip("/")
        lower = {name.lower(): value for name, value in headers.items()}
        self.headers = {
            **lower,
            "user-agent": link.config.user_agent,
            "accept-encoding": "identity",
        }

    def below(self, path: str) -> Http:
        """The same address with a path behind it."""
        return Http(self.link, self.base_url + path, self.headers)

    def url(self, path: str, query: Mapping[str, Any] | None) -> httpx.URL:
        address = self.base_url + path
        given = {k: v for k, v in (query or {}).items() if v is not None}
        if given:
            address += "?" + urlencode(given, doseq=True, quote_via=quote)
        return httpx.URL(address)

    def build(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: Any,
        content: Any,
        headers: Mapping[str, str] | None,
        timeout: float | None,
    ) -> httpx.Request:
        """A request; `body` is sent as JSON, `content` as it is. A timeout of UNLIMITED: none."""
        config = self.link.config
        limit = config.request_timeout.total_seconds()
        own = self.link.retry_policy.per_attempt_timeout
        limit = own.total_seconds() if own is not None else limit
        read: float | None = limit if timeout is None else timeout
        if timeout == UNLIMITED:
            read = None
        sent = dict(self.headers)
        if body is not None:
            content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
            sent["content-type"] = "application/json"
        if headers:
            sent.update({name.lower(): value for name, value in headers.items()})
        url = self.url(path, query)
        return httpx.Request(
            method,
            url,
            headers=sent,
            content=content,
            extensions={
                "timeout": {"connect": limit, "pool": limit, "write": limit, "read": read},
                "opensandbox_origin": (url.scheme, url.host, url.port),
            },
        )

    def open(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        content: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        whole: bool = False,
        repeat: bool = True,
        idempotent: bool = False,
    ) -> httpx.Response:
        """The answer to a request, which has to be closed; with `whole` its body is read and it is
        closed. Raises for error statuses. Repeats what may be repeated: with `idempotent` as if it
        were a GET."""
        repeatable = repeat and (content is None or isinstance(content, bytes))
        with self.link.tracing.request(method, self.base_url + path) as span:
            own = {**self.link.tracing.headers(), **(headers or {})}

            def build() -> httpx.Request:
                return self.build(method, path, query, body, content, own, timeout)

            try:
                response = self._attempts(
                    build, method, path, repeatable, whole, span, "GET" if idempotent else method
                )
            except SandboxApiException as error:
                span.set("http.response.status_code", error.status_code)
                raise
            span.set("http.response.status_code", response.status_code)
            return response

    def _attempts(
        self,
        build: Callable[[], httpx.Request],
        method: str,
        path: str,
        repeatable: bool,
        whole: bool,
        span: Span,
        repeat_as: str,
    ) -> httpx.Response:
        policy = self.link.retry_policy
        begin, pause = time.monotonic(), policy.initial_backoff.total_seconds()
        retries, status_was_lost = 0, False
        while True:
            request = build()
            status: int | None = None
            asked: float | None = None
            failure: SandboxException
            try:
                return self._once(request, whole)
            except httpx.HTTPError as error:
                failure, cause = _network_failure(error, method, path)
                status_was_lost = status_was_lost or not is_pre_send(error)
                again = is_pre_send(error) or is_idempotent_method(repeat_as)
            except _Refused as refused:
                if status_was_lost and method == "DELETE" and refused.status == 404:
                    return refused.response  # an attempt whose answer was lost did it
                failure, status = refused.failure, refused.status
                cause, asked = RetryCause.for_status(status), refused.retry_after
                again = status in policy.retryable_statuses_for(repeat_as) or (
                    refused.failure.error.code == IN_PROGRESS and is_idempotent_method(repeat_as)
                )
            deadline = policy.overall_deadline
            if deadline is not None and time.monotonic() - begin > deadline.total_seconds():
                again = False
            if not again or not repeatable or retries >= policy.max_retries:
                raise failure
            pause = policy.pause_seconds(retries, pause, asked)
            announce(
                policy,
                RetryEvent(
                    attempt=retries + 2,
                    retries_used=retries,
                    method=method,
                    url=str(request.url),
                    cause=cause,
                    status_code=status,
                    backoff=timedelta(seconds=pause),
                    request_id=failure.request_id,
                    exception=failure,
                ),
            )
            retries += 1
            span.set("http.request.resend_count", retries)
            io.sleep(pause)

    def _once(self, request: httpx.Request, whole: bool) -> httpx.Response:
        response: httpx.Response = self.link.client.send(request, stream=True)
        if self.link.config.debug:
            logger.debug("%s %s: %s", request.method, request.url.path, response.status_code)
        try:
            if whole or response.status_code >= 300:
                response.read()
        except BaseException:
            response.close()
            raise
        if response.status_code >= 300:
            what = f"{request.method} {request.url.path}"
            sent = {name.lower(): value for name, value in response.headers.items()}
            failure = api_error(response.status_code, sent, response.content, what)
            raise _Refused(failure, response, retry_after_seconds(sent))
        return response

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """An answer that was read."""
        return self.open(method, path, whole=True, **options)

    def json(self, method: str, path: str, **options: Any) -> Any:
        """An answer that is JSON."""
        response = self.send(method, path, **options)
        try:
            return json.loads(response.content)
        except ValueError as error:
            raise SandboxInternalException(
                f"{method} {path}: the answer is not JSON: {response.text[:200]!r}", error
            ) from error

    @contextmanager
    def stream(self, method: str, path: str, **options: Any) -> Iterator[httpx.Response]:
        """An answer to be read piece by piece; network failures inside are ours."""
        options.setdefault("timeout", UNLIMITED)
        response = self.open(method, path, **options)
        try:
            yield response
        except httpx.HTTPError as error:
            raise _network_failure(error, method, path)[0] from error
        finally:
            response.close()

    def events(
        self, method: str, path: str, *, silence: bool = True, **options: Any
    ) -> Stream[list[dict[str, Any]]]:
        """The events of a stream, in lists as they come. With `silence` a stream that has nothing
        to say for long, not even a ping, counts as broken."""
        idle = self.link.config.stream_idle_timeout
        if silence and idle is not None:
            options.setdefault("timeout", idle.total_seconds())
        with self.stream(method, path, **options) as response:
            reader = EventReader()
            for data in response.iter_raw():
                batch = reader.feed(data)
                if batch:
                    yield batch
            batch = reader.end()
            if batch:
                yield batch


class _Refused(Exception):
    """An error status, on its way to the decision whether to repeat."""

    def __init__(
        self, failure: SandboxException, response: httpx.Response, retry_after: float | None
    ) -> None:
        super().__init__(str(failure))
        self.failure, self.response, self.retry_after = failure, response, retry_after
        self.status = response.status_code


def _network_failure(
    error: httpx.HTTPError, method: str, path: str
) -> tuple[SandboxException, RetryCause]:
    text, cause = f"{method} {path}: {type(error).__name__}: {error}", cause_of(error)
    if isinstance(error, httpx.TimeoutException):
        return SandboxTimeoutException(text, error, is_retryable=True), cause
    return SandboxConnectionException(text, error, is_retryable=True), cause
