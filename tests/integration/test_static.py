#!/usr/bin/env python3
"""test_static.py PROGRAM... - programs for the inside of a sandbox need nothing from its image.

Each must name no interpreter and no shared library, and must run in a root that holds it alone.
TAP on standard output.
"""
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
from tap import Skip, Tap  # noqa: E402

PT_DYNAMIC, PT_INTERP = 2, 3
DT_NULL, DT_NEEDED = 0, 1
SECONDS_MAX = 60


def segments(elf):
    """Yields (type, offset, size) of every program header of a 64-bit little-endian ELF file."""
    assert elf[:4] == b"\x7fELF", "not an ELF file"
    assert elf[4:6] == b"\x02\x01", "not a 64-bit little-endian ELF file"
    (table,) = struct.unpack_from("<Q", elf, 32)
    entry_size, count = struct.unpack_from("<HH", elf, 54)
    for i in range(count):
        kind, _, offset, _, _, size = struct.unpack_from("<IIQQQQ", elf, table + i * entry_size)
        yield kind, offset, size


def has_no_interpreter(program):
    for kind, offset, size in segments(program.read_bytes()):
        assert kind != PT_INTERP, f"asks for {program.read_bytes()[offset:offset + size]!r}"


def needs_no_shared_library(program):
    elf = program.read_bytes()
    for kind, offset, size in segments(elf):
        if kind != PT_DYNAMIC:
            continue
        for at in range(offset, offset + size, 16):
            (tag,) = struct.unpack_from("<q", elf, at)
            if tag == DT_NULL:
                break
            assert tag != DT_NEEDED, "has a DT_NEEDED entry"


def runs_in_an_empty_root(program):
    enter = ["chroot"] if os.geteuid() == 0 else ["unshare", "-r", "chroot"]
    probe = subprocess.run([*enter, "/", "/bin/true"], stderr=subprocess.DEVNULL, check=False)
    if probe.returncode != 0:
        raise Skip(f"'{' '.join(enter)}' is not permitted here")
    with tempfile.TemporaryDirectory() as root:
        shutil.copy(program, root)
        done = subprocess.run([*enter, root, f"/{program.name}", "--version"], check=False,
                              capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, f"exit status {done.returncode}: {done.stderr}"
    assert done.stdout.startswith(program.name + " "), f"says {done.stdout!r}"


def refuses_what_it_does_not_know(program):
    for args in (["--no-such-option"], ["--version", "--help"]):
        done = subprocess.run([program, *args], check=False, capture_output=True, text=True,
                              timeout=SECONDS_MAX)
        assert done.returncode == 2, f"{args}: exit status {done.returncode}"
        assert done.stdout == "" and done.stderr, f"{args}: says {done.stdout!r}"


def fails_when_its_output_is_lost(program):
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([program, "--version"], check=False, stdout=full, timeout=SECONDS_MAX)
    assert done.returncode != 0, "claims success although nothing was written"


CHECKS = [
    has_no_interpreter,
    needs_no_shared_library,
    runs_in_an_empty_root,
    refuses_what_it_does_not_know,
    fails_when_its_output_is_lost,
]


def main():
    tap = Tap()
    for program in map(pathlib.Path, sys.argv[1:]):
        for check in CHECKS:
            tap.check(f"{program.name} {check.__name__}", check, program)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
