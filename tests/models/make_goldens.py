#!/usr/bin/env python3
"""Makes tests/models/goldens/gpt.safetensors: a tiny GPT of each flavour in PyTorch, in f64.

The file is committed; run this again only after changing it, where `torch` and `safetensors` are installed:

    python3 tests/models/make_goldens.py

The model is that of tools/bench/peer_gpt.py, the one whose speed and losses ours are held against. For each variant:

    <variant>/param/<name>   the weights before the first step, under peer_gpt's names; larger than an initialisation
                             would draw them, so that every path matters
    <variant>/x, /y          ids and targets (steps, B, T)
    <variant>/logits         (B, T, V) of the first batch
    <variant>/grad/<name>    gradients of the first batch's loss
    <variant>/losses         of the steps of AdamW, clipping at 1, with the recipe's schedule
    <variant>/norms          gradient norms before clipping
    <variant>/final/<name>   the weights after the last step

Metadata `<variant>`: the options of the model and of its training, as JSON.
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
import peer_gpt  # noqa: E402: found through the line above

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
    path = options.out / "gpt.safetensors"
    save_file({name: value.contiguous() for name, value in tensors.items()}, path, metadata=metadata)
    print(f"{path.name}: {len(metadata)} variants, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
