"""Writes goldens/parametrizations.txt: weight and spectral norm in PyTorch. Run: python make_parametrization_goldens.py"""

import pathlib

import torch
from torch import nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import spectral_norm, weight_norm


def pattern(shape):
    count = torch.Size(shape).numel()
    return (((torch.arange(count) * 7) % 11).float() - 5).reshape(shape) / 10


def numbers(x):
    return " ".join(f"{v:.9g}" for v in x.detach().flatten().tolist())


lines = {}


def train(key, module, x, run=lambda module, x: module(x)):
    """Two steps of gradient descent from the pattern, then evaluation, and the removal of all parametrisations."""
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(pattern(p.shape))
        for _, b in module.named_buffers():
            b.copy_(torch.nn.functional.normalize(pattern(b.shape), dim=0))
    lines[f"{key} state"] = " ".join(module.state_dict())
    for step in range(2):
        module.zero_grad()
        y = run(module, x)
        (y * y).sum().backward()
        lines[f"{key} y {step}"] = numbers(y)
        with torch.no_grad():
            for p in module.parameters():
                p -= 0.01 * p.grad
    module.eval()
    lines[f"{key} eval"] = numbers(run(module, x))
    for name, value in module.state_dict().items():
        lines[f"{key} {name}"] = numbers(value)
    for name in list(module.parametrizations):
        parametrize.remove_parametrizations(module, name)
        lines[f"{key} removed {name}"] = numbers(getattr(module, name))


rows, image = pattern((2, 3)), pattern((2, 2, 3, 3))
train("weight_norm", weight_norm(nn.Linear(3, 4)), rows)
train("weight_norm dim 1", weight_norm(nn.Linear(3, 4), dim=1), rows)
train("weight_norm whole", weight_norm(nn.Linear(3, 4), dim=None), rows)
train("weight_norm conv", weight_norm(nn.Conv2d(2, 3, 2)), image)
train("weight_norm lstm", weight_norm(nn.LSTM(3, 2), name="weight_hh_l0"), pattern((3, 2, 3)),
      lambda lstm, x: lstm(x)[0])
train("spectral_norm", spectral_norm(nn.Linear(3, 4)), rows)
train("spectral_norm conv", spectral_norm(nn.Conv2d(2, 3, 2), n_power_iterations=3), image)
train("spectral_norm transposed", spectral_norm(nn.ConvTranspose2d(2, 3, 2)), image)
train("spectral_norm dim 2", spectral_norm(nn.Conv2d(2, 3, 2), dim=2, eps=0.5), image)
train("both", weight_norm(spectral_norm(nn.Linear(3, 4)), name="bias"), rows)

# What weight norm begins from.
for key, dim in [("rows", 0), ("columns", 1), ("whole", None)]:
    linear = nn.Linear(3, 4)
    with torch.no_grad():
        linear.weight.copy_(pattern((4, 3)))
    weight_norm(linear, dim=dim)
    lines[f"weight_norm begins {key}"] = numbers(linear.parametrizations.weight.original0)

path = pathlib.Path(__file__).parent / "goldens" / "parametrizations.txt"
path.write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))
