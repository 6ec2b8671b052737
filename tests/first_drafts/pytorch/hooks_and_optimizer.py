"""The program of ../hooks_and_optimizer.cpp in PyTorch."""
import torch
from torch import nn


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        return dy * x * x * 3


class Sgd(torch.optim.Optimizer):
    def __init__(self, p, lr):
        super().__init__(p, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p -= group["lr"] * p.grad


def main():
    lin = nn.Linear(3, 2)
    lin.register_forward_hook(lambda m, input, output: print(output))
    for name, p in lin.named_parameters():
        p.requires_grad = False
    lin.weight.requires_grad = False


if __name__ == "__main__":
    main()
    # What ../hooks_and_optimizer_test.cpp checks.
    x = torch.tensor([1.0, -2.0, 0.5], requires_grad=True)
    Cube.apply(x).sum().backward()
    assert torch.equal(x.grad, 3 * x.detach() ** 2)
    torch.manual_seed(1)
    own, theirs = nn.Linear(3, 2), nn.Linear(3, 2)
    theirs.load_state_dict(own.state_dict())
    for model, opt in ((own, Sgd(own.parameters(), 0.1)), (theirs, torch.optim.SGD(theirs.parameters(), 0.1))):
        for step in range(5):
            opt.zero_grad()
            model(torch.ones(4, 3)).square().sum().backward()
            opt.step()
    assert all(torch.allclose(a, b, rtol=1e-6, atol=1e-7) for a, b in zip(own.parameters(), theirs.parameters()))
    print("equal to torch.optim.SGD")
