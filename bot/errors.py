"""Every error that oombot raises on purpose.

    OombotError
    |-- UserError               somebody asked for what cannot be; `str()` is one clear line, exit status 2
    |   |-- BadInput            a word, a file, a setting that cannot be understood
    |   |   `-- BadSettings     the settings are wrong; carries every mistake, one line each
    |   |-- TargetNotFound      nothing has that name; carries the nearest names
    |   |-- TargetAmbiguous     several have it; carries them, none is picked
    |   `-- Refused             not allowed; carries the key of the message and its parameters
    |-- KnowledgeError          a file under playbooks/ is wrong; carries every mistake with file and line
    |-- WorldError              a cluster, a node or a service did not do what was asked
    |   |-- Temporary           worth trying again
    |   |   |-- Unreachable     no connection, or it broke
    |   |   `-- TimedOut        no answer in time
    |   `-- Permanent           trying again gives the same
    |       |-- Forbidden       the credentials do not reach that far
    |       |-- NotFound        the object, the log, the command is not there
    |       |-- Conflict        a precondition (UID, `test` operation, resourceVersion) does not hold
    |       |-- Rejected        an admission plugin, a quota or validation said no
    |       |-- HostKeyUnknown  the node's SSH host key is not in the known hosts, or is another one
    |       `-- Unsupported     the far side cannot do that
    `-- StoreError
        `-- VersionConflict     somebody else saved the Case first: read again and decide again

Only `clients/` turns a vendor's exception into one of these; nobody above it names a vendor's.
"""

from collections.abc import Mapping, Sequence
from typing import Self


class OombotError(Exception):
    """The root: nothing in oombot raises it directly."""


class UserError(OombotError):
    """One clear line for the person who asked."""


class BadInput(UserError):
    """A word, a file or a setting that cannot be understood."""


class BadSettings(BadInput):
    """One or more settings are wrong; each mistake is one line `key: what`, without values (they may be secrets)."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__("; ".join(mistakes))
        self.mistakes = tuple(mistakes)


class TargetNotFound(UserError):
    """Nothing has that name."""

    def __init__(self, message: str, nearest: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.nearest = tuple(nearest)


class TargetAmbiguous(UserError):
    """Several have that name."""

    def __init__(self, message: str, candidates: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.candidates = tuple(candidates)


class Refused(UserError):
    """Not allowed. `key` names a template under `playbooks/messages/<language>/`, `parameters` fills it."""

    def __init__(self, key: str, parameters: Mapping[str, str] | None = None) -> None:
        super().__init__(key)
        self.key = key
        self.parameters = dict(parameters or {})


class KnowledgeError(OombotError):
    """One or more files under playbooks/ are wrong; each mistake is one line `file:line: what`."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = tuple(mistakes)


class WorldError(OombotError):
    """The outside did not do what was asked; `str()` says what and why in one line without secrets.

    Where a server answered: its HTTP `status`, and the `reason` (one word) and `words` of its answer. 0 and empty where none did.
    """

    status: int = 0
    reason: str = ""
    words: str = ""

    def answered(self, status: int, reason: str, words: str) -> Self:
        """The same error, with the server's answer."""
        self.status, self.reason, self.words = status, reason, words
        return self


class Temporary(WorldError):
    """Worth trying again."""


class Unreachable(Temporary):
    """No connection, or it broke."""


class TimedOut(Temporary):
    """No answer in time."""


class Permanent(WorldError):
    """Trying again gives the same."""


class Forbidden(Permanent):
    """The credentials do not reach that far."""


class NotFound(Permanent):
    """It is not there."""


class Conflict(Permanent):
    """A precondition does not hold."""


class Rejected(Permanent):
    """Admission, quota or validation said no."""


class HostKeyUnknown(Permanent):
    """The host key is unknown or has changed."""


class Unsupported(Permanent):
    """The far side cannot do that."""


class StoreError(OombotError):
    """The store could not do what was asked."""


class VersionConflict(StoreError):
    """The Case was saved by somebody else since it was read."""
