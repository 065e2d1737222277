"""Files: streams both ways, ranges, whole directories."""
import pathlib
import tempfile

from opensandbox import SandboxSync

with tempfile.TemporaryDirectory() as name, SandboxSync.create("python:3.12") as sandbox:
    folder = pathlib.Path(name)
    (folder / "data.bin").write_bytes(bytes(1_000_000))
    with open(folder / "data.bin", "rb") as file:
        sandbox.files.write_file("/tmp/data.bin", file, mode=644)
    print(sum(len(piece) for piece in sandbox.files.read_bytes_stream("/tmp/data.bin")))
    print(sandbox.files.read_bytes("/tmp/data.bin", range_header="bytes=0-3"))

    sandbox.files.upload_directory(folder, "/tmp/copy")
    print(sandbox.commands.run("ls /tmp/copy").text)
    sandbox.files.download_directory("/tmp/copy", folder / "back")
    print((folder / "back/data.bin").stat().st_size)
    sandbox.kill()
