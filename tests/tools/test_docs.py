#!/usr/bin/env python3
"""test_docs.py - the documents name what exists, and leave no module out.

Checks links and their anchors, paths in backticks, make targets, functions written as name() (in
diagrams too), unit tests named in docs/security/tests.md, and that each make target, directory of
src/, header or room, decision, broker operation and step of creating a sandbox is described.
"""
import fnmatch
import os
import re
import sys

import tap

ROOT = tap.ROOT
NOT_OURS = {".git", "build", "node_modules"}
DECISION_LINES_MAX = 60
SECURITY_LINES_MAX = 150
SECURITY_TESTS = "docs/security/tests.md"
# Directories of src/ with a page in docs/internals. A page mentions each header of a flat
# directory; for a program with rooms it mentions each room.
FLAT = ("base", "net", "api", "sandbox", "image", "kube", "broker")
WITH_ROOMS = ("execd", "server")
DECISION_PARTS = ("Status:", "## Context", "## Decision", "## Consequences", "## Alternatives")

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
PATH = re.compile(r"(?:src|sdks|tests|tools|bench|deploy|docs|examples|meson|specs)/[\w./*<>-]*")
MAKE = re.compile(r"(?:^|[\s&;])make ([a-z][a-z-]*)(?![\w=])", re.MULTILINE)
FUNCTION = re.compile(r"(?<![\w.])([a-z]\w+)\(\)")
UNIT_TEST = re.compile(r"([a-z0-9_]+)\.([a-z0-9]+(?:_[a-z0-9]+)+)")


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def pages():
    """Every .md file of ours, as a path relative to the root."""
    for folder, subfolders, names in os.walk(ROOT):
        subfolders[:] = sorted(set(subfolders) - NOT_OURS)
        for name in sorted(fnmatch.filter(names, "*.md")):
            yield os.path.relpath(os.path.join(folder, name), ROOT)


def without_fences(text):
    return FENCE.sub("", text)


def inline_code(text):
    return CODE.findall(without_fences(text))


def anchors(text):
    """What a heading is called in a link: lower case, words joined by hyphens."""
    for heading in HEADING.findall(without_fences(text)):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def broken_link(page, target):
    """Why the link leads nowhere, or None."""
    if re.match(r"[a-z]+:", target):
        return None
    path, _, anchor = target.partition("#")
    to = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
    if not (ROOT / to).exists():
        return f"{page}: no file behind the link {target}"
    if anchor and anchor not in anchors(read(to)):
        return f"{page}: no heading behind the link {target}"
    return None


def path_exists(path):
    """Of a path with a <name> in it only what stands before must exist; a * must match."""
    before = re.split(r"[^/]*<", path)[0]
    return any(ROOT.glob(before.rstrip("/"))) if before else True


def make_targets():
    return set(re.findall(r"^([a-z][a-z-]*):", read("Makefile"), re.MULTILINE))


def commands(text):
    """Inline code, and the lines of shell blocks without their comments."""
    yield from inline_code(text)
    for language, block in FENCE.findall(text):
        if language in ("sh", "console"):
            yield re.sub(r"#.*", "", block)


def sources(*folders):
    return "\n".join(path.read_text(encoding="utf-8") for folder in folders
                     for path in sorted((ROOT / folder).rglob("*"))
                     if path.suffix in (".c", ".h", ".kt"))


def expect_none(problems):
    assert not problems, "\n" + "\n".join(problems)


def every_link_leads_somewhere():
    found = [broken_link(page, target) for page in pages()
             for target in LINK.findall(without_fences(read(page)))]
    assert len(found) > 20, "the links were not found"
    expect_none([problem for problem in found if problem])


def every_path_in_backticks_exists():
    named = {(page, code) for page in pages() for code in inline_code(read(page))
             if PATH.fullmatch(code)}
    assert len(named) > 20, "the paths were not found"
    expect_none([f"{page}: {path} does not exist" for page, path in sorted(named)
                 if not path_exists(path)])


def every_make_target_exists():
    targets = make_targets()
    expect_none([f"{page}: the Makefile has no target {name}" for page in pages()
                 for text in commands(read(page)) for name in MAKE.findall(text)
                 if name not in targets])


def the_page_of_targets_lists_every_make_target():
    listed = {name for code in inline_code(read("docs/make.md")) for name in MAKE.findall(code)}
    described = set(re.findall(r"^([a-z][a-z-]*):.*##", read("Makefile"), re.MULTILINE))
    missing = described - listed - {"all"}
    expect_none([f"docs/make.md: no row for make {name}" for name in sorted(missing)])


