#!/usr/bin/env python3
"""Makes tests/nn/goldens/transformer.safetensors: attention and transformer layers of PyTorch, in f64.

The file is committed; run this again only after changing it, where `torch` and `safetensors` are installed:

    python3 tests/nn/layers/make_transformer_goldens.py

For each case:

    <case>/param/<name>   the parameters, by PyTorch's names; random, so that every path contributes
    <case>/in/<name>      the arguments, masks included
    <case>/out            the output, and <case>/weights where weights were asked for
    <case>/dout           the gradient of the output
    <case>/grad/<name>    the gradients of floating inputs that are not masks, and of the parameters
"""

import pathlib

import torch
from safetensors.torch import save_file
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
generator = torch.Generator().manual_seed(17)
tensors = {}


def normal(*shape):
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def record(name, module, inputs, masks=None, weights=False, **arguments):
    """The module's result and gradients. `inputs` and `masks` are named tensors, passed by position and by name."""
    masks = masks or {}
    module = module.double()
    with torch.no_grad():
        for key, parameter in module.named_parameters():
            parameter.copy_(0.4 * normal(*parameter.shape) + (1.0 if "norm" in key and "weight" in key else 0.0))
            tensors[f"{name}/param/{key}"] = parameter.detach().clone()
    leaves = [value.clone().requires_grad_() for value in inputs.values()]
    for key, value in {**inputs, **masks}.items():
        tensors[f"{name}/in/{key}"] = value.clone()
    out = module(*leaves, **masks, **arguments)
    if isinstance(out, tuple):
        if weights:
            tensors[f"{name}/weights"] = out[1].detach().clone()
        out = out[0]
    dout = normal(*out.shape)
    out.backward(dout)
    tensors[f"{name}/out"], tensors[f"{name}/dout"] = out.detach().clone(), dout
    for key, leaf in zip(inputs, leaves):
        tensors[f"{name}/grad/{key}"] = leaf.grad.clone()
    for key, parameter in module.named_parameters():
        tensors[f"{name}/grad/{key}"] = parameter.grad.clone()


class SelfAttention(nn.Module):
    """Attention of x to itself, with the names of nn.MultiheadAttention."""

    def __init__(self, *args, **options):
        super().__init__()
        self.attention = nn.MultiheadAttention(*args, **options)

    def named_parameters(self, *args, **options):
        return self.attention.named_parameters()

    def forward(self, x, **arguments):
        return self.attention(x, x, x, **arguments)


def causal(size):
    return torch.ones(size, size).triu(1).bool()


def additive(mask):
    return torch.zeros(mask.shape, dtype=torch.float64).masked_fill(mask, float("-inf"))


padding = torch.tensor([[False, False, False, False, True], [False, False, False, True, True]])
x = normal(2, 5, 8)
record("mha_self", SelfAttention(8, 2, batch_first=True), {"x": x}, weights=True, need_weights=True)
record(
    "mha_padding",
    SelfAttention(8, 2, batch_first=True, bias=False),
    {"x": x},
    {"key_padding_mask": padding},
    need_weights=False,
)
record(
    "mha_masks",
    SelfAttention(8, 2),
    {"x": x.transpose(0, 1).contiguous()},
    {"key_padding_mask": padding, "attn_mask": causal(5)},
    weights=True,
)
record(
    "mha_float_masks",
    SelfAttention(8, 4),
    {"x": x.transpose(0, 1).contiguous()},
    {"key_padding_mask": additive(padding), "attn_mask": normal(8, 5, 5)},
    weights=True,
    average_attn_weights=False,
)
cross = {"query": normal(2, 3, 8), "key": normal(2, 5, 6), "value": normal(2, 5, 4)}
record(
    "mha_cross",
    nn.MultiheadAttention(8, 2, kdim=6, vdim=4, batch_first=True),
    cross,
    {"key_padding_mask": padding},
    weights=True,
)
shared = {"query": normal(3, 2, 8), "key": normal(5, 2, 8), "value": normal(5, 2, 8)}
record("mha_packed_cross", nn.MultiheadAttention(8, 2), shared, {"attn_mask": normal(3, 5)}, need_weights=False)
record(
    "mha_extra",
    SelfAttention(8, 2, batch_first=True, add_bias_kv=True, add_zero_attn=True),
    {"x": x},
    {"key_padding_mask": padding, "attn_mask": causal(5)},
    weights=True,
)
record("mha_one", SelfAttention(8, 2), {"x": normal(4, 8)}, weights=True)

sizes = dict(d_model=8, nhead=2, dim_feedforward=12, dropout=0.0)
record("encoder_layer_post", nn.TransformerEncoderLayer(**sizes), {"src": normal(5, 2, 8)})
record(
    "encoder_layer_pre",
    nn.TransformerEncoderLayer(**sizes, activation="gelu", norm_first=True, batch_first=True, layer_norm_eps=1e-3),
    {"src": x},
    {"src_mask": causal(5), "src_key_padding_mask": padding},
)
record("encoder_layer_no_bias", nn.TransformerEncoderLayer(**sizes, bias=False), {"src": normal(5, 2, 8)})
record(
    "encoder",
    nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**sizes, batch_first=True), 2, norm=nn.LayerNorm(8), enable_nested_tensor=False
    ),
    {"src": x},
    {"src_key_padding_mask": padding},
)
targets = {"tgt": normal(2, 4, 8), "memory": normal(2, 5, 8)}
decoder_masks = {
    "tgt_mask": causal(4),
    "tgt_key_padding_mask": torch.tensor([[False, False, False, True], [False, False, False, False]]),
    "memory_key_padding_mask": padding,
}
record("decoder_layer_post", nn.TransformerDecoderLayer(**sizes, batch_first=True), targets, decoder_masks)
record(
    "decoder_layer_pre",
    nn.TransformerDecoderLayer(**sizes, norm_first=True, activation="gelu"),
    {"tgt": normal(4, 2, 8), "memory": normal(5, 2, 8)},
    {"memory_mask": normal(4, 5)},
)
record(
    "transformer",
    nn.Transformer(num_encoder_layers=2, num_decoder_layers=2, **sizes, batch_first=True),
    {"src": normal(2, 5, 8), "tgt": normal(2, 4, 8)},
    {"tgt_mask": causal(4), "src_key_padding_mask": padding, "memory_key_padding_mask": padding},
)

path = HERE.parent / "goldens" / "transformer.safetensors"
save_file({name: value.contiguous() for name, value in tensors.items()}, path)
print(f"{path.name}: {len(tensors)} tensors, {path.stat().st_size:,} bytes")
