#!/usr/bin/env python3
"""Makes tests/models/goldens/gpt.safetensors and dnn.safetensors: tiny models in PyTorch, in f64.

The files are committed; run this again only after changing it, where `torch` and `safetensors` are installed:

    python3 tests/models/make_goldens.py

The models are those of tools/bench/peer_gpt.py and peer_dnn.py, with which the benchmarks compare speed and losses. For
each variant of the GPT:

    <variant>/param/<name>   the weights before the first step, under peer_gpt's names; larger than initial values,
                             so that every path contributes
    <variant>/x, /y          ids and targets (steps, B, T)
    <variant>/logits         (B, T, V) of the first batch
    <variant>/grad/<name>    gradients of the first batch's loss
    <variant>/losses         of the steps of AdamW, clipping at 1, with the preset's schedule
    <variant>/norms          gradient norms before clipping
    <variant>/final/<name>   the weights after the last step

Metadata `<variant>`: the options of the model and of its training, as JSON.

For the perceptron: param/<name>, x and target (steps, B, C), output (B, C) of the first batch, grad/<name>, losses of
the steps of AdamW, final/<name>; metadata `dnn`.
"""

import argparse
import contextlib
import dataclasses
import json
import pathlib
import sys

import torch
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tools" / "bench"))
import peer_dnn  # noqa: E402: found through the line above
import peer_gpt  # noqa: E402

SHARED = dict(
    n_layer=2,
    n_head=2,
    n_embd=8,
    block_size=6,
    batch_size=3,
    dropout=0.0,
    steps=10,
    vocab_size=11,
    lr=1e-2,
    min_lr=1e-3,
    warmup_steps=3,
)
VARIANTS = {
    "nano": peer_gpt.Preset(**SHARED),
    "gpt_lite": peer_gpt.Preset(**SHARED, bias=True, tie_weights=False, beta2=0.95),
    "gpt2": peer_gpt.Preset(**SHARED, bias=True, qkv_bias=True, beta2=0.95),
}


def record(variant, preset, tensors):
    generator = torch.Generator().manual_seed(len(tensors) + 1)
    model = peer_gpt.Gpt(preset).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(0.4 * noise + (1.0 if "ln_" in name and name.endswith("weight") else 0.0))
    # A tied head is the embedding: named_parameters lists it once.
    for name, parameter in model.named_parameters():
        tensors[f"{variant}/param/{name}"] = parameter.detach().clone()
    windows = torch.randint(
        preset.vocab_size, (preset.steps, preset.batch_size, preset.block_size + 1), generator=generator
    )
    x, y = windows[:, :, :-1].contiguous(), windows[:, :, 1:].contiguous()
    tensors[f"{variant}/x"], tensors[f"{variant}/y"] = x, y

    tensors[f"{variant}/logits"] = model(x[0]).detach()
    peer_gpt.loss_of(model, x[0], y[0]).backward()
    for name, parameter in model.named_parameters():
        tensors[f"{variant}/grad/{name}"] = parameter.grad.clone()
        parameter.grad = None

    optimizer = peer_gpt.make_optimizer(model, preset)
    losses, norms = [], []
    for step in range(preset.steps):
        rate = peer_gpt.learning_rate(step, preset)
        loss, norm = peer_gpt.train_step(model, optimizer, x[step], y[step], rate, preset, contextlib.nullcontext)
        losses.append(loss), norms.append(norm)
    tensors[f"{variant}/losses"], tensors[f"{variant}/norms"] = torch.stack(losses), torch.stack(norms)
    for name, parameter in model.named_parameters():
        tensors[f"{variant}/final/{name}"] = parameter.detach().clone()


def record_dnn(tensors):
    """A perceptron of four layers; returns its configuration."""
    configuration = dict(layers=4, width=6, batch_size=5, steps=10, lr=1e-2, weight_decay=0.1)
    generator = torch.Generator().manual_seed(7)
    model = peer_dnn.Dnn(peer_dnn.Preset(configuration["layers"], configuration["width"])).double()
    named = [(name.replace(".linear", ""), parameter) for name, parameter in model.named_parameters()]
    with torch.no_grad():
        for name, parameter in named:
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
            tensors[f"param/{name}"] = parameter.detach().clone()
    shape = (configuration["steps"], configuration["batch_size"], configuration["width"])
    x, target = torch.randn(2, *shape, generator=generator, dtype=torch.float64)
    tensors["x"], tensors["target"] = x.clone(), target.clone()

    tensors["output"] = model(x[0]).detach()
    peer_dnn.loss_of(model, x[0], target[0]).backward()
    for name, parameter in named:
        tensors[f"grad/{name}"] = parameter.grad.clone()
        parameter.grad = None

    rate, decay = configuration["lr"], configuration["weight_decay"]
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=decay)
    losses = []
    for step in range(configuration["steps"]):
        loss = peer_dnn.loss_of(model, x[step], target[step])
        losses.append(loss.detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    tensors["losses"] = torch.stack(losses)
    for name, parameter in named:
        tensors[f"final/{name}"] = parameter.detach().clone()
    return configuration


def save(path, tensors, metadata):
    save_file({name: value.contiguous() for name, value in tensors.items()}, path, metadata=metadata)
    print(f"{path.name}: {len(tensors)} tensors, {path.stat().st_size:,} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "goldens", help="folder (default: %(default)s)")
    options = parser.parse_args()

    torch.set_num_threads(1)
    tensors, metadata = {}, {}
    for variant, preset in VARIANTS.items():
        record(variant, preset, tensors)
        metadata[variant] = json.dumps(dataclasses.asdict(preset))
    options.out.mkdir(parents=True, exist_ok=True)
    save(options.out / "gpt.safetensors", tensors, metadata)
    tensors = {}
    metadata = {"dnn": json.dumps(record_dnn(tensors))}
    save(options.out / "dnn.safetensors", tensors, metadata)


if __name__ == "__main__":
    main()
