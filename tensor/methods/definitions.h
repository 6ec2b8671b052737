#pragma once  // internal

/// The definitions of TensorMethods, for the two sources that instantiate it: tensor/methods.cpp and
/// autograd/functions/methods.cpp, which includes the functions on Variables before this header.

#include "tensor/methods/composed.h"
#include "tensor/methods/elementwise.h"
#include "tensor/methods/in_place.h"
#include "tensor/methods/indexing.h"
#include "tensor/methods/matrices.h"
#include "tensor/methods/reduction.h"
#include "tensor/methods/shaping.h"
