#include "autograd/functions/matmul.h"

#include "autograd/functions/view.h"
#include "tests/ops/table.h"

namespace tessera::test {

std::vector<OpRow> matmul_rows() {
  return {
      {.name = "matmul",
       .family = "matmul",
       .call =
           [](const Given& g) {
             const auto operand = [&](size_t i, const char* flag) {
               return g.flag(flag) ? transpose(g[i], -1, -2) : g[i];
             };
             return matmul(operand(0, "transpose_a"), operand(1, "transpose_b"));
           }},
      {.name = "linear",
       .family = "matmul",
       .call = [](const Given& g) { return linear(g[0], g[1], g.optional(2)); }},
  };
}

}  // namespace tessera::test
