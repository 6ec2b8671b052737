#!/usr/bin/env python3
"""Puts the tables of goals.sh into a file of results, as a section of the processor and the date; newest first.

    results_section.py --file RESULTS.md --command "tools/bench/goals.sh --fast" --body tables.md

The heading is the date, the processor, the threads and PyTorch's version; the command is the section's last line. The
section takes the place of the newest one of the same processor where that has the same heading and the same command: the
table of a day is repeated, not doubled. Else it is a new section before all others. Sections with other headings or
commands, so those with other options and those written by hand, stay as they are.
"""

import argparse
import datetime
import pathlib
import re
import sys

import run_pair


def with_section(text, heading, processor, body, command):
    """The text of the results with the section in it."""
    new = f"## {heading}\n\n{body.strip()}\n\n    {command}\n"
    title, *sections = ("\n" + text).split("\n## ")
    same_processor = [i for i, section in enumerate(sections) if processor in section.partition("\n")[0]]
    if same_processor:
        newest = sections[same_processor[0]]
        if newest.partition("\n")[0] == heading and newest.rstrip().endswith(f"\n    {command}"):
            sections[same_processor[0]] = new[3:]
            return "\n## ".join([title, *sections])[1:]
    return "\n## ".join([title.rstrip("\n") + "\n", new[3:], *sections])[1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=pathlib.Path, required=True, help="of results; it is made where there is none")
    parser.add_argument("--body", type=pathlib.Path, required=True, help="file with the tables")
    parser.add_argument("--command", required=True, help="that made them")
    parser.add_argument("--date", default=datetime.date.today().isoformat(), help="of the section; default: today")
    run_pair.add_tools(parser)
    options = parser.parse_args()
    processor, torch = run_pair.processor(), run_pair.torch_version(options)
    heading = f"{options.date}, {processor}, {options.threads} threads"
    heading += f", PyTorch {torch}" if torch else ""
    text = options.file.read_text(encoding="utf-8") if options.file.exists() else "# Results\n"
    body = re.sub(r"\n{3,}", "\n\n", options.body.read_text(encoding="utf-8"))
    options.file.write_text(with_section(text, heading, processor, body, options.command), encoding="utf-8")
    print(f"'{heading}' is in {options.file}", file=sys.stderr)


if __name__ == "__main__":
    main()
