"""Output as it comes, by an iterator; and input while a command runs."""
from opensandbox import SandboxSync
from opensandbox.models import RunCommandOpts

with SandboxSync.create("python:3.12") as sandbox:
    for event in sandbox.commands.stream("for n in 1 2 3; do echo line $n; sleep 0.1; done"):
        if event.type == "stdout":
            print(event.text, flush=True)

    started = sandbox.commands.run("sort > /tmp/sorted", opts=RunCommandOpts(
        background=True, stdin_open=True))
    sandbox.commands.write_stdin(started.id, "pear\napple\n", eof=True)
    sandbox.commands.wait(started.id)
    print(sandbox.files.read_file("/tmp/sorted"), end="")
    sandbox.kill()
