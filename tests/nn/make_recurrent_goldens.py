#!/usr/bin/env python3
"""Writes goldens/recurrent.safetensors: PyTorch's recurrent layers and cells, in f64.

The file is committed; run this again only after changing it, where `torch` and `safetensors` are installed:

    python3 tests/nn/make_recurrent_goldens.py

For each variant:

    <variant>/param/<name>, grad/<name>  parameters, and their gradients
    <variant>/x, h0, c0                  inputs; states are absent where a variant starts with zeros
    <variant>/lengths                    of the sequences, where they are packed
    <variant>/y, h_n, c_n                results (y padded again where it was packed)
    <variant>/dy, dh_n, dc_n             the gradients of the results
    <variant>/dx, dh0, dc0               those of the inputs

Metadata `<variant>`: the module's options, as JSON.
"""

import json
import pathlib

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

HERE = pathlib.Path(__file__).resolve().parent
T, B, INPUT, HIDDEN = 4, 3, 2, 3
generator = torch.Generator().manual_seed(17)
tensors, metadata = {}, {}


def normal(*shape):
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def leaf(*shape):
    return normal(*shape).requires_grad_()


def fill(module):
    module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.5 * normal(*parameter.shape))


def store(variant, **values):
    for name, value in values.items():
        if value is not None:
            tensors[f"{variant}/{name}"] = value.detach().clone().contiguous()


def differentiate(variant, module, inputs, outputs):
    """Stores parameters, inputs and outputs by name, and all gradients."""
    outputs = {name: value for name, value in outputs.items() if value is not None}
    inputs = {name: value for name, value in inputs.items() if value is not None}
    grad_outputs = {name: normal(*value.shape) for name, value in outputs.items()}
    sources = {**inputs, **{f"param/{name}": p for name, p in module.named_parameters()}}
    gradients = torch.autograd.grad(list(outputs.values()), list(sources.values()), list(grad_outputs.values()))
    store(variant, **sources, **outputs, **{f"d{name}": value for name, value in grad_outputs.items()})
    for name, gradient in zip(sources, gradients):
        store(variant, **{f"grad/{name[6:]}" if name.startswith("param/") else f"d{name}": gradient})


def layer(variant, kind, state=False, lengths=None, one=False, **options):
    cls = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}[kind]
    module = cls(INPUT, HIDDEN, **options)
    fill(module)
    batch_first = options.get("batch_first", False)
    x = leaf(T, INPUT) if one else leaf(B, T, INPUT) if batch_first else leaf(T, B, INPUT)
    states = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    width = options.get("proj_size", 0) or HIDDEN
    batch = () if one else (B,)
    h0 = leaf(states, *batch, width) if state else None
    c0 = leaf(states, *batch, HIDDEN) if state and kind == "lstm" else None
    given = x
    if lengths:
        store(variant, lengths=torch.tensor(lengths))
        given = pack_padded_sequence(x, torch.tensor(lengths), batch_first, enforce_sorted=False)
    hx = None if not state else (h0, c0) if kind == "lstm" else h0
    y, last = module(given, hx)
    if lengths:
        y, _ = pad_packed_sequence(y, batch_first)
    h_n, c_n = last if kind == "lstm" else (last, None)
    metadata[variant] = json.dumps(dict(kind=kind, **options))
    differentiate(variant, module, dict(x=x, h0=h0, c0=c0), dict(y=y, h_n=h_n, c_n=c_n))


def cell(variant, kind, **options):
    module = {"lstm_cell": nn.LSTMCell, "gru_cell": nn.GRUCell, "rnn_cell": nn.RNNCell}[kind](INPUT, HIDDEN, **options)
    fill(module)
    x, h0 = leaf(B, INPUT), leaf(B, HIDDEN)
    c0 = leaf(B, HIDDEN) if kind == "lstm_cell" else None
    result = module(x, (h0, c0) if c0 is not None else h0)
    h_n, c_n = result if c0 is not None else (result, None)
    metadata[variant] = json.dumps(dict(kind=kind, **options))
    differentiate(variant, module, dict(x=x, h0=h0, c0=c0), dict(h_n=h_n, c_n=c_n))


both = dict(num_layers=2, bidirectional=True)
layer("lstm", "lstm")
layer("lstm_state", "lstm", state=True)
layer("lstm_two_layers", "lstm", state=True, num_layers=2)
layer("lstm_both_directions", "lstm", state=True, **both)
layer("lstm_no_bias_batch_first", "lstm", state=True, bias=False, batch_first=True)
layer("lstm_projected", "lstm", state=True, proj_size=2)
layer("lstm_projected_both", "lstm", state=True, proj_size=2, **both)
layer("lstm_one_sequence", "lstm", state=True, one=True, num_layers=2)
layer("lstm_packed", "lstm", lengths=[4, 2, 1], **both)
layer("lstm_packed_unsorted", "lstm", state=True, lengths=[1, 4, 3], batch_first=True, **both)
layer("lstm_packed_projected", "lstm", state=True, lengths=[2, 4, 2], proj_size=2, **both)
layer("gru", "gru")
layer("gru_both_directions", "gru", state=True, **both)
layer("gru_no_bias_batch_first", "gru", state=True, bias=False, batch_first=True)
layer("gru_one_sequence", "gru", one=True)
layer("gru_packed_unsorted", "gru", state=True, lengths=[3, 1, 4], **both)
layer("rnn_tanh", "rnn", state=True)
layer("rnn_tanh_both_directions", "rnn", state=True, **both)
layer("rnn_relu", "rnn", state=True, nonlinearity="relu", num_layers=2)
layer("rnn_relu_no_bias_batch_first", "rnn", nonlinearity="relu", bias=False, batch_first=True)
layer("rnn_tanh_packed_unsorted", "rnn", state=True, lengths=[2, 4, 1], **both)
cell("lstm_cell", "lstm_cell")
cell("lstm_cell_no_bias", "lstm_cell", bias=False)
cell("gru_cell", "gru_cell")
cell("rnn_cell_tanh", "rnn_cell")
cell("rnn_cell_relu", "rnn_cell", nonlinearity="relu", bias=False)

path = HERE / "goldens" / "recurrent.safetensors"
save_file(tensors, path, metadata=metadata)
print(f"{path.name}: {len(metadata)} variants, {path.stat().st_size:,} bytes")
