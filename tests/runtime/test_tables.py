"""A model that takes a table gets the columns of Input, in the same types whatever the rows hold; and is served."""

from __future__ import annotations

import datetime
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from gpu_repo_runtime.contract import ContractError
from gpu_repo_runtime.interface import Interface, WrongAnswer
from gpu_repo_runtime.tables import answer_columns

from tests.runtime.kinds import model
from tests.runtime.served import asked_together, serve

SOURCE = """
    import datetime

    import numpy as np
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute
    from pydantic import BaseModel


    class Input(BaseModel):
        x: float
        count: int
        name: str
        good: bool
        gap: float | None = None
        note: str | None = None
        {more}


    class Output(BaseModel):
        total: float
        text: str


    class Model:
        examples = (Input(x=1.5, count=2, name="a", good=True), Input(x=3, count=-1, name="b", good=False, gap=1))

        def load(self, device: str) -> None:
            self.seen = []

        def predict(self, batch: {annotation}) -> {annotation}:
            self.seen.append(batch)
            {body}
"""
BODIES = {
    "pd.DataFrame": 'return pd.DataFrame({"total": batch.x + batch["count"], "text": batch["name"]})',
    "pa.Table": """numbers = batch["count"].cast("double", safe=False)
            return pa.table({"total": pa.compute.add(batch["x"], numbers), "text": batch["name"]})""",
    "dict[str, np.ndarray]": 'return {"total": batch["x"] + batch["count"], "text": batch["name"]}',
}
KINDS = pytest.mark.parametrize("annotation", BODIES)
FORMS = [pa.float64(), pa.int64(), pa.string(), pa.bool_(), pa.float64(), pa.string()]
ROWS = [
    {"x": 1.5, "count": 2, "name": "a", "good": True, "gap": None, "note": None},
    {"x": -0.5, "count": 2**53 + 1, "name": "ü", "good": False, "gap": 2.5, "note": "n"},
]


def interface(annotation: str, body: str = "", more: str = "") -> Interface:
    found = Interface(model(SOURCE.format(annotation=annotation, body=body or BODIES[annotation], more=more)))
    found.model.load("cpu")
    return found


def dtypes(batch: Any) -> dict[str, str]:
    if isinstance(batch, pa.Table):
        return {field.name: str(field.type) for field in batch.schema}
    return {name: str(batch[name].dtype) for name in batch}


@KINDS
def test_records_and_columns_become_the_same_table_with_and_without_nulls(annotation):
    found = interface(annotation)
    records = [found.inputs.validate_python(row) for row in ROWS]
    columns = pa.table(
        {name: pa.array([row[name] for row in ROWS], form) for name, form in zip(ROWS[0], FORMS, strict=True)}
    )
    answers = found.call(records)
    by_column = answer_columns(found.call_table(columns), len(ROWS))
    for one in records:
        found.call([one])
    first, second, *parts = found.model.seen
    assert [dtypes(first)] * 3 == [dtypes(batch) for batch in (second, *parts)]
    assert [list(map(str, first[n])) for n in ROWS[0]] == [list(map(str, second[n])) for n in ROWS[0]]
    assert [one.text for one in found.checked(answers)] == list(map(str, by_column["text"])) == ["a", "ü"]
    assert found.checked(answers)[0].total == 3.5
    assert found.answers(found.model.examples)[1] == {"total": 2.0, "text": "b"}


@pytest.mark.parametrize("annotation", ["pd.DataFrame", "dict[str, np.ndarray]"])
def test_numbers_that_may_be_missing_stay_exact(annotation):
    found = interface(annotation, more="big: int | None = None\n        day: datetime.date | None = None")
    day = datetime.date(2024, 2, 29)
    rows = [
        found.inputs.validate_python(ROWS[0] | {"big": 2**53 + 1, "day": day}),
        found.inputs.validate_python(ROWS[0]),
    ]
    found.call(rows)
    [seen] = found.model.seen
    assert (seen["big"][0], seen["day"][0]) == (2**53 + 1, day)
    assert pd.isna(seen["big"][1])


def test_a_field_that_is_not_a_column_is_rejected_with_its_name():
    for annotation, more, expected in (
        ("pd.DataFrame", "pair: tuple[int, str] = (1, 'a')", "Input.pair"),
        ("pa.Table", "more: dict[str, float] = {}", "Input.more"),
    ):
        with pytest.raises(ContractError, match=expected):
            interface(annotation, more=more)


def test_an_answer_that_is_not_a_row_for_each_input_is_wrong():
    for body, expected in (
        ("return 5", "returned int, no table"),
        ('return pd.DataFrame({"total": batch.x, "text": "a"}).sort_values("total", ascending=False)', "another order"),
        ("return batch.iloc[:1]", "returned column 'x' without 2 values"),
        ('return {"total": batch.x, "text": "ab"}', "returned column 'text' without 2 values"),
        ('return pd.DataFrame({"total": ["x", "y"], "text": ["a", "b"]})', "not an Output"),
        ('return pd.DataFrame({"text": ["a", "b"]})', "not an Output"),
    ):
        found = interface("pd.DataFrame", body)
        with pytest.raises(WrongAnswer, match=expected):
            found.answers(found.model.examples)


def test_a_column_of_one_number_is_an_output_of_its_own():
    source = SOURCE.replace("-> {annotation}", "-> np.ndarray").replace(
        "class Output(BaseModel):", "Output = float\n\n    class Other(BaseModel):"
    )
    found = Interface(model(source.format(annotation="pd.DataFrame", body="return batch.x.to_numpy()", more="")))
    found.model.load("cpu")
    assert found.answers(found.model.examples) == [1.5, 3.0]


@KINDS
def test_a_served_table_is_one_of_a_whole_batch(annotation):
    rows = [ROWS[0] | {"x": float(number)} for number in range(100)]
    with serve(SOURCE.format(annotation=annotation, body=BODIES[annotation], more="")) as client:
        wrong = client.post("/predict", json={"instances": [ROWS[0] | {"x": "y"}]})
        assert [one["field"] for one in wrong.json()["errors"]] == ["instances.0.x"]
        many = asked_together(client, *({"instances": [row]} for row in rows))
        assert [one.json()["predictions"][0]["total"] for one in many] == [number + 2.0 for number in range(100)]
        assert len(client.app.state.service.model.seen) < 100, "one table for a batch, not for a request"
