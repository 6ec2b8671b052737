#pragma once

#include <cstdint>
#include <string>

/// Numbers as printed text.
namespace tessera::gptlite {

/// "86,701,056".
std::string with_commas(int64_t value);
/// With four digits and a prefix of the unit: "346.8 MB", "1.24 TFLOP".
std::string scaled(double value, const std::string& unit);
/// With `digits` digits after the point.
std::string fixed(double value, int digits);

}  // namespace tessera::gptlite
