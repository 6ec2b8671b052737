#include "autograd/functions/composed.h"

#include "autograd/functions/activation.h"
#include "autograd/functions/advanced_indexing.h"
#include "autograd/functions/binary.h"
#include "autograd/functions/cast.h"
#include "autograd/functions/indexing.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/nondifferentiable.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/sorting.h"
#include "autograd/functions/ternary.h"
#include "autograd/functions/unary.h"
#include "autograd/functions/view.h"

namespace tessera {
using X = Variable;
}

#include "tensor/composed/functions.inc"
//
#include "tensor/composed/einsum.inc"
