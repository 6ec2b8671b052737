#!/usr/bin/env python3
"""Writes the *.csv here: tables of actions that torch.distributed.pipelining generates.

The files are committed, so neither the build nor the tests need Python. Run this again only to change the cases:

    pip install torch
    python3 tests/dist/pipeline/torch_schedules/make_goldens.py

The name of a file has our kind, ranks, micro-batches and chunks. Idle cells, and actions other than F, B, I and W, are
left out. Recorded with PyTorch 2.15. PyTorch runs the backwards of ScheduleLoopedBFS in descending order of
micro-batches, we in ascending order: here they are mirrored. The table of Schedule1F1B numbers the forwards of its
last rank from 1 (its step() does not): here they are numbered from 0.
"""

import pathlib

from torch.distributed.pipelining import schedules

FOLDER = pathlib.Path(__file__).resolve().parent
COMPUTE = (schedules.F, schedules.B, schedules.I, schedules.W)


def mirrored(action, micro_batches):
    if action.computation_type != schedules.B:
        return action
    return action._replace(microbatch_index=micro_batches - 1 - action.microbatch_index)


def actions_of(cls, ranks, micro_batches, chunks, rank):
    """The actions of one rank, from an instance that has only what the generators read."""
    schedule = cls.__new__(cls)
    schedule._n_microbatches = micro_batches
    schedule._num_stages = schedule.num_stages = ranks * chunks
    schedule.pp_group_size = ranks
    schedule.n_local_stages = chunks
    schedule._stages = [None] * chunks
    schedule.number_of_rounds = max(1, micro_batches // ranks)
    schedule.microbatches_per_round = micro_batches // schedule.number_of_rounds
    if hasattr(cls, "_calculate_single_rank_operations"):
        actions = schedule._calculate_single_rank_operations(rank)
    else:
        actions = schedule._get_pipeline_order()[rank]
    actions = [a for a in actions if a is not None and a.computation_type in COMPUTE]
    if cls is schedules.ScheduleLoopedBFS:
        actions = [mirrored(a, micro_batches) for a in actions]
    if cls is schedules.Schedule1F1B and rank == ranks - 1:
        actions = [a._replace(microbatch_index=a.microbatch_index - (a.computation_type == schedules.F)) for a in actions]
    return actions


def write(kind, cls, cases):
    for ranks, micro_batches, chunks in cases:
        lines = [
            ",".join(str(a) for a in actions_of(cls, ranks, micro_batches, chunks, rank)) for rank in range(ranks)
        ]
        name = f"{kind}_{ranks}_{micro_batches}_{chunks}.csv"
        (FOLDER / name).write_text("\n".join(lines) + "\n")


write("gpipe", schedules.ScheduleGPipe, [(2, 3, 1), (4, 8, 1)])
write("1f1b", schedules.Schedule1F1B, [(2, 4, 1), (4, 8, 1), (3, 7, 1)])
# (4, 10): two groups of five; (4, 3): fewer micro-batches than ranks
write("interleaved", schedules.ScheduleInterleaved1F1B, [(2, 4, 2), (4, 8, 2), (4, 8, 3), (4, 10, 2), (4, 3, 2)])
write("breadth-first", schedules.ScheduleLoopedBFS, [(2, 4, 2), (4, 8, 2), (3, 2, 3)])
write("zb-h1", schedules.ScheduleInterleavedZeroBubble, [(2, 4, 1), (4, 8, 1), (3, 2, 1)])
write("zb-v", schedules.ScheduleZBVZeroBubble, [(2, 4, 2), (4, 8, 2), (4, 3, 2)])
