#include "tests/ops/table.h"

namespace tessera::test {

std::vector<OpRow> binary_rows() {
  return {};
}

}  // namespace tessera::test
