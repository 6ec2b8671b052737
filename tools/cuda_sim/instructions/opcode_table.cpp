#include "tools/cuda_sim/instructions/opcode_table.h"

#include <algorithm>
#include <vector>

#include "tools/cuda_sim/instructions/opcode_rows.h"

namespace tessera::cuda_sim {

namespace {

std::vector<OpcodeRow> all_rows() {
  std::vector<OpcodeRow> rows;
  for (const std::span<const OpcodeRow> subject : {rows_by_type(),
                                                   integer_rows(),
                                                   carry_rows(),
                                                   bit_rows(),
                                                   logic_rows(),
                                                   floating_rows(),
                                                   special_function_rows(),
                                                   convert_rows(),
                                                   comparison_rows(),
                                                   move_rows(),
                                                   load_store_rows(),
                                                   atomic_rows(),
                                                   address_rows(),
                                                   copy_async_rows(),
                                                   fence_rows(),
                                                   mbarrier_rows(),
                                                   warp_rows(),
                                                   miscellaneous_rows(),
                                                   matrix_move_rows(),
                                                   mma_rows()})
    rows.insert(rows.end(), subject.begin(), subject.end());
  std::sort(rows.begin(), rows.end(),
            [](const OpcodeRow& a, const OpcodeRow& b) { return a.opcode < b.opcode; });
  return rows;
}

}  // namespace

std::span<const OpcodeRow> opcode_rows() {
  static const std::vector<OpcodeRow> rows = all_rows();
  return rows;
}

const OpcodeRow* find_opcode(std::string_view opcode) {
  const std::span<const OpcodeRow> rows = opcode_rows();
  const auto found =
      std::lower_bound(rows.begin(), rows.end(), opcode,
                       [](const OpcodeRow& row, std::string_view name) { return row.opcode < name; });
  return found != rows.end() && found->opcode == opcode ? &*found : nullptr;
}

}  // namespace tessera::cuda_sim
