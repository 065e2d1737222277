"""Named volumes by themselves: /v1/volumes, their users, what they hold, what outlives a kill.

Usage: test_named_volumes.py SERVER BROKER EXECD SANDBOXCTL. TAP on standard output. Needs root.
"""
import concurrent.futures
import math
import os
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from server_process import ServerProcess, wait_for, why_not  # noqa: E402
from server_use import Gateway  # noqa: E402

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:5]]
SERVER = None


def ask(method, path="", body=None, status=200):
    """The answer's body; fails on another status."""
    got, _, answer = SERVER.request(method, "/v1/volumes" + path, body)
    assert got == status, (method, path, got, answer)
    return answer


def refused(status, code, method, path="", body=None):
    got, _, answer = SERVER.request(method, "/v1/volumes" + path, body)
    assert (got, answer["code"]) == (status, code), (got, answer)
    return answer["message"]


def claim(name, **fields):
    pvc = {key: fields.pop(key) for key in ("createIfNotExists", "storage",
                                            "deleteOnSandboxTermination") if key in fields}
    return {"name": "v", "mountPath": "/data", "pvc": {"claimName": name, **pvc}, **fields}


def run(name, line):
    with Gateway(SERVER, name) as box:
        return box.run(line)


def delete(name):
    status, _, body = SERVER.request("DELETE", f"/v1/sandboxes/{name}")
    assert status == 204, (status, body)


def names():
    return [volume["name"] for volume in ask("GET")["items"]]


# --- making and showing ---


def makes_shows_and_removes():
    made = ask("POST", body={"name": "data"}, status=201)
    assert sorted(made) == ["createdAt", "name", "sizeBytes", "usedBy", "usedBytes"], made
    assert made["name"] == "data" and made["sizeBytes"] is None and made["usedBy"] == [], made
    shown = ask("GET", "/data")
    assert {**shown, "usedBytes": 0} == {**made, "usedBytes": 0}, (shown, made)
    assert ask("GET")["items"] == [shown]
    message = refused(409, "VOLUME::ALREADY_EXISTS", "POST", body={"name": "data"})
    assert "'data'" in message, message
    ask("DELETE", "/data", status=204)
    refused(404, "VOLUME::NOT_FOUND", "DELETE", "/data")
    refused(404, "VOLUME::NOT_FOUND", "GET", "/data")
    assert names() == []
    again = ask("POST", body={"name": "data"}, status=201)
    assert again["createdAt"] >= made["createdAt"]
    ask("DELETE", "/data", status=204)


def refuses_what_is_no_volume():
    for name in ("", "A", "a/b", "..", ".claims", "a-", "-a", "a" * 254, "ä", "a b"):
        refused(400, "VOLUME::INVALID_PVC_NAME", "POST", body={"name": name})
    for size in ("", "0", "0Gi", "much", "-1Gi", "1.Gi", "1 Gi", "99999999Ti"):
        refused(400, "VOLUME::INVALID_SIZE", "POST", body={"name": "x", "size": size})
    for body in ({}, {"name": 1}, {"name": "x", "size": 5}, [], "x"):
        refused(400, "SANDBOX::INVALID_PARAMETER", "POST", body=body)
    status, _, answer = SERVER.request("POST", "/v1/volumes", b"{", {"Content-Type":
                                                                     "application/json"})
    assert status == 400, answer
    for name in ("A", "..", "%2e%2e", "a%2Fb", ".claims", ".erase-1", "x" * 300, "%00", "a%00b"):
        for method in ("GET", "DELETE"):
            refused(404, "VOLUME::NOT_FOUND", method, "/" + name)
    assert names() == []


def pages_are_those_of_sandboxes():
    for i in range(5):
        ask("POST", body={"name": f"v{i}"}, status=201)
    page = ask("GET", "?page=2&pageSize=2")
    assert [volume["name"] for volume in page["items"]] == ["v2", "v3"], page
    assert page["pagination"] == {"page": 2, "pageSize": 2, "totalItems": 5, "totalPages": 3,
                                  "hasNextPage": True}, page
    assert ask("GET", "?page=9&pageSize=2")["items"] == []
    for query in ("?page=0", "?pageSize=0", "?pageSize=201", "?page=x"):
        status, _, answer = SERVER.request("GET", "/v1/volumes" + query)
        assert status == 400, (query, answer)
    for i in range(5):
        ask("DELETE", f"/v{i}", status=204)


