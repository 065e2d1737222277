"""The async interpreter."""

from code_interpreter._async.code import CodeInterpreter, Codes

__all__ = ["CodeInterpreter", "Codes"]
