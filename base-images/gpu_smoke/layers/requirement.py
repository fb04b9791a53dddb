"""NVIDIA_REQUIRE_CUDA: does the host fit what the image asks for (container toolkit, requirement expressions)."""

from __future__ import annotations

import operator
import re

COMPARE = {
    ">=": operator.ge, "<=": operator.le, "!=": operator.ne, ">": operator.gt, "<": operator.lt, "=": operator.eq,
}  # fmt: skip


def unsatisfied(expression: str, driver: str, cuda: int) -> str:
    """Return why a requirement does not hold, or "" when it holds or cannot be judged.

    A space means OR, a comma AND. ``driver`` is the kernel module's version, ``cuda`` the driver's CUDA version as
    1000 * major + 10 * minor (0 when not known). Terms on architecture and brand are left to the container toolkit.
    """
    groups = [group for group in expression.split() if group]
    answers = [_all_hold(group, driver, cuda) for group in groups]
    if not answers or True in answers or None in answers:
        return ""
    return f"{expression[:200]} does not hold: driver {driver or '?'}, CUDA {cuda // 1000}.{cuda % 1000 // 10}"


def _all_hold(group: str, driver: str, cuda: int) -> bool | None:
    answers = [_holds(term, driver, cuda) for term in group.split(",") if term]
    if False in answers:
        return False
    return None if None in answers else True


def _holds(term: str, driver: str, cuda: int) -> bool | None:
    match = re.fullmatch(r"(cuda|driver)(>=|<=|!=|>|<|=)([\d.]{1,20})", term)
    if not match:
        return None
    have = [cuda // 1000, cuda % 1000 // 10] if match.group(1) == "cuda" else [int(n) for n in driver.split(".") if n]
    if not any(have):
        return None
    want = [int(n) for n in match.group(3).split(".") if n]
    return bool(COMPARE[match.group(2)](have[: len(want)], want))
