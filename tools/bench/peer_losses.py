"""The rows of bench_losses.cpp for PyTorch: milliseconds of a forward and a backward, medians, two threads.

    python3 tools/bench/peer_losses.py
"""

import time

import torch
import torch.nn.functional as F


def measure(name, function, values, dy=None):
    x = values.requires_grad_()
    forward, backward = [], []
    for _ in range(15):
        start = time.perf_counter()
        y = function(x)
        middle = time.perf_counter()
        y.backward(dy)
        end = time.perf_counter()
        x.grad = None
        forward.append(1e3 * (middle - start))
        backward.append(1e3 * (end - middle))
    print(f"{name:28} {sorted(forward)[7]:8.2f} {sorted(backward)[7]:8.2f}")


def main():
    torch.set_num_threads(2)
    torch.manual_seed(1)
    print(f"{'milliseconds, ' + torch.__version__:28} {'forward':>8} {'backward':>8}")
    x, dy, t = (torch.randn(4096, 1024) for _ in range(3))
    measure("leaky_relu", F.leaky_relu, x, dy)
    measure("elu", F.elu, x, dy)
    measure("mish", F.mish, x, dy)
    measure("hardswish", F.hardswish, x, dy)
    measure("softplus beta 2", lambda a: F.softplus(a, 2), x, dy)
    measure("logsigmoid", F.logsigmoid, x, dy)
    measure("mse_loss", lambda a: F.mse_loss(a, t), x)
    measure("l1_loss", lambda a: F.l1_loss(a, t), x)
    measure("smooth_l1_loss", lambda a: F.smooth_l1_loss(a, t), x)
    measure("huber_loss", lambda a: F.huber_loss(a, t), x)
    measure("bce_with_logits", lambda a: F.binary_cross_entropy_with_logits(a, t), x)
    ids, soft = torch.randint(0, 1024, (4096,)), torch.softmax(t, -1)
    measure("cross_entropy", lambda a: F.cross_entropy(a, ids), x)
    measure("cross_entropy smoothing 0.1", lambda a: F.cross_entropy(a, ids, label_smoothing=0.1), x)
    measure("cross_entropy soft labels", lambda a: F.cross_entropy(a, soft), x)
    frames, lengths, labels = torch.full((32,), 200), torch.full((32,), 30), torch.randint(1, 50, (32, 30))
    measure(
        "log_softmax, ctc_loss",
        lambda a: F.ctc_loss(F.log_softmax(a, -1), labels, frames, lengths),
        torch.randn(200, 32, 50),
    )


if __name__ == "__main__":
    main()
