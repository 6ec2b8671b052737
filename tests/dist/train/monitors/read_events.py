#!/usr/bin/env python3
"""usage: read_events.py TESTS

Reads event files by TensorBoard's own readers. TESTS is the binary of the tests in this folder; its case "a run for
read_events.py" writes them. Exits with 77 (skipped) where TensorBoard is not installed or the binary is built without
protobuf. TESSERA_PYTHON names the Python with TensorBoard, for CTest.
"""

import glob
import os
import subprocess
import sys
import tempfile

try:
    from tensorboard.backend.event_processing import plugin_event_accumulator
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.plugins.hparams import metadata as hparams_metadata
except ImportError as error:
    print(f"skipped: this Python has no TensorBoard ({error}); TESSERA_PYTHON may name another")
    sys.exit(77)


def expect(name, got, expected):
    if got != expected:
        sys.exit(f"{name}: expected {expected!r}, got {got!r}")


def check_files(folder):
    """Every record of each file, with its checksums."""
    paths = sorted(glob.glob(folder + "/events.out.tfevents.*"))
    expect("event files", len(paths), 2)
    for path in paths:
        events = list(EventFileLoader(path).Load())
        expect("first event", events[0].file_version, "brain.Event:2")
        counted = sum(event.HasField("summary") for event in events)
        expect("events with values", counted, 2 + 7 if path == paths[0] else 2 + 5)


def check_scalars(accumulator):
    loss = [(s.step, round(s.value, 6)) for s in accumulator.Scalars("loss")]
    expect("loss", loss, [(1, 1.0), (2, 0.5), (3, 0.333333), (4, 14.0), (5, 15.0), (6, 16.0)])
    expect("lr", [(s.step, s.value) for s in accumulator.Scalars("lr")], [(1, 0.5), (2, 0.5), (3, 0.5)])
    expect("non_finite", [s.value for s in accumulator.Scalars("weights/non_finite")], [1.0])


def check_histogram(accumulator):
    (event,) = accumulator.Histograms("weights")
    h = event.histogram_value
    expect("step", event.step, 2)
    expect("min, max, num, sum", (h.min, h.max, h.num, h.sum), (-2.0, 100.0, 7.0, 99.0))
    expect("sum_squares", h.sum_squares, 4 + 1 + 0.25 + 0.25 + 1 + 10000)
    left = float("-inf")
    for limit, count in zip(h.bucket_limit, h.bucket):
        inside = [v for v in (-2.0, -1.0, 0.0, 0.5, 0.5, 1.0, 100.0) if left <= v < limit]
        expect(f"elements in [{left}, {limit})", count, len(inside))
        left = limit


def check_texts(accumulator):
    """By the reader of TensorBoard's pages, in which every value is a tensor; the other one drops no tensors."""
    expect("steps", [t.step for t in accumulator.Tensors("loss")], [1, 2, 3, 4, 5, 6])
    samples = accumulator.Tensors("sample")
    expect("sample", [(t.step, t.tensor_proto.string_val[0].decode()) for t in samples], [(6, "kept é")])
    expect("plugin", accumulator.SummaryMetadata("sample").plugin_data.plugin_name, "text")
    table = accumulator.Tensors("configuration")[0].tensor_proto.string_val[0].decode()
    expect("configuration", "| kind | x\\|y |" in table, True)


def check_hparams(accumulator):
    start_tag, end_tag = hparams_metadata.SESSION_START_INFO_TAG, hparams_metadata.SESSION_END_INFO_TAG
    content = accumulator.PluginTagToContent(hparams_metadata.PLUGIN_NAME)
    start = hparams_metadata.parse_session_start_info_plugin_data(content[start_tag])
    expect("group_name", start.group_name, "a run")
    expect("lr", start.hparams["lr"].number_value, 0.001)
    expect("bias", start.hparams["bias"].bool_value, True)
    expect("kind", start.hparams["kind"].string_value, "x|y")
    end = hparams_metadata.parse_session_end_info_plugin_data(content[end_tag])
    expect("status", end.status, 1)


def main(tests):
    with tempfile.TemporaryDirectory() as folder:
        case = "--test-case=tensorboard: a run for read_events.py"
        environment = dict(os.environ, TESSERA_EVENTS_FOLDER=folder)
        subprocess.run([tests, case], env=environment, check=True)
        if not os.listdir(folder):
            print("skipped: the tests are built without protobuf")
            return 77
        check_files(folder)
        accumulator = EventAccumulator(folder, size_guidance={"scalars": 0, "histograms": 0, "tensors": 0})
        accumulator.Reload()
        check_scalars(accumulator)
        check_histogram(accumulator)
        check_hparams(accumulator)
        pages = plugin_event_accumulator.EventAccumulator(folder)
        pages.Reload()
        check_texts(pages)
        check_hparams(pages)
    print("TensorBoard reads what was written")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
