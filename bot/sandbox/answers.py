"""What the API server answers when it says no: `Status` objects with the codes, reasons and words of the real one."""

from typing import Any

from bot.ports import Json


class ApiError(Exception):
    """An answer that is not the object asked for. `code` is the HTTP status, `reason` the machine word of the Status."""

    def __init__(self, code: int, reason: str, message: str, details: Json | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details or {}

    def status(self) -> Json:
        body: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message, "reason": self.reason}
        return {**body, "details": self.details, "code": self.code}


def qualified(plural: str, group: str) -> str:
    return f"{plural}.{group}" if group else plural


def not_found(plural: str, group: str, name: str) -> ApiError:
    return ApiError(404, "NotFound", f'{qualified(plural, group)} "{name}" not found', _details(plural, group, name))


def already_exists(plural: str, group: str, name: str) -> ApiError:
    return ApiError(409, "AlreadyExists", f'{qualified(plural, group)} "{name}" already exists', _details(plural, group, name))


def modified(plural: str, group: str, name: str) -> ApiError:
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return ApiError(409, "Conflict", f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}', _details(plural, group, name))


def wrong_uid(kind: str, plural: str, group: str, name: str, wanted: str, found: str) -> ApiError:
    why = f"the UID in the precondition ({wanted}) does not match the UID in record ({found}). The object might have been deleted and then recreated"
    return ApiError(409, "Conflict", f'Operation cannot be fulfilled on {kind} "{name}": {why}', _details(plural, group, name))


def invalid(kind: str, group: str, name: str, field: str, why: str) -> ApiError:
    cause = {"reason": "FieldValueInvalid", "message": why, "field": field}
    return ApiError(
        422, "Invalid", f'{qualified(kind, group)} "{name}" is invalid: {field}: {why}', {"name": name, "group": group, "kind": kind, "causes": [cause]}
    )


def patch_does_not_apply() -> ApiError:
    """A JSON patch whose `test` (or path) does not hold; the real server does not say which either."""
    return ApiError(422, "Invalid", "the server rejected our request due to an error in our request")


def bad_request(why: str) -> ApiError:
    return ApiError(400, "BadRequest", why)


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def forbidden(user: str, verb: str, plural: str, group: str, namespace: str, name: str, subresource: str) -> ApiError:
    resource = f"{plural}/{subresource}" if subresource else plural
    where = f' in the namespace "{namespace}"' if namespace else " at the cluster scope"
    what = f'{qualified(plural, group)} "{name}" is forbidden' if name else f"{qualified(plural, group)} is forbidden"
    words = f'{what}: User "{user}" cannot {verb} resource "{resource}" in API group "{group}"{where}'
    return ApiError(403, "Forbidden", words, _details(plural, group, name))


def too_old() -> ApiError:
    return ApiError(410, "Expired", "too old resource version")


def unsupported_media(kind: str) -> ApiError:
    return ApiError(415, "UnsupportedMediaType", f"the body of the request was in an unknown format - {kind} is not accepted here")


def no_such_path() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def success(**details: Any) -> Json:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _details(plural: str, group: str, name: str) -> Json:
    found: Json = {"name": name, "kind": plural}
    return {**found, "group": group} if group else found
