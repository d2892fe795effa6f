"""The public vocabulary of causes by family. The ids appear in JSON, metrics, chat and audit, so they are never renamed."""

FAMILIES: dict[str, tuple[str, ...]] = {
    "device_memory": (
        "weights_too_large",
        "free_memory_below_request",
        "other_process_on_gpu",
        "reserved_memory",
        "kv_cache_too_small",
        "context_exceeds_kv_cache",
        "profile_run_peak",
        "cuda_graph_capture",
        "sampler_warmup",
        "runtime_burst",
        "fragmentation",
        "memory_leak",
        "heterogeneous_gpus",
        "gpu_oom",
    ),
    "communication": ("nccl_oom", "nccl_failure", "shm_too_small"),
    "host_memory": (
        "container_memory_limit",
        "child_killed_in_container",
        "node_out_of_memory",
        "evicted_for_memory",
        "init_container_memory",
        "sidecar_memory",
        "ray_memory_monitor",
        "ray_object_store",
    ),
    "not_memory": (
        "evicted_other",
        "probe_kill",
        "grace_period_kill",
        "normal_termination",
        "node_lost",
        "unschedulable",
        "cpu_throttling",
        "gpu_fault",
        "kernel_resource_limit",
        "segfault",
        "abort",
        "application_error",
        "healthy",
    ),
    "unknown": ("unknown",),
}

_FAMILY = {cause: family for family, causes in FAMILIES.items() for cause in causes}


def family_of(cause: str) -> str:
    """The family of a cause. Raises KeyError for a word that is no cause."""
    return _FAMILY[cause]
