#include "tests/ops/table.h"

namespace tessera::test {

std::vector<OpRow> unary_rows() {
  return {};
}

}  // namespace tessera::test
