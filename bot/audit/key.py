"""The key that signs the trail: given by the settings, or a file that only the bot can read."""

import os
import secrets
from pathlib import Path

from bot.errors import BadInput


def load_key(path: Path, given: str = "", *, make: bool = True) -> bytes:
    """The key: `given` by the settings, else the file's, else made there (0600). Raises BadInput."""
    if given:
        return given.encode()
    try:
        if make and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(secrets.token_hex(32) + "\n")
                file.flush()
                os.fsync(file.fileno())
        key = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as wrong:
        raise BadInput(f"{path}: the key of the audit trail cannot be read ({getattr(wrong, 'strerror', None) or 'not text'})") from wrong
    if len(key) < 32:
        raise BadInput(f"{path}: the key of the audit trail is shorter than 32 characters")
    return key.encode()
