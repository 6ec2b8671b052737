#pragma once

#include <string_view>

#include "autograd/parameter_list.h"

namespace tessera::optim {

/// Throws ConfigError, naming `where` and the parameter, for a list that was made before `dist::shard`: its
/// parameters get their gradients elsewhere since, so that nothing would be trained or clipped.
void require_current(const ParameterList& parameters, std::string_view where);

/// The same for what sums over all gradients. Throws ConfigError besides for parts of parameters in a list
/// without a reducer, whose sum would be this rank's alone.
void require_summable(const ParameterList& parameters, std::string_view where);

}  // namespace tessera::optim
