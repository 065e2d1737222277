#!/usr/bin/env python3
"""test_docker_podman.py SERVER BROKER EXECD SANDBOXCTL - the docker runtime on Podman's socket: the
cases of test_docker.py that have nothing to do with dockerd itself."""
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))

import egress_world  # noqa: E402
import test_docker  # noqa: E402
from docker_process import DockerServer, PodmanEngine, why_not  # noqa: E402
from tap import Tap, skip_all  # noqa: E402


def main():
    skip_all(why_not() or egress_world.why_not() or (None if shutil.which("podman") else
                                                     "podman is not installed (make test does)"))
    egress_world.enter()
    tap = Tap()
    with PodmanEngine() as engine:
        engine.import_busybox(test_docker.IMAGE)
        config = {"storage": {"allowed_host_paths": [str(engine.folder / "shared")]}}
        with DockerServer(*test_docker.PROGRAMS, config=config, engine=engine) as server:
            test_docker.ENGINE, test_docker.SERVER = engine, server
            for test in test_docker.ON_PODMAN:
                tap.check(test.__name__, test)
            if tap.failed:
                print("# " + server.log()[-6000:].replace("\n", "\n# "))
    return tap.end()


sys.exit(main())
