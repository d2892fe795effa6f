"""What a test needs from the machine: missing at home, the test skips and says how to get it; missing in CI, it fails."""

import os

import pytest


def need(there: bool, how_to_get_it: str) -> None:
    """Goes on when `there`; else skips with one line, or fails where CI=true (a skip there would hide a missing tool)."""
    if there:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI must have it: {how_to_get_it}")
    pytest.skip(how_to_get_it)

