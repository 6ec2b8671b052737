#!/usr/bin/env python3
"""Makes tests/models/goldens/resnet.safetensors: two tiny ResNets in PyTorch, in f64.

The file is committed; run this again only after changing it, where `torch` and `safetensors` are installed:

    python3 tests/models/make_resnet_goldens.py

The model is that of tools/bench/peer_resnet.py; "small" has the stem for small images, "large" torchvision's.

    <stem>/param/<name>   the weights before the first step, by PyTorch's names; random, so that every path contributes
    <stem>/images, labels (steps, N, 3, H, W) and (steps, N)
    <stem>/logits         of the first batch, in training
    <stem>/grad/<name>    gradients of the first batch's loss
    <stem>/losses         of the steps of SGD with momentum
    <stem>/final/<name>   parameters and running statistics after the last step; for "large" the statistics alone
    <stem>/evaluated      logits of the first batch in evaluation, after the last step
"""

import pathlib
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tools" / "bench"))
import peer_resnet  # noqa: E402: found through the line above

BATCH, CLASSES = 3, 3
generator = torch.Generator().manual_seed(18)
tensors = {}


def random(*shape):
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def record(stem, size, blocks, steps):
    model = peer_resnet.ResNet(CLASSES, 2, blocks, stem == "small").double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            is_norm = parameter.dim() == 1 and name.endswith("weight")
            scale = 0.3 if parameter.dim() < 2 else parameter[0].numel() ** -0.5
            parameter.copy_(scale * random(parameter.shape) + (1.0 if is_norm else 0.0))
            tensors[f"{stem}/param/{name}"] = parameter.detach().clone()
    images = random(steps, BATCH, 3, size, size)
    labels = torch.randint(0, CLASSES, (steps, BATCH), generator=generator)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        logits = model(images[step])
        loss = F.cross_entropy(logits, labels[step])
        loss.backward()
        if step == 0:
            tensors[f"{stem}/logits"] = logits.detach().clone()
            for name, parameter in model.named_parameters():
                tensors[f"{stem}/grad/{name}"] = parameter.grad.clone()
        optimizer.step()
        losses.append(loss.detach())
    tensors.update({f"{stem}/images": images, f"{stem}/labels": labels, f"{stem}/losses": torch.stack(losses)})
    finals = dict(model.named_buffers()) | (dict(model.named_parameters()) if stem == "small" else {})
    for name, value in finals.items():
        if value.is_floating_point():
            tensors[f"{stem}/final/{name}"] = value.detach().clone()
    model.eval()
    with torch.no_grad():
        tensors[f"{stem}/evaluated"] = model(images[0])


record("small", 12, (2, 1, 1, 1), 4)
record("large", 32, (1, 1, 1, 1), 2)
path = HERE / "goldens" / "resnet.safetensors"
save_file({name: value.contiguous() for name, value in tensors.items()}, path)
print(f"{path.name}: {len(tensors)} tensors, {path.stat().st_size:,} bytes")
