#pragma once

#include <string>

#include "tensor/error.h"
#include "tests/support/error_text.h"

/// The message of the CheckpointError that `body` throws; "" when it throws none.
template <class Body>
std::string refused(const Body& body) {
  try {
    body();
  } catch (const tessera::CheckpointError& error) {
    return error.what();
  }
  return "";
}
