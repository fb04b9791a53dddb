"""The command `train`: prepares a folder, trains in it, and returns the exit code."""

import fcntl
import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from .. import device
from ..batch.exits import DONE, BadConfiguration, JobError, is_mistake
from ..batch.messages import one_line, say
from ..batch.output import Output
from ..batch.stop import Stop
from .loop import Training, TrainOptions
from .task import load_task, open_engine
from .tracking import tracked

# For the step at work, and to write its checkpoint, until the process is ended.
GRACE = 100.0


def train_job(options: TrainOptions) -> int:
    """Train and return the exit code 0. Raises JobError."""
    if "://" in options.output:
        raise BadConfiguration(f"--output {options.output}: a training writes to a folder on a disk")
    try:
        return _train(options)
    except Exception as error:
        if not is_mistake(error):
            raise
        traceback.print_exc()
        raise BadConfiguration(f"the task fails (above): {one_line(error)}") from error


def _train(options: TrainOptions) -> int:
    with Stop(GRACE) as stop:
        with stop.at_once("the training was prepared"):
            task = load_task(options.package)
            options = replace(options, device=_device(options.device))
            store = _folder(options.output)
            engine = open_engine(task, options)
        try:
            with _alone(options.output) if engine.rank == 0 else nullcontext():
                with stop.at_once("the training was prepared"):
                    training = Training(task, engine, options, store)
                    training.resume()
                    training.rehearse()
                store.prepare(for_parts=False)
                with tracked(store.root, options.package, training.settings, first=engine.rank == 0) as log:
                    training.run(stop, log)
                    training.finish()
        finally:
            engine.close()
    return DONE


def _device(name: str) -> str:
    try:
        chosen = device.choose(name)
    except device.DeviceError as error:
        raise JobError(str(error)) from error
    say(device.reason(chosen))
    return chosen


def _folder(output: str) -> Output:
    try:
        Path(output).mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise BadConfiguration(f"the output {output} is a file; it has to be a folder") from None
    return Output(output)


@contextmanager
def _alone(output: str) -> Iterator[None]:
    """Keep other trainings out of this folder, if its disk has locks. Raises JobError when there is one."""
    folder = os.open(output, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(folder)
        raise JobError(f"another training is at work in {output}: wait for its end, or take another --output") from None
    except OSError:
        pass
    try:
        yield
    finally:
        os.close(folder)
