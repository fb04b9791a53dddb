"""Networks in PyTorch that are larger than a GPU: sharded over several (FSDP), activations computed again."""

from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint

from ..batch.exits import BadConfiguration

# The whole state, in the memory of the CPU: any number of processes, sharded or not, goes on from it.
WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)


def blocks_of(task: Any, network: nn.Module) -> list[nn.Module]:
    """Return the parts of the network that are sharded and computed again one by one.

    Those that the task's own `blocks(network)` names; else the members of each outermost ModuleList, which hold
    the layers of a transformer; else those of a network that is a Sequential itself.
    """
    if hasattr(task, "blocks"):
        return list(task.blocks(network))
    if isinstance(network, nn.Sequential):
        return list(network)
    return [block for found in _lists(network) for block in found]


def _lists(module: nn.Module) -> list[nn.ModuleList]:
    if isinstance(module, nn.ModuleList):
        return [module]
    return [found for child in module.children() for found in _lists(child)]


def compute_again(blocks: list[nn.Module]) -> None:
    """Keep no activations inside of the blocks: the backward pass computes them again. Raises BadConfiguration."""
    if not blocks:
        raise BadConfiguration(
            "--gradient-checkpointing finds no blocks: the network has no ModuleList; name them in a method "
            "blocks(self, network) of task.py"
        )
    for block in blocks:
        block.forward = partial(_checkpointed, block, block.forward)


def _checkpointed(block: nn.Module, forward: Any, *inputs: Any, **named: Any) -> Any:
    if not (block.training and torch.is_grad_enabled()):
        return forward(*inputs, **named)
    return checkpoint(forward, *inputs, use_reentrant=False, **named)


def shard(network: nn.Module, blocks: list[nn.Module], precision: torch.dtype) -> None:
    """Leave on each process its share of weights, gradients and the optimizer's state; a block that computes is whole.

    All processes have to call it, with the same weights. precision: of the weights while they compute.
    """
    policy = MixedPrecisionPolicy(param_dtype=None if precision == torch.float32 else precision)
    for block in blocks:
        if any(True for _ in block.parameters()):
            fully_shard(block, mp_policy=policy, reshard_after_forward=True)
    fully_shard(network, mp_policy=policy, reshard_after_forward=True)


def state_of(network: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return the state of both by the names of the weights, whole on the first process; all have to call it."""
    weights, moments = get_state_dict(network, optimizer, options=WHOLE)
    return {"network": weights, "optimizer": moments}


def take_back(network: nn.Module, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Give both the state that `state_of` returned, each process its share.

    Raises errors of torch for the state of another network.
    """
    set_state_dict(
        network, optimizer, model_state_dict=state["network"], optim_state_dict=state["optimizer"], options=WHOLE
    )
