"""The service under thousands of requests that nobody should send."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

pytestmark = pytest.mark.release
Start = Callable[..., Any]


def test_2000_requests_that_break_the_openapi_document_give_no_500(start: Start) -> None:
    import schemathesis  # here, because it takes a second that no other test needs
    from schemathesis.generation import GenerationMode

    service = start()
    schema = schemathesis.openapi.from_url(f"{service.url}/openapi.json", wait_for_schema=5)
    strategy = schema["/predict"]["POST"].as_strategy(generation_mode=GenerationMode.NEGATIVE)
    statuses: Counter[int] = Counter()

    @given(case=strategy)
    @settings(
        max_examples=2000,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def fuzz(case: Any) -> None:
        response = case.call()
        statuses[response.status_code] += 1
        assert response.status_code in (400, 404, 405, 408, 413, 415, 422), (response.status_code, case.body)

    fuzz()
    assert statuses.total() >= 2000, statuses
    assert service.predict("after")[0] == 200
    assert '"status":500' not in service.log.read_text()
