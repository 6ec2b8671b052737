"""The cost of an operation of PyTorch besides its kernel: the chains of bench_dispatch.cpp, nanoseconds per operation,
forward and backward together, one thread.

    python3 tools/bench/peer_dispatch.py
"""

import time

import torch

CHAIN = 100
w = torch.full((8, 8), 0.125)
dy = torch.ones(8, 8)

OPERATIONS = {
    "add": (lambda y: y + w, dy),
    "mul": (lambda y: y * w, dy),
    "gelu": (lambda y: torch.nn.functional.gelu(y), dy),
    "matmul_8x8": (lambda y: y @ w, dy),
    "view": (lambda y: y.view((64, 1) if y.shape[0] == 8 else (8, 8)), dy),
}


def nanoseconds_per_operation(operation, gradient, repetitions=200):
    x = torch.full((8, 8), 0.5, requires_grad=True)

    def steps():
        y = x
        for _ in range(CHAIN):
            y = operation(y)
        y.backward(gradient)
        x.grad = None

    for _ in range(20):
        steps()
    fastest = min(_time(steps) for _ in range(repetitions))
    return fastest / CHAIN


def _time(steps):
    start = time.perf_counter_ns()
    steps()
    return time.perf_counter_ns() - start


def main():
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}, forward and backward of one operation, best of 200 chains of {CHAIN}")
    for name, (operation, gradient) in OPERATIONS.items():
        print(f"{name:12} {nanoseconds_per_operation(operation, gradient):8.0f} ns")


if __name__ == "__main__":
    main()
