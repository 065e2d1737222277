"""The image store with a real broker: archives in and out, kills at any moment, a full disk.

Usage: test_image_store.py BROKER EXECD SANDBOXCTL UNPACK IMAGECTL. TAP on standard output. Needs
root.
"""
import hashlib
import io
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from broker_process import Broker, why_not  # noqa: E402
from layer_archives import archive, directory, file, gz, hard_link, pax, symlink  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:4]]
UNPACK, IMAGECTL = (os.path.abspath(path) for path in sys.argv[4:6])
MIB = 1 << 20
KILLS = 40
NAME = "docker.io/library/test:1"


class Images:
    """A store of its own, below a folder."""

    def __init__(self, broker, folder):
        self.broker, self.folder = broker, pathlib.Path(folder)
        self.store = self.folder / "store"

    def command(self, *words):
        return [IMAGECTL, "--store", str(self.store), "--broker",
                str(self.broker.state / "broker.sock"), *map(str, words)]

    def run(self, *words):
        return subprocess.run(self.command(*words), capture_output=True, text=True, check=False,
                              timeout=120)

    def ok(self, *words):
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def file(self, data, name="archive"):
        path = self.folder / name
        path.write_bytes(data)
        return path

    def usage(self):
        return self.ok("usage").strip()

    def is_empty(self):
        """All that is below the store; the broker erases files in the background."""
        self.ok("gc", 0)
        deadline = time.monotonic() + 60
        while True:
            left = [str(p) for d in ("blobs", "images", "layers") for p in
                    (self.store / d).iterdir()]
            if not left:
                return self.usage() == "images=0 layers=0 blobs=0"
            assert time.monotonic() < deadline, left
            time.sleep(0.05)


def layer(mebibytes=0, salt=b""):
    return archive(directory("etc"), file("etc/a", b"hello " + salt, uid=5, mode=0o4755),
                   symlink("link", "etc/a"), hard_link("hard", "etc/a"),
                   pax(("SCHILY.xattr.user.x", "y")), file("attr"),
                   *[file(f"f{i}", random.Random(i).randbytes(MIB)) for i in range(mebibytes)])


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def oci(layers=None, change=None, name=NAME, kind="sha256"):
    """An OCI archive, its blobs named by `kind`. `change` may spoil its parts, a dict by path."""
    layers = [layer()] if layers is None else layers
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {},
                         "rootfs": {"type": "layers", "diff_ids": [digest(x) for x in layers]}})
    packed = [gz(x) for x in layers]

    def hexed(data):
        return hashlib.new(kind, data).hexdigest()

    def path_of(data):
        return f"blobs/{kind}/{hexed(data)}"

    def describe(media, data):
        return {"mediaType": f"application/vnd.oci.image.{media}",
                "digest": f"{kind}:{hexed(data)}", "size": len(data)}

    manifest = json.dumps({"schemaVersion": 2,
                           "mediaType": "application/vnd.oci.image.manifest.v1+json",
                           "config": describe("config.v1+json", config.encode()),
                           "layers": [describe("layer.v1.tar+gzip", x) for x in packed]})
    index = {"schemaVersion": 2, "manifests": [describe("manifest.v1+json", manifest.encode())]}
    if name:
        index["manifests"][0]["annotations"] = {"io.containerd.image.name": name}
    parts = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": json.dumps(index)}
    for data in (config.encode(), manifest.encode(), *packed):
        parts[path_of(data)] = data
    names = {"config": path_of(config.encode()), "manifest": path_of(manifest.encode()),
             "layer": path_of(packed[0])}
    if change:
        change(parts, names)
    return pack(parts)


def pack(parts):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path, data in parts.items():
            data = data.encode() if isinstance(data, str) else data
            info = tarfile.TarInfo(path)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def docker_save(config=None, tags=(NAME,), layers=None, **more):
    layers = [layer()] if layers is None else layers
    config = config or {"architecture": "amd64", "os": "linux", "config": {},
                        "rootfs": {"type": "layers", "diff_ids": [digest(x) for x in layers]}}
    text = json.dumps(config)
    parts = {digest(text.encode())[7:] + ".json": text}
    for i, data in enumerate(layers):
        parts[f"{i:064x}/layer.tar"] = data
    parts["manifest.json"] = json.dumps([{
        "Config": digest(text.encode())[7:] + ".json", "RepoTags": tags,
        "Layers": [f"{i:064x}/layer.tar" for i in range(len(layers))], **more}])
    return pack(parts)


# --- what works ---

def a_root_directory_becomes_an_image(images):
    path = images.file(gz(layer()))
    assert images.ok("import", path, "me/root") == "docker.io/me/root:latest\n"
    root = pathlib.Path(images.ok("layers", "docker.io/me/root:latest").strip())
    assert (root / "etc/a").read_bytes() == b"hello " and os.readlink(root / "link") == "etc/a"
    images.ok("remove", "docker.io/me/root:latest")
    assert images.is_empty()


