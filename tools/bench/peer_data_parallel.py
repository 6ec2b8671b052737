#!/usr/bin/env python3
"""Trains a model data-parallel in PyTorch or DeepSpeed, on CPUs over gloo, and prints its speed as one JSON object.

    peer_data_parallel.py --model nano-cpu --strategy ddp
    peer_data_parallel.py --model wide --strategy zero-3
    peer_data_parallel.py --model deep --strategy single            # one process, both threads, the same global batch

`--ranks` processes (2) of one thread each; `single` is one process of as many threads. f32, fused AdamW, no clipping,
denormals flushed. Settings are the fastest found for each on a machine of two cores, without those that only cost memory:
full sharding shards every parameter.
"""

import argparse
import dataclasses
import json
import os
import resource
import socket
import statistics
import sys
import time
import warnings

import torch
import torch.distributed as dist

import peer_dnn
import peer_gpt

# Sequences or samples of one rank.
SHARE_OF_A_RANK = {"nano-cpu": 6, "width-768": 1, "wide": 64, "deep": 64}
STRATEGIES = ["single", "ddp", "fsdp2", "zero-0", "zero-1", "zero-2", "zero-3"]


@dataclasses.dataclass
class Task:
    """A model, its blocks, its loss, and batches made before the clock starts."""

    model: torch.nn.Module
    blocks: list
    loss_of: object
    batches: list
    items_per_batch: int
    unit: str
    lr: float


def gpt_task(name, sequences, seed):
    p = peer_gpt.PRESETS[name]
    generator = torch.Generator().manual_seed(seed)
    shape = (sequences, p.block_size + 1)
    windows = [torch.randint(p.vocab_size, shape, generator=generator) for _ in range(4)]
    batches = [(w[:, :-1].contiguous(), w[:, 1:].contiguous()) for w in windows]
    model = peer_gpt.Gpt(p)
    return Task(model, list(model.h), peer_gpt.loss_of, batches, sequences * p.block_size, "tokens", p.lr)


def dnn_task(name, samples, seed):
    p = peer_dnn.PRESETS[name]
    generator = torch.Generator().manual_seed(seed)
    batches = [peer_dnn.random_batch(p, samples, generator) for _ in range(4)]
    model = peer_dnn.Dnn(p)
    return Task(model, list(model.layers), peer_dnn.loss_of, batches, samples, "samples", 1e-4)


def make_task(options, rank):
    samples = SHARE_OF_A_RANK[options.model] * (options.ranks if options.strategy == "single" else 1)
    make = dnn_task if options.model in peer_dnn.PRESETS else gpt_task
    torch.manual_seed(options.seed)
    return make(options.model, samples, options.seed + 1 + rank)


def adamw(model, lr):
    return torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.95), weight_decay=0.1, fused=True)


def plain_step(task, model):
    """A step as on one device: for one process, DDP and FSDP2."""
    optimizer = adamw(model, task.lr)

    def step(batch):
        loss = task.loss_of(model, *batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    return step


def ddp_step(task, options):
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(
        task.model,
        bucket_cap_mb=options.bucket_mb or 25,
        gradient_as_bucket_view=True,
        static_graph=True,
        broadcast_buffers=False,
    )
    return plain_step(task, model)


def fsdp2_step(task):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in task.blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=True)
    fully_shard(task.model, mesh=mesh, reshard_after_forward=True)
    return plain_step(task, task.model)


def deepspeed_config(stage, options):
    zero = {"stage": stage}
    if stage in (1, 2):
        bucket = int((options.bucket_mb or 100) * 2**20 / 4)
        zero |= {"overlap_comm": False, "contiguous_gradients": True}
        zero |= {"reduce_bucket_size": bucket, "allgather_bucket_size": bucket}
    if stage == 3:
        zero |= {"overlap_comm": False, "contiguous_gradients": True}
        zero |= {"stage3_param_persistence_threshold": options.persistence_threshold}
    return {
        "train_micro_batch_size_per_gpu": SHARE_OF_A_RANK[options.model],
        "gradient_accumulation_steps": 1,
        "gradient_clipping": 0.0,
        "zero_optimization": zero,
        "zero_force_ds_cpu_optimizer": False,
        "zero_allow_untested_optimizer": True,
        "steps_per_print": 10**9,
    }


