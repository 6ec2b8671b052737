"""The program of ../sharded.cpp in PyTorch: python sharded.py RANKS OUT [RESUME] [STEPS]."""
import math
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional as F

from llama import Config, Llama


def train(rank, ranks, out, resume, steps):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29513")
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    torch.set_num_threads(1)
    text = open("shared/data/tiny-shakespeare/input.txt").read()
    characters = sorted(set(text))
    ids = torch.tensor([characters.index(c) for c in text[: len(text) * 9 // 10]])
    torch.manual_seed(1337)
    model = Llama(Config(vocab=len(characters)))
    mesh = init_device_mesh("cpu", (ranks,))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    for buffer in model.buffers():
        buffer.data = buffer.data.to(torch.bfloat16)
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    adam = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=1e-3)
    warmup = steps // 10

    def factor(step):
        if step < warmup:
            return (step + 1) / (warmup + 1)
        done = (step - warmup) / max(1, steps - warmup)
        return 0.1 + 0.45 * (1 + math.cos(math.pi * min(done, 1.0)))

    first = 0
    if resume:
        first = int(resume.split("-")[-1])
        model_state, adam_state = get_state_dict(model, adam)
        dcp.load({"model": model_state, "adam": adam_state}, checkpoint_id=resume)
        set_state_dict(model, adam, model_state_dict=model_state, optim_state_dict=adam_state)
    for group in adam.param_groups:
        group.setdefault("initial_lr", 1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(adam, factor, last_epoch=first - 1)
    for step in range(first, steps):
        starts = torch.randint(len(ids) - 128, (16,), generator=torch.Generator().manual_seed(1337 + step))
        starts = starts[rank * 16 // ranks : (rank + 1) * 16 // ranks]
        x = torch.stack([ids[s : s + 128] for s in starts])
        y = torch.stack([ids[s + 1 : s + 129] for s in starts])
        loss = F.cross_entropy(model(x).float().flatten(0, 1), y.flatten())
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).full_tensor()
        adam.step()
        adam.zero_grad()
        schedule.step()
        done = step + 1
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0 and (done % max(steps // 10, 1) == 0 or step == first):
            print(f"step {done:3d} loss {mean.item() / ranks:.6f} norm {norm.item():.3f}")
        if done % (steps // 2) == 0:
            model_state, adam_state = get_state_dict(model, adam)
            dcp.save({"model": model_state, "adam": adam_state}, checkpoint_id=f"{out}/step-{done}")
    dist.destroy_process_group()


if __name__ == "__main__":
    ranks, out, resume = int(sys.argv[1]), sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else ""
    steps = int(sys.argv[4]) if len(sys.argv) > 4 else 200
    mp.spawn(train, (ranks, out, resume, steps), nprocs=ranks)
