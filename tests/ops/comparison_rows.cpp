#include "tests/ops/table.h"

namespace tessera::test {

std::vector<OpRow> comparison_rows() {
  return {};
}

}  // namespace tessera::test
