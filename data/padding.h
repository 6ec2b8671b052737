#pragma once  // internal

#include <span>
#include <string>

#include "data/record.h"

namespace tessera::data {

/// An example for a padded row: the values of `like`; ids (i64 or i32) in the fields `targets` are
/// `ignored_target`, which losses skip.
Example padding_like(const Example& like, std::span<const std::string> targets);

}  // namespace tessera::data
