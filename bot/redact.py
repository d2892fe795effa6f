"""Takes secrets and prompts out of text before it is kept, logged, parsed or posted.

By form (tokens, private keys, URLs with a password), by name (`*_TOKEN=`, `"name": "X_KEY", "value": ...`, `--api-key`), and
prompts and answers in request logs. It works on bytes, changes nothing else, keeps the number of lines and leaves JSON valid.
It does not promise to find a secret that looks like a word and has no telling name. It will not decide what is shown where
(escaping is the renderer's business).
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

MARK = b"[redacted]"

_Match = re.Match[bytes]

# One string, by its opening quote: plain, or inside a JSON string (a manifest in an annotation), where the quote is `\"`.
_DOUBLE = rb'"(?!\[redacted\])(?:[^"\\\n]|\\[^\n])*+(?:"|(?=\n)|\Z)'
_SINGLE = rb"'(?!\[redacted\])(?:[^'\\\n]|\\[^\n])*+(?:'|(?=\n)|\Z)"
_NESTED = rb'\\"(?!\[redacted\])(?:[^"\\\n]|\\\\(?:\\["\\]|[^"\\\n])|\\[^"\\\n])*+(?:\\"|(?="|\n)|\Z)'
_STRING = rb"(?:" + _NESTED + rb"|" + _DOUBLE + rb"|" + _SINGLE + rb")"
_BARE = rb"(?!\[redacted\])[^\s\"'\\,;&(){}\[\]<>]++"

# A name that says "secret": PASSWORD always; TOKEN and KEY only as the end of a longer name (see `_telling`).
_LOUD = rb"password|passwd|passphrase|secret|credentials?"
_QUIET = rb"token|key|pwd"
_SWITCH = (b"true", b"false", b"none", b"null")


class _Pattern:
    """A pattern that is compiled at its first use: a start uses few of them."""

    __slots__ = ("_flags", "_made", "_source")

    def __init__(self, source: bytes, flags: int = re.IGNORECASE) -> None:
        self._source, self._flags = source, flags
        self._made: re.Pattern[bytes] | None = None

    def made(self) -> re.Pattern[bytes]:
        if self._made is None:
            self._made = re.compile(self._source, self._flags)
        return self._made

    def sub(self, replace: Callable[[_Match], bytes], data: bytes) -> bytes:
        return self.made().sub(replace, data)

    def search(self, data: bytes) -> _Match | None:
        return self.made().search(data)

    def match(self, data: bytes) -> _Match | None:
        return self.made().match(data)


_HARMLESS = _Pattern(
    rb"(?:^|[_.-])(?:eos|bos|pad|unk|sep|cls|mask|eot|eom|image|video|audio|special|stop|next|last|first|per|cache|dict|state|config|hash|sort|group"
    rb"|routing|idempotency|primary|foreign|partition|public|block|layer|param|weight|kv|num|prompt|output|input|max|min|draft|topology|label|prefix"
    rb"|start|end|tool|think|registry|lookup|index|row|map|object|resource|node|metric)[_.-]$",
    0,
)
_GLUED = _Pattern(rb"(?:api|auth|access|secret|private|bearer|refresh|session|service|client|encryption|signing|ssh|account|license|security)$", 0)
_NAME_TAIL = _Pattern(rb"[A-Za-z0-9_.-]*\Z", 0)
_SMALL_NUMBER = _Pattern(rb"(?:\d{1,7}|true|false|none|null)\Z")


@dataclass(frozen=True, slots=True)
class _Rule:
    """`anchors` are searched in the lower-cased text first (a plain search is a hundred times cheaper than the pattern).

    In a large text, only the lines that match `hint` (default: that hold an anchor) are looked at; "" is a rule that spans lines.
    """

    anchors: tuple[bytes, ...]
    pattern: _Pattern
    replace: Callable[[_Match], bytes]
    hint: bytes | None = None


def _keep_lines(text: bytes) -> bytes:
    """The mark, and the line feeds that stood in what it replaces."""
    return MARK + b"\n" * text.count(b"\n")


def _whole(match: _Match) -> bytes:
    return MARK


def _after_first_group(match: _Match) -> bytes:
    return match.group(1) + MARK


def _blank(value: bytes) -> bytes:
    """A value with the quotes that it had."""
    for quote in (b'\\"', b'"', b"'"):
        if value.startswith(quote):
            closed = value.endswith(quote) and len(value) >= 2 * len(quote)
            return quote + MARK + (quote if closed else b"")
    return MARK


def _blank_list(value: bytes) -> bytes:
    inner = value[1:-1].strip()
    return b"[" + _blank(inner) + b"\n" * value.count(b"\n") + b"]"


def _telling(before: bytes, word: bytes) -> bool:
    """Whether the name that ends with `word` names a secret; `before` is the text in front of the word."""
    tail = _NAME_TAIL.search(before)
    prefix = tail.group(0).lower() if tail else b""
    if word not in (b"token", b"key", b"pwd"):
        return True
    if _GLUED.search(prefix.rstrip(b"_.-")):
        return True
    return prefix[-1:] in (b"_", b"-", b".") and len(prefix) > 1 and not _HARMLESS.search(prefix)


def _assignment(match: _Match) -> bytes:
    word, value = match.group("word").lower(), match.group("value")
    before = match.string[max(0, match.start() - 64) : match.start()]
    if not _telling(before, word):
        return match.group(0)
    if value.lower() in _SWITCH or (word in (b"token", b"key") and _SMALL_NUMBER.match(value.strip(b"'\"\\"))):
        return match.group(0)
    blanked = _blank_list(value) if value.startswith(b"[") else _blank(value)
    return match.group("word") + match.group("rest") + blanked


def _flag(match: _Match) -> bytes:
    return match.group(0) if _SMALL_NUMBER.match(match.group(2)) else match.group(1) + MARK


def _env_pair(match: _Match) -> bytes:
    """A Kubernetes environment entry: the name tells, the value goes."""
    name, value = match.group("name").lower(), match.group("value")
    words = re.findall(rb"(?:" + _LOUD + rb"|" + _QUIET + rb")(?=$|_)", name)
    telling = any(_telling(name[: name.rfind(word)], word) for word in words)
    if not telling or _SMALL_NUMBER.match(value.strip(b"'\"\\")):
        return match.group(0)
    start, end = match.span("value")
    return match.string[match.start() : start] + _blank(value) + match.string[end : match.end()]


def _private_key(match: _Match) -> bytes:
    return match.group(1) + _keep_lines(match.group(2)) + (match.group(3) or b"")


def _string_after(match: _Match) -> bytes:
    return match.group(1) + _blank(match.group(2))


_HINT_NAMES = rb"(?:" + _LOUD + rb"|" + _QUIET + rb")(?:_[a-z0-9]{1,8})?\\?[\"']?[ \t]{0,4}[=:]"
_HINT_STRING = rb"\\?[\"']?[ ]{0,2}[:=][ ]{0,2}\\?[\"']"
_ENV_NAME = rb"(?P<name>[A-Za-z_][A-Za-z0-9_.-]{0,127})"

_RULES: Sequence[_Rule] = (
    _Rule(
        (b"private key-----",),
        _Pattern(
            rb"(-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----)((?!\[redacted\])(?:(?:[^\"'{}<>-]|-(?!----)){0,16384}+(?=-----END [A-Z ]{0,20}PRIVATE KEY-----)|(?:\s*[A-Za-z0-9+/=]{16,})*+))"
            rb"(-----END [A-Z ]{0,20}PRIVATE KEY-----)?",
            0,
        ),
        _private_key,
        hint=b"",
    ),
    # Tokens by their form
    _Rule((b"hf_",), _Pattern(rb"hf_[A-Za-z0-9]{16,}", 0), _whole),
    _Rule((b"xox", b"xapp-"), _Pattern(rb"(?:xox[a-z](?:\.xox[a-z])?|xapp)-[A-Za-z0-9.-]{8,}", 0), _whole),
    _Rule((b"hooks.slack.com",), _Pattern(rb"(hooks\.slack\.com/[a-z]{1,20}/)[A-Za-z0-9/_-]{8,}"), _after_first_group),
    _Rule((b"sk-",), _Pattern(rb"(?<![A-Za-z0-9_-])sk-[A-Za-z0-9_-]{16,}", 0), _whole),
    _Rule((b"nvapi-",), _Pattern(rb"nvapi-[A-Za-z0-9_-]{16,}", 0), _whole),
    _Rule((b"dapi",), _Pattern(rb"\bdapi[0-9a-f]{32}(?:-\d)?", 0), _whole),
    _Rule((b"akia", b"asia"), _Pattern(rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b", 0), _whole),
    _Rule((b"aiza",), _Pattern(rb"\bAIza[0-9A-Za-z_-]{35}", 0), _whole),
    _Rule((b"ghp_", b"gho_", b"ghs_", b"ghu_", b"ghr_", b"github_pat_"), _Pattern(rb"\b(?:gh[pousr]_|github_pat_)[A-Za-z0-9_]{20,}", 0), _whole),
    _Rule((b"glpat-",), _Pattern(rb"glpat-[A-Za-z0-9_.-]{16,}", 0), _whole),
    _Rule((b"eyj",), _Pattern(rb"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*)?", 0), _whole),
    _Rule(
        (b"bearer ", b"basic ", b"token token="),
        _Pattern(rb"\b(Bearer\s{1,3}|Basic\s{1,3}(?=[A-Za-z0-9+/]{8,}={0,2}(?![a-z]*\b ))|Token token=)(?!\[redacted\])[A-Za-z0-9._~+/=:-]{8,}"),
        _after_first_group,
    ),
    _Rule((b"cookie: ",), _Pattern(rb"(cookie: )(?!\[redacted\])[^\s\"'\\][^\r\n\"'\\]*"), _after_first_group),
    # Addresses
    _Rule((b"://",), _Pattern(rb"(://[^\s/@:\"'\\]{0,128}:)(?!\[redacted\]@)[^\s/@\"'\\]{1,512}(?=@)"), _after_first_group),
    _Rule((b"://",), _Pattern(rb"(://)[A-Za-z0-9_-]{20,}(?=@)"), _after_first_group),
    _Rule((b"signature=", b"sig="), _Pattern(rb"([?&](?:x-[a-z]{3,4}-)?sig(?:nature)?=)[A-Za-z0-9%+/=_-]{16,}"), _after_first_group),
    # By name
    _Rule(
        (b'"value',),
        _Pattern(rb'"name"\s*:\s*"' + _ENV_NAME + rb'"\s*,\s*"value"\s*:\s*(?P<value>' + _DOUBLE + rb")"),
        _env_pair,
        hint=b"",
    ),
    _Rule(
        (b'\\"value',),
        _Pattern(rb'\\"name\\"\s*:\s*\\"' + _ENV_NAME + rb'\\"\s*,\s*\\"value\\"\s*:\s*(?P<value>' + _NESTED + rb")"),
        _env_pair,
    ),
    _Rule(
        (b"value:",),
        _Pattern(rb"name:[ \t]*[\"']?" + _ENV_NAME + rb"[\"']?[ \t]*\r?\n[ \t]*value:[ \t]*(?P<value>" + _STRING + rb"|" + _BARE + rb")"),
        _env_pair,
        hint=b"",
    ),
    _Rule(
        (b"--",),
        _Pattern(
            rb"(--[a-z_-]{0,40}(?:api[-_]key|token|password|secret|credentials?)(?:=|[ \t]{1,4}|\\?[\"'],[ \t]{0,200}\\?[\"'])[\"']?)(?!-)(" + _BARE + rb")"
        ),
        _flag,
        hint=rb"--[a-z_-]{0,40}(?:api[-_]key|token|password|secret|credentials?)",
    ),
    _Rule(
        (b'key",', b'token",', b'password",', b'secret",'),
        _Pattern(rb"(--[a-z_-]{0,40}(?:api[-_]key|token|password|secret)\",\s{0,200}\")(?!-)(" + _BARE + rb")"),
        _flag,
        hint=b"",
    ),
    _Rule(
        (b"token", b"key", b"pwd", b"passw", b"passphrase", b"secret", b"credential"),
        _Pattern(
            rb"(?P<word>" + _LOUD + rb"|" + _QUIET + rb")(?P<rest>(?:_(?:id|base64|b64|file|value|hash|[0-9]{1,3}))?\\?[\"']?[ \t]{0,4}[=:][ \t]{0,4})"
            rb"(?P<value>" + _STRING + rb"|\[\s{0,80}" + _STRING + rb"(?:\s{0,80},\s{0,80}" + _STRING + rb"){0,16}\s{0,80}\]|" + _BARE + rb")"
        ),
        _assignment,
        hint=_HINT_NAMES,
    ),
    # Prompts and answers in request logs
    _Rule(
        (b"prompt",),
        _Pattern(rb"((?<!per_)prompt(?:_text)?\\?[\"']?[ ]{0,2}[:=][ ]{0,2})(" + _STRING + rb")"),
        _string_after,
        hint=rb"prompt(?:_text)?" + _HINT_STRING,
    ),
    _Rule(
        (b"content", b"text", b"input", b"output", b"arguments"),
        _Pattern(
            rb"((?<![a-z0-9_.-])(?:content|reasoning_content|text|generated_text|input|input_text|output|output_text|arguments)\\?[\"']?[ ]{0,2}[:=][ ]{0,2})("
            + _STRING
            + rb")"
        ),
        _string_after,
        hint=rb"(?:content|text|input|output|arguments)" + _HINT_STRING,
    ),
    _Rule(
        (b"token_ids",),
        _Pattern(rb"(token_ids\\?[\"']?[ ]{0,2}[:=][ ]{0,2}(?:array\(|tensor\()?\[)[\d, ]{1,}(?:\]|(?=\n)|\Z)"),
        lambda match: match.group(1) + MARK[1:],
    ),
)


def redact(data: bytes) -> bytes:
    """`data` without secrets and prompts: each replaced by `[redacted]`, quotes kept. Idempotent; the number of line feeds stays.

    Give whole lines (a secret cut in two is not found). Text that holds none comes back as it is; a JSON document stays one.
    """
    return _redact(data, depth=0)


def redact_text(text: str) -> str:
    """The same for a string (an error message, a quote)."""
    return redact(text.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")


def _redact(data: bytes, depth: int) -> bytes:
    if depth < _DEEPEST and data.lstrip()[:1] in (b"{", b"["):
        document = _redact_json(data, depth)
        if document is not None:
            return document
    clean = _redact_large(data) if len(data) > _LARGE else _redact_by_rules(data, _RULES)
    return clean if clean is data or depth >= _DEEPEST else _mend_json_lines(data, clean, depth)


def _redact_by_rules(data: bytes, rules: Sequence[_Rule]) -> bytes:
    lower = data.lower()
    for rule in rules:
        if any(anchor in lower for anchor in rule.anchors):
            data = rule.pattern.sub(rule.replace, data)
    return data


# ---------------------------------------------------------------- large texts
#
# Of a log of many megabytes few lines hold anything to redact: one pass finds them, and only they are looked at.

_LARGE = 64 * 1024


@cache
def _finder() -> Any:
    import hyperscan

    hints = [rule.hint or b"|".join(re.escape(anchor) for anchor in rule.anchors) for rule in _RULES if rule.hint != b""]
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(expressions=hints, ids=list(range(len(hints))), flags=hyperscan.HS_FLAG_CASELESS)
    return database


def _redact_large(data: bytes) -> bytes:
    data = _redact_by_rules(data, [rule for rule in _RULES if rule.hint == b""])
    ends: list[int] = []
    _finder().scan(data, match_event_handler=lambda _id, _start, end, _flags, _context: ends.append(end))
    pieces: list[bytes] = []
    done = 0
    for start, end in _lines_at(data, ends):
        pieces += [data[done:start], _redact_by_rules(data[start:end], _RULES)]
        done = end
    return data if not pieces else b"".join([*pieces, data[done:]])


def _lines_at(data: bytes, ends: list[int]) -> Iterator[tuple[int, int]]:
    """The lines in which the matches end, in order, each once."""
    done = 0
    for end in sorted(ends):
        if end <= done:
            continue
        start = data.rfind(b"\n", 0, end - 1) + 1
        done = data.find(b"\n", end - 1) + 1 or len(data)
        yield start, done


# ---------------------------------------------------------------- JSON
#
# Only string literals are replaced, each by another literal on the same line, so a document stays valid and keeps its lines.
# A string that is a document itself (a manifest in an annotation) is treated as one.

_DEEPEST = 3
_LITERAL = _Pattern(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_PROMPT_KEYS = frozenset(
    {"prompt", "prompt_text", "content", "reasoning_content", "text", "generated_text", "input", "input_text", "output", "output_text", "arguments"}
)
_LAST_WORD = _Pattern(rb"(.*?)(" + _LOUD + rb"|" + _QUIET + rb")(?:_(?:id|base64|b64|value|[0-9]{1,3}))?\Z", re.DOTALL)
_SECRET_FLAG = re.compile(r"--[a-z_-]{0,40}(?:api[-_]key|token|password|secret|credentials?)\Z", re.IGNORECASE)


class _Object(list[tuple[str, object]]):
    """The pairs of a JSON object in the order of the text, duplicates kept."""


def _redact_json(data: bytes, depth: int) -> bytes | None:
    """The document with its strings redacted, or None when it is not one JSON document (or is nested beyond reason)."""
    try:
        document = json.loads(data, object_pairs_hook=_Object)
        strings: list[str | None] = []
        _walk(document, strings, depth)
    except (ValueError, RecursionError):
        return None
    if not any(text is not None for text in strings):
        return data
    fresh = iter(strings)

    def literal(match: _Match) -> bytes:
        text = next(fresh)
        return match.group(0) if text is None else json.dumps(text).encode()

    return _LITERAL.sub(literal, data)


def _walk(node: object, strings: list[str | None], depth: int, key: str = "") -> None:
    """Appends to `strings`, for each string of the document in the order of the text, its replacement (None: it stays)."""
    if isinstance(node, _Object):
        env = _name_of_secret_entry(node)
        for name, value in node:
            strings.append(_clean_string(name, depth))
            _walk(value, strings, depth, env if env and name == "value" else name)
    elif isinstance(node, list):
        previous = ""
        for value in node:
            flag = isinstance(previous, str) and _SECRET_FLAG.match(previous) and not str(value).startswith("-")
            _walk(value, strings, depth, "secret" if flag else key)
            previous = value if isinstance(value, str) else ""
    elif isinstance(node, str):
        strings.append(_clean_value(key, node, depth))


def _name_of_secret_entry(node: _Object) -> str:
    """The name in `{"name": ..., "value": ...}`, as in a container's environment."""
    return next((value for name, value in node if name == "name" and isinstance(value, str)), "")


