#include "tests/ops/table.h"

namespace tessera::test {

std::vector<OpRow> movement_rows() {
  return {};
}

}  // namespace tessera::test
