"""Models of files."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import field_validator

from opensandbox.models._base import Model, need_text, wire


def octal_mode(mode: int) -> int:
    """0o755 as the digits 755, which is how the API writes modes."""
    return int(f"{mode & 0o7777:o}")


def _check_mode(value: int) -> int:
    if value < 0 or any(digit in "89" for digit in str(value)):
        raise ValueError(f"mode is written in octal digits, as 644; {value} has others")
    return value


class EntryInfo(Model):
    """What a file is."""

    path: str
    entry_type: str | None = wire("type", "entry_type", default=None)
    mode: int
    owner: str
    group: str
    size: int
    modified_at: datetime
    created_at: datetime


class WriteEntry(Model):
    """A file to write, or a directory to make. `data` is str, bytes, a file object, or an
    iterator of bytes."""

    path: str
    data: Any = None
    mode: int = 755
    owner: str | None = None
    group: str | None = None
    encoding: str = "utf-8"

    @field_validator("path", "encoding")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        return need_text(value, "path and encoding")

    @field_validator("mode")
    @classmethod
    def _octal(cls, value: int) -> int:
        return _check_mode(value)


class DirectoryListEntry(Model):
    """A directory to list; `depth` 1 is its own entries."""

    path: str
    depth: int | None = None

    @field_validator("path")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        return need_text(value, "path")

    @field_validator("depth")
    @classmethod
    def _not_negative(cls, value: int | None) -> int | None:
        if value is not None and value < 0:
            raise ValueError("depth must not be negative")
        return value


class MoveEntry(Model):
    """A file to rename."""

    src: str = wire("source", "src")
    dest: str = wire("destination", "dest")

    @field_validator("src", "dest")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        return need_text(value, "src and dest")


class SetPermissionEntry(Model):
    """Mode and owner that a file gets."""

    path: str
    owner: str | None = None
    group: str | None = None
    mode: int = 755

    @field_validator("path")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        return need_text(value, "path")

    @field_validator("mode")
    @classmethod
    def _octal(cls, value: int) -> int:
        return _check_mode(value)


class ContentReplaceEntry(Model):
    """Text of a file to replace."""

    path: str
    old_content: str
    new_content: str

    @field_validator("path")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        return need_text(value, "path")


class ContentReplaceResult(Model):
    """How often text was replaced."""

    path: str
    replaced_count: int


class SearchEntry(Model):
    """Files to find: names below a directory that match a pattern."""

    path: str
    pattern: str

    @field_validator("path", "pattern")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        return need_text(value, "path and pattern")


class FileEvent(Model):
    """What happened to a file: create, modify, delete, move, or overflow when some was missed."""

    type: str
    path: str | None = None
    from_path: str | None = wire("from", "from_path", default=None)
    directory: bool = False
    timestamp: int = 0
