"""Reinforcement learning in a sandbox: DQN learns CartPole; the curve and the network come back.

usage: main.py [--timesteps N] [--seed N] [--environment auto|own|gymnasium] [--into DIRECTORY]

RL_TIMESTEPS is the usual number of steps. With RL_PACKAGES, a directory of the host with numpy for
the Python of the sandbox, packages come from there.
"""
import argparse
import asyncio
import json
import os
import pathlib
import sys
from datetime import timedelta

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "shared"))
from opensandbox_example import connection, image, run, show  # noqa: E402

from opensandbox import Sandbox  # noqa: E402
from opensandbox.models.filesystem import WriteEntry  # noqa: E402
from opensandbox.models.sandboxes import Host, Volume  # noqa: E402

WORK = "/tmp/rl"
PROGRAMS = ("cartpole.py", "curve.py", "train.py")
RESULTS = ("learning_curve.png", "checkpoints/cartpole_dqn.npz", "training_summary.json")


async def create(env):
    more, path = {}, os.environ.get("RL_PACKAGES")
    if path:
        more["volumes"] = [Volume(name="packages", host=Host(path=path), read_only=True,
                                  mount_path="/opt/packages")]
        env = {**env, "PYTHONPATH": "/opt/packages"}
    return await Sandbox.create(
        image("opensandbox/rl:latest"), env=env, timeout=timedelta(minutes=30),
        resource={"cpu": "1", "memory": "1Gi"}, metadata={"example": "rl-training"},
        connection_config=connection(600), **more)


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--timesteps", type=int, default=os.environ.get("RL_TIMESTEPS", "15000"))
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--environment", choices=("auto", "own", "gymnasium"), default="auto")
    parser.add_argument("--into", type=pathlib.Path, default=".", help="for what comes back")
    options = parser.parse_args()
    sandbox = await create({"RL_TIMESTEPS": str(options.timesteps), "RL_SEED": str(options.seed),
                            "RL_ENVIRONMENT": options.environment})
    try:
        await run(sandbox, f"mkdir -p {WORK}")
        await sandbox.files.write_files(
            [WriteEntry(path=f"{WORK}/{name}", data=(HERE / name).read_text(encoding="utf-8"))
             for name in PROGRAMS])
        done = show(await sandbox.commands.run(f"cd {WORK} && python3 train.py"))
        if done.error or done.exit_code:
            raise RuntimeError(f"the training ended with {done.exit_code}")
        for name in RESULTS:
            path = options.into / pathlib.PurePosixPath(name).name
            path.write_bytes(await sandbox.files.read_bytes(f"{WORK}/{name}"))
            print(f"{path}: {path.stat().st_size} bytes")
        summary = json.loads((options.into / "training_summary.json").read_text(encoding="ascii"))
        print(f"{len(summary['returns'])} episodes: mean return of the first "
              f"{summary['first_mean']:.1f}, of the last {summary['last_mean']:.1f}")
        print(f"without exploration: {summary['mean_reward']:.1f}")
    finally:
        await sandbox.destroy()


if __name__ == "__main__":
    asyncio.run(main())
