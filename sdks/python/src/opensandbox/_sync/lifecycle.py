# Written by tools/unasync from _async/lifecycle.py. DO NOT EDIT.
"""The lifecycle API: sandboxes, snapshots, templates, images, pools, volumes, diagnostics."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar

from opensandbox._sync.http import UNLIMITED, Http
from opensandbox._sync.io import Returned, Stream, call
from opensandbox._core import convert
from opensandbox._core.convert import dense, segment
from opensandbox._core.errors import need_key, need_text
from opensandbox._core.events import ended_without_last_event
from opensandbox.exceptions import (
    SandboxApiException,
    SandboxError,
    SandboxException,
    SandboxInternalException,
)
from opensandbox.models._base import Model
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
    CredentialProxyConfig,
    LifecycleEvent,
    NetworkPolicy,
    PagedSandboxInfos,
    PagedSnapshotInfos,
    PagedVolumeInfos,
    PlatformSpec,
    SandboxCreateResponse,
    SandboxEndpoint,
    SandboxFilter,
    SandboxImageSpec,
    SandboxInfo,
    SandboxLifecycle,
    SandboxRenewResponse,
    Secret,
    SnapshotFilter,
    SnapshotInfo,
    Volume,
    VolumeInfo,
)
from opensandbox.models.templates import (
    CreateTemplateRequest,
    PagedTemplateInfos,
    TemplateFilter,
    TemplateInfo,
)

_M = TypeVar("_M", bound=Model)


def parsed(model: type[Any], value: Any) -> Any:
    """A model made of an answer; one that does not fit is an error of the server."""
    try:
        return model.model_validate(value)
    except ValueError as error:
        raise SandboxInternalException(
            f"the answer is not a {model.__name__}: {error}", error
        ) from error


def _sandbox(sandbox_id: str, rest: str = "") -> str:
    return f"/sandboxes/{segment(need_text(sandbox_id, 'sandbox_id'))}{rest}"


class SandboxesSync:
    """Calls of the lifecycle API."""

    def __init__(self, http: Http) -> None:
        self._http = http

    # --- sandboxes ---

    def create_sandbox(
        self,
        spec: SandboxImageSpec | str | None,
        entrypoint: list[str] | None,
        env: dict[str, str] | None,
        metadata: dict[str, str] | None,
        timeout: timedelta | None,
        resource: dict[str, str] | None,
        network_policy: NetworkPolicy | None,
        extensions: dict[str, str] | None,
        volumes: list[Volume] | None,
        platform: PlatformSpec | None = None,
        secure_access: bool = False,
        snapshot_id: str | None = None,
        credential_proxy: CredentialProxyConfig | None = None,
        resource_requests: dict[str, str] | None = None,
        lifecycle: SandboxLifecycle | None = None,
        secret_env: dict[str, Secret] | None = None,
        idempotency_key: str | None = None,
    ) -> SandboxCreateResponse:
        body = convert.create_sandbox(
            spec, snapshot_id, entrypoint, env, metadata, timeout, resource, resource_requests,
            network_policy, credential_proxy, extensions, volumes, platform, secure_access,
            lifecycle, secret_env,
        )  # fmt: skip
        if idempotency_key is None:
            answer = self._http.json("POST", "/sandboxes", body=body)
        else:
            key = {"Idempotency-Key": need_key(idempotency_key)}
            answer = self._http.json(
                "POST", "/sandboxes", body=body, headers=key, idempotent=True
            )
        created: SandboxCreateResponse = parsed(SandboxCreateResponse, answer)
        return created

    def create_sandbox_from_template(
        self,
        template_id: str,
        timeout: timedelta,
        metadata: dict[str, str] | None = None,
        network_policy: NetworkPolicy | None = None,
        extensions: dict[str, str] | None = None,
    ) -> SandboxCreateResponse:
        body = dense(
            templateId=need_text(template_id, "template_id"),
            timeout=convert.seconds(timeout),
            metadata=metadata or None,
            networkPolicy=convert.network_policy(network_policy) if network_policy else None,
            extensions=extensions or None,
        )
        answer = self._http.json("POST", "/sandboxes", body=body)
        created: SandboxCreateResponse = parsed(SandboxCreateResponse, answer)
        return created

    def get_sandbox_info(self, sandbox_id: str) -> SandboxInfo:
        return self._get(SandboxInfo, _sandbox(sandbox_id))

    def list_sandboxes(self, filter: SandboxFilter) -> PagedSandboxInfos:
        query = {
            "state": filter.states or None,
            "metadata": convert.metadata_filter(filter.metadata),
            "page": filter.page,
            "pageSize": filter.page_size,
        }
        return self._get(PagedSandboxInfos, "/sandboxes", query)

    def patch_sandbox_metadata(
        self, sandbox_id: str, patch: dict[str, str | None]
    ) -> SandboxInfo:
        path = _sandbox(sandbox_id, "/metadata")
        return self._ask(SandboxInfo, "PATCH", path, patch)

    def get_sandbox_endpoint(
        self, sandbox_id: str, port: int, use_server_proxy: bool = False
    ) -> SandboxEndpoint:
        kept = self._http.link.endpoints
        found = kept.get(sandbox_id, port, use_server_proxy)
        if found is None:
            found = self._endpoint(sandbox_id, port, use_server_proxy, None)
            kept.put(sandbox_id, port, use_server_proxy, found)
        return found

    def get_signed_sandbox_endpoint(
        self, sandbox_id: str, port: int, expires: int, use_server_proxy: bool = False
    ) -> SandboxEndpoint:
        return self._endpoint(sandbox_id, port, use_server_proxy, expires)

    def _endpoint(
        self, sandbox_id: str, port: int, proxy: bool, expires: int | None
    ) -> SandboxEndpoint:
        query = {"use_server_proxy": "true" if proxy else "false", "expires": expires}
        return self._get(SandboxEndpoint, _sandbox(sandbox_id, f"/endpoints/{port}"), query)

    def pause_sandbox(self, sandbox_id: str) -> None:
        self._change("POST", sandbox_id, "/pause")

    def resume_sandbox(self, sandbox_id: str) -> None:
        self._change("POST", sandbox_id, "/resume")

    def stop_sandbox(self, sandbox_id: str) -> None:
        """Stops a persistent sandbox; its files stay."""
        self._change("POST", sandbox_id, "/stop")

    def start_sandbox(self, sandbox_id: str) -> None:
        """Starts a stopped one again."""
        self._change("POST", sandbox_id, "/start")

    def renew_sandbox_expiration(
        self, sandbox_id: str, new_expiration_time: datetime
    ) -> SandboxRenewResponse:
        left = new_expiration_time - datetime.now(timezone.utc)
        return self.renew_sandbox(sandbox_id, left)

    def renew_sandbox(self, sandbox_id: str, timeout: timedelta) -> SandboxRenewResponse:
        path = _sandbox(sandbox_id, "/renew-expiration")
        return self._ask(SandboxRenewResponse, "POST", path, convert.expires_at(timeout))

    def kill_sandbox(self, sandbox_id: str) -> None:
        self._change("DELETE", sandbox_id)

    def fork_sandbox(
        self,
        sandbox_id: str,
        count: int = 1,
        timeout: timedelta | None = None,
        env: dict[str, str | None] | None = None,
        metadata: dict[str, str] | None = None,
        entrypoint: list[str] | None = None,
        memory: bool | None = None,
    ) -> list[SandboxInfo]:
        """New sandboxes with the files of a running one; with `memory` its processes, too."""
        body = dense(
            count=count,
            timeout=convert.seconds(timeout),
            env=env or None,
            metadata=metadata,
            entrypoint=entrypoint,
            memory=memory,
        )
        answer = self._http.json("POST", _sandbox(sandbox_id, "/fork"), body=body)
        return [parsed(SandboxInfo, item) for item in answer.get("items", [])]

    def rollback_sandbox(self, sandbox_id: str, snapshot_id: str) -> SandboxInfo:
        """Returns to the files of a snapshot."""
        body = {"snapshotId": need_text(snapshot_id, "snapshot_id")}
        answer = self._change("POST", sandbox_id, "/rollback", body)
        if answer.content.strip():
            info: SandboxInfo = parsed(SandboxInfo, answer.json())
            return info
        return self.get_sandbox_info(sandbox_id)

    # --- snapshots ---

    def create_snapshot(
        self, sandbox_id: str, request: CreateSnapshotRequest | None = None
    ) -> SnapshotInfo:
        body = request.model_dump(exclude_none=True) if request else {}
        path = _sandbox(sandbox_id, "/snapshots")
        return self._ask(SnapshotInfo, "POST", path, body)

    def get_snapshot(self, snapshot_id: str) -> SnapshotInfo:
        name = segment(need_text(snapshot_id, "snapshot_id"))
        return self._get(SnapshotInfo, f"/snapshots/{name}")

    def list_snapshots(self, filter: SnapshotFilter) -> PagedSnapshotInfos:
        query = {
            "sandboxId": filter.sandbox_id,
            "name": filter.name,
            "state": filter.states or None,
            "page": filter.page,
            "pageSize": filter.page_size,
        }
        return self._get(PagedSnapshotInfos, "/snapshots", query)

    def delete_snapshot(self, snapshot_id: str) -> None:
        name = segment(need_text(snapshot_id, "snapshot_id"))
        self._http.send("DELETE", f"/snapshots/{name}")

    # --- events ---

    def watch_events(
        self, sandbox_id: str | None = None, after: str | None = None
    ) -> Stream[LifecycleEvent]:
        while True:
            place = {"Last-Event-ID": after} if after else None
            batches = self._http.events(
                "GET", "/events", query={"sandboxId": sandbox_id}, headers=place
            )
            last: str | None = None
            cause: SandboxInternalException | None = None
            try:
                with closing(batches):
                    for batch in batches:
                        for found in batch:
                            event = parsed(LifecycleEvent, {"type": "reset", **found})
                            last = event.id or last
                            yield event
            except SandboxInternalException as error:
                cause = error
            if last is None:
                raise ended_without_last_event("events.watch", cause) from cause
            after = last

    # --- templates ---

    def create_template(self, request: CreateTemplateRequest) -> TemplateInfo:
        readiness = None
        if request.readiness:
            readiness = dense(
                probe=request.readiness.probe, warmupSeconds=request.readiness.warmup_seconds
            )
        body = dense(
            image=request.image,
            publish=request.publish,
            resourceLimits=request.resource_limits,
            entrypoint=request.entrypoint,
            env=request.env,
            metadata=request.metadata,
            readiness=readiness,
            format=request.format,
        )
        return self._ask(TemplateInfo, "POST", "/templates", body)

    def get_template(self, template_id: str) -> TemplateInfo:
        name = segment(need_text(template_id, "template_id"))
        return self._get(TemplateInfo, f"/templates/{name}")

    def list_templates(self, filter: TemplateFilter) -> PagedTemplateInfos:
        query = {
            "metadata": convert.metadata_filter(filter.metadata),
            "page": filter.page,
            "pageSize": filter.page_size,
        }
        return self._get(PagedTemplateInfos, "/templates", query)

    def delete_template(self, template_id: str) -> None:
        name = segment(need_text(template_id, "template_id"))
        self._http.send("DELETE", f"/templates/{name}")

    # --- images ---

    def list_images(
        self, page: int | None = None, page_size: int | None = None
    ) -> PagedImageInfos:
        return self._get(PagedImageInfos, "/images", {"page": page, "pageSize": page_size})

    def get_image(self, name: str) -> ImageInfo:
        return self._get(ImageInfo, f"/images/{segment(need_text(name, 'name'))}")

    def delete_image(self, name: str) -> None:
        self._http.send("DELETE", f"/images/{segment(need_text(name, 'name'))}")

    def pull_image(
        self,
        image: SandboxImageSpec | str,
        *,
        platform: str | None = None,
        policy: str | None = None,
        on_progress: Callable[[PullProgress], Returned[None]] | None = None,
    ) -> ImageInfo:
        """Pulls an image; `on_progress` is told how far it is."""
        body = dense(image=convert.image(image), platform=platform, policy=policy)
        events = self._http.events("POST", "/images/pull", body=body, silence=False)
        try:
            with closing(events):
                for batch in events:
                    for event in batch:
                        kind = event.get("type")
                        if kind == "done":
                            info: ImageInfo = parsed(ImageInfo, event.get("image"))
                            return info
                        if kind == "error":
                            raise _told_error(event)
                        if kind == "progress" and on_progress is not None:
                            call(on_progress, parsed(PullProgress, event))
        except SandboxInternalException as error:
            raise ended_without_last_event("pull_image", error) from error
        raise ended_without_last_event("pull_image")

    def import_image(self, archive: Any, name: str | None = None) -> ImageInfo:
        """Imports an image from an OCI or docker archive: bytes, or an iterator of bytes."""
        answer = self._http.json(
            "POST",
            "/images/import",
            query={"name": name},
            content=archive,
            headers={"Content-Type": "application/x-tar"},
            timeout=UNLIMITED,
        )
        info: ImageInfo = parsed(ImageInfo, answer)
        return info

    def export_image(self, name: str) -> Stream[bytes]:
        """The archive of an image, piece by piece."""
        path = f"/images/{segment(need_text(name, 'name'))}/export"
        with self._http.stream("GET", path) as response:
            for data in response.iter_raw():
                yield data

    # --- pools of the server ---

    def create_pool(
        self, name: str, template: dict[str, Any], capacity: CapacitySpec
    ) -> ServerPool:
        body = {
            "name": need_text(name, "name"),
            "template": template,
            "capacitySpec": capacity.to_wire(),
        }
        return self._ask(ServerPool, "POST", "/pools", body)

    def get_pool(self, name: str) -> ServerPool:
        return self._get(ServerPool, f"/pools/{segment(need_text(name, 'name'))}")

    def list_pools(self) -> list[ServerPool]:
        answer = self._http.json("GET", "/pools")
        return [parsed(ServerPool, item) for item in answer.get("items", [])]

    def update_pool(self, name: str, capacity: CapacitySpec) -> ServerPool:
        path = f"/pools/{segment(need_text(name, 'name'))}"
        return self._ask(ServerPool, "PUT", path, {"capacitySpec": capacity.to_wire()})

    def delete_pool(self, name: str) -> None:
        self._http.send("DELETE", f"/pools/{segment(need_text(name, 'name'))}")

    # --- named volumes ---

    def create_volume(self, name: str, size: str | None = None) -> VolumeInfo:
        body = dense(name=need_text(name, "name"), size=size)
        return self._ask(VolumeInfo, "POST", "/volumes", body)

    def get_volume(self, name: str) -> VolumeInfo:
        return self._get(VolumeInfo, f"/volumes/{segment(need_text(name, 'name'))}")

    def list_volumes(
        self, page: int | None = None, page_size: int | None = None
    ) -> PagedVolumeInfos:
        return self._get(PagedVolumeInfos, "/volumes", {"page": page, "pageSize": page_size})

    def delete_volume(self, name: str) -> None:
        self._http.send("DELETE", f"/volumes/{segment(need_text(name, 'name'))}")

    def invalidate_endpoint_cache(self, sandbox_id: str) -> None:
        """Looks its endpoints up again when they are needed next."""
        self._http.link.endpoints.forget(sandbox_id)

    def _change(self, method: str, sandbox_id: str, rest: str = "", body: Any = None) -> Any:
        """A request after which a sandbox may be reached elsewhere."""
        try:
            return self._http.send(method, _sandbox(sandbox_id, rest), body=body)
        finally:
            self.invalidate_endpoint_cache(sandbox_id)

    def _get(self, model: type[_M], path: str, query: dict[str, Any] | None = None) -> _M:
        value: _M = parsed(model, self._http.json("GET", path, query=query))
        return value

    def _ask(self, model: type[_M], method: str, path: str, body: Any) -> _M:
        value: _M = parsed(model, self._http.json(method, path, body=body))
        return value


class DiagnosticsSync:
    """What the server knows of a sandbox's troubles."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def get_logs(self, sandbox_id: str, scope: str) -> DiagnosticContent:
        """What the entrypoint printed."""
        return self._get(sandbox_id, "logs", scope)

    def get_events(self, sandbox_id: str, scope: str) -> DiagnosticContent:
        """What happened to the sandbox."""
        return self._get(sandbox_id, "events", scope)

    def _get(self, sandbox_id: str, kind: str, scope: str) -> DiagnosticContent:
        path = _sandbox(sandbox_id, f"/diagnostics/{kind}")
        answer = self._http.json("GET", path, query={"scope": need_text(scope, "scope")})
        content: DiagnosticContent = parsed(DiagnosticContent, answer)
        return content


def _told_error(event: dict[str, Any]) -> SandboxException:
    message = str(event.get("message") or "")
    error = SandboxError(str(event.get("code") or SandboxError.UNEXPECTED_RESPONSE), message)
    return SandboxApiException(message, status_code=200, error=error)
