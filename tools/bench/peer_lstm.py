#!/usr/bin/env python3
"""Trains steps of the LSTM language model in PyTorch, and prints speed and memory as one JSON object: the counterpart of
bench_lstm.cpp, with the same model, tokens and optimizer.

    peer_lstm.py --dtype bf16 --steps 10
"""

import argparse
import contextlib
import json
import resource
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class LstmLm(nn.Module):
    """Embedding, LSTM, linear layer: ids (B, T) to logits (B, T, V)."""

    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, vocabulary)
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(self, ids):
        x = self.embedding(ids)
        try:
            y = self.lstm(x)[0]
        except RuntimeError:  # oneDNN has no LSTM of bf16 for processors without AVX-512
            with torch.backends.mkldnn.flags(enabled=False):
                y = self.lstm(x)[0]
        return self.head(y)


def tokens(options, first):
    i = torch.arange(options.batch_size * options.block_size)
    ids = (first + i * 7919) * 104729 % 1000003 % options.vocabulary
    return ids.view(options.batch_size, options.block_size)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabulary", type=int, default=10000)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--block-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--skip", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model = LstmLm(options.vocabulary, options.width, options.layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)

    def autocast():
        return torch.autocast("cpu", torch.bfloat16) if options.dtype == "bf16" else contextlib.nullcontext()

    seconds, loss = [], None
    for step in range(options.steps):
        began = time.perf_counter()
        x, y = tokens(options, step), tokens(options, step + 1)
        with autocast():
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step >= options.skip:
            seconds.append(time.perf_counter() - began)
    mean = sum(seconds) / len(seconds)
    result = {
        "program": "peer_lstm",
        "dtype": options.dtype,
        "threads": torch.get_num_threads(),
        "parameters": sum(p.numel() for p in model.parameters()),
        "loss": loss.item(),
        "tokens_per_second": options.batch_size * options.block_size / mean,
        "mean_step_ms": 1e3 * mean,
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
