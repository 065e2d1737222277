"""Volumes of object storage (ossfs): s3fs outside the sandbox, against moto's S3 server.

Usage: test_objects.py SERVER BROKER EXECD SANDBOXCTL S3PYTHON. TAP on standard output. Needs root,
s3fs, and moto in that Python.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from s3_process import KEY_ID, KEY_SECRET, S3  # noqa: E402
from server_process import ServerProcess, wait_for, why_not  # noqa: E402
from server_use import Gateway  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:5]]
SERVER = STORE = None
CLOSED = "127.0.0.1:1"  # nothing listens there


def volume(bucket="bucket", mount="/data", read_only=False, sub_path=None, name="o", **fields):
    ossfs = {"bucket": bucket, "endpoint": STORE.endpoint, "accessKeyId": KEY_ID,
             "accessKeySecret": KEY_SECRET, **fields}
    return {"name": name, "mountPath": mount, "readOnly": read_only, "subPath": sub_path,
            "ossfs": ossfs}


def create(*volumes, **fields):
    return SERVER.create(volumes=list(volumes), **fields)


def run(name, line):
    with Gateway(SERVER, name) as box:
        return box.run(line)


def delete(name):
    status, _, body = SERVER.request("DELETE", f"/v1/sandboxes/{name}")
    assert status == 204, (status, body)


def refused(status, code, *volumes, **fields):
    request = {"image": {"uri": "host"}, "entrypoint": ["sleep", "9"], "timeout": 60,
               "resourceLimits": {}, "volumes": list(volumes), **fields}
    got, _, body = SERVER.request("POST", "/v1/sandboxes", request)
    assert (got, body.get("code")) == (status, code), (got, body)
    return body["message"]


def helpers():
    """Programs for object storage that this server's broker started: argv by pid."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            words = pathlib.Path("/proc", name, "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"/s3fs") and STORE.endpoint.encode() in b" ".join(words):
            found[int(name)] = b" ".join(words)
    return found


def no_helpers():
    wait_for(lambda: not helpers(), "the end of all helpers")


# --- files ---


def reads_and_writes_objects():
    STORE.put("bucket", "in.txt", b"from outside\n")
    name = create(volume())
    assert run(name, "cat /data/in.txt; echo inside >/data/out.txt; mkdir /data/d; "
               "echo deep >/data/d/f; ls /data") == "from outside\nd\nin.txt\nout.txt"
    assert STORE.get("bucket", "out.txt") == b"inside\n"
    assert STORE.get("bucket", "d/f") == b"deep\n"
    run(name, "head -c 3000000 /dev/urandom >/data/large; sha256sum </data/large >/data/sum")
    assert len(STORE.get("bucket", "large")) == 3000000
    run(name, "rm /data/out.txt /data/large")
    assert STORE.get("bucket", "out.txt") is None
    delete(name)
    no_helpers()


def root_inside_owns_what_it_writes():
    name = create(volume())
    assert run(name, "touch /data/mine; stat -c '%u %g' /data /data/mine; "
               "chown 1000:1001 /data/mine; stat -c '%u %g' /data/mine; "
               "chmod 600 /data/mine; stat -c %a /data/mine") == \
        "0 0\n0 0\n1000 1001\n600"
    options = run(name, "grep ' /data ' /proc/self/mountinfo")
    assert "nosuid" in options and "nodev" in options, options
    delete(name)


def shares_a_bucket():
    one, two = create(volume()), create(volume())
    run(one, "echo shared >/data/s")
    assert run(two, "cat /data/s") == "shared"
    delete(one)
    assert run(two, "cat /data/s") == "shared"
    delete(two)


def honours_read_only_and_sub_paths():
    STORE.put("bucket", "part/inner/f", b"in a part\n")
    STORE.put("bucket", "part/", b"")
    STORE.put("bucket", "part/inner/", b"")
    name = create(volume(read_only=True), volume(mount="/part", sub_path="part/inner", name="p"))
    assert run(name, "touch /data/x 2>&1 | grep -o 'Read-only'; cat /part/f; ls /part; "
               "mount -o remount,rw /data 2>/dev/null || echo refused") == \
        "Read-only\nin a part\nf\nrefused"
    assert STORE.get("bucket", "x") is None
    delete(name)


