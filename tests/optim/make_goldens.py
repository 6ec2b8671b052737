#!/usr/bin/env python3
"""Makes tests/optim/goldens/*.safetensors: results of PyTorch's optimizers, schedules and clipping, in f64.

The files are committed; run this again only after adding a case, where `torch` and `safetensors` are installed:

    python3 tests/optim/make_goldens.py            # writes the files
    python3 tests/optim/make_goldens.py --check    # compares with the committed files and writes nothing

optimizers.safetensors
    Two parameters, `a` (7) in group 0 and `b` (3, 4) in group 1, minimise a quadratic with a factor that changes.
    With t counting steps from 0, the gradients are, for every optimizer,
        grad_a = wobble[t] * (hessian_a @ (a - target_a))
        grad_b = wobble[t] * (curvature_b * (b - target_b))
    `problem/...` holds start_a, target_a, hessian_a, start_b, target_b, curvature_b and wobble (100).
    `<case>/step<n>/a` and `/b` are the parameters after n steps, for n = 1, 2, 10, 50, 100.
    Metadata `<case>`: {"optimizer": ..., "groups": [{options of a's group}, {options of b's}]}.

full_parameters.safetensors
    The same for optimizers that read parameters as a whole: `tall` (6, 4) and `cube` (2, 3, 4) in group 0, `wide` (3, 5)
    and `vector` (5) in group 1 (Muon: the matrices alone), with
        grad_p = wobble[t] * (curvature_p * (p - target_p))
    `problem/start_<p>`, `/target_<p>`, `/curvature_<p>`, `/wobble` (40); `<case>/step<n>/<p>` for n = 1, 2, 10, 40.
    Muon's Newton-Schulz iterations are in f64 here; PyTorch's are in bf16.

lbfgs.safetensors
    `a` (4) and `b` (2, 2), flat z (8), minimise sum_i 10 (z[i + 1] - z[i]^2)^2 + (1 - z[i])^2; `start_a`, `start_b`.
    `<case>/step<n>`: a and b, flat, after n calls of `step`; `<case>/losses`: what each call returned;
    `<case>/evaluations`: evaluations of the closure so far. Metadata `<case>`: the options.
    `searches`: rows (function, first length, evaluations allowed, least change, length found, loss there, evaluations) of
    line searches on `line_function`.

group_schedules.safetensors
    `<case>` (100, 2): PyTorch's rates of two groups, made with the rates 0.1 and 0.02. `metrics` (100): what
    ReduceLROnPlateau sees. The options are those of `group_schedules` below and of the test.

schedules.safetensors
    `<case>` is the learning rate of steps 0, 1, ...; metadata `<case>`: {"schedule": ..., its options}.

clipping.safetensors
    `<case>/in_a`, `/in_b`: gradients; `/norm`: their norm before clipping (absent when clipping by value);
    `/out_a`, `/out_b`: clipped. Metadata: {"max_norm", "p"} or {"value"}.
"""

import argparse
import json
import math
import pathlib
import sys
import unittest.mock

