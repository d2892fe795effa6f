"""The data folder, for one process at a time: made 0700, held by a lock that ends with the process, however that ends."""

import fcntl
import os
from pathlib import Path

from bot.errors import StoreError

LOCK = "lock"


class OwnFolder:
    """`take` before anything in it is opened, `give_back` at the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def take(self) -> None:
        """Raises StoreError when another process has it, or it cannot be made."""
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as wrong:
            raise StoreError(f"data_dir {self.path}: {wrong.strerror or 'cannot be used'}") from wrong
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            raise StoreError(f"data_dir {self.path} is used by another oombot; stop it, or give this one a folder of its own") from None
        self._file = file

    def give_back(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
