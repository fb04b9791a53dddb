"""Fields that have another name in JSON than in Python: every protocol, the bytes as a body, and the example."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from fastapi.testclient import TestClient
from gpu_repo_runtime.serving.app import create_app

from tests.runtime.kinds import model
from tests.runtime.owners import Settings

SOURCE = """
    from pydantic import AliasChoices, BaseModel, ConfigDict, Field, computed_field
    from gpu_repo_runtime.inputs import Bytes


    class Input(BaseModel):
        model_config = ConfigDict(extra="forbid")
        image: Bytes = Field({image})
        threshold: float = Field(default=0.5, alias="thresholdValue")
        secret: int = Field(default=0, exclude=True)

        @computed_field
        @property
        def length(self) -> int:
            return len(self.image)


    class Output(BaseModel):
        found: float = Field(serialization_alias="foundValue")


    class Model:
        examples = (Input(imageData=b"\\xff\\xfe", thresholdValue=0.25, secret=3),)
        tolerance = 0.0

        def load(self, device: str) -> None: ...

        def predict(self, batch: list[Input]) -> list[Output]:
            return [Output(found=len(one.image) + one.threshold + one.secret) for one in batch]
"""
ALIASES = [
    'alias="imageData"',
    'validation_alias="imageData"',
    'validation_alias=AliasChoices("imageData", "image_data")',
]


@pytest.mark.parametrize("image", ALIASES)
def test_an_aliased_field_is_taken_by_every_way_in(image: str) -> None:
    with TestClient(create_app(model(SOURCE.format(image=image)), Settings(device="cpu"))) as client:
        document = client.get("/openapi.json").json()["paths"]["/predict"]["post"]
        example = document["requestBody"]["content"]["application/json"]["example"]
        assert client.post("/predict", json=example).json() == {"predictions": [{"foundValue": 2.25}]}
        body = client.post("/predict", content=b"\xff\xfe", headers={"content-type": "image/png"})
        assert body.json() == {"predictions": [{"foundValue": 2.5}]}
        assert client.post("/v2/models/kind/infer", json=tensors(client)).json()["outputs"][0]["data"] == [2.75]


def tensors(client: TestClient) -> dict[str, Any]:
    """Return a request made from what the metadata says of the model."""
    values = {"image": base64.b64encode(b"\xff\xfe").decode(), "threshold": 0.75, "secret": 0}
    told = client.get("/v2/models/kind").json()["inputs"]
    return {"inputs": [{**one, "shape": [1], "data": [values[one["name"]]]} for one in told]}
