"""Run by a test: probe one layer of gpu-smoke in this process once for each set of the fakes' variables in $MANY."""

from __future__ import annotations

import importlib
import json
import os
import sys

from gpu_smoke.host import Host
from gpu_smoke.isolate import Session
from gpu_smoke.layers import driver_init, user_driver
from gpu_smoke.platforms import detect
from gpu_smoke.policy import Options
from gpu_smoke.row import Row
from gpu_smoke.verdicts import Context

layer = importlib.import_module(f"gpu_smoke.layers.{sys.argv[1]}")
host, env = Host(os.environ["GPU_SMOKE_ROOT"]), dict(os.environ)
context = Context(host, env, detect(host, env), Row("", False, {}), Options(gpus=1))
session = Session(lambda message: None)
for first in (user_driver, driver_init):
    context.facts[first.NAME] = first.probe(context, session)
answers = []
for fault in json.loads(os.environ["MANY"]):
    os.environ.update({name: str(value) for name, value in fault.items()})
    answers.append(layer.probe(context, session)["devices"][0])
    for name in fault:
        del os.environ[name]
print(json.dumps(answers))
