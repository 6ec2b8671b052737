#include "tests/ops/table.h"

namespace tessera::test {

// One function per family, each in the file <family>_rows.cpp.
std::vector<OpRow> unary_rows();
std::vector<OpRow> activation_function_rows();
std::vector<OpRow> binary_rows();
std::vector<OpRow> ternary_rows();
std::vector<OpRow> creation_rows();
std::vector<OpRow> recurrence_rows();
std::vector<OpRow> reduction_rows();
std::vector<OpRow> matmul_rows();
std::vector<OpRow> softmax_rows();
std::vector<OpRow> normalization_rows();
std::vector<OpRow> embedding_bag_rows();
std::vector<OpRow> indexing_rows();
std::vector<OpRow> sorting_rows();
std::vector<OpRow> view_rows();
std::vector<OpRow> shaping_rows();
std::vector<OpRow> loss_rows();
std::vector<OpRow> losses_rows();
std::vector<OpRow> attention_rows();
std::vector<OpRow> convolution_rows();
std::vector<OpRow> methods_rows();
std::vector<OpRow> images_rows();
std::vector<OpRow> resampling_rows();
std::vector<OpRow> weight_norm_rows();
std::vector<OpRow> linalg_rows();
std::vector<OpRow> special_function_rows();
std::vector<OpRow> arrangements_rows();
std::vector<OpRow> places_rows();
std::vector<OpRow> statistics_rows();
std::vector<OpRow> distance_rows();

namespace {

void append(std::vector<OpRow>& table, std::vector<OpRow> rows) {
  for (OpRow& row : rows) table.push_back(std::move(row));
}

std::vector<OpRow> all_rows() {
  std::vector<OpRow> table;
  append(table, unary_rows());
  append(table, activation_function_rows());
  append(table, binary_rows());
  append(table, ternary_rows());
  append(table, creation_rows());
  append(table, recurrence_rows());
  append(table, reduction_rows());
  append(table, matmul_rows());
  append(table, softmax_rows());
  append(table, normalization_rows());
  append(table, embedding_bag_rows());
  append(table, indexing_rows());
  append(table, sorting_rows());
  append(table, view_rows());
  append(table, shaping_rows());
  append(table, loss_rows());
  append(table, losses_rows());
  append(table, attention_rows());
  append(table, convolution_rows());
  append(table, methods_rows());
  append(table, images_rows());
  append(table, resampling_rows());
  append(table, weight_norm_rows());
  append(table, linalg_rows());
  append(table, special_function_rows());
  append(table, arrangements_rows());
  append(table, places_rows());
  append(table, statistics_rows());
  append(table, distance_rows());
  return table;
}

}  // namespace

const std::vector<OpRow>& op_table() {
  static const std::vector<OpRow> table = all_rows();
  return table;
}

std::vector<OpCase> cases_of(const OpRow& row) {
  std::vector<OpCase> cases;
  if (!row.family.empty()) cases = golden_cases(row.family, row.golden.empty() ? row.name : row.golden);
  std::erase_if(cases, [&](const OpCase& c) { return row.except.contains(c.name); });
  if (row.cases)
    for (OpCase& c : row.cases()) cases.push_back(std::move(c));
  return cases;
}

}  // namespace tessera::test
