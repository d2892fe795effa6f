"""What Ray says of its nodes and of demands that nobody can meet. Read by `bot/evidence/ray_status.py`."""

from bot.evidence.commands.command import Command, Place

STATUS = Command(Place.POD, ("ray", "status"), "ray_status.txt", "which resources Ray waits for", 10)
