#include "tests/ops/table.h"

namespace tessera::test {

std::vector<OpRow> normalization_rows() {
  return {};
}

}  // namespace tessera::test
