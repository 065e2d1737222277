#!/usr/bin/env python3
"""test_published_cases.py LANGUAGE COMMAND... - the cases of sdks/conformance with a published SDK.

COMMAND is a runner that prints TAP. The cases that fail are those that docs/sdks.md lists for the
language, no more and no fewer: what differs is known, and the list is not older than the cases. A
skip is a call that the SDK lacks, and is listed too. Prints TAP."""
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "tools"))

from tap import Tap  # noqa: E402

SECONDS_MAX = 600
COMPARED_MIN = 80


def listed(language):
    """{kind: names} of the tables in docs/sdks.md; a name may stand for a room: `code.*`."""
    text = (ROOT / "docs/sdks.md").read_text()
    section = re.search(rf"^### Cases of the published SDK: {language}\n(.*?)(?=^##|\Z)", text,
                        re.M | re.S)[1]
    out = {"differs": set(), "lacks": set()}
    for line in section.splitlines():
        kind = "lacks" if line.startswith("| not there |") else "differs"
        if line.startswith("| "):
            out[kind] |= set(re.findall(r"`(\w+\.[\w*]+)`", line.split(" | ")[-1]))
    return out


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False,
                          stderr=subprocess.DEVNULL,  # the published SDK logs a lot
                          timeout=SECONDS_MAX)
    found = re.findall(r"^(ok|not ok) \d+ - (?:scripted )?(\S+)(.*)$", done.stdout, re.M)
    return {"differs": {name for verdict, name, _ in found if verdict == "not ok"},
            "lacks": {name for _, name, more in found if "# SKIP" in more},
            "all": {name for _, name, _ in found}}


def run_twice(command, wanted):
    """What a case does by time may differ once on a busy machine: unexpected ones run again."""
    first = run(command)
    if all(not surprises(wanted[kind], first[kind])[at]
           for kind in ("differs", "lacks") for at in (0, 1)):
        return first
    again = run(command)
    for kind in ("differs", "lacks"):
        unlisted, gone = surprises(wanted[kind], again[kind])
        again[kind] -= {name for name in unlisted if name not in first[kind]}
        again[kind] |= {name for name in gone if name in first[kind]}
    return again


def surprises(wanted, got):
    rooms = {name[:-1] for name in wanted if name.endswith("*")}
    plain = {name for name in wanted if not name.endswith("*")}
    unlisted = sorted(name for name in got - plain if not name.startswith(tuple(rooms) or ("\0",)))
    return unlisted, sorted(plain - got)


def check(wanted, got):
    unlisted, gone = surprises(wanted, got)
    assert not unlisted and not gone, f"not in docs/sdks.md: {unlisted}; listed, but not so: {gone}"


def main():
    language, *command = sys.argv[1:]
    tap = Tap()
    wanted = listed(language)
    got = run_twice(command, wanted)
    alike = len(got["all"] - got["differs"] - got["lacks"])
    tap.check("most cases are alike", many, alike)
    tap.check("what differs is listed", check, wanted["differs"], got["differs"])
    tap.check("what is not there is listed", check, wanted["lacks"], got["lacks"])
    return tap.end()


def many(alike):
    assert alike >= COMPARED_MIN, f"only {alike}"


if __name__ == "__main__":
    sys.exit(main())
