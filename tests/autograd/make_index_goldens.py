#!/usr/bin/env python3
"""Writes tests/autograd/index_goldens.txt: random lists of indices and the elements that they address in NumPy.

The file is committed, so neither the build nor the tests need Python. Run this again only to change the cases,
where `numpy` is installed, and `torch` if the results shall be compared with PyTorch's too:

    python3 tests/autograd/make_index_goldens.py            # writes the file
    python3 tests/autograd/make_index_goldens.py --check    # compares with the committed file and writes nothing

A line holds: shape of x | indices | shape of a value to assign | shape of the result | result, for x = 0, 1, 2, ...
So the result is the list of positions that an assignment writes, in its order. Indices, separated by ";":

    3  1:-1:2  None  ...      an integer, a slice, a new axis, an ellipsis
    i(2,1)[0,-3]              an i64 tensor of shape (2, 1); j: i32
    m(2,3)[010110]            a mask

Integers are applied before index tensors, and an Ellipsis that stands for no dimension does not separate index
tensors: this is PyTorch's rule. NumPy counts an integer beside index tensors as one of them; there its result is
that of two steps, the second with the index tensors alone. Everywhere else the result is NumPy's for the whole list.
"""

import argparse
import pathlib
import random

import numpy as np

try:
    import torch
except ImportError:
    torch = None

OUTPUT = pathlib.Path(__file__).resolve().parent / "index_goldens.txt"
CASES = 2000


def is_array(index):
    return isinstance(index, np.ndarray)


def is_mask(index):
    return is_array(index) and index.dtype == np.bool_


def is_integer(index):
    return isinstance(index, int) or (is_array(index) and index.ndim == 0 and not is_mask(index))


def in_two_steps(x, indices):
    """Integers, slices, None and Ellipsis first, then the index tensors."""
    taken = sum(index.ndim if is_mask(index) else index is not None and index is not Ellipsis for index in indices)
    first, second = [], []
    for index in indices:
        if is_integer(index):
            first.append(int(index))
        elif is_mask(index) and index.ndim == 0:
            first.append(None)
            second.append(np.zeros(int(index), dtype=np.int64))
        elif is_array(index):
            first.extend([slice(None)] * (index.ndim if is_mask(index) else 1))
            second.append(index)
        else:
            first.append(index)
            second.extend([slice(None)] * (x.ndim - taken if index is Ellipsis else 1))
    return x[tuple(first)][tuple(second)]


def numpy_differs(x, indices):
    """Whether NumPy's rule for the list is not PyTorch's."""
    arrays = [i for i, index in enumerate(indices) if is_array(index) and not is_integer(index)]
    if not arrays:
        return False
    taken = sum(index.ndim if is_mask(index) else index is not None and index is not Ellipsis for index in indices)
    empty_ellipsis = taken == x.ndim and any(index is Ellipsis for index in indices)
    return empty_ellipsis or any(is_integer(index) for index in indices)


def addressed(x, indices):
    result = in_two_steps(x, indices)
    if not numpy_differs(x, indices):
        whole = x[tuple(indices)]
        assert whole.shape == result.shape and (whole == result).all(), indices
    if torch is not None:
        given = [torch.from_numpy(np.array(i)) if is_array(i) else i for i in indices]
        theirs = torch.from_numpy(x.copy())[tuple(given)].numpy()
        assert theirs.shape == result.shape and (theirs == result).all(), indices
    return result