def every_directory_of_src_is_listed():
    """In the tree of ARCHITECTURE.md, one line each, and none that does not exist."""
    tree = next(block for _, block in FENCE.findall(read("ARCHITECTURE.md"))
                if block.startswith("src/"))
    listed = re.findall(r"^(src/[\w/]*) ", tree, re.MULTILINE)
    exist = {f"{folder.relative_to(ROOT)}/" for folder in (ROOT / "src").rglob("*")
             if folder.is_dir() and any(folder.glob("*.[ch]"))}
    expect_none([f"ARCHITECTURE.md: no line for {path}" for path in sorted(exist - set(listed))])
    expect_none([f"ARCHITECTURE.md: {path} does not exist" for path in listed
                 if not (ROOT / path).is_dir()])
    assert len(listed) == len(set(listed)), "ARCHITECTURE.md: a directory has two lines"


def the_rooms_may_include_what_checksrc_allows():
    """The two tables of rooms in ARCHITECTURE.md, against LAYERS of tools/checksrc."""
    layers, text = tap.load_tool("checksrc").LAYERS, read("ARCHITECTURE.md")
    for program in ("execd", "server"):
        head = rf"^\| room of {program} \|.*\n\|[-|]+\n"
        table = re.search(head + r"((?:\|.*\n)+)", text, re.MULTILINE)[1]
        rows = dict(re.findall(r"^\| (\S+) \| ?([^|;]*)", table, re.MULTILINE))
        said = {room: set(re.findall(r"[\w/]+", names)) for room, names in rows.items()}
        true = {layer.partition("/")[2]: {name.partition("/")[2] for name in allowed
                                          if name.startswith(f"{program}/")}
                for layer, allowed in layers.items() if layer.startswith(f"{program}/")}
        expect_none([f"ARCHITECTURE.md: {program}/{room}: {said.get(room)}, not {true.get(room)}"
                     for room in sorted(said.keys() | true.keys())
                     if said.get(room) != true.get(room)])


def the_security_policy_is_short():
    assert len(read("SECURITY.md").splitlines()) <= SECURITY_LINES_MAX


def every_function_named_exists():
    known = set(re.findall(r"\b\w+(?=\()", sources("src", "sdks", "tests")))
    expect_none([f"{page}: nothing is called {name}()" for page in pages()
                 for name in FUNCTION.findall(read(page)) if name not in known])


def config_keys():
    """(section, key) of every key of the configuration, which are written as tests are."""
    for section in re.split(r"^## ", read("docs/config.md"), flags=re.MULTILINE):
        name = re.match(r"\[(\w+)\]", section)
        for key in re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) if name else ():
            yield name[1], key


def every_unit_test_named_exists():
    known = set(re.findall(r"^TEST\((\w+), (\w+)\)", sources("tests/unit"), re.MULTILINE))
    keys = set(config_keys())
    assert ("server", "proxy_access") in keys, "the keys were not found"
    named = [test.groups() for test in map(UNIT_TEST.fullmatch, inline_code(read(SECURITY_TESTS)))
             if test and test.groups() not in keys]
    assert len(named) > 10, "the tests were not found"
    expect_none([f"{SECURITY_TESTS}: no test {module}.{name}" for module, name in named
                 if (module, name) not in known])


def every_header_is_mentioned():
    """In the page of its directory in docs/internals."""
    for layer in FLAT:
        page = f"docs/internals/{layer}.md"
        text = read(page)
        expect_none([f"{page}: src/{layer}/{path.name} is not mentioned"
                     for path in sorted((ROOT / "src" / layer).rglob("*.h"))
                     if not path.name.endswith("_internal.h")
                     and not re.search(rf"\b{re.escape(path.name)}", text)])


def every_room_is_mentioned():
    """In the page of its program in docs/internals."""
    for program in WITH_ROOMS:
        page = f"docs/internals/{program}.md"
        named = inline_code(read(page))
        rooms = {f"src/{layer}" for layer in tap.load_tool("checksrc").LAYERS
                 if layer.startswith(f"{program}/")}
        assert len(rooms) > 3, "the rooms were not found"
        expect_none([f"{page}: {room} is not mentioned" for room in sorted(rooms)
                     if room not in named])


