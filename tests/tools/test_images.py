#!/usr/bin/env python3
"""test_images.py - tools/images: options, and a tiny image of busybox built for real.

No server and no network. TAP on standard output.
"""
import contextlib
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

import tap

TOOL = tap.ROOT / "tools/images"
SCRIPT = """#!/bin/sh
set -eu
for last; do :; done
echo "$* epoch $SOURCE_DATE_EPOCH" >>"$(dirname "$0")/../calls"
mkdir -p "$last/bin" "$last/etc"
cp /bin/busybox "$last/bin/busybox"
ln -s busybox "$last/bin/sh"
ln "$last/bin/busybox" "$last/bin/again"
echo text >"$last/etc/new"
echo old >"$last/etc/old"
touch -d @1000000000 "$last/etc/old"
"""
CONFIG = {"Env": ["A=1"], "WorkingDir": "/work", "Entrypoint": ["/bin/sh"]}


class Images:
    def __init__(self, folder):
        self.folder, self.images, self.cache = folder, folder / "images", folder / "cache"
        (self.images / "tiny").mkdir(parents=True)
        self.script, self.config = self.images / "tiny/build", self.images / "tiny/config.json"
        self.script.write_text(SCRIPT, encoding="ascii")
        self.script.chmod(0o755)
        self.config.write_text(json.dumps(CONFIG), encoding="ascii")

    def run(self, *words, status=0, **env):
        nowhere = {"OPEN_SANDBOX_SERVER": "http://127.0.0.1:1"}
        done = subprocess.run([TOOL, "--from", self.images, "--cache", self.cache, *words],
                              capture_output=True, text=True, timeout=240, check=False,
                              env={**os.environ, **nowhere, **env})
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    def build(self, *words, **env):
        """The only archive."""
        self.run("--build-only", *words, **env)
        archives = list(self.cache.iterdir())
        assert len(archives) == 1 and archives[0].name.startswith("tiny-"), archives
        return archives[0]

    def calls(self):
        return (self.images / "calls").read_text(encoding="ascii").splitlines()


@contextlib.contextmanager
def images():
    if os.geteuid() != 0:
        raise tap.Skip("only root can make a root directory")
    if not os.access("/bin/busybox", os.X_OK):
        raise tap.Skip("there is no /bin/busybox")
    with tempfile.TemporaryDirectory(prefix="osb-images-") as folder:
        yield Images(pathlib.Path(folder).resolve())


def blob(tar, digest):
    data = tar.extractfile("blobs/" + digest.replace(":", "/")).read()
    assert "sha256:" + hashlib.sha256(data).hexdigest() == digest
    return data


def an_archive_has_the_root_and_the_configuration(made):
    with tarfile.open(made.build()) as tar:
        entry = json.load(tar.extractfile("index.json"))["manifests"][0]
        assert entry["annotations"]["io.containerd.image.name"] == \
            "localhost/opensandbox/tiny:latest", entry
        manifest = json.loads(blob(tar, entry["digest"]))
        config = json.loads(blob(tar, manifest["config"]["digest"]))
        assert config["config"] == CONFIG and config["os"] == "linux", config
        packed = blob(tar, manifest["layers"][0]["digest"])
    plain = subprocess.run(["zstd", "-dc"], input=packed, capture_output=True, check=True).stdout
    assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(plain).hexdigest()]
    (made.folder / "layer.tar").write_bytes(plain)
    with tarfile.open(made.folder / "layer.tar") as layer:
        names = [member.name for member in layer]
        assert names == sorted(names) and "./bin/sh" in names, names
        assert layer.getmember("./bin/busybox").islnk() != layer.getmember("./bin/again").islnk()
        assert layer.getmember("./etc/old").mtime == 1000000000
        assert layer.getmember("./etc/new").mtime == 1735689600


def it_is_built_once_and_again_when_it_changed(made):
    first = made.build()
    before = first.read_bytes()
    assert made.build() == first and len(made.calls()) == 1
    assert made.build("--force") == first and len(made.calls()) == 2
    assert first.read_bytes() == before, "the same root is not the same archive"
    made.config.write_text(json.dumps({**CONFIG, "Env": ["A=2"]}), encoding="ascii")
    second = made.build()
    assert second != first and not first.exists() and len(made.calls()) == 3


def choices_reach_the_script_and_the_version(made):
    first = made.build()
    assert made.build("--suite", "trixie", "--mirror", "http://x/debian") != first
    assert made.calls()[1].startswith("--suite trixie --mirror http://x/debian "), made.calls()
    made.build(SOURCE_DATE_EPOCH="1500000000")
    assert made.calls()[2].endswith(" epoch 1500000000"), made.calls()


ABOVE = """#!/bin/sh
set -eu
for last; do :; done
cp -a "$IMAGE_BASE_ROOT/." "$last"
rm "$last/etc/old"
echo changed >"$last/etc/new"
mkdir -p "$last/opt/more"
echo more >"$last/opt/more/file"
"""