import torch
from safetensors import safe_open
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent
STEPS = 100
STORED = (1, 2, 10, 50, 100)


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, algorithm 2."""

    def __init__(self, params, **options):
        super().__init__(params, dict(lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, maximize=False) | options)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                g = -p.grad if group["maximize"] else p.grad
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                update = torch.sign(beta1 * m + (1 - beta1) * g)
                p.copy_(p - group["lr"] * (update + group["weight_decay"] * p))
                m.copy_(beta2 * m + (1 - beta2) * g)


class Lamb(torch.optim.Optimizer):
    """You et al. 2020, algorithm 2, with phi(z) = z."""

    def __init__(self, params, **options):
        defaults = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0, maximize=False)
        super().__init__(params, defaults | options)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                g = -p.grad if group["maximize"] else p.grad
                state = self.state[p]
                t = state["step"] = state.get("step", 0) + 1
                m = state["m"] = beta1 * state.get("m", torch.zeros_like(p)) + (1 - beta1) * g
                v = state["v"] = beta2 * state.get("v", torch.zeros_like(p)) + (1 - beta2) * g * g
                r = (m / (1 - beta1**t)) / ((v / (1 - beta2**t)).sqrt() + group["eps"])
                change = r + group["weight_decay"] * p
                p.copy_(p - group["lr"] * p.norm() / change.norm() * change)


OWN = {"Lion": Lion, "Lamb": Lamb}

# case: optimizer, options of a's group, options in which b's group differs
OPTIMIZERS = {
    "sgd": ("SGD", dict(lr=0.05), dict(lr=0.02)),
    "sgd_weight_decay": ("SGD", dict(lr=0.05, weight_decay=0.1), dict(weight_decay=0.0)),
    "sgd_momentum": ("SGD", dict(lr=0.02, momentum=0.9), dict(lr=0.01, momentum=0.5)),
    "sgd_dampening": ("SGD", dict(lr=0.02, momentum=0.9, dampening=0.3), dict(lr=0.01, weight_decay=0.1)),
    "sgd_nesterov": ("SGD", dict(lr=0.02, momentum=0.9, nesterov=True, weight_decay=0.01), dict(lr=0.01)),
    "adam": ("Adam", dict(lr=0.03), dict(lr=0.01, betas=(0.8, 0.95))),
    "adam_weight_decay": ("Adam", dict(lr=0.03, weight_decay=0.1), dict(weight_decay=0.0, eps=1e-4)),
    "adam_amsgrad": ("Adam", dict(lr=0.03, amsgrad=True), dict(lr=0.01, betas=(0.5, 0.9))),
    "adamw": ("AdamW", dict(lr=0.03, betas=(0.9, 0.99), weight_decay=0.1), dict(weight_decay=0.0)),
    "adamw_amsgrad": ("AdamW", dict(lr=0.03, betas=(0.9, 0.95), amsgrad=True), dict(lr=0.01, weight_decay=0.2)),
    "rmsprop": ("RMSprop", dict(lr=0.01), dict(lr=0.005, alpha=0.9)),
    "rmsprop_centered": ("RMSprop", dict(lr=0.01, centered=True), dict(lr=0.005, eps=1e-4)),
    "rmsprop_momentum": ("RMSprop", dict(lr=0.003, momentum=0.9, weight_decay=0.1), dict(momentum=0.5)),
    "rmsprop_centered_momentum": ("RMSprop", dict(lr=0.003, momentum=0.9, centered=True), dict(momentum=0.0)),
    "adagrad": ("Adagrad", dict(lr=0.3), dict(lr=0.1, lr_decay=0.01)),
    "adagrad_initial": (
        "Adagrad",
        dict(lr=0.3, initial_accumulator_value=0.5, weight_decay=0.1),
        dict(weight_decay=0.0, eps=1e-6),
    ),
    "sgd_maximize": ("SGD", dict(lr=0.02, momentum=0.9), dict(lr=0.001, maximize=True)),
    "adam_decoupled": (
        "Adam",
        dict(lr=0.03, weight_decay=0.1, decoupled_weight_decay=True),
        dict(decoupled_weight_decay=False, maximize=True),
    ),
    "adadelta": ("Adadelta", dict(), dict(lr=2.0, rho=0.8)),
    "adadelta_maximize": ("Adadelta", dict(lr=3.0, eps=1e-3, weight_decay=0.1), dict(weight_decay=0.0, maximize=True)),
    "adamax": ("Adamax", dict(lr=0.03), dict(lr=0.01, betas=(0.8, 0.9))),
    "adamax_maximize": ("Adamax", dict(lr=0.03, weight_decay=0.1, eps=1e-3), dict(weight_decay=0.0, maximize=True)),
    "nadam": ("NAdam", dict(lr=0.03), dict(lr=0.01, betas=(0.8, 0.95), momentum_decay=0.3)),
    "nadam_decoupled": (
        "NAdam",
        dict(lr=0.03, weight_decay=0.1, decoupled_weight_decay=True),
        dict(decoupled_weight_decay=False, maximize=True, momentum_decay=5.0),
    ),
    "radam": ("RAdam", dict(lr=0.03), dict(lr=0.01, betas=(0.8, 0.95))),
    "radam_decoupled": (
        "RAdam",
        dict(lr=0.03, weight_decay=0.1, decoupled_weight_decay=True, eps=1e-4),
        dict(decoupled_weight_decay=False, maximize=True),
    ),
    "lion": ("Lion", dict(lr=0.01), dict(lr=0.003, betas=(0.8, 0.95))),
    "lion_weight_decay": ("Lion", dict(lr=0.01, weight_decay=0.1), dict(maximize=True)),
}

# case: optimizer, options of group 0, options in which group 1 differs
FULL_PARAMETERS = {
    "adafactor": ("Adafactor", dict(lr=0.05), dict(lr=0.02, beta2_decay=-0.5)),
    "adafactor_all_options": (
        "Adafactor",
        dict(lr=0.5, eps=(1e-3, 1e-2), d=2.0, weight_decay=0.1),
        dict(d=1.0, maximize=True),
    ),
    "lamb": ("Lamb", dict(lr=0.02), dict(lr=0.01, betas=(0.8, 0.95))),
    "lamb_weight_decay": ("Lamb", dict(lr=0.02, weight_decay=0.1, eps=1e-3), dict(maximize=True)),
    "muon": ("Muon", dict(lr=0.02), dict(lr=0.01, momentum=0.8)),
    "muon_plain": (
        "Muon",
        dict(lr=0.02, nesterov=False, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"),
        dict(ns_steps=3, adjust_lr_fn="spectral_unclamped"),
    ),
}
FULL_STEPS, FULL_STORED = 40, (1, 2, 10, 40)

LBFGS = {
    "fixed": dict(lr=0.1, max_iter=4, history_size=3),
    "wolfe": dict(line_search_fn="strong_wolfe", max_iter=4),
    "wolfe_maximize": dict(
        lr=0.5, line_search_fn="strong_wolfe", max_iter=6, history_size=4, max_eval=6, maximize=True
    ),
    "wolfe_short": dict(lr=1e-3, line_search_fn="strong_wolfe", max_iter=2, max_eval=30, history_size=2),
    "wolfe_long": dict(lr=40.0, line_search_fn="strong_wolfe", max_iter=3, max_eval=30),
    "wolfe_few": dict(lr=1e-3, line_search_fn="strong_wolfe", max_iter=3, max_eval=4),
}
LBFGS_CALLS = 5


def make_problem(generator):
    def normal(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    root = normal(7, 7)
    return {
        "start_a": normal(7),
        "target_a": normal(7),
        "hessian_a": root @ root.T / 7 + 0.1 * torch.eye(7).double(),
        "start_b": normal(3, 4),
        "target_b": normal(3, 4),
        "curvature_b": normal(3, 4).abs() + 0.1,
        "wobble": 1.0 + 0.5 * torch.sin(0.7 * torch.arange(STEPS, dtype=torch.float64)),
    }


def make_optimizer(kind, groups, options):
    if kind in OWN:
        return OWN[kind](groups)
    # foreach=False: one parameter after the other, in the textbook's order of operations.
    common = {k: options[k] for k in ("lr", "initial_accumulator_value") if k in options}
    return getattr(torch.optim, kind)(groups, **common, **({} if kind == "Muon" else {"foreach": False}))


def run(problem, kind, options, different):
    """The parameters after each stored step."""
    a, b = problem["start_a"].clone().requires_grad_(), problem["start_b"].clone().requires_grad_()
    groups = [dict(options), {**options, **different}]
    optimizer = make_optimizer(kind, [{"params": [a], **groups[0]}, {"params": [b], **groups[1]}], options)
    stored = {}
    for t in range(STEPS):
        with torch.no_grad():
            a.grad = problem["wobble"][t] * (problem["hessian_a"] @ (a - problem["target_a"]))
            b.grad = problem["wobble"][t] * (problem["curvature_b"] * (b - problem["target_b"]))
        optimizer.step()
        if t + 1 in STORED:
            stored[f"step{t + 1}/a"], stored[f"step{t + 1}/b"] = a.detach().clone(), b.detach().clone()
    # The value of every option, defaults included.
    used = [{k: v for k, v in group.items() if k in KNOWN[kind]} for group in optimizer.param_groups]
    return stored, {"optimizer": kind, "groups": used}


ADAM = {"lr", "betas", "eps", "weight_decay", "maximize"}
KNOWN = {
    "SGD": {"lr", "momentum", "dampening", "nesterov", "weight_decay", "maximize"},
    "Adam": ADAM | {"amsgrad", "decoupled_weight_decay"},
    "AdamW": ADAM | {"amsgrad"},
    "RMSprop": {"lr", "alpha", "eps", "momentum", "centered", "weight_decay", "maximize"},
    "Adagrad": {"lr", "lr_decay", "eps", "initial_accumulator_value", "weight_decay", "maximize"},
    "Adadelta": {"lr", "rho", "eps", "weight_decay", "maximize"},
    "Adamax": ADAM,
    "NAdam": ADAM | {"momentum_decay", "decoupled_weight_decay"},
    "RAdam": ADAM | {"decoupled_weight_decay"},
    "Lion": ADAM - {"eps"},
    "Lamb": ADAM,
    "Adafactor": {"lr", "beta2_decay", "eps", "d", "weight_decay", "maximize"},
    "Muon": {"lr", "weight_decay", "momentum", "nesterov", "eps", "ns_steps", "adjust_lr_fn"},
}


def optimizers():
    problem = make_problem(torch.Generator().manual_seed(20))
    tensors = {f"problem/{name}": value for name, value in problem.items()}
    metadata = {}
    for case, (kind, options, different) in OPTIMIZERS.items():
        stored, used = run(problem, kind, options, different)
        tensors |= {f"{case}/{name}": value for name, value in stored.items()}
        metadata[case] = json.dumps(used)
    return tensors, metadata


def full_parameters():
    generator = torch.Generator().manual_seed(22)
    shapes = {"tall": (6, 4), "cube": (2, 3, 4), "wide": (3, 5), "vector": (5,)}
    problem = {"wobble": 1.0 + 0.5 * torch.sin(0.7 * torch.arange(FULL_STEPS, dtype=torch.float64))}
    for name, shape in shapes.items():
        for role in ("start", "target", "curvature"):
            value = torch.randn(shape, generator=generator, dtype=torch.float64)
            problem[f"{role}_{name}"] = value.abs() + 0.1 if role == "curvature" else value
    tensors = {f"problem/{name}": value for name, value in problem.items()}
    metadata = {}
    for case, (kind, options, different) in FULL_PARAMETERS.items():
        names = [n for n in shapes if kind != "Muon" or len(shapes[n]) == 2]
        p = {n: problem[f"start_{n}"].clone().requires_grad_() for n in names}
        groups = [
            {"params": [p[n] for n in names if n in ("tall", "cube")], **options},
            {"params": [p[n] for n in names if n in ("wide", "vector")], **options, **different},
        ]
        optimizer = make_optimizer(kind, groups, options)
        for t in range(FULL_STEPS):
            for n in names:
                gradient = problem["wobble"][t] * (problem[f"curvature_{n}"] * (p[n].detach() - problem[f"target_{n}"]))
                p[n].grad = gradient
            with unittest.mock.patch.object(torch, "bfloat16", torch.float64):
                optimizer.step()
            if t + 1 in FULL_STORED:
                tensors |= {f"{case}/step{t + 1}/{n}": p[n].detach().clone() for n in names}
        used = [{k: v for k, v in group.items() if k in KNOWN[kind]} for group in optimizer.param_groups]
        metadata[case] = json.dumps({"optimizer": kind, "groups": used})
    return tensors, metadata


def line_function(kind, t):
    """Loss and slope at t: More and Thuente's first two functions, a double well, a kink, a cliff, a power."""
    if kind == 0:
        return -t / (t * t + 2), (t * t - 2) / ((t * t + 2) * (t * t + 2))
    if kind == 1:
        u = t + 0.004
        return u * u * u * u * u - 2 * u * u * u * u, 5 * u * u * u * u - 8 * u * u * u
    if kind == 2:
        return t * t * t * t / 4 - 2 * t * t * t + 4 * t * t - t, t * t * t - 6 * t * t + 8 * t - 1
    if kind == 3:
        return (2 - t, -1.0) if t < 2 else (50 * (t - 2), 50.0)
    if kind == 4:
        return (-t, -1.0) if t < 0.05 else (-0.005 - 0.95 * (t - 0.1), -0.95)
    u = t - 3
    return u * u * u * u * u * u, 6 * u * u * u * u * u