def an_oci_archive_is_imported(images):
    layers = [layer(), archive(file(".wh.link", b"")), layer(salt=b"more")]
    assert images.ok("import", images.file(oci(layers))) == NAME + "\n"
    assert images.ok("list").split()[2] == "3"
    assert len(images.ok("layers", NAME).split()) == 3
    assert images.ok("import", images.file(oci(layers)), "other:2") == \
        "docker.io/library/other:2\n"
    assert images.usage() == "images=2 layers=3 blobs=5"


def an_archive_of_docker_save_is_imported(images):
    data = docker_save(tags=["a:1", "b:2"], layers=[layer(), layer(salt=b"2")])
    assert images.ok("import", images.file(data)).split() == ["docker.io/library/a:1",
                                                             "docker.io/library/b:2"]
    assert images.usage() == "images=2 layers=2 blobs=4"


def an_export_is_an_archive_for_others_and_for_us(images):
    images.ok("import", images.file(oci()))
    before = images.ok("layers", NAME)
    out, again = images.folder / "out.tar", images.folder / "again.tar"
    images.ok("export", NAME, out)
    images.ok("remove", NAME)
    assert images.is_empty()
    if shutil.which("skopeo"):
        subprocess.run(["skopeo", "copy", f"oci-archive:{out}:1", f"oci-archive:{again}:1"],
                       check=True, capture_output=True)
        assert images.ok("import", again, NAME) == NAME + "\n"
        assert images.ok("layers", NAME) == before
        docker = images.folder / "docker.tar"
        subprocess.run(["skopeo", "copy", f"oci-archive:{out}:1",
                        f"docker-archive:{docker}:third:3"], check=True, capture_output=True)
        assert images.ok("import", docker) == "docker.io/library/third:3\n"
    images.ok("import", out)
    assert images.ok("layers", NAME) == before
    images.ok("export", NAME, again)
    assert again.read_bytes() == out.read_bytes()


def what_is_used_again_is_not_unpacked_again(images):
    images.ok("import", images.file(oci([layer(), layer(salt=b"a")])))
    images.ok("import", images.file(oci([layer(), layer(salt=b"b")])), "second")
    assert images.usage() == "images=2 layers=3 blobs=7"
    images.ok("remove", NAME)
    assert images.ok("gc", 1 << 40).startswith("images=0 layers=1 blobs=3")


def blobs_may_be_named_by_sha512(images):
    images.ok("import", images.file(oci(kind="sha512")))
    before = images.ok("layers", NAME)
    copy = images.file(b"")
    images.ok("export", NAME, copy)
    with tarfile.open(copy) as tar:
        assert any(path.startswith("blobs/sha512/") for path in tar.getnames()), tar.getnames()
    images.ok("remove", NAME)
    images.ok("gc", 0)
    images.ok("import", copy)
    assert images.ok("layers", NAME) == before
    assert images.ok("verify") == images.ok("verify")
    blobs = [path for path in images.store.rglob("*") if len(path.name) == 128]
    assert len(blobs) == 3, blobs
    blobs[0].chmod(0o600)
    blobs[0].write_bytes(blobs[0].read_bytes() + b"x")
    images.run("verify")
    assert images.ok("list") == "", images.ok("list")


# --- what is refused: (what, archive, name or None, words) ---

def spoil(part, data):
    def change(parts, names):
        path = names.get(part, part)
        if data is None:
            del parts[path]
        else:
            parts[path] = data(parts[path]) if callable(data) else data
    return change


