"""Bundles in memory, for diagnosing a scene with all that the product knows."""

import json
from collections.abc import Mapping
from functools import cache, partial
from io import BytesIO
from typing import Any

from bot.incident import examine
from bot.model import Bundle, BundleFile, Diagnosis
from bot.playbooks import Knowledge, load


@cache
def knowledge() -> Knowledge:
    """The project's own playbooks, read once."""
    return load()


def bundle(files: Mapping[str, Any]) -> Bundle:
    """A bundle of these files; what is no text is written as JSON."""
    texts = {name: content if isinstance(content, str) else json.dumps(content, indent=1) for name, content in files.items()}
    return Bundle("scene", {name: BundleFile(name, partial(BytesIO, text.encode())) for name, text in texts.items()})


def diagnose(files: Mapping[str, Any]) -> Diagnosis:
    """What the product says of these files."""
    return examine(bundle(files), knowledge())
