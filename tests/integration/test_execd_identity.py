"""execd's file routes as another user: the routes below /v1/filesystem/{uid}/{gid}.

Usage: test_execd_identity.py EXECD-PROGRAM. TAP on standard output. As root only. The test replaces
/etc/passwd and /etc/group in a mount namespace of its own.
"""
import concurrent.futures
import contextlib
import ctypes
import io
import json
import os
import pathlib
import resource
import select
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from execd_listen import Execd  # noqa: E402
from execd_process import SECONDS_MAX, status_of, wait_for  # noqa: E402

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
ALICE, BOB, NO_ONE, TEAM = 4001, 4002, 4003, 4100
IDENTITIES_MAX = 16
STRANGERS = 2100  # more than are served and wait
MANY, MANY_STREAMS = 300, 80
PAUSE_S = 35  # longer than a server gives its client by default
LARGE_BYTES = 64 << 20  # more than the buffers between them hold
PASSWD = """root:x:0:0::/root:/bin/sh
alice:x:4001:4001::{home}:/bin/sh
bob:x:4002:4002::/bobs:/bin/sh
"""
GROUP = "root:x:0:\nalice:x:4001:\nteam:x:4100:{team}\n"
BOUNDARY = "b0undary"
FORM = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
CLONE_NEWNS = 0x20000
ACCEPTS = 0x10000  # a flag of /proc/net/unix
DENIED = "permission denied"