REFUSED = [
    ("a root directory without a name", layer(), None, "needs a name"),
    ("no archive", b"hello" * 1000, "x", "not a tar archive"),
    ("half an archive", oci()[:2500], None, "half way"),
    ("an index that is no JSON", oci(change=spoil("index.json", b"{")), None, "index.json"),
    ("an index without images", oci(change=spoil("index.json", b'{"manifests":[]}')), None,
     "names no image"),
    ("an index with a bad digest", oci(change=spoil(
        "index.json", b'{"manifests":[{"digest":"sha256:../../etc/passwd"}]}')), "x", "digest"),
    ("an index to nowhere", oci(change=spoil("manifest", None)), None, "lacks"),
    ("a manifest with another digest", oci(change=spoil("manifest", lambda d: d + b" ")), None,
     "has the digest"),
    ("a layer with another digest", oci(change=spoil("layer", lambda d: d + b" ")), None,
     "has the digest"),
    ("a layer with another SHA-512 digest", oci(change=spoil("layer", lambda d: d + b" "),
                                                kind="sha512"), None, "has the digest"),
    ("a missing layer", oci(change=spoil("layer", None)), None, "lacks"),
    ("a missing configuration", oci(change=spoil("config", None)), None, "lacks"),
    ("an image without a name", oci(name=None), None, "give one"),
    ("a bad name", oci(), "UPPER/Case", "import"),
    ("a manifest.json that is no list", pack({"manifest.json": b"{}"}), None, "manifest.json"),
    ("a manifest.json to nowhere", docker_save(Config="../../etc/passwd"), None, "lacks"),
    ("a saved image without tags", docker_save(tags=None), None, "give one"),
    ("a saved image with too few layers", docker_save(Layers=[]), None, "layers"),
    ("a saved layer with another diff id", docker_save(config={
        "architecture": "amd64", "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [digest(b"other")]}}), None, "unpacks to"),
    ("a layer that leads out", oci([archive(file("../evil"))]), None, "'../evil'"),
    ("a manifest of 5 MiB", oci(change=spoil("index.json", b" " * 5 * MIB)), None, "more than"),
]


def refuses(images, data, name, words):
    done = images.run("import", images.file(data), *([name] if name else []))
    assert done.returncode == 1, done.stdout
    assert words in done.stderr, done.stderr
    assert images.ok("list") == ""
    assert images.is_empty()


# --- accidents ---

def a_kill_at_any_moment_leaves_nothing_half_made(images):
    data = images.file(oci([layer(4), layer(2, b"second")]))
    images.ok("import", data)
    layers = images.ok("layers", NAME)
    images.ok("remove", NAME)
    begin = time.monotonic()
    images.ok("gc", 0)
    images.ok("import", data)
    whole = time.monotonic() - begin
    dice = random.Random(13)
    finished = 0
    for _ in range(KILLS):
        images.ok("gc", 0)
        with subprocess.Popen(images.command("import", data), stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as child:
            try:
                child.wait(dice.uniform(0, whole))
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGKILL)
            child.wait()
        listed = images.ok("list")
        assert images.ok("verify") == "0\n"
        if listed:
            finished += 1
            assert images.ok("layers", NAME) == layers
        assert not [p for p in (images.store / "layers").iterdir()
                    if not p.name.startswith(".erase-") and len(p.name) != 64]
    assert images.ok("import", data) == NAME + "\n"
    assert images.ok("layers", NAME) == layers
    print(f"# {finished} of {KILLS} imports were finished before the kill")
    images.ok("remove", NAME)
    assert images.is_empty()


def a_full_disk_is_told_and_leaves_nothing(images):
    disk, place = images.folder / "disk", images.folder / "mounted"
    place.mkdir()
    with open(disk, "wb") as f:
        f.truncate(48 * MIB)
    subprocess.run(["mkfs.ext4", "-q", str(disk)], check=True)
    done = subprocess.run(["mount", "-o", "loop", str(disk), str(place)], check=False)
    if done.returncode != 0:
        raise tap.Skip("no loop devices")
    # The broker has a mount namespace of its own, made before this mount.
    broker = Broker(*PROGRAMS, options=("--unpack", UNPACK))
    try:
        with broker:
            small = Images(broker, place)
            small.folder = images.folder
            fits = images.file(oci([layer(4)]), "fits")
            for mebibytes in (14, 20, 30, 60):  # full while blobs are copied, or while unpacking
                big = images.file(oci([layer(mebibytes, b"big")]), "big")
                done = small.run("import", big)
                if mebibytes > 20:
                    assert done.returncode == 1 and "No space left" in done.stderr, done.stderr
                if done.returncode == 0:
                    small.ok("remove", NAME)
                assert small.is_empty()
            small.ok("import", fits)
            assert small.ok("verify") == "0\n"
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


WORKS = [
    a_root_directory_becomes_an_image, an_oci_archive_is_imported,
    an_archive_of_docker_save_is_imported, an_export_is_an_archive_for_others_and_for_us,
    what_is_used_again_is_not_unpacked_again, blobs_may_be_named_by_sha512,
    a_kill_at_any_moment_leaves_nothing_half_made,
    a_full_disk_is_told_and_leaves_nothing,
]


def main():
    tap.skip_all(why_not())
    results = tap.Tap()

    def with_store(test, *args):
        with tempfile.TemporaryDirectory(prefix="images-") as folder:
            test(Images(broker, folder), *args)

    with Broker(*PROGRAMS, options=("--unpack", UNPACK)) as broker:
        for test in WORKS:
            results.check(test.__name__, with_store, test)
        for what, *case in REFUSED:
            results.check(f"refused: {what}", with_store, refuses, *case)
    return results.end()


if __name__ == "__main__":
    sys.exit(main())