def every_operation_is_described():
    """In the table of the wire protocol."""
    names = re.findall(r"^    (BROKER_\w+)\b", re.search(
        r"enum broker_op \{(.*?)^\};", read("src/broker/wire.h"), re.DOTALL | re.MULTILINE)[1],
        re.MULTILINE)
    assert "BROKER_SPAWN" in names, "the operations were not found"
    text = read("docs/internals/broker.md")
    expect_none([f"docs/internals/broker.md: no row for {name}" for name in names
                 if name != "BROKER_OP_COUNT" and f"| `{name}`" not in text])


def every_step_is_described():
    """The tables by which a child becomes a sandbox."""
    steps = re.findall(r'^    \{"([^"]+)", +step_\w+', read("src/sandbox/spawn.c"), re.MULTILINE)
    assert len(steps) > 10, "the steps were not found"
    text = read("ARCHITECTURE.md")
    expect_none([f"ARCHITECTURE.md: no row for the step '{name}'" for name in steps
                 if f"\n| `{name}` |" not in text])


def every_decision_is_whole_and_listed():
    index = read("docs/decisions/README.md")
    problems = []
    for path in sorted((ROOT / "docs/decisions").glob("[0-9]*.md")):
        text = path.read_text(encoding="utf-8")
        problems += [f"{path.name}: no '{part}'" for part in DECISION_PARTS
                     if f"\n{part}" not in text]
        if not text.startswith(f"# {path.name[:4]}: "):
            problems.append(f"{path.name}: its title has another number")
        if f"]({path.name})" not in index:
            problems.append(f"{path.name}: not in the index")
        if len(text.splitlines()) > DECISION_LINES_MAX:
            problems.append(f"{path.name}: longer than {DECISION_LINES_MAX} lines")
    expect_none(problems)


def every_proposal_is_whole_and_listed():
    """Numbers without gaps, the headings of the template in order, a state, a row in the table."""
    def headings(text):
        return re.findall(r"^## .+$", without_fences(text), re.MULTILINE)

    readme = read("oseps/README.md")
    states = re.findall(r"^\| (\w+) \| ", readme.split("## States")[1], re.MULTILINE)[1:]
    found = sorted(path.name for path in (ROOT / "oseps").glob("[0-9]*.md"))
    problems = [] if found else ["there is none"]
    for number, name in enumerate(found, 1):
        text = read(f"oseps/{name}")
        state = re.search(r"^State: (\w+)", text, re.MULTILINE)
        if not name.startswith(f"{number:04}-") or not text.startswith(f"# OSEP-{number:04}: "):
            problems.append(f"{name}: number {number:04} was expected")
        if headings(text) != headings(read("oseps/template.md")):
            problems.append(f"{name}: other headings than those of the template")
        if not state or state[1] not in states:
            problems.append(f"{name}: its state is none of {states}")
        elif not re.search(rf"^\| \[{number:04}\]\({name}\) \| .* \| {state[1]}", readme,
                           re.MULTILINE):
            problems.append(f"{name}: not in the table of README.md with that state")
    expect_none(problems)


def what_is_wrong_is_found():
    """The checks themselves: each can fail."""
    assert broken_link("README.md", "docs/nowhere.md")
    assert broken_link("README.md", "README.md#no-such-heading")
    assert broken_link("docs/decisions/README.md", "../../README.md") is None
    assert broken_link("README.md", "https://example.org/") is None
    assert not path_exists("src/base/nothing.h") and not path_exists("src/none/*.h")
    assert path_exists("tests/unit/<layer>/test_<module>.c") and path_exists("src/base/*.h")
    assert not path_exists("tests/none/<name>.c")
    assert "nothing" not in make_targets() and "test-asan" in make_targets()
    assert MAKE.findall("make nothing J=2 && make test") == ["nothing", "test"]
    assert list(commands("```sh\nmake one # make two\n```\n`make three`\n")) == \
        ["make three", "make one \n"]
    assert inline_code("```c\n`a`\n```\n`b`\n") == ["b"]


if __name__ == "__main__":
    sys.exit(tap.run_tests([
        every_link_leads_somewhere,
        every_path_in_backticks_exists,
        every_make_target_exists,
        the_page_of_targets_lists_every_make_target,
        every_directory_of_src_is_listed,
        the_rooms_may_include_what_checksrc_allows,
        the_security_policy_is_short,
        every_function_named_exists,
        every_unit_test_named_exists,
        every_header_is_mentioned,
        every_room_is_mentioned,
        every_operation_is_described,
        every_step_is_described,
        every_decision_is_whole_and_listed,
        every_proposal_is_whole_and_listed,
        what_is_wrong_is_found,
    ]))
