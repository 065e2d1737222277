#!/usr/bin/env python3
"""test_skills.py OSB SERVER BROKER EXECD SANDBOXCTL - the skills that osb installs.

Each shell block in them runs against a real server, the parser of osb checks each command named in
passing, and `osb skills` writes and removes the files of every assistant."""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tools")]

from server_process import SECONDS_MAX, ServerProcess, why_not  # noqa: E402
from tap import Tap, skip_all  # noqa: E402

SKILLS = HERE.parents[1] / "skills"
SIX = """sandbox-troubleshooting sandbox-lifecycle command-execution file-operations network-egress
credential-vault""".split()
ALL = [*SIX, "troubleshoot-sandbox"]
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`(osb [^`\n]+)`")
# Groups that a skill teaches whole: each command of `osb GROUP --help` is in it.
GROUPS = {
    "sandbox-lifecycle": ["sandbox"], "command-execution": ["command", "command session"],
    "file-operations": ["file"], "network-egress": ["egress"],
    "credential-vault": ["credential-vault", "credential-vault credential",
                         "credential-vault binding"],
    "sandbox-troubleshooting": ["diagnostics"], "troubleshoot-sandbox": ["devops"],
}
# What such commands answer where the server has no egress engine: then they are only parsed.
NEEDS_EGRESS = re.compile(r"\bosb (egress|credential-vault)\b|--network-policy-file")
NO_EGRESS = ("which this runtime does not have", "networkPolicy", "credential vault requires")
PLACES = {  # target: path below the project or the home directory
    "claude": ".claude/skills/{}.md", "cursor": ".cursor/rules/{}.mdc",
    "codex": ".codex/skills/{}/SKILL.md", "opencode": ".agents/skills/{}/SKILL.md",
    "copilot": ".github/copilot-instructions.md", "windsurf": ".windsurfrules",
    "cline": ".clinerules",
}
IN_FILES_OF_OTHERS = ("copilot", "windsurf", "cline")


# In place of osb: notes what it is called with, and calls osb; under OSB_PARSE with --help among
# the options, which ends with 0 unless the parser refuses another one.
STAND_IN = """#!/bin/sh
echo "$*" >> "$OSB_CALLS"
if [ -n "${OSB_PARSE-}" ]; then
    count=$# done=
    for word in "$@"; do
        [ "$word" != -- ] || [ -n "$done" ] || { set -- "$@" --help; done=1; }
        set -- "$@" "$word"
    done
    [ -n "$done" ] || set -- "$@" --help
    shift $count
fi
exec PROGRAM "$@"
"""


class Osb:
    def __init__(self, program, folder, server):
        self.folder, self.server = pathlib.Path(folder), server
        (self.folder / "bin").mkdir()
        self.program, self.notes = self.folder / "bin/osb", self.folder / "calls"
        self.program.write_text(STAND_IN.replace("PROGRAM", shlex.quote(os.path.abspath(program))),
                                encoding="utf-8")
        self.program.chmod(0o755)
        self.env = {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "HOME": f"{folder}/home",
                    "LANG": "C.UTF-8", "OPEN_SANDBOX_DOMAIN": server.domain,
                    "OPEN_SANDBOX_API_KEY": server.api_key, "OSB_CALLS": str(self.notes)}

    def calls(self):
        """What was called since the last time."""
        calls = self.notes.read_text(encoding="utf-8").splitlines() if self.notes.exists() else []
        self.notes.unlink(missing_ok=True)
        return calls

    def run(self, *words, cwd=None, env=None):
        return subprocess.run([self.program, *words], text=True, capture_output=True, check=False,
                              stdin=subprocess.DEVNULL, timeout=SECONDS_MAX, cwd=cwd,
                              env={**self.env, **(env or {})})

    def json(self, *words, cwd=None):
        done = self.run(*words, "-o", "json", cwd=cwd)
        assert done.returncode == 0, done
        return json.loads(done.stdout)

    def script(self, text, **names):
        with tempfile.TemporaryDirectory(dir=self.folder) as cwd:
            return subprocess.run(["sh", "-eu"], input=text, text=True, capture_output=True,
                                  check=False, timeout=SECONDS_MAX, env={**self.env, **names},
                                  cwd=cwd)


def text_of(slug):
    return (SKILLS / f"{slug}.md").read_text(encoding="utf-8")


def parses(osb, words):
    """The parser takes the words, as the program named `osb` below asks it."""
    done = osb.run(*words, env={"OSB_PARSE": "1"})
    assert done.returncode == 0 and done.stdout.startswith("Usage: osb "), (words, done)


# --- what the texts say ---


def create(server, slug):
    """A sandbox; with a policy and a vault, where the skill needs them and the server has them."""
    if slug not in ("network-egress", "credential-vault"):
        return server.create(image="python:3.12")
    status, _, body = server.request("POST", "/v1/sandboxes", {
        "image": {"uri": "python:3.12"}, "entrypoint": ["sleep", "infinity"], "timeout": 600,
        "resourceLimits": {"cpu": "1", "memory": "256Mi"}, "credentialProxy": {"enabled": True},
        "networkPolicy": {"defaultAction": "deny", "egress": [
            {"action": "allow", "target": "api.example.com"}]}})
    return body["id"] if status < 300 else server.create(image="python:3.12")


def block_runs(osb, script, box):
    done = osb.script(script, ID=box)
    if done.returncode == 0:
        return
    assert NEEDS_EGRESS.search(script) and done.returncode == 1, (script, done)
    assert any(text in done.stdout + done.stderr for text in NO_EGRESS), (script, done)
    done = osb.script(script, ID=box, OSB_PARSE="1")
    assert done.returncode == 0, (script, done)
    print("# only parsed: this server has no egress engine")


def blocks_run(tap, osb, slug):
    """Each block has a sandbox of its own, but those about egress and the vault go together."""
    together = slug in ("network-egress", "credential-vault")
    box = None
    for i, script in enumerate(BLOCK.findall(text_of(slug)), 1):
        box = box if box and together else create(osb.server, slug)
        tap.check(f"{slug} block {i} runs", block_runs, osb, script, box)
        if not together:
            osb.server.request("DELETE", f"/v1/sandboxes/{box}")
    if together:
        osb.server.request("DELETE", f"/v1/sandboxes/{box}")


def inline_commands(slug):
    for command in INLINE.findall(BLOCK.sub("", text_of(slug))):
        yield shlex.split(command)[1:]


def every_command_named_parses(osb, slug):
    for words in inline_commands(slug):
        if len(words) > 1:
            parses(osb, words)
        else:  # a group
            assert osb.run(*words, "--help").returncode == 0, words


def whole_groups_are_taught(osb, slug, calls):
    calls = [call.split() for call in calls] + list(inline_commands(slug))
    for group in GROUPS[slug]:
        above = group.split()
        taught = {words[len(above)] for words in calls
                  if words[:len(above)] == above and len(words) > len(above)}
        listed = osb.run(*above, "--help").stdout.split("Commands:\n")[1]
        there = {line.split()[0] for line in listed.splitlines() if re.match(r"  \w", line)}
        assert there and there <= taught, (group, there - taught)


def the_texts_in_osb_are_those_of_the_repository(osb):
    for slug in ALL:
        shown = osb.json("skills", "show", slug)
        assert shown["content"] == text_of(slug), slug
        assert set(shown) == {"skill", "title", "area", "summary", "trigger_hint", "when_to_use",
                              "quick_start", "json_shapes", "content"}, set(shown)
        front = shown["content"].split("---")[1]
        assert f"name: {slug}\n" in front and shown["summary"] in front, front
    link = HERE.parents[1] / ".claude/skills/troubleshoot-sandbox/SKILL.md"
    assert link.read_text(encoding="utf-8") == text_of("troubleshoot-sandbox")
    assert "user-invocable: true\nargument-hint: \"[sandbox-id]\"\n" in link.read_text()


# --- what osb does with them ---


def files_below(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")
            if path.is_file() or path.is_symlink()}


def statuses(done):
    assert done["requires_restart"] is True
    assert all(set(op) == {"skill", "target", "target_label", "scope", "path", "status",
                           "requires_restart"} for op in done["operations"]), done
    return {op["status"] for op in done["operations"]}


def each_target_has_its_place(osb, scope):
    home, cwd = pathlib.Path(osb.env["HOME"]), osb.folder / "project"
    base = cwd if scope == "project" else home
    for folder in (home, cwd):
        folder.mkdir(exist_ok=True)
    for target, place in PLACES.items():
        options = ("-t", target, "--scope", scope)
        done = osb.json("skills", "install", "network-egress", *options, cwd=cwd)
        (op,) = done["operations"]
        path = place.format("network-egress")
        assert op["path"] == (path if scope == "project" else f"{home}/{path}"), op
        assert (op["status"], op["target"], op["scope"]) == ("installed", target, scope), op
        text = (base / path).read_text(encoding="utf-8")
        own = text_of("network-egress")
        if target in IN_FILES_OF_OTHERS:
            assert text.startswith("<!-- BEGIN opensandbox-network-egress -->\n# "), text
            assert text.endswith("<!-- END opensandbox-network-egress -->\n"), text
        elif target == "cursor":
            assert text.startswith("# ") and text.endswith(own.split("\n# ")[1].split("\n", 1)[1])
        else:
            assert text == own
        listed = osb.json("skills", "list", cwd=cwd)
        here = [(entry["target"], entry["scope"]) for entry in listed["targets"]
                if {"skill": "network-egress", "status": "installed", "path": op["path"]}
                in entry["skills"]]
        assert here == [(target, scope)], here
        assert statuses(osb.json("skills", "install", "network-egress", *options, "-f",
                                 cwd=cwd)) == {"already_present"}
        (base / path).write_text(text.replace("Guidance", "Older Guidance"), encoding="utf-8")
        assert statuses(osb.json("skills", "install", "network-egress", *options, cwd=cwd)
                        ) == {"updated"}
        assert (base / path).read_text(encoding="utf-8") == text
        assert statuses(osb.json("skills", "uninstall", "network-egress", *options, cwd=cwd)
                        ) == {"removed"}
        assert statuses(osb.json("skills", "uninstall", "network-egress", *options, cwd=cwd)
                        ) == {"not_installed"}
        assert not files_below(base), files_below(base)


def all_skills_for_all_targets_come_and_go(osb):
    cwd = osb.folder / "everything"
    cwd.mkdir()
    (cwd / ".clinerules").write_text("Be brief.\n", encoding="utf-8")
    (cwd / ".clinerules").chmod(0o600)
    (cwd / "rules").write_text("Linked.\n", encoding="utf-8")
    (cwd / ".windsurfrules").symlink_to("rules")
    done = osb.json("skills", "install", "--all-builtins", "-t", "all", "--scope", "project",
                    cwd=cwd)
    assert statuses(done) == {"installed"} and len(done["operations"]) == len(ALL) * len(PLACES)
    rules = (cwd / ".clinerules").read_text(encoding="utf-8")
    assert rules.startswith("Be brief.\n\n<!-- BEGIN ") and rules.count("BEGIN") == len(ALL), rules
    assert (cwd / ".clinerules").stat().st_mode & 0o777 == 0o600
    assert (cwd / ".windsurfrules").is_symlink()
    for slug in ALL:  # where Claude Code itself looks
        assert (cwd / f".claude/skills/{slug}/SKILL.md").read_text() == text_of(slug)
    for slug in ALL:
        done = osb.json("skills", "uninstall", slug, "-t", "all", "--scope", "project", cwd=cwd)
        assert statuses(done) == {"removed"}, done
    assert files_below(cwd) == {".clinerules", ".windsurfrules", "rules"}, files_below(cwd)
    assert (cwd / ".clinerules").read_text(encoding="utf-8") == "Be brief.\n"
    assert (cwd / "rules").read_text(encoding="utf-8") == "Linked.\n"


def a_block_with_one_marker_is_not_touched(osb):
    cwd = osb.folder / "half"
    cwd.mkdir()
    text = "mine\n<!-- BEGIN opensandbox-network-egress -->\nalso mine\n"
    (cwd / ".clinerules").write_text(text, encoding="utf-8")
    for verb in ("install", "uninstall"):
        done = osb.run("skills", verb, "network-egress", "-t", "cline", "--scope", "project",
                       cwd=cwd)
        assert done.returncode == 1 and "by hand" in done.stderr, done
    assert (cwd / ".clinerules").read_text(encoding="utf-8") == text


def wrong_command_lines_are_told_what_would_be_right(osb):
    for words in ("install", "install network-egress", "install network-egress -t claude",
                  "install -t claude --scope project", "uninstall", "uninstall -t claude",
                  "install nonsense -t claude --scope project", "show nonsense",
                  "install network-egress --all-builtins -t claude --scope project"):
        done = osb.run("skills", *words.split(), cwd=osb.folder)
        assert done.returncode == 2 and not done.stdout, (words, done)
        assert "osb skills install SKILL --target TARGET --scope SCOPE" in done.stderr, done
        assert all(name in done.stderr for name in (*ALL, *PLACES)), done.stderr
    for words in ("show", "install x -t nonsense", "install x -t claude --scope nonsense"):
        assert osb.run("skills", *words.split()).returncode == 2, words
    done = osb.run("skills", "install", "-o", "json")
    assert done.returncode == 2 and json.loads(done.stderr)["title"] == "Usage", done


def main():
    program, *programs = sys.argv[1:]
    skip_all(why_not())
    tap = Tap()
    with ServerProcess(*programs, config={"embedded.images": {"python:*": "host"}}) as server, \
            tempfile.TemporaryDirectory(prefix="osb-skills-") as folder:
        osb = Osb(program, folder, server)
        tap.check("the texts in osb are those of the repository",
                  the_texts_in_osb_are_those_of_the_repository, osb)
        for slug in ALL:
            osb.calls()
            blocks_run(tap, osb, slug)
            calls = osb.calls()
            tap.check(f"{slug} names commands that parse", every_command_named_parses, osb, slug)
            tap.check(f"{slug} teaches whole groups", whole_groups_are_taught, osb, slug, calls)
        for scope in ("project", "global"):
            tap.check(f"each target has its place in scope {scope}", each_target_has_its_place,
                      osb, scope)
        for test in (all_skills_for_all_targets_come_and_go, a_block_with_one_marker_is_not_touched,
                     wrong_command_lines_are_told_what_would_be_right):
            tap.check(test.__name__.replace("_", " "), test, osb)
    return tap.end()


sys.exit(main())