# --- secrets ---


def shows_the_key_nowhere():
    name = create(volume())
    secret = KEY_SECRET.encode()
    inside = run(name, "cat /proc/self/mountinfo /proc/mounts; env; cat /proc/*/cmdline "
                 "/proc/*/environ; grep -rs Zm9v /run /tmp /etc /root /var | head -3; ps ax")
    assert KEY_SECRET not in inside and "s3fs" not in inside, inside
    pid, = helpers()
    assert secret not in helpers()[pid]
    assert secret not in pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["CapEff"] == fields["CapBnd"] == fields["CapPrm"] == "0" * 16, fields
    assert fields["NoNewPrivs"] == "1" and int(fields["Uid"].split()[0]) >= 0xb0000000, fields
    for space in ("mnt", "pid", "user", "ipc", "uts", "cgroup"):
        theirs, ours = (os.readlink(f"/proc/{who}/ns/{space}") for who in (pid, "self"))
        assert theirs != ours, space
    SERVER.request("GET", f"/v1/sandboxes/{name}/diagnostics/inspect")
    for path in (SERVER.state / "server").glob("opensandbox.db*"):
        assert secret not in path.read_bytes(), path
    for answer in (f"/v1/sandboxes/{name}", f"/v1/sandboxes/{name}/diagnostics/inspect?scope=all",
                   "/v1/sandboxes", f"/v1/sandboxes/{name}/diagnostics/summary"):
        assert KEY_SECRET not in str(SERVER.request("GET", answer)[2]), answer
    assert KEY_SECRET not in SERVER.log()
    delete(name)


# --- refusals ---


def says_what_is_wrong_with_the_bucket():
    message = refused(500, "VOLUME::OSSFS_MOUNT_FAILED", volume("no-such-bucket"))
    assert "no such bucket" in message and "no-such-bucket" in message, message
    message = refused(500, "VOLUME::OSSFS_MOUNT_FAILED", volume(endpoint=f"http://{CLOSED}"))
    assert "cannot be reached" in message and CLOSED in message, message
    message = refused(400, "VOLUME::INVALID_OSSFS_ENDPOINT", volume(endpoint="http://127.0.0.1:9"))
    assert "ossfs_endpoints" in message, message
    no_helpers()


def says_that_the_key_is_refused():
    with S3(sys.argv[5], refuses=True) as other:
        name = ServerProcess(*PROGRAMS, config={"storage": {"ossfs_endpoints": [other.address]}})
        with name as server:
            request = {"image": {"uri": "host"}, "entrypoint": ["sleep", "9"], "timeout": 60,
                       "resourceLimits": {}, "volumes": [volume(endpoint=other.endpoint,
                                                                options=["sigv4"])]}
            _, _, body = server.request("POST", "/v1/sandboxes", request)
            if "id" in body:  # it takes longer than a create waits
                path = f"/v1/sandboxes/{body['id']}"
                wait_for(lambda: server.request("GET", path)[2]["status"]["state"] != "Pending",
                         "the end of the create")
                body = server.request("GET", path)[2]["status"]
            assert "refuses the access key" in body["message"], body


def refuses_what_it_must_not_pass_on():
    for option in ("passwd_file=/etc/shadow", "use_cache=/", "logfile=/x", "url=http://x", "umask",
                   "uid=0,passwd_file=x", "retries=", "tmpdir=/", "cipher_suites=x"):
        refused(400, "VOLUME::INVALID_OSSFS_OPTION", volume(options=[option]))
    for endpoint in ("http://", "ftp://x", "http://a/b", "a b", "http://user@host", "x,y"):
        refused(400, "VOLUME::INVALID_OSSFS_ENDPOINT", volume(endpoint=endpoint))
    for field in ("accessKeyId", "accessKeySecret"):
        for key in ("a:b", "a\nb", "#a", "ä"):
            refused(400, "VOLUME::INVALID_OSSFS_CREDENTIALS", volume(**{field: key}))
    message = refused(400, "VOLUME::UNSUPPORTED_BACKEND", volume(), persistent=True)
    assert "persistent" in message, message
    assert not helpers()