def one_of_many_makes_it():
    start = threading.Barrier(8)

    def make(_):
        start.wait()
        return SERVER.request("POST", "/v1/volumes", {"name": "race"})[0]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(make, range(8))) == [201] + [409] * 7
    ask("DELETE", "/race", status=204)


# --- use ---


def tells_which_sandboxes_use_it():
    ask("POST", body={"name": "shared"}, status=201)
    one = SERVER.create(volumes=[claim("shared", createIfNotExists=False)])
    two = SERVER.create(volumes=[claim("shared", readOnly=True)])
    run(one, "echo from one >/data/f")
    assert run(two, "cat /data/f; touch /data/g || echo refused") == "from one\nrefused"
    assert ask("GET", "/shared")["usedBy"] == sorted([one, two])
    message = refused(409, "VOLUME::IN_USE", "DELETE", "/shared")
    assert one in message and two in message, message
    delete(one)
    assert ask("GET", "/shared")["usedBy"] == [two]
    SERVER.restart()
    assert ask("GET", "/shared")["usedBy"] == [two]
    refused(409, "VOLUME::IN_USE", "DELETE", "/shared")
    assert run(two, "cat /data/f") == "from one"
    delete(two)
    assert ask("GET", "/shared")["usedBy"] == []
    ask("DELETE", "/shared", status=204)


def tells_how_much_it_holds():
    name = SERVER.create(volumes=[claim("full")])
    assert ask("GET", "/full")["usedBytes"] < 1 << 20
    run(name, "dd if=/dev/urandom of=/data/f bs=1M count=8 2>/dev/null; sync; ln /data/f /data/g; "
        "mkdir -m 0700 /data/private; dd if=/dev/urandom of=/data/private/f bs=1M count=4; sync")
    wait_for(lambda: 12 << 20 <= ask("GET", "/full")["usedBytes"] < 13 << 20, "12 MiB")
    run(name, "rm -r /data/*; sync")
    wait_for(lambda: ask("GET", "/full")["usedBytes"] < 1 << 20, "an empty volume")
    # Deeper than is looked: nothing is told rather than something wrong.
    run(name, "cd /data; i=0; while [ $i -lt 300 ]; do mkdir d; cd d; i=$((i+1)); done")
    wait_for(lambda: ask("GET", "/full")["usedBytes"] is None, "too deep a tree")
    delete(name)
    ask("DELETE", "/full", status=204)


def shows_volumes_that_sandboxes_made():
    name = SERVER.create(volumes=[claim("mine", deleteOnSandboxTermination=True)])
    assert ask("GET", "/mine")["usedBy"] == [name]
    delete(name)
    refused(404, "VOLUME::NOT_FOUND", "GET", "/mine")
    assert not os.listdir(SERVER.state / "server/claims"), "a note without a volume"


# --- sizes ---


def loops():
    """Loop devices that hold images of this server's broker."""
    found = []
    for path in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            if str(SERVER.state / "disks") in path.read_text():
                found.append(path)
        except OSError:  # detached meanwhile
            pass
    return found


def no_disk_is_left():
    wait_for(lambda: not loops(), "the end of the loop devices")
    wait_for(lambda: not os.listdir(SERVER.state / "disks"), "the end of the images")


def fill(name, path="/data/big"):
    """Writes 64 MiB; what the shell says of it."""
    return run(name, f"dd if=/dev/zero of={path} bs=1M count=64 2>&1 | grep -o 'No space left'")


