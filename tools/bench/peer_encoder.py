#!/usr/bin/env python3
"""The PyTorch encoder classifier that ours is compared with, and its training speed as a JSON object.

The model is built from nn.TransformerEncoderLayer, eager, with the fused AdamW and PyTorch's fused attention where it
takes the call. Parameter names are those of models/encoder_classifier.h.

    python3 tools/bench/peer_encoder.py --steps 6 --skip 2 --dtype bf16
"""

import argparse
import contextlib
import dataclasses
import json
import math
import resource
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclasses.dataclass
class Configuration:
    """Names and values of models::EncoderClassifierOptions; by default those of the IMDB classifier's training."""

    vocabulary: int = 50265
    embed_dim: int = 256
    hidden_dim: int = 1024
    max_len: int = 1024
    num_heads: int = 8
    num_layers: int = 6
    dropout: float = 0.2
    classes: int = 2


class PositionalEncoding(nn.Module):
    def __init__(self, width, dropout, max_len):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        position = torch.arange(max_len, dtype=torch.float64).unsqueeze(1)
        frequency = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10000.0) / width))
        table = torch.zeros(1, max_len, width)
        table[0, :, 0::2] = torch.sin(position * frequency)
        table[0, :, 1::2] = torch.cos(position * frequency)
        self.register_buffer("pe", table)

    def forward(self, x):
        return self.dropout(x + self.pe[:, : x.size(1)])


class EncoderClassifier(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embedding = nn.Embedding(c.vocabulary, c.embed_dim)
        self.pos_encoder = PositionalEncoding(c.embed_dim, c.dropout, c.max_len)
        layer = nn.TransformerEncoderLayer(c.embed_dim, c.num_heads, c.hidden_dim, c.dropout, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, c.num_layers, enable_nested_tensor=False)
        self.classifier = nn.Sequential(
            nn.Linear(c.embed_dim, c.hidden_dim), nn.ReLU(), nn.Dropout(c.dropout), nn.Linear(c.hidden_dim, c.classes)
        )

    def forward(self, ids, padding=None):
        x = self.encoder(self.pos_encoder(self.embedding(ids)), src_key_padding_mask=padding)
        return self.classifier(x.mean(dim=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--skip", type=int, default=2, help="first steps that are not measured")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--length", type=int, default=512, help="tokens of a text")
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model = EncoderClassifier(Configuration(dropout=options.dropout))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, fused=True)
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(0, 50265, (options.batch_size, options.length), generator=generator)
    labels = torch.randint(0, 2, (options.batch_size,), generator=generator)
    autocast = (
        (lambda: torch.autocast("cpu", torch.bfloat16)) if options.dtype == "bf16" else contextlib.nullcontext
    )
    seconds = []
    for _ in range(options.steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        with autocast():
            loss = F.cross_entropy(model(ids), labels)
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    measured = sorted(seconds[options.skip :])
    print(
        json.dumps(
            {
                "tokens_per_second": options.batch_size * options.length / measured[len(measured) // 2],
                "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                "loss": loss.item(),
                "parameters": sum(parameter.numel() for parameter in model.parameters()),
            }
        )
    )


if __name__ == "__main__":
    main()
