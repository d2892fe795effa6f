"""Facts: the vocabulary of what can be known of an incident, and three-valued access to what is known of this one.

A fact is *known* (it has a value), *absent* (we looked and there was none) or *unknown* (we did not look, or what we
looked at was cut short). Readers give Facts and say which groups of names they looked at; whatever stands in a group
that nobody looked at is unknown.
"""

from collections.abc import Iterable, Iterator
from enum import Enum

from bot.model import Fact, Value

# name -> (type, meaning). Sizes are bytes (names end in _bytes), times seconds (_s). Besides these, the id of every log message is a fact (how often it
# was printed in the incident), and `<message id>.<field>` its typed field (`<field>_bytes` where that is a size). `pod.container.<n>.` and the like are read by Python only.
VOCABULARY: dict[str, tuple[str, str]] = {
    # -- the run of the server that is the incident (bot/diagnosis/log_facts.py)
    "log.looked": ("bool", "a log of the server was read"),
    "log.source": ("text", "the file of the incident"),
    "log.server": ("text", "which server wrote it: vllm, sglang, other"),
    "log.attempts": ("int", "how many starts of the server the file holds"),
    "log.stopped_in": ("text", "the log just stops, without error, shutdown or readiness, in this phase"),
    "log.ended": ("text", "how the run ended by its own log: ready, shutdown, error, stopped"),
    "log.ready": ("bool", "the server answered requests in this run"),
    "log.shutdown": ("bool", "somebody asked the server to stop before anything failed"),
    "log.neighbours": ("int", "other servers that write into the same file"),
    "failure.kind": ("text", "what the root says, by the `kind` of its message"),
    "failure.message": ("text", "id of the root message"),
    "failure.phase": ("text", "phase in which it failed"),
    "failure.basis": ("text", "what the phase rests on: message, stack, follower, marker"),
    "failure.purpose": ("text", "what was being done: weights_creation, repacking, multimodal_encoder, sampler, ..."),
    "failure.after_phase": ("text", "last phase that the run entered before"),
    "failure.rank": ("int", "rank of the first failing process, where it is said"),
    "failure.process": ("text", "name of the first failing process"),
    "failure.line": ("int", "line of the root"),
    "failure.exception": ("text", "class of an exception that no message describes"),
    "failure.logprobs": ("bool", "log-probabilities of a prompt were asked for near the failure"),
    "failure.colocated": ("bool", "a trainer shares the card in the same job"),
    "failure.earlier_kind": ("text", "kind of the root of the attempt before"),
    "failure.detail": ("text", "the exception's own words, for failures that no message describes"),
    "engine.died_silently": ("bool", "processes of the engine are gone, and none of them printed an error"),
    "engine.exit_code": ("int", "exit code of a process of the engine, negative for signals"),
    "engine.version": ("text", "version of the server"),
    "engine.version_minor": ("int", "8 for 0.8.x"),
    "engine.is_v1": ("bool", "the V1 engine"),
    "engine.model": ("text", "the model"),
    "engine.gpu_memory_utilization": ("float", "in force; set, or printed"),
    "engine.utilization_is_set": ("bool", "somebody chose the utilisation"),
    "engine.max_model_len": ("int", "tokens"),
    "engine.max_num_seqs": ("int", "requests at once"),
    "engine.max_num_batched_tokens": ("int", "tokens in one step"),
    "engine.kv_cache_memory_bytes": ("int", "bytes of cache, fixed"),
    "engine.kv_cache_dtype": ("text", "type of the cache's values"),
    "engine.dtype": ("text", "type of the weights"),
    "engine.quantization": ("text", "method"),
    "engine.tensor_parallel_size": ("int", "ranks that share each layer"),
    "engine.pipeline_parallel_size": ("int", "ranks that share the layers"),
    "engine.data_parallel_size": ("int", "copies of the engine"),
    "engine.block_size": ("int", "tokens in a block"),
    "engine.enforce_eager": ("bool", "no CUDA graphs"),
    "engine.chunked_prefill": ("bool", "prefill is cut into chunks"),
    "engine.estimate_cudagraphs": ("bool", "graphs are part of the sum"),
    "engine.cpu_offload_gb": ("float", "GiB of weights in host memory, for each rank"),
    "engine.swap_space": ("float", "GiB of host memory for swapped cache, for each rank"),
    "engine.enable_lora": ("bool", "adapters are in use"),
    "engine.limit_mm_per_prompt": ("text", "limits of media in one request"),
    "engine.speculative": ("bool", "a draft model or method is in use"),
    "engine.enable_sleep_mode": ("bool", "the engine may sleep"),
    "engine.prefix_caching": ("bool", "prefix caching was asked for"),
    "engine.distributed_executor_backend": ("text", "ray, mp, uni"),
    "engine.multimodal": ("bool", "images, video or sound are part of it, as far as is shown"),
    "engine.moe": ("bool", "a mixture of experts, as far as is shown"),
    "engine.ranks": ("int", "cards that one engine uses"),
    "engine.server": ("text", "the program of the command line: vllm, sglang, other"),
    "limits.already_minimal": ("bool", "max_num_seqs, max_num_batched_tokens and max_model_len are as small as they can be"),
    "limits.seqs_minimal": ("bool", "max_num_seqs is 1"),
    # -- the failed allocation (bot/diagnosis/allocation.py)
    "alloc.requested_bytes": ("int", "what was asked for"),
    "alloc.total_bytes": ("int", "the card"),
    "alloc.free_bytes": ("int", "what was free on the card"),
    "alloc.own_bytes": ("int", "what the process held"),
    "alloc.allocated_bytes": ("int", "what PyTorch had given out"),
    "alloc.unallocated_bytes": ("int", "what PyTorch held and had not given out"),
    "alloc.pools_bytes": ("int", "what stood in private pools (graphs, sleep mode)"),
    "alloc.outside_torch_bytes": ("int", "what the process held outside PyTorch"),
    "alloc.others_bytes": ("int", "what other processes held on the card"),
    "alloc.gpu": ("int", "index of the card as the process sees it"),
    "alloc.requested_over_total": ("float", "request over the card's size"),
    "alloc.allocated_share": ("float", "given out over the card's size"),
    "alloc.free_share": ("float", "free over the card's size"),
    "alloc.slack_covers_request": ("bool", "PyTorch held more unused memory than was asked for"),
    "alloc.others_share": ("float", "held by others over the card's size"),
    "alloc.reserved_unallocated_share": ("float", "held and not given out, over the card's size"),
    "alloc.unallocated_over_requested": ("float", "held and not given out, over the request"),
    "alloc.free_exceeds_requested": ("bool", "more was free than was asked for"),
    "alloc.platform": ("text", "CUDA, HIP, XPU, NPU"),
    # -- the cards (nvidia-smi, node readings, log)
    "gpus.count": ("int", "cards listed"),
    "gpus.names": ("text", "names of the cards, one after another"),
    "gpus.spare_count": ("int", "cards listed that this server does not use"),
    "gpus.used_by_server": ("int", "cards that this server uses"),
    "gpus.differ": ("bool", "names or sizes of the cards differ"),
    "gpus.failing_is_smallest": ("bool", "the failing card is smaller than another one of this server"),
    "gpus.idle_count": ("int", "cards that the server does not use"),
    "device.unified_memory": ("bool", "the card's memory is the host's (GB10, Grace, Jetson, APU)"),
    "device.total_bytes": ("int", "size of the card"),
    # -- the requests near the failure
    "requests.prompt_logprobs": ("bool", "a request near the failure asked for log-probabilities of its prompt"),
    "requests.waiting": ("int", "requests that waited at the last look"),
    "requests.running": ("int", "requests that ran at the last look"),
    "requests.cache_usage": ("float", "percent of the cache in use at the last look"),
    "requests.failed": ("bool", "a request was answered with an internal error"),
    "sleep.freed_bytes": ("int", "what sleep gave back"),
    "sleep.still_bytes": ("int", "what stayed in use on the card, by everybody"),
    "sleep.host_bytes": ("int", "what sleep moved into host memory"),
    # -- the budget (bot/diagnosis/budget_facts.py)
    "budget.free_share": ("float", "free at the start over the card's size"),
    "budget.held_bytes": ("int", "in use on the card before the server asked"),
    "budget.missing_bytes": ("int", "what the refused request lacks"),
    "budget.estimate_bytes": ("int", "graph estimate"),
    "budget.fits_without_estimate": ("bool", "without the graph estimate the cache would be large enough"),
    "budget.estimate_over_weights": ("float", "graph estimate over the weights"),
    "budget.weights_of_card_share": ("float", "weights over the card's size"),
    "budget.missing_cache_share": ("float", "cache that is missing over the cache that is needed"),
    "budget.room_above_share": ("float", "free at the start beyond the budget, over the card's size"),
    "budget.missing_share": ("float", "what the refused request lacks, over the card's size"),
    "budget.weights_share": ("float", "weights over the budget"),
    "budget.estimate_share": ("float", "graph estimate over the card's size"),
    "budget.uncharged_bytes": ("int", "what was charged that neither weights, peak nor estimate explain"),
    "budget.unexplained": ("bool", "weights are small against the budget, yet nothing is left"),
    "budget.utilization_at_end": ("bool", "utilisation is 0.95 or more already"),
    "budget.available_known": ("bool", "what is left for the cache was printed or follows from the sum"),
    "budget.available_negative": ("bool", "what is left for the cache is below zero"),
    # -- the pod (bot/evidence/pod_json.py)
    "pod.name": ("text", "name"),
    "pod.node": ("text", "the node that it is on"),
    "pod.phase": ("text", "Pending, Running, Succeeded, Failed"),
    "pod.reason": ("text", "what the control plane gives as the pod's reason"),
    "pod.message": ("text", "and its message"),
    "pod.qos": ("text", "Guaranteed, Burstable, BestEffort"),
    "pod.owner_kind": ("text", "kind of the object that made it"),
    "pod.evicted": ("text", "the kubelet evicted it for: memory, ephemeral-storage, empty-dir, pids, inodes, other"),
    "pod.evicted_use": ("text", "what the victim used, by the message"),
    "pod.rejected": ("text", "the kubelet refused it for: pressure:<resource>, device-fault, node-shutdown, resources, other"),
    "pod.unschedulable": ("text", "the scheduler's reason, while it has no node"),
    "pod.disruption": ("text", "reason of the condition DisruptionTarget"),
    "pod.ready_reason": ("text", "why it is not ready"),
    # -- the container that is the incident (bot/diagnosis/host_container.py)
    "container.name": ("text", "name"),
    "container.role": ("text", "server, sidecar, init"),
    "container.looks": ("text", "what it seems to be: server, gpu, light (a router, a proxy, Ray's head), sidecar, driver, plain"),
    "container.exit_code": ("int", "of its current or last end"),
    "container.reason": ("text", "of that end: OOMKilled, Error, Completed, StartError, ContainerStatusUnknown, ..."),
    "container.message": ("text", "of that end"),
    "container.ended": ("bool", "it has ended at least once"),
    "container.running": ("bool", "it runs now"),
    "container.ready": ("bool", "it is ready now"),
    "container.state": ("text", "running, waiting, terminated"),
    "container.never_started": ("bool", "it waits and has never run"),
    "container.crash_looping": ("bool", "it is started again and again"),
    "container.restarts": ("int", "how often it was started again"),
    "container.lifetime_s": ("int", "how long the ended one lived"),
    "container.waiting_reason": ("text", "why it waits"),
    "container.memory_limit_bytes": ("int", "its memory limit; absent when there is none"),
    "container.memory_request_bytes": ("int", "its memory request"),
    "container.limit_over_request": ("float", "memory limit over request"),
    "container.large_for_its_kind": ("bool", "a program that keeps tables, not models, with a limit of 8 GiB or more"),
    "container.cpu_limit": ("float", "CPUs"),
    "container.cpu_request": ("float", "CPUs"),
    "container.gpus": ("int", "accelerators it asks for"),
    "container.gpu_resource": ("text", "by which name"),
    "container.shell": ("text", "its first process is a shell that hands on signals (exec) or does not (no-exec)"),
    "container.shm_volume": ("text", "what stands at /dev/shm: memory, other, default (64 MiB)"),
    "container.shm_limit_bytes": ("int", "size of the memory volume there"),
    "container.startup_budget_s": ("int", "how long the start-up probe waits in all"),
    "container.liveness_budget_s": ("int", "how long the liveness probe waits in all"),
    "container.liveness_timeout_s": ("int", "for one answer"),
    "container.liveness_failures": ("int", "failures in a row that end the container"),
    "container.others": ("int", "other containers of the pod"),
    # -- the kernel log (bot/evidence/kernel_log.py, bot/diagnosis/host_kernel.py)
    "kernel.looked": ("bool", "a kernel log was read"),
    "kernel.kills": ("int", "memory kills in it"),
    "kernel.kill_matches_container": ("bool", "one of them belongs to the incident"),
    "kernel.match": ("text", "by what: container, pod, name (no pod to compare with), node (the machine ran out), sibling, unplaced"),
    "kernel.limit": ("text", "whose limit was hit: container (or pod, unit), node, other"),
    "kernel.level": ("text", "level of that limit: container, pod, kubepods, qos, docker, unit, node, cpuset, policy, user-space"),
    "kernel.ancestor": ("bool", "the limit of all pods together"),
    "kernel.by": ("text", "kernel, oomd, earlyoom"),
    "kernel.victim": ("text", "name of the killed process (15 letters)"),
    "kernel.victim_is_server": ("bool", "that name is of a model server"),
    "kernel.invoker": ("text", "name of the process that asked for memory"),
    "kernel.group_kill": ("bool", "all processes of the container were killed together"),
    "kernel.child_killed": ("bool", "the container's first process lived on"),
    "kernel.limit_bytes": ("int", "the limit that was hit"),
    "kernel.usage_bytes": ("int", "what was in use"),
    "kernel.victim_bytes": ("int", "what the victim held"),
    "kernel.victim_share": ("float", "of the limit"),
    "kernel.cache_share": ("float", "file cache over the limit"),
    "kernel.shared_share": ("float", "shared memory over the limit"),
    "kernel.other_kills": ("int", "kills that do not belong to the incident"),
    "kernel.order": ("int", "order of the allocation that found no memory"),
    "kernel.xid_code": ("int", "the worst GPU fault"),
    "kernel.xid_kind": ("text", "hardware, capacity, application, notice, follower"),
    "kernel.gpu_lost": ("text", "a card has gone"),
    "kernel.driver_mismatch": ("text", "driver and library differ"),
    "kernel.segfault": ("text", "a process crashed"),
    "kernel.hardware_error": ("text", "an error of processor or memory"),
    "kernel.hung_task": ("text", "a process hung"),
    "kernel.nvswitch": ("text", "a fault of the NVLink switch"),
    # -- events (bot/diagnosis/host_events.py)
    "events.looked": ("bool", "events were read"),
    "events.probe_kill": ("text", "the kubelet ended the container for its probe: startup, liveness"),
    "events.probe_kills": ("int", "how often"),
    "events.probe_failed": ("text", "a probe failed: startup, liveness, readiness"),
    "events.probe_failures": ("int", "how often"),
    "events.probe_answer": ("text", "what it got: refused, timeout, http-<code>, no-route, empty, other"),
    "events.stopping": ("bool", "the kubelet was asked to stop the container"),
    "events.grace_exceeded": ("bool", "it did not stop within its grace period"),
    "events.evicted": ("text", "the kubelet evicted the pod for: memory, ephemeral-storage, ..."),
    "events.unschedulable": ("text", "what the scheduler lacks: gpu, memory, cpu, taint, affinity, volume, other"),
    "events.rejected": ("text", "message of a refusal at admission"),
    "events.preempted": ("bool", "a pod of higher priority took its place"),
    "events.back_off": ("bool", "restarts are being delayed"),
    "events.system_oom": ("bool", "the kubelet saw a kill for the whole node"),
    "events.kernel_kill": ("text", "the problem detector passed on a kernel kill: memcg, global"),
    "events.node_not_ready": ("bool", "the node stopped answering"),
    "events.node_pressure": ("bool", "the node is short of memory"),
    "events.owner_deleted": ("bool", "its owner deleted the pod"),
    "events.group_restart": ("bool", "a group of pods was made anew, since one of them failed"),
    # -- the end (bot/diagnosis/host_events.py, host.py)
    "termination.by": ("text", "who ended the pod on purpose: shutdown, drain, preemption, taint, gc, lost, delete"),
    "termination.signal": ("int", "signal, from the exit code"),
    "termination.invented": ("bool", "the exit code was made up, since nobody saw the end"),
    "termination.grace_s": ("int", "the grace period"),
    "termination.after_stop_s": ("int", "from the stop to the end"),
    "termination.at_grace_end": ("bool", "it ended when its grace period did"),
    "termination.after_probe_kill_s": ("int", "from the probe's verdict to the end"),
    "termination.probe_at_grace_end": ("bool", "it ended when the grace period after that verdict did"),
    "termination.fits_probe_kill": ("bool", "the end lies within that grace period"),
    # -- readings of a node and a container (bot/evidence/node_readings.py)
    "node.memory_total_bytes": ("int", "memory of the machine"),
    "node.memory_available_bytes": ("int", "what can be had without swapping"),
    "node.available_share": ("float", "of the machine's memory"),
    "node.kubelet_memory_percent": ("int", "use as the kubelet counts it, with active file cache"),
    "node.disk_full": ("text", "a file system that is full"),
    "node.unit_oom_kill": ("bool", "systemd says that a unit ended by a memory kill"),
    "cgroup.current_bytes": ("int", "in use"),
    "cgroup.limit_bytes": ("int", "limit"),
    "cgroup.limit_none": ("bool", "there is no limit"),
    "cgroup.anon_bytes": ("int", "plain memory"),
    "cgroup.file_bytes": ("int", "file cache with shared memory"),
    "cgroup.cache_share": ("float", "file cache over what is in use"),
    "cgroup.use_share": ("float", "use over the limit"),
    "cgroup.event_oom": ("int", "how often its limit was hit for good"),
    "cgroup.event_oom_kill": ("int", "processes of it that were killed for memory, for any limit"),
    "cgroup.killed_by_node": ("bool", "kills, yet its own limit was never hit"),
    "cgroup.throttled_share": ("float", "periods in which the CPU limit held it back"),
    "shm.size_bytes": ("int", "size of /dev/shm"),
    "shm.use_percent": ("int", "how full it is"),
    "shm.entries": ("int", "files in it"),
    "shm.full": ("bool", "97 % or more"),
    "shm.small": ("bool", "less than 1 GiB, or the runtime's default"),
    "shm.left_over": ("bool", "a large memory volume after a restart, full as far as is shown"),
    "process.largest": ("text", "name of the largest process"),
    "process.largest_bytes": ("int", "what it holds"),
    "docker.exit_code": ("int", "of a container that has ended"),
    "docker.oom_killed": ("bool", "docker's flag"),
    "ray_status.gpu_total": ("float", "GPUs of the Ray cluster"),
    "ray_status.gpu_used": ("float", "of them in use"),
    "ray_status.gpu_demand": ("float", "GPUs that something waits for"),
    "ray_status.gpus_missing": ("bool", "more is asked for than there is"),
    "ray_status.gpus_in_use": ("bool", "some are taken"),
    "gpus.lost": ("bool", "a card does not answer"),
    "gpus.driver_mismatch": ("bool", "driver and library differ"),
    "gpus.driver_failed": ("bool", "the driver does not answer"),
    "gpus.ecc_error": ("bool", "uncorrectable memory errors are counted"),
    "gpus.mig": ("bool", "a card is cut into MIG slices"),
    "gpus.display": ("bool", "a display hangs on a card"),
    "gpus.shared": ("bool", "the pod asks for a fraction of a card"),
    "gpus.processes": ("int", "compute processes listed"),
    "gpus.process_bytes": ("int", "what they hold"),
    "gpus.process_names": ("text", "their names"),
    "gpus.most_used_bytes": ("int", "use of the fullest card"),
    "gpus.least_total_bytes": ("int", "size of the smallest card"),
    "gpus.reserved_bytes": ("int", "taken by driver and firmware, at most"),
    "gpus.unified_memory": ("bool", "by its name the card shares the host's memory"),
}


class Missing(Enum):
    """Why a fact has no value."""

    ABSENT = "absent"
    UNKNOWN = "unknown"


ABSENT, UNKNOWN = Missing.ABSENT, Missing.UNKNOWN


class Facts:
    """The facts of one incident. `looked` holds prefixes of names ("kernel.", "pod.") that were really looked at."""

    def __init__(self, facts: Iterable[Fact] = (), looked: Iterable[str] = ()) -> None:
        self._facts = {fact.name: fact for fact in facts}
        self.looked = frozenset(looked)

    def get(self, name: str) -> Value | Missing:
        fact = self._facts.get(name)
        if fact is not None:
            return fact.value
        return ABSENT if any(name.startswith(prefix) for prefix in self.looked) else UNKNOWN

    def fact(self, name: str) -> Fact | None:
        return self._facts.get(name)

    def __iter__(self) -> Iterator[Fact]:
        return iter(self._facts.values())

    def __contains__(self, name: str) -> bool:
        return name in self._facts

    def with_facts(self, facts: Iterable[Fact], looked: Iterable[str] = ()) -> "Facts":
        """A copy with more; a name that is there already is replaced."""
        return Facts([*self, *facts], self.looked | set(looked))
