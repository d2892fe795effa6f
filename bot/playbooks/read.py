"""From the files under `playbooks/` to Knowledge. Parses with the C loader, stops reading a file where its proofs begin, and names every mistake."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bot.diagnosis.names import Names
from bot.diagnosis.signatures import Decider, NoHelp, Remedy, Signature, Variant
from bot.errors import KnowledgeError
from bot.logs.messages import LogMessage
from bot.model import Certainty, Phase, Text
from bot.playbooks import compiled, schema
from bot.playbooks.knowledge import Knowledge, RemedyText
from bot.servers import made

_PROOFS = re.compile(r"^(?:examples|not):", re.MULTILINE)


def folder() -> Path:
    """Where `playbooks/` is: beside the `bot` package, in a checkout and in an installed wheel alike."""
    return Path(__file__).resolve().parents[2] / "playbooks"


def load(where: Path | None = None) -> Knowledge:
    """Everything under `playbooks/`. Raises KnowledgeError with every mistake of shape, each with file and line."""
    root = where or folder()
    now = compiled.stamp(root)
    documents = compiled.read(root, now)
    if documents is None:
        documents = _documents(root)
        compiled.write(root, now, documents)
    return _knowledge(documents)


def load_fresh(root: Path) -> Knowledge:
    """The same from the files themselves. Raises KnowledgeError."""
    return _knowledge(_documents(root))


def _knowledge(documents: compiled.Documents) -> Knowledge:
    messages = [
        message(item, file, document) for file, document in documents["messages"] for item in document.get("messages", [document])
    ]
    signatures = [signature(document, name) for name, document in documents["signatures"]]
    remedies = {name: remedy_text(name, item) for _, document in documents["remedies"] for name, item in document.items()}
    told = names({key: item for _, document in documents["names"] for key, item in document.items()})
    servers = tuple(made(document, Path(file).stem) for file, document in documents["servers"])
    return Knowledge(tuple(messages), tuple(signatures), remedies, told, servers)


def _documents(root: Path) -> compiled.Documents:
    """All files, parsed and checked. Raises KnowledgeError."""
    mistakes: list[str] = []
    found: compiled.Documents = {"messages": [], "signatures": [], "remedies": [], "names": [], "servers": []}
    for path in sorted(root.glob("log_messages/*.yaml")):
        found["messages"].append([path.name, _checked(path, root, schema.check_messages, mistakes)])
    for path in sorted(root.glob("signatures/*/*.yaml")):
        found["signatures"].append([f"{path.parent.name}/{path.stem}", _checked(path, root, schema.check_signature, mistakes)])
    for path in root.glob("remedies.yaml"):
        found["remedies"].append([path.name, _checked(path, root, schema.check_remedies, mistakes)])
    for path in sorted(root.glob("names/*.yaml")):
        found["names"].append([path.name, _checked(path, root, schema.check_names, mistakes)])
    for path in sorted(root.glob("servers/*.yaml")):
        found["servers"].append([path.name, _checked(path, root, schema.check_server, mistakes)])
    if not found["messages"] and not mistakes:
        mistakes.append(f"{root}: no log messages there")
    if mistakes:
        raise KnowledgeError(mistakes)
    return found


def parse(source: str) -> Any:
    """The document of one YAML text. Raises yaml.YAMLError."""
    import yaml

    return yaml.load(source, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - it is the safe loader


def line_of(source: str, path: schema.Path) -> int:
    """The line of a path into a YAML text; that of the nearest parent that is there."""
    import yaml

    node = yaml.compose(source, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    line = 1
    for step in path:
        if node is None:
            break
        found = None
        if isinstance(node, yaml.MappingNode):
            found = next(((key, item) for key, item in node.value if key.value == str(step)), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            found = (node.value[step], node.value[step])
        if found is None:
            break
        line, node = found[0].start_mark.line + 1, found[1]
    return line


def _checked(path: Path, root: Path, check: Any, mistakes: list[str]) -> object:
    """The document of a file without its proofs; None when something is wrong with it, which is then in `mistakes`."""
    import yaml  # not at the top: a start that finds the parsed playbooks needs none

    name = path.relative_to(root)
    try:
        whole = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as wrong:
        mistakes.append(f"{name}:1: cannot be read: {wrong}")
        return None
    begin = _PROOFS.search(whole)
    source = whole[: begin.start()] if begin else whole
    try:
        document = parse(source)
    except yaml.MarkedYAMLError as wrong:
        line = wrong.problem_mark.line + 1 if wrong.problem_mark else 1
        mistakes.append(f"{name}:{line}: not YAML: {wrong.problem}")
        return None
    except (yaml.YAMLError, ValueError) as wrong:
        mistakes.append(f"{name}:1: not YAML: {str(wrong).splitlines()[0]}")
        return None
    found = check(document)
    mistakes += [f"{name}:{line_of(source, where)}: {'.'.join(map(str, where)) or 'file'}: {what}" for where, what in found]
    return None if found else document


def text_of(value: Any) -> Text:
    return Text(value) if isinstance(value, str) else Text(value["en"], value.get("zh", ""))


def message(item: Mapping[str, Any], file: str, family: Mapping[str, Any]) -> LogMessage:
    """The LogMessage of one checked entry; what it does not say of its printer, its `family` says, and of its versions too where the printer is the same."""
    of_family = family if item.get("printed_by", family.get("printed_by")) == family.get("printed_by") else {}
    return LogMessage(
        id=item["id"],
        says=text_of(item["says"]),
        anchors=tuple(anchor.encode() for anchor in item["anchors"]),
        pattern=item.get("pattern", ""),
        fields=item.get("fields", {}),
        role=item.get("role", "note"),
        kind=item.get("kind", ""),
        phase=Phase(item["phase"]) if "phase" in item else None,
        purpose=item.get("purpose", ""),
        tier=item.get("tier", 3),
        counted=item.get("counted", False),
        lasting=item.get("lasting", False),
        versions=item.get("versions") or of_family.get("versions", ""),
        printed_by=item.get("printed_by") or family.get("printed_by", ""),
        file=file,
    )


def signature(item: Mapping[str, Any], name: str) -> Signature:
    """The Signature of one checked file."""
    quotes = item.get("quotes", {})
    return Signature(
        id=name,
        cause=item["cause"],
        says=text_of(item["says"]),
        when=item["when"],
        unless=item.get("unless", {}),
        certain_if=item.get("certain_if", {}),
        at_best=Certainty(item.get("at_best", "certain")),
        remedies=tuple(_remedies(item.get("remedies", ()))),
        will_not_help=tuple(
            NoHelp(part) if isinstance(part, str) else NoHelp(part["remedy"], _maybe(part.get("why")), **_conditions(part))
            for part in item.get("will_not_help", ())
        ),
        deciders=tuple(Decider(part["source"], text_of(part["would_tell"])) for part in item.get("decides", ())),
        quotes={name: text_of(says) for name, says in quotes.items()} if isinstance(quotes, dict) else dict.fromkeys(quotes),
        file=f"signatures/{name}.yaml",
    )


def _conditions(part: Mapping[str, Any]) -> dict[str, Any]:
    return {"when": part.get("if", {}), "unless": part.get("unless", {})}


def _maybe(value: Any) -> Text | None:
    return None if value is None else text_of(value)


def _remedies(items: Iterable[Any]) -> Iterable[Remedy]:
    for item in items:
        if isinstance(item, str):
            yield Remedy(item)
        else:
            yield Remedy(item["remedy"], _maybe(item.get("why")), **_conditions(item))


def names(items: Mapping[str, Any]) -> Names:
    """The lists of all files of names together."""
    return Names(
        **{what: tuple(items.get(what, ())) for what in schema.NAME_LISTS}, sizes=tuple((card["name"], float(card["gib"])) for card in items.get("sizes", ()))
    )


def remedy_text(name: str, item: Mapping[str, Any]) -> RemedyText:
    where = tuple(
        Variant(_maybe(part.get("says")), _maybe(part.get("adds")), part.get("late", False), _maybe(part.get("lacks")), **_conditions(part))
        for part in item.get("where", ())
    )
    return RemedyText(name, text_of(item["says"]), text_of(item["effect"]), item.get("risk", "low"), item.get("cost", 3), item.get("of_server", False), where)
