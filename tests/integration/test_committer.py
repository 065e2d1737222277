#!/usr/bin/env python3
"""test_committer.py COMMITTER - image-committer on a real containerd, before a real registry."""
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from cluster_process import image_archive  # noqa: E402
from containerd_process import Containerd, wait_for, why_not  # noqa: E402
from registry_process import HTPASSWD, Registry, TokenIssuer, run, serving  # noqa: E402

SECONDS_MAX = 120
ENV = ["PATH=/bin", "GREETING=hello"]
# What a Job gives: the folder of credentials, and the file for what it has to say.
AS_A_JOB = """set -e
mount -t tmpfs job /run/lock; mkdir /run/lock/registry; cp "$CREDENTIALS" /run/lock/registry/
mount -t tmpfs job /mnt; cp -r /run/lock/registry /mnt/
mount -t tmpfs job /dev; : >/dev/termination-log
mount -t tmpfs job "$(readlink -f /var/run)"
mkdir -p /var/run/opensandbox; cp -r /mnt/registry /var/run/opensandbox/
status=0; "$@" || status=$?
cat /dev/termination-log; exit $status
"""


class World:
    def __init__(self, program, folder, containerd, registry):
        self.program, self.folder = program, folder
        self.containerd, self.registry = containerd, registry
        self.number = 0

    def commit(self, *words, env=None, wrapper=(), status=0):
        done = subprocess.run([*wrapper, self.program, *words], capture_output=True, text=True,
                              check=False, timeout=SECONDS_MAX, env=self.env(env))
        assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
        return done.stdout if status == 0 else done.stderr

    def env(self, more=None):
        return {"PATH": os.environ["PATH"], "CONTAINERD_SOCKET": self.containerd.socket,
                **(more or {})}

    @contextlib.contextmanager
    def box(self, script="sleep 10000", image="localhost/app:1", **more):
        self.number += 1
        name = f"box{self.number}"
        self.containerd.run(name, image, "/bin/busybox", "sh", "-c", script, pod=name, **more)
        try:
            yield name
        finally:
            self.containerd.remove(name)

    def unpack(self, image, registry=None):
        """The root directory and the configuration of an image in the registry."""
        layout = tempfile.mkdtemp(dir=self.folder)
        name = f"{(registry or self.registry).host}/{image}"
        run("skopeo", "copy", "--insecure-policy", "--src-tls-verify=false",
            *(["--src-creds", "me:pw"] if registry else []), f"docker://{name}",
            f"oci:{layout}/l:x")
        run("umoci", "unpack", "--image", f"{layout}/l:x", f"{layout}/out")
        text = run("skopeo", "inspect", "--config", "--raw", f"oci:{layout}/l:x")
        return pathlib.Path(layout, "out/rootfs"), json.loads(text)

    def digest(self, image):
        return json.loads(run("skopeo", "inspect", "--tls-verify=false",
                              f"docker://{self.registry.host}/{image}"))["Digest"]


def digest_of(printed):
    lines = dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)
    assert lines["SNAPSHOT_DIGEST"] == lines["SNAPSHOT_DIGEST_SANDBOX"], printed
    return lines["SNAPSHOT_DIGEST"]


