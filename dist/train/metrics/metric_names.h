#pragma once  // internal

#include <string>
#include <string_view>

namespace tessera::training {

/// Whether a text has a character below the space: names and options are lines of the texts that ranks
/// compare.
bool has_control_character(std::string_view text);

/// Throws ValueError, which begins with `place`, for a name that is empty or has a control character.
void check_metric_name(std::string_view place, const std::string& name);

}  // namespace tessera::training
