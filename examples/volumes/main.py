"""Volumes of three kinds: a directory of the host, a named volume, a bucket of S3.

HOST_VOLUME_PATH is a directory that the server allows (storage.allowed_host_paths); without it
that scenario is left out. OSS_ENDPOINT, OSS_BUCKET, OSS_ACCESS_KEY_ID and OSS_ACCESS_KEY_SECRET
name a bucket.
"""
import asyncio
import os
import pathlib
import sys
from datetime import timedelta

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shared"))
from opensandbox_example import connection, image, run  # noqa: E402

from opensandbox import Sandbox, SandboxManager  # noqa: E402
from opensandbox.models.sandboxes import OSSFS, PVC, Host, Volume  # noqa: E402

NAMED = "opensandbox-pvc-demo"


class Box:
    """A sandbox with volumes, killed at the end of the block."""

    def __init__(self, *volumes):
        self.volumes = list(volumes)

    async def __aenter__(self):
        self.sandbox = await Sandbox.create(
            image("host"), volumes=self.volumes, timeout=timedelta(minutes=2),
            connection_config=connection(180))
        return self.sandbox

    async def __aexit__(self, *_):
        await self.sandbox.destroy()


async def refused(sandbox, command):
    return bool((await sandbox.commands.run(command)).exit_code)


async def host(path):
    print("=== a directory of the host ===")
    folder = pathlib.Path(path)
    (folder / "marker.txt").write_text("hello-from-host\n", encoding="ascii")
    (folder / "datasets/train").mkdir(parents=True, exist_ok=True)
    (folder / "datasets/train/data.csv").write_text("a,b\n1,2\n", encoding="ascii")
    source = Host(path=path)
    async with Box(Volume(name="shared", host=source, mount_path="/mnt/shared")) as box:
        print("read:", await run(box, "cat /mnt/shared/marker.txt"))
        await run(box, "echo hello-from-sandbox > /mnt/shared/sandbox-greeting.txt")
    print("on the host:", (folder / "sandbox-greeting.txt").read_text(encoding="ascii").strip())
    async with Box(Volume(name="ro", host=source, mount_path="/mnt/readonly",
                          read_only=True)) as box:
        print("read only:", await run(box, "cat /mnt/readonly/marker.txt"),
              "write refused:", await refused(box, "touch /mnt/readonly/x"))
    async with Box(Volume(name="sub", host=source, mount_path="/mnt/training-data",
                          sub_path="datasets/train")) as box:
        print("subPath:", await run(box, "ls /mnt/training-data"))


async def named():
    print("=== a named volume ===")
    claim = PVC(claim_name=NAMED)
    async with await SandboxManager.create(connection()) as manager:
        await manager.create_volume(NAMED)
        try:
            async with Box(Volume(name="data", pvc=claim, mount_path="/mnt/data")) as box:
                await run(box, "cd /mnt/data && echo hello-from-named-volume > marker.txt && "
                               "mkdir -p datasets/train && echo 1,2 > datasets/train/data.csv")
            async with Box(Volume(name="a", pvc=claim, mount_path="/mnt/shared")) as a, \
                    Box(Volume(name="b", pvc=claim, mount_path="/mnt/shared",
                               read_only=True)) as b:
                await run(a, "echo from-a > /mnt/shared/note")
                print("two sandboxes:", await run(b, "cat /mnt/shared/note"),
                      "write refused:", await refused(b, "touch /mnt/shared/x"))
                print("stayed:", await run(b, "cat /mnt/shared/marker.txt"))
            async with Box(Volume(name="c", pvc=claim, mount_path="/mnt/part",
                                  sub_path="datasets/train")) as box:
                print("subPath:", await run(box, "ls /mnt/part"))
        finally:
            await manager.delete_volume(NAMED)


async def bucket(endpoint):
    print("=== a bucket ===")
    source = OSSFS(bucket=os.environ["OSS_BUCKET"], endpoint=endpoint,
                   access_key_id=os.environ["OSS_ACCESS_KEY_ID"],
                   access_key_secret=os.environ["OSS_ACCESS_KEY_SECRET"])
    async with Box(Volume(name="w", ossfs=source, mount_path="/mnt/oss")) as writer:
        await run(writer, "echo through-the-bucket > /mnt/oss/greeting.txt")
        async with Box(Volume(name="r", ossfs=source, mount_path="/mnt/oss",
                              read_only=True)) as reader:
            print("reader:", await run(reader, "cat /mnt/oss/greeting.txt"),
                  "write refused:", await refused(reader, "touch /mnt/oss/x"))
        key = os.environ["OSS_ACCESS_KEY_SECRET"]
        found = await writer.commands.run(f"env | grep {key[:-1]}[{key[-1]}]; "
                                          f"mount | grep -F {key}")
        print("the key is seen inside:", bool(found.text))


async def main():
    if os.environ.get("HOST_VOLUME_PATH"):
        await host(os.environ["HOST_VOLUME_PATH"])
    await named()
    if os.environ.get("OSS_ENDPOINT"):
        await bucket(os.environ["OSS_ENDPOINT"])


if __name__ == "__main__":
    asyncio.run(main())