def an_image_adds_a_layer_to_another(made):
    above = made.images / "above"
    above.mkdir()
    (above / "build").write_text(ABOVE, encoding="ascii")
    (above / "build").chmod(0o755)
    (above / "config.json").write_text(json.dumps(CONFIG), encoding="ascii")
    (above / "from").write_text("tiny\n", encoding="ascii")
    made.run("--build-only", "above")
    archives = {path.name.split("-")[0]: path for path in made.cache.iterdir()}
    assert sorted(archives) == ["above", "tiny"], archives
    layers = {}
    for name, path in archives.items():
        with tarfile.open(path) as tar:
            entry = json.load(tar.extractfile("index.json"))["manifests"][0]
            manifest = json.loads(blob(tar, entry["digest"]))
            config = json.loads(blob(tar, manifest["config"]["digest"]))
            assert len(config["rootfs"]["diff_ids"]) == len(manifest["layers"])
            layers[name] = [row["digest"] for row in manifest["layers"]]
            packed = blob(tar, layers[name][-1])
    assert layers["above"][0] == layers["tiny"][0] and len(layers["above"]) == 2, layers
    with tarfile.open(archives["above"]) as tar:
        packed = blob(tar, layers["above"][1])
    plain = subprocess.run(["zstd", "-dc"], input=packed, capture_output=True, check=True).stdout
    (made.folder / "layer.tar").write_bytes(plain)
    with tarfile.open(made.folder / "layer.tar") as layer:
        names = sorted(member.name for member in layer)
        assert layer.extractfile("./etc/new").read() == b"changed\n"
    assert names == ["./etc", "./etc/.wh.old", "./etc/new", "./opt", "./opt/more",
                     "./opt/more/file"], names
    made.script.write_text(SCRIPT + "# changed\n", encoding="ascii")
    made.run("--build-only", "above")
    assert len(made.calls()) == 2 and len(list(made.cache.iterdir())) == 2, "both are built anew"


def a_script_that_fails_leaves_nothing(made):
    made.script.write_text("#!/bin/sh\nmkdir -p \"$1/half\"\nexit 3\n", encoding="ascii")
    assert "build script ended with 3" in made.run(status=1)
    assert list(made.cache.iterdir()) == []


def it_says_what_there_is_and_what_to_do(made):
    assert made.run("--list") == "tiny\n"
    assert "there are: tiny" in made.run("big", status=1)
    assert "usage:" in made.run("--help") and "--server" in made.run("--help")
    assert "--key-file" in made.run("--key-file", "/nowhere", status=1)
    said = made.run()
    assert "no server at http://127.0.0.1:1" in said and "/v1/images/import" in said, said


def the_images_of_the_tree_are_known(_made):
    done = subprocess.run([TOOL, "--list"], capture_output=True, text=True, check=True, timeout=60)
    folders = sorted(path.parent.name for path in (tap.ROOT / "images").glob("*/config.json"))
    assert "base" in folders and done.stdout.split() == folders, done.stdout


def programs_of(script):
    """{path: text} of the programs that a script puts into its image."""
    text = script.read_text(encoding="utf-8")
    return dict(re.findall(r"^ *program (\S+) <<'TEXT'\n(.*?)^TEXT$", text,
                           re.MULTILINE | re.DOTALL))


def every_script_has_help_and_a_base_that_exists(_made):
    folders = sorted(path.parent for path in (tap.ROOT / "images").glob("*/config.json"))
    assert folders
    for folder in folders:
        done = subprocess.run([folder / "build", "--help"], capture_output=True, text=True,
                              check=False, timeout=60)
        assert done.returncode == 0 and f"images/{folder.name}/build" in done.stdout, done
        base = folder / "from"
        if base.exists():
            assert (folder.parent / base.read_text(encoding="ascii").strip() / "build").exists()


def images_that_say_they_are_checked_have_a_check_that_parses(_made):
    checked = []
    for folder in (path.parent for path in (tap.ROOT / "images").glob("*/config.json")):
        programs = programs_of(folder / "build")
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        for words in (config.get("Healthcheck", {}).get("Test", [])[1:],
                      config.get("Entrypoint", [])):
            if words and programs:
                assert words[0].lstrip("/") in programs, (folder, words)
                checked.append(folder.name)
        for text in programs.values():
            program = text.partition("\n")[0].removeprefix("#!")
            words = [sys.executable, "-c", "import sys; compile(sys.stdin.read(), '', 'exec')"] \
                if "python" in program else [program, "-n"]
            subprocess.run(words, input=text, text=True, check=True, timeout=60)
    assert {"agents", "chrome", "desktop", "playwright", "rl", "vscode"} <= set(checked), checked


def a_desktop_refuses_a_size_that_is_none(made):
    program = made.folder / "entrypoint"
    program.write_text(programs_of(tap.ROOT / "images/desktop/build")["entrypoint"],
                       encoding="utf-8")
    for size in ("1280", "x800", "1280x", "1x2x3", "1280x800;id", "axb"):
        done = subprocess.run(["/bin/sh", program], capture_output=True, text=True, check=False,
                              timeout=60, env={"PATH": "/nowhere", "DESKTOP_SIZE": size})
        assert done.returncode == 64 and size in done.stderr, (size, done)


if __name__ == "__main__":
    sys.exit(tap.run_tests([
        an_archive_has_the_root_and_the_configuration,
        it_is_built_once_and_again_when_it_changed,
        choices_reach_the_script_and_the_version,
        an_image_adds_a_layer_to_another,
        a_script_that_fails_leaves_nothing,
        it_says_what_there_is_and_what_to_do,
        the_images_of_the_tree_are_known,
        every_script_has_help_and_a_base_that_exists,
        images_that_say_they_are_checked_have_a_check_that_parses,
        a_desktop_refuses_a_size_that_is_none,
    ], images))
