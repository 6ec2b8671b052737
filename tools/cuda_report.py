#!/usr/bin/env python3
"""What ptxas says about the CUDA kernels: registers, spills, shared memory, occupancy. Compiled, not run on a card.

usage: tools/cuda_report.py [--build FOLDER] [--arch 80,90] [--all] [SOURCE...]

Reads the CUDA sources and their flags from FOLDER/compile_commands.json (default: build/cuda), compiles each for every
architecture with `ptxas -v`, and prints a table: one line for each kernel template of a source, with the range over its
instances (--all: one line for each instance). Ends with 1 where a kernel spills registers to memory, or has a stack
that it does not need (a launch bound that is too tight, or an array that is indexed by a variable).

The occupancy is the share of a multiprocessor's threads that can be resident with blocks of the kernel's launch bound
(256 threads where it has none), by the limits of NVIDIA's occupancy calculator: registers, shared memory, blocks.
"""

import argparse
import collections
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

# Of a multiprocessor: threads, blocks, registers, bytes of shared memory; CUDA C++ Programming Guide, table
# "Technical Specifications per Compute Capability".
LIMITS = {
    80: (2048, 32, 65536, 164 * 1024),
    86: (1536, 16, 65536, 100 * 1024),
    89: (1536, 24, 65536, 100 * 1024),
    90: (2048, 32, 65536, 228 * 1024),
}
ENTRY = re.compile(r"Compiling entry function '(\S+)' for 'sm_(\d+)a?'")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")

Kernel = collections.namedtuple("Kernel", "source name arch registers stack spills shared")


def commands(build, wanted):
    """(source, arguments) of every CUDA source of the libraries."""
    entries = json.loads((build / "compile_commands.json").read_text())
    for entry in entries:
        source = pathlib.Path(entry["file"])
        if source.suffix != ".cu" or "/tensor/cuda/" not in str(source):
            continue
        if wanted and not any(str(source).endswith(name) for name in wanted):
            continue
        words = shlex.split(entry["command"])
        words = words[next(i for i, word in enumerate(words) if word.endswith("nvcc")):]  # without a launcher
        kept, skip = [], False
        for word in words:
            if skip:
                skip = False
            elif word in ("-o", "-MF", "-MT", "-gencode", "-c"):
                skip = word != "-c"
            elif word.startswith(("-MD", "--generate-code", "-arch", "-gencode")):
                pass
            else:
                kept.append(word)
        yield source, [word for word in kept if word != str(source)], entry["directory"]


def compile_verbose(source, arguments, folder, arch):
    with tempfile.TemporaryDirectory() as scratch:
        command = arguments + [
            f"-gencode=arch=compute_{arch},code=sm_{arch}", "-Xptxas=-v", "-cubin", "-o", f"{scratch}/out.cubin", str(source)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"cuda_report: {source}: {done.stderr}")
        return done.stderr


def kernels_of(source, text):
    name = arch = None
    stack = spills = 0
    for line in text.splitlines():
        if match := ENTRY.search(line):
            name, arch = match[1], int(match[2])
        elif match := STACK.search(line):
            stack, spills = int(match[1]), int(match[2]) + int(match[3])
        elif (match := USED.search(line)) and name:
            shared = SHARED.search(line)
            yield Kernel(source, name, arch, int(match[1]), stack, spills, int(shared[1]) if shared else 0)
            name = None


def demangled(names):
    done = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    return dict(zip(names, done.stdout.splitlines()))


def template_of(name):
    """void a::b::kernel<...>(...) gives "kernel"."""
    head = re.split(r"[<(]", name.replace("(anonymous namespace)", "anonymous"), maxsplit=1)[0]
    return head.split("::")[-1].split()[-1]


def occupancy(kernel, threads=256):
    most_threads, most_blocks, registers, shared = LIMITS[kernel.arch]
    per_warp = -(-kernel.registers * 32 // 256) * 256  # registers are given out in units of 256
    blocks = min(most_blocks, most_threads // threads, registers // (per_warp * threads // 32))
    if kernel.shared:
        blocks = min(blocks, shared // (kernel.shared + 1024))  # 1 KiB of each block is the system's
    return blocks * threads / most_threads


def span(values, form="{}"):
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low}-{high}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/cuda"))
    parser.add_argument("--arch", default="80,90")
    parser.add_argument("--all", action="store_true", help="a line for each instance")
    parser.add_argument("sources", nargs="*")
    options = parser.parse_args()
    if not (options.build / "compile_commands.json").exists():
        sys.exit(f"cuda_report: no {options.build}/compile_commands.json: configure with the cuda preset first")
    architectures = [int(arch) for arch in options.arch.split(",")]
    for arch in architectures:
        if arch not in LIMITS:
            sys.exit(f"cuda_report: architecture {arch}: expected one of {', '.join(map(str, LIMITS))}")

    found = []
    for source, arguments, folder in commands(options.build, options.sources):
        for arch in architectures:
            found += kernels_of(source.name, compile_verbose(source, arguments, folder, arch))
    if not found:
        sys.exit("cuda_report: no kernels found")
    names = demangled([kernel.name for kernel in found])

    groups = collections.defaultdict(list)
    for kernel in found:
        name = names[kernel.name]
        groups[kernel.source, name if options.all else template_of(name), kernel.arch].append(kernel)
    print("Compiled, not run on a card.\n")
    print(f"| {'source':24} | {'kernel':24} | sm | instances | registers | stack | spills | shared | occupancy |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for (source, name, arch), kernels in sorted(groups.items()):
        print(f"| {source:24} | {name:24} | {arch} | {len(kernels):9} | {span([k.registers for k in kernels]):9} "
              f"| {span([k.stack for k in kernels]):5} | {span([k.spills for k in kernels]):6} "
              f"| {span([k.shared for k in kernels]):6} | {span([occupancy(k) for k in kernels], '{:.0%}'):9} |")
    spilled = [kernel for kernel in found if kernel.spills]
    for kernel in spilled:
        print(f"{kernel.source}: {names[kernel.name]} on sm_{kernel.arch}: {kernel.spills} bytes of spills", file=sys.stderr)
    print(f"\n{len(found)} kernels, {len(spilled)} with spills")
    return 1 if spilled else 0


if __name__ == "__main__":
    sys.exit(main())
