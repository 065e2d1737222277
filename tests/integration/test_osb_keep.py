#!/usr/bin/env python3
"""test_osb_keep.py OSB UNPACK SERVER BROKER EXECD SANDBOXCTL - osb image, pool and volume, osb open
and osb sync against the real server."""
import http.server
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tools")]

from osb_process import Osb, Screen  # noqa: E402
from registry_process import Registry, make_layout, serving  # noqa: E402
from server_process import SECONDS_MAX, ServerProcess, wait_for, why_not  # noqa: E402
from tap import Tap, skip_all  # noqa: E402


# --- images ---


def images_come_and_go(osb, folder):
    with Registry(folder / "registry") as registry:
        registry.push(make_layout(folder), "me/app:1")
        name = f"{registry.host}/me/app:1"
        pulled = osb.json("image", "pull", name, "--policy", "Always")
        assert pulled["names"] == [name] and pulled["in_use"] is False, pulled
        screen = Screen(osb, "image", "pull", name, "--policy", "Always", columns=120)
        screen.wait("Image Pulled")
        assert screen.end() == 0
    assert [item["id"] for item in osb.json("image", "ls")["items"]] == [pulled["id"]]
    assert name in osb.ok("image", "ls")
    assert osb.json("image", "get", pulled["id"])["env"] == ["GREETING=hello"]
    osb.ok("image", "export", name, str(folder / "app.tar"))
    assert osb.json("image", "rm", name) == [{"image": name, "status": "deleted"}]
    done = osb.run("-o", "json", "image", "rm", name)
    assert done.returncode == 1 and json.loads(done.stdout)[0]["status"] == "error", done
    again = osb.json("image", "import", str(folder / "app.tar"), "-n", "again:1")
    assert again["id"] == pulled["id"], again
    with open(folder / "app.tar", "rb") as archive:
        done = subprocess.run([osb.program, "image", "import", "-", "-n", "third:1"],
                              stdin=archive, env=osb.env, capture_output=True, check=False,
                              timeout=SECONDS_MAX)
    assert done.returncode == 0, done
    out = subprocess.run([osb.program, "image", "export", "again:1"], env=osb.env, check=True,
                         stdout=subprocess.PIPE, timeout=SECONDS_MAX).stdout
    assert b"oci-layout" in out
    pruned = osb.json("image", "prune", "--all")
    assert len(pruned["removed"]) == 2 and pruned["freed_bytes"] > 1 << 20, pruned
    assert "No images found." in osb.ok("image", "ls")