class Tests:
    def __init__(self, world):
        self.world = world

    def what_a_container_changed_is_in_the_image(self):
        w = self.world
        with w.box() as box:
            w.containerd.exec(box, "echo here >/marker; rm /data/gone; chmod 600 /data/kept; "
                                   "ln -s /marker /link; mkdir -m 700 /dir; sync")
            printed = w.commit(box, "boxes", f"sandbox:{w.registry.host}/snap:1")
            assert w.containerd.state(box) == "RUNNING"
            assert w.containerd.exec(box, "cat /marker") == "here\n"
        root, config = w.unpack("snap:1")
        assert (root / "marker").read_text() == "here\n"
        assert not (root / "data/gone").exists() and (root / "data/kept").read_text() == "kept"
        assert (root / "data/kept").stat().st_mode & 0o777 == 0o600
        assert (root / "dir").stat().st_mode & 0o777 == 0o700
        assert os.readlink(root / "link") == "/marker"
        assert config["config"]["Env"] == ENV and config["config"]["WorkingDir"] == "/data"
        assert len(config["rootfs"]["diff_ids"]) == 2
        assert digest_of(printed) == w.digest("snap:1")

    def a_saved_image_runs_and_is_saved_again(self):
        w = self.world
        with w.box() as box:
            w.containerd.exec(box, "echo 1 >/first")
            w.commit(box, "boxes", f"sandbox:{w.registry.host}/again:1")
        w.containerd.ctr("image", "pull", "--plain-http", f"{w.registry.host}/again:1")
        with w.box(image=f"{w.registry.host}/again:1") as box:
            assert w.containerd.exec(box, "cat /first") == "1\n"
            w.containerd.exec(box, "echo 2 >/second")
            w.commit(box, "boxes", f"sandbox:{w.registry.host}/other/again:2")
        root, config = w.unpack("other/again:2")
        assert (root / "first").exists() and (root / "second").exists()
        assert len(config["rootfs"]["diff_ids"]) == 3

    def several_containers_are_saved_at_one_moment(self):
        w = self.world
        # Numbers pass from one container to the other; both stand still at the same time.
        script = ("i=0; while :; do i=$((i+1)); echo $i >/n; mv /n /a; "
                  "echo $i >/n; mv /n /b; done")
        with w.box(script) as box:
            w.containerd.run(f"{box}-2", "localhost/app:1", "/bin/busybox", "sleep", "1000",
                             pod=box, container="side-car")
            try:
                printed = w.commit(box, "boxes", f"sandbox:{w.registry.host}/two/a:1",
                                   f"side-car:{w.registry.host}/two/b:1")
            finally:
                w.containerd.remove(f"{box}-2")
        assert "SNAPSHOT_DIGEST_SIDE_CAR=sha256:" in printed
        assert w.digest("two/b:1") in printed
        root, _ = w.unpack("two/a:1")
        a, b = int((root / "a").read_text()), int((root / "b").read_text())
        assert a - b in (0, 1), (a, b)

    def nothing_stays_behind_in_containerd(self):
        w = self.world
        with w.box() as box:
            before = [w.containerd.ctr(*words).stdout for words in
                      (("snapshots", "ls"), ("leases", "ls"), ("image", "ls", "-q"))]
            w.commit(box, "boxes", f"sandbox:{w.registry.host}/clean:1")
            after = [w.containerd.ctr(*words).stdout for words in
                     (("snapshots", "ls"), ("leases", "ls"), ("image", "ls", "-q"))]
        assert before == after, (before, after)

    def a_pod_of_the_same_name_is_not_taken_for_another(self):
        w = self.world
        with w.box(uid="u-old") as box:
            said = w.commit(box, "boxes", f"sandbox:{w.registry.host}/never:1",
                            env={"SOURCE_POD_UID": "u-new"}, status=1)
            assert "no container" in said, said
            w.commit(box, "boxes", f"sandbox:{w.registry.host}/ever:1",
                     env={"SOURCE_POD_UID": "u-old"})

    def a_signal_lets_the_container_run_again(self):
        w = self.world
        for signo in (signal.SIGTERM, signal.SIGINT):
            with self.saving("signal") as (box, process):
                process.send_signal(signo)
                assert process.wait(SECONDS_MAX) == 1
                assert w.containerd.state(box) == "RUNNING"
        assert "opensandbox" not in w.containerd.ctr("leases", "ls").stdout

    def what_was_killed_is_mended_by_unpause(self):
        w = self.world
        with self.saving("killed") as (box, process):
            process.kill()
            process.wait()
            assert w.containerd.state(box) == "PAUSED"
            w.commit("unpause", box, "boxes", "sandbox")
            assert w.containerd.state(box) == "RUNNING"
            w.commit("unpause", box, "boxes", "sandbox", "gone")

    def unpause_does_not_take_silence_for_an_end(self):
        """A task whose shim does not answer may be paused: the Job must try again."""
        w = self.world
        with w.box() as box:
            shim = self.shim_of(box)
            os.kill(shim, signal.SIGSTOP)
            try:
                w.commit("unpause", box, "boxes", "sandbox", status=1)
            finally:
                os.kill(shim, signal.SIGCONT)
            w.commit("unpause", box, "boxes", "sandbox")

    @staticmethod
    def shim_of(box):
        for pid in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # others end meanwhile
                if f"\0-id\0{box}\0".encode() in (pid / "cmdline").read_bytes():
                    return int(pid.name)
        raise AssertionError(f"no shim of {box}")

    @contextlib.contextmanager
    def saving(self, name):
        """A container that is being saved: its files take a while."""
        w = self.world
        with w.box() as box:
            w.containerd.exec(box, "dd if=/dev/urandom of=/big bs=1M count=96 2>/dev/null")
            process = subprocess.Popen([w.program, box, "boxes",
                                        f"sandbox:{w.registry.host}/{name}:1"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       env=w.env())
            try:
                wait_for(lambda: w.containerd.state(box) == "PAUSED" or process.poll() is not None,
                         "the pause")
                assert process.poll() is None, "it was faster than the test"
                yield box, process
            finally:
                process.kill()
                process.wait()

    def a_registry_that_does_not_answer_fails_the_job(self):
        w = self.world
        with socket.socket() as taken, w.box() as box:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
            said = w.commit(box, "boxes", f"sandbox:127.0.0.1:{port}/x:1", status=1)
            assert f"127.0.0.1:{port}" in said, said
            assert w.containerd.state(box) == "RUNNING"

    def credentials_of_the_secret_are_used(self):
        w = self.world
        with Registry(w.folder / "guarded",
                      f"htpasswd:\n  realm: r\n  path: {w.folder}/htpasswd") as registry:
            (w.folder / "htpasswd").write_text(HTPASSWD)
            with w.box() as box:
                said = w.commit(box, "boxes", f"sandbox:{registry.host}/a/b:1", status=1)
                assert "401" in said and "no credentials" in said, said
                printed = self.commit_as_job(registry, box)
            report = json.loads(printed.splitlines()[-1])
            assert report == {"containers": [{
                "name": "sandbox", "image": f"{registry.host}/a/b:1",
                "digest": digest_of(printed)}]}, report
            w.unpack("a/b:1", registry)

    def commit_as_job(self, registry, box):
        w = self.world
        config = w.folder / "config.json"
        config.write_text(json.dumps({"auths": {registry.host: {"username": "me",
                                                                "password": "pw"}}}))
        link = w.folder / "ctrd.sock"  # /run is another one in the Job
        if not link.exists():
            link.touch()
        return w.commit(box, "boxes", f"sandbox:{registry.host}/a/b:1",
                        env={"CREDENTIALS": str(config), "CONTAINERD_SOCKET": str(link)},
                        wrapper=("unshare", "-m", "--propagation", "private", "sh", "-c",
                                 f'mount --bind {w.containerd.socket} {link}; exec sh -c "$@"',
                                 "sh", AS_A_JOB, "sh"))

    def tokens_are_fetched_to_push(self):
        w = self.world
        issuer = TokenIssuer(w.folder)
        with serving(issuer.handler()) as tokens, Registry(
                w.folder / "tokens", issuer.auth(tokens.server_port)) as registry, w.box() as box:
            printed = self.commit_as_job(registry, box)
            assert digest_of(printed)
            assert ("repository:a/b:pull,push" in [scope for scope, _ in issuer.asked]), \
                issuer.asked
            w.unpack("a/b:1", registry)

    def requests_that_make_no_sense_are_refused(self):
        w = self.world
        for words in ((), ("p",), ("p", "n"), ("p", "n", "c"), ("p", "n", "c:"), ("p", "n", ":i"),
                      ("p", "n", "c:x/Upper:1"), ("p\"", "n", "c:x:1"), ("unpause", "p", "n"),
                      ("--rm", "p", "n", "c:x/i:1")):
            assert "--help" in w.commit(*words, status=2), words
        said = w.commit("p", "n", "c:r.test/i:1", status=1,
                        env={"CONTAINERD_SOCKET": f"{w.folder}/none"})
        assert "none" in said, said


def make_app(folder):
    root = folder / "root"
    (root / "bin").mkdir(parents=True)
    (root / "data").mkdir()
    (root / "bin/busybox").write_bytes(pathlib.Path("/bin/busybox").read_bytes())
    (root / "bin/busybox").chmod(0o755)
    for name in ("sh", "cat", "sleep", "dd", "ln", "rm", "mkdir", "mv", "chmod", "sync"):
        (root / "bin" / name).symlink_to("busybox")
    (root / "data/gone").write_text("gone")
    (root / "data/kept").write_text("kept")
    image_archive(root, "localhost/app:1", folder / "app.tar",
                  {"Env": ENV, "Cmd": ["/bin/sh"], "WorkingDir": "/data"})
    return folder / "app.tar"


def main():
    tap.skip_all(why_not())
    report = tap.Tap()
    with tempfile.TemporaryDirectory(prefix="osb-committer-") as name:
        folder = pathlib.Path(name)
        with Containerd() as containerd, Registry(folder / "registry") as registry:
            containerd.load(make_app(folder))
            world = World(os.path.abspath(sys.argv[1]), folder, containerd, registry)
            tests = Tests(world)
            for test in vars(Tests):
                if not test.startswith("_") and test not in ("saving", "shim_of", "commit_as_job"):
                    report.check(test.replace("_", " "), getattr(tests, test))
    sys.exit(report.end())


if __name__ == "__main__":
    main()
