"""A Case as JSON and back, whole: what was written by an older program is read by a newer one (new fields take their defaults).

Times are written with their zone, states by value, tuples as lists. Values under `Any` (a patch, a value before) must be JSON already.
"""

import json
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from bot.errors import StoreError
from bot.model import Case


@cache
def _adapter() -> TypeAdapter[Case]:
    return TypeAdapter(Case)


def encode(case: Case) -> str:
    return json.dumps(_adapter().dump_python(case, mode="json"), ensure_ascii=True, separators=(",", ":"))


def decode(text: str) -> Case:
    """Raises StoreError when the text is not a Case."""
    try:
        values: Any = json.loads(text)
        return _adapter().validate_python(values)
    except (ValueError, ValidationError) as wrong:
        raise StoreError(f"a kept case cannot be read: {str(wrong).splitlines()[0]}") from wrong
