#!/usr/bin/env python3
"""Compares the losses of a training run of ours with PyTorch's, from the same weights and the same batches.

    parity_pytorch.py --gptlite build/release/bin/gptlite             # runs ours, then PyTorch, then compares
    parity_pytorch.py --export DIR --metrics FILE.jsonl               # compares an earlier run

Ours writes, through `gptlite train --parity-export DIR --metrics FILE.jsonl`:
    DIR/model.safetensors     the weights before the first step, under the model's names
    DIR/batches.safetensors   `x` and `y`, i64 (steps, B, T): the batches in order
    FILE.jsonl                a line per step with its `loss` (and, where there are, `lr` and `grad_norm`)

Exit status 0 when every loss agrees to `--tolerance`, relative; 1 when one does not. The largest difference is printed
in both cases. PyTorch runs in f32 with its own fused kernels: the two runs share weights, batches and preset, nothing
else. With --f64, PyTorch repeats the run in f64, which gives the distance of both from the exact losses.
"""

import argparse
import contextlib
import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file

import peer_gpt

# From our names to those of peer_gpt.Gpt, applied in order; a name that no pattern matches is the same on both sides.
NAMES = [
    (r"^blocks\.", "h."),
    (r"\.mlp\.fc\.", ".mlp.c_fc."),
    (r"\.mlp\.proj\.", ".mlp.c_proj."),
    (r"^head\.", "lm_head."),
]


def peer_name(name):
    for pattern, replacement in NAMES:
        name = re.sub(pattern, replacement, name)
    return name


def load_weights(model, path):
    """Fills the model; exits unless both sides have the same parameters of the same shapes."""
    ours = {peer_name(name): value for name, value in load_file(path).items()}
    if model.p.tie_weights:
        ours.setdefault("lm_head.weight", ours.get("wte.weight"))
        ours.setdefault("wte.weight", ours.get("lm_head.weight"))
    theirs = dict(model.state_dict())
    for name in sorted(set(ours) ^ set(theirs)):
        raise SystemExit(f"{path}: parameter {name} is only on {'our' if name in ours else 'the peer'} side")
    for name, value in theirs.items():
        if ours[name].shape != value.shape:
            raise SystemExit(f"{path}: {name} is {tuple(ours[name].shape)}, the peer's is {tuple(value.shape)}")
    model.load_state_dict(ours)


def read_steps(path, steps):
    """The metrics lines of the first `steps` steps."""
    lines = [json.loads(line) for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines() if line.strip()]
    found = [line for line in lines if line.get("loss") is not None and "event" not in line]
    if len(found) < steps:
        raise SystemExit(f"{path}: {len(found)} steps with a loss, expected {steps}: one line for every step")
    return found[:steps]


def run_ours(options, folder):
    """Trains ours; returns the export folder and the metrics file."""
    export, metrics = folder / "export", folder / "metrics.jsonl"
    command = [
        options.gptlite,
        "train",
        "--preset",
        options.preset,
        "--steps",
        str(options.steps),
        "--seed",
        str(options.seed),
        "--warmup-steps",
        str(options.warmup_steps),
        "--eval-interval",
        "0",
        "--quiet",
        "--out",
        str(folder / "out"),
        "--metrics",
        str(metrics),
        "--parity-export",
        str(export),
    ]
    subprocess.run(command, check=True)
    return export, metrics


def run_peer(preset, export, dtype):
    """Losses, learning rates and gradient norms (before clipping) of PyTorch's run over the exported batches."""
    model = peer_gpt.Gpt(preset)
    load_weights(model, export / "model.safetensors")
    model.to(dtype)
    optimizer = peer_gpt.make_optimizer(model, preset)
    batches = load_file(export / "batches.safetensors")
    steps = []
    for step in range(preset.steps):
        rate = peer_gpt.learning_rate(step, preset)
        x, y = batches["x"][step], batches["y"][step]
        loss, norm = peer_gpt.train_step(model, optimizer, x, y, rate, preset, contextlib.nullcontext)
        steps.append({"loss": loss.item(), "lr": rate, "grad_norm": float(norm)})
    return steps


def largest_difference(ours, theirs, key):
    """The largest relative difference, and the step (from 0) where it is; None where ours has no such value."""
    pairs = [(a.get(key), b[key]) for a, b in zip(ours, theirs)]
    if any(a is None for a, _ in pairs):
        return None
    errors = [abs(a - b) / abs(b) for a, b in pairs]
    step = max(range(len(errors)), key=errors.__getitem__)
    return {"largest": errors[step], "step": step, "ours": pairs[step][0], "pytorch": pairs[step][1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--gptlite", help="our program: trains and exports first")
    source.add_argument("--export", type=pathlib.Path, help="folder of an earlier run's --parity-export")
    parser.add_argument("--metrics", type=pathlib.Path, help="the metrics of that run, with --export")
    parser.add_argument("--preset", choices=sorted(peer_gpt.PRESETS), default="nano-cpu")
    parser.add_argument("--steps", type=int, default=100, help="(default: %(default)s)")
    parser.add_argument(
        "--warmup-steps", type=int, default=20, help="of the learning rate, within those steps (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of ours (default: %(default)s)")
    parser.add_argument("--tolerance", type=float, default=1e-4, help="relative, of every loss (default: %(default)s)")
    parser.add_argument("--f64", action="store_true", help="also compare both with PyTorch in f64")
    options = parser.parse_args()
    if options.export and not options.metrics:
        parser.error("--export needs --metrics")

    torch.set_num_threads(1)  # enough for a hundred steps, and independent of other programs
    preset = dataclasses.replace(
        peer_gpt.PRESETS[options.preset], steps=options.steps, warmup_steps=options.warmup_steps, dropout=0.0
    )  # masks are each framework's own
    with tempfile.TemporaryDirectory() as folder:
        export, metrics = options.export, options.metrics
        if options.gptlite:
            export, metrics = run_ours(options, pathlib.Path(folder))
        ours = read_steps(metrics, options.steps)
        peer = run_peer(preset, export, torch.float32)
        exact = run_peer(preset, export, torch.float64) if options.f64 else None
    result = {
        "program": "parity_pytorch",
        "preset": options.preset,
        "steps": options.steps,
        "tolerance": options.tolerance,
        "first_loss": {"ours": ours[0]["loss"], "pytorch": peer[0]["loss"]},
        "last_loss": {"ours": ours[-1]["loss"], "pytorch": peer[-1]["loss"]},
    }
    for key in ("loss", "lr", "grad_norm"):
        result[key] = largest_difference(ours, peer, key)
    if exact:
        result["ours_to_f64"] = largest_difference(ours, exact, "loss")
        result["pytorch_to_f64"] = largest_difference(peer, exact, "loss")
    print(json.dumps(result, indent=2))
    agrees = result["loss"]["largest"] <= options.tolerance
    print(
        f"largest relative difference of a loss: {result['loss']['largest']:.3g} at step {result['loss']['step']}"
        f" ({'within' if agrees else 'OUTSIDE'} {options.tolerance:g})"
    )
    sys.exit(0 if agrees else 1)


if __name__ == "__main__":
    main()
