"""How busy a sandbox is, and whether it answers."""

from __future__ import annotations

from contextlib import aclosing

from opensandbox._async.http import Http
from opensandbox._async.io import Stream
from opensandbox._async.lifecycle import parsed
from opensandbox._core.events import ended_without_last_event
from opensandbox.exceptions import SandboxInternalException
from opensandbox.models.sandboxes import SandboxMetrics


class Metrics:
    """Figures of a sandbox."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def get_metrics(self, sandbox_id: str = "") -> SandboxMetrics:
        """The figures now."""
        figures: SandboxMetrics = parsed(SandboxMetrics, await self._http.json("GET", "/metrics"))
        return figures

    async def watch(self) -> Stream[SandboxMetrics]:
        """The figures, about once a second, until the caller stops."""
        batches = self._http.events("GET", "/metrics/watch")
        failed = ""
        try:
            async with aclosing(batches):
                async for batch in batches:
                    for event in batch:
                        failed = failed or str(event.get("error") or "")
                        if "cpu_count" in event:
                            yield parsed(SandboxMetrics, event)
                    if failed:
                        break
        except SandboxInternalException as error:
            raise ended_without_last_event("metrics.watch", error) from error
        if failed:
            raise SandboxInternalException(f"metrics.watch: {failed}")
        raise ended_without_last_event("metrics.watch")