def gate_handler(port, opened):
    """Leads to the registry at that port; manifests and blobs wait for the event."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path != "/v2/":
                opened.wait(SECONDS_MAX)
            request = urllib.request.Request(f"http://localhost:{port}{self.path}", headers={
                "Accept": self.headers.get("Accept", "*/*")}, method=self.command)
            with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
                body = answer.read()
                self.send_response(answer.status)
                for name in ("Content-Type", "Docker-Content-Digest"):
                    if answer.headers[name]:
                        self.send_header(name, answer.headers[name])
                self.send_header("Content-Length", answer.headers["Content-Length"])
                self.end_headers()
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_):
            pass

    return Handler


def run_waits_for_its_image(osb, folder):
    opened = threading.Event()
    layout = folder / "layout"  # of images_come_and_go
    subprocess.run(["umoci", "insert", "--rootless", "--image", f"{layout}:app", "/bin/busybox",
                    "/bin/sh"], check=True, capture_output=True)
    with Registry(folder / "registry") as registry, \
            serving(gate_handler(registry.port, opened)) as gate:
        registry.push(layout, "me/app:2")
        image = f"localhost:{gate.server_port}/me/app:2"
        screen = Screen(osb, "run", "--rm", "--image", image, "--pull", "IfNotPresent", "--",
                        "echo", "it runs", columns=120)
        screen.wait("me/app")  # what the server says while it pulls
        opened.set()
        screen.wait("it runs")
        assert screen.end() == 0
        opened.clear()
        done = osb.run("run", "--rm", "--image", image, "--pull", "Always", "--ready-timeout", "1s",
                       "--", "true")
        opened.set()
    assert done.returncode == 1 and "not ready in time" in done.stderr, done
    assert osb.ids() == set()
    osb.ok("image", "prune", "--all")


def images_fail_with_reasons(osb, folder):
    done = osb.run("image", "pull", "localhost:1/none:1", "--policy", "Always")
    assert done.returncode == 1 and "localhost:1" in done.stderr, done
    done = osb.run("-o", "json", "image", "pull", "localhost:1/none:1", "--policy", "Always")
    assert json.loads(done.stderr)["code"] == "DOCKER::SANDBOX_IMAGE_PULL_FAILED", done
    assert osb.run("image", "pull", "x", "--policy", "Sometimes").returncode == 2
    assert osb.run("image", "pull", "x", "-u", "me").returncode == 2
    assert osb.run("image", "import", "/no/such").returncode == 1
    done = osb.run("image", "export", "none:1", str(folder / "none.tar"))
    assert done.returncode == 1 and not list(folder.glob("none.tar*")), done


# --- pools ---


def pools_are_made_by_options(osb, _folder):
    pool = osb.json("pool", "create", "quick", "--image", "host", "-e", "A=b", "--buffer-max", "1",
                    "--warm-up", "echo warm > /tmp/warm")
    assert pool["capacity_spec"] == {"buffer_max": 1, "buffer_min": 1, "pool_max": 10,
                                     "pool_min": 0}, pool
    wait_for(lambda: osb.json("pool", "get", "quick")["status"]["available"] == 1, "a sandbox")
    assert osb.ok("run", "--rm", "--pool", "quick", "--", "sh", "-c",
                  "cat /tmp/warm; echo $A") == "warm\nb\n"
    resized = osb.json("pool", "update", "quick", "--buffer-max", "0", "--pool-max", "4")
    assert resized["capacity_spec"]["pool_max"] == 4, resized
    assert osb.run("pool", "create").returncode == 2
    assert "quick" in osb.ok("pool", "list")
    osb.ok("pool", "delete", "quick")
    assert "Usage: osb pool" in osb.ok("pool")


# --- volumes ---


def volumes_outlive_sandboxes(osb, _folder):
    assert "No volumes found." in osb.ok("volume", "ls")
    made = osb.json("volume", "create", "kept")
    assert made["name"] == "kept" and made["used_by"] == [], made
    assert osb.run("volume", "create", "kept").returncode == 1
    assert osb.ok("run", "--rm", "--image", "host", "-v", "kept:/data", "--", "sh", "-c",
                  "echo there > /data/x; echo done") == "done\n"
    box = osb.json("sandbox", "create", "--image", "host", "-v", "kept:/data")["id"]
    assert osb.ok("file", "cat", box, "/data/x") == "there\n"
    assert osb.json("volume", "get", "kept")["used_by"] == [box]
    assert osb.run("volume", "rm", "kept").returncode == 1
    osb.ok("sandbox", "kill", box)
    assert [item["name"] for item in osb.json("volume", "ls")["items"]] == ["kept"]
    assert osb.json("volume", "rm", "kept") == [{"volume": "kept", "status": "deleted"}]
    assert osb.run("volume", "get", "kept").returncode == 1


# --- persistent ---


def stops_and_starts(osb, _folder):
    box = osb.json("sandbox", "create", "--image", "host", "--persistent")["id"]
    osb.ok("file", "write", box, "/root/kept", "-c", "yes")
    osb.ok("sandbox", "stop", box)
    assert osb.json("sandbox", "get", box)["status"]["reason"] == "STOPPED"
    osb.ok("sandbox", "start", box)
    wait_for(lambda: osb.run("sandbox", "health", box).returncode == 0, "it")
    assert osb.ok("file", "cat", box, "/root/kept") == "yes"
    osb.ok("sandbox", "kill", box)


# --- open ---


def opens_a_port(osb, folder, box):
    tool = folder / "bin/xdg-open"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\necho \"$1\" > {folder}/opened\n", encoding="ascii")
    tool.chmod(0o755)
    env = {"PATH": f"{tool.parent}:{os.environ['PATH']}", "DISPLAY": ":7"}
    url = osb.ok("open", box, "8000", "--print", env=env).strip()
    assert url.startswith("http://") and "8000" in url and not (folder / "opened").exists(), url
    osb.ok("open", box, "8000", env=env)
    assert (folder / "opened").read_text(encoding="ascii").strip() == url
    assert json.loads(osb.ok("-o", "json", "open", box, "8000", env=env)) == \
        {"sandbox_id": box, "url": url, "opened": True}
    (folder / "opened").unlink()
    osb.ok("open", box, "8000", env={**env, "DISPLAY": ""})  # nowhere to show it
    assert not (folder / "opened").exists()
    assert osb.run("open", box, "0").returncode == 2


# --- sync ---


class Sync:
    """osb sync at work; reads its lines."""

    def __init__(self, osb, local, remote, *options):
        self.process = subprocess.Popen([osb.program, "sync", str(local), remote, *options],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env=osb.env)

    def __enter__(self):
        self.until("ready:")
        return self

    def until(self, text):
        while text not in (line := self.process.stdout.readline()):
            assert line, f"it ended: {self.process.stderr.read()}"

    def __exit__(self, kind, *_):
        self.process.send_signal(2)
        status = self.process.wait(SECONDS_MAX)
        errors = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        assert kind or (status == 0 and not errors), (status, errors)


def remote_text(osb, box, path):
    done = osb.run("file", "cat", box, path)
    return done.stdout if done.returncode == 0 else None


def sync_keeps_both_alike(osb, folder, box):
    local = folder / "work"
    (local / "src/deep").mkdir(parents=True)
    (local / "src/a.txt").write_text("a1")
    (local / "src/run").write_text("#!/bin/sh\n")
    (local / "src/run").chmod(0o750)
    (local / "src/link").symlink_to("a.txt")
    (local / "skip.o").write_text("no")
    osb.ok("file", "write", box, "/srv/work/there/b.txt", "-c", "b1")
    osb.ok("exec", box, "ln", "-s", "b.txt", "/srv/work/there/to-b")
    with Sync(osb, local, f"{box}:/srv/work", "-x", "*.o") as sync:
        assert (local / "there/b.txt").read_text() == "b1"
        assert (local / "src/a.txt").read_text() == "a1"
        assert os.readlink(local / "there/to-b") == "b.txt"
        assert remote_text(osb, box, "/srv/work/src/a.txt") == "a1"
        assert osb.ok("exec", box, "stat", "-c", "%a", "/srv/work/src/run") == "750\n"
        assert osb.ok("exec", box, "readlink", "/srv/work/src/link") == "a.txt\n"
        assert remote_text(osb, box, "/srv/work/skip.o") is None
        # an edit here, a new directory here
        (local / "src/a.txt").write_text("a2")
        (local / "new/er").mkdir(parents=True)
        (local / "new/er/c.txt").write_text("c1")
        wait_for(lambda: remote_text(osb, box, "/srv/work/src/a.txt") == "a2", "the edit")
        wait_for(lambda: remote_text(osb, box, "/srv/work/new/er/c.txt") == "c1", "the new file")
        # an edit there, a new directory there
        osb.ok("exec", box, "sh", "-c",
               "echo b2 > /srv/work/there/b.txt; mkdir -p /srv/work/x/y; echo z > /srv/work/x/y/z")
        wait_for(lambda: (local / "there/b.txt").read_text() == "b2\n", "the edit of the sandbox")
        wait_for((local / "x/y/z").exists, "its new file")
        # deletes, both ways
        (local / "src/a.txt").unlink()
        (local / "new/er/c.txt").unlink()
        (local / "new/er").rmdir()
        wait_for(lambda: remote_text(osb, box, "/srv/work/src/a.txt") is None, "the deletion")
        wait_for(lambda: osb.run("exec", box, "test", "-e", "/srv/work/new/er").returncode == 1,
                 "the deletion of a directory")
        osb.ok("exec", box, "rm", "-r", "/srv/work/x")
        wait_for(lambda: not (local / "x").exists(), "the deletion in the sandbox")
        # what is excluded stays where it is, and holds its directory
        osb.ok("exec", box, "sh", "-c", "mkdir /srv/work/mixed; echo 1 > /srv/work/mixed/k.o; "
                                        "echo 2 > /srv/work/mixed/t")
        wait_for((local / "mixed/t").exists, "a file beside an excluded one")
        (local / "mixed/t").unlink()
        (local / "mixed").rmdir()
        wait_for(lambda: remote_text(osb, box, "/srv/work/mixed/t") is None, "its deletion")
        assert remote_text(osb, box, "/srv/work/mixed/k.o") == "1\n"
        assert sync.process.poll() is None
    assert not list(local.rglob(".osb-sync-*"))


def sync_decides_conflicts(osb, folder, box):
    local = folder / "both"
    local.mkdir()
    (local / "same").write_text("alike")
    (local / "differs").write_text("of here")
    for name, text in (("same", "alike"), ("differs", "of the sandbox")):
        osb.ok("file", "write", box, f"/srv/both/{name}", "-c", text, "--mode", "644")
    said = osb.ok("sync", "--once", str(local), f"{box}:/srv/both")
    assert "conflict" in said and "same" not in said, said
    assert (local / "differs").read_text() == "of here"
    assert (local / "differs.conflict-1").read_text() == "of the sandbox"
    assert remote_text(osb, box, "/srv/both/differs") == "of here"
    osb.ok("sync", "--once", str(local), f"{box}:/srv/both")
    assert remote_text(osb, box, "/srv/both/differs.conflict-1") == "of the sandbox"
    assert osb.ok("sync", "--once", str(local), f"{box}:/srv/both") == ""  # alike now
    osb.ok("file", "write", box, "/srv/both/extra", "-c", "x")
    osb.ok("sync", "--once", "--delete", str(local), f"{box}:/srv/both")
    assert remote_text(osb, box, "/srv/both/extra") is None and not (local / "extra").exists()


def sync_says_what_is_wrong(osb, folder, box):
    assert osb.run("sync", str(folder), "no-place").returncode == 2
    assert osb.run("sync", str(folder), f"{box}:/").returncode == 2
    assert osb.run("sync", "/no/such", f"{box}:/srv/x").returncode == 1
    assert osb.run("sync", str(folder), "unknown:/srv/x").returncode == 1
    gone = osb.json("sandbox", "create", "--image", "host")["id"]
    sync = Sync(osb, folder / "both", f"{gone}:/srv/x")
    sync.until("ready:")
    osb.ok("sandbox", "kill", gone)
    assert sync.process.wait(SECONDS_MAX) == 1
    assert "ERROR" in sync.process.stderr.read()
    sync.process.stdout.close()
    sync.process.stderr.close()


KEEP_TESTS = [
    images_come_and_go,
    run_waits_for_its_image,
    images_fail_with_reasons,
    pools_are_made_by_options,
    volumes_outlive_sandboxes,
    stops_and_starts,
]
INSIDE_TESTS = [
    opens_a_port,
    sync_keeps_both_alike,
    sync_decides_conflicts,
    sync_says_what_is_wrong,
]


def main():
    program, unpack, *programs = sys.argv[1:]
    skip_all(why_not())
    tap = Tap()
    config = {"embedded": {"unpack_program": os.path.abspath(unpack)}}
    with ServerProcess(*programs, config=config) as server, \
            tempfile.TemporaryDirectory(prefix="osb-") as home:
        osb, folder = Osb(program, server, home), pathlib.Path(home)
        for test in KEEP_TESTS:
            tap.check(test.__name__, test, osb, folder)
        box = osb.json("sandbox", "create", "--image", "host")["id"]
        for test in INSIDE_TESTS:
            tap.check(test.__name__, test, osb, folder, box)
        osb.ok("sandbox", "kill", *osb.ids())
    return tap.end()


sys.exit(main())
