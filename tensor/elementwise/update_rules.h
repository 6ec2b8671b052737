#pragma once

#include "tensor/elementwise/update_rules/adagrad.h"
#include "tensor/elementwise/update_rules/adam.h"
#include "tensor/elementwise/update_rules/rmsprop.h"
#include "tensor/elementwise/update_rules/sgd.h"

/// All rules: `ops::optimizer_update` and its kernels are instantiated for each.
#define TESSERA_UPDATE_RULES(X) X(AdagradRule) X(AdamRule) X(RmspropRule) X(SgdRule)
