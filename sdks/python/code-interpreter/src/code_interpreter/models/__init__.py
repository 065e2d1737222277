"""Contexts and languages."""

from code_interpreter.models.code import CodeContext, SupportedLanguage
from code_interpreter.models.code_sync import CodeContextSync, SupportedLanguageSync

__all__ = ["CodeContext", "CodeContextSync", "SupportedLanguage", "SupportedLanguageSync"]
