"""The sync interpreter, made of _async by tools/unasync."""
