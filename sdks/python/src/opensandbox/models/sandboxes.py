"""Models of sandboxes, snapshots, volumes, network policies and credentials."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from opensandbox.models._base import Model, need_text, wire

if TYPE_CHECKING:
    from opensandbox.config.base import BaseConnectionConfig

_HOST_PATH = re.compile(r"^(/|[A-Za-z]:[\\/])")


class SandboxImageAuth(Model):
    """Who pulls from a private registry."""

    username: str
    password: str = Field(repr=False)

    @field_validator("username", "password")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        return need_text(value, "username and password")


class SandboxImageSpec(Model):
    """An image: SandboxImageSpec("python:3.12", auth=...)."""

    image: str = wire("uri", "image")
    auth: SandboxImageAuth | None = None

    def __init__(
        self, image: str | None = None, *, auth: SandboxImageAuth | None = None, **data: Any
    ) -> None:
        if image is not None:
            data["image"] = image
        if auth is not None:
            data["auth"] = auth
        super().__init__(**data)

    @field_validator("image")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        return need_text(value, "image")


class PlatformSpec(Model):
    os: Literal["linux", "windows"]
    arch: Literal["amd64", "arm64"]


class NetworkRule(Model):
    action: Literal["allow", "deny"]
    target: str

    @field_validator("target")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        return need_text(value, "target")


class NetworkPolicy(Model):
    default_action: Literal["allow", "deny"] | None = wire(
        "defaultAction", "default_action", default="deny"
    )
    egress: list[NetworkRule] | None = None


class CredentialProxyConfig(Model):
    enabled: bool = False


class Secret(Model):
    """Of `secret_env`: a value that programs in the sandbox use and never hold. Requests to `hosts`
    over HTTPS carry it in place of the variable's placeholder; other hosts never get it."""

    value: str = Field(repr=False, min_length=1)
    hosts: list[str] = Field(min_length=1)


class LifecycleHook(Model):
    model_config = ConfigDict(extra="forbid")

    command: list[str] = Field(min_length=1)
    timeout_seconds: int | None = wire("timeoutSeconds", "timeout_seconds", default=None)

    @field_validator("command")
    @classmethod
    def _not_blank(cls, value: list[str]) -> list[str]:
        need_text(value[0], "command")
        return value


class PeriodicLifecycleHook(LifecycleHook):
    name: str = Field(min_length=1)
    schedule: str = Field(min_length=1)


class SandboxLifecycle(Model):
    model_config = ConfigDict(extra="forbid")

    pre_start: LifecycleHook | None = wire("preStart", "pre_start", default=None)
    periodic: list[PeriodicLifecycleHook] | None = None

    @model_validator(mode="after")
    def _names_differ(self) -> SandboxLifecycle:
        names = [hook.name for hook in self.periodic or []]
        if len(names) != len(set(names)):
            raise ValueError("names of periodic hooks must differ")
        return self


# --- credentials ---


class InlineCredentialSource(Model):
    value: str = Field(repr=False)
    type: Literal["inline"] = "inline"

    @field_validator("value")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        return need_text(value, "value")


class Credential(Model):
    name: str
    source: InlineCredentialSource

    @field_validator("name")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        return need_text(value, "name")


class CredentialMatch(Model):
    """Which requests a binding is for."""

    schemes: list[Literal["https", "http"]] | None = None
    ports: list[int] | None = None
    hosts: list[str]
    methods: list[str] | None = None
    paths: list[str] | None = None

    @field_validator("hosts")
    @classmethod
    def _not_empty(cls, value: list[str]) -> list[str]:
        if not value:
            raise ValueError("hosts must not be empty")
        return value


class CustomHeaderEntry(Model):
    name: str
    credential: str


class CredentialSubstitution(Model):
    credential: str
    placeholder: str
    in_: list[Literal["path", "query", "header", "body"]] = wire("in", "in_")


class CredentialAuth(Model):
    type: Literal["bearer", "basic", "apiKey", "customHeaders", "passthrough"]
    credential: str | None = None
    name: str | None = None
    headers: list[CustomHeaderEntry] | None = None
    substitutions: list[CredentialSubstitution] | None = None


class CredentialBinding(Model):
    name: str
    match: CredentialMatch
    auth: CredentialAuth

    @field_validator("name")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        return need_text(value, "name")


class CredentialMetadata(Model):
    name: str
    source_type: str = wire("sourceType", "source_type")
    revision: int


class CredentialAuthMetadata(Model):
    type: str
    name: str | None = None


