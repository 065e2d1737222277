"""Spans of OpenTelemetry, where `enable_tracing` is set and opentelemetry-api is installed."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from opensandbox._version import __version__


class Span:
    """A span, or nothing."""

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def set(self, name: str, value: Any) -> None:
        if self._span is not None and value is not None:
            self._span.set_attribute(name, value)


class Tracing:
    """Makes spans with the tracer provider of the process. Without one, or without the package,
    nothing is made and nothing is sent."""

    def __init__(self, enabled: bool) -> None:
        self._trace: Any = None
        if enabled:
            try:
                self._trace = importlib.import_module("opentelemetry.trace")
                self._propagate = importlib.import_module("opentelemetry.propagate")
            except ImportError:
                self._trace = None

    @contextmanager
    def operation(self, name: str) -> Iterator[Span]:
        """A span around several requests."""
        if self._trace is None:
            yield Span()
        else:
            yield from self._spanned(name, self._trace.SpanKind.INTERNAL, {})

    @contextmanager
    def request(self, method: str, url: str) -> Iterator[Span]:
        """A span around one request with its repetitions. Query and path stay out of its name."""
        if self._trace is None:
            yield Span()
            return
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        attributes = {
            "http.request.method": method,
            "server.address": parts.hostname or "",
            "server.port": port,
            "url.full": url,
        }
        yield from self._spanned(method, self._trace.SpanKind.CLIENT, attributes)

    def _spanned(self, name: str, kind: Any, attributes: dict[str, Any]) -> Iterator[Span]:
        tracer = self._trace.get_tracer("opensandbox", __version__)
        with tracer.start_as_current_span(name, kind=kind, attributes=attributes) as span:
            try:
                yield Span(span)
            except BaseException as error:
                span.set_attribute("error.type", type(error).__qualname__)
                raise

    def headers(self) -> dict[str, str]:
        """What tells the other side of the current span: traceparent, as a rule."""
        carrier: dict[str, str] = {}
        if self._trace is not None:
            self._propagate.inject(carrier)
        return carrier
