#pragma once

#include <json/json.h>

#include <iostream>
#include <optional>
#include <string>

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

inline void print_line(const Json::Value& value) {
  Json::StreamWriterBuilder builder;
  builder["indentation"] = "";
  std::cout << Json::writeString(builder, value) << std::endl;
}

}  // namespace tessera::bench
