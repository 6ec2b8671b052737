#!/usr/bin/env python3
"""Makes tests/models/goldens/encoder_classifier.safetensors: a tiny encoder classifier in PyTorch, in f64.

The file is committed; run this again only after changing it, where `torch` and `safetensors` are installed:

    python3 tests/models/make_encoder_goldens.py

The model is that of tools/bench/peer_encoder.py, built from nn.TransformerEncoderLayer.

    param/<name>     the weights before the first step, by PyTorch's names; random, so that every path contributes
    ids, labels      (steps, B, T) and (steps, B); padding is id 1, at the end of the second text
    logits           (B, 2) of the first batch, with the padding's keys hidden
    grad/<name>      gradients of the first batch's loss
    losses           of the steps of AdamW
    final/<name>     the weights after the last step
"""

import pathlib
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tools" / "bench"))
import peer_encoder  # noqa: E402: found through the line above

STEPS, BATCH, TIME, PADDING = 8, 3, 7, 1
generator = torch.Generator().manual_seed(10)
configuration = peer_encoder.Configuration(
    vocabulary=13, embed_dim=8, hidden_dim=12, max_len=9, num_heads=2, num_layers=2, dropout=0.0
)
model = peer_encoder.EncoderClassifier(configuration).double()
# The table of positions is that of f32, as ours.
tensors = {}
with torch.no_grad():
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        parameter.copy_(0.4 * noise + (1.0 if "norm" in name and name.endswith("weight") else 0.0))
        tensors[f"param/{name}"] = parameter.detach().clone()
ids = torch.randint(2, 13, (STEPS, BATCH, TIME), generator=generator)
ids[:, 1, TIME - 2 :] = PADDING
labels = torch.randint(0, 2, (STEPS, BATCH), generator=generator)
tensors["ids"], tensors["labels"] = ids, labels


def loss_of(step):
    logits = model(ids[step], ids[step] == PADDING)
    return logits, F.cross_entropy(logits, labels[step])


logits, loss = loss_of(0)
tensors["logits"] = logits.detach().clone()
loss.backward()
for name, parameter in model.named_parameters():
    tensors[f"grad/{name}"] = parameter.grad.clone()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
losses = []
for step in range(STEPS):
    optimizer.zero_grad()
    _, loss = loss_of(step)
    losses.append(loss.detach())
    loss.backward()
    optimizer.step()
tensors["losses"] = torch.stack(losses)
for name, parameter in model.named_parameters():
    tensors[f"final/{name}"] = parameter.detach().clone()
path = HERE / "goldens" / "encoder_classifier.safetensors"
save_file({name: value.contiguous() for name, value in tensors.items()}, path)
print(f"{path.name}: {len(tensors)} tensors, {path.stat().st_size:,} bytes")
