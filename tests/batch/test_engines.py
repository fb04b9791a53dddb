"""Which framework's engine a task is trained with."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
from gpu_repo_runtime.batch.exits import BadConfiguration
from gpu_repo_runtime.training.engine import Recipe
from gpu_repo_runtime.training.task import framework_of, open_engine


def task(monkeypatch: pytest.MonkeyPatch, imports: tuple[str, ...], *methods: str) -> object:
    """Return a task of a module that imports these frameworks."""
    module = ModuleType("owners_task")
    for name in imports:
        setattr(module, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "owners_task", module)
    body = {name: lambda self: None for name in methods}
    return type("Task", (), body | {"__module__": "owners_task"})()


@pytest.mark.parametrize(
    ("imports", "method", "framework"),
    [
        ((), "estimator", "plain"),
        (("torch",), "estimator", "plain"),
        (("torch",), "network", "torch"),
        (("tensorflow",), "network", "tensorflow"),
        (("jax",), "network", "jax"),
    ],
)
def test_what_the_task_itself_imports_counts(monkeypatch, imports, method, framework):
    for name in ("torch", "tensorflow", "jax"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert framework_of(task(monkeypatch, imports, method)) == framework


def test_a_task_of_no_framework_is_refused(monkeypatch):
    with pytest.raises(BadConfiguration, match="no network"):
        framework_of(task(monkeypatch, ()))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"parallel": "fsdp"}, "--parallel fsdp"),
        ({"gradient_checkpointing": True}, "--gradient-checkpointing"),
        ({"loaders": 2}, "--loaders"),
    ],
)
def test_what_only_torch_has_is_refused_elsewhere(monkeypatch, options, named):
    with pytest.raises(BadConfiguration, match=f"{named} needs the framework torch; this task is for plain"):
        open_engine(task(monkeypatch, (), "estimator"), Recipe(device="cpu", **options))
