"""Which behaviour a container gets: by its pod's annotation, by what the demo says of its workload, by its image and arguments."""

import json
from collections.abc import Mapping

from bot.ports import Json
from bot.sandbox.kubelet.play import Behaviour, scripted
from bot.sandbox.vllm import MODELS, Model, server

ANNOTATION = "sandbox.oombot.io/script"  # a script for all containers of the pod; with ".NAME" appended, for that one


class Chooser:
    """`models` adds to the catalogue of models by the name given to `--model`; `scripts` says by (workload or pod name, container) what plain data to play."""

    def __init__(self, models: Mapping[str, Model] | None = None, scripts: Mapping[tuple[str, str], Json] | None = None) -> None:
        self.models = {**MODELS, **(models or {})}
        self.scripts = dict(scripts or {})

    def __call__(self, pod: Json, container: Json) -> Behaviour:
        notes = pod["metadata"].get("annotations") or {}
        script = notes.get(f"{ANNOTATION}.{container['name']}") or notes.get(ANNOTATION)
        if script:
            return scripted(json.loads(script))
        for (name, wanted), found in self.scripts.items():
            if wanted == container["name"] and pod["metadata"]["name"].startswith(name):
                return scripted(found)
        if "vllm" in str(container.get("image", "")):
            return server(self.models)
        return scripted({})
