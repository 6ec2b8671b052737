#!/usr/bin/env python3
"""Makes goldens.safetensors, results and gradients under torch.autocast("cpu", torch.bfloat16), and dtypes.txt.

The files are committed; run this again only after adding a case, where `torch` and `safetensors` are installed:

    python3 tests/autograd/autocast/make_goldens.py            # writes the files
    python3 tests/autograd/autocast/make_goldens.py --check    # compares with the files and writes nothing

`<case>/in/<name>` are f32 inputs, `<case>/<name>` results in their own dtypes, `<case>/d<name>` the gradients of the
inputs. The functions below are written again, with the same names, in the test. PyTorch's list for the CPU leaves
layer_norm, softmax and pow in bf16; its list for CUDA, which Tessera follows on every device, has them in f32: `.float()`
stands before them.

A line of dtypes.txt: operation, then the dtypes of its result under CUDA's autocast to bf16, by PyTorch's dispatcher on
tensors without values: of operands f32 and f32, bf16 and bf16, f32 and bf16.
"""

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch._subclasses.fake_tensor import FakeTensorMode

PATH = Path(__file__).with_name("goldens.safetensors")
DTYPES = Path(__file__).with_name("dtypes.txt")

# Of two matrices a and b of 4 x 4, and an index i of 4.
OPERATIONS = {
    "matmul": lambda a, b, i: a @ b,
    "mm": lambda a, b, i: torch.mm(a, b),
    "bmm": lambda a, b, i: torch.bmm(a[None], b[None]),
    "mv": lambda a, b, i: torch.mv(a, b[0]),
    "addmm": lambda a, b, i: torch.addmm(a, a, b),
    "addmv": lambda a, b, i: torch.addmv(a[0], a, b[0]),
    "baddbmm": lambda a, b, i: torch.baddbmm(a[None], a[None], b[None]),
    "einsum": lambda a, b, i: torch.einsum("ij,jk->ik", a, b),
    "einsum_of_one": lambda a, b, i: torch.einsum("ij->j", a),
    "linear": lambda a, b, i: F.linear(a, b),
    "linear_with_bias": lambda a, b, i: F.linear(a, b, a[0]),
    "scaled_dot_product_attention": lambda a, b, i: F.scaled_dot_product_attention(
        a[None, None].to(b.dtype), b[None, None], b[None, None]
    ),
    "exp": lambda a, b, i: torch.exp(a),
    "expm1": lambda a, b, i: torch.expm1(a),
    "log": lambda a, b, i: torch.log(a),
    "log2": lambda a, b, i: torch.log2(a),
    "log10": lambda a, b, i: torch.log10(a),
    "log1p": lambda a, b, i: torch.log1p(a),
    "pow": lambda a, b, i: torch.pow(a, b),
    "pow_of_scalar": lambda a, b, i: torch.pow(2.0, a),
    "pow_by_scalar": lambda a, b, i: torch.pow(a, 2.0),
    "reciprocal": lambda a, b, i: torch.reciprocal(a),
    "rsqrt": lambda a, b, i: torch.rsqrt(a),
    "tan": lambda a, b, i: torch.tan(a),
    "sinh": lambda a, b, i: torch.sinh(a),
    "cosh": lambda a, b, i: torch.cosh(a),
    "softplus": lambda a, b, i: F.softplus(a),
    "softmax": lambda a, b, i: torch.softmax(a, -1),
    "log_softmax": lambda a, b, i: torch.log_softmax(a, -1),
    "logsumexp": lambda a, b, i: torch.logsumexp(a, 0),
    "sum": lambda a, b, i: a.sum(),
    "sum_along": lambda a, b, i: a.sum(0),
    "prod": lambda a, b, i: a.prod(),
    "cumsum": lambda a, b, i: torch.cumsum(a, 0),
    "cumprod": lambda a, b, i: torch.cumprod(a, 0),
    "norm": lambda a, b, i: a.norm(),
    "norm_along": lambda a, b, i: a.norm(2, 0),
    "normalize": lambda a, b, i: F.normalize(a),
    "layer_norm": lambda a, b, i: F.layer_norm(a, (4,), b[0], b[0]),
    "rms_norm": lambda a, b, i: F.rms_norm(a, (4,), b[0]),
    "cdist": lambda a, b, i: torch.cdist(a.to(b.dtype), b),
    "cosine_similarity": lambda a, b, i: F.cosine_similarity(a, b),
    "cross_entropy": lambda a, b, i: F.cross_entropy(a, i),
    "cross_entropy_with_weight": lambda a, b, i: F.cross_entropy(b, i, a[0]),
    "nll_loss": lambda a, b, i: F.nll_loss(a, i),
    "mse_loss": lambda a, b, i: F.mse_loss(a, b),
    "l1_loss": lambda a, b, i: F.l1_loss(a, b),
    "smooth_l1_loss": lambda a, b, i: F.smooth_l1_loss(a, b),
    "kl_div": lambda a, b, i: F.kl_div(a, b, reduction="sum"),
    "bce_with_logits": lambda a, b, i: F.binary_cross_entropy_with_logits(a, b),
    "huber_loss": lambda a, b, i: F.huber_loss(a, b),
    "poisson_nll_loss": lambda a, b, i: F.poisson_nll_loss(a, b),
    "soft_margin_loss": lambda a, b, i: F.soft_margin_loss(a, b),
    "hinge_embedding_loss": lambda a, b, i: F.hinge_embedding_loss(a, b),
    "margin_ranking_loss": lambda a, b, i: F.margin_ranking_loss(a, b, b),
    "cosine_embedding_loss": lambda a, b, i: F.cosine_embedding_loss(a, b, b[0]),
    "triplet_margin_loss": lambda a, b, i: F.triplet_margin_loss(a, b, b),
    "dot": lambda a, b, i: torch.dot(a[0], b[0]),
    "cat": lambda a, b, i: torch.cat([a, b]),
    "stack": lambda a, b, i: torch.stack([a, b]),
    "scatter_add": lambda a, b, i: a.scatter_add(0, i[None], b[:1]),
    "index_copy": lambda a, b, i: a.index_copy(0, i, b),
    "addcmul": lambda a, b, i: torch.addcmul(a, b, b),
    "addcdiv": lambda a, b, i: torch.addcdiv(a, b, b),
    "add": lambda a, b, i: a + b,
    "mul": lambda a, b, i: a * b,
    "outer": lambda a, b, i: torch.outer(a[0], b[0]),
    "relu": lambda a, b, i: torch.relu(a),
    "gelu": lambda a, b, i: F.gelu(a),
    "silu": lambda a, b, i: F.silu(a),
    "tanh": lambda a, b, i: torch.tanh(a),
    "sigmoid": lambda a, b, i: torch.sigmoid(a),
    "elu": lambda a, b, i: F.elu(a),
    "mish": lambda a, b, i: F.mish(a),
    "logsigmoid": lambda a, b, i: F.logsigmoid(a),
    "prelu": lambda a, b, i: F.prelu(a, b[0]),
    "leaky_relu": lambda a, b, i: F.leaky_relu(a),
    "hardswish": lambda a, b, i: F.hardswish(a),
    "hardtanh": lambda a, b, i: F.hardtanh(a),
    "logaddexp": lambda a, b, i: torch.logaddexp(a.to(b.dtype), b),
    "logcumsumexp": lambda a, b, i: torch.logcumsumexp(a, 0),
    "trace": lambda a, b, i: torch.trace(a),
    "mean": lambda a, b, i: a.mean(),
    "var": lambda a, b, i: a.var(),
    "std": lambda a, b, i: a.std(),
    "max": lambda a, b, i: a.max(),
    "sqrt": lambda a, b, i: torch.sqrt(a),
    "exp2": lambda a, b, i: torch.exp2(a),
    "sin": lambda a, b, i: torch.sin(a),
}


