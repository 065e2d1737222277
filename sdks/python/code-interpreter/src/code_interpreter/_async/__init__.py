"""The async interpreter. tools/unasync makes the sync one of it."""
