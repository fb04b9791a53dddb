"""A model that takes a table, served: one conversion per batch, the answers of a record each."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from tests.runtime.kind_clients import serve

MODEL = """
    import numpy as np
    import pandas as pd
    import pyarrow as pa
    from pydantic import BaseModel


    class Input(BaseModel):
        width: float
        height: float
        name: str = "none"


    class Output(BaseModel):
        area: float
        name: str


    class Model:
        examples = (Input(width=1, height=2), Input(width=3, height=4, name="b"))
        tolerance = 0.0

        def load(self, device: str) -> None:
            self.batches = []

        def predict(self, batch: {kind}) -> {kind}:
            self.batches.append(type(batch).__name__)
            {body}
"""
KINDS = {
    "pd.DataFrame": 'return pd.DataFrame({"area": batch["width"] * batch["height"], "name": batch["name"]})',
    "pa.Table": ('return pa.table({"area": np.multiply(batch["width"], batch["height"]), "name": batch["name"]})'),
    "dict[str, np.ndarray]": 'return {"area": batch["width"] * batch["height"], "name": batch["name"]}',
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_is_served(kind: str) -> None:
    with serve(MODEL.replace("{kind}", kind).replace("{body}", KINDS[kind])) as client:
        rows = [{"width": 2, "height": 3, "name": "a"}, {"width": 4, "height": 5}]
        answer = client.post("/predict", json={"instances": rows})
        assert answer.json() == {"predictions": [{"area": 6.0, "name": "a"}, {"area": 20.0, "name": "none"}]}
        wrong = client.post("/predict", json={"instances": [{"width": "x", "height": 1}]})
        assert [one["field"] for one in wrong.json()["errors"]] == ["instances.0.width"]
        many = asked_together(client, 100)
        assert [one["predictions"][0]["area"] for one in many] == [float(n) for n in range(100)]
        batches = client.app.state.service.model.batches  # type: ignore[attr-defined]
        assert len(batches) < 100, "one table for a batch, not for a request"


def asked_together(client: TestClient, count: int) -> list[Any]:
    async def asked() -> list[Any]:
        transport = httpx.ASGITransport(client.app)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as one:
            bodies = [{"instances": [{"width": 1, "height": n}]} for n in range(count)]
            answers = await asyncio.gather(*(one.post("/predict", json=body) for body in bodies))
            return [answer.json() for answer in answers]

    return client.portal.call(asked)  # type: ignore[union-attr]
