#include "tensor/cpu/loops/ctc_rows.h"

#include "tensor/cpu/loops/independent_iterations.h"
#include "tensor/elementwise/arithmetic.h"
#include "tensor/elementwise/exp.h"
#include "tensor/elementwise/log.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

void advance(const double* score, const double* stay, const double* step, const double* skip,
             const double* mask, int64_t n, double* out) {
  constexpr double infinity = elementwise::Floating<double>::infinity;
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t s = 0; s < n; ++s) {
    const double a = stay[s], b = step[s], c = skip[s] + mask[s];
    const double larger = b > a ? b : a, largest = c > larger ? c : larger;
    const double shift = largest == -infinity ? 0.0 : largest;
    out[s] = score[s] + (shift + elementwise::log(elementwise::exp(a - shift) + elementwise::exp(b - shift) +
                                                  elementwise::exp(c - shift)));
  }
}

void posterior(const double* alpha, const double* beta, double loss, double scale, int64_t n, double* out) {
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t s = 0; s < n; ++s) out[s] = scale * elementwise::exp(alpha[s] + beta[s] + loss);
}

}  // namespace

CtcRows ctc_rows() {
  return {&advance, &posterior};
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
