#include "dist/train/metrics/metric_agreement.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace tessera::training {
namespace {

constexpr dist::CallOptions call{.unit = "metrics of the ranks", .traffic = dist::Traffic::control};

struct NamedDescription {
  std::string name, description;
  bool operator==(const NamedDescription&) const = default;
};
using Descriptions = std::vector<NamedDescription>;

/// A line for each metric: name, tab, description.
std::string lines_of(std::span<Metric* const> metrics) {
  std::string lines;
  for (const Metric* metric : metrics) lines += metric->name() + '\t' + metric->description() + '\n';
  return lines;
}

Descriptions parse_lines(const std::string& lines) {
  Descriptions all;
  for (size_t begin = 0; begin < lines.size();) {
    const size_t tab = lines.find('\t', begin), end = lines.find('\n', tab);
    all.push_back({lines.substr(begin, tab - begin), lines.substr(tab + 1, end - tab - 1)});
    begin = end + 1;
  }
  return all;
}

/// Every rank's values in rank order.
Tensor gather(const Tensor& own, dist::Communicator& ranks) {
  const Tensor all = Tensor::empty({ranks.size(), own.numel()}, own.dtype(), ranks.device());
  const Tensor on_device = own.to(ranks.device());
  ranks.all_gather(all, on_device, call).wait();
  return all.to(cpu());
}

std::vector<Descriptions> gather_descriptions(const std::string& lines, const std::vector<int64_t>& lengths,
                                              dist::Communicator& ranks) {
  const Tensor padded = Tensor::zeros({*std::max_element(lengths.begin(), lengths.end())}, u8);
  if (!lines.empty()) std::memcpy(padded.raw_data(), lines.data(), lines.size());
  const Tensor all = gather(padded, ranks);
  std::vector<Descriptions> by_rank;
  for (size_t rank = 0; rank < lengths.size(); ++rank) {
    const auto* const begin =
        static_cast<const char*>(all.raw_data()) + static_cast<int64_t>(rank) * padded.numel();
    by_rank.push_back(parse_lines({begin, static_cast<size_t>(lengths[rank])}));
  }
  return by_rank;
}

const NamedDescription* find(const Descriptions& all, const std::string& name) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.name == name; });
  return found == all.end() ? nullptr : &*found;
}

/// The first difference between the metrics of rank 0 and of another rank.
std::string difference(const Descriptions& of_rank_0, const Descriptions& other, int64_t rank) {
  for (const NamedDescription& metric : other) {
    const NamedDescription* const expected = find(of_rank_0, metric.name);
    if (!expected) return text("rank ", rank, " has metric '", metric.name, "', which rank 0 does not have");
    if (*expected != metric)
      return text("metric '", metric.name, "' differs: rank ", rank, " has ", metric.description,
                  "; rank 0 has ", expected->description);
  }
  for (const NamedDescription& metric : of_rank_0)
    if (!find(other, metric.name))
      return text("rank ", rank, " does not have metric '", metric.name, "', which rank 0 has");
  for (size_t i = 0; i < of_rank_0.size(); ++i)
    if (other[i] != of_rank_0[i])
      return text("rank ", rank, " has metric '", other[i].name, "' where rank 0 has '", of_rank_0[i].name,
                  "': expected the same order");
  return text("the metrics of rank ", rank, " differ from those of rank 0");
}

}  // namespace

void require_same_metrics(std::span<Metric* const> metrics, dist::Communicator& ranks) {
  const std::string lines = lines_of(metrics);
  const auto hash = static_cast<int64_t>(XXH3_64bits(lines.data(), lines.size()));
  const Tensor all = gather(Tensor::from({hash, static_cast<int64_t>(std::ssize(lines))}), ranks);
  const int64_t* const pairs = all.data<int64_t>();
  std::vector<int64_t> lengths;
  bool same = true;
  for (int r = 0; r < ranks.size(); ++r) {
    same &= pairs[2 * r] == pairs[0] && pairs[2 * r + 1] == pairs[1];
    lengths.push_back(pairs[2 * r + 1]);
  }
  if (same) return;
  const std::vector<Descriptions> by_rank = gather_descriptions(lines, lengths, ranks);
  for (size_t r = 1; r < by_rank.size(); ++r)
    if (by_rank[r] != by_rank[0])
      throw dist::MismatchError(text("metrics over the ranks of group '", ranks.name(),
                                     "': ", difference(by_rank[0], by_rank[r], static_cast<int64_t>(r))));
}

}  // namespace tessera::training
