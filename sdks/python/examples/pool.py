"""Sandboxes made before they are needed."""
from datetime import timedelta

from opensandbox import InMemoryPoolStateStore, PoolCreationSpec, SandboxPoolSync
from opensandbox.config import ConnectionConfigSync

pool = SandboxPoolSync(
    pool_name="example",
    max_idle=2,
    state_store=InMemoryPoolStateStore(),
    connection_config=ConnectionConfigSync(),
    creation_spec=PoolCreationSpec(image="python:3.12"),
)
with pool:
    with pool.acquire(timedelta(minutes=5)) as sandbox:
        print(sandbox.commands.run("echo from the pool").text)
        sandbox.kill()
    pool.shutdown(release_idle=True)
