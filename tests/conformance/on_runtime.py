"""on_runtime.py RUNTIME NEED COMMAND... - a test of the official clients, on another runtime.

The table below says what the server's configuration has then, and which checks cannot hold there,
and why; docs/runtimes.md lists the same. Without this program the tests run on the embedded
runtime. NEED is the OCI runtime; for docker, the root of the image that stands for this host's
/usr; for docker+gvisor both, as ROOT:RUNSC. tests/integration/server_process.py and
tests/tools/tap.py read what is put into the environment here.
"""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))

import docker_process  # noqa: E402
import postgres_process  # noqa: E402

# Every name that the suites create from.
DOCKER_IMAGES = ("host:latest", "python:3.11", "python:3.12", "node:22",
                 "opensandbox/code-interpreter:latest")


@contextlib.contextmanager
def gvisor(program):
    yield {"secure_runtime": {"type": "gvisor"}, "embedded.runtimes": {"gvisor": program}}


@contextlib.contextmanager
def docker(root, runtimes=None):
    if docker_process.why_not():
        print(f"1..0 # SKIP {docker_process.why_not()}")
        sys.exit(0)
    with docker_process.DockerEngine(runtimes=runtimes) as engine:
        with tempfile.TemporaryDirectory() as extra:  # what the code interpreter's image has
            script = pathlib.Path(extra, "opt/code-interpreter/code-interpreter.sh")
            script.parent.mkdir(parents=True)
            script.write_text("#!/bin/sh\nexec tail -f /dev/null\n", encoding="ascii")
            script.chmod(0o755)
            pathlib.Path(extra).chmod(0o755)
            engine.import_roots((root, extra), *DOCKER_IMAGES)
        yield {"runtime": {"type": "docker"},
               "docker": {"host": engine.host, "network_mode": "bridge"}}


@contextlib.contextmanager
def docker_gvisor(both):
    root, runsc = both.split(":")
    with docker(root, {"runsc": (runsc, *docker_process.RUNSC_OPTIONS)}) as config:
        yield {**config, "secure_runtime": {"type": "gvisor", "docker_runtime": "runsc"}}


@contextlib.contextmanager
def postgres(_):
    """The embedded runtime, with the server's state in PostgreSQL."""
    if postgres_process.why_not():
        print(f"1..0 # SKIP {postgres_process.why_not()}")
        sys.exit(0)
    with postgres_process.Postgres() as cluster:
        yield {"store": {"type": "postgres", "dsn": cluster.dsn}}


NO_NESTING = "isolated sessions need file systems that gVisor does not let a sandbox mount"

OF_GVISOR = {
    "an_identity_that_cannot_be_had_is_503": "gVisor has no last user id: any can be had",
    "isolation_says_what_it_can": NO_NESTING,
    "an_isolated_session_runs_code": NO_NESTING,
    "an_isolated_session_runs_in_the_background": NO_NESTING,
    "an_isolated_session_has_files": NO_NESTING,
    "a_session_for_one_run_is_gone_afterwards": NO_NESTING,
    "an isolated session runs code and has files": NO_NESTING,
}

NO_CAPABILITY = "isolated sessions need CAP_SYS_ADMIN, which containers do not have"
OF_THE_IMAGE = "it is up to the image: on Docker nothing is added to it"

OF_DOCKER = {
    "volumes_are_shared_and_refused_by_code": "there are no volumes of object storage on Docker",
    "programs_beside_go_run": OF_THE_IMAGE,
    "scripts_for_the_code_interpreters_image_run": OF_THE_IMAGE,
    "an_identity_that_cannot_be_had_is_503": "a container has every user id",
    "isolation_says_what_it_can": NO_CAPABILITY,
    "an_isolated_session_runs_code": NO_CAPABILITY,
    "an_isolated_session_runs_in_the_background": NO_CAPABILITY,
    "an_isolated_session_has_files": NO_CAPABILITY,
    "a_session_for_one_run_is_gone_afterwards": NO_CAPABILITY,
    "an isolated session runs code and has files": NO_CAPABILITY,
    "a named volume has the size that was asked for": "volumes of Docker have no limit of size",
    "a named volume is shared, read-only where asked, and outlives its readers":
        "a subPath is refused where the server's account may not look for symbolic links",
}

OF_DOCKER_GVISOR = {**OF_GVISOR, **OF_DOCKER}

OTHER_DISK = "the state is not on that disk"

OF_POSTGRES = {
    "expires_on_a_full_disk": OTHER_DISK,
    "deletes_on_a_full_disk": OTHER_DISK,
    "forgets_what_was_secret": "PostgreSQL keeps deleted rows until its own vacuum",
}

RUNTIMES = {
    "embedded+gvisor": (gvisor, OF_GVISOR),
    "embedded+postgres": (postgres, OF_POSTGRES),
    "docker": (docker, OF_DOCKER),
    "docker+gvisor": (docker_gvisor, OF_DOCKER_GVISOR),
}


def main():
    name, need, *command = sys.argv[1:]
    serving, exceptions = RUNTIMES[name]
    print(f"# on {name}", flush=True)
    with serving(":".join(map(os.path.abspath, need.split(":")))) as config:
        env = {**os.environ, "OSB_TEST_CONFIG": json.dumps(config),
               "OSB_TEST_EXCEPTIONS": json.dumps(exceptions)}
        return subprocess.run(command, env=env, check=False).returncode


sys.exit(main())
