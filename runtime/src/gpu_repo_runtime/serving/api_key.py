"""The key that scripts/bench and scripts/probe send to a service that requires one."""

import os

# API_KEY is the name in the documentation; API_TOKEN was it up to version 0.5.
NAMES = ("API_KEY", "API_TOKEN")


def authorization() -> dict[str, str]:
    """Return the header with the key of the environment, or no header if the environment has no key."""
    key = next(filter(None, map(os.environ.get, NAMES)), None)
    return {"authorization": f"Bearer {key}"} if key else {}
