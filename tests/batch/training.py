"""Trainings by the command line, of tasks as owners write them, and what they leave."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import zipfile
from pathlib import Path

from tests.batch.conftest import RUNTIME

# A task calls `counted`; KILL is the call at which the process dies, WATCH a path that kills it when it changes.
KILLS = """
import os, random, signal, threading, time
import numpy as np

calls = 0

def counted():
    global calls
    calls += 1
    if str(calls) == os.environ.get("KILL"):
        os.kill(os.getpid(), signal.SIGKILL)

def changed(path):
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0

def watch(path, before):
    while changed(path) in (0, before):
        time.sleep(0)
    os.kill(os.getpid(), signal.SIGKILL)

if "WATCH" in os.environ:
    threading.Thread(target=watch, args=(os.environ["WATCH"], changed(os.environ["WATCH"])), daemon=True).start()

def numbers():
    x = np.random.default_rng(0).normal(size=(400, 4)).astype("float32")
    return x, (x @ [1, -2, 0.5, 3] > 0).astype("float32")
"""
TORCH = f"""{KILLS}
import torch
from torch.utils.data import Dataset, random_split

class Noisy(Dataset):
    def __init__(self):
        self.x, self.y = map(torch.from_numpy, numbers())

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        noise = torch.rand(4) * 0.01 + random.random() * 0.01 + np.random.random() * 0.01
        return {{"x": (self.x[index] + noise).float(), "y": self.y[index]}}

class Task:
    def data(self):
        return random_split(Noisy(), [0.8, 0.2])

    def network(self):
        return torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Dropout(0.1), torch.nn.Linear(16, 1))

    def optimizer(self, network, learning_rate):
        return torch.optim.SGD(network.parameters(), lr=learning_rate, momentum=0.9)

    def schedule(self, optimizer, steps):
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)

    def loss(self, network, batch):
        counted()
        away = network(batch["x"])[:, 0] - batch["y"]
        return away.square().mean(), {{"mean_error": away.detach().abs().mean()}}
"""
PAIRS = """
class Task:
    def data(self):
        pairs = list(zip(*numbers(), strict=True))
        return pairs[:320], pairs[320:]

    def collate(self, examples):
        counted()
        x, y = zip(*examples, strict=True)
        return np.array(x), np.array(y)
"""
SCIKIT_LEARN = f"""{KILLS}
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss
{PAIRS}
    def estimator(self, learning_rate):
        return SGDClassifier(loss="log_loss", learning_rate="constant", eta0=learning_rate)

    def fit(self, estimator, batch):
        estimator.partial_fit(*batch, classes=[0, 1])

    def loss(self, estimator, batch):
        return log_loss(batch[1], estimator.predict_proba(batch[0]), labels=[0, 1])
"""
JAX = f"""{KILLS}
import jax, optax
import jax.numpy as jnp
{PAIRS}
    def network(self, seed):
        return {{"a": jax.random.normal(jax.random.key(seed), (4, 16)) / 3, "b": jnp.zeros((16, 1))}}

    def optimizer(self, learning_rate, steps):
        return optax.adam(optax.cosine_decay_schedule(learning_rate, steps))

    def loss(self, weights, batch, key):
        x, y = batch
        inner = jnp.tanh(x @ weights["a"])
        if key is not None:
            inner *= jax.random.bernoulli(key, 0.9, inner.shape) / 0.9
        away = (inner @ weights["b"])[:, 0] - y
        return (away**2).mean(), {{"mean_error": jnp.abs(away).mean()}}
"""
KERAS = f"""{KILLS}
import keras, tensorflow
{PAIRS}
    def network(self):
        layers = keras.layers
        inner = [layers.Dense(16, "tanh"), layers.BatchNormalization(), layers.Dropout(0.2)]
        model = keras.Sequential([keras.Input((4,)), *inner, layers.Dense(1, "sigmoid")])
        rate = keras.optimizers.schedules.CosineDecay(0.01, 100)
        model.compile(keras.optimizers.Adam(rate), "binary_crossentropy", metrics=["accuracy"])
        return model
"""
# Any class with partial_fit: what needs no package of the framework.
PLAIN = f"""{KILLS}
class Scores:
    def __init__(self, rate):
        self.rate, self.weights = rate, np.zeros(4)

    def partial_fit(self, x, y):
        self.weights += self.rate * x.T @ (y - 1 / (1 + np.exp(-x @ self.weights)))
{PAIRS}
    estimator = Scores

    def loss(self, estimator, batch):
        x, y = batch
        away = y - 1 / (1 + np.exp(-x @ estimator.weights))
        return (away**2).mean(), {{"accuracy": (abs(away) < 0.5).mean()}}
"""


def write_task(folder: Path, task: str, package: str = "own") -> None:
    """Write a package with a task below `folder`/src."""
    own = folder / "src" / package
    own.mkdir(parents=True, exist_ok=True)
    (own / "__init__.py").touch()
    (own / "task.py").write_text(task)


def train(
    python: str | Path, folder: Path, output: Path, *options: str, processes: int = 1, **more: str
) -> subprocess.CompletedProcess[str]:
    """Train the task below a folder, with one thread, so that sums are always added up in the same order."""
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    environment |= {"PYTHONPATH": f"{folder / 'src'}{os.pathsep}{RUNTIME}", "OMP_NUM_THREADS": "1", **more}
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"] if processes > 1 else []
    own = ["-m", "gpu_repo_runtime.batch", "own", "train", "--device", "cpu", "--output", output, *options]
    return subprocess.run(
        [python, *launch, *own], env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def outcome(output: Path) -> dict[str, object]:
    """Return the bytes of the weights for a service, and the course without times and training losses.

    The last digit of a mean training loss depends on how many starts it was summed up in.

    Keras writes the date and the addresses of its objects into the rest of its file, and so into the lock.
    """
    with (output / "metrics.csv").open() as file:
        course = [
            {k: v for k, v in row.items() if k not in ("seconds", "training_loss")} for row in csv.DictReader(file)
        ]
    files = [path for path in sorted((output / "weights").rglob("*")) if path.is_file()]
    weights = {path.name: path.read_bytes() for path in files}
    if "best.keras" in weights:
        weights = {"best.keras": zipfile.ZipFile(io.BytesIO(weights["best.keras"])).read("model.weights.h5")}
    return {"weights": weights, "course": course}
