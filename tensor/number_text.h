#pragma once  // internal

#include <cstdint>
#include <string>

/// Numbers as people read them.
namespace tessera {

/// "86,701,056".
std::string with_commas(int64_t value);
/// With four digits and a decimal prefix of the unit: "346.8 MB", "1.24 TFLOP".
std::string with_prefix(double value, const std::string& unit);
/// With `decimals` digits after the point.
std::string fixed(double value, int decimals);

}  // namespace tessera
