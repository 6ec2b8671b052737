"""Updates .github/TORCH_NN.md after functions or modules were added: a name of PyTorch whose row has no name of
Tessera's gets one where the headers declare it, a name that names.txt has and the page lacks gets a row, and the
stated numbers become those of the rows. Notes are written by hand.

Usage: update_page.py
"""

import pathlib
import re

root = pathlib.Path(__file__).resolve().parents[2]
page = root / ".github" / "TORCH_NN.md"


def text_of(folder):
    return "\n".join(path.read_text() for path in sorted((root / folder).rglob("*.h")))


modules = set(re.findall(r"^(?:struct|class) (\w+)\b[^;]*?[:{]", text_of("nn"), re.M))
modules |= set(re.findall(r"^using (\w+) = ", text_of("nn"), re.M))
in_nn = set(re.findall(r"using tessera::(\w+);", text_of("nn")))
functions = set(re.findall(r"^(?:Variable|std::vector<Variable>|void|Tensor) (\w+)\(", text_of("autograd/functions"), re.M))


def declared(name):
    """The name of Tessera's for a name of PyTorch, or ""."""
    kind, short = name.split(".")
    if kind == "nn":
        return f"nn::{short}" if short in modules else ""
    return f"nn::{short}" if short in in_nn else short if short in functions else ""


def row(name, here, note):
    return f"| `{name}` |{f' `{here}`' if here else ''} |{f' {note}' if note else ''} |".replace("| |", "| |")


rows = {}
for line in page.read_text().splitlines():
    if found := re.fullmatch(r"\| `([^`]+)` \|(?: `([^`]+)`)? \| ?(.*?) ?\|", line):
        name, here, note = found[1], found[2] or "", found[3]
        if not here and declared(name):
            here, note = declared(name), ""
        rows[name] = (here, note)
for name in (pathlib.Path(__file__).parent / "names.txt").read_text().split():
    rows.setdefault(name, (declared(name), "" if declared(name) else "not written yet"))

head = page.read_text().split("\n## ")[0].rstrip()
count = sum(1 for here, _ in rows.values() if here)
numbers = f"{count} of {len(rows)}\nnames are here, {100 * count // len(rows)} %"
parts = [re.sub(r"\d+ of \d+\s+names are here, \d+ %", numbers, head)]
for title, kind in (("Modules: torch.nn", "nn."), ("Functions: torch.nn.functional", "F.")):
    names = sorted((name for name in rows if name.startswith(kind)), key=lambda name: (name.lower(), name))
    parts.append(f"## {title}\n\n| PyTorch | Tessera | |\n| --- | --- | --- |\n" + "\n".join(row(n, *rows[n]) for n in names))
page.write_text("\n\n".join(parts) + "\n")
print(f"{count} of {len(rows)} names, {100 * count // len(rows)} %")
