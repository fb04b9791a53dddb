"""One step of training with PyTorch: several GPUs by DistributedDataParallel or FSDP, mixed precision by autocast."""

import io
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from torch.utils.data import DataLoader, default_collate

from ..batch.exits import BadConfiguration
from . import engine
from .data import begin_random, seed_of
from .engine import Recipe, loss_and_metrics
from .sharding import blocks_of, compute_again, shard, state_of, take_back

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class Examples:
    """The owner's Dataset; augmentation depends on the seed and the first index of a batch, in whichever process."""

    def __init__(self, examples: Any, seed: str) -> None:
        self._examples, self._seed = examples, seed

    def __len__(self) -> int:
        return len(self._examples)

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """Return the examples of one batch; DataLoader calls it."""
        begin_random(seed_of(self._seed, indices[0]))
        if hasattr(self._examples, "__getitems__"):
            return list(self._examples.__getitems__(indices))
        return [self._examples[index] for index in indices]


class Engine(engine.Engine):
    """Holds network, optimizer and their state. `rank` and `world` are this process's number and the count of all."""

    suffix = ".pt"

    def __init__(self, task: Any, recipe: Recipe) -> None:
        super().__init__(task)
        device, precision = recipe.device, recipe.precision
        self.rank, self.world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        if self.world > 1 and not distributed.is_initialized():
            distributed.init_process_group("nccl" if device == "cuda" else "gloo")
        self._device = torch.device(device)
        if precision == "auto":
            precision = "bfloat16" if device == "cuda" and torch.cuda.is_bf16_supported() else "float32"
        if precision == "float16" and device != "cuda":
            raise BadConfiguration(f"--precision float16 needs an NVIDIA GPU; {device} has float32 and bfloat16")
        # One process has nothing to share out, and goes on from what many left.
        self._sharded = recipe.parallel == "fsdp" and self.world > 1
        if self._sharded and precision == "float16":
            raise BadConfiguration("--parallel fsdp has bfloat16 and float32: leave --precision float16 out")
        self.precision = precision
        self._clip, self._loaders = recipe.clip, recipe.loaders
        torch.manual_seed(recipe.seed)
        self._plain = task.network().to(self._device)
        blocks = blocks_of(task, self._plain)
        if recipe.gradient_checkpointing:
            compute_again(blocks)
        if self._sharded:
            shard(self._plain, blocks, PRECISIONS[precision])
        replicated = self.world > 1 and not self._sharded
        self._network = DistributedDataParallel(self._plain) if replicated else self._plain
        own = getattr(task, "optimizer", lambda network, rate: torch.optim.AdamW(network.parameters(), lr=rate))
        self._optimizer: torch.optim.Optimizer = own(self._plain, recipe.learning_rate)
        self._schedule: LRScheduler | None = None
        self._scaler = torch.amp.GradScaler(device, enabled=precision == "float16")
        self._loss = torch.zeros((), device=self._device)

    def schedule(self, steps: int) -> bool:
        """Create the task's schedule of the learning rate for so many steps; return whether it has one."""
        if not hasattr(self._task, "schedule"):
            return False
        self._schedule = self._task.schedule(self._optimizer, steps)
        if isinstance(self._schedule, ReduceLROnPlateau) or not isinstance(self._schedule, LRScheduler):
            raise BadConfiguration(
                f"schedule() of task.py: expected a scheduler of torch.optim.lr_scheduler that advances each step; got "
                f"{type(self._schedule).__name__}"
            )
        return True

    def collate(self, examples: list[Any]) -> Any:
        """Return examples as tensors: by the task's `collate`, else as DataLoader does."""
        return getattr(self._task, "collate", default_collate)(examples)

    def load(self, examples: Any, batches: list[list[int]], seed: str) -> Generator[Any]:
        """Yield a batch for each list of indices; `loaders` processes read them ahead."""
        yield from DataLoader(
            Examples(examples, seed),
            batch_sampler=batches,
            collate_fn=self.collate,
            num_workers=self._loaders,
            pin_memory=self._device.type == "cuda",
        )

    def step(self, batches: Sequence[Any], seed: int) -> None:
        """Add up the gradients of the batches, clip them, change the weights once. seed: for dropout and the like."""
        torch.manual_seed(seed)
        self._network.train()
        for number, batch in enumerate(batches):
            with self._exchanging(number == len(batches) - 1):
                with self._autocast():
                    loss, _ = loss_and_metrics(self._task.loss(self._network, self._moved(batch)), 1)
                self._scaler.scale(loss / len(batches)).backward()
            self._loss += loss.detach().float() / len(batches)
        self._scaler.unscale_(self._optimizer)
        torch.nn.utils.clip_grad_norm_(self._plain.parameters(), self._clip)
        self._scaler.step(self._optimizer)
        self._scaler.update()
        if self._schedule:
            self._schedule.step()
        self._optimizer.zero_grad(set_to_none=True)

    def take_loss(self) -> float:
        """Return the sum of the losses of all steps since the last call, the mean over all processes."""
        total = float(self._mean_loss().item())
        self._loss.zero_()
        return total

    def is_lost(self) -> bool:
        """Tell whether a loss since the last call of take_loss is not a number; all processes have to ask."""
        return bool(self._mean_loss().isnan().item())

    def validate(self, batch: Any) -> Any:
        """Return what the task's `loss` returns for a batch, without training."""
        return self._task.loss(self._plain, self._moved(batch))

    def evaluate(self, batches: Iterator[tuple[int, Any]]) -> dict[str, float]:
        """Return the mean loss and metrics over (size, batch) of all processes, which have as many batches each."""
        self._network.eval()
        wide = torch.float32 if self._device.type == "mps" else torch.float64  # Metal has no float64
        names: list[str] = []
        sums = torch.zeros(0, dtype=wide, device=self._device)
        # What FSDP gathers in inference mode could not be trained with afterwards.
        with torch.no_grad() if self._sharded else torch.inference_mode(), self._autocast():
            for size, batch in batches:
                loss, metrics = loss_and_metrics(self.validate(batch), size)
                found = {"loss": loss, **metrics}
                names = names or list(found)
                means = [torch.as_tensor(found[name]).to(sums) for name in names]
                counted = torch.stack([*means, torch.ones_like(means[0])]) * size
                sums = sums + counted if len(sums) else counted
        *totals, count = self._sum(sums).tolist()
        return {name: total / max(1, count) for name, total in zip(names, totals, strict=True)}

    def any(self, flag: bool) -> bool:
        """Tell whether the flag is set in any process; all have to ask."""
        if self.world == 1:
            return flag
        return bool(self._sum(torch.tensor(float(flag), device=self._device)).item())

    def weights(self) -> bytes:
        """Return the weights alone; all processes have to call it."""
        return _to_bytes(state_of(self._plain, self._optimizer)["network"])

    def dump(self, extra: dict[str, Any]) -> bytes:
        """Return everything that the next step depends on, and `extra`; all processes have to call it."""
        state = state_of(self._plain, self._optimizer)
        schedule = self._schedule.state_dict() if self._schedule else None
        own = {"scaler": self._scaler.state_dict(), "schedule": schedule}
        return _to_bytes(state | own | {"loss": self._mean_loss(), "extra": extra})

    def restore(self, content: bytes) -> dict[str, Any]:
        """Take back what `dump` returned; return its `extra`."""
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        take_back(self._plain, self._optimizer, state)
        self._scaler.load_state_dict(state["scaler"])
        if self._schedule:
            self._schedule.load_state_dict(state["schedule"])
        self._loss = state["loss"].to(self._device)
        return dict(state["extra"])

    def close(self) -> None:
        """Leave the group of processes."""
        if distributed.is_initialized():
            distributed.destroy_process_group()

    @contextmanager
    def _exchanging(self, last: bool) -> Iterator[None]:
        """Let the processes exchange their gradients after the last batch of a step only."""
        if self._sharded:
            self._network.set_requires_gradient_sync(last)
        alone = self.world > 1 and not last and not self._sharded
        with self._network.no_sync() if alone else nullcontext():
            yield

    def _mean_loss(self) -> torch.Tensor:
        return self._sum(self._loss.clone()) / self.world

    def _autocast(self) -> torch.autocast:
        enabled = self.precision != "float32"
        return torch.autocast(self._device.type, PRECISIONS[self.precision], enabled=enabled)

    def _moved(self, batch: Any) -> Any:
        """Return a batch of any shape with its tensors on the device."""
        if isinstance(batch, torch.Tensor):
            return batch.to(self._device, non_blocking=True)
        if isinstance(batch, Mapping):
            return {name: self._moved(value) for name, value in batch.items()}
        if isinstance(batch, tuple | list):
            return type(batch)(map(self._moved, batch)) if type(batch) in (tuple, list) else batch
        return batch

    def _sum(self, value: torch.Tensor) -> torch.Tensor:
        if self.world > 1:
            distributed.all_reduce(value)
        return value


def _to_bytes(value: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()
