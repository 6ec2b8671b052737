#pragma once

#include <string>
#include <string_view>

/// The message of the exception of type E that `body` throws, or "(nothing was thrown)".
template <class E, class Body>
std::string message_of(Body&& body) {
  try {
    body();
  } catch (const E& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}

inline bool contains(std::string_view text, std::string_view expected) {
  return text.find(expected) != text.npos;
}
