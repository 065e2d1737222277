"""train.py - runs inside the sandbox: DQN learns to balance a pole, in numpy.

RL_TIMESTEPS, RL_SEED and RL_ENVIRONMENT (auto, own, gymnasium) say what is done. Writes
checkpoints/cartpole_dqn.npz, learning_curve.png and training_summary.json here.
"""
import json
import os
import pathlib
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the matrices are small
import numpy as np  # noqa: E402
from cartpole import make  # noqa: E402
from curve import draw  # noqa: E402

HIDDEN = 64
BATCH, REPLAY_MAX, WARM_UP = 64, 20000, 500
DISCOUNT, RATE, GRADIENT_MAX = 0.99, 1e-3, 10.0
EXPLORE_FIRST, EXPLORE_LAST, EXPLORE_PART = 1.0, 0.04, 0.3  # of the steps, until it is the last
COPY_STEPS = 250
EVALUATIONS = 5
COMPARED = 20  # episodes at the beginning and at the end
CHECKPOINT = pathlib.Path("checkpoints/cartpole_dqn.npz")


class Network:
    """Two hidden layers; values of all actions for observations."""

    def __init__(self, random, sizes):
        self.parts = []
        for rows, columns in zip(sizes, sizes[1:]):
            limit = np.sqrt(6.0 / rows)
            self.parts += [random.uniform(-limit, limit, (rows, columns)), np.zeros(columns)]
        self.moments = [(np.zeros_like(part), np.zeros_like(part)) for part in self.parts]
        self.updates = 0

    def layers(self, x):
        """Inputs of all layers, then the output."""
        found = [x]
        for i in range(0, len(self.parts), 2):
            x = x @ self.parts[i] + self.parts[i + 1]
            if i + 2 < len(self.parts):
                x = np.maximum(x, 0.0)
            found.append(x)
        return found

    def __call__(self, x):
        return self.layers(x)[-1]

    def gradients(self, layers, slope):
        """Of all parts, for the slope of the loss at the output."""
        found = []
        for i in reversed(range(0, len(self.parts), 2)):
            before = layers[i // 2]
            found += [slope.sum(axis=0), before.T @ slope]
            if i:
                slope = (slope @ self.parts[i].T) * (before > 0.0)
        return found[::-1]

    def descend(self, gradients):
        """One step of Adam, with a limit for the length of the gradient."""
        length = np.sqrt(sum(float((g * g).sum()) for g in gradients))
        scale = min(1.0, GRADIENT_MAX / (length + 1e-12))
        self.updates += 1
        rate = RATE * np.sqrt(1 - 0.999 ** self.updates) / (1 - 0.9 ** self.updates)
        for part, (mean, square), g in zip(self.parts, self.moments, gradients):
            g = g * scale
            mean += 0.1 * (g - mean)
            square += 0.001 * (g * g - square)
            part -= rate * mean / (np.sqrt(square) + 1e-8)


class Replay:
    """The newest steps, in arrays of a fixed size."""

    def __init__(self, size):
        self.before, self.after = np.zeros((size, 4)), np.zeros((size, 4))
        self.actions, self.rewards = np.zeros(size, dtype=int), np.zeros(size)
        self.ended, self.count = np.zeros(size), 0

    def add(self, before, action, reward, after, ended):
        i = self.count % len(self.ended)
        self.before[i], self.after[i], self.actions[i] = before, after, action
        self.rewards[i], self.ended[i] = reward, ended
        self.count += 1

    def sample(self, random):
        chosen = random.integers(0, min(self.count, len(self.ended)), BATCH)
        return (self.before[chosen], self.actions[chosen], self.rewards[chosen],
                self.after[chosen], self.ended[chosen])


def learn(network, target, batch):
    """Double DQN: the network chooses the next action, the older copy says what it is worth."""
    before, actions, rewards, after, ended = batch
    rows = np.arange(BATCH)
    best = network(after).argmax(axis=1)
    wanted = rewards + DISCOUNT * (1.0 - ended) * target(after)[rows, best]
    layers = network.layers(before)
    slope = np.zeros_like(layers[-1])
    slope[rows, actions] = np.clip(layers[-1][rows, actions] - wanted, -1.0, 1.0) / BATCH
    network.descend(network.gradients(layers, slope))


def train(environment, steps, seed):
    """(network, returns of the episodes)"""
    random = np.random.default_rng(seed)
    network = Network(random, (4, HIDDEN, HIDDEN, 2))
    target = Network(random, (4, HIDDEN, HIDDEN, 2))
    replay, returns, total = Replay(REPLAY_MAX), [], 0.0
    seen, _ = environment.reset(seed=seed)
    for step in range(steps):
        if step % COPY_STEPS == 0:
            target.parts = [part.copy() for part in network.parts]
        part = min(1.0, step / (EXPLORE_PART * steps))
        explore = EXPLORE_FIRST + part * (EXPLORE_LAST - EXPLORE_FIRST)
        action = int(random.integers(2)) if random.random() < explore else \
            int(network(seen[None].astype(float))[0].argmax())
        after, reward, terminated, truncated, _ = environment.step(action)
        replay.add(seen, action, reward, after, terminated)
        seen, total = after, total + reward
        if terminated or truncated:
            returns.append(total)
            total = 0.0
            seen, _ = environment.reset()
            if len(returns) % 50 == 0:
                print(f"step {step + 1}: {len(returns)} episodes, mean of the last 50 "
                      f"{np.mean(returns[-50:]):.1f}", flush=True)
        if step >= WARM_UP:
            learn(network, target, replay.sample(random))
    return network, returns


def evaluate(network, environment, seed):
    """Returns of episodes without exploration."""
    found = []
    for episode in range(EVALUATIONS):
        seen, _ = environment.reset(seed=seed + 1000 + episode)
        total, over = 0.0, False
        while not over:
            action = int(network(seen[None].astype(float))[0].argmax())
            seen, reward, terminated, truncated, _ = environment.step(action)
            total, over = total + reward, terminated or truncated
        found.append(total)
    return found


def main():
    steps, seed = int(os.environ.get("RL_TIMESTEPS", "15000")), int(os.environ.get("RL_SEED", "7"))
    environment, name = make(os.environ.get("RL_ENVIRONMENT", "auto"))
    print(f"environment: {name}; {steps} steps, seed {seed}", flush=True)
    began = time.monotonic()
    network, returns = train(environment, steps, seed)
    took = time.monotonic() - began
    rewards = evaluate(network, environment, seed)
    CHECKPOINT.parent.mkdir(exist_ok=True)
    np.savez(CHECKPOINT, *network.parts)
    pathlib.Path("learning_curve.png").write_bytes(draw(returns))
    summary = {"timesteps": steps, "mean_reward": float(np.mean(rewards)),
               "std_reward": float(np.std(rewards)), "checkpoint_path": str(CHECKPOINT),
               "environment": name, "seed": seed, "seconds": round(took, 1),
               "first_mean": float(np.mean(returns[:COMPARED])),
               "last_mean": float(np.mean(returns[-COMPARED:])), "returns": returns}
    pathlib.Path("training_summary.json").write_text(json.dumps(summary), encoding="ascii")


if __name__ == "__main__":
    main()
