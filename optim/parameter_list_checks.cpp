#include "optim/parameter_list_checks.h"

#include "tensor/error.h"

namespace tessera::optim {

void require_current(const ParameterList& parameters, std::string_view where) {
  if (parameters.reducer()) return;
  // Sharding marks the gradient of every parameter that is trained, and gives a reducer to its own lists.
  for (const NamedParameter& parameter : parameters)
    require<ConfigError>(
        !parameter.variable.defined() || !parameter.variable.impl()->has_external_gradient_buffer, where,
        ": parameter '", parameter.name,
        "' was sharded after this list of parameters was made: call module.parameters(), and "
        "make the optimizer, after dist::shard");
}

void require_summable(const ParameterList& parameters, std::string_view where) {
  if (parameters.reducer()) return;
  require_current(parameters, where);
  for (const NamedParameter& parameter : parameters)
    require<ConfigError>(!parameter.shard, where, ": the list holds a shard of parameter '", parameter.name,
                         "' and no reducer to sum over the other ranks' shards: select from "
                         "module.parameters() by ParameterList::where, or copy its reducer");
}

void require_full(const ParameterList& parameters, std::string_view optimizer, std::string_view reason) {
  for (const NamedParameter& parameter : parameters)
    require<ConfigError>(
        !parameter.shard, optimizer, ": this rank has a shard of parameter '", parameter.name, "' ",
        parameter.full_shape(), ", and ", reason,
        ": use an elementwise optimizer (AdamW, Lion, ...), or strategy no_shard, with which "
        "every rank has full parameters");
}

}  // namespace tessera::optim
