"""The PyTorch perceptron that models/dnn is measured against: linear layers of one width, ReLU between, mean
squared error. Shared by peer_data_parallel.py (speed) and tests/models/make_goldens.py (the same values).
"""

import dataclasses

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclasses.dataclass
class Preset:
    layers: int
    width: int


PRESETS = {"wide": Preset(3, 2048), "deep": Preset(256, 256)}


class Layer(nn.Module):
    """A linear layer, and ReLU for all but the last."""

    def __init__(self, width, last):
        super().__init__()
        self.last = last
        self.linear = nn.Linear(width, width)
        nn.init.kaiming_normal_(self.linear.weight, nonlinearity="relu")
        nn.init.zeros_(self.linear.bias)

    def forward(self, x):
        y = self.linear(x)
        return y if self.last else F.relu(y, inplace=True)


class Dnn(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.layers = nn.ModuleList([Layer(p.width, i == p.layers - 1) for i in range(p.layers)])

    def forward(self, x):
        """x (B, C) -> (B, C)"""
        for layer in self.layers:
            x = layer(x)
        return x


def loss_of(model, x, target):
    return F.mse_loss(model(x), target)


def random_batch(p, samples, generator):
    """x and target (B, C)"""
    x, target = torch.randn(2, samples, p.width, generator=generator)
    return x, target
