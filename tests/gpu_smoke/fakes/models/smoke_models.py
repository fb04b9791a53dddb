"""Models for the tests: one that is right, and one for each way to be wrong."""

import os
import signal
import time


class Model:
    """Doubles numbers; the same on every device."""

    examples = (1.0, 2.5, -3.0)
    tolerance = 1e-3

    def load(self, device):
        assert device in ("cpu", "cuda")
        self.device = device

    def predict(self, batch):
        return [{"label": "even" if x % 2 == 0 else "odd", "score": 2 * x, "vector": [x, x + 1]} for x in batch]


class Differs(Model):
    def predict(self, batch):
        shift = 0.5 if self.device == "cuda" else 0
        return [{"label": "a", "vector": [x, x + (shift if n == 1 else 0)]} for n, x in enumerate(batch)]


class ChangesItsBatch(Model):
    examples = ([1.0], [2.5])

    def predict(self, batch):
        for one in batch:
            one[0] *= 2
        return [one[0] for one in batch]


class NoLoad(Model):
    def load(self, device):
        raise FileNotFoundError("weights.bin is not there")


class NoPredict(Model):
    def predict(self, batch):
        raise ValueError("bad shape")


class NoExamples(Model):
    examples = ()


class Forks(Model):
    def predict(self, batch):
        raise RuntimeError("Cannot re-initialize CUDA in forked subprocess. Use the 'spawn' start method")


class Dies(Model):
    def predict(self, batch):
        os.kill(os.getpid(), signal.SIGSEGV)


class Hangs(Model):
    def predict(self, batch):
        time.sleep(600)


class Given:
    """Answers what the variable of its device says, an expression of Python."""

    examples = (0,)

    def load(self, device):
        self.answer = os.environ[f"GIVEN_{device.upper()}"]

    def predict(self, batch):
        return eval(self.answer, {"nan": float("nan"), "inf": float("inf")})
