#pragma once

#include <iosfwd>
#include <string>

#include "tensor/profile/profiler.h"

namespace tessera {

/// Writes the recorded spans in Chrome's trace format (a JSON object with "traceEvents"), which
/// https://ui.perfetto.dev and chrome://tracing open: a process per rank, a row per thread and stream, a
/// complete event per span, in microseconds from the first span; its args are bytes, flops, module, phase and
/// step where known. "otherData" has "clock_begin_ns", the time of the first span on the clock of all
/// processes of a machine (`profile_clock`), by which traces of several can be aligned.
void write_chrome_trace(const Profiler& profiler, std::ostream& out);
/// The same into a file. Throws ConfigError naming the path when it cannot be written.
void write_chrome_trace(const Profiler& profiler, const std::string& path);

}  // namespace tessera