class Box(Execd):
    """An execd with a folder for all users, and a home that belongs to Alice."""

    def __enter__(self):
        super().__enter__()
        self.folder.chmod(0o755)
        os.chown(self.home, ALICE, ALICE)
        self.accounts()
        self.secret = self.folder / "secret"
        self.secret.write_text("root's")
        self.secret.chmod(0o600)
        return self

    def accounts(self, team="alice"):
        pathlib.Path("/etc/passwd").write_text(PASSWD.format(home=self.home))
        pathlib.Path("/etc/group").write_text(GROUP.format(team=team))

    def as_id(self, uid, method, path, *more, gid=None, **named):
        return self.ask(method, url(uid, path, gid), *more, **named)

    def upload(self, uid, path, content="new", gid=None, **metadata):
        parts = ""
        for name, text in (("metadata", json.dumps({"path": str(path), **metadata})),
                           ("file", content)):
            parts += (f"--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"; "
                      f"filename=\"{name}\"\r\n\r\n{text}\r\n")
        return self.as_id(uid, "POST", "/files/upload", f"{parts}--{BOUNDARY}--\r\n".encode(),
                          gid=gid, headers=FORM)

    def read(self, uid, path, gid=None):
        return self.as_id(uid, "GET", "/files/download", query=[("path", path)], gid=gid)

    def start(self, uid):
        """Starts the identity's process by a request that has no file open when it is answered."""
        assert self.as_id(uid, "GET", "/files/info", query=[("path", "/")]).status == 200

    def watch(self, uid, path):
        """A stream that is on: its client and its reply."""
        client = self.connect()
        client.request("GET", url(uid, f"/directories/watch?path={path}"))
        reply = client.getresponse()
        assert reply.status == 200, reply.read()
        assert b'"init"' in reply.readline(), "the watch has begun"
        return client, reply

    def processes(self):
        """Number of the process by its uid and gid, those alone that serve files."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if status_of(pid, "PPid") == str(self.process.pid) \
                        and status_of(pid, "Name") == "user-files":
                    ids = [status_of(pid, key).split()[0] for key in ("Uid", "Gid")]
                    found[tuple(map(int, ids))] = int(pid)
            except (FileNotFoundError, ProcessLookupError, StopIteration, TypeError):
                continue  # gone since it was listed
        return found

    def process_of(self, uid):
        return self.processes()[(uid, uid)]


def url(uid, path, gid=None):
    return f"/v1/filesystem/{uid}/{uid if gid is None else gid}{path}"


def owner(path):
    facts = os.lstat(path)
    return facts.st_uid, facts.st_gid


def is_gone(pid):
    return not os.path.exists(f"/proc/{pid}")


# --- what may be done ---


def serves_every_route_as_a_user(x):
    made = x.home / "made/f"
    x.upload(ALICE, made, "one two").check_empty()
    assert owner(made) == owner(made.parent) == (ALICE, ALICE)
    x.upload(0, x.home / "made/plain").check_empty()
    assert made.stat().st_mode == (x.home / "made/plain").stat().st_mode
    info = x.as_id(ALICE, "GET", "/files/info", query=[("path", made)]).json()[str(made)]
    assert (info["owner"], info["group"], info["size"]) == ("alice", "alice", 7), info
    assert x.read(ALICE, made).body == b"one two"
    found = x.as_id(ALICE, "GET", "/files/search", query=[("path", x.home), ("pattern", "f")])
    assert [row["path"] for row in found.json()] == [str(made)]
    x.as_id(ALICE, "POST", "/files/replace", {str(made): {"old": "two", "new": "2"}}).check_empty()
    x.as_id(ALICE, "POST", "/files/permissions", {str(made): {"mode": 600}}).check_empty()
    assert made.stat().st_mode & 0o777 == 0o600 and owner(made) == (ALICE, ALICE)
    x.as_id(ALICE, "POST", "/files/mv", [{"src": str(made), "dest": f"{x.home}/g"}]).check_empty()
    assert (x.home / "g").read_text() == "one 2"
    x.as_id(ALICE, "POST", "/directories", {f"{x.home}/d/e": {"mode": 750}}).check_empty()
    assert owner(x.home / "d/e") == (ALICE, ALICE)
    listed = x.as_id(ALICE, "GET", "/directories/list", query=[("path", x.home)]).json()
    assert [pathlib.Path(row["path"]).name for row in listed] == ["d", "g", "made"], listed
    archive = x.as_id(ALICE, "GET", "/directories/download", query=[("path", x.home)]).body
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert "g" in [os.path.normpath(name) for name in tar.getnames()]
    x.as_id(ALICE, "POST", "/directories/upload", archive,
            query=[("path", x.home / "copy")]).check_empty()
    assert owner(x.home / "copy/g") == (ALICE, ALICE)
    client, reply = x.watch(ALICE, x.home)
    x.as_id(ALICE, "DELETE", "/files", query=[("path", x.home / "g")]).check_empty()
    while b'"delete"' not in reply.readline():
        pass
    client.close()
    x.as_id(ALICE, "DELETE", "/directories", query=[("path", x.home / "copy")]).check_empty()
    assert not (x.home / "copy").exists() and not (x.home / "g").exists()


def lets_the_kernel_refuse(x):
    (x.home / "link").symlink_to(x.secret)
    closed = x.folder / "closed"
    closed.mkdir(mode=0o700)
    (closed / "f").write_text("x")
    for path in (x.secret, x.home / "link", closed / "f"):
        answer = x.read(ALICE, path)
        answer.check_error(500, "RUNTIME_ERROR")
        assert DENIED in answer.json()["message"], answer.body
        assert x.upload(ALICE, path).status == 500
        for route, body in (("permissions", {str(path): {"mode": 777}}),
                            ("replace", {str(path): {"old": "root", "new": "x"}})):
            x.as_id(ALICE, "POST", f"/files/{route}", body).check_error(500, "RUNTIME_ERROR")
    for path in (closed, closed / "sub"):
        for route in ("list", "download", "watch"):
            assert x.as_id(ALICE, "GET", f"/directories/{route}",
                           query=[("path", path)]).status == 500, (route, path)
    x.as_id(ALICE, "DELETE", "/files", query=[("path", x.secret)]).check_error(
        500, "RUNTIME_ERROR")
    x.as_id(ALICE, "DELETE", "/directories", query=[("path", closed)]).check_error(
        500, "RUNTIME_ERROR")
    for path in (x.folder / "new", x.folder / "d/new"):
        x.upload(ALICE, path).check_error(500, "RUNTIME_ERROR")
    x.as_id(ALICE, "POST", "/directories", {f"{x.folder}/d": {}}).check_error(500, "RUNTIME_ERROR")
    x.as_id(ALICE, "POST", "/files/mv", [{"src": str(x.secret), "dest": f"{x.home}/mine"}]) \
        .check_error(500, "RUNTIME_ERROR")
    assert x.secret.read_text() == "root's" and x.secret.stat().st_mode & 0o777 == 0o600
    assert (closed / "f").exists() and {f.name for f in x.folder.iterdir()} == \
        {"closed", "home", "secret", "tmp"}
    assert x.ask("GET", "/files/download", query=[("path", x.secret)]).body == b"root's"


def gives_nothing_by_an_owner_that_was_asked_for(x):
    answer = x.upload(ALICE, x.home / "f", owner="root")
    answer.check_error(500, "RUNTIME_ERROR")
    assert not (x.home / "f").exists(), "nothing is left of it"
    x.upload(ALICE, x.home / "f", owner="alice", group="team", mode=640).check_empty()
    assert owner(x.home / "f") == (ALICE, TEAM)
    x.as_id(ALICE, "POST", "/files/permissions", {f"{x.home}/f": {"owner": "bob"}}) \
        .check_error(500, "RUNTIME_ERROR")
    assert x.upload(ALICE, x.folder / "g", owner="alice").status == 500


def has_the_groups_of_the_account(x):
    shared = x.folder / "shared"
    shared.write_text("ours")
    os.chown(shared, 0, TEAM)
    shared.chmod(0o640)
    assert x.read(ALICE, shared).body == b"ours"
    assert x.read(ALICE, shared, gid=BOB).body == b"ours", "whatever its gid"
    for uid in (BOB, NO_ONE):
        x.read(uid, shared).check_error(500, "RUNTIME_ERROR")
    assert x.read(NO_ONE, shared, gid=TEAM).body == b"ours"
    x.accounts(team="bob")
    x.read(ALICE, shared).check_error(500, "RUNTIME_ERROR")
    assert x.read(BOB, shared).body == b"ours", "as /etc/group has it by now"


def has_nothing_of_the_environment(x):
    (x.home / "f").write_text("alice's")
    os.chown(x.home / "f", ALICE, ALICE)
    for path in ("~/f", "$HOME/f", f"{x.home}/f"[1:]):
        assert x.read(ALICE, path).body == b"alice's", path
    answer = x.read(ALICE, "$SECRET")
    answer.check_error(500, "RUNTIME_ERROR")
    assert "undefined environment variables: SECRET" in answer.json()["message"], answer.body
    info = x.as_id(NO_ONE, "GET", "/files/info", query=[("path", "~"), ("path", "etc")]).json()
    assert [info[path]["path"] for path in ("~", "etc")] == ["/", "/etc"], info


def is_root_when_asked_to(x):
    assert x.read(0, x.secret).body == b"root's"
    x.upload(0, x.home / "f").check_empty()
    assert owner(x.home / "f") == (0, 0)
    x.upload(0, x.home / "g", owner="bob", gid=TEAM).check_empty()
    assert owner(x.home / "g") == (BOB, TEAM)


def serves_identities_side_by_side(x):
    (x.folder / "bobs").mkdir()
    os.chown(x.folder / "bobs", BOB, BOB)
    client, reply = x.watch(ALICE, x.home)
    x.upload(BOB, x.folder / "bobs/f", "bob's", mode=600).check_empty()
    x.upload(ALICE, x.home / "f", "alice's", mode=600).check_empty()
    while b'"create"' not in reply.readline():
        pass
    client.close()
    x.read(ALICE, x.folder / "bobs/f").check_error(500, "RUNTIME_ERROR")
    x.read(BOB, x.home / "f").check_error(500, "RUNTIME_ERROR")
    assert x.read(BOB, x.folder / "bobs/f").body == b"bob's"
    assert set(x.processes()) == {(ALICE, ALICE), (BOB, BOB)}


def serves_as_many_requests_as_execd(x):
    """Some at once, and then beside streams that stay."""
    with concurrent.futures.ThreadPoolExecutor(MANY) as clients:
        answers = list(clients.map(lambda _: x.read(ALICE, "/etc/passwd"), range(MANY)))
    assert {answer.status for answer in answers} == {200}, [a.body for a in answers]
    watches = [x.watch(ALICE, "/etc")[0] for _ in range(MANY_STREAMS)]
    assert x.read(ALICE, "/etc/passwd").status == 200
    assert len(x.processes()) == 1
    for client in watches:
        client.close()


def waits_for_a_client_that_pauses(x):
    """As long as execd does for its own."""
    large = x.home / "large"
    with large.open("wb") as file:
        file.truncate(LARGE_BYTES)
    client = x.connect()
    client.request("GET", url(ALICE, f"/files/download?path={large}"))
    reply = client.getresponse()
    time.sleep(PAUSE_S)
    assert len(reply.read()) == LARGE_BYTES


def says_what_a_number_is(x):
    for wrong in ("-1", "4294967295", "99999999999999999999", "alice", "0x10", "1.0", "%31", "+1"):
        for uid, gid, name in ((wrong, 1, "uid"), (1, wrong, "gid")):
            x.as_id(uid, "GET", "/files/info", gid=gid).check_error(
                400, "INVALID_REQUEST_BODY",
                f"{name} must be a decimal number from 0 to 4294967294, not {wrong}")
    assert x.as_id(1, "GET", "/files/nothing").status == 404
    assert x.as_id(1, "GET", "/command").status == 404
    assert not x.processes()
    assert x.as_id(4294967294, "GET", "/files/info", query=[("path", "/")]).status == 200


# --- the process ---


def has_no_rights_to_lose(x):
    x.start(ALICE)
    pid = x.process_of(ALICE)
    for key in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(status_of(pid, key), 16) == 0, key
    assert status_of(pid, "NoNewPrivs") == "1"
    assert status_of(pid, "Uid").split() == status_of(pid, "Gid").split() == [str(ALICE)] * 4
    assert status_of(pid, "Groups").split() == [str(ALICE), str(TEAM)]
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    held = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    for link in held:
        assert link.startswith(("/dev/null", "socket:", "anon_inode:")), held


def keeps_its_memory_from_its_own_user(x):
    """That of execd, of which it is a copy."""
    assert x.read(ALICE, "/etc/passwd").status == 200
    pid = x.process_of(ALICE)
    assert os.stat(f"/proc/{pid}/status").st_uid == 0, "it is not dumpable"
    for file in ("mem", "environ", "maps", "fd/3"):
        tried = subprocess.run(["cat", f"/proc/{pid}/{file}"], user=ALICE, group=ALICE,
                               extra_groups=[], capture_output=True, check=False)
        assert tried.returncode == 1 and b"ermission denied" in tried.stderr, (file, tried)


def follows_one_that_was_killed(x):
    assert x.read(ALICE, "/etc/passwd").status == 200
    pid = x.process_of(ALICE)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: is_gone(pid), "its end")
    assert x.read(ALICE, "/etc/passwd").status == 200
    assert x.process_of(ALICE) != pid


def socket_of(pid):
    """The name that a process listens at."""
    held = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    rows = pathlib.Path(f"/proc/{pid}/net/unix").read_text().splitlines()[1:]
    return next(row[7] for row in map(str.split, rows)
                if f"socket:[{row[6]}]" in held and int(row[3], 16) & ACCEPTS)


def sends_no_request_to_a_process_that_takes_its_socket_name(x):
    """When the process dies during a request, another process may bind its socket name first."""
    x.start(ALICE)
    pid = x.process_of(ALICE)
    name = socket_of(pid).replace("@", "\0")
    client = x.connect()
    assert x.ask("GET", "/ping", client=client).status == 200
    os.kill(pid, signal.SIGSTOP)
    client.request("GET", url(ALICE, "/files/download?path=/etc/passwd"))
    for _ in range(2):  # the download was forwarded before the second ping was answered
        assert x.ask("GET", "/ping").status == 200
    os.kill(x.process.pid, signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: status_of(pid, "State").startswith("Z"), "its end")
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(name)
        stranger.listen()
        os.kill(x.process.pid, signal.SIGCONT)
        heard = select.select([client.sock, stranger], [], [], SECONDS_MAX)[0]
        if stranger in heard:
            assert stranger.accept()[0].recv(1) == b"", "a stranger has the request"
        assert client.getresponse().status == 500
    assert x.read(ALICE, "/etc/passwd").status == 200


def connect_stranger(name):
    """Connects and sends an incomplete request; None when the listener's queue is full."""
    stranger = socket.socket(socket.AF_UNIX)
    stranger.setblocking(False)
    try:
        stranger.connect(name)
        # the process may close first
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stranger.send(b"GET /files/info HTTP/1.1\r\nX: ")
        return stranger
    except BlockingIOError:
        stranger.close()
        return None


