#include "models/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "autograd/grad_mode.h"
#include "tensor/error.h"
#include "tensor/packed_weight_scope.h"

namespace tessera::models {
namespace {

/// A row that is not finished.
struct Row {
  int64_t index;                 ///< among the prompts
  std::vector<int64_t> context;  ///< at most the block size, and the last drawn id
  int64_t cached = 0;            ///< positions of it whose keys and values are in the cache
};

/// The rows of a `generate`, and the cache that has a row for each of them.
class Batch {
 public:
  Batch(Gpt& gpt, std::span<const std::vector<int64_t>> prompts, const SamplingOptions& options)
      : gpt_(gpt),
        device_(gpt.wte.weight.device()),
        block_(static_cast<size_t>(gpt.o.block_size)),
        use_cache_(options.use_cache),
        length_(static_cast<size_t>(options.length)),
        vocabulary_(options.vocabulary > 0 ? options.vocabulary : gpt.o.vocabulary) {
    for (const std::vector<int64_t>& prompt : prompts) {
      const auto newest = static_cast<int64_t>(std::min(prompt.size(), block_));
      rows_.push_back({std::ssize(rows_), {prompt.end() - newest, prompt.end()}});
    }
  }

  bool empty() const { return rows_.empty(); }

  /// The logits (R, V) of the next id of each row.
  Tensor next_logits() {
    for (Row& row : rows_) {
      if (row.context.size() <= block_) continue;
      const size_t kept = std::max<size_t>(1, block_ / 2);
      row.context.erase(row.context.begin(), row.context.end() - static_cast<int64_t>(kept));
      row.cached = 0;
    }
    return (use_cache_ ? cached_logits() : full_logits()).narrow(1, 0, vocabulary_);
  }

  /// The prompts' numbers.
  std::vector<int64_t> indices() const {
    std::vector<int64_t> all;
    for (const Row& row : rows_) all.push_back(row.index);
    return all;
  }

  /// Appends an id to each row, and drops those rows where it is one of `stop_ids`.
  void append(std::span<const int64_t> ids, std::span<const int64_t> stop_ids) {
    std::vector<Row> left;
    std::vector<int64_t> kept;
    for (size_t i = 0; i < rows_.size(); ++i) {
      rows_[i].context.push_back(ids[i]);
      if (std::find(stop_ids.begin(), stop_ids.end(), ids[i]) != stop_ids.end()) continue;
      kept.push_back(static_cast<int64_t>(i));
      left.push_back(std::move(rows_[i]));
    }
    if (kept.size() < rows_.size() && !kept.empty() && use_cache_) cache_.reorder(kept);
    rows_ = std::move(left);
  }

 private:
  Tensor cached_logits() {
    if (cache_.blocks.empty()) return first_logits();
    std::vector<int64_t> lengths;
    for (const Row& row : rows_) lengths.push_back(row.cached);
    cache_.truncate(lengths);
    return logits_of(rows_);
  }

  /// Of all prompts. What they have in common is computed once, where that is all of it.
  Tensor first_logits() {
    const bool same =
        std::all_of(rows_.begin(), rows_.end(), [&](const Row& r) { return r.context == rows_[0].context; });
    size_t longest = 0;
    for (const Row& row : rows_) longest = std::max(longest, row.context.size());
    const size_t capacity = longest + std::min(length_, block_ - longest);
    cache_ = gpt_.make_cache(same ? 1 : std::ssize(rows_), static_cast<int64_t>(capacity));
    if (!same || rows_.size() == 1) return logits_of(rows_);
    const Tensor one = logits_of(std::span(rows_).first(1));
    for (Row& row : rows_) row.cached = rows_[0].cached;
    cache_.reorder(std::vector<int64_t>(rows_.size(), 0));
    return one.expand({std::ssize(rows_), one.size(1)});
  }

  /// Computes the positions that the cache does not hold yet.
  Tensor logits_of(std::span<Row> rows) {
    std::vector<int64_t> ids, counts;
    for (Row& row : rows) {
      ids.insert(ids.end(), row.context.begin() + row.cached, row.context.end());
      counts.push_back(std::ssize(row.context) - row.cached);
      row.cached = std::ssize(row.context);
    }
    if (std::all_of(counts.begin(), counts.end(), [](int64_t count) { return count == 1; })) counts.clear();
    return gpt_.next_logits(Tensor::from(ids, {std::ssize(ids)}).to(device_), cache_, counts).value();
  }

