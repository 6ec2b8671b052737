#pragma once

#include <cstdint>

namespace tessera {

enum class UnaryOp : uint8_t;
enum class BinaryOp : uint8_t;
enum class TernaryOp : uint8_t;

/// The name of an operation in errors and profiles: "exp", "add", "lerp".
/// @{
const char* name_of(UnaryOp op);
const char* name_of(BinaryOp op);
const char* name_of(TernaryOp op);
/// @}

}  // namespace tessera
