"""Layers of a sandbox: many, with ids of their own; snapshots; writable layers that last.

Usage: test_layers.py BROKER EXECD SANDBOXCTL. TAP on standard output. Needs root.
"""
import contextlib
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from broker_process import Broker, children, comm, wait_for, why_not  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:4]]
LAYERS_MAX = 135
JOBS_MAX = 16  # of a worker
ATTEMPTS_MAX = 10  # to stop a process while it copies
LAYER_UID_FIRST = 0xb0000000
BROKER = None  # the one most tests share


@contextlib.contextmanager
def created(name, line, *options, until="ready", broker=None):
    """A sandbox that lives until the end of the block, once its script has said so."""
    broker = broker or BROKER
    broker.ok("create", *options, name, "--", "sh", "-c", f"{line}; echo {until}; sleep 1000")
    try:
        wait_for(lambda: until in broker.ctl("log", name).stdout, f"'{until}' from {name}")
        yield name
    finally:
        broker.ctl("remove", name)


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory(prefix="osb-layers-") as path:
        yield pathlib.Path(path)


def make_root(root):
    """A root of one program, which must be static."""
    program = shutil.which("busybox")
    if not program or b"ld-linux" in pathlib.Path(program).read_bytes()[:4096]:
        raise tap.Skip("no static busybox to make a root of")
    for name in ("bin", "etc", "proc", "sys", "dev", "tmp", "doomed"):
        (root / name).mkdir(parents=True)
    root.chmod(0o755)
    shutil.copy(program, root / "bin/busybox")
    for name in subprocess.run([program, "--list"], capture_output=True, text=True,
                               check=True).stdout.split():
        if name != "busybox":
            (root / "bin" / name).symlink_to("busybox")
    (root / "doomed/file").write_text("to be deleted\n")
    return root


def shift(root):
    """Gives all files to the ids that shifted layers have on disk."""
    for path in [root, *root.rglob("*")]:
        now = os.lstat(path)
        os.lchown(path, LAYER_UID_FIRST + now.st_uid, LAYER_UID_FIRST + now.st_gid)
        if not path.is_symlink():
            path.chmod(stat.S_IMODE(now.st_mode))


def make_layers(top, count):
    """Directories with a file of their own and one that the topmost of them decides."""
    for i in range(count):
        layer = top / f"{i:03}"
        (layer / "d").mkdir(parents=True)
        (layer / "d" / f"own-{i}").write_text(f"{i}\n")
        (layer / "d" / "common").write_text(f"{i}\n")
    return [top / f"{i:03}" for i in range(count)]


def options(kind, layers):
    return [word for layer in layers for word in (kind, layer)]


# --- layers ---


def stacks_as_many_layers_as_images_have():
    with folder() as top:
        root = make_root(top / "root")
        layers = make_layers(top / "layers", LAYERS_MAX - 1)
        out = BROKER.shell("x", "cat /d/common; ls /d | wc -l; cat /d/own-133; ls /doomed",
                           *options("--dir", layers), "--dir", root)
        assert out.split() == ["0", str(LAYERS_MAX), "133", "file"], out
        for layer in layers:
            shift(layer)  # but not the directory they are in, which only root may enter
        out = BROKER.shell("x", "cat /d/common; ls /d | wc -l; cat /d/own-133; ls /doomed",
                           *options("--shifted", layers), "--dir", root)
        assert out.split() == ["0", str(LAYERS_MAX), "133", "file"], out
        done = BROKER.ctl("run", *options("--dir", layers), "--dir", root, "--dir", root, "x",
                          "--", "true")
        assert done.returncode != 0 and "--dir" in done.stderr, done


def takes_layers_of_several_places_and_mounts():
    with folder() as top, folder() as other:
        root = make_root(top / "root")
        (top / "m").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "none", top / "m"], check=True)
        try:
            layers = [*make_layers(other, 2), *make_layers(top / "layers", 2)]
            inside = top / "m" / "layer"
            inside.mkdir()
            (inside / "of-tmpfs").write_text("yes\n")
            with Broker(*PROGRAMS, workers=1) as broker:  # which sees that mount
                done = broker.ctl("run", "--dir", inside, *options("--dir", layers), "--dir",
                                  root, "x", "--", "sh", "-c", "cat /of-tmpfs; ls /d")
            if done.returncode and "map the ids" in done.stderr:
                raise tap.Skip("tmpfs of this kernel cannot map ids")
            assert done.stdout.split() == ["yes", "common", "own-0", "own-1"], done
        finally:
            subprocess.run(["umount", top / "m"], check=True)


