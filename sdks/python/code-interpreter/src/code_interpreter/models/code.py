"""Contexts and languages."""

from __future__ import annotations

from pydantic import field_validator

from opensandbox.models._base import Model, need_text


class SupportedLanguage:
    """Languages that images usually have."""

    PYTHON = "python"
    JAVA = "java"
    GO = "go"
    TYPESCRIPT = "typescript"
    BASH = "bash"
    JAVASCRIPT = "javascript"


class CodeContext(Model):
    """Where cells run and keep their state; without an id, the default one of the language."""

    id: str | None = None
    language: str
    cwd: str | None = None
    kernel: str | None = None
    state: str | None = None

    @field_validator("language")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        return need_text(value, "language")
