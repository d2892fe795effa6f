"""Fields and types of the kinds that the bot writes, as the official client's models know them. Says what the real server's decoder would say."""

import typing
from collections.abc import Iterator
from functools import cache
from typing import Any

from kubernetes import client
from pydantic import BaseModel, ValidationError

from bot.ports import Json
from bot.sandbox.answers import ApiError

STRICT = "Strict"


@cache
def _model(kind: str) -> type[BaseModel] | None:
    found = {"Deployment": client.V1Deployment, "StatefulSet": client.V1StatefulSet, "Pod": client.V1Pod}.get(kind)
    return typing.cast("type[BaseModel] | None", found)


def decoded(kind: str, document: Json, validation: str) -> Json:
    """The document without fields that nobody knows; with `validation` "Strict" they are refused, like values of a wrong type. Raises 422."""
    model = _model(kind)
    if model is None:
        return document
    unknown = list(_unknown(document, model, ""))
    if unknown and validation == STRICT:
        raise _undecodable("strict decoding error: " + ", ".join(f'unknown field "{path}"' for path in unknown))
    pruned: Json = _pruned(document, model) if unknown else document
    try:
        model.model_validate({key: value for key, value in pruned.items() if key != "status"})
    except ValidationError as wrong:
        first = next((each for each in wrong.errors() if each["type"] not in ("missing", "too_short")), None)
        if first is not None:
            at = ".".join(str(step) for step in first["loc"])
            raise _undecodable(f"json: cannot unmarshal into Go struct field {kind}.{at}: {first['msg']}") from wrong
    return pruned


def _undecodable(why: str) -> ApiError:
    return ApiError(
        422, "Invalid", f' "" is invalid: patch: Invalid value: {why}', {"causes": [{"reason": "FieldValueInvalid", "message": why, "field": "patch"}]}
    )


@cache
def _fields(model: type[BaseModel]) -> dict[str, type[BaseModel] | None]:
    """JSON name -> model of its value (or of the elements of its list); None for plain values and free maps."""
    return {field.serialization_alias or name: _inner(field.annotation) for name, field in model.model_fields.items()}


def _inner(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) is dict:
        return None
    return next((found for part in typing.get_args(annotation) if (found := _inner(part)) is not None), None)


def _unknown(value: Any, model: type[BaseModel], path: str) -> Iterator[str]:
    for key, below in value.items() if isinstance(value, dict) else ():
        here = f"{path}.{key}" if path else key
        if key not in _fields(model):
            yield here
        elif (inner := _fields(model)[key]) is not None:
            if isinstance(below, list):
                for number, row in enumerate(below):
                    yield from _unknown(row, inner, f"{here}[{number}]")
            else:
                yield from _unknown(below, inner, here)


def _pruned(value: Any, model: type[BaseModel]) -> Any:
    if not isinstance(value, dict):
        return value
    kept: Json = {}
    for key, below in value.items():
        if key not in _fields(model):
            continue
        inner = _fields(model)[key]
        if inner is None:
            kept[key] = below
        else:
            kept[key] = [_pruned(row, inner) for row in below] if isinstance(below, list) else _pruned(below, inner)
    return kept
