"""One step of training with PyTorch: several GPUs by DistributedDataParallel or FSDP, mixed precision by autocast."""

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from ..batch.exits import BadConfiguration
from .engine import Recipe
from .sharding import blocks_of, compute_again, shard, state_of, take_back

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class Engine:
    """Holds network, optimizer and their state. `rank` and `world` are this process's number and the count of all."""

    suffix = ".pt"

    def __init__(self, task: Any, recipe: Recipe) -> None:
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
        self._task, self._clip = task, recipe.clip
        torch.manual_seed(recipe.seed)
        self._plain = task.network().to(self._device)
        blocks = blocks_of(task, self._plain)
        if recipe.gradient_checkpointing:
            compute_again(blocks)
        if self._sharded:
            shard(self._plain, blocks, PRECISIONS[precision])
        replicated = self.world > 1 and not self._sharded
        self._network = DistributedDataParallel(self._plain) if replicated else self._plain
        self._optimizer = torch.optim.AdamW(self._plain.parameters(), lr=recipe.learning_rate)
        self._scaler = torch.amp.GradScaler(device, enabled=precision == "float16")
        self._loss = torch.zeros((), device=self._device)

    def collate(self, examples: list[Any]) -> tuple[torch.Tensor, ...]:
        """Return examples as tensors, ready to be copied to the GPU."""
        tensors = self._task.collate(examples)
        return tuple(t.pin_memory() for t in tensors) if self._device.type == "cuda" else tensors

    def step(self, batches: Sequence[tuple[torch.Tensor, ...]], seed: int) -> None:
        """Add up the gradients of the batches, clip them, change the weights once. seed: for dropout and the like."""
        torch.manual_seed(seed)
        self._network.train()
        for number, batch in enumerate(batches):
            with self._exchanging(number == len(batches) - 1):
                with self._autocast():
                    loss, _ = self._task.loss(self._network, self._moved(batch))
                self._scaler.scale(loss / len(batches)).backward()
            self._loss += loss.detach().float() / len(batches)
        self._scaler.unscale_(self._optimizer)
        torch.nn.utils.clip_grad_norm_(self._plain.parameters(), self._clip)
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._optimizer.zero_grad(set_to_none=True)

    def take_loss(self) -> float:
        """Return the sum of the losses of all steps since the last call, the mean over all processes."""
        total = float(self._mean_loss().item())
        self._loss.zero_()
        return total

    def is_lost(self) -> bool:
        """Tell whether a loss since the last call of take_loss is not a number; all processes have to ask."""
        return bool(self._mean_loss().isnan().item())

    def evaluate(self, batches: Iterator[tuple[int, tuple[torch.Tensor, ...]]]) -> tuple[float, float]:
        """Return mean loss and share of right answers over (size, batch) of all processes, which have as many each."""
        self._network.eval()
        wide = torch.float32 if self._device.type == "mps" else torch.float64  # Metal has no float64
        sums = torch.zeros(3, dtype=wide, device=self._device)
        # What FSDP gathers in inference mode could not be trained with afterwards.
        with torch.no_grad() if self._sharded else torch.inference_mode(), self._autocast():
            for size, batch in batches:
                loss, right = self._task.loss(self._plain, self._moved(batch))
                counted = right.to(sums) * bool(size)
                sums += torch.stack([loss.to(sums) * size, counted, torch.tensor(float(size)).to(sums)])
        loss_sum, right_sum, count = self._sum(sums).tolist()
        return loss_sum / max(1, count), right_sum / max(1, count)

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
        return _to_bytes(state | {"scaler": self._scaler.state_dict(), "loss": self._mean_loss(), "extra": extra})

    def restore(self, content: bytes) -> dict[str, Any]:
        """Take back what `dump` returned; return its `extra`."""
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        take_back(self._plain, self._optimizer, state)
        self._scaler.load_state_dict(state["scaler"])
        self._loss = state["loss"].to(self._device)
        extra: dict[str, Any] = state["extra"]
        return extra

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

    def _moved(self, batch: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return tuple(tensor.to(self._device, non_blocking=True) for tensor in batch)

    def _sum(self, value: torch.Tensor) -> torch.Tensor:
        if self.world > 1:
            distributed.all_reduce(value)
        return value


def _to_bytes(value: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()