def line_searches():
    rows = []
    strong_wolfe, direction = sys.modules["torch.optim.lbfgs"]._strong_wolfe, torch.ones(1)

    def evaluate(kind, t):
        loss, slope = line_function(kind, float(t))
        return loss, torch.tensor([slope])

    for kind in range(6):
        for first in (1e-3, 0.01, 0.1, 1.0, 7.0, 100.0):
            for allowed, least_change in ((25, 1e-9), (4, 1e-9), (1, 1e-9), (25, 0.5)):
                loss, gradient = evaluate(kind, 0.0)
                found, _, t, evaluations = strong_wolfe(
                    lambda x, t, d, kind=kind: evaluate(kind, t),
                    None,
                    first,
                    direction,
                    loss,
                    gradient,
                    gradient.dot(direction),
                    tolerance_change=least_change,
                    max_ls=allowed,
                )
                rows.append([kind, first, allowed, least_change, float(t), float(found), evaluations])
    return torch.tensor(rows)


def lbfgs():
    generator = torch.Generator().manual_seed(23)
    start = torch.randn(8, generator=generator, dtype=torch.float64)
    tensors, metadata = {"start_a": start[:4], "start_b": start[4:].reshape(2, 2), "searches": line_searches()}, {}
    for case, options in LBFGS.items():
        a, b = start[:4].clone().requires_grad_(), start[4:].reshape(2, 2).clone().requires_grad_()
        optimizer = torch.optim.LBFGS([a, b], **options)
        sign = -1.0 if options.get("maximize") else 1.0

        def closure():
            z = torch.cat([a.detach(), b.detach().flatten()])
            residual, distance = z[1:] - z[:-1] ** 2, 1.0 - z[:-1]
            gradient = torch.zeros(8, dtype=torch.float64)
            gradient[1:] += 20.0 * residual
            gradient[:-1] += -40.0 * residual * z[:-1] - 2.0 * distance
            a.grad, b.grad = sign * gradient[:4], sign * gradient[4:].reshape(2, 2)
            return sign * (10.0 * residual**2 + distance**2).sum()

        losses, evaluations = [], []
        for call in range(LBFGS_CALLS):
            losses.append(float(optimizer.step(closure)))
            evaluations.append(optimizer.state[a]["func_evals"])
            tensors[f"{case}/step{call + 1}"] = torch.cat([a.detach(), b.detach().flatten()])
        tensors[f"{case}/losses"] = torch.tensor(losses, dtype=torch.float64)
        tensors[f"{case}/evaluations"] = torch.tensor(evaluations, dtype=torch.int64)
        metadata[case] = json.dumps(options)
    return tensors, metadata


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


