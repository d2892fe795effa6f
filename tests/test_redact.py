"""What must go, what must stay, and that nothing else moves."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.redact import redact

SECRETS = [
    (b"HF_TOKEN=hf_AbCdEfGhIjKlMnOpQrStUvWxYz", b"hf_AbCd"),
    (b"downloading with hf_AbCdEfGhIjKlMnOpQrStUvWxYz now", b"hf_AbCd"),
    (b"xoxb-12345678901-abcdefghijk", b"12345678901"),
    (b"xapp-1-A0123456789-9876543210-abcdef", b"9876543210"),
    (b"Authorization: Bearer abc.def-ghi_jkl", b"abc.def"),
    (b"curl -H 'authorization: Basic dXNlcjpwYXNzd29yZA=='", b"dXNlcjpw"),
    (b"AWS key AKIAIOSFODNN7EXAMPLE used", b"AKIAIOSFODNN7"),
    (b"AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", b"wJalr"),
    (b"AWS_ACCESS_KEY_ID: something-odd", b"something-odd"),
    (b"export DB_PASSWORD='hunter2 and more'", b"hunter2"),
    (b"PASSWORD=1234", b"1234"),
    (b"https://user:pa55w0rd@example.com/x", b"pa55w0rd"),
    (b"git clone https://0123456789abcdef0123456789@github.com/a/b", b"0123456789abcdef"),
    (b"vllm serve m --api-key my-own-key --port 8000", b"my-own-key"),
    (b"vllm serve m --api-key=my-own-key", b"my-own-key"),
    (b'"args": ["--api-key", "my-own-key", "--port"]', b"my-own-key"),
    (b"non-default args: {'api_key': ['my-own-key'], 'port': 1}", b"my-own-key"),
    (b"token=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc", b"eyJzdWI"),
    (b"Token token=y_NbAkKc66ryYTWUXYEu", b"y_NbAk"),
    (b"hooks.slack.com/services/T000/B000/XXXXXXXXXXXX", b"XXXXXXXX"),
    (b"OPENAI sk-proj-abcdefghijklmnopqrstuvwx", b"abcdefghijkl"),
    (b"Cookie: session=abcdef; other=1", b"abcdef"),
    (b"GET /x?X-Amz-Signature=0123456789abcdef0123456789abcdef&y=1", b"0123456789abcdef"),
    (b"- name: GIT_TOKEN\n  value: plain-looking", b"plain-looking"),
    (b"Received request cmpl-1: prompt: 'my illness is \\'secret\\' yes', params: SamplingParams(n=1)", b"illness"),
    (b"Received request cmpl-1: prompt: \"it's cut in the mid", b"cut in"),
    (b"{'role': 'user', 'content': 'tell me of my salary'}", b"salary"),
    (b"prompt_token_ids: [128000, 9906, 11], lora_request: None", b"9906"),
    (b"[{'type': 'missing', 'loc': ('body', 'model'), 'msg': 'Field required', 'input': 'my diary'}]", b"diary"),
    (b'{"level": "info", "msg": "call", "prompt": "my diary", "api_key": "plain"}', b"diary"),
    (b'{"level": "info", "msg": "call", "prompt": "my diary", "api_key": "plain"}', b"plain"),
    (b"environ({'HF_TOKEN': 'plain', 'PATH': '/bin'})", b"plain"),
    (b"Namespace(host=None, api_key='plain-one', ssl_keyfile=None)", b"plain-one"),
    (b"output: 'the answer is private', output_token_ids: [1, 2]", b"private"),
]

HARMLESS = [
    b"INFO 11-30 09:12:01 [loggers.py:123] Engine 000: Avg prompt throughput: 0.0 tokens/s, Running: 1 reqs",
    b"ValueError: To serve at least one request with the models's max seq len (131072), (24.00 GiB KV cache is needed",
    b"bos_token='<s>' eos_token='</s>' pad_token: '<pad>'",
    b"KeyError: 'model.layers.0.self_attn.qkv_proj'",
    b"TOKENIZERS_PARALLELISM=false VLLM_MAX_TOKENS=4096",
    b"max_num_batched_tokens=8192, max_tokens=16, cache_key=ab12",
    b'"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}], "topologyKey": "kubernetes.io/hostname"',
    b'{"secretName": "tls", "secretKeyRef": {"key": "token", "name": "hf"}}',
    b"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg=/kubepods.slice",
    b"GPU 0: NVIDIA L40S (UUID: GPU-8f0a0b7e-1111-2222-3333-444455556666)",
    b"vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 131072 --gpu-memory-utilization 0.9",
    b"prompt: None, params: SamplingParams(n=1), prompt_token_ids: None",
    b"ssh://node-7:22 http://10.0.0.1:8000/health user@host:/path",
    b"non-default args: {'limit_mm_per_prompt': 'image=100'}",
    b"allow_credentials=False, allowed_origins=['*']",
    b"ssl_keyfile='/etc/tls/tls.key', hf_token=None, tokenizer='m', tokenizer_mode=auto, skip_tokenizer_init=False",
    b"Basic usage of the command line",
]


@pytest.mark.parametrize(("line", "secret"), SECRETS, ids=[line[:40].decode() for line, _ in SECRETS])
def test_secret_goes_and_its_neighbourhood_stays(line: bytes, secret: bytes) -> None:
    clean = redact(b"before\n" + line + b"\nafter\n")
    assert secret not in clean
    assert b"[redacted]" in clean
    assert clean.startswith(b"before\n")
    assert clean.endswith(b"\nafter\n")
    assert redact(clean) == clean


@pytest.mark.parametrize("line", HARMLESS, ids=[line[:40].decode() for line in HARMLESS])
def test_what_diagnosis_needs_is_left_alone(line: bytes) -> None:
    assert redact(line) == line


def pod() -> dict[str, object]:
    env = [
        {"name": "HF_TOKEN", "value": 'ab"c\\'},
        {"name": "VLLM_API_KEY", "value": "plain"},
        {"name": "PORT", "value": "8000"},
        {"name": "VLLM_TOKEN_LIMIT", "value": "4096"},
        {"name": "FROM_SECRET_KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "token"}}},
    ]
    container = {"name": "server", "args": ["--api-key", "s3", "--model", "m"], "env": env}
    applied = json.dumps({"spec": {"containers": [container]}})
    return {"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": applied}}, "spec": {"containers": [container]}}


@pytest.mark.parametrize("indent", [None, 4])
def test_pod_json_stays_json_and_loses_only_the_secret_values(indent: int | None) -> None:
    clean = json.loads(redact(json.dumps(pod(), indent=indent).encode()))
    container = clean["spec"]["containers"][0]
    assert [entry.get("value") for entry in container["env"]] == ["[redacted]", "[redacted]", "8000", "4096", None]
    assert container["args"] == ["--api-key", "[redacted]", "--model", "m"]
    assert container["env"][4]["valueFrom"]["secretKeyRef"]["key"] == "token"


def test_secret_in_the_last_applied_annotation_goes_too() -> None:
    clean = json.loads(redact(json.dumps(pod()).encode()))
    applied = json.loads(clean["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"])
    values = [entry.get("value") for entry in applied["spec"]["containers"][0]["env"]]
    assert values == ["[redacted]", "[redacted]", "8000", "4096", None]


KEY = b"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\nAAAABG5vbmUAAAAEbm9uZQ==\n-----END OPENSSH PRIVATE KEY-----"


def test_private_key_goes_and_its_lines_still_count() -> None:
    clean = redact(b"a\n" + KEY + b"\nz\n")
    assert b"b3Blb" not in clean
    assert clean.count(b"\n") == 5 + 1
    assert clean.endswith(b"\nz\n")


def test_private_key_cut_before_its_end_goes() -> None:
    assert b"b3Blb" not in redact(KEY[:80])


def test_private_key_inside_json_leaves_json_valid() -> None:
    text = json.dumps({"a": "-----BEGIN PRIVATE KEY-----", "b": 1, "c": KEY.decode()}).encode()
    clean = json.loads(redact(text))
    assert clean["b"] == 1
    assert "b3Blb" not in clean["c"]


FRAGMENTS = st.sampled_from(
    [
        b"HF_TOKEN",
        b"=",
        b": ",
        b'"',
        b"'",
        b"\\",
        b'\\"',
        b"\n",
        b"[redacted]",
        b"prompt",
        b"hf_",
        b"A" * 20,
        b"-----BEGIN PRIVATE KEY-----",
        b"{",
        b"}",
        b"[",
        b"]",
        b", ",
        b'"name":',
        b'"value":',
        b"://",
        b"@",
        b"password",
        b"--api-key ",
        b"content",
        b"token_ids: [",
        b"1, 2",
        b" ",
        b"Bearer ",
        b"-----END PRIVATE KEY-----",
        b"\xff",
    ]
)


@settings(max_examples=400, deadline=None)
@given(st.lists(FRAGMENTS, max_size=24).map(b"".join))
def test_twice_is_once_and_lines_stay(data: bytes) -> None:
    once = redact(data)
    assert once.count(b"\n") == data.count(b"\n")
    assert redact(once) == once


JSON_TEXT = st.text(alphabet=st.sampled_from("ab\"\\'\n{}[]:=, é") | st.sampled_from("tokenpassword"), max_size=12)
NAMES = st.sampled_from(["HF_TOKEN", "PASSWORD", "prompt", "content", "name", "value", "X_KEY", "token_ids", "--api-key"])


@settings(max_examples=300, deadline=None)
@given(
    st.recursive(JSON_TEXT | NAMES | st.integers(), lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12),
    st.sampled_from([None, 2]),
)
def test_json_stays_json(value: object, indent: int | None) -> None:
    json.loads(redact(json.dumps(value, indent=indent).encode()))


@pytest.mark.parametrize(
    "hostile",
    [
        b"key" * 300_000,
        b"password=" * 100_000,
        b"'" * 900_000,
        b"prompt: '" * 90_000,
        b"://" * 300_000,
        b"\\" * 900_000,
        b'"name": "' * 90_000,
        b"token_ids: [1" * 60_000,
        b"--api-key" * 90_000,
        b"eyJ" * 300_000,
        b"-----BEGIN PRIVATE KEY-----" * 20_000,
        b"HF_" * 300_000 + b"TOKEN=",
        b"password=[" * 90_000,
        b"name: A\n" * 90_000,
    ],
    ids=lambda value: value[:12].decode(),
)
def test_hostile_text_of_a_megabyte_takes_no_longer_than_seconds(hostile: bytes) -> None:
    start = time.perf_counter()
    redact(hostile)
    assert time.perf_counter() - start < 5


def test_large_text_is_redacted_like_its_single_lines() -> None:
    lines = [line for line, _ in SECRETS if b"\n" not in line] + HARMLESS
    filler = [b"INFO Avg generation throughput: 12.0 tokens/s, Running: 1 reqs"] * 20
    text = b"\n".join(line for secret in lines for line in (*filler, secret)) * 3
    assert len(text) > 64 * 1024
    assert redact(text) == b"\n".join(redact(line) for line in text.split(b"\n"))


def test_ordinary_log_of_ten_megabytes_takes_less_than_a_second() -> None:
    text = b"INFO 11-30 09:12:01 [loggers.py:123] Engine 000: Avg generation throughput: 12.0 tokens/s, GPU KV cache usage: 0.3%\n" * 90_000
    start = time.perf_counter()
    assert redact(text) == text
    assert time.perf_counter() - start < 1