class CredentialBindingMetadata(Model):
    name: str
    revision: int
    match: CredentialMatch | None = None
    auth: CredentialAuthMetadata | None = None


class CredentialVaultState(Model):
    revision: int
    credentials: list[CredentialMetadata]
    bindings: list[CredentialBindingMetadata]


class CredentialListResponse(Model):
    revision: int
    credentials: list[CredentialMetadata]


class CredentialBindingListResponse(Model):
    revision: int
    bindings: list[CredentialBindingMetadata]


class CredentialMutationSet(Model):
    add: list[Credential] | None = None
    replace: list[Credential] | None = None
    delete: list[str] | None = None


class CredentialBindingMutationSet(Model):
    add: list[CredentialBinding] | None = None
    replace: list[CredentialBinding] | None = None
    delete: list[str] | None = None


class CredentialVaultPatchRequest(Model):
    expected_revision: int | None = wire("expectedRevision", "expected_revision", default=None)
    credentials: CredentialMutationSet | None = None
    bindings: CredentialBindingMutationSet | None = None


# --- volumes ---


class Host(Model):
    """A directory of the server's machine."""

    path: str

    @field_validator("path")
    @classmethod
    def _absolute(cls, value: str) -> str:
        if not _HOST_PATH.match(value):
            raise ValueError(f"path must be absolute, as /data or C:\\data; {value!r} is not")
        return value


class PVC(Model):
    """A named volume."""

    claim_name: str = wire("claimName", "claim_name")
    create_if_not_exists: bool = wire("createIfNotExists", "create_if_not_exists", default=True)
    delete_on_sandbox_termination: bool = wire(
        "deleteOnSandboxTermination", "delete_on_sandbox_termination", default=False
    )
    storage_class: str | None = wire("storageClass", "storage_class", default=None)
    storage: str | None = None
    access_modes: list[str] | None = wire("accessModes", "access_modes", default=None)

    @field_validator("claim_name")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        return need_text(value, "claim_name")


class OSSFS(Model):
    """A bucket of an object store."""

    bucket: str
    endpoint: str
    version: Literal["1.0", "2.0"] = "2.0"
    options: list[str] | None = None
    access_key_id: str | None = wire("accessKeyId", "access_key_id", default=None)
    access_key_secret: str | None = wire(
        "accessKeySecret", "access_key_secret", default=None, repr=False
    )

    @model_validator(mode="after")
    def _both_keys(self) -> OSSFS:
        if not self.access_key_id or not self.access_key_secret:
            raise ValueError("access_key_id and access_key_secret are needed")
        return self


