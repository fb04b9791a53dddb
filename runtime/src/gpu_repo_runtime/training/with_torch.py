"""Training with PyTorch by Accelerate: mixed precision, accumulation, DistributedDataParallel, FSDP, checkpoints."""

import atexit
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object, send_to_device
from torch.optim.lr_scheduler import ConstantLR
from torch.utils.data import DataLoader

from . import engine

PRECISIONS = {"float32": "no", "bfloat16": "bf16", "float16": "fp16"}


class Engine(engine.Engine):
    """Contains network, optimizer and schedule."""

    applies = tuple(engine.DEFAULTS)

    def __init__(self, task: Any, options: Namespace, steps: int) -> None:
        super().__init__(task, options, steps)
        auto = "bfloat16" if options.device == "cuda" and torch.cuda.is_bf16_supported() else "float32"
        self._accelerator = Accelerator(
            cpu=options.device == "cpu",
            mixed_precision=PRECISIONS[auto if options.precision == "auto" else options.precision],
            gradient_accumulation_steps=options.accumulate,
            step_scheduler_with_optimizer=False,
        )
        atexit.register(self._accelerator.end_training)
        network = task.network()
        own = getattr(task, "optimizer", lambda network, rate: torch.optim.AdamW(network.parameters(), lr=rate))
        optimizer = own(network, options.learning_rate)
        schedule = getattr(task, "schedule", lambda optimizer, _: ConstantLR(optimizer, 1.0))(optimizer, steps)
        self.model, self._optimizer, self._schedule = self._accelerator.prepare(network, optimizer, schedule)

    def load(self, examples: Any, batches: list[list[int]]) -> Iterable[Any]:
        device, collate = self._accelerator.device, getattr(self.task, "collate", None)
        more = {"num_workers": self.options.num_workers, "pin_memory": device.type == "cuda"}
        loader = DataLoader(examples, batch_sampler=batches, collate_fn=collate, **more)
        return (send_to_device(batch, device, non_blocking=True) for batch in loader)

    def learn(self, batch: Any) -> torch.Tensor:
        self.model.train()
        with self._accelerator.accumulate(self.model):
            loss: torch.Tensor = engine.named(self.task.loss(self.model, batch))["loss"]
            self._accelerator.backward(loss)
            if self._accelerator.sync_gradients:
                self._accelerator.clip_grad_norm_(self.model.parameters(), self.options.clip)
            self._optimizer.step()
            if self._accelerator.sync_gradients:
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

    def gather(self, values: list[Any]) -> list[Any]:
        return list(gather_object(values))
