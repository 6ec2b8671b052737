"""Learning-rate schedules.

group_schedules.safetensors
    `<case>` (100, 2): PyTorch's rates of two groups, made with the rates 0.1 and 0.02. `metrics` (100): what
    ReduceLROnPlateau sees. The options are those of `group_schedules` below and of the test.

schedules.safetensors
    `<case>` is the learning rate of steps 0, 1, ...; metadata `<case>`: {"schedule": ..., its options}.
"""

import json
import math

import torch

def group_schedules():
    schedulers = torch.optim.lr_scheduler
    count = 100
    t = torch.arange(count, dtype=torch.float64)
    metrics = torch.exp(-0.05 * t) + 0.1 * torch.sin(3.0 * t).abs()
    tensors = {"metrics": metrics}

    def add(case, make, of_metric=None):
        groups = [{"params": [torch.zeros(1, requires_grad=True)], "lr": lr} for lr in (0.1, 0.02)]
        optimizer = torch.optim.SGD(groups, lr=0.1)
        scheduler = make(optimizer)
        rates = []
        for step in range(count):
            rates.append([group["lr"] for group in optimizer.param_groups])
            optimizer.step()
            if of_metric:
                scheduler.step(of_metric(float(metrics[step])))
            elif step + 1 < count:
                scheduler.step()
        tensors[case] = torch.tensor(rates, dtype=torch.float64)

    add("step_decay", lambda o: schedulers.StepLR(o, step_size=7, gamma=0.8))
    add("multi_step", lambda o: schedulers.MultiStepLR(o, milestones=[5, 30, 30, 77], gamma=0.3))
    add("exponential", lambda o: schedulers.ExponentialLR(o, gamma=0.95))
    add("cosine_annealing", lambda o: schedulers.CosineAnnealingLR(o, T_max=30, eta_min=1e-3))
    add("cosine_warm_restarts", lambda o: schedulers.CosineAnnealingWarmRestarts(o, T_0=11, eta_min=1e-3))
    add("cosine_warm_restarts_longer", lambda o: schedulers.CosineAnnealingWarmRestarts(o, T_0=7, T_mult=2))
    add("polynomial", lambda o: schedulers.PolynomialLR(o, total_iters=60, power=2.5))
    add("linear", lambda o: schedulers.LinearLR(o, start_factor=0.5, end_factor=0.1, total_iters=80))
    add("linear_warmup", lambda o: schedulers.LinearLR(o, start_factor=0.01, total_iters=20))
    add("one_cycle", lambda o: schedulers.OneCycleLR(o, max_lr=[0.1, 0.02], total_steps=count, cycle_momentum=False))
    add("lambda", lambda o: schedulers.LambdaLR(o, lambda t: 1 / math.sqrt(t + 1)))
    add("lambda_per_group", lambda o: schedulers.LambdaLR(o, [lambda t: 0.9**t, lambda t: 1 / (1 + t)]))
    add(
        "sequential",
        lambda o: schedulers.SequentialLR(
            o,
            [
                schedulers.LinearLR(o, start_factor=0.1, total_iters=10),
                schedulers.CosineAnnealingLR(o, T_max=50, eta_min=1e-3),
                schedulers.ExponentialLR(o, gamma=0.9),
            ],
            milestones=[10, 60],
        ),
    )
    add(
        "chained",
        lambda o: schedulers.ChainedScheduler(
            [schedulers.LinearLR(o, start_factor=0.1, total_iters=10), schedulers.ExponentialLR(o, gamma=0.97)]
        ),
    )
    add("plateau", lambda o: schedulers.ReduceLROnPlateau(o, factor=0.5, patience=3, min_lr=1e-3), lambda m: m)
    add(
        "plateau_max",
        lambda o: schedulers.ReduceLROnPlateau(
            o, mode="max", factor=0.7, patience=2, threshold=0.05, threshold_mode="abs", cooldown=4
        ),
        lambda m: -m,
    )
    add(
        "plateau_min_lrs",
        lambda o: schedulers.ReduceLROnPlateau(o, factor=0.6, patience=1, cooldown=2, min_lr=[1e-3, 5e-3]),
        lambda m: m,
    )
    add(
        "plateau_max_rel",
        lambda o: schedulers.ReduceLROnPlateau(o, mode="max", factor=0.8, patience=0, threshold=0.02),
        lambda m: 2.0 - m,
    )
    add(
        "plateau_min_abs_eps",
        lambda o: schedulers.ReduceLROnPlateau(
            o, factor=0.5, patience=0, threshold=0.05, threshold_mode="abs", cooldown=1, eps=2e-3
        ),
        lambda m: m,
    )
    return tensors, {}


def warmup_cosine(step, lr, min_lr, warmup_steps, steps):
    """nanoGPT's schedule: linear to lr over the warm-up, then half a cosine down to min_lr."""
    if step < warmup_steps:
        return lr * (step + 1) / (warmup_steps + 1)
    if step >= steps:
        return min_lr
    done = (step - warmup_steps) / (steps - warmup_steps)
    return min_lr + 0.5 * (1 + math.cos(math.pi * done)) * (lr - min_lr)


def pytorch_schedule(kind, lr, count, **options):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr)
    scheduler = getattr(torch.optim.lr_scheduler, kind)(optimizer, **options)
    rates = []
    for step in range(count):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if step + 1 < count:
            scheduler.step()
    return torch.tensor(rates, dtype=torch.float64)


def schedules():
    tensors, metadata = {}, {}

    def add(case, rates, **options):
        tensors[case], metadata[case] = rates, json.dumps(options)

    for case, options in [
        ("cosine_warmup", dict(lr=1e-3, min_lr=1e-4, warmup_steps=10, steps=100)),
        ("cosine_no_warmup", dict(lr=0.5, min_lr=0.0, warmup_steps=0, steps=40)),
    ]:
        rates = [warmup_cosine(step, **options) for step in range(options["steps"] + 10)]
        add(case, torch.tensor(rates, dtype=torch.float64), schedule="cosine", **options)
    linear = dict(start_factor=0.25, end_factor=1.0, total_iters=8)
    add("linear_up", pytorch_schedule("LinearLR", 0.1, 20, **linear), schedule="linear", lr=0.1, **linear)
    linear = dict(start_factor=1.0, end_factor=0.1, total_iters=50)
    add("linear_down", pytorch_schedule("LinearLR", 0.1, 60, **linear), schedule="linear", lr=0.1, **linear)
    step = dict(step_size=7, gamma=0.5)
    add("step", pytorch_schedule("StepLR", 0.1, 40, **step), schedule="step", lr=0.1, **step)
    add("exponential", pytorch_schedule("ExponentialLR", 0.1, 40, gamma=0.9), schedule="exponential", lr=0.1, gamma=0.9)
    add(
        "lambda_inverse_square_root",
        pytorch_schedule("LambdaLR", 0.1, 40, lr_lambda=lambda t: 1 / math.sqrt(t + 1)),
        schedule="lambda",
        lr=0.1,
        formula="1 / sqrt(step + 1)",
    )
    for anneal in ("cos", "linear"):
        for three_phase in (False, True):
            cycle = dict(
                max_lr=0.1,
                total_steps=50,
                pct_start=0.3,
                anneal_strategy=anneal,
                div_factor=25.0,
                final_div_factor=1e4,
                three_phase=three_phase,
            )
            case = f"one_cycle_{anneal}" + ("_three_phase" if three_phase else "")
            add(
                case,
                pytorch_schedule("OneCycleLR", 0.1, 50, cycle_momentum=False, **cycle),
                schedule="one_cycle",
                **cycle,
            )
    return tensors, metadata
