"""Writes golden.txt: PyTorch's results for the first column of .github/TORCH_FUNCTIONS.md.

A line is: the code, a tab, and "dtype extents: values" for each tensor of the result, " / " between them; "random"
before a result of which only dtype and extents count; nothing for a result without values.
Usage: make_golden.py (recorded with PyTorch 2.15, float32, on the CPU)
"""

import pathlib
import re

import torch
import torch.nn.functional as F

folder = pathlib.Path(__file__).parent
document = folder.parent.parent / ".github" / "TORCH_FUNCTIONS.md"
random = re.compile(r"rand|normal\(|bernoulli|multinomial|uniform")
kinds = {torch.float32: "f32", torch.float64: "f64", torch.int64: "i64", torch.bool: "bool"}


def inputs():
    """The values that rows_test.cpp has, too."""
    return dict(
        torch=torch,
        F=F,
        x=torch.tensor([[0.5, -1.5, 2.0], [3.0, -0.25, 1.0]]),
        y=torch.tensor([[1.5, 0.5, -2.0], [0.25, 4.0, -1.0]]),
        p=torch.tensor([[0.5, 1.5, 2.0], [3.0, 0.25, 1.0]]),
        u=torch.tensor([[0.1, 0.9, 0.4], [0.7, 0.3, 0.6]]),
        v=torch.tensor([1.0, -2.0, 0.5]),
        w=torch.tensor([0.3, 0.2, -1.0]),
        m=torch.tensor([[2.0, -1.0, 0.5], [0.25, 1.5, -2.0], [1.0, 0.0, 3.0]]),
        b=torch.arange(12.0).reshape(2, 2, 3) * 0.25 - 1,
        c=torch.arange(12.0).reshape(2, 3, 2) * -0.5 + 2,
        odd=torch.tensor([1.0, float("nan"), float("inf"), -float("inf")]),
        i=torch.tensor([[5, -3, 7], [0, 2, -8]]),
        j=torch.tensor([[2, 3, -4], [1, 5, 3]]),
        mask=torch.tensor([[True, False, True], [False, False, True]]),
        pick=torch.tensor([2, 0]),
        grid=torch.tensor([[2, 0], [1, 2]]),
        ids=torch.tensor([1, 3, 1, 0]),
        classes=torch.tensor([0, 0]),
        leaf=torch.tensor([0.5, -1.0, 2.0], requires_grad=True),
    )


def evaluate(code):
    scope = inputs()
    *statements, value = code.split("; ")
    for statement in statements:
        exec(statement, scope)
    return eval(value, scope)


def text(result):
    if isinstance(result, torch.Size):
        result = torch.tensor(list(result))
    if isinstance(result, (bool, int, float)):
        result = torch.tensor(result)
    if isinstance(result, (tuple, list)):
        return " / ".join(text(part) for part in result)
    if not isinstance(result, torch.Tensor):
        return ""
    extents = ",".join(str(n) for n in result.shape)
    values = " ".join(f"{float(value):.9g}" for value in result.detach().flatten())
    return f"{kinds[result.dtype]} {extents}: {values}"


lines = []
for row in re.findall(r"^\| `(.*?)` \| (.*) \|$", document.read_text(), re.MULTILINE):
    code = row[0].replace("\\|", "|")
    if row[1].startswith("`"):
        result = text(evaluate(code))
        if random.search(code):
            result = "random " + result.split(":")[0] + ":"
        lines.append(code + "\t" + result)
(folder / "golden.txt").write_text("\n".join(lines) + "\n")
