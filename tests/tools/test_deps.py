#!/usr/bin/env python3
"""test_deps.py - tools/deps repeats failed downloads, leaves nothing half made, shares a cache."""
import concurrent.futures
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import tap

# Replaces the network: this apt-get fetches a package after a given number of failures, and each
# failure leaves half of it.
STANDINS = {
    "apt-cache": "echo '  Depends: linux-image-6.1-cloud'",
    "apt-get": """
        case " $* " in *" download "*) ;; *) exit 0 ;; esac
        echo half >linux-image-6.1-cloud_1.deb
        left=$(cat "$WORLD/failures")
        [ "$left" = 0 ] || { echo $((left - 1)) >"$WORLD/failures"; exit 100; }""",
    "dpkg-deb": "mkdir -p lib/modules/6.1-cloud",
    "depmod": "test -d lib/modules/6.1-cloud",
    "sleep": "exit 0",
}


class Tree:
    """tools/deps in a tree of its own, which fetches a kernel from a world of stand-ins."""

    def __init__(self, folder, cache=None):
        self.folder = folder
        self.cache = cache or folder / "cache"
        (folder / "tools").mkdir(parents=True)
        shutil.copy(tap.ROOT / "tools/deps", folder / "tools/deps")
        (folder / "world").mkdir()
        for name, text in STANDINS.items():
            path = folder / "world" / name
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)
        self.built = folder / "build/deps"

    def fetch(self, failures):
        world = self.folder / "world"
        (world / "failures").write_text(f"{failures}\n")
        env = {"PATH": f"{world}:{os.environ['PATH']}", "WORLD": str(world),
               "XDG_CACHE_HOME": str(self.cache)}
        done = subprocess.run([self.folder / "tools/deps", "vm"], env=env, capture_output=True,
                              text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stderr


@contextlib.contextmanager
def tree():
    with tempfile.TemporaryDirectory() as folder:
        yield Tree(pathlib.Path(folder))


def what_fails_is_tried_again(made):
    made.fetch(4)
    assert (made.built / "vm.ok").exists()
    assert (made.built / "vm/lib/modules/6.1-cloud").is_dir()
    assert not list((made.built / "vm").glob("*.deb"))


def what_fails_for_good_leaves_nothing_half_made(made):
    said = made.fetch(1000)
    assert "will be skipped" in said, said
    assert not (made.built / "vm").is_symlink() and not (made.built / "vm.ok").exists()
    assert not [path for path in (made.cache / "opensandbox").iterdir() if path.is_dir()]
    made.fetch(0)  # and is not given up
    assert (made.built / "vm.ok").exists()


def what_is_there_is_not_fetched_again(made):
    made.fetch(0)
    assert made.fetch(1000) == ""


def a_second_clone_takes_it_from_the_cache(made):
    made.fetch(0)
    clone = Tree(made.folder / "clone", made.cache)
    assert clone.fetch(1000) == ""
    assert (clone.built / "vm").resolve() == (made.built / "vm").resolve()


def two_clones_at_once_fetch_it_once(made):
    clone = Tree(made.folder / "clone", made.cache)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        said = list(pool.map(lambda tree: tree.fetch(0), [made, clone]))
    assert sum("installing vm" in text for text in said) == 1, said
    assert (clone.built / "vm/lib/modules/6.1-cloud").is_dir()


def a_directory_of_an_older_checkout_gives_way(made):
    (made.built / "vm/lib").mkdir(parents=True)
    made.fetch(0)
    assert (made.built / "vm").is_symlink()


if __name__ == "__main__":
    sys.exit(tap.run_tests([
        what_fails_is_tried_again,
        what_fails_for_good_leaves_nothing_half_made,
        what_is_there_is_not_fetched_again,
        a_second_clone_takes_it_from_the_cache,
        two_clones_at_once_fetch_it_once,
        a_directory_of_an_older_checkout_gives_way,
    ], tree))
