#!/usr/bin/env python3
"""Makes goldens.safetensors: derivatives that PyTorch computes, in f64.

The file is committed; run this again only after adding a case, where `torch` and `safetensors` are installed:

    python3 tests/autograd/functional/make_goldens.py            # writes the file
    python3 tests/autograd/functional/make_goldens.py --check    # compares with the file and writes nothing

`in/<name>` are the inputs. The functions below are written again, with the same names, in the tests.
`vector/...`, `pair/...` and `scalar/...` are results of torch.autograd.functional; `vmap/...` of torch.func.
"""

import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch.autograd import functional
from torch.func import grad, jacrev, vmap

PATH = Path(__file__).with_name("goldens.safetensors")


def vector(x):
    return torch.exp(x) * x.sum()


def pair(a, b):
    return torch.tanh(a @ b), (a * b.T).sum(1)


def scalar(a, b):
    return (a @ b).pow(2).sum() + (torch.sin(a) * b.T * a).sum()


def loss(w1, w2, x, y):
    return (w2 @ torch.tanh(w1 @ x) - y).pow(2).mean()


def mixed(x, y):
    return torch.sin(x) * y.sum() + x[0]


def make():
    generator = torch.Generator().manual_seed(1)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    tensors = {
        "x": draw(3), "vx": draw(3), "a": draw(2, 3), "b": draw(3, 2), "va": draw(2, 3), "vb": draw(3, 2),
        "v0": draw(2, 2), "v1": draw(2), "w1": draw(4, 3), "w2": draw(2, 4), "xs": draw(5, 3), "ys": draw(5, 2),
        "columns": draw(3, 5),
    }
    i = dict(tensors)
    out = {f"in/{name}": value for name, value in tensors.items()}

    out["vector/jacobian"] = functional.jacobian(vector, i["x"])
    out["vector/vjp"] = functional.vjp(vector, i["x"], i["vx"])[1]
    out["vector/jvp"] = functional.jvp(vector, i["x"], i["vx"])[1]

    ab = (i["a"], i["b"])
    for r, row in enumerate(functional.jacobian(pair, ab)):
        for c, block in enumerate(row):
            out[f"pair/jacobian{r}{c}"] = block
    for k, product in enumerate(functional.vjp(pair, ab, (i["v0"], i["v1"]))[1]):
        out[f"pair/vjp{k}"] = product
    for k, product in enumerate(functional.jvp(pair, ab, (i["va"], i["vb"]))[1]):
        out[f"pair/jvp{k}"] = product

    for r, row in enumerate(functional.hessian(scalar, ab)):
        for c, block in enumerate(row):
            out[f"scalar/hessian{r}{c}"] = block
    for k, product in enumerate(functional.vhp(scalar, ab, (i["va"], i["vb"]))[1]):
        out[f"scalar/vhp{k}"] = product
    for k, product in enumerate(functional.hvp(scalar, ab, (i["va"], i["vb"]))[1]):
        out[f"scalar/hvp{k}"] = product

    per_sample = vmap(grad(loss, argnums=(0, 1)), in_dims=(None, None, 0, 0))
    out["vmap/w1"], out["vmap/w2"] = per_sample(i["w1"], i["w2"], i["xs"], i["ys"])
    out["vmap/mixed"] = vmap(mixed, in_dims=(1, 0), out_dims=1)(i["columns"], i["ys"])
    out["vmap/jacobian"] = vmap(jacrev(vector))(i["xs"])
    out["vmap/hessian"] = vmap(torch.func.hessian(lambda x: vector(x).sum()))(i["xs"])
    out["vmap/of_jacobian"] = jacrev(lambda w: vmap(lambda x: torch.tanh(w @ x).sum())(i["xs"]))(i["w1"])
    w = i["w1"].clone().requires_grad_()
    gradients = vmap(grad(loss), in_dims=(None, None, 0, 0))(w, i["w2"], i["xs"], i["ys"])
    gradients.pow(2).sum().backward()
    out["vmap/second"] = w.grad
    return {name: value.detach().contiguous() for name, value in out.items()}


if __name__ == "__main__":
    made = make()
    if "--check" in sys.argv[1:]:
        stored = load_file(PATH)
        assert stored.keys() == made.keys(), stored.keys() ^ made.keys()
        for name, value in made.items():
            torch.testing.assert_close(stored[name], value, rtol=1e-13, atol=1e-13, msg=name)
        print(f"{len(made)} tensors agree with {PATH.name}")
    else:
        save_file(made, PATH)
        print(f"{len(made)} tensors written to {PATH.name}")
