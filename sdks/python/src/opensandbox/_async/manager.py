"""SandboxManager: all sandboxes of a server, and what else the server keeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import aclosing
from datetime import timedelta
from typing import Any

from opensandbox._async.http import Link
from opensandbox._async.io import Returned, Stream, sleep
from opensandbox._async.lifecycle import Diagnostics, Sandboxes
from opensandbox._core.convert import wait_text
from opensandbox.config.connection import ConnectionConfig
from opensandbox.exceptions import SandboxReadyTimeoutException, SandboxUnhealthyException
from opensandbox.models.diagnostics import DiagnosticContent
from opensandbox.models.images import (
    CapacitySpec,
    ImageInfo,
    PagedImageInfos,
    PullProgress,
    ServerPool,
)
from opensandbox.models.sandboxes import (
    CreateSnapshotRequest,
    LifecycleEvent,
    PagedSandboxInfos,
    PagedSnapshotInfos,
    PagedVolumeInfos,
    SandboxFilter,
    SandboxImageSpec,
    SandboxInfo,
    SandboxRenewResponse,
    SnapshotFilter,
    SnapshotInfo,
    VolumeInfo,
)
from opensandbox.models.templates import (
    CreateTemplateRequest,
    PagedTemplateInfos,
    TemplateFilter,
    TemplateInfo,
)


class SandboxManager:
    """Lists, looks at and changes sandboxes by their ids."""

    def __init__(self, connection_config: ConnectionConfig | None = None) -> None:
        self._link = Link(connection_config or ConnectionConfig())
        http = self._link.api()
        self._api = Sandboxes(http)
        self._diagnostics = Diagnostics(http)

    @classmethod
    async def create(cls, connection_config: ConnectionConfig | None = None) -> SandboxManager:
        return cls(connection_config)

    @property
    def connection_config(self) -> ConnectionConfig:
        return self._link.config

    # --- sandboxes ---

    async def list_sandbox_infos(self, filter: SandboxFilter) -> PagedSandboxInfos:
        return await self._api.list_sandboxes(filter)

    async def iterate_sandbox_infos(
        self, filter: SandboxFilter | None = None
    ) -> Stream[SandboxInfo]:
        """All sandboxes that a filter lets through, page by page."""
        filter = filter or SandboxFilter()
        number = filter.page or 1
        while True:
            asked = filter.model_copy(update={"page": number})
            page = await self._api.list_sandboxes(asked)
            for info in page.sandbox_infos:
                yield info
            if not page.pagination.has_next_page:
                return
            number += 1

    async def get_sandbox_info(self, sandbox_id: str) -> SandboxInfo:
        return await self._api.get_sandbox_info(sandbox_id)

    async def watch_events(
        self, *, sandbox_id: str | None = None, after: str | None = None
    ) -> Stream[LifecycleEvent]:
        """What happens to sandboxes, or to one, until the caller stops; `after` is the id of the
        last event that was seen. A stream that breaks is opened again behind the last event; when
        none came since it was opened, the break raises."""
        events = self._api.watch_events(sandbox_id, after)
        async with aclosing(events):
            async for event in events:
                yield event

    async def get_diagnostic_logs(self, sandbox_id: str, scope: str) -> DiagnosticContent:
        return await self._diagnostics.get_logs(sandbox_id, scope)

    async def get_diagnostic_events(self, sandbox_id: str, scope: str) -> DiagnosticContent:
        return await self._diagnostics.get_events(sandbox_id, scope)

    async def patch_sandbox_metadata(
        self, sandbox_id: str, patch: dict[str, str | None]
    ) -> SandboxInfo:
        return await self._api.patch_sandbox_metadata(sandbox_id, patch)

    async def kill_sandbox(self, sandbox_id: str) -> None:
        await self._api.kill_sandbox(sandbox_id)

    async def renew_sandbox(self, sandbox_id: str, timeout: timedelta) -> SandboxRenewResponse:
        return await self._api.renew_sandbox(sandbox_id, timeout)

    async def pause_sandbox(self, sandbox_id: str) -> None:
        await self._api.pause_sandbox(sandbox_id)

    async def resume_sandbox(self, sandbox_id: str) -> None:
        await self._api.resume_sandbox(sandbox_id)

    async def stop_sandbox(self, sandbox_id: str) -> None:
        await self._api.stop_sandbox(sandbox_id)

    async def start_sandbox(self, sandbox_id: str) -> None:
        await self._api.start_sandbox(sandbox_id)

    async def fork_sandbox(self, sandbox_id: str, **options: Any) -> list[SandboxInfo]:
        return await self._api.fork_sandbox(sandbox_id, **options)

    async def rollback_sandbox(self, sandbox_id: str, snapshot_id: str) -> SandboxInfo:
        return await self._api.rollback_sandbox(sandbox_id, snapshot_id)

    # --- snapshots ---

    async def create_snapshot(
        self, sandbox_id: str, name: str | None = None, *, memory: bool | None = None
    ) -> SnapshotInfo:
        """A snapshot of the files; with `memory` of the processes, too."""
        request = CreateSnapshotRequest(name=name, memory=memory)
        return await self._api.create_snapshot(sandbox_id, request)

    async def get_snapshot(self, snapshot_id: str) -> SnapshotInfo:
        return await self._api.get_snapshot(snapshot_id)

    async def wait_for_snapshot(
        self,
        snapshot_id: str,
        *,
        timeout: timedelta = timedelta(minutes=5),
        polling_interval: timedelta = timedelta(milliseconds=200),
    ) -> SnapshotInfo:
        """Waits until a snapshot is Ready; one that failed raises at once, with its reason."""
        end, pause = time.monotonic() + timeout.total_seconds(), 0.01
        while True:
            info = await self._api.get_snapshot(snapshot_id)
            if info.status.state == "Ready":
                return info
            if info.status.state in ("Failed", "Deleting"):
                raise SandboxUnhealthyException(f"snapshot {wait_text(info)}")
            if time.monotonic() + pause > end:
                raise SandboxReadyTimeoutException(f"snapshot {wait_text(info)} after {timeout}")
            await sleep(pause)
            pause = min(pause * 2, max(polling_interval.total_seconds(), 0.001))

    async def list_snapshots(self, filter: SnapshotFilter) -> PagedSnapshotInfos:
        return await self._api.list_snapshots(filter)

    async def iterate_snapshots(
        self, filter: SnapshotFilter | None = None
    ) -> Stream[SnapshotInfo]:
        """All snapshots that a filter lets through, page by page."""
        filter = filter or SnapshotFilter()
        number = filter.page or 1
        while True:
            asked = filter.model_copy(update={"page": number})
            page = await self._api.list_snapshots(asked)
            for info in page.snapshot_infos:
                yield info
            if not page.pagination.has_next_page:
                return
            number += 1

    async def delete_snapshot(self, snapshot_id: str) -> None:
        await self._api.delete_snapshot(snapshot_id)

    # --- templates ---

    async def create_template(self, request: CreateTemplateRequest) -> TemplateInfo:
        return await self._api.create_template(request)

    async def get_template(self, template_id: str) -> TemplateInfo:
        return await self._api.get_template(template_id)

    async def list_templates(self, filter: TemplateFilter) -> PagedTemplateInfos:
        return await self._api.list_templates(filter)

    async def delete_template(self, template_id: str) -> None:
        await self._api.delete_template(template_id)

    # --- images, pools and volumes of the server ---

    async def list_images(
        self, page: int | None = None, page_size: int | None = None
    ) -> PagedImageInfos:
        return await self._api.list_images(page, page_size)

    async def get_image(self, name: str) -> ImageInfo:
        return await self._api.get_image(name)

    async def pull_image(
        self,
        image: SandboxImageSpec | str,
        *,
        platform: str | None = None,
        policy: str | None = None,
        on_progress: Callable[[PullProgress], Returned[None]] | None = None,
    ) -> ImageInfo:
        return await self._api.pull_image(
            image, platform=platform, policy=policy, on_progress=on_progress
        )

    async def import_image(self, archive: Any, name: str | None = None) -> ImageInfo:
        return await self._api.import_image(archive, name)

    def export_image(self, name: str) -> Stream[bytes]:
        return self._api.export_image(name)

    async def delete_image(self, name: str) -> None:
        await self._api.delete_image(name)

    async def create_pool(
        self, name: str, template: dict[str, Any], capacity: CapacitySpec
    ) -> ServerPool:
        return await self._api.create_pool(name, template, capacity)

    async def get_pool(self, name: str) -> ServerPool:
        return await self._api.get_pool(name)

    async def list_pools(self) -> list[ServerPool]:
        return await self._api.list_pools()

    async def update_pool(self, name: str, capacity: CapacitySpec) -> ServerPool:
        return await self._api.update_pool(name, capacity)

    async def delete_pool(self, name: str) -> None:
        await self._api.delete_pool(name)

    async def create_volume(self, name: str, size: str | None = None) -> VolumeInfo:
        return await self._api.create_volume(name, size)

    async def get_volume(self, name: str) -> VolumeInfo:
        return await self._api.get_volume(name)

    async def list_volumes(
        self, page: int | None = None, page_size: int | None = None
    ) -> PagedVolumeInfos:
        return await self._api.list_volumes(page, page_size)

    async def delete_volume(self, name: str) -> None:
        await self._api.delete_volume(name)

    # --- its end ---

    async def close(self) -> None:
        """Frees local resources."""
        await self._link.close()

    async def __aenter__(self) -> SandboxManager:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
