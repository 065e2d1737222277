#!/usr/bin/env python3
"""test_sdk_c.py SHARED STATIC - what libopensandbox shows: the names in sdks/c/symbols, no others;
and headers that stand alone. After a new function: test_sdk_c.py SHARED STATIC --write."""
import pathlib
import re
import subprocess
import sys

from tap import ROOT, run_tests

LIST = ROOT / "sdks/c/symbols"
HEADERS = ROOT / "sdks/c/include/opensandbox"
SHARED, STATIC = sys.argv[1:3]


def names(*command):
    """Names of functions and data that a library defines for others."""
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return sorted(line.split()[-1].split("@")[0] for line in out.splitlines()
                  if re.match(r"[0-9a-f]+ [TDBRVW] ", line))


def declared():
    text = "".join(path.read_text(encoding="utf-8") for path in HEADERS.glob("*.h"))
    text = re.sub(r"/\*.*?\*/|^#[^\n]*", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"typedef[^;]*;|^enum[^;(]*;|struct \w+ \{.*?\n\};", "", text,
                  flags=re.DOTALL | re.MULTILINE)
    return sorted(set(re.findall(r"\b(osb_\w+)\(", text)))


def listed():
    return LIST.read_text(encoding="utf-8").split()


def the_shared_library_shows_what_is_listed():
    assert names("nm", "-D", "--defined-only", SHARED) == listed(), set(
        names("nm", "-D", "--defined-only", SHARED)) ^ set(listed())


def every_name_has_a_version():
    out = subprocess.run(["nm", "-D", "--defined-only", SHARED], check=True, stdout=subprocess.PIPE,
                         text=True).stdout
    bare = [line for line in out.splitlines() if " T " in line and "@@OPENSANDBOX_0" not in line]
    assert not bare, bare


def the_static_library_shows_the_same():
    assert names("nm", "-g", "--defined-only", STATIC) == listed(), set(
        names("nm", "-g", "--defined-only", STATIC)) ^ set(listed())


def what_is_declared_is_what_is_shown():
    assert declared() == listed(), set(declared()) ^ set(listed())


def headers_stand_alone():
    for path in sorted(HEADERS.glob("*.h")):
        for compiler in (["cc", "-std=c99", "-xc"], ["c++", "-std=c++17", "-xc++"]):
            subprocess.run([*compiler, "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-pedantic",
                            f"-I{HEADERS.parent}", "-"], check=True, text=True,
                           input=f"#include <opensandbox/{path.name}>\n")


def the_readme_and_the_manual_name_every_header():
    names_of = {path.name for path in HEADERS.glob("*.h")} - {"opensandbox.h"}
    for page in ("README.md", "man/opensandbox.3"):
        text = (HEADERS.parent.parent / page).read_text(encoding="utf-8")
        missing = {name for name in names_of if name not in text}
        assert not missing, (page, missing)


if "--write" in sys.argv:
    LIST.write_text("\n".join(names("nm", "-D", "--defined-only", SHARED)) + "\n",
                    encoding="utf-8")
sys.exit(run_tests([the_shared_library_shows_what_is_listed, every_name_has_a_version,
                    the_static_library_shows_the_same, what_is_declared_is_what_is_shown,
                    headers_stand_alone, the_readme_and_the_manual_name_every_header]))
