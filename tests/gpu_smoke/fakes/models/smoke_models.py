"""Models for the tests: one that is right, ones that are wrong in form, and one whose answers a test gives."""

import os


class Model:
    """Doubles numbers; the same on every device."""

    examples = (1.0, 2.5, -3.0)
    tolerance = 1e-3

    def load(self, device):
        assert device in ("cpu", "cuda")
        self.device = device

    def predict(self, batch):
        return [{"label": "even" if x % 2 == 0 else "odd", "score": 2 * x, "vector": [x, x + 1]} for x in batch]


class ChangesItsBatch(Model):
    examples = ([1.0], [2.5])

    def predict(self, batch):
        for one in batch:
            one[0] *= 2
        return [one[0] for one in batch]


class NoLoad(Model):
    def load(self, device):
        raise FileNotFoundError("weights.bin is not there")


class NoExamples(Model):
    examples = ()


class Given:
    """Answers what the variable of its device contains, an expression of Python."""

    examples = (0,)

    def load(self, device):
        self.answer = os.environ[f"GIVEN_{device.upper()}"]

    def predict(self, batch):
        return eval(self.answer, {"nan": float("nan"), "inf": float("inf")})
