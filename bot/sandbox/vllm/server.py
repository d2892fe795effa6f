"""A server's life as a Play: phases in their order and with their lines, until it serves or the first inequality that fails ends it."""

from collections.abc import Callable, Mapping, Sequence

from bot.ports import Json
from bot.sandbox.kubelet.play import Behaviour, Card, End, HostKill, Line, Place, Play
from bot.sandbox.vllm import frames, words
from bot.sandbox.vllm.arguments import Arguments, Usage, read
from bot.sandbox.vllm.budget import Budget, Failure, at_least, divide
from bot.sandbox.vllm.frames import Frame
from bot.sandbox.vllm.model import UNKNOWN_MODEL, Model
from bot.units import GIB, MIB

PROCESS = "VLLM::EngineCor"  # the kernel cuts names at 15 characters
NO_CARD = "RuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG` to turn on verbose logging to help debug the issue."


def server(models: Mapping[str, Model]) -> Behaviour:
    """The behaviour of a container that runs vLLM; `models` by the name given to it."""

    def behave(container: Json, place: Place) -> Play:
        try:
            given = read(container, place.environment)
        except Usage as wrong:
            return Play((Line(4.0, "usage: vllm serve [model_tag] [options]"), Line(4.0, str(wrong))), None, End(4.2, 2))
        model = models.get(given.model)
        if model is None and given.model:
            return _no_model(given)
        return _Life(given, model or UNKNOWN_MODEL, place).play()

    return behave


def _no_model(given: Arguments) -> Play:
    why = (f"OSError: {given.model} is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'\n"
           "If this is a private repository, make sure to pass a token having permission to this repo either by logging in with `hf auth login` or by passing `token=<your_token>`")  # fmt: skip
    return Play(tuple(Line(6.0, f"(APIServer pid=1) {row}") for row in words.traceback((), why)), None, End(6.5, 1))


