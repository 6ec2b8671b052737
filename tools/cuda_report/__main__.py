"""What can be known of the CUDA kernels without a card: compiled and simulated, not run on a card.

usage: python3 tools/cuda_report [--build FOLDER] [--arch 80,90] [--all] [--simulate [CASE]] [SOURCE...]

Assembles the PTX of every kernel of the libraries in FOLDER (default: build/cuda) for each architecture by
`ptxas -v`, and prints a line for each kernel template of a source, with the range over its instances (--all: one
line for each instance): registers, stack, spills, shared memory, occupancy of blocks of 256 threads, and the
instructions of tensor cores, which nvdisasm counts where it is found. Ends with 1 where a kernel spills registers to
memory, or where its PTX has mma and its machine code uses no tensor core.

--simulate runs the cases of bench_device on the simulated card and prints for each kernel the sectors per request and
against the ideal, the wavefronts per access of shared memory (1: no bank conflicts) and the operations, and for each
case the time below which an H100 and an H200 cannot be, from the bytes and the operations alone.
"""

import argparse
import collections
import pathlib
import re
import shutil
import subprocess
import sys

import assemble
import bounds
import simulate


def demangled(names):
    if shutil.which("c++filt") is None:
        return {name: name for name in names}
    done = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    return dict(zip(names, done.stdout.splitlines()))


def template_of(name):
    """void a::b::kernel<...>(...) gives "kernel"."""
    head = re.split(r"[<(]", name.replace("(anonymous namespace)", "anonymous"), maxsplit=1)[0]
    return head.split("::")[-1].split()[-1]


def span(values, form="{}"):
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low}-{high}"


def tensor_cores(kernels):
    """"12 of 12": mma of the PTX and of the machine code; "-" where there is none."""
    mma = [kernel.mma for kernel in kernels]
    if not any(mma):
        return "-"
    return f"{span(mma)} mma, {span([k.tensor_core for k in kernels])}" if kernels[0].tensor_core >= 0 else f"{span(mma)} mma"


def print_compiled(found, names, prints_all):
    groups = collections.defaultdict(list)
    for kernel in found:
        name = names[kernel.name]
        groups[kernel.source, name if prints_all else template_of(name), kernel.arch].append(kernel)
    print("| source | kernel | sm | instances | registers | stack | spills | shared | occupancy | tensor cores |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for (source, name, arch), kernels in sorted(groups.items()):
        print(f"| {source} | {name} | {arch} | {len(kernels)} | {span([k.registers for k in kernels])} "
              f"| {span([k.stack for k in kernels])} | {span([k.spills for k in kernels])} "
              f"| {span([k.shared for k in kernels])} | {span([bounds.occupancy(k) for k in kernels], '{:.0%}')} "
              f"| {tensor_cores(kernels)} |")


def print_simulated(build, only):
    print("\n| case, kernel | launches | load sectors a request, of ideal | store sectors a request, of ideal "
          "| wavefronts a shared access | f32, f64, mma MFLOP | not faster than |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for case in simulate.cases(build, only):
        total = case.total()
        limits = [(card.name, bounds.bound(card, case.least_bytes, total, case.product_flops)) for card in bounds.CARDS]
        text = "; ".join(f"{name} {limit.seconds * 1e6:.2f} us ({limit.by})" for name, limit in limits)
        print(f"| **{case.name}**, {case.size}: {case.least_bytes / 1e6:.1f} MB | | | | | | {text} |")
        for name, c in sorted(simulate.by_template(case.rows, template_of).items()):
            ratio = simulate.ratio
            print(f"| {name} | {c['launches']} | {ratio(c['load_sectors'], c['load_requests'])}, "
                  f"{ratio(c['load_sectors'], c['ideal_load_sectors'])} | {ratio(c['store_sectors'], c['store_requests'])}, "
                  f"{ratio(c['store_sectors'], c['ideal_store_sectors'])} "
                  f"| {ratio(c['shared_wavefronts'], c['shared_requests'])} "
                  f"| {c['flops_f32'] / 1e6:.1f}, {c['flops_f64'] / 1e6:.1f}, {c['flops_mma'] / 1e6:.1f} | |")


def main():
    parser = argparse.ArgumentParser(prog="cuda_report", description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/cuda"))
    parser.add_argument("--arch", default="80,90")
    parser.add_argument("--all", action="store_true", help="a line for each instance")
    parser.add_argument("--simulate", nargs="?", const="", metavar="CASE", help="run the cases of bench_device too")
    parser.add_argument("sources", nargs="*", help="names of sources; none: all")
    options = parser.parse_args()
    if not (options.build / "compile_commands.json").exists():
        sys.exit(f"cuda_report: no {options.build}/compile_commands.json: configure with the cuda preset first")
    try:
        architectures = [int(arch) for arch in options.arch.split(",")]
    except ValueError:
        sys.exit(f"cuda_report: --arch {options.arch}: expected numbers such as 80,90")
    for arch in architectures:
        if arch not in bounds.LIMITS:
            sys.exit(f"cuda_report: architecture {arch}: expected one of {', '.join(map(str, bounds.LIMITS))}")

    found = assemble.all_kernels(options.build, architectures, options.sources)
    if not found:
        sys.exit("cuda_report: no kernels found")
    names = demangled([kernel.name for kernel in found])
    print("Compiled and simulated, not run on a card.\n")
    if any(kernel.mma and kernel.tensor_core < 0 for kernel in found):
        print("Tensor cores: mma of the PTX alone; there is no nvdisasm to count those of the machine code.\n")
    print_compiled(found, names, options.all)
    if options.simulate is not None:
        print_simulated(options.build.resolve(), options.simulate)

    problems = [(kernel, problem) for kernel in found for problem in kernel.problems()]
    for kernel, problem in problems:
        print(f"cuda_report: {kernel.source}: {names[kernel.name]} on sm_{kernel.arch}: {problem}", file=sys.stderr)
    print(f"\n{len(found)} kernels, {len(problems)} with a problem")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
