"""Weighs findings against each other: by how sure each is, and by one table of which cause explains which symptom.

The table is the only place where causes know each other. A symptom that a cause explains is no rival of it.
"""

from collections.abc import Iterable, Sequence

from bot.diagnosis.signatures import Finding
from bot.model import Certainty

# cause -> what it makes look like another cause
EXPLAINS: dict[str, tuple[str, ...]] = {
    "other_process_on_gpu": (
        "free_memory_below_request",
        "kv_cache_too_small",
        "gpu_oom",
        "weights_too_large",
        "runtime_burst",
        "profile_run_peak",
        "nccl_oom",
        "normal_termination",
    ),
    "reserved_memory": ("free_memory_below_request", "gpu_oom", "kv_cache_too_small", "context_exceeds_kv_cache", "application_error"),
    "heterogeneous_gpus": ("weights_too_large", "profile_run_peak", "kv_cache_too_small", "gpu_oom", "free_memory_below_request", "application_error"),
    "cuda_graph_capture": ("kv_cache_too_small", "gpu_oom", "context_exceeds_kv_cache"),
    "sampler_warmup": ("gpu_oom", "profile_run_peak", "kv_cache_too_small"),
    "weights_too_large": ("gpu_oom", "application_error"),
    "profile_run_peak": ("gpu_oom", "application_error"),
    "runtime_burst": ("gpu_oom", "application_error"),
    "fragmentation": ("gpu_oom", "runtime_burst", "weights_too_large"),
    "memory_leak": ("gpu_oom", "runtime_burst", "fragmentation", "container_memory_limit", "node_out_of_memory"),
    "kv_cache_too_small": ("application_error",),
    "context_exceeds_kv_cache": ("kv_cache_too_small", "application_error"),
    "nccl_oom": ("nccl_failure", "gpu_oom", "application_error"),
    "shm_too_small": ("nccl_failure", "abort", "segfault", "application_error", "child_killed_in_container"),
    "gpu_fault": ("nccl_failure", "abort", "segfault", "application_error", "unschedulable"),
    "container_memory_limit": ("child_killed_in_container", "application_error", "nccl_failure", "abort", "probe_kill"),
    "child_killed_in_container": ("application_error", "nccl_failure", "abort"),
    "node_out_of_memory": ("child_killed_in_container", "application_error", "nccl_failure", "node_lost"),
    "ray_memory_monitor": ("child_killed_in_container", "node_out_of_memory", "application_error"),
    "ray_object_store": ("application_error",),
    "kernel_resource_limit": ("application_error", "gpu_oom"),
    "probe_kill": ("normal_termination", "grace_period_kill"),
    "grace_period_kill": ("normal_termination",),
    "evicted_for_memory": ("normal_termination", "grace_period_kill", "node_out_of_memory"),
    "evicted_other": ("normal_termination", "grace_period_kill"),
    "node_lost": ("normal_termination", "grace_period_kill", "unschedulable"),
    "nccl_failure": ("application_error", "abort"),
    "segfault": ("application_error",),
    "abort": ("application_error",),
    "cpu_throttling": ("healthy",),
}
_NO_FAILURE = ("healthy", "unknown")
_ORDER = {Certainty.CERTAIN: 0, Certainty.LIKELY: 1, Certainty.POSSIBLE: 2}


def _explained(finding: Finding, others: Iterable[Finding]) -> bool:
    """Whether another finding, at most one step less sure, makes this one a mere symptom."""
    return any(
        finding.cause in EXPLAINS.get(other.cause, ()) and _ORDER[other.certainty] <= max(1, _ORDER[finding.certainty])
        for other in others
        if other.cause != finding.cause
    )


def ranked(findings: Sequence[Finding]) -> list[Finding]:
    """Best first, one finding a cause; symptoms of a better finding are left out."""
    best: dict[str, Finding] = {}
    for finding in findings:
        held = best.get(finding.cause)
        if held is None or _key(finding) < _key(held):
            best[finding.cause] = finding
    kept = [finding for finding in best.values() if not _explained(finding, best.values())]
    return sorted(kept or best.values(), key=_key)


def _key(finding: Finding) -> tuple[int, bool, int, str]:
    """Surer first; of equals that something failed before that nothing did, then the one that asks for more, since it says more."""
    return _ORDER[finding.certainty], finding.cause in _NO_FAILURE, -len(finding.signature.when), finding.signature.id
