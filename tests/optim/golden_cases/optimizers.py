"""Trajectories of optimizers.

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
"""

import json
import unittest.mock

import torch

from golden_cases.own_optimizers import OWN

STEPS = 100
STORED = (1, 2, 10, 50, 100)

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
    "lamb_deepspeed": (
        "Lamb",
        dict(lr=0.02, eps=1e-8, weight_decay=0.1, min_coeff=0.01, max_coeff=10.0, bias_correction="rate"),
        dict(max_coeff=0.3),
    ),
    "lamb_uncorrected": ("Lamb", dict(lr=0.02, bias_correction="none"), dict(min_coeff=1.5)),
    "muon": ("Muon", dict(lr=0.02), dict(lr=0.01, momentum=0.8)),
    "muon_plain": (
        "Muon",
        dict(lr=0.02, nesterov=False, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"),
        dict(ns_steps=3, adjust_lr_fn="spectral_unclamped"),
    ),
}
FULL_STEPS, FULL_STORED = 40, (1, 2, 10, 40)


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
    "Lamb": ADAM | {"min_coeff", "max_coeff", "bias_correction"},
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
