"""The sync client, made of _async by tools/unasync; only io.py is written by hand."""
