"""The sync interpreter."""

from code_interpreter._sync.code import CodeInterpreterSync, CodesSync

__all__ = ["CodeInterpreterSync", "CodesSync"]