def keeps_a_size():
    made = ask("POST", body={"name": "sized", "size": "32Mi"}, status=201)
    assert made["sizeBytes"] == 32 << 20, made
    one = SERVER.create(volumes=[claim("sized")])
    two = SERVER.create(volumes=[claim("sized", readOnly=True)])
    assert len(loops()) == 1, loops()
    assert run(one, "ls -A /data; stat -c '%u %g %a' /data") == "0 0 755"
    assert fill(one) == "No space left"
    run(one, "sync")
    wait_for(lambda: 16 << 20 < ask("GET", "/sized")["usedBytes"] <= 32 << 20, "what it holds")
    assert run(two, "ls /data; rm /data/big 2>/dev/null || echo refused") == "big\nrefused"
    run(one, "rm /data/big; mkdir -p /data/a/b; echo deep >/data/a/b/f; sync")
    message = refused(409, "VOLUME::IN_USE", "DELETE", "/sized")
    assert one in message, message
    delete(one)
    delete(two)
    wait_for(lambda: not loops(), "the end of the loop device")
    part = SERVER.create(volumes=[claim("sized", subPath="a/b")])
    assert run(part, "cat /data/f; ls /data") == "deep\nf"
    assert fill(part) == "No space left"
    delete(part)
    ask("DELETE", "/sized", status=204)
    no_disk_is_left()


def refuses_a_bad_sub_path_in_a_sized_volume():
    ask("POST", body={"name": "sized", "size": "16Mi"}, status=201)
    one = SERVER.create(volumes=[claim("sized")])
    run(one, "ln -s /etc /data/link; ln -s .. /data/up; echo x >/data/file; sync")
    for path, why in (("link", "symbolic link"), ("link/passwd", "symbolic link"),
                      ("up", "symbolic link"), ("none", "no such file")):
        status, _, body = SERVER.request("POST", "/v1/sandboxes", {
            "image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"], "timeout": 600,
            "resourceLimits": {}, "volumes": [claim("sized", subPath=path)]})
        assert (status, body["code"]) == (400, "VOLUME::INVALID_SUB_PATH"), (path, body)
        assert why in body["message"], body
    file = SERVER.create(volumes=[claim("sized", subPath="file")])
    assert run(file, "cat /data") == "x"
    delete(file)
    delete(one)
    ask("DELETE", "/sized", status=204)
    no_disk_is_left()


def a_claim_has_the_size_it_asks_for():
    one = SERVER.create(volumes=[claim("asked", storage="32Mi", deleteOnSandboxTermination=True)])
    assert ask("GET", "/asked")["sizeBytes"] == 32 << 20
    assert fill(one) == "No space left"
    two = SERVER.create(volumes=[claim("little", storage="1Ki")])
    assert ask("GET", "/little")["sizeBytes"] == 16 << 20
    three = SERVER.create(volumes=[claim("little", storage="64Mi")])  # exists: nothing changes
    assert ask("GET", "/little")["sizeBytes"] == 16 << 20
    for name in (one, two, three):
        delete(name)
    refused(404, "VOLUME::NOT_FOUND", "GET", "/asked")
    ask("DELETE", "/little", status=204)
    no_disk_is_left()
    for size in ("15Mi", "1", "9Ti"):
        refused(400, "VOLUME::INVALID_SIZE", "POST", body={"name": "x", "size": size})
    no_disk_is_left()


def many_mount_one_file_system():
    ask("POST", body={"name": "sized", "size": "32Mi"}, status=201)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda i: SERVER.create(volumes=[claim("sized")]), range(8)))
    assert len(loops()) == 1, loops()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda box: run(box, f"echo {box} >/data/{box}"), made))
    assert run(made[0], "cat /data/* | sort") == "\n".join(sorted(made))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(delete, made))
    ask("DELETE", "/sized", status=204)
    no_disk_is_left()


def files_are_never_taken_for_images():
    """A workload that makes all the files of an image itself gets them back as files."""
    one = SERVER.create(volumes=[claim("plain")])
    run(one, "cp /bin/true /data/disk.img; ln -s /dev/loop0 /data/disk.loop; "
        "setfattr -n trusted.opensandbox.disk -v 0123456789abcdef /data 2>/dev/null; "
        "setfattr -n user.opensandbox.disk -v 0123456789abcdef /data 2>/dev/null; true")
    delete(one)
    two = SERVER.create(volumes=[claim("plain")])
    assert run(two, "ls /data") == "disk.img\ndisk.loop"
    delete(two)
    ask("DELETE", "/plain", status=204)


