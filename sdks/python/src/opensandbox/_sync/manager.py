# Written by tools/unasync from _async/manager.py. DO NOT EDIT.
"""SandboxManager: all sandboxes of a server, and what else the server keeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from typing import Any

from opensandbox._sync.http import Link
from opensandbox._sync.io import Returned, Stream, sleep
from opensandbox._sync.lifecycle import DiagnosticsSync, SandboxesSync
from opensandbox._core.convert import wait_text
from opensandbox.config.connection_sync import ConnectionConfigSync
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


class SandboxManagerSync:
    """Lists, looks at and changes sandboxes by their ids."""

    def __init__(self, connection_config: ConnectionConfigSync | None = None) -> None:
        self._link = Link(connection_config or ConnectionConfigSync())
        http = self._link.api()
        self._api = SandboxesSync(http)
        self._diagnostics = DiagnosticsSync(http)

    @classmethod
    def create(cls, connection_config: ConnectionConfigSync | None = None) -> SandboxManagerSync:
        return cls(connection_config)

    @property
    def connection_config(self) -> ConnectionConfigSync:
        return self._link.config

    # --- sandboxes ---

    def list_sandbox_infos(self, filter: SandboxFilter) -> PagedSandboxInfos:
        return self._api.list_sandboxes(filter)

    def iterate_sandbox_infos(
        self, filter: SandboxFilter | None = None
    ) -> Stream[SandboxInfo]:
        """All sandboxes that a filter lets through, page by page."""
        filter = filter or SandboxFilter()
        number = filter.page or 1
        while True:
            asked = filter.model_copy(update={"page": number})
            page = self._api.list_sandboxes(asked)
            for info in page.sandbox_infos:
                yield info
            if not page.pagination.has_next_page:
                return
            number += 1

    def get_sandbox_info(self, sandbox_id: str) -> SandboxInfo:
        return self._api.get_sandbox_info(sandbox_id)

    def watch_events(
        self, *, sandbox_id: str | None = None, after: str | None = None
    ) -> Stream[LifecycleEvent]:
        """What happens to sandboxes, or to one, until the caller stops; `after` is the id of the
        last event that was seen. A stream that breaks is opened again behind the last event; when
        none came since it was opened, the break raises."""
        events = self._api.watch_events(sandbox_id, after)
        with closing(events):
            for event in events:
                yield event

    def get_diagnostic_logs(self, sandbox_id: str, scope: str) -> DiagnosticContent:
        return self._diagnostics.get_logs(sandbox_id, scope)

    def get_diagnostic_events(self, sandbox_id: str, scope: str) -> DiagnosticContent:
        return self._diagnostics.get_events(sandbox_id, scope)

    def patch_sandbox_metadata(
        self, sandbox_id: str, patch: dict[str, str | None]
    ) -> SandboxInfo:
        return self._api.patch_sandbox_metadata(sandbox_id, patch)

    def kill_sandbox(self, sandbox_id: str) -> None:
        self._api.kill_sandbox(sandbox_id)

    def renew_sandbox(self, sandbox_id: str, timeout: timedelta) -> SandboxRenewResponse:
        return self._api.renew_sandbox(sandbox_id, timeout)

    def pause_sandbox(self, sandbox_id: str) -> None:
        self._api.pause_sandbox(sandbox_id)

    def resume_sandbox(self, sandbox_id: str) -> None:
        self._api.resume_sandbox(sandbox_id)

    def stop_sandbox(self, sandbox_id: str) -> None:
        self._api.stop_sandbox(sandbox_id)

    def start_sandbox(self, sandbox_id: str) -> None:
        self._api.start_sandbox(sandbox_id)

    def fork_sandbox(self, sandbox_id: str, **options: Any) -> list[SandboxInfo]:
        return self._api.fork_sandbox(sandbox_id, **options)

    def rollback_sandbox(self, sandbox_id: str, snapshot_id: str) -> SandboxInfo:
        return self._api.rollback_sandbox(sandbox_id, snapshot_id)

    # --- snapshots ---

    def create_snapshot(
        self, sandbox_id: str, name: str | None = None, *, memory: bool | None = None
    ) -> SnapshotInfo:
        """A snapshot of the files; with `memory` of the processes, too."""
        request = CreateSnapshotRequest(name=name, memory=memory)
        return self._api.create_snapshot(sandbox_id, request)

    def get_snapshot(self, snapshot_id: str) -> SnapshotInfo:
        return self._api.get_snapshot(snapshot_id)

    def wait_for_snapshot(
        self,
        snapshot_id: str,
        *,
        timeout: timedelta = timedelta(minutes=5),
        polling_interval: timedelta = timedelta(milliseconds=200),
    ) -> SnapshotInfo:
        """Waits until a snapshot is Ready; one that failed raises at once, with its reason."""
        end, pause = time.monotonic() + timeout.total_seconds(), 0.01
        while True:
            info = self._api.get_snapshot(snapshot_id)
            if info.status.state == "Ready":
                return info
            if info.status.state in ("Failed", "Deleting"):
                raise SandboxUnhealthyException(f"snapshot {wait_text(info)}")
            if time.monotonic() + pause > end:
                raise SandboxReadyTimeoutException(f"snapshot {wait_text(info)} after {timeout}")
            sleep(pause)
            pause = min(pause * 2, max(polling_interval.total_seconds(), 0.001))

    def list_snapshots(self, filter: SnapshotFilter) -> PagedSnapshotInfos:
        return self._api.list_snapshots(filter)

    def iterate_snapshots(
        self, filter: SnapshotFilter | None = None
    ) -> Stream[SnapshotInfo]:
        """All snapshots that a filter lets through, page by page."""
        filter = filter or SnapshotFilter()
        number = filter.page or 1
        while True:
            asked = filter.model_copy(update={"page": number})
            page = self._api.list_snapshots(asked)
            for info in page.snapshot_infos:
                yield info
            if not page.pagination.has_next_page:
                return
            number += 1

    def delete_snapshot(self, snapshot_id: str) -> None:
        self._api.delete_snapshot(snapshot_id)

    # --- templates ---

    def create_template(self, request: CreateTemplateRequest) -> TemplateInfo:
        return self._api.create_template(request)

    def get_template(self, template_id: str) -> TemplateInfo:
        return self._api.get_template(template_id)

    def list_templates(self, filter: TemplateFilter) -> PagedTemplateInfos:
        return self._api.list_templates(filter)

    def delete_template(self, template_id: str) -> None:
        self._api.delete_template(template_id)

    # --- images, pools and volumes of the server ---

    def list_images(
        self, page: int | None = None, page_size: int | None = None
    ) -> PagedImageInfos:
        return self._api.list_images(page, page_size)

    def get_image(self, name: str) -> ImageInfo:
        return self._api.get_image(name)

    def pull_image(
        self,
        image: SandboxImageSpec | str,
        *,
        platform: str | None = None,
        policy: str | None = None,
        on_progress: Callable[[PullProgress], Returned[None]] | None = None,
    ) -> ImageInfo:
        return self._api.pull_image(
            image, platform=platform, policy=policy, on_progress=on_progress
        )

    def import_image(self, archive: Any, name: str | None = None) -> ImageInfo:
        return self._api.import_image(archive, name)

    def export_image(self, name: str) -> Stream[bytes]:
        return self._api.export_image(name)

    def delete_image(self, name: str) -> None:
        self._api.delete_image(name)

    def create_pool(
        self, name: str, template: dict[str, Any], capacity: CapacitySpec
    ) -> ServerPool:
        return self._api.create_pool(name, template, capacity)

    def get_pool(self, name: str) -> ServerPool:
        return self._api.get_pool(name)

    def list_pools(self) -> list[ServerPool]:
        return self._api.list_pools()

    def update_pool(self, name: str, capacity: CapacitySpec) -> ServerPool:
        return self._api.update_pool(name, capacity)

    def delete_pool(self, name: str) -> None:
        self._api.delete_pool(name)

    def create_volume(self, name: str, size: str | None = None) -> VolumeInfo:
        return self._api.create_volume(name, size)

    def get_volume(self, name: str) -> VolumeInfo:
        return self._api.get_volume(name)

    def list_volumes(
        self, page: int | None = None, page_size: int | None = None
    ) -> PagedVolumeInfos:
        return self._api.list_volumes(page, page_size)

    def delete_volume(self, name: str) -> None:
        self._api.delete_volume(name)

    # --- its end ---

    def close(self) -> None:
        """Frees local resources."""
        self._link.close()

    def __enter__(self) -> SandboxManagerSync:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
