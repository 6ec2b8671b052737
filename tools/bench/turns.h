#pragma once

#include <json/json.h>
#include <sched.h>

#include <iostream>
#include <optional>
#include <string>

#include "tensor/threads/cores.h"

/// For runners that let programs take turns of a second each on one machine: a program with --turns waits for
/// a line of its standard input, the seconds that it may take, and answers each with a JSON object in a line.
/// At the end of the input it prints its last line and ends.
namespace tessera::bench {

/// The seconds of the next turn; none at the end of the input.
inline std::optional<double> next_turn() {
  double seconds = 0;
  if (std::cin >> seconds) return seconds;
  return std::nullopt;
}

/// Binds the calling thread to the first processor of the process, where the threads of teams are bound too
/// (TESSERA_PIN_THREADS). Call it after a first step: threads that are started later inherit the processor.
inline void bind_main_thread() {
  if (!pins_threads()) return;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(allowed_processors().front(), &mask);
  sched_setaffinity(0, sizeof mask, &mask);
}

inline void print_line(const Json::Value& value) {
  Json::StreamWriterBuilder builder;
  builder["indentation"] = "";
  std::cout << Json::writeString(builder, value) << std::endl;
}

}  // namespace tessera::bench