class Volume(Model):
    """A volume and where it is mounted."""

    name: str
    host: Host | None = None
    pvc: PVC | None = None
    ossfs: OSSFS | None = None
    mount_path: str = wire("mountPath", "mount_path")
    read_only: bool = wire("readOnly", "read_only", default=False)
    sub_path: str | None = wire("subPath", "sub_path", default=None)

    @field_validator("name")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        return need_text(value, "name")

    @field_validator("mount_path")
    @classmethod
    def _absolute(cls, value: str) -> str:
        if not value.startswith("/"):
            raise ValueError(f"mount_path must be absolute; {value!r} is not")
        return value

    @model_validator(mode="after")
    def _one_backend(self) -> Volume:
        given = [name for name in ("host", "pvc", "ossfs") if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise ValueError(f"exactly one of host, pvc and ossfs is needed; there is {found}")
        return self


class VolumeInfo(Model):
    """A named volume of the server."""

    name: str
    created_at: datetime = wire("createdAt", "created_at")
    size_bytes: int | None = wire("sizeBytes", "size_bytes", default=None)
    used_bytes: int | None = wire("usedBytes", "used_bytes", default=None)
    used_by: list[str] = wire("usedBy", "used_by", default_factory=list)


# --- sandboxes and snapshots ---


class SandboxStatus(Model):
    state: str
    reason: str | None = None
    message: str | None = None
    last_transition_at: datetime | None = wire(
        "lastTransitionAt", "last_transition_at", default=None
    )


class SandboxAllocation(Model):
    mode: str
    pool_ref: str = wire("poolRef", "pool_ref")
    state: str


class SnapshotStatus(SandboxStatus):
    """How far a snapshot is."""


class SnapshotInfo(Model):
    id: str
    sandbox_id: str = wire("sandboxId", "sandbox_id")
    name: str | None = None
    status: SnapshotStatus
    created_at: datetime = wire("createdAt", "created_at")
    size_bytes: int | None = wire("sizeBytes", "size_bytes", default=None)
    frozen_ms: int | None = wire("frozenMs", "frozen_ms", default=None)


class SandboxInfo(Model):
    id: str
    status: SandboxStatus
    entrypoint: list[str] = Field(default_factory=list)
    expires_at: datetime | None = wire("expiresAt", "expires_at", default=None)
    created_at: datetime = wire("createdAt", "created_at")
    image: SandboxImageSpec | None = None
    snapshot_id: str | None = wire("snapshotId", "snapshot_id", default=None)
    platform: PlatformSpec | None = None
    allocation: SandboxAllocation | None = None
    metadata: dict[str, str] | None = None
    extensions: dict[str, str] | None = None


class SandboxCreateResponse(Model):
    id: str
    platform: PlatformSpec | None = None
    extensions: dict[str, str] | None = None


class CreateSnapshotRequest(Model):
    name: str | None = None
    memory: bool | None = None


class LifecycleEvent(Model):
    """Something that happened to a sandbox, such as `sandbox.running`. One of the type `reset` has
    nothing else: what came after the place that was asked for is not kept any more."""

    id: str | None = None
    type: str
    time: datetime | None = None
    tenant: str | None = None
    sandbox_id: str | None = wire("sandboxId", "sandbox_id", default=None)
    state: str | None = None
    reason: str | None = None
    message: str | None = None


class SandboxRenewResponse(Model):
    expires_at: datetime = wire("expiresAt", "expires_at")


class SandboxEndpoint(Model):
    """How a port of a sandbox is reached: `host[:port][/path]` and headers to send there."""

    endpoint: str
    headers: dict[str, str] = Field(default_factory=dict)
    origin: str | None = None

    def build_request_headers(self, connection_config: BaseConnectionConfig) -> dict[str, str]:
        """Headers of a request to this endpoint; its own win over those of the configuration."""
        return {**connection_config.headers, **self.headers}


class PaginationInfo(Model):
    page: int
    page_size: int = wire("pageSize", "page_size")
    total_items: int = wire("totalItems", "total_items")
    total_pages: int = wire("totalPages", "total_pages")
    has_next_page: bool = wire("hasNextPage", "has_next_page")


class PagedSandboxInfos(Model):
    sandbox_infos: list[SandboxInfo] = wire("items", "sandbox_infos")
    pagination: PaginationInfo


class PagedSnapshotInfos(Model):
    snapshot_infos: list[SnapshotInfo] = wire("items", "snapshot_infos")
    pagination: PaginationInfo


class PagedVolumeInfos(Model):
    volume_infos: list[VolumeInfo] = wire("items", "volume_infos")
    pagination: PaginationInfo


class SandboxFilter(Model):
    """Which sandboxes to list: any of the states, all of the metadata. Pages count from 1."""

    states: list[str] | None = None
    metadata: dict[str, str] | None = None
    page_size: int | None = wire("pageSize", "page_size", default=None, ge=1)
    page: int | None = wire("page", default=None, ge=1)


class SnapshotFilter(Model):
    sandbox_id: str | None = wire("sandboxId", "sandbox_id", default=None)
    name: str | None = None
    states: list[str] | None = None
    page_size: int | None = wire("pageSize", "page_size", default=None, ge=1)
    page: int | None = wire("page", default=None, ge=1)


class SandboxMetrics(Model):
    cpu_count: float
    cpu_used_percentage: float = wire("cpu_used_pct", "cpu_used_percentage")
    memory_total_in_mib: float = wire("mem_total_mib", "memory_total_in_mib")
    memory_used_in_mib: float = wire("mem_used_mib", "memory_used_in_mib")
    timestamp: int


class SandboxState:
    """States a sandbox can be in; servers may know more."""

    PENDING = "Pending"
    RUNNING = "Running"
    PAUSING = "Pausing"
    PAUSED = "Paused"
    STOPPING = "Stopping"
    TERMINATED = "Terminated"
    FAILED = "Failed"
    UNKNOWN = "Unknown"

    @classmethod
    def values(cls) -> set[str]:
        return {
            cls.PENDING, cls.RUNNING, cls.PAUSING, cls.PAUSED,
            cls.STOPPING, cls.TERMINATED, cls.FAILED, cls.UNKNOWN,
        }  # fmt: skip


class SandboxOrigin:
    """What a sandbox was made from."""

    TEMPLATE = "template"
    UNKNOWN = "unknown"

    @classmethod
    def values(cls) -> set[str]:
        return {cls.TEMPLATE, cls.UNKNOWN}
