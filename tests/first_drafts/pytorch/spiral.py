"""The data and the network of ../spiral.h in PyTorch, trained as in ../spiral_test.cpp."""
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


class Spirals(Dataset):
    def __init__(self, n, seed):
        g = np.random.default_rng(seed)
        c = np.arange(n) % 2
        r = 0.3 + 2.7 * g.random(n)
        t = 3 * r + 3.14159 * c
        self.xs = np.stack([r * np.cos(t), r * np.sin(t)], 1) + 0.1 * g.standard_normal((n, 2))
        self.ys = c

    def __len__(self):
        return len(self.ys)

    def __getitem__(self, i):
        return torch.tensor(self.xs[i], dtype=torch.float32), torch.tensor(self.ys[i])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 64)
        self.b = nn.Linear(64, 64)
        self.c = nn.Linear(64, 2)

    def forward(self, x):
        return self.c(F.relu(self.b(F.relu(self.a(x)))))


if __name__ == "__main__":
    for seed in range(3):
        torch.manual_seed(seed)
        model = Net()
        opt = torch.optim.Adam(model.parameters(), 1e-2)
        loader = DataLoader(Spirals(1000, 1), batch_size=64, shuffle=True)
        for epoch in range(30):
            for x, y in loader:
                opt.zero_grad()
                F.cross_entropy(model(x), y).backward()
                opt.step()
        test = Spirals(500, 2)
        x, y = next(iter(DataLoader(test, batch_size=500)))
        print(f"accuracy {(model(x).argmax(-1) == y).float().mean():.3f}")
