"""Writes llama_golden.txt for llama_test.cpp from pytorch/llama.py, and prints the losses of the training that the test
repeats. Run: python make_llama_golden.py"""
import pathlib
import sys

import torch
from torch.nn import functional as F

here = pathlib.Path(__file__).parent
sys.path.insert(0, str(here / "pytorch"))
from llama import Config, Llama  # noqa: E402

config = Config(vocab=17, dim=64, layers=2, heads=2, kv_heads=1, hidden=96, block=16)


def text_of(batch, start):
    rows = []
    for b in range(batch):
        id, row = (start + 3 * b) % 17, []
        for _ in range(config.block + 1):
            row.append(id)
            id = (id + (1 if id % 3 else 5)) % 17
        rows.append(row)
    return torch.tensor(rows)


def loss_of(model, ids):
    return F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


model = Llama(config).double()
with torch.no_grad():
    for k, p in enumerate(model.parameters()):
        i = torch.arange(p.numel(), dtype=torch.float64)
        p.copy_(((1 if p.dim() == 1 else 0) + 0.2 * torch.sin(0.37 * i * i + k)).float().double().view(p.shape))
ids = text_of(2, 0)
lines = ["logits " + " ".join(f"{v:.8g}" for v in model(ids[:, :-1]).flatten().tolist())]
loss = loss_of(model, ids)
loss.backward()
lines.append(f"loss {loss.item():.10g}")
lines += [f"{name} {p.grad.norm().item():.8g}" for name, p in model.named_parameters()]
(here / "llama_golden.txt").write_text("\n".join(lines) + "\n")

torch.manual_seed(1)
model = Llama(config)
adam = torch.optim.AdamW(model.parameters(), 3e-3)
for step in range(61):
    loss = loss_of(model, text_of(8, step))
    adam.zero_grad()
    loss.backward()
    adam.step()
    if step % 20 == 0:
        print(f"step {step} loss {loss.item():.3f}")
