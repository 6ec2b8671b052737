#include "tests/ops/table.h"

namespace tessera::test {

std::vector<OpRow> matmul_rows() {
  return {};
}

}  // namespace tessera::test
