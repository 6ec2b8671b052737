"""Optimizers that PyTorch lacks, from their papers.
"""

import torch

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
    """You et al. 2020, algorithm 2, with phi(z) = z; with bias_correction = "rate" DeepSpeed's FusedLamb.

    DeepSpeed's kernel needs a GPU; the formulas are those of csrc/lamb/fused_lamb_cuda_kernel.cu of its version 0.19.8.
    """

    def __init__(self, params, **options):
        defaults = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0, maximize=False)
        defaults |= dict(min_coeff=0.0, max_coeff=None, bias_correction="means")
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
                lr = group["lr"]
                if group["bias_correction"] == "means":
                    m, v = m / (1 - beta1**t), v / (1 - beta2**t)
                elif group["bias_correction"] == "rate":
                    lr = lr * (1 - beta2**t) ** 0.5 / (1 - beta1**t)
                r = m / (v.sqrt() + group["eps"])
                change = r + group["weight_decay"] * p
                coefficient = max(p.norm() / change.norm(), group["min_coeff"])
                if group["max_coeff"] is not None:
                    coefficient = min(coefficient, group["max_coeff"])
                p.copy_(p - lr * coefficient * change)


OWN = {"Lion": Lion, "Lamb": Lamb}

# case: optimizer, options of a's group, options in which b's group differs
