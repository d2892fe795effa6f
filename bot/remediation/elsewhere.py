"""Where an engine option cannot be written by the bot: says why, and prints what to paste at the place where it really stands.

Nothing here is sent to a cluster.
"""

from collections.abc import Callable, Mapping
from typing import Any

from bot.model import Text
from bot.remediation.arguments import Obstacle, in_text
from bot.remediation.change import Elsewhere
from bot.remediation.engine_options import Option
from bot.remediation.paste import container_patch, dump
from bot.remediation.workload import Workload

Make = Callable[[Workload, Option, str, Obstacle], Elsewhere]


def engine_argument(workload: Workload, option: Option, written: str, obstacle: Obstacle) -> Elsewhere:
    """What to do by hand for this obstacle."""
    return _MAKE[obstacle.kind](workload, option, written, obstacle)


def flag(option: Option, written: str) -> str:
    return f"--{option.name}={written}" if written else f"--{option.name}"


def _string(workload: Workload, option: Option, written: str, obstacle: Obstacle) -> Elsewhere:
    word = obstacle.word
    if word is None:
        return _program(workload, option, written, obstacle)
    text, variable = in_text(word.text, option, written)
    if variable:
        return variable_value(workload, variable, written, Text(f"--{option.name} stands in a shell string and takes its value from ${variable}.",
                                                                f"--{option.name} 写在 shell 字符串里，值来自 ${variable}。"))  # fmt: skip
    items = list(workload.container[word.list])
    items[word.at] = text
    name = workload.container_name
    reason = Text(
        f"--{option.name} stands inside a shell string (`{word.list}` of container {name}); the bot does not rewrite shell code. The patch has the new string.",
        f"--{option.name} 写在 shell 字符串里（容器 {name} 的 `{word.list}`）；机器人不改写 shell 代码。下面是改好的字符串。",
    )
    return Elsewhere(reason, container_patch(name, {word.list: items}))


def _script(workload: Workload, option: Option, written: str, obstacle: Obstacle) -> Elsewhere:
    source = mounted_from(workload, obstacle.name)
    where = f"; it is mounted from {source}" if source else ""
    where_zh = f"，挂载自 {source}" if source else ""
    reason = Text(
        f"The engine is started by the script {obstacle.name}{where}, so --{option.name} has to be set there.",
        f"引擎由脚本 {obstacle.name} 启动{where_zh}，需要在脚本里设置 --{option.name}。",
    )
    return Elsewhere(reason, f"{flag(option, written)}\n", "text")


def _reference(workload: Workload, option: Option, written: str, obstacle: Obstacle) -> Elsewhere:
    reason = Text(
        f"--{option.name} takes its value from the variable {obstacle.name}, which other arguments may use too.",
        f"--{option.name} 的值来自变量 {obstacle.name}，别的参数也可能用到它。",
    )
    return variable_value(workload, obstacle.name, written, reason)


def variable_value(workload: Workload, variable: str, written: str, reason: Text) -> Elsewhere:
    """The patch for the place where a variable gets its value: the container, a ConfigMap, a Secret."""
    container = workload.container
    entry = next((one for one in reversed(container.get("env") or []) if one.get("name") == variable), None)
    source = (entry or {}).get("valueFrom") or {}
    for field, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
        if field in source:
            return _keyed(workload, kind, str(source[field].get("name", "")), str(source[field].get("key", variable)), written, reason)
    if entry is not None and not source:
        return Elsewhere(reason, container_patch(workload.container_name, {"env": [{"name": variable, "value": written}]}))
    named = [(one[field].get("name", ""), kind) for one in container.get("envFrom") or [] for field, kind in _ENV_FROM if field in one]
    if entry is None and len(named) == 1:
        return _keyed(workload, named[0][1], str(named[0][0]), variable, written, reason)
    return Elsewhere(reason, f"{variable}={written}\n", "text")


_ENV_FROM = (("configMapRef", "ConfigMap"), ("secretRef", "Secret"))


