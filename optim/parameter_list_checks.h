#pragma once  // internal

#include <string_view>

#include "autograd/parameter_list.h"

namespace tessera::optim {

/// Throws ConfigError, naming `where` and the parameter, for a list that was made before `dist::shard`: the
/// gradients of its parameters are in other buffers since, so that nothing would be trained or clipped.
void require_current(const ParameterList& parameters, std::string_view where);

/// The same for sums over all gradients. Throws ConfigError also for shards in a list without a reducer: the
/// sum would be over this rank's values only.
void require_summable(const ParameterList& parameters, std::string_view where);

/// For a rule that needs full parameters. Throws ConfigError, naming the optimizer, the parameter,
/// `reason` ("its step divides by norms of full parameters") and what works instead, for a list with shards.
void require_full(const ParameterList& parameters, std::string_view optimizer, std::string_view reason);

}  // namespace tessera::optim