def clipping():
    generator = torch.Generator().manual_seed(21)
    tensors, metadata = {}, {}
    for case, options in [
        ("norm2", dict(max_norm=1.0, p=2.0)),
        ("norm1", dict(max_norm=0.5, p=1.0)),
        ("norm3", dict(max_norm=0.5, p=3.0)),
        ("norm_inf", dict(max_norm=0.25, p="inf")),
        ("norm_below", dict(max_norm=1e3, p=2.0)),
        ("value", dict(value=0.5)),
    ]:
        gradients = [
            torch.randn(7, generator=generator, dtype=torch.float64),
            torch.randn(3, 4, generator=generator, dtype=torch.float64),
        ]
        parameters = [torch.zeros_like(g).requires_grad_() for g in gradients]
        for name, parameter, gradient in zip("ab", parameters, gradients):
            parameter.grad = gradient.clone()
            tensors[f"{case}/in_{name}"] = gradient
        if "value" in options:
            torch.nn.utils.clip_grad_value_(parameters, options["value"], foreach=False)
        else:
            norm = torch.nn.utils.clip_grad_norm_(parameters, options["max_norm"], float(options["p"]), foreach=False)
            tensors[f"{case}/norm"] = norm
        for name, parameter in zip("ab", parameters):
            tensors[f"{case}/out_{name}"] = parameter.grad
        metadata[case] = json.dumps(options)
    return tensors, metadata


