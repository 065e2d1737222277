"""The base of the models: built when first used, open to members that newer servers add."""

from __future__ import annotations

from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field


class Model(BaseModel):
    """Takes the names of its fields and those of the wire."""

    model_config = ConfigDict(
        populate_by_name=True, defer_build=True, arbitrary_types_allowed=True, extra="ignore"
    )


def wire(name: str, *more: str, **options: Any) -> Any:
    """A field that has another name on the wire, and is dumped by its own."""
    return Field(validation_alias=AliasChoices(name, *more), **options)


def need_text(value: str, what: str) -> str:
    if not value.strip():
        raise ValueError(f"{what} must not be blank")
    return value
