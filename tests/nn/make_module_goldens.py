"""Writes goldens/modules.txt: names, orders and hook gradients of a PyTorch model. Run: python make_module_goldens.py"""

import pathlib
import re

import torch
from torch import nn


def pattern(shape):
    count = torch.Size(shape).numel()
    return (((torch.arange(count) * 7) % 11).float() - 5).reshape(shape) / 10


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(3, 4)
        self.act = nn.GELU()
        self.blocks = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.out = nn.Linear(4, 2, bias=False)
        self.register_buffer("scale", torch.ones(2))

    def forward(self, x):
        y = self.act(self.fc1(x))
        for block in self.blocks:
            y = block(y)
        return self.out(y) * self.scale


def listed(values):
    return " ".join(values)


def numbers(x):
    return listed(f"{v:.9g}" for v in x.detach().flatten().tolist())


net = Net()
with torch.no_grad():
    for p in net.parameters():
        p.copy_(pattern(p.shape))
lines = {
    "named_parameters": listed(name for name, _ in net.named_parameters()),
    "named_buffers": listed(name for name, _ in net.named_buffers()),
    "named_modules": listed(f"'{name}'" for name, _ in net.named_modules()),
    "named_children": listed(name for name, _ in net.named_children()),
    "state_dict": listed(net.state_dict()),
}
order = []
net.apply(lambda m: order.append(type(m).__name__))
lines["apply"] = listed(order)
# Options of layers differ; the rest of the text is compared.
lines["repr"] = re.sub(r"\([^()\n]*=[^()\n]*\)", "()", repr(net)).replace("\n", "|")

seen = {}
net.fc1.register_forward_pre_hook(lambda m, args: args[0] * 2)
net.blocks[0].register_forward_hook(lambda m, args, out: out + args[0])
net.out.register_full_backward_pre_hook(lambda m, grad_output: (grad_output[0] * 3,))
net.fc1.register_full_backward_hook(lambda m, grad_input, grad_output: (grad_input[0] * 0.5,))
net.blocks[1].register_full_backward_hook(
    lambda m, grad_input, grad_output: seen.update(grad_input=grad_input[0], grad_output=grad_output[0]))
x = pattern((2, 3)).requires_grad_()
y = net(x)
(y * y).sum().backward()
lines["y"] = numbers(y)
lines["x.grad"] = numbers(x.grad)
lines["fc1.weight.grad"] = numbers(net.fc1.weight.grad)
lines["out.weight.grad"] = numbers(net.out.weight.grad)
lines["blocks.1 grad_input"] = numbers(seen["grad_input"])
lines["blocks.1 grad_output"] = numbers(seen["grad_output"])

# A module whose input requires no gradient: its full backward hook gets None.
first = nn.Linear(3, 2)
calls = []
first.register_full_backward_hook(lambda m, grad_input, grad_output: calls.append(
    f"{len(grad_input)} {grad_input[0] is None} {len(grad_output)} {grad_output[0] is None}"))
first(pattern((2, 3))).sum().backward()
lines["no input gradient"] = listed(calls)

# An exponential moving average over four updates, and its state's names.
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn  # noqa: E402

source = Net()
with torch.no_grad():
    for p in source.parameters():
        p.copy_(pattern(p.shape))
averaged = AveragedModel(source, multi_avg_fn=get_ema_multi_avg_fn(0.9))
for step in range(4):
    with torch.no_grad():
        for p in source.parameters():
            p.mul_(-1.5).add_(0.125 * step)
    averaged.update_parameters(source)
lines["ema fc1.weight"] = numbers(averaged.module.fc1.weight)
lines["ema blocks.1.bias"] = numbers(averaged.module.blocks[1].bias)
lines["ema state"] = listed(sorted(averaged.state_dict()))
lines["ema n_averaged"] = str(averaged.n_averaged.item())

# Names that a load without strict returns.
state = source.state_dict()
del state["fc1.bias"], state["blocks.2.weight"]
state["head.weight"] = torch.zeros(1)
keys = source.load_state_dict(state, strict=False)
lines["missing_keys"] = listed(keys.missing_keys)
lines["unexpected_keys"] = listed(keys.unexpected_keys)

# Batch norm: three calls in training, one in evaluation.
norm = nn.BatchNorm2d(3, eps=1e-3, momentum=0.2)
with torch.no_grad():
    for p in norm.parameters():
        p.copy_(pattern(p.shape))
lines["batch_norm state"] = listed(norm.state_dict())
for step in range(3):
    x = pattern((2, 3, 2, 2))
    y = norm((x.flatten() * (1 + step * (torch.arange(x.numel()) % 3))).reshape(x.shape))
lines["batch_norm y"] = numbers(y)
lines["batch_norm running_mean"] = numbers(norm.running_mean)
lines["batch_norm running_var"] = numbers(norm.running_var)
norm.eval()
lines["batch_norm eval"] = numbers(norm(pattern((2, 3, 2, 2))))

path = pathlib.Path(__file__).parent / "goldens" / "modules.txt"
path.write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))
