#!/usr/bin/env python3
"""Trains a GPT in pipeline stages by torch.distributed.pipelining over gloo, and prints its speed as one JSON object.

    peer_pipeline.py                     # two processes of one thread each, 1F1B
    peer_pipeline.py --schedule single   # one process, both threads, the same micro-batches

f32, fused AdamW, no clipping, no dropout; the blocks are cut in the middle. The counterpart of bench_pipeline.
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

import torch
import torch.distributed as dist

import peer_gpt


def make_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedule", choices=["1f1b", "gpipe", "single"], default="1f1b")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--micro-batch-size", type=int, default=1)
    parser.add_argument("--n-layer", type=int, default=12)
    parser.add_argument("--n-embd", type=int, default=512)
    parser.add_argument("--n-head", type=int, default=8)
    parser.add_argument("--block-size", type=int, default=256)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--skip", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def make_model(o):
    preset = dataclasses.replace(
        next(iter(peer_gpt.PRESETS.values())),
        n_layer=o.n_layer,
        n_head=o.n_head,
        n_embd=o.n_embd,
        block_size=o.block_size,
        dropout=0.0,
        bias=True,
        tie_weights=False,
    )
    torch.manual_seed(o.seed)
    return peer_gpt.Gpt(preset)


class Stage(torch.nn.Module):
    """Successive blocks of a Gpt, with the embeddings before the first and the head after the last."""

    def __init__(self, gpt, rank, ranks):
        super().__init__()
        count = len(gpt.h)
        self.blocks = torch.nn.ModuleList(gpt.h[count * rank // ranks : count * (rank + 1) // ranks])
        self.wte, self.wpe = (gpt.wte, gpt.wpe) if rank == 0 else (None, None)
        self.ln_f, self.lm_head = (gpt.ln_f, gpt.lm_head) if rank == ranks - 1 else (None, None)

    def forward(self, x):
        if self.wte is not None:
            x = self.wte(x) + self.wpe.weight[: x.shape[1]]
        for block in self.blocks:
            x = block(x)
        return x if self.lm_head is None else self.lm_head(self.ln_f(x))


def loss_of(logits, targets):
    return torch.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def random_batch(o):
    generator = torch.Generator().manual_seed(o.seed)
    shape = (o.micro_batches * o.micro_batch_size, o.block_size)
    return torch.randint(65, shape, generator=generator), torch.randint(65, shape, generator=generator)


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)


def single_step(o):
    model = make_model(o)
    optimizer = adamw(model)
    x, y = random_batch(o)

    def step():
        total = 0.0
        for xs, ys in zip(x.chunk(o.micro_batches), y.chunk(o.micro_batches)):
            loss = loss_of(model(xs), ys) / o.micro_batches
            loss.backward()
            total += loss.item()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return total

    return step


def pipeline_step(o, rank):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    model = Stage(make_model(o), rank, o.ranks)
    optimizer = adamw(model)
    x, y = random_batch(o)
    stage = PipelineStage(model, rank, o.ranks, torch.device("cpu"))
    kind = Schedule1F1B if o.schedule == "1f1b" else ScheduleGPipe
    schedule = kind(stage, o.micro_batches, loss_fn=loss_of)

    def step():
        losses = []
        if rank == 0:
            schedule.step(x)
        elif rank == o.ranks - 1:
            schedule.step(target=y, losses=losses)
        else:
            schedule.step()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return sum(loss.item() for loss in losses) / max(1, len(losses))

    return step


def measure(o, step):
    seconds = []
    for _ in range(o.steps):
        began = time.perf_counter()
        loss = step()
        if o.schedule != "single":
            dist.barrier()
        seconds.append(time.perf_counter() - began)
    timed = seconds[o.skip :]
    return {
        "program": "peer_pipeline",
        "version": torch.__version__,
        "schedule": o.schedule,
        "unit": "samples",
        "rate": o.micro_batches * o.micro_batch_size * len(timed) / sum(timed),
        "median_step_ms": 1e3 * statistics.median(timed),
        "loss": loss,
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def run_rank(o, rank, port):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    dist.init_process_group("gloo", rank=rank, world_size=o.ranks)
    result = measure(o, pipeline_step(o, rank))
    memory = torch.tensor([result["peak_rss_bytes"]])
    dist.all_reduce(memory, op=dist.ReduceOp.MAX)
    result["peak_rss_bytes"] = int(memory)
    if rank == o.ranks - 1:
        print(json.dumps(result), flush=True)
    dist.destroy_process_group()


def main():
    o = make_options()
    if o.schedule == "single":
        torch.set_num_threads(o.ranks)
        torch.set_flush_denormal(True)
        print(json.dumps(measure(o, single_step(o))))
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = torch.multiprocessing.get_context("spawn")
    ranks = [context.Process(target=run_rank, args=(o, rank, port)) for rank in range(o.ranks)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    sys.exit(max(rank.exitcode for rank in ranks))


if __name__ == "__main__":
    main()
