// The order in which `einsum` multiplies.
#include <doctest/doctest.h>

#include "tensor/composed/einsum_plan.h"

using namespace tessera;

namespace {

EinsumPair first_of(std::string_view equation, const std::vector<Shape>& shapes) {
  const EinsumPlan plan = plan_einsum(equation, shapes);
  return cheapest_pair(plan, plan.inputs);
}

}  // namespace

TEST_CASE("einsum: the pair with the fewest multiplications is first") {
  // (100 x 2)(2 x 100) takes 20,000, (2 x 100)(100 x 1) takes 200.
  const EinsumPair chain = first_of("ab,bc,cd->ad", {{100, 2}, {2, 100}, {100, 1}});
  CHECK(chain.first == 1);
  CHECK(chain.second == 2);
  const EinsumPair left = first_of("ab,bc,cd->ad", {{1, 100}, {100, 2}, {2, 100}});
  CHECK(left.first == 0);
  CHECK(left.second == 1);
  // Of operands that are apart.
  const EinsumPair apart = first_of("ab,bcdef,a->cdef", {{8, 4}, {4, 9, 9, 9, 9}, {8}});
  CHECK(apart.first == 0);
  CHECK(apart.second == 2);
  const EinsumPair equal = first_of("ij,jk,kl->il", {{3, 3}, {3, 3}, {3, 3}});
  CHECK(equal.first == 0);
  CHECK(equal.second == 1);
}