# --- deaths ---


def tells_inside_that_the_program_died():
    name = create(volume())
    assert run(name, "echo 1 >/data/f; cat /data/f") == "1"
    pid, = helpers()
    os.kill(pid, signal.SIGKILL)
    no_helpers()
    out = run(name, "cat /data/f 2>&1; echo alive")
    assert "not connected" in out and out.endswith("alive"), out
    delete(name)


def a_store_that_hangs_holds_up_no_delete():
    """A process that waits for the program cannot be killed before that is."""
    name = create(volume())
    os.kill(STORE.process.pid, signal.SIGSTOP)
    try:
        with Gateway(SERVER, name) as box:
            box.run("(cat /data/never >/dev/null 2>&1 &) ; (touch /data/new &) ; sleep 1")
        delete(name)
        no_helpers()
    finally:
        os.kill(STORE.process.pid, signal.SIGCONT)


def outlives_server_and_broker():
    name = create(volume())
    run(name, "echo before >/data/k")
    SERVER.kill9()  # the broker ends with it
    SERVER.start()
    assert run(name, "cat /data/k; echo after >/data/l; cat /data/l") == "before\nafter"
    assert len(helpers()) == 1
    delete(name)
    no_helpers()


def leaves_nothing_of_a_kill_in_the_middle():
    """The server is killed while the program waits for an endpoint that does not answer."""
    os.kill(STORE.process.pid, signal.SIGSTOP)
    try:
        connection = SERVER.connection()
        connection.request("POST", "/v1/sandboxes", json.dumps(
            {"image": {"uri": "host"}, "entrypoint": ["sleep", "99"], "timeout": 60,
             "resourceLimits": {}, "volumes": [volume()]}),
            {"Content-Type": "application/json", "OPEN-SANDBOX-API-KEY": SERVER.api_key})
        wait_for(helpers, "the program's start")
        SERVER.kill9()
        connection.close()
        no_helpers()
    finally:
        os.kill(STORE.process.pid, signal.SIGCONT)
    SERVER.start()
    wait_for(lambda: SERVER.request("GET", "/v1/sandboxes")[2]["pagination"]["totalItems"] == 0
             or [SERVER.request("DELETE", f"/v1/sandboxes/{box['id']}")
                 for box in SERVER.request("GET", "/v1/sandboxes")[2]["items"]] and False,
             "no sandbox left")


# --- the guide ---


def the_guide_works():
    text = (tap.ROOT / "docs/guides/volumes.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 6, len(blocks)
    env = {"PATH": os.environ["PATH"], "API": SERVER.url + "/v1", "KEY": SERVER.api_key,
           "S3": STORE.endpoint}
    done = subprocess.run(["sh", "-euc", "\n".join(blocks[1:])], env=env, capture_output=True,
                          text=True, check=False, timeout=120)
    assert done.returncode == 0, done
    no_helpers()


TESTS = [
    reads_and_writes_objects,
    root_inside_owns_what_it_writes,
    shares_a_bucket,
    honours_read_only_and_sub_paths,
    shows_the_key_nowhere,
    says_what_is_wrong_with_the_bucket,
    says_that_the_key_is_refused,
    refuses_what_it_must_not_pass_on,
    tells_inside_that_the_program_died,
    a_store_that_hangs_holds_up_no_delete,
    outlives_server_and_broker,
    leaves_nothing_of_a_kill_in_the_middle,
    the_guide_works,
]


if __name__ == "__main__":
    tap.skip_all(why_not() or (None if shutil.which("s3fs") else "there is no s3fs"))
    with S3(sys.argv[5]) as STORE:
        STORE.make("bucket")
        config = {"storage": {"ossfs_endpoints": [STORE.address, CLOSED]}}
        with ServerProcess(*PROGRAMS, config=config) as SERVER:
            sys.exit(tap.run_tests(TESTS))
