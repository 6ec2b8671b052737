#include "tests/ops/table.h"

namespace tessera::test {

std::vector<OpRow> attention_rows() {
  return {};
}

}  // namespace tessera::test
