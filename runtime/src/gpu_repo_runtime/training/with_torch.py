"""Training with PyTorch by Accelerate: mixed precision, accumulation, DistributedDataParallel, FSDP, checkpoints."""

import atexit
from argparse import Namespace
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, gather_object, send_to_device
from torch.optim.lr_scheduler import ConstantLR
from torch.utils.data import DataLoader, default_collate

from . import engine
from .data import Batches, read

PRECISIONS = {"float32": "no", "bfloat16": "bf16", "float16": "fp16"}


class Engine(engine.Engine):
    """Contains network, optimizer and schedule."""

    applies = tuple(engine.DEFAULTS)

    def __init__(self, task: Any, options: Namespace, steps: int) -> None:
        super().__init__(task, options, steps)
        network = task.network()
        precision = options.precision
        if precision == "auto":
            is_fast = options.device == "cuda" and torch.cuda.is_bf16_supported()
            precision = "bfloat16" if is_fast else "float32"
        # A schedule depends on the number of steps.
        self.settings = {"precision": precision} | ({"epochs": options.epochs} if hasattr(task, "schedule") else {})
        self._accelerator = Accelerator(
            cpu=options.device == "cpu",
            mixed_precision=PRECISIONS[precision],
            gradient_accumulation_steps=options.accumulate,
            # A schedule then advances once a step, with however many processes.
            dataloader_config=DataLoaderConfiguration(split_batches=True),
        )
        atexit.register(self._accelerator.end_training)
        own = getattr(task, "optimizer", lambda network, rate: torch.optim.AdamW(network.parameters(), lr=rate))
        optimizer = own(network, options.learning_rate)
        schedule = getattr(task, "schedule", lambda optimizer, _: ConstantLR(optimizer, 1.0))(optimizer, steps)
        self.model, self._optimizer, self._schedule = self._accelerator.prepare(network, optimizer, schedule)

    def load(self, examples: Any, batches: Batches, seed: str) -> Iterable[Any]:
        collate = getattr(self.task, "collate", default_collate)
        device = self._accelerator.device
        loader: Iterable[Any] = DataLoader(
            range(len(examples)),  # a reading process gets the indices of a batch
            batch_sampler=batches,
            collate_fn=partial(read, collate, examples, seed),
            num_workers=self.options.num_workers,
            pin_memory=device.type == "cuda",
        )
        return (send_to_device(batch, device, non_blocking=True) for batch in loader)

    def learn(self, batch: Any, seed: int) -> torch.Tensor:
        self.model.train()
        with self._accelerator.accumulate(self.model):
            loss: torch.Tensor = self.loss(self.model, batch)
            self._accelerator.backward(loss)
            if self._accelerator.sync_gradients:
                self._accelerator.clip_grad_norm_(self.model.parameters(), self.options.clip)
            self._optimizer.step()
            self._schedule.step()
            self._optimizer.zero_grad()
        return loss.detach().float()

    def validate(self, batch: Any) -> Any:
        self.model.eval()
        with torch.no_grad():
            return self.task.loss(self.model, batch)

    def save(self, folder: Path) -> None:
        self._accelerator.save_state(str(folder))

    def restore(self, folder: Path) -> None:
        self._accelerator.load_state(str(folder))

    def weights(self, folder: Path) -> None:
        state = send_to_device(self._accelerator.get_state_dict(self.model), "cpu")  # of all processes
        if not self.rank:
            own = getattr(self.task, "save", lambda network, to: torch.save(state, to / "best.pt"))
            own(self._accelerator.unwrap_model(self.model), folder)

    def gather(self, value: Any) -> list[Any]:
        return list(gather_object([value]))