def a_size_outlives_kills():
    ask("POST", body={"name": "sized", "size": "32Mi"}, status=201)
    one = SERVER.create(volumes=[claim("sized")])
    run(one, "echo kept >/data/f; sync")
    SERVER.kill9()
    SERVER.start()
    two = SERVER.create(volumes=[claim("sized")])
    assert run(two, "cat /data/f; echo more >>/data/f") == "kept"
    assert run(one, "cat /data/f") == "kept\nmore"
    assert len(loops()) == 1, loops()
    delete(one)
    assert fill(two) == "No space left"
    delete(two)
    SERVER.kill9()
    SERVER.start()
    wait_for(lambda: not loops(), "the end of the loop device")
    # An image that a killed process had half made.
    disk = SERVER.state / "disks/00112233445566aa"
    disk.mkdir()
    (disk / "disk.img").write_bytes(b"half")
    volumes = SERVER.state / "server/volumes"
    os.symlink(f"{volumes.stat().st_ino} {volumes}/other", disk / "half")
    # And one whose last step was cut off.
    whole = next(path for path in (SERVER.state / "disks").iterdir() if path != disk)
    os.symlink(f"{volumes.stat().st_ino} {volumes}/sized", whole / "half")
    SERVER.kill9()
    SERVER.start()
    wait_for(lambda: not disk.exists() and not (whole / "half").is_symlink(), "a sweep")
    three = SERVER.create(volumes=[claim("sized")])
    assert run(three, "cat /data/f") == "kept\nmore"
    delete(three)
    ask("DELETE", "/sized", status=204)
    no_disk_is_left()


# --- kills ---


def outlives_kills():
    born = time.time()
    made = ask("POST", body={"name": "lasting"}, status=201)
    name = SERVER.create(volumes=[claim("lasting")])
    wait_for(lambda: time.time() > math.floor(born) + 1, "another second")  # of the directory's own
    run(name, "echo kept >/data/f; sync")
    SERVER.kill9()
    SERVER.start()
    shown = ask("GET", "/lasting")
    assert shown["createdAt"] == made["createdAt"] and shown["usedBy"] == [name], shown
    assert run(name, "cat /data/f") == "kept"
    delete(name)
    other = SERVER.create(volumes=[claim("lasting", createIfNotExists=False)])
    assert run(other, "cat /data/f") == "kept"
    delete(other)
    ask("DELETE", "/lasting", status=204)
    SERVER.kill9()
    SERVER.start()
    assert names() == []
    wait_for(lambda: not os.listdir(SERVER.state / "server/volumes"), "the end of the erasure")


def shows_volumes_of_an_older_server():
    """Which wrote no notes."""
    name = SERVER.create(volumes=[claim("old")])
    delete(name)
    (SERVER.state / "server/claims/old").unlink()
    shown = ask("GET", "/old")
    assert shown["sizeBytes"] is None and shown["createdAt"], shown
    ask("DELETE", "/old", status=204)


TESTS = [
    makes_shows_and_removes,
    refuses_what_is_no_volume,
    pages_are_those_of_sandboxes,
    one_of_many_makes_it,
    tells_which_sandboxes_use_it,
    tells_how_much_it_holds,
    shows_volumes_that_sandboxes_made,
    keeps_a_size,
    refuses_a_bad_sub_path_in_a_sized_volume,
    a_claim_has_the_size_it_asks_for,
    many_mount_one_file_system,
    files_are_never_taken_for_images,
    a_size_outlives_kills,
    outlives_kills,
    shows_volumes_of_an_older_server,
]


if __name__ == "__main__":
    tap.skip_all(why_not())
    with ServerProcess(*PROGRAMS) as SERVER:
        sys.exit(tap.run_tests(TESTS))
