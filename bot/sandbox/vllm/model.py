"""What a model asks of a card, and the catalogue that the demo's manifests name with `--model`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Model:
    """Sizes in GiB for the whole model, before it is split over cards.

    `peak_gib` is the activation peak for 8192 batched tokens, of which `peak_floor_gib` does not shrink with them; `graph_gib` the graphs for 256 sequences;
    `burst_gib` what the worst moment of serving takes beyond the profile for 256 sequences at once, `burst_after_s` after it is ready;
    `host_gib` what the server holds of host memory once its weights are loaded, `load_s` how long that takes."""

    weights_gib: float
    kv_bytes_per_token: int
    context: int
    peak_gib: float = 1.4
    peak_floor_gib: float = 0.2
    non_torch_gib: float = 0.27
    context_gib: float = 0.47  # CUDA context and NCCL, taken before the start-up check looks
    graph_gib: float = 0.7
    vocabulary: int = 152_064
    layers: int = 64
    shards: int = 8
    load_s: float = 42.0
    host_gib: float = 9.0
    burst_gib: float = 0.0
    burst_after_s: float = 90.0
    dtype: str = "torch.bfloat16"


MODELS = {
    # One request of its whole context does not fit beside the weights on a 44 GiB card.
    "/models/chat-32b-w6": Model(weights_gib=27.70, kv_bytes_per_token=196_608, context=131_072, peak_gib=1.41, peak_floor_gib=1.2),
    # Fits a 22 GiB card only with a high utilisation.
    "/models/chat-9b": Model(
        weights_gib=17.97, kv_bytes_per_token=32_768, context=8_192, peak_gib=2.1, peak_floor_gib=0.9, graph_gib=0.35, load_s=24, layers=40, shards=4
    ),
    # Does not fit one 44 GiB card at all.
    "/models/chat-70b": Model(weights_gib=131.4, kv_bytes_per_token=327_680, context=32_768, load_s=190, host_gib=18, layers=80, shards=30),
    # Long prompts while serving take more than the profile saw.
    "/models/code-14b": Model(weights_gib=27.51, kv_bytes_per_token=196_608, context=32_768, peak_gib=1.6, burst_gib=2.0, load_s=35, layers=48, shards=6),
    # Its graphs are large: at a high utilisation nothing is left for them.
    "/models/moe-30b": Model(weights_gib=30.2, kv_bytes_per_token=98_304, context=32_768, peak_gib=1.9, graph_gib=2.0, load_s=50, layers=48, shards=16),
    # Needs much host memory while it loads.
    "/models/embed-7b": Model(
        weights_gib=14.2, kv_bytes_per_token=57_344, context=8_192, peak_gib=1.1, graph_gib=0.4, host_gib=29.0, load_s=30, layers=28, shards=4
    ),
    # Loads for a long time from slow storage.
    "/models/rerank-24b": Model(weights_gib=24.1, kv_bytes_per_token=163_840, context=16_384, peak_gib=1.3, load_s=700.0, host_gib=14.0, layers=40, shards=10),
    "/models/small-1b": Model(
        weights_gib=2.3, kv_bytes_per_token=32_768, context=8_192, peak_gib=0.6, peak_floor_gib=0.3, graph_gib=0.25, load_s=6, host_gib=4, layers=16, shards=1
    ),
}
UNKNOWN_MODEL = MODELS["/models/small-1b"]
