"""The PTX that nvcc puts into objects, and what stands in it."""

import re
import struct

MAGIC = struct.pack("<I", 0xBA55ED50)  # of a fat binary: fatbinary_section.h
KIND_PTX = 1
COMPRESSED = 0x2000 | 0x8000
ENTRY = re.compile(r"^\s*(?:\.visible\s+|\.weak\s+)*\.entry\s+([\w$]+)", re.MULTILINE)
TARGET = re.compile(r"^\s*\.target\s+sm_(\d+)", re.MULTILINE)


def modules_of(path):
    """The PTX texts of an object or library."""
    content = path.read_bytes()
    texts, at = [], content.find(MAGIC)
    while at >= 0:
        header_bytes, size = struct.unpack_from("<HQ", content, at + 6)
        entry, end = at + header_bytes, at + header_bytes + size
        while entry < end:
            kind, head, length = struct.unpack_from("<H2xIQ", content, entry)
            (flags,) = struct.unpack_from("<Q", content, entry + 40)
            if kind == KIND_PTX:
                if flags & COMPRESSED:
                    raise SystemExit(f"cuda_report: {path}: its PTX is compressed; compile with -Xfatbin=--compress-mode=none")
                text = content[entry + head:entry + head + length]
                texts.append(text.split(b"\0", 1)[0].decode())
            entry += head + length
        at = content.find(MAGIC, end)
    return texts


def target_of(text):
    """90 for `.target sm_90`."""
    return int(TARGET.search(text)[1])


def bodies_of(text):
    """Kernel name to the text of the kernel; functions that it calls are not in it."""
    starts = [(match[1], match.start()) for match in ENTRY.finditer(text)]
    ends = [start for _, start in starts[1:]] + [len(text)]
    return {name: text[start:end] for (name, start), end in zip(starts, ends)}
