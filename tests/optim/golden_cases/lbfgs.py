"""Trajectories and line searches of LBFGS.

lbfgs.safetensors
    `a` (4) and `b` (2, 2), flat z (8), minimise sum_i 10 (z[i + 1] - z[i]^2)^2 + (1 - z[i])^2; `start_a`, `start_b`.
    `<case>/step<n>`: a and b, flat, after n calls of `step`; `<case>/losses`: what each call returned;
    `<case>/evaluations`: evaluations of the closure so far. Metadata `<case>`: the options.
    `searches`: rows (function, first length, evaluations allowed, least change, length found, loss there, evaluations) of
    line searches on `line_function`.
"""

import json
import sys

import torch

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
