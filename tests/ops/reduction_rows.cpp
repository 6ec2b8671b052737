#include "tests/ops/table.h"

namespace tessera::test {

std::vector<OpRow> reduction_rows() {
  return {};
}

}  // namespace tessera::test