def _clean_value(key: str, text: str, depth: int) -> str | None:
    mark = MARK.decode()
    if key in _PROMPT_KEYS or (key.endswith("_prompt") and not key.endswith("per_prompt")):
        return mark if text and text != mark else None
    found = _LAST_WORD.match(key.encode("utf-8", "surrogatepass").lower())
    if found and text and text != mark and _telling(found.group(1), found.group(2)) and not _SMALL_NUMBER.match(text.encode("utf-8", "surrogatepass")):
        return mark
    return _clean_string(text, depth)


def _clean_string(text: str, depth: int) -> str | None:
    if len(text) < 8:
        return None
    raw = text.encode("utf-8", "surrogatepass")
    clean = _redact(raw, depth + 1)
    return None if clean == raw else clean.decode("utf-8", "surrogatepass")


def _mend_json_lines(before: bytes, after: bytes, depth: int) -> bytes:
    """Structured logs hold one document a line: one that the rules broke is done again as JSON."""
    if b'{"' not in before:
        return after
    lines = after.split(b"\n")
    for index, (old, new) in enumerate(zip(before.split(b"\n"), lines, strict=True)):
        if old != new and old.lstrip()[:1] == b"{" and not _is_json(new):
            lines[index] = _redact_json(old, depth) or new
    return b"\n".join(lines)


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
