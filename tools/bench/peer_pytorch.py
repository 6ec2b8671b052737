#!/usr/bin/env python3
"""Trains the PyTorch peer of a preset and prints, as one JSON object, its speed, memory and validation loss.

    peer_pytorch.py --preset nano-cpu --seed 1                 # the whole run and both validation losses
    peer_pytorch.py --preset nano --steps 20 --no-eval         # speed alone
    peer_pytorch.py --preset nano --dtype bf16 --steps 20 --no-eval

Settings are the fastest found for eager PyTorch on CPUs: both threads, scaled_dot_product_attention, fused AdamW,
denormals flushed. Rates are those of whole steps (batch, forward, backward, clipping, optimizer) after `--skip`
steps, by wall clock; validation is outside the clock. Peak RSS is that of the training steps.
"""

import argparse
import contextlib
import dataclasses
import json
import resource
import statistics
import sys
import time

import torch

import peer_gpt


def peak_rss_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=sorted(peer_gpt.PRESETS), default="nano-cpu")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--steps", type=int, help="steps to run (default: the preset's); the schedule keeps the preset's length"
    )
    parser.add_argument("--batch-size", type=int, help="sequences a step (default: the preset's)")
    parser.add_argument("--block-size", type=int, help="tokens a sequence (default: the preset's)")
    parser.add_argument("--dropout", type=float, help="(default: the preset's)")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32", help="bf16: autocast (default: fp32)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="(default: %(default)s)")
    parser.add_argument("--compile", action="store_true", help="train through torch.compile")
    parser.add_argument("--skip", type=int, default=5, help="steps before the clock starts (default: %(default)s)")
    parser.add_argument("--turns", action="store_true", help="step while a runner lets it (turns.py); no validation")
    parser.add_argument("--no-eval", action="store_true", help="no validation at the end")
    parser.add_argument(
        "--data", help="tiny Shakespeare's input.txt (default: $TESSERA_DATA/tiny-shakespeare/input.txt)"
    )
    parser.add_argument("--json", help="also write the result to this file")
    return parser.parse_args()


def main():
    options = arguments()
    preset = dataclasses.replace(peer_gpt.PRESETS[options.preset])
    for name in ("batch_size", "block_size", "dropout"):
        if getattr(options, name) is not None:
            setattr(preset, name, getattr(options, name))
    steps = options.steps or preset.steps

    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(options.seed)
    train, validation = peer_gpt.load_tiny_shakespeare(options.data)
    generator = torch.Generator().manual_seed(options.seed)
    model = peer_gpt.Gpt(preset)
    optimizer = peer_gpt.make_optimizer(model, preset)
    run = torch.compile(model) if options.compile else model
    autocast = contextlib.nullcontext
    if options.dtype == "bf16":

        def autocast():
            return torch.autocast("cpu", dtype=torch.bfloat16)

    seconds, loss = [], None

    def one_step():
        nonlocal loss
        started = time.perf_counter()
        x, y = peer_gpt.random_batch(train, preset, generator)
        rate = peer_gpt.learning_rate(len(seconds), preset)
        loss, _ = peer_gpt.train_step(run, optimizer, x, y, rate, preset, autocast)
        seconds.append(time.perf_counter() - started)

    tokens = preset.batch_size * preset.block_size
    if options.turns:
        for line in sys.stdin:
            first = len(seconds)
            while sum(seconds[first:]) < float(line) or len(seconds) == first:
                one_step()
            took = sum(seconds[first:])
            turn = {"steps": len(seconds) - first, "seconds": took, "loss": loss.item()}
            print(json.dumps(turn | {"tokens_per_second": turn["steps"] * tokens / took}), flush=True)
    else:
        for _ in range(steps):
            one_step()
    timed = seconds[options.skip :] or seconds
    tokens_per_second = tokens * len(timed) / sum(timed)

    result = {
        "program": "peer_pytorch",
        "torch": torch.__version__,
        "preset": options.preset,
        "dtype": options.dtype,
        "threads": options.threads,
        "seed": options.seed,
        "steps": len(seconds),
        "timed_steps": len(timed),
        "batch_size": preset.batch_size,
        "block_size": preset.block_size,
        "parameters": peer_gpt.parameter_count(model),
        "tokens_per_second": tokens_per_second,
        "median_step_ms": statistics.median(timed) * 1e3,
        "gflops": tokens_per_second * peer_gpt.flops_per_token(model, preset) / 1e9,
        "peak_rss_bytes": peak_rss_bytes(),
        "training_seconds": sum(seconds),
        "loss": loss.item(),
    }
    if not options.no_eval and not options.turns:
        result["val_loss"] = peer_gpt.whole_validation_loss(model, validation, preset)
        result["val_loss_sampled"] = peer_gpt.sampled_validation_loss(model, validation, preset, generator)
    line = json.dumps(result)
    print(line)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            file.write(line + "\n")


if __name__ == "__main__":
    main()
