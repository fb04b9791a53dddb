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
from torch.utils.data import DataLoader, default_collate

from . import engine
from .data import Batches, read
from .engine import DEFAULTS, loss_and_metrics

PRECISIONS = {"float32": "no", "bfloat16": "bf16", "float16": "fp16"}


class Engine(engine.Engine):
    """Contains network, optimizer and schedule."""

    applies = tuple(DEFAULTS)

    def __init__(self, task: Any, options: Namespace, steps: int) -> None:
        super().__init__(task, options, steps)
        torch.manual_seed(options.seed)
        network = task.network()
        is_fast = options.device == "cuda" and torch.cuda.is_bf16_supported()
        usual = "bfloat16" if is_fast else "float32"
        self.precision = usual if options.precision == "auto" else options.precision
        self._accelerator = Accelerator(
            cpu=options.device == "cpu",
            mixed_precision=PRECISIONS[self.precision],
            gradient_accumulation_steps=options.accumulate,
            # A schedule then advances once a step, with however many processes.
            dataloader_config=DataLoaderConfiguration(split_batches=True),
        )
        atexit.register(self._accelerator.end_training)
        own = getattr(task, "optimizer", lambda network, rate: torch.optim.AdamW(network.parameters(), lr=rate))
        optimizer = own(network, options.learning_rate)
        self.scheduled = hasattr(task, "schedule")
        make = getattr(task, "schedule", lambda *_: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0))
        prepared = self._accelerator.prepare(network, optimizer, make(optimizer, steps))
        self._network, self._optimizer, self._schedule = prepared

    def load(self, examples: Any, batches: Batches, seed: str) -> Iterable[Any]:
        collate = getattr(self.task, "collate", default_collate)
        loader: Iterable[Any] = DataLoader(
            range(len(examples)),  # a reading process gets the indices of a batch
            batch_sampler=batches,
            collate_fn=partial(read, collate, examples, seed),
            num_workers=self.options.num_workers,
            pin_memory=self._accelerator.device.type == "cuda",
        )
        return loader

    def learn(self, batch: Any, seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        self._network.train()
        with self._accelerator.accumulate(self._network):
            loss, _ = loss_and_metrics(self.task.loss(self._network, self._moved(batch)), 1)
            self._accelerator.backward(loss)
            if self._accelerator.sync_gradients:
                self._accelerator.clip_grad_norm_(self._network.parameters(), self.options.clip)
            self._optimizer.step()
            self._schedule.step()
            self._optimizer.zero_grad()
        return loss.detach().float()

    def validate(self, batch: Any) -> Any:
        self._network.eval()
        with torch.no_grad():
            return self.task.loss(self._network, self._moved(batch))

    def save(self, folder: Path) -> None:
        self._accelerator.save_state(str(folder))

    def restore(self, folder: Path) -> None:
        self._accelerator.load_state(str(folder))

    def weights(self, folder: Path) -> None:
        state = send_to_device(self._accelerator.get_state_dict(self._network), "cpu")
        if self.rank:
            return
        if hasattr(self.task, "save"):
            self.task.save(self._accelerator.unwrap_model(self._network), folder)
        else:
            torch.save(state, folder / "best.pt")

    def gather(self, value: Any) -> list[Any]:
        return list(gather_object([value]))

    def _moved(self, batch: Any) -> Any:
        return send_to_device(batch, self._accelerator.device, non_blocking=True)
