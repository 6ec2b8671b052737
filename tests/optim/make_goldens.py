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

import torch
from safetensors import safe_open
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent
STEPS = 100
STORED = (1, 2, 10, 50, 100)

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
}


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


def run(problem, kind, options, different):
    """The parameters after each stored step."""
    a, b = problem["start_a"].clone().requires_grad_(), problem["start_b"].clone().requires_grad_()
    groups = [dict(options), {**options, **different}]
    # foreach=False: one parameter after the other, in the textbook's order of operations.
    optimizer = getattr(torch.optim, kind)(
        [{"params": [a], **groups[0]}, {"params": [b], **groups[1]}],
        foreach=False,
        **{"lr": options["lr"]} | {k: options[k] for k in ("initial_accumulator_value",) if k in options},
    )
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


KNOWN = {
    "SGD": {"lr", "momentum", "dampening", "nesterov", "weight_decay"},
    "Adam": {"lr", "betas", "eps", "weight_decay", "amsgrad"},
    "AdamW": {"lr", "betas", "eps", "weight_decay", "amsgrad"},
    "RMSprop": {"lr", "alpha", "eps", "momentum", "centered", "weight_decay"},
    "Adagrad": {"lr", "lr_decay", "eps", "initial_accumulator_value", "weight_decay"},
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
    for name, make in (("optimizers", optimizers), ("schedules", schedules), ("clipping", clipping)):
        tensors, metadata = make()
        tensors = {key: value.detach().clone().contiguous() for key, value in tensors.items()}
        path = options.out / f"{name}.safetensors"
        if options.check:
            problems += differences(path, tensors, metadata)
            continue
        options.out.mkdir(parents=True, exist_ok=True)
        save_file(tensors, path, metadata=metadata)
        print(f"{path.name}: {len(metadata)} cases, {path.stat().st_size:,} bytes")
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
