#pragma once

#include <cstdint>
#include <string>

/// Numbers as people read them.
namespace tessera::gptlite {

/// "86,701,056".
std::string grouped(int64_t number);
/// With four digits and a prefix: "346.8 MB", "1.24 TFLOP".
std::string scaled(double number, const std::string& unit);
/// With that many digits after the point.
std::string fixed(double number, int digits);

}  // namespace tessera::gptlite
