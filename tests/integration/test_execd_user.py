"""execd whose usual user is another: everything that a client asks for runs as that user, in the
working directory of the image, unless the request says otherwise.

Usage: test_execd_user.py EXECD-PROGRAM. TAP on standard output. As root only. The test replaces
/etc/passwd and /etc/group in a mount namespace of its own.
"""
import contextlib
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from execd_listen import Execd  # noqa: E402
from execd_process import status_of  # noqa: E402

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
ALICE, TEAM, NO_ONE = 4001, 4100, 4003
PASSWD = "root:x:0:0::/root:/bin/sh\nalice:x:4001:4001::/home/alice:/bin/sh\n"
GROUP = "root:x:0:\nalice:x:4001:\nteam:x:4100:alice\n"
CLONE_NEWNS = 0x20000
BOUNDARY = "b0undary"
FORM = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}


class Box(Execd):
    def __init__(self, uid=ALICE, gid=ALICE, cwd="{home}/work/below"):
        # Programs of root's home are of no use to others.
        super().__init__(PROGRAM, env={"PATH": "/usr/local/bin:/usr/bin:/bin"}, options=[
            "--uid", str(uid), "--gid", str(gid), "--cwd", cwd])
        self.folder.chmod(0o755)
        (self.folder / "tmp").chmod(0o1777)
        os.chown(self.home, uid, gid)
        self.work = self.home / "work/below"
        self.secret = self.folder / "secret"
        self.secret.write_text("root's")
        self.secret.chmod(0o600)

    def printed(self, path, body):
        answer = self.ask("POST", path, body)
        assert answer.status == 200, (answer.status, answer.body)
        events = [json.loads(part) for part in answer.body.split(b"\n\n") if part.strip()]
        assert events[-1]["type"] == "execution_complete", events
        return "".join(event["text"] for event in events if event["type"] == "stdout")

    def run(self, line, **fields):
        return self.printed("/command", {"command": line, **fields})

    def upload(self, path, content="new"):
        parts = ""
        for name, text in (("metadata", json.dumps({"path": str(path)})), ("file", content)):
            parts += (f"--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"; "
                      f"filename=\"{name}\"\r\n\r\n{text}\r\n")
        return self.ask("POST", "/files/upload", f"{parts}--{BOUNDARY}--\r\n".encode(),
                        headers=FORM)


IDS = "echo $(id -u) $(id -g) $(id -G)"


def commands_are_the_users(box):
    assert box.run(IDS) == f"{ALICE} {ALICE} {ALICE} {TEAM}"
    assert box.run("pwd") == str(box.work)
    assert (box.work.stat().st_uid, box.work.stat().st_mode & 0o777) == (0, 0o755)
    assert box.run(IDS, uid=0, gid=0) == "0 0 0"
    assert box.run("cat /proc/self/status | grep CapEff").split()[1] == "0" * 16
    assert box.run("echo there > /dev/stdout") == "there"
    assert status_of(box.process.pid, "Uid").split() == ["0"] * 4


def a_user_without_an_account_has_no_other_groups(_box):
    with Box(NO_ONE, TEAM) as box:
        assert box.run(IDS) == f"{NO_ONE} {TEAM} {TEAM}"
    with Box(ALICE, 0) as box:  # not the group of the account
        assert box.run(IDS) == f"{ALICE} 0 0"


def sessions_and_their_directories_are_the_users(box):
    place = box.home / "made/by/it"
    session = box.ask("POST", "/session", {"cwd": str(place)}).json()["session_id"]
    assert box.printed(f"/session/{session}/run", {"command": f"{IDS}; pwd; touch x"}) == \
        f"{ALICE} {ALICE} {ALICE} {TEAM}{place}"
    assert (place.stat().st_uid, (place / "x").stat().st_uid) == (ALICE, ALICE)
    refused = box.ask("POST", "/session", {"cwd": str(box.folder / "not-the-users")})
    assert refused.status == 500 and "permission denied" in refused.json()["message"].lower()
    assert not (box.folder / "not-the-users").exists()


def code_is_run_by_the_user(box):
    for language, code in (("python", "import os; print(os.getuid(), os.getcwd())"),
                           ("bash", "echo $(id -u) $(pwd)")):
        made = box.ask("POST", "/code/context", {"language": language})
        assert made.status == 200, made.body
        assert box.printed("/code", {"code": code, "context": {"id": made.json()["id"]}}).strip() \
            == f"{ALICE} {box.work}", language


def isolated_sessions_are_the_users(box):
    made = box.ask("POST", "/v1/isolated/session", {"workspace": {"path": str(box.home / "apart")}})
    if made.status in (501, 503):
        raise tap.Skip(made.json()["message"])
    assert made.status in (200, 201), made.body
    session = made.json()["session_id"]
    assert box.printed(f"/v1/isolated/session/{session}/run", {"code": "id -u"}) == str(ALICE)
    assert (box.home / "apart").stat().st_uid == ALICE


def files_are_the_users(box):
    box.work.chmod(0o777)
    assert box.upload("relative").status == 200
    assert box.upload("~/below-home").status == 200
    for path in (box.work / "relative", box.home / "below-home"):
        assert (path.stat().st_uid, path.stat().st_gid) == (ALICE, ALICE), path
    answer = box.ask("GET", "/files/download", query=[("path", "relative")])
    assert answer.body == b"new", answer.body
    assert box.ask("POST", "/directories", {str(box.home / "folder"): {"mode": 750}}).status == 200
    assert (box.home / "folder").stat().st_uid == ALICE
    for path, method in (("/files/download", "GET"), ("/files", "DELETE")):
        query = [("path", box.secret)]
        if method == "DELETE":
            query = [("path", box.folder / "secret")]
        answer = box.ask(method, path, query=query)
        assert answer.status >= 400 and b"permission denied" in answer.body.lower(), answer.body
    assert box.secret.read_text() == "root's"
    answer = box.ask("GET", "/v1/filesystem/0/0/files/download", query=[("path", box.secret)])
    assert answer.body == b"root's", answer.body
    answer = box.ask("GET", "/v1/filesystem/4001/4001/files/info", query=[("path", "relative")])
    assert answer.status == 404, answer.body  # an identity begins at "/"


@contextlib.contextmanager
def box():
    with Box() as made:
        yield made


def main():
    tap.skip_all("only root can become another user" if os.geteuid() != 0 else None)
    assert ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) == 0
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("passwd", PASSWD), ("group", GROUP)):
            path = pathlib.Path(folder, name)
            path.write_text(text)
            subprocess.run(["mount", "--bind", path, f"/etc/{name}"], check=True)
        return tap.run_tests([
            commands_are_the_users,
            a_user_without_an_account_has_no_other_groups,
            sessions_and_their_directories_are_the_users,
            code_is_run_by_the_user,
            isolated_sessions_are_the_users,
            files_are_the_users,
        ], box)


if __name__ == "__main__":
    sys.exit(main())