def maps_ids_of_each_layer_by_its_flag():
    with folder() as top:
        root = make_root(top / "root")
        first, second, plain = make_layers(top / "layers", 3)
        for layer, owner in ((first, 0), (second, 1000), (plain, 1000)):
            os.chown(layer / "d" / f"own-{int(layer.name)}", owner, owner)
        program = first / "su"
        shutil.copy(root / "bin/busybox", program)
        program.chmod(0o4755)
        shift(first)
        shift(second)
        program.chmod(0o4755)
        out = BROKER.shell("x", "stat -c %u:%g:%a /d/own-* /su /d; touch /d/own-1 /new; "
                                "stat -c %u /d/own-1 /new",
                           "--shifted", first, "--shifted", second, "--dir", plain, "--dir", root)
        assert out.split() == ["0:0:644", "1000:1000:644", "1000:1000:644", "0:0:4755",
                               "0:0:755", "1000", "0"], out
        shift(root)
        out = BROKER.shell("x", "id -u; stat -c %u:%g /bin /bin/sh", "--shifted", root)
        assert out.split() == ["0", "0:0", "0:0"], out
        out = BROKER.shell("x", "stat -c %u /bin", "--dir", root)
        assert out.split() == ["65534"], out  # ids that nobody has inside


def puts_layers_above_the_root_of_the_host():
    with folder() as top:
        layers = [top / "a", top / "b", top / "c"]
        (layers[0] / "usr/local").mkdir(parents=True)
        (layers[0] / "usr/local/new").write_text("new\n")
        (layers[1] / "etc").mkdir(parents=True)
        (layers[1] / "etc/new").write_text("etc\n")
        (layers[2] / "usr/bin").mkdir(parents=True)
        os.mknod(layers[2] / "usr/bin/env", stat.S_IFCHR, 0)
        for layer in layers:
            shift(layer)
        line = "cat /usr/local/new /etc/new; ls /usr/bin/env; python3 -c 'print(6 * 7)'"
        out = BROKER.shell("x", f"{line} 2>&1", *options("--over", layers))
        assert out.split("\n")[:2] == ["new", "etc"] and "No such file" in out, out
        assert out.endswith("42\n"), out
        assert BROKER.shell("x", "ls /usr/bin/env") == "/usr/bin/env\n"


# --- snapshots ---


def copied(text):
    return {key: int(value) for key, value in (word.split("=") for word in text.split())}


def owner(path):
    return os.lstat(path).st_uid - LAYER_UID_FIRST


def snapshots_a_running_sandbox_and_starts_from_it():
    line = ("mkdir /data; cd /data; echo hi >f; chown 1000:1001 f; ln f g; ln -s f l; "
            "cp /bin/busybox su; chmod 6755 su; mkfifo -m 666 p; truncate -s 64M sparse; "
            "rm /doomed/file; echo x >/etc/extra; "
            "(while :; do echo $((i+=1)) >/data/n; done) & true")
    with folder() as top:
        root, target = make_root(top / "root"), top / "snapshot"
        target.mkdir()
        with created("x", line, "--dir", root):
            told = copied(BROKER.ok("snapshot", "x", target))
            assert BROKER.sandbox("x").state == "running", "as it was before"
            done = BROKER.ctl("snapshot", "x", target)
            assert done.returncode == 1 and "empty directory" in done.stderr, done
        assert 0 < told["frozen_us"] < 60e6 and told["bytes"] > 1000, told
        data = target / "data"
        assert (owner(data / "f"), owner(data / "su"), owner(data)) == (1000, 0, 0)
        assert stat.S_IMODE(os.stat(data / "su").st_mode) == 0o6755
        assert os.stat(data / "f").st_ino == os.stat(data / "g").st_ino, "hard links stay links"
        assert stat.S_ISFIFO(os.stat(data / "p").st_mode) and os.readlink(data / "l") == "f"
        assert stat.S_IMODE(os.stat(data / "p").st_mode) == 0o666, "modes of fifos, too"
        sparse = os.stat(data / "sparse")
        assert sparse.st_size == 64 << 20 and sparse.st_blocks < 64, sparse
        assert os.listdir(target / "etc") == ["extra"], os.listdir(target / "etc")
        assert not list(target.glob(".links*"))
        out = BROKER.shell("y", "cat /data/l; stat -c %u:%g /data/f; ls -A /doomed; hostname; "
                                "cat /etc/hostname", "--shifted", target, "--dir", root)
        assert out.split() == ["hi", "1000:1001", "y", "y"], out


