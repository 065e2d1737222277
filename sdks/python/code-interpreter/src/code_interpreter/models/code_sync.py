"""The same for the sync interpreter."""

from code_interpreter.models.code import CodeContext, SupportedLanguage


class SupportedLanguageSync(SupportedLanguage):
    """Languages that images usually have."""


class CodeContextSync(CodeContext):
    """Where cells run and keep their state."""


__all__ = ["CodeContextSync", "SupportedLanguageSync"]
