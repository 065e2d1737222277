"""Code with state in sandboxes of OpenSandbox."""

from code_interpreter._async.code import CodeInterpreter
from code_interpreter._sync.code import CodeInterpreterSync
from code_interpreter.models import (
    CodeContext,
    CodeContextSync,
    SupportedLanguage,
    SupportedLanguageSync,
)
from opensandbox._version import __version__

__all__ = [
    "CodeContext",
    "CodeContextSync",
    "CodeInterpreter",
    "CodeInterpreterSync",
    "SupportedLanguage",
    "SupportedLanguageSync",
    "__version__",
]
