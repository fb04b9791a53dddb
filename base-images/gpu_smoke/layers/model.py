"""Layer model: the project's own model gives the same predictions on GPU and CPU."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import math
import os
import sys
from typing import Any

from .. import explanations
from ..host import clean
from ..isolate import Facts, Session
from ..spec import LayerSpec
from ..verdicts import SKIP, Context, Layer, finding
from .framework import explain_text

NAME, TITLE, LEVEL = "model", "the project's model", "model"
TOLERANCE = 1e-3
MOST_SHOWN = 5


def probe(context: Context, session: Session) -> Facts:
    """Load the class, predict its examples on CPU and, where one works, on a GPU.

    Facts: ``stage`` and ``error`` of a failure, else ``items``, ``compared``, ``tolerance``, ``differences`` (texts).
    """
    facts: Facts = {"stage": "load", "compared": False}
    try:
        session.note(f"import {context.options.model}")
        model_class = _find(context.options.model)
        examples = list(getattr(model_class, "examples", []) or [])
        facts.update(items=len(examples), tolerance=_tolerance(model_class))
        if examples:
            on_cpu = _answers(_predict(session, model_class, "cpu", examples, facts), len(examples))
            if _gpu(context):
                on_gpu = _predict(session, model_class, "cuda", examples, facts)
                found = differences(on_cpu, on_gpu, facts["tolerance"])
                facts.update(compared=True, count=len(found), differences=found[:MOST_SHOWN])
        facts["stage"] = ""
    except Exception as error:
        facts["error"] = clean(f"{type(error).__name__}: {error}", 1000)
    return facts


def _gpu(context: Context) -> bool:
    started = context.fact("driver-init", "rc") == 0 and bool(context.fact("driver-init", "devices"))
    return started and not context.hung("kernels", "memory", "runtime", "framework")


def _find(entry: str) -> type:
    """Import ``MODULE:CLASS``; the working folder and its ``src`` come first, as in a checkout."""
    module, _, name = entry.partition(":")
    for folder in (os.path.join(os.getcwd(), "src"), os.getcwd()):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    found: type = getattr(importlib.import_module(module), name)
    return found


def _predict(session: Session, model_class: type, device: str, examples: list[Any], facts: Facts) -> Any:
    facts["stage"] = "load"
    session.note(f"load({device!r})")
    model = model_class()
    load(model, device)
    facts["stage"] = "predict"
    session.note(f"predict() on {device}")
    # A copy: a model that changes its batch would be given other examples on the GPU.
    return predictions(model, copy.deepcopy(examples))


def _answers(found: Any, count: int) -> list[Any]:
    """Return the predictions. Raises TypeError where they are not one for each example: nothing could be compared."""
    answers = _plain(found)
    if not isinstance(answers, list) or len(answers) != count:
        what = f"a list of {len(answers)}" if isinstance(answers, list) else type(found).__name__
        raise TypeError(f"predict() of {count} examples gave {what}, not a list of {count}")
    return answers


def _tolerance(model_class: type) -> float:
    """Return what the class allows; one that allows everything, or nothing at all, compares nothing."""
    value = float(getattr(model_class, "tolerance", TOLERANCE))
    if not 0 <= value < math.inf:
        raise ValueError(f"the class's tolerance is {value:g}, not a finite number of 0 or more")
    return value


def load(model: Any, device: str) -> None:
    """Load a model, with the folder of its weights where it asks for that as a service or a job gives it."""
    if all(map(_is_there, ("gpu_repo_runtime", "gpu_repo_runtime.weights"))):
        importlib.import_module("gpu_repo_runtime.weights").load(model, device)
    else:
        model.load(device)


def predictions(model: Any, examples: list[Any]) -> Any:
    """Return what a model says to its examples; one that says its types gets them as a service or a job gives them."""
    if all(map(_is_there, ("pydantic", "gpu_repo_runtime", "gpu_repo_runtime.interface"))):
        interface = importlib.import_module("gpu_repo_runtime.interface").Interface(model)
        if not interface.dated:
            return interface.answers(examples)
    return model.predict(list(examples))


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


def differences(left: Any, right: Any, tolerance: float, where: str = "") -> list[str]:
    """Compare two results (strings equal, numbers within ``tolerance``); return a text for each difference."""
    left, right = _plain(left), _plain(right)
    name = where or "result"
    if isinstance(left, dict) and isinstance(right, dict):
        if left.keys() != right.keys():
            return [f"{name}: keys {sorted(map(str, left))} and {sorted(map(str, right))}"]
        pairs = [(f"{where}[{key!r}]", left[key], right[key]) for key in left]
    elif isinstance(left, list) and isinstance(right, list):
        if len(left) != len(right):
            return [f"{name}: {len(left)} and {len(right)} items"]
        pairs = [(f"{where}[{n}]", a, b) for n, (a, b) in enumerate(zip(left, right, strict=False))]
    else:
        return [] if _same(left, right, tolerance) else [clean(f"{name}: CPU {left!r}, GPU {right!r}", 200)]
    return [text for at, a, b in pairs for text in differences(a, b, tolerance, at)]


def _plain(value: Any) -> Any:
    """Turn tuples, arrays and tensors into lists and numbers."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def _same(left: Any, right: Any, tolerance: float) -> bool:
    numbers = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in (left, right))
    if not numbers:
        return type(left) is type(right) and bool(left == right)
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    return bool(left == right or abs(left - right) <= tolerance)


def evaluate(context: Context) -> Layer:
    """Decide on the model; without a GPU it may run, but it does not pass."""
    facts, entry = context.facts.get(NAME, {}), context.options.model
    layer = Layer(NAME, TITLE, LEVEL if entry else "")
    if facts.get("fault"):
        layer.findings.append(explanations.explain_death(context, facts["fault"], entry, "GS916", value=entry))
    elif "not_run" in facts or not facts:
        layer.state, layer.summary = SKIP, facts.get("not_run", "not run")
    elif facts.get("error"):
        code = {"load": "GS911", "predict": "GS913"}[facts["stage"]]
        layer.findings.append(explain_text(context, code, facts["error"], value=entry))
    elif not facts.get("items"):
        layer.findings.append(finding(context, "GS914", entry))
    elif not facts.get("compared"):
        layer.state, layer.summary = SKIP, f"CPU only: {facts['items']} examples predicted"
        layer.findings.append(finding(context, "GS915", entry))
    elif facts["count"]:
        evidence = f"{facts['count']} differences over {facts['tolerance']:g}: " + "; ".join(facts["differences"])
        layer.findings.append(finding(context, "GS912", evidence, value=facts["differences"][0]))
    else:
        layer.summary = f"{facts['items']} examples, GPU and CPU agree within {facts['tolerance']:g}"
    return layer.settle()


def idle(context: Context) -> str:
    """Say why there is no model to ask."""
    return "" if context.options.model else "no --model given"


LAYERS = (LayerSpec(NAME, 160, evaluate, probe, "model", workload=True, idle=idle),)
