"""cartpole.py - the cart and the pole of Barto, Sutton and Anderson (1983), with the interface and
the numbers of gymnasium's CartPole-v1, for sandboxes that have numpy only.

The same seed and the same actions give the same observations in both.
"""
import numpy as np

GRAVITY, FORCE, SECONDS_PER_STEP = 9.8, 10.0, 0.02
MASS_OF_POLE, MASS_OF_ALL, HALF_LENGTH = 0.1, 1.1, 0.5
MOMENT = MASS_OF_POLE * HALF_LENGTH
POSITION_MAX, ANGLE_MAX = 2.4, 12 * 2 * np.pi / 360
STEPS_MAX = 500


class CartPole:
    """Observations are (position, velocity, angle, angular velocity); actions 0, left, and 1."""

    def __init__(self):
        self.random, self.state, self.steps = np.random.default_rng(), None, 0

    def reset(self, *, seed=None):
        if seed is not None:
            self.random = np.random.default_rng(seed)
        self.state, self.steps = self.random.uniform(-0.05, 0.05, size=4), 0
        return np.array(self.state, dtype=np.float32), {}

    def step(self, action):
        """(observation, reward, terminated, truncated, info)"""
        x, speed, angle, turn = self.state
        sine, cosine = np.sin(angle), np.cos(angle)
        pull = ((FORCE if action else -FORCE) + MOMENT * turn * turn * sine) / MASS_OF_ALL
        turning = (GRAVITY * sine - cosine * pull) / (
            HALF_LENGTH * (4.0 / 3.0 - MASS_OF_POLE * cosine * cosine / MASS_OF_ALL))
        pushing = pull - MOMENT * turning * cosine / MASS_OF_ALL
        self.state = np.array([x + SECONDS_PER_STEP * speed, speed + SECONDS_PER_STEP * pushing,
                               angle + SECONDS_PER_STEP * turn, turn + SECONDS_PER_STEP * turning])
        self.steps += 1
        fallen = abs(self.state[0]) > POSITION_MAX or abs(self.state[2]) > ANGLE_MAX
        return (np.array(self.state, dtype=np.float32), 1.0, bool(fallen),
                self.steps >= STEPS_MAX, {})


def make(kind):
    """The environment and its name; `kind` is gymnasium, own, or auto: the first that is there."""
    if kind != "own":
        try:
            import gymnasium
            return gymnasium.make("CartPole-v1"), f"gymnasium {gymnasium.__version__}"
        except ImportError:
            if kind == "gymnasium":
                raise
    return CartPole(), "cartpole.py"
