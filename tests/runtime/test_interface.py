"""What a model.py says of its types: read from names or annotations, and told in one line where that does not work."""

from __future__ import annotations

import pytest
from gpu_repo_runtime.contract import ContractError
from gpu_repo_runtime.interface import Answer, Interface, WrongAnswer

from tests.runtime.kinds import KINDS, model

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


def test_annotations_alone_are_enough() -> None:
    found = interface(
        BODY.format(predict="def predict(self, batch: list[str]) -> list[float]: return [0.5] * len(batch)")
    )
    assert (found.input, found.output, found.parameters, found.deprecations) == (str, float, None, [])


def test_a_model_of_version_0_2_runs_on_and_is_told_once_what_to_write() -> None:
    answer = "return [dict(label=text) for text in batch]"
    found = interface(BODY.format(predict=f"def predict(self, batch): {answer}"))
    [line] = found.deprecations
    assert line.startswith("src/kind/model.py does not define its input and output")
    assert "Input = str" in line
    assert (found.answers(["rain"]), found.output) == ([{"label": "rain"}], Answer)
    for output in ("dict", "dict[str, str]"):
        found = interface(BODY.format(predict=f"def predict(self, batch: list[str]) -> list[{output}]: {answer}"))
        assert (found.answers(["rain"]), found.deprecations) == ([{"label": "rain"}], [])


def test_any_json_value_is_an_output() -> None:
    value = {"words": ["a", "b"], "nested": {"list": [{"n": 1}, None, True, 1.5]}}
    for output in ("dict", "dict[str, Any]", "Any"):
        predict = f"def predict(self, batch: list[str]) -> list[{output}]: return [{value}]"
        found = interface("from typing import Any\n" + BODY.replace("{predict}", predict))
        assert (found.answers(["rain"]), found.deprecations) == ([value], [])


def test_lengths_is_told_to_be_size_now() -> None:
    source = "Input = str\n" + BODY.format(predict="def predict(self, batch) -> list[str]: return batch")
    source += "    def lengths(self, texts): return [1] * len(texts)\n"
    found = interface(source)
    assert found.size is None
    assert found.deprecations == [
        "src/kind/model.py: lengths(texts) is from version 0.2: write def size(self, one: Input) -> int"
    ]


REFUSED = {
    "two arguments, no type": ("", "def predict(self, batch, extra): ...", "write class Parameters(BaseModel)"),
    "three arguments": ("", "def predict(self, a, b, c): ...", "predict takes a, b, c"),
    "parameters not taken": ("Parameters = dict\n", "def predict(self, batch): ...", "predict does not take them"),
    "names against annotations": (
        "Input = str\n",
        "def predict(self, batch: list[int]) -> list[str]: ...",
        "Input is str, but predict says list[int]",
    ),
    "no JSON": ("import array\nInput = array.array\n", "def predict(self, batch): ...", "which JSON does not have"),
    "raw bytes": (
        "from pydantic import BaseModel\nclass Input(BaseModel):\n    image: bytes\n",
        "def predict(self, batch): ...",
        "Input is or contains bytes, which JSON does not have: write Bytes, from gpu_repo_runtime.inputs import Bytes",
    ),
    "bytes in a list": ("Input = list[bytes]\n", "def predict(self, batch): ...", "is or contains bytes"),
    "parameters without defaults": (
        "from pydantic import BaseModel\nclass Parameters(BaseModel):\n    top: int\n",
        "def predict(self, batch, parameters: Parameters): ...",
        "Parameters needs a default for each field, for requests without: top",
    ),
}


def test_what_cannot_work_is_refused_with_the_file_and_what_to_write() -> None:
    for case, (head, predict, words) in REFUSED.items():
        with pytest.raises(ContractError) as caught:
            interface(head + BODY.format(predict=predict))
        assert str(caught.value).startswith("src/kind/model.py: "), case
        assert words in str(caught.value), case
        assert "\n" not in str(caught.value), case


def test_examples_that_are_no_inputs_are_refused() -> None:
    source = "Input = str\n" + BODY.format(predict="def predict(self, batch) -> list[str]: ...")
    for examples, words in (("(1,)", r"examples\[0\] is not an Input"), ("()", "examples is empty")):
        with pytest.raises(ContractError, match=rf"Model\.{words}"):
            interface(source.replace('("one", "two")', examples)).examples()


def test_answers_that_are_no_list_of_the_right_length_are_wrong() -> None:
    found = interface("Output = float\nInput = str\n" + BODY.format(predict="def predict(self, batch): return self.a"))
    for answers in (None, {"a": 1, "b": 2}, "ab", iter([1.0, 2.0]), [1.0], [1.0, 2.0, 3.0]):
        found.model.a = answers  # type: ignore[attr-defined]
        with pytest.raises(WrongAnswer, match="predict returned"):
            found.call(["one", "two"])


def test_a_model_may_empty_the_list_that_it_is_given() -> None:
    """Whoever calls the model still needs them."""
    for body in ("[batch.pop(0) for _ in range(len(batch))]", "(list(batch), batch.clear())[0]"):
        found = interface("Input = Output = str\n" + BODY.format(predict=f"def predict(self, batch): return {body}"))
        given = ["one", "two"]
        assert (found.call(given), given) == (["one", "two"], ["one", "two"])


def test_a_model_that_empties_its_list_and_answers_nothing_is_wrong() -> None:
    empties = "def predict(self, batch): return batch.clear() or batch"
    with pytest.raises(WrongAnswer, match="0 answers for 2 inputs"):
        interface("Input = Output = str\n" + BODY.format(predict=empties)).call(["one", "two"])


def test_an_answer_that_is_no_output_is_named_by_its_place_and_its_value_is_not() -> None:
    found = interface(KINDS["image"])
    fine = {"labels": [], "bright": 1.0}
    for wrong, index in (
        (None, 0),
        ({"labels": [], "bright": "secret"}, 1),
        ([], 2),
        ({"labels": ["a", 5], "bright": 0}, 1),
    ):
        with pytest.raises(WrongAnswer) as caught:
            found.checked([fine] * index + [wrong, fine])
        assert caught.value.index == index
        assert "secret" not in str(caught.value)


def test_numbers_of_numpy_are_outputs() -> None:
    numpy = pytest.importorskip("numpy")
    found = interface("Output = float\nInput = str\n" + BODY.format(predict="def predict(self, batch): ..."))
    assert found.checked([numpy.float32(0.5), numpy.float64(1)]) == [0.5, 1.0]
