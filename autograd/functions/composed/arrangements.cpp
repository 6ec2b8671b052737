#include "autograd/functions/composed/arrangements.h"

#include "autograd/functions/composed.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/indexing/advanced_indexing.h"
#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"

namespace tessera {
using X = Variable;
}  // namespace tessera

#include "tensor/composed/shaping/arrangements.inc"
