"""The time. One class, so that tests can bring their own."""

from datetime import UTC, datetime


class SystemClock:
    """See `ports.Clock`."""

    def now(self) -> datetime:
        return datetime.now(UTC)