def _keyed(workload: Workload, kind: str, name: str, key: str, written: str, reason: Text) -> Elsewhere:
    field = "stringData" if kind == "Secret" else "data"
    document = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": workload.ref.namespace}, field: {key: written}}
    restart = f"# then: kubectl -n {workload.ref.namespace} rollout restart {workload.kind.lower()}/{workload.ref.name}\n"
    more = Text(f"{reason.en} It comes from {kind} {name}, key {key}.", f"{reason.zh} 它来自 {kind} {name} 的键 {key}。")
    return Elsewhere(more, dump(document) + restart)


def _config(workload: Workload, option: Option, written: str, obstacle: Obstacle) -> Elsewhere:
    source = mounted_from(workload, obstacle.name)
    where = f", mounted from {source}" if source else ""
    where_zh = f"（挂载自 {source}）" if source else ""
    reason = Text(
        f"The engine reads its options from {obstacle.name}{where} (--config), which the bot does not read or write.",
        f"引擎从 {obstacle.name}{where_zh} 读取参数（--config），机器人不读写这个文件。",
    )
    return Elsewhere(reason, f"# {obstacle.name}\n{option.name}: {written or 'true'}\n")


def beside_file(option: Option, written: str, obstacle: Obstacle) -> Elsewhere:
    """Of a server whose files are not known here."""
    reason = Text(
        f"The server reads options from {obstacle.name} too (--config); whether the file or the command line counts differs from server to server.",
        f"服务还从 {obstacle.name} 读取参数（--config）；以文件还是命令行为准，各服务不同。",
    )
    return Elsewhere(reason, f"{flag(option, written)}\n", "text")


def _image(workload: Workload, option: Option, written: str, obstacle: Obstacle) -> Elsewhere:
    reason = Text(
        f"The container names no command and no arguments: the image {obstacle.name} decides, and giving it arguments would replace its own.",
        f"容器没有写命令和参数，由镜像 {obstacle.name} 决定；加上参数会替换镜像自带的参数。",
    )
    return Elsewhere(reason, f"{flag(option, written)}\n", "text")


def _program(workload: Workload, option: Option, written: str, obstacle: Obstacle) -> Elsewhere:
    reason = Text(
        f"The container starts {obstacle.name}, which is not the engine itself; whether an appended option reaches the engine cannot be told.",
        f"容器启动的是 {obstacle.name}，不是引擎本身；无法确定追加的参数能否传到引擎。",
    )
    return Elsewhere(reason, f"{flag(option, written)}\n", "text")


def _malformed(workload: Workload, option: Option, written: str, obstacle: Obstacle) -> Elsewhere:
    reasons: Mapping[str, tuple[str, str]] = {
        "ambiguous": (f"`{obstacle.name}` is an abbreviation that fits several options; write it out.", f"`{obstacle.name}` 是有歧义的缩写，请写全。"),
        "no_value": (f"`{obstacle.name}` stands there without a value.", f"`{obstacle.name}` 后面没有值。"),
        "terminator": ("A `--` in the command line ends its options; the bot does not write behind it.", "命令行里的 `--` 结束了选项，机器人不在其后写入。"),
    }
    return Elsewhere(Text(*reasons[obstacle.kind]), f"{flag(option, written)}\n", "text")


_MAKE: Mapping[str, Make] = {
    "shell": _string, "text": _string, "script": _script, "reference": _reference, "config_file": _config, "image": _image, "program": _program,
    "ambiguous": _malformed, "no_value": _malformed, "terminator": _malformed,
}  # fmt: skip


def mounted_from(workload: Workload, path: str) -> str:
    """Which ConfigMap, Secret or other volume a file of the container comes from, as the template says it; "" when the image brings it."""
    mounts: list[Mapping[str, Any]] = sorted(workload.container.get("volumeMounts") or [], key=lambda one: len(str(one.get("mountPath", ""))), reverse=True)
    for mount in mounts:
        at = str(mount.get("mountPath", "")).rstrip("/")
        if at and (path == at or path.startswith(at + "/")):
            return _volume(workload, str(mount.get("name", "")))
    return ""


def _volume(workload: Workload, name: str) -> str:
    volumes = (workload.template.get("spec") or {}).get("volumes") or []
    volume: Mapping[str, Any] = next((one for one in volumes if one.get("name") == name), {})
    if "configMap" in volume:
        return f"ConfigMap {volume['configMap'].get('name', '')}"
    if "secret" in volume:
        return f"Secret {volume['secret'].get('secretName', '')}"
    return f"volume {name}"
