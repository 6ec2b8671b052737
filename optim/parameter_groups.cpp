#include "optim/parameter_groups.h"

namespace tessera::optim {

DecaySplit split_by_decay(const ParameterList& parameters) {
  return {parameters.where([](const NamedParameter& p) { return p.full_shape().rank() >= 2; }),
          parameters.where([](const NamedParameter& p) { return p.full_shape().rank() < 2; })};
}

}  // namespace tessera::optim
