"""Models of the server's images and pools."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from opensandbox.models._base import Model, wire
from opensandbox.models.sandboxes import PaginationInfo


class ImageInfo(Model):
    """An image that the server has."""

    id: str
    names: list[str]
    size: int
    layers: int
    created_at: datetime = wire("createdAt", "created_at")
    last_used_at: datetime = wire("lastUsedAt", "last_used_at")
    platform: dict[str, str] = Field(default_factory=dict)
    entrypoint: list[str] | None = None
    cmd: list[str] | None = None
    env: list[str] | None = None
    user: str | None = None
    workdir: str | None = None
    exposed_ports: list[str] | None = wire("exposedPorts", "exposed_ports", default=None)
    in_use: bool = wire("inUse", "in_use", default=False)


class PagedImageInfos(Model):
    image_infos: list[ImageInfo] = wire("items", "image_infos")
    pagination: PaginationInfo


class PullProgress(Model):
    """How far a pull is."""

    message: str = ""
    bytes_done: int = wire("bytesDone", "bytes_done", default=0)
    bytes_total: int = wire("bytesTotal", "bytes_total", default=0)


class CapacitySpec(Model):
    """How many sandboxes a pool of the server keeps."""

    buffer_max: int = wire("bufferMax", "buffer_max")
    buffer_min: int = wire("bufferMin", "buffer_min")
    pool_max: int = wire("poolMax", "pool_max")
    pool_min: int = wire("poolMin", "pool_min")

    def to_wire(self) -> dict[str, int]:
        return {
            "bufferMax": self.buffer_max,
            "bufferMin": self.buffer_min,
            "poolMax": self.pool_max,
            "poolMin": self.pool_min,
        }


class ServerPoolStatus(Model):
    total: int
    allocated: int
    available: int
    revision: str = ""
    message: str | None = None


class ServerPool(Model):
    """A pool of sandboxes that the server keeps."""

    name: str
    capacity_spec: CapacitySpec = wire("capacitySpec", "capacity_spec")
    status: ServerPoolStatus
    created_at: datetime = wire("createdAt", "created_at")


class PtyInfo(Model):
    """A terminal session."""

    session_id: str
    running: bool | None = None
    output_offset: int | None = None
