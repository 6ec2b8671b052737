"""Clipped gradients.

clipping.safetensors
    `<case>/in_a`, `/in_b`: gradients; `/norm`: their norm before clipping (absent when clipping by value);
    `/out_a`, `/out_b`: clipped. Metadata: {"max_norm", "p"} or {"value"}.
"""

import json

import torch

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