def deepspeed_step(task, stage, options):
    import deepspeed

    deepspeed.logger.setLevel("ERROR")
    engine, *_ = deepspeed.initialize(
        model=task.model,
        optimizer=adamw(task.model, task.lr),
        config=deepspeed_config(stage, options),
        dist_init_required=False,
    )

    def step(batch):
        loss = task.loss_of(engine, *batch)
        engine.backward(loss)
        engine.step()
        return loss

    return step


def make_step(task, options):
    if options.strategy == "single":
        return plain_step(task, task.model)
    if options.strategy == "ddp":
        return ddp_step(task, options)
    if options.strategy == "fsdp2":
        return fsdp2_step(task)
    return deepspeed_step(task, int(options.strategy[-1]), options)


def version(options):
    if not options.strategy.startswith("zero"):
        return "torch " + torch.__version__
    import deepspeed

    return "deepspeed " + deepspeed.__version__


def train(options, rank):
    """Trains as one rank; returns its result."""
    task = make_task(options, rank)
    parameters = sum(q.numel() for q in task.model.parameters())
    step = make_step(task, options)
    seconds = []
    for i in range(options.steps):
        started = time.perf_counter()
        loss = step(task.batches[i % len(task.batches)]).item()
        seconds.append(time.perf_counter() - started)
    timed = seconds[options.skip :]
    items = task.items_per_batch * (1 if options.strategy == "single" else options.ranks)
    return {
        "program": "peer_data_parallel",
        "version": version(options),
        "model": options.model,
        "strategy": options.strategy,
        "ranks": 1 if options.strategy == "single" else options.ranks,
        "threads": torch.get_num_threads(),
        "parameters": parameters,
        "global_batch": items,
        "unit": task.unit,
        "rate": items * len(timed) / sum(timed),
        "median_step_ms": 1e3 * statistics.median(timed),
        "timed_steps": len(timed),
        "loss": loss,
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def rank_main(rank, options, port):
    if not options.verbose:
        warnings.filterwarnings("ignore")
    if options.pin:
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[rank % len(cores)]})
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(options.ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    dist.init_process_group("gloo", rank=rank, world_size=options.ranks)
    if options.strategy.startswith("zero"):
        import deepspeed

        deepspeed.init_distributed("gloo", auto_mpi_discovery=False, verbose=False)
    result = train(options, rank)
    dist.barrier()
    if rank == 0:
        print(json.dumps(result), flush=True)
    # All ranks have finished: the normal exit would only wait for idle threads.
    os._exit(0)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=sorted(SHARE_OF_A_RANK), default="nano-cpu")
    parser.add_argument("--strategy", choices=STRATEGIES, default="ddp")
    parser.add_argument("--ranks", type=int, default=2, help="processes; of `single`: threads (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=30, help="(default: %(default)s)")
    parser.add_argument("--skip", type=int, default=5, help="steps before the clock starts (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pin", action="store_true", help="each rank to a core of its own")
    parser.add_argument("--bucket-mb", type=float, help="of DDP and ZeRO 1 and 2 (default: 25 and 100)")
    parser.add_argument(
        "--persistence-threshold",
        type=int,
        default=0,
        help="ZeRO-3 shards parameters of more elements than this (default: %(default)s, all; DeepSpeed's own: 100000)",
    )
    parser.add_argument("--verbose", action="store_true", help="with the peers' warnings")
    options = parser.parse_args()
    if options.skip >= options.steps:
        parser.error("--skip must be below --steps")
    return options


def main():
    options = arguments()
    os.environ["DS_ACCELERATOR"] = "cpu"
    if options.strategy == "single":
        torch.set_num_threads(options.ranks)
        torch.set_flush_denormal(True)
        print(json.dumps(train(options, 0)))
        return
    os.environ["OMP_NUM_THREADS"] = "1"
    context = torch.multiprocessing.get_context("spawn")
    port = free_port()
    processes = [context.Process(target=rank_main, args=(r, options, port)) for r in range(options.ranks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    sys.exit(max(abs(process.exitcode) for process in processes))


if __name__ == "__main__":
    main()
