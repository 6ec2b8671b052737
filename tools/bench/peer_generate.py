#!/usr/bin/env python3
"""Generates text in PyTorch with a key-value cache and prints its speed: the counterpart of bench_generate.cpp.

    echo | peer_generate.py --preset gpt2 --dtype bf16 --batch 8

The plain loop that a PyTorch user writes: the model of peer_gpt.py, a cache that is allocated once, one new position
at a time. A turn decodes `--tokens` ids of every row after a prompt that was computed before the clock starts; each
line on the standard input is a turn.
"""

import argparse
import json
import sys
import time

import torch
import torch.nn.functional as F

from peer_gpt import PRESETS, Gpt


def decode(model, ids, cache, position):
    """ids (B, T) at `position` and on -> logits (B, V) of the last one; keys and values are written to the cache."""
    B, T = ids.shape
    heads, width, end = model.p.n_head, model.p.n_embd, position + T
    x = model.wte(ids) + model.wpe.weight[position:end]
    for block, (keys, values) in zip(model.h, cache):
        q, k, v = (
            third.view(B, T, heads, width // heads).transpose(1, 2)
            for third in block.attn.c_attn(block.ln_1(x)).split(width, dim=2)
        )
        keys[:, :, position:end], values[:, :, position:end] = k, v
        y = F.scaled_dot_product_attention(q, keys[:, :, :end], values[:, :, :end], is_causal=T > 1)
        x = x + block.attn.c_proj(y.transpose(1, 2).reshape(B, T, width))
        x = x + block.mlp(block.ln_2(x))
    return model.lm_head(model.ln_f(x[:, -1]))


def sample(logits, temperature):
    if temperature == 0:
        return logits.argmax(-1, keepdim=True)
    return torch.multinomial(torch.softmax(logits.float() / temperature, -1), 1)


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=list(PRESETS), default="width-768", help="(default: %(default)s)")
    parser.add_argument("--vocabulary", type=int, help="by default 50257 for gpt2, else 65")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32", help="(default: %(default)s)")
    parser.add_argument("--batch", type=int, default=1, help="rows (default: %(default)s)")
    parser.add_argument("--prompt", type=int, default=32, help="ids of each row's prompt (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=16, help="ids of a turn (default: %(default)s)")
    parser.add_argument("--temperature", type=float, default=0.8, help="(default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="(default: %(default)s)")
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    p = PRESETS[options.preset]
    p.vocab_size = options.vocabulary or (50257 if options.preset == "gpt2" else 65)
    dtype = torch.bfloat16 if options.dtype == "bf16" else torch.float32
    model = Gpt(p).to(dtype).eval()
    shape = (options.batch, p.n_head, p.block_size, p.n_embd // p.n_head)
    cache = [(torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=dtype)) for _ in range(p.n_layer)]
    prompt = torch.randint(p.vocab_size, (options.batch, options.prompt))

    for _ in range(2):  # the first time allocates
        began = time.perf_counter()
        first = sample(decode(model, prompt, cache, 0), options.temperature)
        prompt_seconds = time.perf_counter() - began

    def turn():
        ids = first
        began = time.perf_counter()
        for i in range(options.tokens):
            ids = sample(decode(model, ids, cache, options.prompt + i), options.temperature)
        seconds = time.perf_counter() - began
        return {
            "program": "peer_generate",
            "tokens_per_second": options.batch * options.tokens / seconds,
            "step_ms": 1e3 * seconds / options.tokens,
            "prompt_tokens_per_second": options.batch * options.prompt / prompt_seconds,
        }

    turn()
    for _ in sys.stdin:
        print(json.dumps(turn()), flush=True)


if __name__ == "__main__":
    main()