def is_not_kept_busy_by_strangers(x):
    """Connections of other processes, which can all see the abstract socket name, must not keep
    execd out."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    x.start(ALICE)
    name = socket_of(x.process_of(ALICE)).replace("@", "\0")
    strangers = [wait_for(lambda: connect_stranger(name), "a place in the queue")
                 for _ in range(STRANGERS)]
    assert x.read(ALICE, "/etc/passwd").status == 200
    strangers[0].settimeout(SECONDS_MAX)
    with contextlib.suppress(ConnectionResetError):
        assert strangers[0].recv(1) == b"", "a stranger is listened to"
    for stranger in strangers:
        stranger.close()


def makes_room_for_others(x):
    """The least recently used identity ends, unless it has a request."""
    first = range(10000, 10000 + IDENTITIES_MAX)
    for uid in first:
        assert x.read(uid, "/etc/passwd").status == 200
    busy, _ = x.watch(first[0], "/etc")
    assert x.read(first[1], "/etc/passwd").status == 200
    assert len(x.processes()) == IDENTITIES_MAX
    assert x.read(ALICE, "/etc/passwd").status == 200
    wait_for(lambda: len(x.processes()) == IDENTITIES_MAX, "the end of one")
    assert set(x.processes()) == {(uid, uid) for uid in (*first, ALICE) if uid != first[2]}
    busy.close()


def refuses_more_than_there_may_be(x):
    watches = [x.watch(uid, "/etc")[0] for uid in range(10000, 10000 + IDENTITIES_MAX)]
    answer = x.read(ALICE, "/etc/passwd")
    answer.check_error(503, "RUNTIME_ERROR")
    assert "try again" in answer.json()["message"], answer.body
    assert x.read(10000, "/etc/passwd").status == 200
    watches.pop().close()
    wait_for(lambda: x.read(ALICE, "/etc/passwd").status == 200, "room")
    for client in watches:
        client.close()


def ends_with_execd(x):
    with Box(PROGRAM) as other:
        assert other.read(ALICE, "/etc/passwd").status == 200
        _, reply = other.watch(BOB, "/etc")
        served = list(other.processes().values())
        other.process.terminate()
        last = [line for line in reply.read().splitlines() if line][-1]
        assert json.loads(last)["type"] == "error" and b"execd is ending" in last, last
        other.process.wait(SECONDS_MAX)
        assert all(map(is_gone, served)), "execd has waited for them"
    with Box(PROGRAM) as other:
        assert other.read(ALICE, "/etc/passwd").status == 200
        served = other.process_of(ALICE)
        other.process.kill()
        wait_for(lambda: is_gone(served), "its end")


# --- where it cannot be ---


def is_itself_at_least_without_privilege(x):
    with Box(PROGRAM, user=ALICE, groups=[TEAM]) as user:
        user.upload(ALICE, user.home / "f").check_empty()
        assert owner(user.home / "f") == (ALICE, ALICE)
        for uid, gid in ((BOB, BOB), (0, 0), (ALICE, BOB)):
            answer = user.read(uid, "/etc/passwd", gid=gid)
            answer.check_error(503, "NOT_SUPPORTED")
            assert f"become 'uid {uid}, gid {gid}': Operation not permitted" in \
                answer.json()["message"], answer.body
            user.upload(uid, user.home / "g", "x" * (1 << 20), gid=gid).check_error(
                503, "NOT_SUPPORTED")
        assert not (user.home / "g").exists()
    with Box(PROGRAM, user=ALICE, groups=[0]) as user:
        answer = user.read(ALICE, "/etc/passwd")
        answer.check_error(503, "NOT_SUPPORTED")
        assert "groups" in answer.json()["message"], answer.body


def stays_below_the_root_of_files(x):
    with Box(PROGRAM, options=["--files-root", "{home}"]) as confined:
        (confined.home / "out").symlink_to("/etc/passwd")
        confined.upload(ALICE, confined.home / "a/f", "mine").check_empty()
        assert confined.read(ALICE, confined.home / "a/f").body == b"mine"
        for path in ("/etc/passwd", confined.home / "out"):
            answer = confined.read(ALICE, path)
            answer.check_error(500, "RUNTIME_ERROR")
            assert DENIED in answer.json()["message"], answer.body
        confined.home.chmod(0o700)
        confined.read(BOB, confined.home / "a/f").check_error(500, "RUNTIME_ERROR")
        confined.folder.chmod(0o700)
        confined.read(NO_ONE, confined.home / "a/f").check_error(503, "NOT_SUPPORTED")


TESTS = [
    serves_every_route_as_a_user,
    lets_the_kernel_refuse,
    gives_nothing_by_an_owner_that_was_asked_for,
    has_the_groups_of_the_account,
    has_nothing_of_the_environment,
    is_root_when_asked_to,
    serves_identities_side_by_side,
    serves_as_many_requests_as_execd,
    waits_for_a_client_that_pauses,
    says_what_a_number_is,
    has_no_rights_to_lose,
    keeps_its_memory_from_its_own_user,
    follows_one_that_was_killed,
    sends_no_request_to_a_process_that_takes_its_socket_name,
    is_not_kept_busy_by_strangers,
    makes_room_for_others,
    refuses_more_than_there_may_be,
    ends_with_execd,
    is_itself_at_least_without_privilege,
    stays_below_the_root_of_files,
]


def own_accounts(folder):
    """Mounts passwd and group of this folder over those of /etc, for this process and its children.
    The reason when that fails."""
    if ctypes.CDLL(None).unshare(CLONE_NEWNS) != 0:
        return "there is no mount namespace to be had"
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    for name in ("passwd", "group"):
        file = pathlib.Path(folder) / name
        file.touch(mode=0o644)
        subprocess.run(["mount", "--bind", file, f"/etc/{name}"], check=True)
    return None


def main():
    tap.skip_all(None if os.geteuid() == 0 else "only root can be someone else")
    with tempfile.TemporaryDirectory() as folder:
        tap.skip_all(own_accounts(folder))
        status = tap.run_tests(TESTS, lambda: Box(PROGRAM, env={"SECRET": "/etc/passwd"}))
        subprocess.run(["umount", "/etc/passwd", "/etc/group"], check=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
