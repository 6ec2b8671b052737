"""What ptxas says about each kernel, and what nvdisasm finds in its code."""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
from typing import NamedTuple

import ptx

ENTRY = re.compile(r"Compiling entry function '(\S+)' for 'sm_(\d+)a?'")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")
FUNCTION = re.compile(r"^\s*\.text\.(\S+):", re.MULTILINE)
TENSOR_CORE = re.compile(r"\b[HIDBQ]G?MMA\b")  # of SASS
MMA = re.compile(r"\b(?:mma|wgmma)\.")  # of PTX


class Kernel(NamedTuple):
    source: str
    name: str  # mangled
    arch: int
    registers: int
    stack: int
    spills: int  # bytes stored and loaded
    shared: int  # bytes known at compile time
    mma: int  # instructions of tensor cores in the PTX
    tensor_core: int  # in the machine code; -1: no nvdisasm

    def problems(self):
        """What a kernel must not have."""
        if self.spills:
            yield f"{self.spills} bytes of spills"
        if self.mma and self.tensor_core == 0:
            yield f"{self.mma} mma instructions, and no instruction of tensor cores"


def find_tool(name, nvcc):
    """A program of the toolkit: beside the nvcc of the build, or from PATH."""
    beside = pathlib.Path(nvcc).resolve().parent / name
    return str(beside) if beside.exists() else shutil.which(name)


def sources_of(build, wanted):
    """(source, command words without output, folder) of every CUDA source of the libraries."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = pathlib.Path(entry["file"])
        if source.suffix != ".cu" or "/tensor/cuda/" not in str(source):
            continue
        if wanted and not any(str(source).endswith(name) for name in wanted):
            continue
        words = shlex.split(entry["command"])
        output = pathlib.Path(entry["directory"]) / words[words.index("-o") + 1]
        yield source, output, words, entry["directory"]


def modules_for(source, output, words, folder, arch):
    """The source's PTX for an architecture: from its object where that has it, else compiled."""
    if output.exists():
        texts = [text for text in ptx.modules_of(output) if ptx.target_of(text) == arch]
        if texts:
            return texts
    kept, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word in ("-o", "-MF", "-MT"):
            skip = True
        elif word.startswith(("-MD", "--generate-code", "-gencode", "-arch")):
            pass
        else:
            kept.append(word)
    with tempfile.TemporaryDirectory() as scratch:
        made = pathlib.Path(scratch) / "out.o"
        code = f"--generate-code=arch=compute_{arch},code=compute_{arch}"
        done = subprocess.run(kept + [code, "-o", str(made)], cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"cuda_report: {source}: {done.stderr}")
        return ptx.modules_of(made)


def tensor_core_counts(cubin, nvdisasm):
    """Kernel name to the number of its tensor-core instructions."""
    done = subprocess.run([nvdisasm, "-c", str(cubin)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"cuda_report: nvdisasm: {done.stderr}")
    starts = [(match[1], match.start()) for match in FUNCTION.finditer(done.stdout)]
    ends = [start for _, start in starts[1:]] + [len(done.stdout)]
    return {name: len(TENSOR_CORE.findall(done.stdout[start:end])) for (name, start), end in zip(starts, ends)}


def parse(source, text, log, counts):
    bodies = ptx.bodies_of(text)
    name = arch = None
    stack = spills = 0
    for line in log.splitlines():
        if match := ENTRY.search(line):
            name, arch = match[1], int(match[2])
        elif match := STACK.search(line):
            stack, spills = int(match[1]), int(match[2]) + int(match[3])
        elif (match := USED.search(line)) and name:
            shared = SHARED.search(line)
            yield Kernel(source, name, arch, int(match[1]), stack, spills, int(shared[1]) if shared else 0,
                         len(MMA.findall(bodies.get(name, ""))), counts.get(name, 0) if counts is not None else -1)
            name = None


def assemble(source, text, arch, cache, nvcc):
    """The kernels of one module. What was assembled before is read from the folder `cache`."""
    ptxas, nvdisasm = find_tool("ptxas", nvcc), find_tool("nvdisasm", nvcc)
    if ptxas is None:
        raise SystemExit(f"cuda_report: no ptxas beside {nvcc} or on PATH")
    command = [ptxas, f"-arch=sm_{arch}", "-v", "--fmad=false"]
    mark = hashlib.sha256("\n".join([*command, str(nvdisasm), text]).encode()).hexdigest()
    known = cache / f"{mark}.json"
    if known.exists():
        return [Kernel(*row) for row in json.loads(known.read_text())]
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "in.ptx").write_text(text)
        done = subprocess.run(command + [str(folder / "in.ptx"), "-o", str(folder / "out.cubin")],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"cuda_report: {source}: {done.stderr}")
        counts = None
        if nvdisasm and MMA.search(text):
            counts = tensor_core_counts(folder / "out.cubin", nvdisasm)
        kernels = list(parse(source, text, done.stderr + done.stdout, counts))
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=cache, suffix=".part", delete=False) as part:
        part.write(json.dumps(kernels))
    os.replace(part.name, known)  # another report may read it
    return kernels


def all_kernels(build, architectures, wanted):
    """Every kernel of the libraries, by source, for each architecture."""
    cache = build / "cuda_report"

    def kernels_of(job):
        (source, output, words, folder), arch = job
        texts = modules_for(source, output, words, folder, arch)
        nvcc = next((word for word in words if pathlib.Path(word).name.startswith("nvcc")), "nvcc")
        return [kernel for text in texts for kernel in assemble(source.name, text, arch, cache, nvcc)]

    jobs = [(source, arch) for source in sources_of(build, wanted) for arch in architectures]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        return [kernel for found in threads.map(kernels_of, jobs) for kernel in found]