class _Life:
    """Collects lines while the clock `at` goes on. One instance, one Play."""

    def __init__(self, given: Arguments, model: Model, place: Place) -> None:
        self.given, self.model, self.place = given, model, place
        self.version, self.ranks = given.version, given.tensor_parallel
        self.lines: list[Line] = []
        self.device: list[tuple[float, int]] = []
        self.host: list[tuple[float, int]] = [(0.0, int(0.6 * GIB))]
        self.at = 0.0

    def play(self) -> Play:
        self._hello()
        if len(self.place.cards) < self.ranks:
            return self._no_cards()
        budgets = [divide(self.given, self.model, card) for card in self.place.cards[: self.ranks]]
        # The rank with the least room rules.
        rank = min(range(self.ranks), key=lambda each: (_order(budgets[each].failure), budgets[each].available))
        return self._start(budgets, rank)

    # ------------------------------------------------------------ phases

    def _hello(self) -> None:
        shown = ", ".join(f"{name!r}: {value!r}" for name, value in self.given.given.items())
        self._front(6.5, f"vLLM API server version {self.version}", "api_server.py:1839")
        self._front(0.1, f"non-default args: {{{shown}}}", "utils.py:233")
        self._front(3.0, f"Using max model len {self.given.max_model_len or self.model.context}", "model.py:1510")

    def _no_cards(self) -> Play:
        if self.place.cards:
            why = f"ValueError: World size ({self.ranks}) is larger than the number of available GPUs ({len(self.place.cards)}) in this node. If this is intentional and you are using:"
            return self._die(frames.EXECUTOR, why)
        self._say(1.0, *(f"(APIServer pid=1) {row}" for row in words.traceback((), NO_CARD)))
        return self._end(1)

    def _start(self, budgets: Sequence[Budget], rank: int) -> Play:
        worst = budgets[rank]
        if worst.failure is Failure.RANGE:
            self._say(0.5, *(f"(APIServer pid=1) {row}" for row in words.traceback(frames.FRONT[:1], words.out_of_range(self.version, worst))))
            return self._end(1)
        self._front(0.2, f"Chunked prefill is enabled with max_num_batched_tokens={worst.max_num_batched_tokens}.", "scheduler.py:205")
        self._engine(7.0, self._config(worst), "core.py:77")
        self._each(2.5, lambda each: "Using Flash Attention backend on V1 engine.", "cuda.py:366")
        self._hold(self.model.context_gib * GIB)
        if worst.failure is Failure.FREE_BELOW_REQUEST:
            self.at += 1.0
            return self._die(frames.DEVICE, words.free_below_request(self.version, rank, worst))
        self._each(0.4, lambda each: f"Starting to load model {self.given.model}...", "gpu_model_runner.py:2602")
        killed = self._host_short()
        if worst.failure is Failure.LOAD:
            return self._load_fails(worst, rank)
        self._load(worst, until=killed)
        if killed is not None:
            return self._killed()
        return self._profile(budgets, rank)

    def _config(self, budget: Budget) -> str:
        model = self.given.model
        return (f"Initializing a V1 LLM engine (v{self.version}) with config: model='{model}', speculative_config=None, tokenizer='{model}', skip_tokenizer_init=False, "
                f"tokenizer_mode=auto, trust_remote_code=False, dtype={self.model.dtype}, max_seq_len={budget.max_model_len}, download_dir=None, load_format=auto, "
                f"tensor_parallel_size={self.ranks}, pipeline_parallel_size=1, data_parallel_size=1, disable_custom_all_reduce=False, "
                f"quantization={self.given.quantization or None}, enforce_eager={self.given.eager}, kv_cache_dtype={self.given.kv_cache_dtype}, device_config=cuda, seed=0, "
                f"served_model_name={model}, enable_prefix_caching=True, chunked_prefill_enabled=True, pooler_config=None")  # fmt: skip

    def _load(self, budget: Budget, until: float | None = None) -> None:
        """Shards come evenly; `until` is the share of them after which the host has had enough."""
        a_shard, begun = self.model.load_s / self.model.shards, self.at
        for number in range(self.model.shards + 1):
            share = number / self.model.shards
            if until is not None and share > until:
                self.at = begun + until * self.model.load_s
                return
            self.at = begun + share * self.model.load_s
            self._say(0.0, f"{words.engine_prefix(self.version)}{_progress(number, self.model.shards, a_shard)}")
            self._hold(self.model.context_gib * GIB + budget.weights * share)
            self.host.append((self.at, int((0.6 + (self.model.host_gib - 0.6) * share) * GIB)))
        self._engine(0.2, f"Loading weights took {self.model.load_s:.2f} seconds", "default_loader.py:267")
        took = self.model.load_s + 0.9
        self._each(0.7, lambda each: words.weights_loaded(self.version, budget, took + each * 0.013), "gpu_model_runner.py:2653")

    def _profile(self, budgets: Sequence[Budget], rank: int) -> Play:
        worst = budgets[rank]
        if worst.failure is Failure.PROFILE:
            self.at += 4.0
            return self._oom(frames.PROFILE, worst, rank, worst.peak // 3, worst.free_at_start - worst.weights - worst.non_torch, worst.weights)
        compiled = 21.4
        if not self.given.eager:
            self._engine(compiled, f"torch.compile takes {compiled:.2f} s in total", "monitor.py:34")
        if self.given.kv_cache_bytes is not None:
            self._each(0.5, lambda each: words.cache_fixed(budgets[each]), "gpu_worker.py:271")
        else:
            for text in words.graphs_estimated(worst):
                self._engine(2.0, text, "gpu_model_runner.py:5563")
            self._each(3.0, lambda each: words.available(budgets[each]), "gpu_worker.py:298")
        self._hold(worst.weights + worst.non_torch + self.model.context_gib * GIB)
        if worst.failure is Failure.NO_BLOCKS:
            return self._die(frames.SIZING, words.no_blocks(self.version))
        if worst.failure is Failure.CONTEXT:
            return self._die(frames.SIZING, words.context_exceeds(self.version, worst))
        for text in words.cache_size(self.version, worst):
            self._engine(0.1, text, "kv_cache_utils.py:1087")
        return self._capture(worst, rank)

    def _capture(self, worst: Budget, rank: int) -> Play:
        held = self.model.context_gib * GIB + worst.weights + worst.non_torch + max(0, worst.available)
        self._hold(held)
        if not self.given.eager:
            failed = worst.failure is Failure.CAPTURE
            for share in (0, 27) if failed else (0, 31, 67):
                self._say(
                    4.0,
                    f"{words.engine_prefix(self.version)}Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): {round(share / 67 * 100):3d}%|{'█' * (share // 7):10}| {share}/67",
                )
            if failed:
                room = worst.free_after_cache - worst.peak
                spent = max(0, room - 12 * MIB)
                return self._oom(
                    frames.CAPTURE,
                    worst,
                    rank,
                    max(20 * MIB, worst.graphs // 67 * 2),
                    max(8 * MIB, room - spent),
                    worst.weights + worst.available,
                    private=spent,
                )
            self._engine(0.5, words.captured(worst, 12), "gpu_model_runner.py:3480")
            self._hold(held + worst.graphs)
        if worst.failure is Failure.SAMPLER:
            self.at += 1.5
            return self._die(frames.SAMPLER, words.sampler(worst))
        self._engine(0.4, f"init engine (profile, create kv cache, warmup model) took {self.at - 20:.2f} seconds", "core.py:210")
        return self._serve(worst, rank, held + worst.graphs)

    def _serve(self, worst: Budget, rank: int, held: float) -> Play:
        self._hold(held + worst.peak)
        self._front(1.0, f"Starting vLLM API server 0 on http://0.0.0.0:{self.given.port}", "api_server.py:1912")
        for text in ("Started server process [1]", "Waiting for application startup.", "Application startup complete."):
            self._say(0.1, f"(APIServer pid=1) INFO:     {text}")
        ready = self.at + 0.5
        self.at = ready
        busy = worst.failure is Failure.BURST
        for number in range(int(self.model.burst_after_s // 10) if busy else 3):
            self._front(10.0, words.stats(410.0 + 37 * number, (24 + 9 * number) if busy else 4, 6.0 + 4.2 * number), "loggers.py:127")
        if not busy:
            return self._finish(ready, None)
        self.at = ready + self.model.burst_after_s
        room = max(24 * MIB, worst.free_after_cache - worst.peak - worst.graphs)
        return self._oom(frames.SERVING, worst, rank, worst.burst, room, worst.weights + worst.available + worst.peak, ready=ready, private=worst.graphs)

    # ------------------------------------------------------------ endings

    def _load_fails(self, worst: Budget, rank: int) -> Play:
        self.at += 8.0
        room, piece = worst.free_at_start, 448 * MIB
        free = room % piece
        text = words.torch_oom(self.version, rank, piece, free, worst, room - free - 6 * MIB, 6 * MIB, self._tenants(rank), self.place.pid)
        if at_least(self.version, "0.13.0"):
            self._engine(0.0, words.load_wrapper(text), "gpu_model_runner.py:3553", "ERROR")
        return self._die(frames.LOAD, f"torch.OutOfMemoryError: {text}")

    def _oom(
        self, where: Sequence[Frame], worst: Budget, rank: int, asked: int, free: int, allocated: int, *, ready: float | None = None, private: int = 0
    ) -> Play:
        asked = max(asked // (2 * MIB) * 2 * MIB, free // (2 * MIB) * 2 * MIB + 20 * MIB)
        text = words.torch_oom(self.version, rank, asked, free, worst, allocated + private, 118 * MIB, self._tenants(rank), self.place.pid, private)
        return self._die(where, f"torch.OutOfMemoryError: {text}", ready=ready)

    def _tenants(self, rank: int) -> Sequence[tuple[int, int]]:
        card: Card = self.place.cards[rank]
        return card.others

    def _die(self, where: Sequence[Frame], error: str, *, ready: float | None = None) -> Play:
        """The engine ends with an exception, and the front end follows."""
        place = "core.py:708" if ready is None else "core.py:718"
        head = "EngineCore failed to start." if ready is None else "EngineCore encountered a fatal error."
        for row in [head, *words.traceback(where, error)]:
            self._engine(0.0, row, place, "ERROR")
        if ready is not None:
            self._front(0.2, "AsyncLLM output_handler failed.", "async_llm.py:480", "ERROR")
            dead = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause."
            self._front(0.0, dead, "async_llm.py:480", "ERROR")
            for text in ("Shutting down", "Waiting for application shutdown.", "Application shutdown complete.", "Finished server process [1]"):
                self._say(0.1, f"(APIServer pid=1) INFO:     {text}")
            return self._finish(ready, End(self.at + 0.5, 0, "Completed"))
        self._front_dies(f"{{'{words.engine_name(self.version)}': 1}}")
        return self._end(1)

    def _front_dies(self, processes: str) -> None:
        error = f"RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {processes}"
        self._say(1.5, *(f"(APIServer pid=1) {row}" for row in words.traceback(frames.FRONT, error)))

    def _host_short(self) -> float | None:
        """The share of the load at which the host's memory is at its end; None when it suffices."""
        limit = self.place.memory_limit if self.place.memory_limit is not None else self.place.node_memory
        wanted = (self.model.host_gib + self.given.cpu_offload_gib * self.ranks) * GIB
        return None if wanted <= limit else max(0.1, min(0.95, limit / wanted))

    def _killed(self) -> Play:
        limit = self.place.memory_limit
        size = limit if limit is not None else self.place.node_memory
        self.host.append((self.at, size))
        # memory.oom.group is set by the kubelet: the whole container goes at once, and nothing is printed.
        return self._finish(None, End(self.at + 0.2, 137, "OOMKilled", HostKill(PROCESS, size - 40 * MIB, limit, shmem_bytes=24 * MIB)))

    def _end(self, code: int) -> Play:
        return self._finish(None, End(self.at + 0.6, code))

    def _finish(self, ready: float | None, end: End | None) -> Play:
        return Play(tuple(self.lines), ready, end, tuple(self.device), tuple(self.host), PROCESS, leaves_after=2.0, leaves_early=None)

    # ------------------------------------------------------------ the clock

    def _say(self, after: float, *texts: str) -> None:
        self.at += after
        self.lines += [Line(self.at, text) for text in texts]

    def _front(self, after: float, text: str, place: str, level: str = "INFO") -> None:
        self._say(after, words.frontend(self.version, text, place, level))

    def _engine(self, after: float, text: str, place: str, level: str = "INFO") -> None:
        self._say(after, words.engine(self.version, text, place, level))

    def _each(self, after: float, text: Callable[[int], str], place: str) -> None:
        """One line of each rank."""
        self.at += after
        for rank in range(self.ranks):
            self._say(0.0, words.worker(self.version, rank, self.ranks, text(rank), place))

    def _hold(self, size: float) -> None:
        self.device.append((self.at, int(size)))


def _order(failure: Failure | None) -> int:
    return list(Failure).index(failure) if failure is not None else len(Failure)


def _progress(done: int, shards: int, seconds: float) -> str:
    left = (shards - done) * seconds
    clock = "{:02d}:{:02d}"
    spent = clock.format(*divmod(int(done * seconds), 60))
    rest = clock.format(*divmod(int(left), 60)) if done else "?"
    return f"Loading safetensors checkpoint shards: {round(done / shards * 100):3d}% Completed | {done}/{shards} [{spent}<{rest}, {seconds:5.2f}s/it]"
