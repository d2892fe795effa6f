"""A vLLM server as it is seen from outside: what it prints, how long it takes, how it ends. Pure and deterministic; it serves nothing."""

from bot.sandbox.vllm.model import MODELS, Model
from bot.sandbox.vllm.server import server

__all__ = ["MODELS", "Model", "server"]