def differences(path, tensors, metadata):
    if not path.exists():
        return [f"{path.name} is missing"]
    with safe_open(path, "pt") as committed:
        if (committed.metadata() or {}) != metadata or set(committed.keys()) != set(tensors):
            return [f"{path.name}: cases or options differ"]
        return [
            f"{path.name}: {name} differs"
            for name in sorted(tensors)
            if not torch.allclose(committed.get_tensor(name), tensors[name], rtol=1e-12, atol=1e-14)
        ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the committed files, write nothing")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "goldens", help="folder (default: %(default)s)")
    options = parser.parse_args()

    torch.set_num_threads(1)
    problems = []
    torch.set_default_dtype(torch.float64)  # that of NAdam's state mu_product
    for name, make in (
        ("optimizers", optimizers),
        ("full_parameters", full_parameters),
        ("lbfgs", lbfgs),
        ("schedules", schedules),
        ("group_schedules", group_schedules),
        ("clipping", clipping),
    ):
        tensors, metadata = make()
        tensors = {key: value.detach().clone().contiguous() for key, value in tensors.items()}
        path = options.out / f"{name}.safetensors"
        if options.check:
            problems += differences(path, tensors, metadata)
            continue
        options.out.mkdir(parents=True, exist_ok=True)
        save_file(tensors, path, metadata=metadata or None)
        print(f"{path.name}: {len(metadata)} cases, {path.stat().st_size:,} bytes")
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