def check_assignment(x, indices, positions, value_shape):
    """Assigning in the order of the positions is what NumPy does."""
    if numpy_differs(x, indices):
        return
    value = np.arange(np.prod(value_shape, dtype=int)).reshape(value_shape) + 1000
    theirs, ours = x.copy(), x.copy().reshape(-1)
    ellipsis = [] if any(index is Ellipsis for index in indices) else [Ellipsis]  # a 0-dim result is then a view
    theirs[tuple(indices + ellipsis)] = value
    while value.ndim > positions.ndim:
        value = value[0]
    for position, number in zip(positions.reshape(-1), np.broadcast_to(value, positions.shape).reshape(-1)):
        ours[position] = number
    assert (theirs.reshape(-1) == ours).all(), indices


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def chance(self, probability):
        return self.random.random() < probability

    def extent(self):
        return self.random.choice([0, 1, 1, 2, 2, 3, 3, 3, 4, 5])

    def slice(self, extent):
        end = lambda: None if self.chance(0.35) else self.random.randint(-extent - 2, extent + 2)
        return slice(end(), end(), self.random.choice([None, None, 1, 1, 2, 3, 7]))

    def positions(self, extent, shape):
        shape = [1 if self.chance(0.2) else n for n in shape]
        shape = shape[self.random.randint(0, len(shape)) if self.chance(0.2) else 0 :]
        count = int(np.prod(shape, dtype=int))
        if extent == 0 and count > 0:
            return None
        values = [self.random.randint(-extent, extent - 1) for _ in range(count)]
        return np.array(values, dtype=self.random.choice([np.int64, np.int64, np.int32])).reshape(shape)

    def mask(self, extents, count):
        n = int(np.prod(extents, dtype=int))
        values = [self.chance(0.4) for _ in range(n)]
        if count is not None and count <= n and not self.chance(0.3):
            chosen = set(self.random.sample(range(n), count))
            values = [i in chosen for i in range(n)]
        return np.array(values, dtype=np.bool_).reshape(extents)

    def indices(self, shape):
        arrays = self.random.choice([0, 1, 1, 2, 2, 2, 3])
        common = [self.random.choice([0, 1, 2, 2, 3, 3, 4]) for _ in range(self.random.choice([0, 1, 1, 1, 2, 2, 3]))]
        ellipsis_at = self.random.randint(0, len(shape)) if self.chance(0.3) else -1
        end = len(shape) if self.chance(0.7) else self.random.randint(0, len(shape))
        indices, dim = [], 0
        while True:
            if self.chance(0.12):
                indices.append(None)
            if dim == ellipsis_at:
                indices.append(Ellipsis)
                dim += self.random.choice([0, 0, 1, 2])
                end = len(shape)
            if dim >= end:
                return indices
            if arrays > 0 and self.chance(0.75):
                arrays -= 1
                if self.chance(0.35):
                    dims = min(self.random.choice([0, 1, 1, 2, 2]), len(shape) - dim)
                    indices.append(self.mask(shape[dim : dim + dims], common[-1] if common else None))
                    dim += dims
                    continue
                indices.append(self.positions(shape[dim], common))
                if indices[-1] is None:
                    return None
            elif self.chance(0.25):
                if shape[dim] == 0:
                    return None
                indices.append(self.random.randint(-shape[dim], shape[dim] - 1))
            else:
                indices.append(self.slice(shape[dim]))
            dim += 1

    def value_shape(self, shape):
        kept = [1 if self.chance(0.2) else n for n in shape]
        if self.chance(0.3):
            kept = kept[self.random.randint(0, len(kept)) :]
        return [1] * (self.chance(0.1) and len(kept) == len(shape) and len(kept) < 8) + kept

    def case(self):
        shape = [self.extent() for _ in range(self.random.choice([0, 1, 2, 2, 3, 3, 3, 4, 4, 5]))]
        if np.prod(shape, dtype=int) > 100:
            return None
        x = np.arange(np.prod(shape, dtype=int)).reshape(shape)
        indices = self.indices(shape)
        if indices is None:
            return None
        try:
            positions = addressed(x, indices)
        except (IndexError, ValueError):
            return None
        if positions.size > 48 or positions.ndim > 8 or (positions.size == 0 and self.chance(0.93)):
            return None
        value_shape = self.value_shape(positions.shape)
        check_assignment(x, indices, positions, value_shape)
        return line(shape, indices, value_shape, positions)


def numbers(values):
    return ",".join(str(int(n)) for n in values)


def index_text(index):
    if index is None or index is Ellipsis:
        return "None" if index is None else "..."
    if isinstance(index, slice):
        ends = ["" if n is None else str(n) for n in (index.start, index.stop, index.step)]
        return ":".join(ends if ends[2] else ends[:2])
    if isinstance(index, int):
        return str(index)
    if is_mask(index):
        return f"m({numbers(index.shape)})[{''.join(str(int(n)) for n in index.reshape(-1))}]"
    letter = "i" if index.dtype == np.int64 else "j"
    return f"{letter}({numbers(index.shape)})[{numbers(index.reshape(-1))}]"


def line(shape, indices, value_shape, positions):
    fields = [numbers(shape), ";".join(map(index_text, indices)), numbers(value_shape), numbers(positions.shape)]
    return "|".join(fields + [numbers(positions.reshape(-1))])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the committed file and write nothing")
    arguments = parser.parse_args()
    generator, lines = Generator(1), {}
    while len(lines) < CASES:
        case = generator.case()
        if case is not None:
            lines[case] = None
    text = "".join(case + "\n" for case in lines)
    if arguments.check:
        assert OUTPUT.read_text() == text, "the committed file differs"
    else:
        OUTPUT.write_text(text)
    print(f"{len(lines)} cases, {len(text)} bytes, " + ("compared with PyTorch" if torch else "without PyTorch"))


if __name__ == "__main__":
    main()
