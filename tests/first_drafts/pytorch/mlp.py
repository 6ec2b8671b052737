"""The program of ../mlp.cpp in PyTorch."""
import math
import random

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


class Spiral(Dataset):
    def __init__(self):
        self.x, self.y = torch.zeros(1000, 2), torch.zeros(1000, dtype=torch.int64)
        for i in range(1000):
            c = i % 2
            t = 0.5 + 3.0 * i / 1000.0 * 3.14159
            self.x[i][0] = t * math.cos(t + c * 3.14159) + 0.1 * random.random()
            self.x[i][1] = t * math.sin(t + c * 3.14159) + 0.1 * random.random()
            self.y[i] = c

    def __len__(self):
        return 1000

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, x):
        return self.net(x)


def main():
    model = Net()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    loader = DataLoader(Spiral(), batch_size=64, shuffle=True)
    for epoch in range(20):
        for x, y in loader:
            opt.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
    torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