  /// The same without a cache: every row's whole context, one after the other.
  Tensor full_logits() {
    const Tensor all =
        Tensor::empty({std::ssize(rows_), gpt_.o.vocabulary}, gpt_.wte.weight.dtype(), device_);
    for (size_t i = 0; i < rows_.size(); ++i) {
      const std::vector<int64_t>& context = rows_[i].context;
      const Tensor logits = gpt_(Tensor::from(context, {1, std::ssize(context)}).to(device_)).value();
      all.select(0, static_cast<int64_t>(i)).copy_from(logits.select(1, -1).select(0, 0));
    }
    return all;
  }

  Gpt& gpt_;
  Device device_;
  size_t block_;
  bool use_cache_;
  size_t length_;
  int64_t vocabulary_;
  std::vector<Row> rows_;
  GptCache cache_;
};

}  // namespace

void check(const SamplingOptions& o, int64_t model_vocabulary) {
  require<ConfigError>(o.length >= 0, "sampling: length ", o.length, ": expected 0 or more");
  // Kernels read a number below the smallest normal one as 0.
  require<ConfigError>(o.temperature == 0 || (o.temperature >= std::numeric_limits<double>::min() &&
                                              std::isfinite(o.temperature)),
                       "sampling: temperature ", o.temperature, ": expected 0 or more");
  require<ConfigError>(o.vocabulary >= 0 && o.vocabulary <= model_vocabulary, "sampling: vocabulary ",
                       o.vocabulary, ": expected 0 to the model's ", model_vocabulary);
  const int64_t vocabulary = o.vocabulary > 0 ? o.vocabulary : model_vocabulary;
  require<ConfigError>(o.top_k >= 0 && o.top_k <= vocabulary, "sampling: top_k ", o.top_k,
                       ": expected 0 to the vocabulary's ", vocabulary);
  require<ConfigError>(o.top_p > 0 && o.top_p <= 1, "sampling: top_p ", o.top_p,
                       ": expected above 0, at most 1");
  for (const int64_t id : o.stop_ids)
    require<ConfigError>(id >= 0 && id < vocabulary, "sampling: stop id ", id,
                         ": expected one below the vocabulary's ", vocabulary);
}

std::vector<std::vector<int64_t>> generate(Gpt& gpt, std::span<const std::vector<int64_t>> prompts,
                                           const SamplingOptions& options,
                                           const std::function<void(int64_t row, int64_t id)>& emit) {
  check(options, gpt.o.vocabulary);
  require<ConfigError>(!prompts.empty(), "sampling: there is no prompt");
  for (const std::vector<int64_t>& prompt : prompts)
    require<ConfigError>(!prompt.empty(), "sampling: the prompt is empty; give at least one character");
  const NoGrad no_grad;
  std::optional<PackedWeightScope> packed_weights;
  if (gpt.store() == nullptr) packed_weights.emplace();  // of sharded parameters nothing is kept
  PackedWeightScope::renew();
  gpt.eval();
  Batch batch(gpt, prompts, options);
  std::vector<std::vector<int64_t>> drawn(prompts.size());
  for (int64_t position = 0; position < options.length && !batch.empty(); ++position) {
    const std::vector<int64_t> rows = batch.indices(),
                               ids = draw(batch.next_logits(), options, position, rows);
    for (size_t i = 0; i < ids.size(); ++i) {
      drawn[static_cast<size_t>(rows[i])].push_back(ids[i]);
      if (emit) emit(rows[i], ids[i]);
    }
    batch.append(ids, options.stop_ids);
  }
  return drawn;
}

void sample(Gpt& gpt, std::span<const int64_t> prompt, const SamplingOptions& options,
            const std::function<void(int64_t id)>& emit) {
  const std::vector<int64_t> only(prompt.begin(), prompt.end());
  generate(gpt, std::span(&only, 1), options, [&](int64_t, int64_t id) { emit(id); });
}

}  // namespace tessera::models
