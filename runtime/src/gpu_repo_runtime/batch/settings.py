"""The options of a run and what the environment says about shards."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from .exits import BadConfiguration
from .inputs import Dialect
from .parts import Limits
from .schema import Asked


@dataclass(frozen=True)
class Shard:
    """Which part of the work is this process's: shard `index` of `count`, and in it worker `worker` of `workers`."""

    index: int = 0
    count: int = 1
    worker: int = 0
    workers: int = 1

    @property
    def numbers(self) -> list[int]:
        """Return what tells this process from all others of the job, nothing where it is alone."""
        return [*([self.index] if self.count > 1 else []), *([self.worker] if self.workers > 1 else [])]

    def wants(self, file_index: int, part: int, shared: bool) -> bool:
        """Tell whether this process does a part. Neighbouring parts go to different shards.

        shared: it is one of small files, whose parts are all one process's: where one ends, only reading tells.
        """
        number = file_index + (0 if shared else part)
        return number % self.count == self.index and number // self.count % self.workers == self.worker


@dataclass(frozen=True)
class RunOptions:
    """The options of `run`; see its --help for each."""

    package: str
    input: list[str]
    output: str
    format: str | None
    dialect: Dialect
    limit: int | None
    asked: Asked
    parameters: list[str]
    same_input: bool
    on_error: str
    max_bad: float
    device: str
    batch_size: int | None
    limits: Limits
    shard: Shard
    grace: float
    metrics_file: str | None
    push_gateway: str | None


def find_shard(option: str | None, environment: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """Return (index, count) of the shard: from --shard I/N, from a Kubernetes Indexed Job, from torchrun or both.

    Raises BadConfiguration when they make no sense.
    """
    index, count = _given_shard(option, environment)
    ranks = environment.get("LOCAL_WORLD_SIZE")
    if ranks and ranks == environment.get("WORLD_SIZE") and (option or "JOB_COMPLETION_INDEX" in environment):
        # torchrun counts from 0 in each pod of its own: the pods' shards are cut once more.
        rank, ranks_there = _checked(environment.get("RANK", ""), ranks, "RANK and WORLD_SIZE")
        return index * ranks_there + rank, count * ranks_there
    if ranks and not option:
        # One torchrun over several pods: its ranks count all of them.
        return _checked(environment.get("RANK", ""), environment.get("WORLD_SIZE", ""), "RANK and WORLD_SIZE")
    return index, count


def _given_shard(option: str | None, environment: Mapping[str, str]) -> tuple[int, int]:
    if option:
        index, slash, count = option.partition("/")
        return _checked(index, count if slash else "", f"--shard {option}")
    if "JOB_COMPLETION_INDEX" in environment:
        # Kubernetes gives the index and not the count, so the manifest has to pass it.
        return _checked(
            environment["JOB_COMPLETION_INDEX"],
            environment.get("JOB_COMPLETIONS", ""),
            "JOB_COMPLETION_INDEX and JOB_COMPLETIONS (it has to be the completions of the Job)",
        )
    if "WORLD_SIZE" in environment:
        return _checked(environment.get("RANK", ""), environment["WORLD_SIZE"], "RANK and WORLD_SIZE")
    return 0, 1


def _checked(index: str, count: str, source: str) -> tuple[int, int]:
    try:
        pair = int(index), int(count)
    except ValueError:
        raise BadConfiguration(f"{source}: the shard needs an index and a count, for example 0/4") from None
    if pair[1] < 1:
        raise BadConfiguration(f"{source}: the count has to be 1 or more")
    if not 0 <= pair[0] < pair[1]:
        raise BadConfiguration(f"{source}: the index {pair[0]} has to be 0 to {pair[1] - 1}, below the count {pair[1]}")
    return pair