def classifier(i):
    hidden = F.relu(F.linear(i["x"], i["w1"], i["b1"]))
    normal = F.layer_norm(hidden.float(), (hidden.shape[-1],), i["g"], i["b"])
    logits = F.linear(normal, i["w2"], i["b2"])
    chances = torch.softmax(logits.float(), -1)
    loss = F.cross_entropy(logits, torch.tensor([0, 2, 1, 2, 0, 1])) + chances.pow(2).sum()
    return {"hidden": hidden, "normal": normal, "logits": logits, "chances": chances, "loss": loss}


def regression(i):
    hidden = torch.tanh(F.linear(i["x"], i["w1"], i["b1"]))
    y = F.linear(hidden, i["w2"], i["b2"]) + 0.25 * i["x"][:, :2]
    return {"hidden": hidden, "y": y, "loss": F.mse_loss(y, i["target"])}


def attention(i):
    batch, time, width = i["x"].shape
    thirds = F.linear(i["x"], i["w1"]).view(batch, time, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
    heads = F.scaled_dot_product_attention(thirds[0], thirds[1], thirds[2], is_causal=True)
    joined = heads.transpose(1, 2).reshape(batch, time, width)
    y = i["x"] + F.linear(joined, i["w2"])
    return {"heads": heads, "y": y, "loss": F.mse_loss(y, i["target"])}


def make():
    generator = torch.Generator().manual_seed(3)

    def draw(*shape, scale=1.0):
        return torch.randn(*shape, generator=generator) * scale

    cases = {
        classifier: {
            "x": draw(6, 16), "w1": draw(12, 16, scale=0.3), "b1": draw(12, scale=0.1), "g": 1 + draw(12, scale=0.1),
            "b": draw(12, scale=0.1), "w2": draw(3, 12, scale=0.3), "b2": draw(3, scale=0.1),
        },
        regression: {
            "x": draw(5, 8), "w1": draw(16, 8, scale=0.4), "b1": draw(16, scale=0.1), "w2": draw(2, 16, scale=0.3),
            "b2": draw(2, scale=0.1), "target": draw(5, 2),
        },
        attention: {
            "x": draw(2, 6, 16), "w1": draw(48, 16, scale=0.3), "w2": draw(16, 16, scale=0.3), "target": draw(2, 6, 16),
        },
    }
    out = {}
    for case, inputs in cases.items():
        leaves = {name: value.clone().requires_grad_(name != "target") for name, value in inputs.items()}
        with torch.autocast("cpu", torch.bfloat16):
            results = case(leaves)
        results["loss"].backward()
        for name, value in inputs.items():
            out[f"{case.__name__}/in/{name}"] = value
        for name, value in results.items():
            out[f"{case.__name__}/{name}"] = value
        for name, value in leaves.items():
            if value.grad is not None:
                out[f"{case.__name__}/d{name}"] = value.grad
    return {name: value.detach().contiguous() for name, value in out.items()}


def dtypes():
    names = {torch.float32: "f32", torch.bfloat16: "bf16"}
    lines = []
    with FakeTensorMode():
        torch.set_autocast_enabled("cuda", True)
        torch.set_autocast_dtype("cuda", torch.bfloat16)
        f, h = (torch.empty(4, 4, device="cuda", dtype=dtype) for dtype in (torch.float32, torch.bfloat16))
        index = torch.zeros(4, dtype=torch.long, device="cuda")
        for name, operation in OPERATIONS.items():
            results = [names[operation(a, b, index).dtype] for a, b in ((f, f), (h, h), (f, h))]
            lines.append(" ".join([name, *results]))
        torch.set_autocast_enabled("cuda", False)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    made, table = make(), dtypes()
    if "--check" in sys.argv[1:]:
        stored = load_file(PATH)
        assert stored.keys() == made.keys(), stored.keys() ^ made.keys()
        for name, value in made.items():
            torch.testing.assert_close(stored[name], value, rtol=0.02, atol=0.02, msg=name)
        assert DTYPES.read_text() == table
        print(f"{len(made)} tensors agree with {PATH.name}, {len(OPERATIONS)} lines with {DTYPES.name}")
    else:
        save_file(made, PATH)
        DTYPES.write_text(table)
        print(f"{len(made)} tensors written to {PATH.name}, {len(OPERATIONS)} lines to {DTYPES.name}")
