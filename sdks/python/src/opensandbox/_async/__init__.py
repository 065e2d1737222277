"""The async client. tools/unasync makes the sync one of it."""
