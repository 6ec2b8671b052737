#include "tests/ops/table.h"

namespace tessera::test {

std::vector<OpRow> indexing_rows() {
  return {};
}

}  // namespace tessera::test
