"""A classifier of wines by 13 numbers: as a table, or with RECORDS=1 as a record for each row."""

import os
from typing import Any

import pandas as pd
from pydantic import BaseModel, create_model
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

FIELDS: dict[str, Any] = {f"x{n}": (float, ...) for n in range(1, 14)}
Input = create_model("Input", **FIELDS)


class Output(BaseModel):
    grape: int
    probability: float


class Tables:
    """Logistic regression, trained when it is loaded."""

    examples = tuple(Input(**dict.fromkeys(Input.model_fields, value)) for value in (1.0, 5.0))
    tolerance = 1e-6

    def load(self, device: str) -> None:
        wine = load_wine(as_frame=True)
        numbers = wine.data.set_axis(list(Input.model_fields), axis="columns")
        self.pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(numbers, wine.target)

    def predict(self, batch: pd.DataFrame) -> pd.DataFrame:
        odds = self.pipeline.predict_proba(batch)
        return pd.DataFrame({"grape": odds.argmax(axis=1), "probability": odds.max(axis=1)})


class Records(Tables):
    """The same model, whose batches are lists."""

    def predict(self, batch: list[Input]) -> list[Output]:
        odds = self.pipeline.predict_proba(pd.DataFrame([one.model_dump() for one in batch]))
        return [Output(grape=one.argmax(), probability=one.max()) for one in odds]


Model = Records if os.environ.get("RECORDS") else Tables
