"""Models of templates, which some servers build sandboxes from."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import field_validator

from opensandbox.models._base import Model, need_text, wire
from opensandbox.models.sandboxes import PaginationInfo


class TemplatePhase:
    """How far the build of a template is."""

    PENDING = "Pending"
    BUILDING = "Building"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @classmethod
    def values(cls) -> set[str]:
        return {cls.PENDING, cls.BUILDING, cls.SUCCEEDED, cls.FAILED}


class TemplateReadiness(Model):
    probe: str | None = None
    warmup_seconds: int | None = wire("warmupSeconds", "warmup_seconds", default=None)


class TemplateStatus(Model):
    phase: str
    manifest_ref: str | None = wire("manifestRef", "manifest_ref", default=None)
    message: str | None = None


class CreateTemplateRequest(Model):
    image: str
    publish: str
    resource_limits: dict[str, str] | None = wire(
        "resourceLimits", "resource_limits", default=None
    )
    entrypoint: list[str] | None = None
    env: dict[str, str] | None = None
    metadata: dict[str, str] | None = None
    readiness: TemplateReadiness | None = None
    format: Literal["native", "overlaybd"] | None = None

    @field_validator("image", "publish")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        return need_text(value, "image and publish")


class TemplateInfo(Model):
    template_id: str = wire("templateId", "template_id")
    image: str
    publish: str
    format: str
    status: TemplateStatus
    created_at: datetime = wire("createdAt", "created_at")
    updated_at: datetime = wire("updatedAt", "updated_at")
    resource_limits: dict[str, str] | None = wire(
        "resourceLimits", "resource_limits", default=None
    )
    entrypoint: list[str] | None = None
    env: dict[str, str] | None = None
    metadata: dict[str, str] | None = None
    readiness: TemplateReadiness | None = None


class TemplateFilter(Model):
    metadata: dict[str, str] | None = None
    page_size: int | None = wire("pageSize", "page_size", default=None, ge=1)
    page: int | None = wire("page", default=None, ge=1)


class PagedTemplateInfos(Model):
    template_infos: list[TemplateInfo] = wire("items", "template_infos")
    pagination: PaginationInfo
