#pragma once  // internal

#include "tensor/elementwise/update_rules/adadelta.h"
#include "tensor/elementwise/update_rules/adagrad.h"
#include "tensor/elementwise/update_rules/adam.h"
#include "tensor/elementwise/update_rules/adamax.h"
#include "tensor/elementwise/update_rules/lion.h"
#include "tensor/elementwise/update_rules/nadam.h"
#include "tensor/elementwise/update_rules/radam.h"
#include "tensor/elementwise/update_rules/rmsprop.h"
#include "tensor/elementwise/update_rules/sgd.h"

/// All rules: `ops::optimizer_update` and its kernels are instantiated for each.
#define TESSERA_UPDATE_RULES(X) \
  X(AdadeltaRule)               \
  X(AdagradRule) X(AdamRule) X(AdamaxRule) X(LionRule) X(NadamRule) X(RadamRule) X(RmspropRule) X(SgdRule)