def keeps_a_sandbox_paused_that_was_before():
    with folder() as top, created("x", "echo 1 >/f"):
        BROKER.ok("pause", "x")
        (top / "s").mkdir()
        BROKER.ok("snapshot", "x", top / "s")
        assert BROKER.sandbox("x").state == "paused"
        BROKER.ok("resume", "x")
        assert BROKER.sandbox("x").state == "running" and BROKER.pings("x")


def restores_what_was_written_in_a_host_root():
    with folder() as top:
        with created("x", "mkdir -p /usr/local; echo new >/usr/local/new; rm /usr/bin/env; "
                          "echo mine >/root/mine"):
            (top / "s").mkdir()
            BROKER.ok("snapshot", "x", top / "s")
        out = BROKER.shell("y", "cat /usr/local/new /root/mine; ls /usr/bin/env 2>&1; true",
                           "--over", top / "s")
        assert out.split()[:2] == ["new", "mine"] and "No such file" in out, out


def thaws_when_the_copy_is_killed_or_its_caller_leaves():
    """Copies are stopped in the act; the next request finds the sandbox running."""
    line = "dd if=/dev/zero of=/big bs=1M count=200 2>/dev/null"
    with folder() as top, Broker(*PROGRAMS, workers=1) as broker:
        # It stays open for writing, so that none of it is copied ahead.
        broker.ok("create", "x", "--", "sh", "-c", f"{line}; exec 3>>/big; echo ready; sleep 1000")
        wait_for(lambda: "ready" in broker.ctl("log", "x").stdout, "its files")

        def copiers():
            return [pid for worker in broker.workers() for pid in children(worker)
                    if comm(pid) == "layer copy"]

        def begin(name):
            (top / name).mkdir()
            caller = subprocess.Popen(broker.ctl_command("snapshot", "x", top / name),
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            wait_for(lambda: list((top / name).glob(".links-*")), "the copy to begin")
            os.kill(copiers()[0], signal.SIGSTOP)
            assert (broker.slot_dir("x") / "hold").exists()
            return caller

        with begin("a") as caller:  # other requests are answered meanwhile
            assert broker.sandbox("x").state == "running"
            links = [os.readlink(path) for path in
                     pathlib.Path(f"/proc/{copiers()[0]}/fd").iterdir()]
            assert sum(link.startswith("socket:") for link in links) == 1, links
            os.kill(copiers()[0], signal.SIGKILL)
            assert caller.wait() == 1 and "cut off" in caller.stderr.read()
            hold = broker.slot_dir("x") / "hold"  # not by a request: nothing asks the broker
            wait_for(lambda: not hold.exists(), "the broker to thaw it by itself")
        assert broker.sandbox("x").state == "running" and broker.pings("x")
        with begin("b") as caller:
            caller.kill()
            os.kill(copiers()[0], signal.SIGCONT)
        wait_for(lambda: not copiers(), "the end of the copy")
        assert broker.pings("x")
        with begin("c") as caller:
            done = broker.ctl("snapshot", "x", (top / "c2").mkdir() or top / "c2")
            assert done.returncode == 1 and "another snapshot" in done.stderr, done
            broker.ok("pause", "x")  # frozen already, and to stay so
            assert broker.sandbox("x").state == "paused"
            broker.kill_worker()
            assert caller.wait() == 1
        wait_for(broker.answers, "a new worker")
        assert broker.sandbox("x").state == "paused"
        broker.ok("resume", "x")
        with begin("e") as caller:  # a stopped process dies too, but after its worker
            hold = broker.slot_dir("x") / "hold"
            broker.kill_worker()
            assert caller.wait() == 1
            wait_for(lambda: not hold.exists(), "the sweep to thaw it")
        wait_for(broker.answers, "a new worker")
        with begin("d") as caller:
            broker.stop(signal.SIGKILL)
            assert caller.wait() == 1
        broker.start()
        assert broker.pings("x") and broker.sandbox("x").state == "running"
        assert not (broker.slot_dir("x") / "hold").exists()
        broker.ok("remove", "x")


def stopped_copier(broker, caller, layer):
    """The process that copies for `caller`, stopped; None when the call ended before."""
    while caller.poll() is None:
        if not list(layer.glob(".ahead-*/*")):
            continue
        for pid in (pid for worker in broker.workers() for pid in children(worker)):
            with contextlib.suppress(OSError):
                if comm(pid) == "layer copy":
                    os.kill(pid, signal.SIGSTOP)
                    wait_for(lambda pid=pid: state_of(pid) in "TZ", "the copying process to stop")
                    return pid
    return None


def state_of(pid):
    text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    return text.rpartition(")")[2].split()[0]


def copies_files_at_rest_before_it_freezes():
    line = "dd if=/dev/zero of=/big bs=1M count=300 2>/dev/null; echo same >/small"
    with folder() as top, Broker(*PROGRAMS, workers=1) as broker:
        root, gate = make_root(top / "root"), top / "gate"
        gate.mkdir()
        broker.ok("create", "--volume", f"{gate}:/gate", "--dir", root, "x", "--", "sh", "-c",
                  f"{line}; echo ready; while [ ! -e /gate/go ]; do sleep 0.01; done; "
                  "echo changed >>/big; echo changed >/small; echo done; sleep 1000")
        wait_for(lambda: "ready" in broker.ctl("log", "x").stdout, "its files")
        big = next(broker.slot_dir("x").rglob("upper/big"))
        wait_for(lambda: time.time() > big.stat().st_ctime + 1, "the file to be at rest")
        for attempt in range(ATTEMPTS_MAX):
            layer = top / f"s{attempt}"
            layer.mkdir()
            with subprocess.Popen(broker.ctl_command("snapshot", "x", layer),
                                  stdout=subprocess.PIPE, text=True) as caller:
                copier = stopped_copier(broker, caller, layer)
                caught = copier and list(layer.glob(".ahead-*/*")) and \
                    not (broker.slot_dir("x") / "hold").exists()
                if caught:
                    assert broker.pings("x")
                    (gate / "go").touch()
                    wait_for(lambda: "done" in broker.ctl("log", "x").stdout, "its changes")
                if copier:
                    os.kill(copier, signal.SIGCONT)
                out = caller.communicate()[0]
                assert caller.returncode == 0, out
            assert not list(layer.glob(".*")), os.listdir(layer)
            if caught:
                break
        broker.ok("remove", "x")
        if not caught:
            raise tap.Skip("the files are copied faster than the copying process can be stopped")
        out = broker.shell("y", "tail -c 8 /big; cat /small", "--shifted", layer, "--dir", root)
        assert out.split() == ["changed", "changed"], out


def merges_a_chain_of_snapshots():
    with folder() as top:
        root, chain = make_root(top / "root"), []
        for i in range(5):
            line = f"echo {i} >/f{i}; rm -f /f{i - 2}; rm -r /d; mkdir /d; echo {i} >/d/{i}"
            with created("x", line, *options("--shifted", chain), "--dir", root):
                (top / f"s{i}").mkdir()
                BROKER.ok("snapshot", "x", top / f"s{i}")
            chain.insert(0, top / f"s{i}")
        look = "ls / /d | grep -v '^[a-ce-z][a-z]*$'; cat /f*"
        before = BROKER.shell("y", look, *options("--shifted", chain), "--dir", root)
        for how in ("link", "copy"):
            (top / how).mkdir()
            told = copied(BROKER.ok("merge", how, top / how, *chain))
            assert told["frozen_us"] == 0 and (told["bytes"] == 0) == (how == "link"), told
            after = BROKER.shell("y", look, "--shifted", top / how, "--dir", root)
            assert before == after and "f4" in after and "f0" not in after, (before, after)
        done = BROKER.ctl("merge", "link", top / "link", *chain)
        assert done.returncode == 1 and "empty directory" in done.stderr, done


def refuses_more_jobs_than_a_worker_may_have():
    """Merges that are stopped in the act; the worker answers all the time."""
    with folder() as top, Broker(*PROGRAMS, workers=1) as broker:
        layer, callers, stopped, targets = top / "layer", [], [], []
        # An emulated machine is slow, and its disk has few inodes.
        files = 1000 if os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE") < 4 << 30 else 5000
        layer.mkdir()
        for i in range(files):
            (layer / f"f{i}").touch()
        shift(layer)

        def stop_new_job():
            """Stops the job that is not stopped yet; None when there is none, or it just ended."""
            for pid in [pid for worker in broker.workers() for pid in children(worker)
                        if comm(pid) == "layer copy" and pid not in stopped]:
                try:
                    os.kill(pid, signal.SIGSTOP)
                    return pid
                except ProcessLookupError:
                    pass
            return None

        def begin(name):
            """Starts a merge and stops its job; once more when the job was done before that."""
            for attempt in range(20):
                target = top / f"{name}.{attempt}"
                target.mkdir()
                caller = subprocess.Popen(
                    broker.ctl_command("merge", "copy", target, layer), stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, text=True)
                found = []
                wait_for(lambda: found.append(stop_new_job()) or found[-1]
                         or caller.poll() is not None, "the job")
                if found[-1]:
                    callers.append(caller)
                    stopped.append(found[-1])
                    targets.append(target)
                    return
                caller.communicate()
            raise AssertionError("every job ended before it could be stopped")
        try:
            for i in range(JOBS_MAX):
                begin(str(i))
            (top / "more").mkdir()
            done = broker.ctl("merge", "copy", top / "more", layer)
            assert done.returncode == 1 and f"{JOBS_MAX} layers and" in done.stderr, done
            callers.pop().kill()  # one place is free again
            os.kill(stopped.pop(), signal.SIGCONT)
            wait_for(lambda: broker.ctl("merge", "copy", top / "more", layer).returncode == 0,
                     "a place for it")
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
            for caller in callers:
                caller.communicate()
        assert len(list(targets[0].iterdir())) == files


# --- writable layers that last ---


def keeps_what_was_written_for_another_slot():
    line = ("echo hi >/f; chown 1000:1001 /f; cp /bin/busybox /su; chmod 4755 /su; "
            "rm /doomed/file; rm -r /etc; mkdir /etc; echo more >/etc/more; mkdir /d; mv /f /d/f")
    with folder() as top, Broker(*PROGRAMS, workers=1) as broker:  # whose slots differ
        root, kept = make_root(top / "root"), top / "kept"
        kept.mkdir()
        with created("x", line, "--lasting", kept, "--dir", root, broker=broker) as name:
            first = broker.sandbox(name).slot
            done = broker.ctl("run", "--lasting", kept, "--dir", root, "y", "--", "true")
            assert done.returncode == 1 and "another sandbox uses" in done.stderr, done
            (top / "s").mkdir()
            broker.ok("snapshot", "x", top / "s")
            assert (owner(top / "s/d/f"), owner(top / "s/su")) == (1000, 0)
            assert os.listdir(top / "s/etc") == ["more"]
        assert (owner(kept / "upper/d/f"), owner(kept / "upper/su")) == (1000, 0)
        look = ("cat /d/f /etc/more; stat -c %u:%g:%a /d/f /su; ls /doomed; cat /etc/hostname; "
                "echo again >>/d/f; cat /d/f; chown 7 /su; stat -c %u /su")
        with created("other", look, "--lasting", kept, "--dir", root, "--hostname", "z",
                     broker=broker) as name:
            assert broker.sandbox(name).slot != first
            out = broker.ok("log", name).split()
        assert out == ["hi", "more", "1000:1001:644", "0:0:4755", "z", "hi", "again", "7",
                       "ready"], out
        assert (kept / "upper/d/f").read_text() == "hi\nagain\n"
        out = broker.shell("y", "cat /d/f", "--shifted", kept / "upper", "--dir", root)
        assert out == "hi\nagain\n", out  # a layer of others, when nobody writes to it


def keeps_what_was_written_in_a_host_root():
    with folder() as top:
        BROKER.shell("x", "mkdir -p /usr/local; echo a >/usr/local/a; echo b >/root/b; "
                          "rm /usr/bin/env",
                     "--lasting", top)
        out = BROKER.shell("x", "cat /usr/local/a /root/b; ls /usr/bin/env 2>&1; true",
                           "--lasting", top)
        assert out.split()[:2] == ["a", "b"] and "No such file" in out, out


def follows_no_link_of_a_lasting_layer():
    with folder() as top, folder() as other:
        root, kept = make_root(top / "root"), top / "kept"
        kept.mkdir()
        BROKER.shell("x", f"rm -r /etc; ln -s {other} /etc", "--lasting", kept, "--dir", root)
        assert os.readlink(kept / "upper/etc") == str(other)
        out = BROKER.shell("x", "cat /etc/hostname", "--lasting", kept, "--dir", root)
        assert out == "x\n" and os.listdir(other) == [], out
        shutil.rmtree(kept / "upper")
        (kept / "upper").symlink_to(other)
        BROKER.shell("x", "true", "--lasting", kept, "--dir", root)
        assert os.listdir(other) == []
        done = BROKER.ctl("run", "--lasting", kept, "--disk", 64 << 20, "--dir", root, "x", "--",
                          "true")
        assert done.returncode == 1 and "lasting" in done.stderr, done


def starts_again_after_a_kill_while_it_was_made():
    """A kill between mkdir() and chown() leaves directories and files of root."""
    with folder() as top:
        root = make_root(top / "root")
        for done in ((), ("upper",), ("upper", "work"), ("upper", "work", "usr", "usrwork"),
                     ("upper", "upper/etc"), ("upper", "upper/etc", "upper/etc/hosts")):
            kept = top / f"kept{len(done)}{done[-1:]}".replace("/", "-")
            kept.mkdir()
            for name in done:
                if name.endswith("hosts"):
                    (kept / name).touch(0o644)
                else:
                    (kept / name).mkdir(0o700 if "work" in name else 0o755)
            line = ("echo 1 >/new; echo 2 >/etc/new; echo 3 >>/etc/hosts; "
                    "stat -c %u / /etc /etc/hosts")
            out = BROKER.shell("x", line, "--lasting", kept, "--dir", root)
            assert out.split() == ["0", "0", "0"], (done, out)
            out = BROKER.shell("x", "cat /new /etc/new", "--lasting", kept, "--dir", root)
            assert out.split() == ["1", "2"], (done, out)


def starts_again_whatever_a_workload_put_in_the_way():
    """It may be root inside, and hurts itself only as long as it runs."""
    pranks = ("cd /etc; for f in hosts hostname resolv.conf; do "
              "rm -f $f; mkdir $f && echo mine >$f/deep || exit 1; done",
              "rm -r /etc; echo file >/etc", "rm -r /etc; mkfifo /etc",
              "cd /etc; for f in hosts hostname resolv.conf; do rm -f $f; mkfifo $f; done",
              "cd /etc; for f in hosts hostname resolv.conf; do rm -f $f; ln -s /loop $f; done; "
              "ln -s /loop /loop",
              "chown 1000:1000 / /etc; chmod 0 / /etc /etc/*")
    with folder() as top:
        root = make_root(top / "root")
        for i, prank in enumerate(pranks):
            kept = top / str(i)
            kept.mkdir()
            BROKER.shell("x", prank, "--lasting", kept, "--dir", root)
            look = "cat /etc/hostname; chmod 755 / /etc; cat /etc/*/deep 2>/dev/null; true"
            out = BROKER.shell("x", look, "--lasting", kept, "--dir", root)
            assert out.split() == ["x"] + ["mine"] * 3 * (i == 0), (prank, out)


TESTS = [
    stacks_as_many_layers_as_images_have,
    takes_layers_of_several_places_and_mounts,
    maps_ids_of_each_layer_by_its_flag,
    puts_layers_above_the_root_of_the_host,
    snapshots_a_running_sandbox_and_starts_from_it,
    keeps_a_sandbox_paused_that_was_before,
    restores_what_was_written_in_a_host_root,
    thaws_when_the_copy_is_killed_or_its_caller_leaves,
    copies_files_at_rest_before_it_freezes,
    merges_a_chain_of_snapshots,
    refuses_more_jobs_than_a_worker_may_have,
    keeps_what_was_written_for_another_slot,
    keeps_what_was_written_in_a_host_root,
    follows_no_link_of_a_lasting_layer,
    starts_again_after_a_kill_while_it_was_made,
    starts_again_whatever_a_workload_put_in_the_way,
]


if __name__ == "__main__":
    tap.skip_all(why_not())
    with Broker(*PROGRAMS) as BROKER:
        sys.exit(tap.run_tests(TESTS))
