"""What a model.py says of its types: read from names or annotations, and told in one line where that does not work."""

from __future__ import annotations

import re

import numpy as np
import pytest
from gpu_repo_runtime.contract import ContractError, import_model
from gpu_repo_runtime.interface import Answer, Interface, WrongAnswer

from tests.conftest import ROOT
from tests.runtime.kinds import KINDS, model, module

BODY = """
class Model:
    examples = ("one", "two")
    def load(self, device): ...
    {predict}
"""


def interface(source: str) -> Interface:
    return Interface(model(source))


def test_names_and_annotations_say_the_types_and_the_examples_are_inputs() -> None:
    for kind, source in KINDS.items():
        found = interface(source)
        assert found.deprecations == [], kind
        found.model.load("cpu")
        examples = found.examples()
        assert len(found.answers(examples)) == len(examples), kind
    alone = "def predict(self, batch: list[str]) -> list[float]: return [0.5] * len(batch)"
    found = interface(BODY.format(predict=alone))
    assert (found.input, found.output, found.parameters, found.deprecations) == (str, float, None, [])


def test_the_contract_on_the_page_about_own_code_is_one() -> None:
    page = (ROOT / "docs/own-code.md").read_text()
    [shown] = [block for block in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S) if "class Input" in block]
    found = interface(shown)
    assert (found.blob, found.deprecations) == ("image", [])
    assert found.parameters
    assert found.examples()


def test_a_model_of_version_0_2_runs_on_and_is_told_once_what_to_write() -> None:
    answer = "return [dict(label=text) for text in batch]"
    found = interface(BODY.format(predict=f"def predict(self, batch): {answer}"))
    [line] = found.deprecations
    assert line.startswith("src/kind/model.py does not define its input and output")
    assert "Input = str" in line
    assert (found.answers(["rain"]), found.output) == ([{"label": "rain"}], Answer)


def test_any_json_value_is_an_output() -> None:
    value = {"words": ["a", "b"], "nested": {"list": [{"n": 1}, None, True, 1.5]}}
    for output in ("dict", "dict[str, Any]", "Any"):
        predict = f"def predict(self, batch: list[str]) -> list[{output}]: return [{value}]"
        found = interface("from typing import Any\n" + BODY.replace("{predict}", predict))
        assert (found.answers(["rain"]), found.deprecations) == ([value], [])


NAMED = "from pydantic import BaseModel\nInput = str\n" + BODY.format(predict="def predict(self, batch): ...")
TOP = "Input = str\nclass Parameters(BaseModel):\n    top: int\n"
# What is changed of a model, and what is said.
REFUSED = [
    ({"class Model:": "class Other:"}, "there is no class Model"),
    ({"def load": "def other"}, "there is no Model.load: write def load"),
    ({"def predict": "def other"}, "there is no Model.predict: write def predict"),
    ({'examples = ("one", "two")': ""}, "Model.examples: there are none; write examples ="),
    ({'("one", "two")': '"one"'}, "Model.examples: expected a list of inputs, got one str"),
    ({'("one", "two")': "(1,)"}, "Model.examples: not an Input"),
    ({"batch)": "batch, extra)"}, "write class Parameters(BaseModel)"),
    ({"batch)": "batch, parameters: dict)"}, "write class Parameters(BaseModel)"),
    ({"Input = str": "Input = str\nParameters = dict"}, "write class Parameters(BaseModel)"),
    ({"Input = str": TOP, "batch)": "batch, parameters: Parameters)"}, "needs a default for each field"),
    ({"Input = str": "Input = str\nOutput = bytes"}, "Output is or contains bytes"),
    ({"Input = str": "class Input(BaseModel):\n    image: bytes"}, "from gpu_repo_runtime.inputs import Bytes"),
]


def test_what_cannot_work_is_refused_with_the_file_and_what_to_write() -> None:
    for changes, words in REFUSED:
        source = NAMED
        for old, new in changes.items():
            source = source.replace(old, new)
        module(source)
        with pytest.raises(ContractError) as caught:
            Interface(import_model("kind")).examples()
        assert str(caught.value).startswith("src/kind/model.py: "), changes
        assert words in str(caught.value), changes
        assert "\n" not in str(caught.value), changes


def test_answers_that_are_no_list_of_the_right_length_are_wrong() -> None:
    found = interface("Output = float\nInput = str\n" + BODY.format(predict="def predict(self, batch): return self.a"))
    for answers in (None, {"a": 1, "b": 2}, "ab", iter([1.0, 2.0]), [1.0], [1.0, 2.0, 3.0]):
        found.model.a = answers  # type: ignore[attr-defined]
        with pytest.raises(WrongAnswer, match="predict returned"):
            found.call(["one", "two"])


def test_numbers_of_numpy_are_outputs() -> None:
    found = interface("Output = float\nInput = str\n" + BODY.format(predict="def predict(self, batch): ..."))
    assert found.checked([np.float32(0.5), np.float64(1)]) == [0.5, 1.0]
