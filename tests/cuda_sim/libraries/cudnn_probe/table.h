// The graphs whose acceptance is compared.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/cuda_sim/libraries/cudnn_graphs/graph.h"

namespace cudnn_graphs {

struct TableRow {
  std::string name;
  std::function<void(Graph&)> build;
  bool has_plan = true;  ///< false: the row ends with its descriptors
};

/// The table's parts, by subject.
/// @{
std::vector<TableRow> attention_rows();
std::vector<TableRow> convolution_rows();
std::vector<TableRow> descriptor_rows();
std::vector<TableRow> other_rows();
/// @}

}  // namespace cudnn_graphs
