"""Learning-rate schedules of DeepSpeed 0.19 (the committed file: 0.19.8, whose schedules run without a GPU).

deepspeed_schedules.safetensors
    `<case>` (steps, 2): the rates of two groups, made with the rates 0.1 and 0.02; row s has those with which the
    optimizer makes step s of the run: a scheduler's step follows each. With last_batch_iteration = k above -1
    DeepSpeed leaves the rates at first, so row 0 follows the first step of the scheduler.
    `<case>/betas` (steps, 2): the betas of both groups, where the schedule sets them.
    Metadata `<case>`: {"schedule": ..., its options}.
"""

import json
import logging

import torch

STEPS = 48

CASES = {
    "warmup_log": ("WarmupLR", dict(warmup_min_lr=0.001, warmup_max_lr=0.05, warmup_num_steps=10)),
    "warmup_linear": (
        "WarmupLR",
        dict(warmup_min_lr=0.001, warmup_max_lr=0.05, warmup_num_steps=10, warmup_type="linear"),
    ),
    "warmup_to_group_rates": ("WarmupLR", dict(warmup_min_lr=0.01, warmup_num_steps=7)),
    "warmup_defaults": ("WarmupLR", dict(warmup_max_lr=0.3)),
    "warmup_one_step": ("WarmupLR", dict(warmup_max_lr=0.3, warmup_num_steps=1)),
    "warmup_resumed": ("WarmupLR", dict(warmup_max_lr=0.3, warmup_num_steps=20, last_batch_iteration=4)),
    "warmup_resumed_at_0": (
        "WarmupLR",
        dict(warmup_max_lr=0.3, warmup_num_steps=20, warmup_type="linear", last_batch_iteration=0),
    ),
    "warmup_decay_log": (
        "WarmupDecayLR",
        dict(total_num_steps=40, warmup_min_lr=0.002, warmup_max_lr=0.06, warmup_num_steps=11),
    ),
    "warmup_decay_linear": (
        "WarmupDecayLR",
        dict(total_num_steps=37, warmup_max_lr=0.06, warmup_num_steps=5, warmup_type="linear"),
    ),
    "warmup_decay_short": ("WarmupDecayLR", dict(total_num_steps=8, warmup_num_steps=12)),
    "warmup_decay_resumed": (
        "WarmupDecayLR",
        dict(total_num_steps=40, warmup_min_lr=0.002, warmup_max_lr=0.06, warmup_num_steps=11, last_batch_iteration=9),
    ),
    "warmup_cosine_log": ("WarmupCosineLR", dict(total_num_steps=40, warmup_num_steps=9)),
    "warmup_cosine_linear": (
        "WarmupCosineLR",
        dict(
            total_num_steps=33,
            warmup_min_ratio=0.2,
            warmup_num_steps=6,
            cos_min_ratio=0.05,
            warmup_type="linear",
        ),
    ),
    "warmup_cosine_short": ("WarmupCosineLR", dict(total_num_steps=5, warmup_num_steps=8, cos_min_ratio=0.1)),
    "warmup_cosine_resumed": (
        "WarmupCosineLR",
        dict(total_num_steps=40, warmup_min_ratio=0.1, warmup_num_steps=9, last_batch_iteration=20),
    ),
    "one_cycle": (
        "OneCycle",
        dict(cycle_min_lr=0.001, cycle_max_lr=0.05, cycle_first_step_size=10, cycle_momentum=False),
    ),
    "one_cycle_momentum": (
        "OneCycle",
        dict(
            cycle_min_lr=0.001,
            cycle_max_lr=0.05,
            cycle_first_step_size=7,
            cycle_second_step_size=12,
            decay_lr_rate=0.3,
            decay_step_size=4,
            cycle_min_mom=0.75,
            cycle_max_mom=0.95,
            decay_mom_rate=0.005,
        ),
    ),
    "one_cycle_momentum_defaults": ("OneCycle", dict(cycle_min_lr=0.001, cycle_max_lr=0.05, cycle_first_step_size=9)),
    "one_cycle_stairs": (
        "OneCycle",
        dict(
            cycle_min_lr=0.001,
            cycle_max_lr=0.05,
            cycle_first_step_size=12,
            cycle_second_step_size=17,
            cycle_first_stair_count=4,
            decay_lr_rate=0.1,
            decay_step_size=3,
        ),
    ),
    "one_cycle_second_stairs": (
        "OneCycle",
        dict(
            cycle_min_lr=0.001,
            cycle_max_lr=0.05,
            cycle_first_step_size=11,
            cycle_first_stair_count=0,
            cycle_second_stair_count=3,
            cycle_momentum=False,
        ),
    ),
    "one_cycle_no_fall": (
        "OneCycle",
        dict(
            cycle_min_lr=0.001,
            cycle_max_lr=0.05,
            cycle_first_step_size=11,
            cycle_second_step_size=0,
            cycle_momentum=False,
        ),
    ),
    "one_cycle_resumed": (
        "OneCycle",
        dict(
            cycle_min_lr=0.001,
            cycle_max_lr=0.05,
            cycle_first_step_size=10,
            decay_lr_rate=0.3,
            decay_step_size=4,
            last_batch_iteration=13,
        ),
    ),
    "lr_range_test": (
        "LRRangeTest",
        dict(lr_range_test_min_lr=0.002, lr_range_test_step_size=5, lr_range_test_step_rate=0.7),
    ),
    "lr_range_test_staircase": (
        "LRRangeTest",
        dict(
            lr_range_test_min_lr=0.002,
            lr_range_test_step_size=7,
            lr_range_test_step_rate=3.0,
            lr_range_test_staircase=True,
        ),
    ),
    "lr_range_test_defaults": ("LRRangeTest", dict()),
    "lr_range_test_resumed": (
        "LRRangeTest",
        dict(lr_range_test_step_size=5, lr_range_test_staircase=True, last_batch_iteration=8),
    ),
}


def run(schedulers, kind, options):
    groups = [{"params": [torch.zeros(1, requires_grad=True)], "lr": lr} for lr in (0.1, 0.02)]
    optimizer = torch.optim.Adam(groups, lr=0.1)
    scheduler = getattr(schedulers, kind)(optimizer, **options)
    rates, betas = [], []
    for step in range(STEPS):
        if step > 0 or options.get("last_batch_iteration", -1) > -1:
            scheduler.step()
        rates.append([group["lr"] for group in optimizer.param_groups])
        assert optimizer.param_groups[0]["betas"] == optimizer.param_groups[1]["betas"]
        betas.append(optimizer.param_groups[0]["betas"])
    return torch.tensor(rates, dtype=torch.float64), torch.tensor(betas, dtype=torch.float64)


def deepspeed_schedules():
    from deepspeed.runtime import lr_schedules

    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)  # each schedule warns before its first iteration
    tensors, metadata = {}, {}
    for case, (kind, options) in CASES.items():
        tensors[case], betas = run(lr_schedules, kind, options)
        if kind == "OneCycle" and options.get("cycle_momentum", True):
            tensors[f"{case}/betas"] = betas
        metadata[case] = json.dumps({"schedule": kind, **options})
    return tensors, metadata
